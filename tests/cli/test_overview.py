from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from mannerly.cli import overview as module
from mannerly.cli.assemble import reading
from mannerly.cli.job import scope_text
from mannerly.cli.overview import (
    budget_lines,
    flaw_of,
    host_line,
    journal_size,
    overview,
    settled_lines,
    state_of,
)
from mannerly.cli.reader import Stored, stored_job
from mannerly.cli.report import show
from mannerly.model import url as urls
from mannerly.model.config import BudgetConfig, Config
from mannerly.model.host import Addresses, HostRecord, Pace, QueueState, WaitCause
from mannerly.model.origin import Access, OriginRecord, Ruleset
from mannerly.model.task import UrlState
from mannerly.model.verdict import Reason
from mannerly.policy.scope import Scope, ScopeKind
from mannerly.ports import (
    Admission,
    Batch,
    Counts,
    CrawlRecord,
    HostChange,
    Position,
    Refusal,
    SinkState,
    UrlChange,
    UrlId,
)
from mannerly.store.sqlite import SqliteStore

NOW = 2_000_000_000.0


@pytest.mark.parametrize(
    ("record", "state"),
    [
        (HostRecord(1, "a", waiting=3), "ready"),
        (HostRecord(1, "a", waiting=3, next_ok_at=NOW + 1), "snoozed"),
        (HostRecord(1, "a", waiting=0, next_ok_at=NOW + 1), "exhausted"),
        (HostRecord(1, "a", waiting=3, state=QueueState.PARKED), "parked"),
        (HostRecord(1, "a", waiting=3, state=QueueState.RETIRED), "retired"),
    ],
)
def test_the_state_of_a_host_is_worked_out_from_what_is_stored(record: HostRecord, state: str) -> None:
    assert state_of(record, NOW) == state


def test_why_a_host_waits_is_told_only_while_it_waits() -> None:
    record = HostRecord(1, "a", waiting=1, next_ok_at=NOW + 5, cause=WaitCause.ROBOTS_UNREACHABLE)
    assert (host_line(record, NOW).cause, host_line(record, NOW + 6).cause) == ("robots-unreachable", None)


@pytest.mark.parametrize(
    ("change", "flaw"),
    [
        ({}, ""),
        ({"access": Access.UNREACHABLE}, "unreachable"),
        (
            {"ruleset": Ruleset(suspicious=True, cut=True)},
            "looks like HTML or binary data, longer than is read",
        ),
        ({"ruleset": Ruleset(too_complex=True)}, "too complex"),
        ({"access": Access.UNAVAILABLE, "detail": "status 404"}, ""),
        ({"access": Access.UNAVAILABLE, "detail": "status 403"}, "denied"),
    ],
)
def test_a_robots_txt_worth_a_look_is_one_with_a_flaw(change: dict[str, object], flaw: str) -> None:
    plain = OriginRecord("http://a.test", access=Access.AVAILABLE, ruleset=Ruleset(), detail="status 200")
    assert flaw_of(msgspec.structs.replace(plain, **change)) == flaw


def test_ends_are_listed_by_number_each_with_its_sentence() -> None:
    lines = settled_lines(Counts(settled={"http-error": 2, "fetched": 9, "redirected": 2}))
    assert [(line.result, line.number) for line in lines] == [
        ("fetched", 9),
        ("http-error", 2),
        ("redirected", 2),
    ]
    assert all(line.sentence for line in lines)


def test_the_size_of_the_journal_is_that_of_its_segments(tmp_path: Path) -> None:
    assert journal_size(tmp_path) == (0, 0)
    folder = tmp_path / "journal"
    folder.mkdir()
    (folder / "000001.pages").write_bytes(b"12345")
    (folder / "000002.pages").write_bytes(b"678")
    (folder / "note").write_bytes(b"x")
    assert journal_size(tmp_path) == (8, 2)


async def stored_of(config: Config, batch: Batch) -> Stored:
    store = SqliteStore(":memory:")
    record = await store.open_crawl(
        CrawlRecord(
            id="c1",
            secret=1,
            seeds=("http://h0.test/",),
            scope=scope_text(Scope.of(ScopeKind.ANY, [urls.parse("http://h0.test/")])),
            configuration=msgspec.json.encode(config).decode(),
        )
    )
    await store.commit(batch)
    job = stored_job(record)
    return Stored(Path("nowhere"), record, job, reading.intake(job, record, store), store, pid=None)


async def close(stored: Stored) -> None:
    assert isinstance(stored.store, SqliteStore)
    await stored.store.close()


