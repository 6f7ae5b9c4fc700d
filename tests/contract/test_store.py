"""The contract of StateStore, on every adapter. A new adapter joins by a row in `ADAPTERS`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from mannerly.model.errors import ConfigRefused
from mannerly.model.host import Addresses, Pace, QueueState, WaitCause
from mannerly.model.origin import Access, OriginRecord, Ruleset
from mannerly.model.task import UrlState
from mannerly.model.verdict import Reason
from mannerly.ports import (
    Admission,
    Admitted,
    Batch,
    CrawlRecord,
    Damage,
    HostChange,
    PageRow,
    Position,
    Refusal,
    SinkState,
    StateStore,
    UrlChange,
    UrlId,
)
from mannerly.store.sqlite import SqliteStore

ADAPTERS: dict[str, Callable[[Path], StateStore]] = {
    "sqlite-file": lambda folder: SqliteStore(folder / "state.db"),
    "sqlite-memory": lambda _: SqliteStore(":memory:"),
}
BIG = (1 << 64) - 1


@pytest.fixture(params=list(ADAPTERS))
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[StateStore]:
    made = ADAPTERS[request.param](tmp_path)
    yield made
    await made.close()


CRAWL = CrawlRecord(
    id="c1", secret=BIG, seeds=("https://a.test/", "https://b.test/"), scope="host", configuration="{}"
)


def admission(hash_: int, host: str = "a.test", **changes: object) -> Admission:
    plain = Admission(
        host=host,
        hash=hash_,
        key=f"https://{host}/{hash_}",
        href=f"https://{host}/{hash_}",
        template="/{n}",
        band=1,
        depth=1,
        budget=1_000,
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


def page(id_: UrlId, frame: int = -1, **changes: object) -> PageRow:
    plain = PageRow(id_, 200, 5.0, "b" * 64, "t" * 64, BIG, '"e"', "Mon", frame)
    return replace(plain, **changes)  # type: ignore[arg-type]


def host_change(name: str, **changes: object) -> HostChange:
    plain = HostChange(name, QueueState.READY, 0.0, WaitCause.DELAY, Pace(), Addresses(), 0.0)
    return replace(plain, **changes)  # type: ignore[arg-type]


async def admit(store: StateStore, *admissions: Admission) -> list[Admitted]:
    return (await store.commit(Batch(admissions=list(admissions)))).admitted


async def host_id(store: StateStore, name: str = "a.test") -> int:
    return (await store.ensure_host(name)).id


async def window_hashes(store: StateStore, *, limit: int = 100, now: float = 0.0) -> list[int]:
    window = await store.window(await host_id(store), limit=limit, now=now, exclude=frozenset())
    return [url.id.hash for url in window.urls]


# ------------------------------------------------------------------------------------------------------- the crawl


async def test_crawl_is_created_once_and_found_again(store: StateStore) -> None:
    created = await store.open_crawl(CRAWL)
    assert created == replace(CRAWL, generation=1)
    await store.close_crawl(finished=True)
    found = await store.open_crawl(replace(CRAWL, id="c2", secret=1, configuration='{"delay": 2}'))
    assert found == replace(CRAWL, generation=2, finished=True)
    await store.close_crawl(finished=False)
    assert (await store.open_crawl(CRAWL)).configuration == '{"delay": 2}'


async def test_a_run_that_was_not_closed_is_unclean(store: StateStore) -> None:
    await store.open_crawl(CRAWL)
    assert (await store.open_crawl(CRAWL)).unclean
    await store.close_crawl(finished=False)
    assert not (await store.open_crawl(CRAWL)).unclean


@pytest.mark.parametrize(
    ("wanted", "named"),
    [
        (replace(CRAWL, seeds=("https://c.test/",)), ("https://a.test/", "https://c.test/")),
        (replace(CRAWL, scope="domain"), ("host", "domain")),
    ],
)
async def test_other_seeds_or_scope_are_refused_naming_both(
    store: StateStore, wanted: CrawlRecord, named: tuple[str, str]
) -> None:
    await store.open_crawl(CRAWL)
    await store.close_crawl(finished=False)
    with pytest.raises(ConfigRefused) as refused:
        await store.open_crawl(wanted)
    assert all(name in str(refused.value) for name in named)
    assert refused.value.hint
    assert not (await store.open_crawl(CRAWL)).unclean  # the refused attempt left no mark


async def test_order_of_seeds_does_not_matter(store: StateStore) -> None:
    await store.open_crawl(CRAWL)
    assert (await store.open_crawl(replace(CRAWL, seeds=CRAWL.seeds[::-1]))).id == "c1"


async def test_a_crawl_with_urls_waiting_is_not_finished(store: StateStore) -> None:
    await store.open_crawl(CRAWL)
    await store.close_crawl(finished=True)
    await admit(store, admission(1))
    assert not (await store.open_crawl(CRAWL)).finished


async def test_joined_scope_and_journal_end_come_with_the_crawl(store: StateStore) -> None:
    await store.open_crawl(CRAWL)
    end = Position(3, 77)
    await store.commit(Batch(joined_scope=["www.a.test", "a.test", "www.a.test"], journal_end=end))
    found = await store.open_crawl(CRAWL)
    assert found.joined == ("a.test", "www.a.test")
    assert found.journal_end == end


# ------------------------------------------------------------------------------------------------------- admission


async def test_a_url_is_admitted_once(store: StateStore) -> None:
    assert await admit(store, admission(7), admission(8), admission(7)) == [0, 0, 1]
    assert await admit(store, admission(8, href="https://a.test/8?other")) == [Admitted.SEEN]
    found = await store.find("a.test", 8)
    assert found is not None
    assert found.href == "https://a.test/8"  # the first spelling wins


@pytest.mark.parametrize("hash_", [0, 1, (1 << 63) - 1, 1 << 63, BIG])
async def test_every_64_bit_hash_comes_back_as_given(store: StateStore, hash_: int) -> None:
    await admit(store, admission(hash_))
    found = await store.find("a.test", hash_)
    assert found is not None
    assert found.id.hash == hash_
    assert await window_hashes(store) == [hash_]
    assert await store.known([("a.test", hash_), ("a.test", 12), ("b.test", hash_)]) == [True, False, False]


async def test_the_same_hash_on_another_host_is_another_url(store: StateStore) -> None:
    assert await admit(store, admission(1), admission(1, "b.test")) == [Admitted.NEW, Admitted.NEW]


async def test_what_was_admitted_is_found(store: StateStore) -> None:
    await admit(store, admission(1, href="https://a.test/1?as=found", key="https://a.test/1"))
    via = UrlId(await host_id(store), 1)
    child = admission(
        2, via=via, chain=("https://a.test/x", "https://a.test/ü"), depth=3, band=3, template="/é"
    )
    await admit(store, child)
    found = await store.find("a.test", 2)
    assert found is not None
    assert (found.via, found.chain, found.depth, found.band) == (
        "https://a.test/1?as=found",
        ("https://a.test/x", "https://a.test/ü"),
        3,
        3,
    )
    assert (found.template, found.state, found.status) == ("/é", UrlState.WAITING, None)
    assert await store.find("a.test", 3) is None
    assert await store.find("nowhere.test", 1) is None


async def test_seed_marks_the_url_and_its_host(store: StateStore) -> None:
    await admit(store, admission(1), admission(2, seed=True, schemeless=True))
    window = await store.window(await host_id(store), limit=9, now=0, exclude=frozenset())
    assert [(u.id.hash, u.seed, u.schemeless) for u in window.urls] == [(1, False, False), (2, True, True)]
    host = await store.host("a.test")
    assert host is not None
    assert host.seed


async def test_i8_a_host_over_its_budget_takes_no_more_and_says_so(store: StateStore) -> None:
    verdicts = await admit(store, *(admission(n, budget=3) for n in (1, 2, 1, 3, 4, 2, 5)))
    assert verdicts == [0, 0, 1, 0, 2, 1, 2]
    host = await store.host("a.test")
    assert host is not None
    assert host.stored == 3
    assert (await store.counts()).refused == {Reason.HOST_BUDGET: 2}
    samples = await store.refusals(Reason.HOST_BUDGET)
    assert [s.url for s in samples] == ["https://a.test/4", "https://a.test/5"]
    assert "3" in samples[0].evidence
    assert await admit(store, admission(4, budget=4)) == [Admitted.NEW]  # a raised budget lets in


async def test_hosts_that_got_urls_to_fetch_are_told(store: StateStore) -> None:
    done = await store.commit(Batch(admissions=[admission(1), admission(2, "b.test")]))
    assert sorted(done.wakened) == ["a.test", "b.test"]
    assert (await store.commit(Batch(admissions=[admission(1)]))).wakened == []
    parked = host_change("a.test", state=QueueState.PARKED)
    assert (await store.commit(Batch(hosts=[parked], admissions=[admission(3)]))).wakened == []


async def test_race_six_claimants_of_one_new_host_get_one_row(store: StateStore) -> None:
    records = await asyncio.gather(*(store.ensure_host("new.test", seed=n == 3) for n in range(6)))
    assert len({record.id for record in records}) == 1
    assert (await store.counts()).hosts == 1
    host = await store.host("new.test")
    assert host is not None
    assert host.seed


async def test_race_claimants_that_admit_to_one_new_host_lose_nothing(store: StateStore) -> None:
    batches = [Batch(admissions=[admission(n), admission(100)]) for n in range(6)]
    done = await asyncio.gather(*(store.commit(batch) for batch in batches))
    assert sum(d.admitted.count(Admitted.NEW) for d in done) == 7
    assert sorted(await window_hashes(store)) == [0, 1, 2, 3, 4, 5, 100]


async def test_a_batch_that_fails_leaves_nothing(store: StateStore) -> None:
    bad = Batch(admissions=[admission(1)], pages=[page(UrlId(1, 1), frame=5)])  # there is no position 5
    with pytest.raises(IndexError):
        await store.commit(bad)
    assert await store.host("a.test") is None
    assert (await store.counts()).stored == 0
    assert await admit(store, admission(1)) == [Admitted.NEW]


# ---------------------------------------------------------------------------------------------------------- states


async def test_a_settled_url_stays_settled(store: StateStore) -> None:
    await admit(store, admission(1))
    id_ = UrlId(await host_id(store), 1)
    await store.commit(Batch(urls=[UrlChange(id_, UrlState.FAILED, Reason.GAVE_UP, "timeout")]))
    await store.commit(Batch(urls=[UrlChange(id_, UrlState.WAITING), UrlChange(id_, UrlState.FETCHED)]))
    found = await store.find("a.test", 1)
    assert found is not None
    assert (found.state, found.reason, found.detail) == (UrlState.FAILED, Reason.GAVE_UP, "timeout")
    counts = await store.counts()
    assert (counts.waiting, counts.settled) == (0, {Reason.GAVE_UP: 1})


async def test_a_change_of_an_unknown_url_changes_nothing(store: StateStore) -> None:
    done = await store.commit(Batch(urls=[UrlChange(UrlId(99, 1), UrlState.FETCHED)]))
    assert done.wakened == []
    assert (await store.counts()).settled == {}


async def test_a_delayed_url_comes_when_it_is_due_and_first(store: StateStore) -> None:
    await admit(store, admission(1), admission(2))
    id_ = UrlId(await host_id(store), 2)
    change = UrlChange(id_, UrlState.DELAYED, due_at=50.0, attempts=1, uncounted=2, respelled=1)
    assert (await store.commit(Batch(urls=[change]))).wakened == ["a.test"]
    assert await window_hashes(store, now=49.0) == [1]
    assert await window_hashes(store, now=50.0) == [2, 1]
    window = await store.window(id_.host_id, limit=1, now=50.0, exclude=frozenset())
    assert [(u.attempts, u.uncounted, u.respelled) for u in window.urls] == [(1, 2, 1)]


async def test_only_delayed_urls_left_tells_when_the_first_is_due(store: StateStore) -> None:
    await admit(store, admission(1), admission(2))
    id_ = await host_id(store)
    delayed = [UrlChange(UrlId(id_, n), UrlState.DELAYED, due_at=40.0 + n) for n in (1, 2)]
    await store.commit(Batch(urls=delayed))
    window = await store.window(id_, limit=9, now=0.0, exclude=frozenset())
    assert (window.urls, window.next_due_at, window.more) == ([], 41.0, False)
    window = await store.window(id_, limit=9, now=0.0, exclude=frozenset({1}))
    assert window.next_due_at == 42.0
    window = await store.window(id_, limit=9, now=41.0, exclude=frozenset())
    assert ([u.id.hash for u in window.urls], window.next_due_at) == ([1], None)


async def test_a_new_spelling_is_kept(store: StateStore) -> None:
    await admit(store, admission(1))
    id_ = UrlId(await host_id(store), 1)
    await store.commit(Batch(urls=[UrlChange(id_, UrlState.WAITING, href="https://a.test/1?x", respelled=1)]))
    await store.commit(Batch(urls=[UrlChange(id_, UrlState.WAITING)]))
    found = await store.find("a.test", 1)
    assert found is not None
    assert found.href == "https://a.test/1?x"


async def test_urls_are_listed_by_state(store: StateStore) -> None:
    await admit(store, *(admission(n) for n in (5, 4, 3, 2)))
    id_ = await host_id(store)
    await store.commit(Batch(urls=[UrlChange(UrlId(id_, n), UrlState.REFUSED) for n in (2, 4)]))
    assert [u.id.hash for u in await store.urls(state=UrlState.REFUSED)] == [4, 2]  # the older first
    assert [u.id.hash for u in await store.urls(state=UrlState.REFUSED, limit=1)] == [4]
    assert {u.id.hash for u in await store.urls(state=UrlState.WAITING)} == {5, 3}
    assert await store.urls(state=UrlState.DELAYED) == []


# ----------------------------------------------------------------------------------------------------------- pages


async def test_a_page_is_counted_once_and_the_first_stands(store: StateStore) -> None:
    await admit(store, admission(1))
    id_ = UrlId(await host_id(store), 1)
    change = UrlChange(id_, UrlState.FETCHED)
    await store.commit(Batch(urls=[change], pages=[page(id_)]))
    await store.commit(Batch(urls=[change], pages=[page(id_, status=404)]))
    found = await store.find("a.test", 1)
    assert found is not None
    assert (found.status, found.fetched_at) == (200, 5.0)
    host = await store.host("a.test")
    assert host is not None
    assert (host.pages, host.waiting, host.stored) == (1, 0, 1)
    counts = await store.counts()
    assert (counts.pages, counts.settled) == (1, {"fetched": 1})


async def test_i5_urls_of_damaged_frames_wait_again(store: StateStore) -> None:
    await admit(store, *(admission(n) for n in range(4)))
    ids = [UrlId(await host_id(store), n) for n in range(4)]
    places = [Position(1, 32), Position(1, 80), Position(1, 120), Position(2, 32)]
    await store.commit(
        Batch(
            urls=[UrlChange(id_, UrlState.FETCHED) for id_ in ids],
            pages=[page(id_, frame=n) for n, id_ in enumerate(ids)],
            positions=places,
        )
    )
    lost = [Damage(Position(1, 80), Position(2, 32))]
    assert await store.wait_again(lost) == 2
    assert await store.wait_again(lost) == 0
    assert sorted(await window_hashes(store)) == [1, 2]
    counts = await store.counts()
    assert (counts.pages, counts.waiting, counts.settled) == (2, 2, {"fetched": 2})
    await store.commit(Batch(urls=[UrlChange(ids[1], UrlState.FETCHED)], pages=[page(ids[1])]))
    assert (await store.counts()).pages == 3


async def test_i5_a_url_whose_error_page_is_damaged_waits_again(store: StateStore) -> None:
    await admit(store, admission(1), admission(2))
    ids = [UrlId(await host_id(store), n) for n in (1, 2)]
    await store.commit(
        Batch(
            urls=[UrlChange(id_, UrlState.FAILED, Reason.HTTP_ERROR, "HTTP 404", attempts=1) for id_ in ids],
            pages=[page(ids[0], frame=0, status=404)],
            positions=[Position(1, 32)],
        )
    )
    assert await store.wait_again([Damage(Position(1, 32), Position(1, 80))]) == 1
    assert await window_hashes(store) == [1]
    counts = await store.counts()
    assert (counts.pages, counts.waiting, counts.settled) == (0, 1, {"http-error": 1})


# ---------------------------------------------------------------------------------------------------------- window


async def test_bands_ascend_and_inside_a_template_depth_comes_before_age(store: StateStore) -> None:
    await admit(
        store,
        admission(1, band=2, depth=2),
        admission(2, band=1, depth=5),
        admission(3, band=1, depth=4),
        admission(4, band=1, depth=4),
        admission(5, band=0, depth=0),
    )
    assert await window_hashes(store) == [5, 3, 4, 2, 1]


async def test_templates_take_turns(store: StateStore) -> None:
    urls = [admission(n, template=f"/t{n % 3}") for n in range(9)]
    await admit(store, *sorted(urls, key=lambda a: a.template))
    turns = [n % 3 for n in await window_hashes(store)]
    assert turns[:3] == turns[3:6] == turns[6:]
    assert sorted(turns[:3]) == [0, 1, 2]


async def test_a_small_template_does_not_cut_the_window_short(store: StateStore) -> None:
    big = [admission(n, template="/big") for n in range(90)]
    await admit(store, *big, admission(100, template="/small"))
    assert sorted(await window_hashes(store)) == [*range(90), 100]
    assert 100 in (await window_hashes(store))[:2]


@pytest.mark.slow
async def test_ten_thousand_templates_all_get_their_turn(store: StateStore) -> None:
    templates = 10_000
    await admit(store, *(admission(n, template=f"/t{n}", budget=10**6) for n in range(templates)))
    id_ = await host_id(store)
    seen: set[int] = set()
    for _ in range(templates // 64 + 1):
        window = await store.window(id_, limit=64, now=0.0, exclude=frozenset())
        seen.update(u.id.hash for u in window.urls)
    assert len(seen) == templates


async def test_a_band_that_fills_the_window_leaves_room_for_those_below(store: StateStore) -> None:
    bands = [admission(1_000 * band + n, band=band) for band in (1, 2, 3) for n in range(100)]
    await admit(store, *bands, admission(1, band=0))
    found = await window_hashes(store, limit=70)
    assert len(found) == 70
    by_band = [sum(1 for n in found if n // 1_000 == band) for band in range(4)]
    assert by_band[0] == 1
    assert by_band[1] > by_band[2] > by_band[3] > 0


async def test_a_window_leaves_out_what_is_in_flight(store: StateStore) -> None:
    await admit(store, *(admission(n, template=f"/{n % 2}") for n in range(6)))
    id_ = await host_id(store)
    window = await store.window(id_, limit=9, now=0.0, exclude=frozenset({0, 2, 4, 5}))
    assert sorted(u.id.hash for u in window.urls) == [1, 3]
    assert not window.more
    window = await store.window(id_, limit=9, now=0.0, exclude=frozenset(range(6)))
    assert (window.urls, window.more, window.next_due_at) == ([], False, None)


async def test_more_is_told_exactly(store: StateStore) -> None:
    await admit(store, *(admission(n, band=n % 4, template=f"/{n % 5}") for n in range(40)))
    id_ = await host_id(store)
    for limit, more in ((1, True), (39, True), (40, False), (41, False)):
        window = await store.window(id_, limit=limit, now=0.0, exclude=frozenset())
        assert (len(window.urls), window.more) == (min(limit, 40), more)


async def test_many_due_urls_leave_half_of_the_window_to_the_rest(store: StateStore) -> None:
    await admit(store, *(admission(n) for n in range(60)))
    id_ = await host_id(store)
    await store.commit(Batch(urls=[UrlChange(UrlId(id_, n), UrlState.DELAYED, due_at=1) for n in range(30)]))
    found = await window_hashes(store, limit=20, now=2.0)
    assert [n < 30 for n in found] == [True] * 10 + [False] * 10


async def test_an_empty_host_has_an_empty_window(store: StateStore) -> None:
    window = await store.window(await host_id(store), limit=9, now=0.0, exclude=frozenset())
    assert (window.urls, window.next_due_at, window.more) == ([], None, False)


# ----------------------------------------------------------------------------------------------------------- hosts


async def test_what_is_known_of_a_host_comes_back(store: StateStore) -> None:
    change = host_change(
        "a.test",
        state=QueueState.RETIRED,
        next_ok_at=1e9 + 0.25,
        cause=WaitCause.RETRY_AFTER,
        pace=Pace(2.5, 10.0, 6, 20),
        addresses=Addresses(("192.0.2.1", "2001:db8::1"), 77.5),
        contacted_at=12.5,
        reason=Reason.HOST_RETIRED,
        detail="20 failures",
    )
    await store.commit(Batch(hosts=[change]))
    host = await store.host("a.test")
    assert host is not None
    for name in ("state", "next_ok_at", "cause", "pace", "addresses", "contacted_at", "reason", "detail"):
        assert getattr(host, name) == getattr(change, name)


@pytest.mark.parametrize("state", [QueueState.IN_PROCESS, QueueState.SNOOZED, QueueState.EXHAUSTED])
async def test_states_of_memory_are_stored_as_ready(store: StateStore, state: QueueState) -> None:
    await store.commit(Batch(hosts=[host_change("a.test", state=state)]))
    host = await store.host("a.test")
    assert host is not None
    assert host.state is QueueState.READY


async def test_ready_hosts_have_urls_waiting_and_come_soonest_first(store: StateStore) -> None:
    await admit(
        store, *(admission(1, name) for name in ("late.test", "soon.test", "parked.test", "done.test"))
    )
    done = UrlId(await host_id(store, "done.test"), 1)
    await store.commit(
        Batch(
            hosts=[
                host_change("late.test", next_ok_at=200.0),
                host_change("soon.test", next_ok_at=100.0),
                host_change("parked.test", state=QueueState.PARKED),
                host_change("idle.test"),
            ],
            urls=[UrlChange(done, UrlState.FETCHED)],
        )
    )
    names = [h.name for h in await store.ready_hosts(limit=9, exclude=frozenset())]
    assert names == ["soon.test", "late.test"]
    names = [h.name for h in await store.ready_hosts(limit=1, exclude=frozenset({"soon.test"}))]
    assert names == ["late.test"]


async def test_hosts_that_wait_politely_are_found_behind_those_in_back_off(store: StateStore) -> None:
    names = ("backoff.test", "delayed.test", "dns.test", "later.test", "slow.test")
    await admit(store, *(admission(n, name) for n, name in enumerate(names)))
    causes = (WaitCause.BACKOFF, WaitCause.DELAY, WaitCause.DNS, WaitCause.DELAY, WaitCause.PREREQUISITE)
    oks = (10.0, 15.0, 20.0, 40.0, 30.0)
    changes = [
        host_change(name, next_ok_at=ok_at, cause=cause)
        for name, ok_at, cause in zip(names, oks, causes, strict=True)
    ]
    delayed = UrlChange(UrlId(await host_id(store, "delayed.test"), 1), UrlState.DELAYED, due_at=99.0)
    await store.commit(Batch(hosts=changes, urls=[delayed]))
    found = await store.ready_hosts(limit=9, exclude=frozenset(), polite=True)
    assert [host.name for host in found] == ["slow.test", "later.test"]
    assert not any(host.waits_for.counts for host in found)
    others = await store.ready_hosts(limit=9, exclude=frozenset(host.name for host in found))
    assert {host.name: host.waits_for for host in others} == {
        "backoff.test": WaitCause.BACKOFF,
        "delayed.test": WaitCause.RETRY_SPACING,
        "dns.test": WaitCause.DNS,
    }


async def test_a_host_with_only_delayed_urls_does_not_stand_in_the_way(store: StateStore) -> None:
    await admit(store, admission(1, "delayed.test"), admission(1, "ready.test"))
    id_ = UrlId(await host_id(store, "delayed.test"), 1)
    await store.commit(
        Batch(
            urls=[UrlChange(id_, UrlState.DELAYED, due_at=300.0)],
            hosts=[host_change("ready.test", next_ok_at=100.0)],
        )
    )
    names = [h.name for h in await store.ready_hosts(limit=9, exclude=frozenset())]
    assert names == ["ready.test", "delayed.test"]


async def test_parked_and_retired_hosts_are_revived_but_wait_on(store: StateStore) -> None:
    await admit(store, admission(1), admission(1, "b.test"))
    retired = host_change(
        "a.test", state=QueueState.RETIRED, next_ok_at=500.0, pace=Pace(failures=20, overloads=3)
    )
    await store.commit(Batch(hosts=[retired, host_change("b.test", state=QueueState.PARKED)]))
    assert await store.ready_hosts(limit=9, exclude=frozenset()) == []
    assert await store.revive_hosts() == 2
    hosts = {h.name: h for h in await store.ready_hosts(limit=9, exclude=frozenset())}
    assert set(hosts) == {"a.test", "b.test"}
    assert hosts["a.test"].next_ok_at == 500.0
    assert (hosts["a.test"].pace.failures, hosts["a.test"].pace.overloads) == (0, 3)


async def test_a_new_run_counts_the_failures_of_unreachable_origins_from_nought(store: StateStore) -> None:
    copy = Ruleset(((False, "/x"),))
    gone = OriginRecord("https://a.test", Access.UNREACHABLE, copy, 1.0, 2.0, 9.0, "503", 4)
    fine = OriginRecord("https://b.test", Access.AVAILABLE, copy, 1.0, 2.0, 9.0, "status 200")
    await store.commit(Batch(origins=[gone, fine]))
    await store.revive_hosts()
    assert await store.origin("https://a.test") == msgspec.structs.replace(gone, failures=0)
    assert await store.origin("https://b.test") == fine


async def test_hosts_are_listed_most_waiting_first(store: StateStore) -> None:
    await store.ensure_host("idle.test")
    await admit(store, admission(1), admission(1, "b.test"), admission(2, "b.test"))
    assert [(h.name, h.waiting) for h in await store.hosts()] == [
        ("b.test", 2),
        ("a.test", 1),
        ("idle.test", 0),
    ]
    assert len(await store.hosts(limit=1)) == 1


# ------------------------------------------------------------------------------------- origins, refusals, sinks, seen


async def test_what_robots_txt_came_to_is_kept(store: StateStore) -> None:
    assert await store.origin("https://a.test") is None
    first = OriginRecord(
        "https://a.test", Access.AVAILABLE, Ruleset(((False, "/x"),)), 1.0, 2.0, 3.0, "200", 0
    )
    second = OriginRecord("https://a.test", Access.UNREACHABLE, first.ruleset, 1.0, 2.0, 9.0, "503", 4)
    await store.commit(Batch(origins=[first]))
    assert await store.origin("https://a.test") == first
    await store.commit(Batch(origins=[second]))
    assert await store.origin("https://a.test") == second


async def test_i8_refusals_are_counted_and_a_hundred_of_each_reason_kept(store: StateStore) -> None:
    out = [Refusal(Reason.OUT_OF_SCOPE, f"https://x.test/{n % 150}", "host x.test") for n in range(300)]
    deep = [Refusal(Reason.MAX_DEPTH, "https://a.test/deep", "depth 9")] * 3
    await store.commit(Batch(refusals=out[:90] + deep))
    await store.commit(Batch(refusals=out[90:]))
    assert (await store.counts()).refused == {Reason.OUT_OF_SCOPE: 300, Reason.MAX_DEPTH: 3}
    samples = await store.refusals(Reason.OUT_OF_SCOPE, limit=1_000)
    assert len(samples) == len({s.url for s in samples}) == 100
    assert await store.refusals(Reason.MAX_DEPTH) == deep[:1]
    assert len(await store.refusals(Reason.OUT_OF_SCOPE, limit=7)) == 7


async def test_i9_a_refused_url_is_not_stored(store: StateStore) -> None:
    await store.commit(Batch(refusals=[Refusal(Reason.EXCLUDED, "https://a.test/1")]))
    assert (await store.counts()).stored == 0


async def test_a_sink_is_found_where_it_was_left(store: StateStore) -> None:
    assert await store.sink("pages.jsonl") is None
    for state in (
        SinkState("pages.jsonl", Position(1, 32), "100"),
        SinkState("pages.jsonl", Position(2, 9), ""),
    ):
        await store.save_sink(state)
        assert await store.sink("pages.jsonl") == state


async def test_all_hashes_are_read_in_parts(store: StateStore) -> None:
    hashes = [0, 5, 1 << 63, BIG, 17]
    await admit(store, *(admission(n) for n in hashes), admission(5, "b.test"))
    found: list[UrlId] = []
    while part := await store.seen_hashes(found[-1] if found else None, limit=2):
        assert len(part) <= 2
        found += part
    assert len(found) == len(set(found)) == 6
    assert sorted(u.hash for u in found) == sorted([*hashes, 5])


async def test_calls_are_applied_in_the_order_they_were_made(store: StateStore) -> None:
    commits = [asyncio.ensure_future(store.commit(Batch(admissions=[admission(n)]))) for n in range(20)]
    counts = asyncio.ensure_future(store.counts())
    again = asyncio.ensure_future(store.commit(Batch(admissions=[admission(3)])))
    await asyncio.gather(*commits, counts, again)
    assert counts.result().stored == 20
    assert again.result().admitted == [Admitted.SEEN]
    assert await window_hashes(store) == list(range(20))


async def test_a_call_is_carried_out_though_its_caller_is_cancelled(store: StateStore) -> None:
    calls = [asyncio.ensure_future(store.commit(Batch(admissions=[admission(n)]))) for n in range(5)]
    await asyncio.sleep(0)
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)
    assert (await store.counts()).stored == 5


async def test_closing_finishes_what_was_asked_and_may_be_repeated(store: StateStore) -> None:
    call = asyncio.ensure_future(store.commit(Batch(admissions=[admission(1)])))
    await asyncio.sleep(0)
    await store.close()
    await store.close()
    assert (await call).admitted == [Admitted.NEW]
