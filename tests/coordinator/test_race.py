"""Six claimants and one host that nobody has seen: store and gate together."""

from __future__ import annotations

import asyncio
from pathlib import Path

from mannerly.gate.memory import MemoryGate
from mannerly.model.entry import Admission, Admitted
from mannerly.ports import Batch, Claim, CrawlRecord, Permit, Wait
from mannerly.store.sqlite import SqliteStore
from mannerly.testing import ManualClock

CLAIMANTS = 6
SHARED = 99


def admission(hash_: int) -> Admission:
    key = f"http://new.test/{hash_}"
    return Admission(
        host="new.test", hash=hash_, key=key, href=key, template="/{n}", band=1, depth=1, budget=100
    )


async def test_i2_a_race_for_a_new_host_gives_one_permit_one_row_and_loses_no_url(tmp_path: Path) -> None:
    store, gate = SqliteStore(tmp_path / "state.sqlite"), MemoryGate(ManualClock())
    await store.open_crawl(CrawlRecord("c", 1, ("http://new.test/",), "host", "{}"))
    start = asyncio.Barrier(CLAIMANTS)

    async def claimant(number: int) -> tuple[int, list[Admitted], Permit | Wait]:
        await start.wait()
        host = await store.ensure_host("new.test")
        committed = await store.commit(Batch(admissions=[admission(number), admission(SHARED)]))
        answer = await gate.claim(
            Claim(host=host.name, address="192.0.2.1", group="192.0.2.1", lease_s=60, delay_s=1)
        )
        return host.id, committed.admitted, answer

    came = await asyncio.gather(*(claimant(number) for number in range(CLAIMANTS)))
    assert len({id_ for id_, _, _ in came}) == 1
    answers = [answer for _, _, answer in came]
    assert [type(answer) for answer in answers].count(Permit) == 1
    assert [type(answer) for answer in answers].count(
        Wait
    ) == CLAIMANTS - 1  # told until when, never an error
    own, shared = zip(*(admitted for _, admitted, _ in came), strict=True)
    assert set(own) == {Admitted.NEW}
    assert sorted(shared) == sorted([Admitted.NEW, *[Admitted.SEEN] * (CLAIMANTS - 1)])
    (row,) = await store.hosts()
    assert (row.name, row.waiting) == ("new.test", CLAIMANTS + 1)
    window = await store.window(row.id, limit=100, now=0, exclude=frozenset())
    assert {entry.id.hash for entry in window.urls} == {*range(CLAIMANTS), SHARED}
    await store.close()