def admission(host: int, number: int) -> Admission:
    key = f"http://h{host}.test/{number}"
    return Admission(
        host=f"h{host}.test",
        hash=host * 100 + number,
        key=key,
        href=key,
        template=f"/t{number % 2}",
        band=1,
        depth=1,
        budget=99,
    )


async def test_whole_tables_are_gone_over_a_page_of_rows_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ROWS_AT_ONCE", "ORIGINS_AT_ONCE", "HOSTS_SHOWN", "TEMPLATES_SHOWN"):
        monkeypatch.setattr(module, name, 2)
    batch = Batch(
        admissions=[admission(host, number) for host in range(5) for number in range(host + 1)],
        origins=[
            OriginRecord(f"http://h{host}.test", Access.AVAILABLE, Ruleset(sitemaps=(f"/{host}.xml",)))
            for host in range(5)
        ],
        hosts=[
            HostChange(
                name="h3.test",
                state=QueueState.RETIRED,
                next_ok_at=0.0,
                cause=WaitCause.DELAY,
                pace=Pace(failures=20),
                addresses=Addresses(),
                contacted_at=NOW,
                reason=Reason.HOST_RETIRED,
                detail="20 failures in a row",
            )
        ],
        refusals=[Refusal(Reason.NOFOLLOW, "http://h0.test/n", "rel")],
    )
    stored = await stored_of(Config(), batch)
    found = await overview(stored, NOW)
    assert found.hosts_by_state == {"ready": 4, "retired": 1}
    assert [(host.name, host.waiting) for host in found.busiest_hosts] == [("h4.test", 5), ("h2.test", 3)]
    assert [(host.name, host.reason) for host in found.laid_off_hosts] == [("h3.test", "host-retired")]
    assert [line.stored for line in found.templates] == [3, 2]
    assert found.templates[0].host == "h4.test"
    assert found.sitemaps == [f"/{host}.xml" for host in range(5)]
    assert found.robots_by_access == {"available": 5}
    assert [(line.reason, line.number) for line in found.refused] == [("nofollow", 1)]
    await close(stored)


async def test_a_report_shows_strangers_texts_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    bad = "http://h0.test/\x1b[2J[bold]x\u202e"
    batch = Batch(refusals=[Refusal(Reason.NOFOLLOW, bad, "\x07rel")])
    stored = await stored_of(Config(), batch)
    show(await overview(stored, NOW))
    shown = capsys.readouterr().out
    assert "\\x1b[2J[bold]x\\u202e" in shown
    assert not set("\x1b\x07\u202e") & set(shown)
    await close(stored)


async def test_a_sink_behind_the_journal_is_told() -> None:
    stored = await stored_of(Config(), Batch(journal_end=Position(2, 100)))
    store = stored.store
    assert isinstance(store, SqliteStore)
    await store.save_sink(SinkState("jsonl:x", Position(2, 50), ""))
    await store.save_sink(SinkState("csv:y", Position(2, 100), ""))
    record = await store.stored_crawl()
    assert record is not None
    found = await overview(replace(stored, record=record), NOW)
    assert {sink.name: sink.behind for sink in found.sinks} == {"jsonl:x": True, "csv:y": False}
    await store.close()


async def test_a_budget_that_bit_names_its_option() -> None:
    config = Config(budget=BudgetConfig(max_pages=5, max_depth=2, urls_per_seed_host=7))
    stored = await stored_of(config, Batch())
    none = budget_lines(stored, Counts(pages=4))
    lines = budget_lines(
        stored,
        Counts(
            pages=5,
            refused={"max-depth": 3, "host-budget": 4},
            settled={"redirect-chain-too-long": 1},
        ),
    )
    assert none == []
    for line, option in zip(
        lines, ("--max-pages 5", "--max-depth 2", "seed_host = 7", "chain = 10"), strict=True
    ):
        assert option in line
    await close(stored)


async def test_samples_stand_beside_the_ends_they_are_of() -> None:
    stored = await stored_of(Config(), Batch(admissions=[admission(0, number) for number in range(6)]))
    store = stored.store
    assert isinstance(store, SqliteStore)
    host = await store.host("h0.test")
    assert host is not None
    changes = [
        UrlChange(UrlId(host.id, number), UrlState.FAILED, Reason.HTTP_ERROR, f"HTTP 40{number}")
        for number in range(5)
    ]
    await store.commit(Batch(urls=changes))
    (line,) = (await overview(stored, NOW)).settled
    assert (line.result, line.number, len(line.samples)) == ("http-error", 5, module.SAMPLES_SHOWN)
    assert line.samples[0].evidence == "HTTP 400"
    await store.close()
