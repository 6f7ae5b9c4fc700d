"""What only the SQLite adapter can show: kills, full disks, foreign files, counters, plans of its queries."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from mannerly.model.errors import DiskFull, StateDamaged, StateInUse
from mannerly.model.task import UrlState
from mannerly.model.verdict import Reason
from mannerly.ports import (
    Admission,
    Admitted,
    Batch,
    CrawlRecord,
    Damage,
    PageRow,
    Position,
    UrlChange,
    UrlId,
)
from mannerly.store import commit, connection, reads, rows, window
from mannerly.store.sqlite import SqliteStore

SOURCE = Path(__file__).resolve().parents[2] / "src"


def admission(host: str, hash_: int, **changes: Any) -> Admission:
    key = f"https://{host}/{hash_}"
    fields = {
        "template": f"/t{hash_ % 3}",
        "band": hash_ % 4,
        "depth": hash_ % 5,
        "budget": 10_000,
        **changes,
    }
    return Admission(host=host, hash=hash_, key=key, href=key, **fields)


# ------------------------------------------------------------------------------------------------------ nothing lost

WRITER = """
import asyncio, sys
from mannerly.ports import *
from mannerly.store.sqlite import SqliteStore

async def run():
    store = SqliteStore(sys.argv[1])
    await store.open_crawl(CrawlRecord("c", 1, ("s",), "host", "{}"))
    start = int(sys.argv[2])
    ids = {}
    for n in range(start, start + 100_000):
        admissions = [
            Admission(f"h{i % 7}.test", n * 100 + i, f"k{n}-{i}", f"k{n}-{i}", f"/t{i % 5}", i % 4, 1, 10**9)
            for i in range(100)
        ]
        done = await store.commit(Batch(admissions=admissions, journal_end=Position(1, n)))
        assert done.admitted.count(0) == 100
        print(n, flush=True)

asyncio.run(run())
"""


@pytest.mark.slow
def test_i5_kill_9_amid_commits_leaves_whole_batches(tmp_path: Path) -> None:
    path, chance, start = tmp_path / "state.db", random.Random(3), 0
    for _ in range(4):
        child = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), str(start)],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
        )
        assert child.stdout is not None
        told = start - 1
        for _ in range(chance.randrange(1, 40)):
            told = int(child.stdout.readline())
        child.send_signal(signal.SIGKILL)
        rest, _ = child.communicate()
        told = int(rest.split(b"\n")[-2]) if b"\n" in rest else told

        raw = sqlite3.connect(path)
        assert raw.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        [(stored, distinct, committed)] = raw.execute(
            'SELECT count(*), count(DISTINCT "key"), (SELECT "offset" FROM crawl) FROM url'
        ).fetchall()
        assert committed in (told, told + 1)  # killed after the commit, before it could say so
        assert stored == distinct == 100 * (committed + 1)
        check_counters(raw)
        raw.close()
        start = committed + 1


def check_counters(raw: sqlite3.Connection) -> None:
    """Every counter equals the rows it counts."""
    wrong = raw.execute(
        "SELECT name FROM host h WHERE stored <> (SELECT count(*) FROM url WHERE host_id = h.id) "
        "OR waiting <> (SELECT count(*) FROM url WHERE host_id = h.id AND state IN (0, 1)) "
        "OR pages <> (SELECT count(*) FROM page WHERE host_id = h.id)"
    ).fetchall()
    assert wrong == []
    wrong = raw.execute(
        "SELECT pattern FROM template t WHERE stored <> "
        "(SELECT count(*) FROM url WHERE host_id = t.host_id AND template = t.id) OR fetched <> "
        "(SELECT count(*) FROM url WHERE host_id = t.host_id AND template = t.id AND state = 2)"
    ).fetchall()
    assert wrong == []
    counts = reads.counts(raw)
    for name, query in {
        "stored": "SELECT count(*) FROM url",
        "waiting": "SELECT count(*) FROM url WHERE state IN (0, 1)",
        "pages": "SELECT count(*) FROM page",
        "hosts": "SELECT count(*) FROM host",
    }.items():
        assert getattr(counts, name) == raw.execute(query).fetchone()[0], name
    assert sum(counts.settled.values()) == counts.stored - counts.waiting


class CountersMachine(RuleBasedStateMachine):
    """Any order of calls: counters equal rows, nothing is admitted twice, no settled URL changes."""

    hosts = st.sampled_from(["a.test", "b.test"])
    hashes = st.integers(0, 12)

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.store = SqliteStore(":memory:")
        self.states: dict[tuple[str, int], UrlState] = {}
        self.frames = 0

    def teardown(self) -> None:
        self.loop.run_until_complete(self.store.close())
        self.loop.close()

    def id_of(self, host: str, hash_: int) -> UrlId:
        return UrlId(self.loop.run_until_complete(self.store.ensure_host(host)).id, hash_)

    @rule(urls=st.lists(st.tuples(hosts, hashes), max_size=8), budget=st.integers(1, 8))
    def admit(self, urls: list[tuple[str, int]], budget: int) -> None:
        batch = Batch(admissions=[admission(host, hash_, budget=budget) for host, hash_ in urls])
        done = self.loop.run_until_complete(self.store.commit(batch))
        for (host, hash_), verdict in zip(urls, done.admitted, strict=True):
            stored = sum(1 for name, _ in self.states if name == host)
            known = (host, hash_) in self.states
            if verdict is Admitted.NEW:
                assert not known
                assert stored < budget
                self.states[host, hash_] = UrlState.WAITING
            else:
                assert known == (verdict is Admitted.SEEN)
                assert known or stored >= budget

    @rule(
        changes=st.lists(
            st.tuples(hosts, hashes, st.sampled_from(UrlState), st.floats(0, 9)), min_size=1, max_size=4
        )
    )
    def change(self, changes: list[tuple[str, int, UrlState, float]]) -> None:
        batch = Batch()
        for host, hash_, state, due_at in changes:
            id_ = self.id_of(host, hash_)
            reason = Reason.GAVE_UP if state is UrlState.FAILED else None
            batch.urls.append(UrlChange(id_, state, reason, due_at=due_at))
            before = self.states.get((host, hash_))
            if before is None or before.settled:
                continue
            self.states[host, hash_] = state
            if state is UrlState.FETCHED:
                self.frames += 1
                batch.positions.append(Position(1, self.frames))
                digest = ("", "")
                batch.pages.append(PageRow(id_, 200, 1.0, *digest, None, *digest, len(batch.positions) - 1))
        self.loop.run_until_complete(self.store.commit(batch))

    @rule(start=st.integers(0, 10), length=st.integers(0, 5))
    def lose_frames(self, start: int, length: int) -> None:
        lost = [Damage(Position(1, start), Position(1, start + length))]
        waiting = self.loop.run_until_complete(self.store.wait_again(lost))
        for (host, hash_), state in list(self.states.items()):
            record = self.loop.run_until_complete(self.store.find(host, hash_))
            assert record is not None
            if record.state is not state:
                assert (state, record.state) == (UrlState.FETCHED, UrlState.WAITING)
                self.states[host, hash_] = record.state
                waiting -= 1
        assert waiting == 0

    @rule(host=hosts, limit=st.integers(1, 6), now=st.floats(0, 9), exclude=st.frozensets(hashes, max_size=4))
    def look(self, host: str, limit: int, now: float, exclude: frozenset[int]) -> None:
        id_ = self.id_of(host, 0).host_id
        found = self.loop.run_until_complete(self.store.window(id_, limit=limit, now=now, exclude=exclude))
        hashes = [u.id.hash for u in found.urls]
        assert len(hashes) == len(set(hashes)) <= limit
        for hash_ in hashes:
            assert not self.states[host, hash_].settled
            assert hash_ not in exclude
        waiting = {h for (n, h), s in self.states.items() if n == host and s is UrlState.WAITING} - exclude
        assert found.more or waiting <= set(hashes)
        assert hashes or not (waiting or found.more)

    @invariant()
    def counters_are_exact(self) -> None:
        check_counters(self.store._connection)
        counts = self.loop.run_until_complete(self.store.counts())
        assert counts.stored == len(self.states)
        assert counts.waiting == sum(not state.settled for state in self.states.values())

    @invariant()
    def hosts_with_urls_waiting_are_ready(self) -> None:
        found = self.loop.run_until_complete(self.store.ready_hosts(limit=9, exclude=frozenset()))
        assert {h.name for h in found} == {n for (n, _), state in self.states.items() if not state.settled}


CountersMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=20)
TestCounters = pytest.mark.slow(CountersMachine.TestCase)


# --------------------------------------------------------------------------------------------------------- full disk


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 3 MiB, mounted if we may."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"a small file system cannot be mounted here: {mounted.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


async def fill(store: SqliteStore) -> int:
    """Commit batches until the disk is full; return how many were."""
    for n in range(10_000):
        try:
            await store.commit(
                Batch(admissions=[admission("a.test", 1_000 * n + i, budget=10**9) for i in range(1_000)])
            )
        except DiskFull:
            return n
    raise AssertionError("the disk was never full")


@pytest.mark.slow
async def test_a_full_disk_costs_no_committed_batch(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(1 << 20))
    store = SqliteStore(small_disk / "state.db")
    committed = await fill(store)
    assert committed > 0
    assert (await store.counts()).stored == 1_000 * committed
    ballast.unlink()  # space is made: the same store goes on
    await store.commit(Batch(admissions=[admission("b.test", 1)]))
    await store.close()
    again = SqliteStore(small_disk / "state.db")
    check_counters(again._connection)
    assert (await again.counts()).stored == 1_000 * committed + 1
    await again.close()


LIMITED = """
import asyncio, resource, signal, sys
from mannerly.model.errors import DiskFull
from mannerly.ports import *
from mannerly.store.sqlite import SqliteStore

async def run():
    store = SqliteStore(sys.argv[1])
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 18, 1 << 18))
    for n in range(1_000):
        try:
            await store.commit(Batch(admissions=[
                Admission("a.test", 100 * n + i, "k" * 50, "k" * 50, "/", 1, 1, 10**9) for i in range(100)]))
        except DiskFull:
            print(n, (await store.counts()).stored)
            return

asyncio.run(run())
"""


@pytest.mark.slow
def test_a_quota_is_a_full_disk_too(tmp_path: Path) -> None:
    """SQLite calls everything but ENOSPC an input/output error; a limit on file sizes stands for a quota here."""
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path / "state.db")],
        stdout=subprocess.PIPE,
        check=True,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
    )
    committed, stored = map(int, done.stdout.split())
    assert stored == 100 * committed > 0


# ------------------------------------------------------------------------------------------------- files not as ours


async def test_a_locked_file_is_in_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "BUSY_S", 0.01)
    store = SqliteStore(tmp_path / "state.db")
    other = sqlite3.connect(tmp_path / "state.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StateInUse) as refused:
        await store.commit(Batch(admissions=[admission("a.test", 1)]))
    assert refused.value.hint
    other.execute("ROLLBACK")
    assert (await store.commit(Batch(admissions=[admission("a.test", 1)]))).admitted == [Admitted.NEW]
    other.close()
    await store.close()


@pytest.mark.parametrize("harm", ["garbage", "other program", "newer schema", "folder", "no folder"])
def test_a_file_that_is_not_ours_is_refused_and_left_alone(tmp_path: Path, harm: str) -> None:
    path = tmp_path / "state.db"
    match harm:
        case "garbage":
            path.write_bytes(b"not a database at all" * 100)
        case "other program":
            raw = sqlite3.connect(path)
            raw.execute("CREATE TABLE theirs (x)")
            raw.close()
        case "newer schema":
            connection.connect(str(path), read_only=False).close()
            raw = sqlite3.connect(path)
            raw.execute("PRAGMA user_version = 999")
            raw.close()
        case "folder":
            path.mkdir()
        case "no folder":
            path = tmp_path / "none" / "state.db"
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(StateDamaged) as refused:
        SqliteStore(path)
    assert refused.value.hint
    assert before is None or path.read_bytes() == before


async def test_a_file_damaged_in_the_middle_says_so(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    store = SqliteStore(path)
    await store.commit(Batch(admissions=[admission("a.test", n) for n in range(2_000)]))
    await store.close()
    raw = bytearray(path.read_bytes())
    raw[8_192:] = b"\x55" * (len(raw) - 8_192)
    path.write_bytes(raw)
    with pytest.raises(StateDamaged, match="damaged"):
        await SqliteStore(path).commit(Batch(admissions=[admission("a.test", 5_000)]))


async def test_readers_read_while_a_crawl_goes_on_and_write_nothing(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with pytest.raises(StateDamaged, match="no state file"):
        SqliteStore(path, read_only=True)
    store = SqliteStore(path)
    wanted = CrawlRecord("c", 1, ("s",), "host", "{}")
    await store.open_crawl(wanted)
    await store.commit(Batch(admissions=[admission("a.test", 1)]))
    reader = SqliteStore(path, read_only=True)
    assert (await reader.counts()).stored == 1
    await store.commit(Batch(admissions=[admission("a.test", 2)]))
    assert (await reader.counts()).stored == 2
    found = await reader.stored_crawl()
    assert found is not None
    assert found.unclean
    with pytest.raises(StateDamaged):
        await reader.commit(Batch(admissions=[admission("a.test", 3)]))
    await store.close_crawl(finished=False)
    await store.close()
    await reader.close()
    late = SqliteStore(path, read_only=True)
    assert (await late.counts()).stored == 2
    await late.close()


async def test_a_batch_with_a_position_needs_a_crawl() -> None:
    store = SqliteStore(":memory:")
    with pytest.raises(RuntimeError):
        await store.commit(Batch(journal_end=Position(1, 5)))
    await store.close()


# --------------------------------------------------------------------------------------------------- speed by design

QUERIES = {
    "next band": window._NEXT_BAND,
    "next template": window._NEXT_TEMPLATE,
    "of a template": window._OF_TEMPLATE,
    "delayed": window._DELAYED,
    "ready hosts": reads._READY,
    "ready hosts that wait politely": reads._READY_POLITELY,
    "count host": commit._COUNT_HOST,
    "find": rows.URL_QUERY + " WHERE u.host_id = (SELECT id FROM host WHERE name = ?) AND u.hash = ?",
    "refusals": "SELECT url, evidence FROM refusal WHERE reason = ? ORDER BY url LIMIT ?",
    **{f"change to {state.name}": query for state, query in commit._CHANGE.items()},
    **{f"urls {state.name}": reads.urls_query(state) for state in UrlState},
}


@pytest.mark.parametrize("name", list(QUERIES))
def test_no_query_reads_or_sorts_a_whole_table(name: str) -> None:
    raw = connection.connect(":memory:", read_only=False)
    query = QUERIES[name]
    plan = [row[3] for row in raw.execute(f"EXPLAIN QUERY PLAN {query}", (0,) * query.count("?"))]
    raw.close()
    scans = [
        step for step in plan if "SCAN" in step and "USING INDEX" not in step and "CONSTANT ROW" not in step
    ]
    assert not scans, plan
    assert not [step for step in plan if "TEMP B-TREE" in step], plan


@pytest.mark.parametrize(
    ("bands", "room", "shares"),
    [
        ([0, 1, 2, 3], 15, [8, 4, 2, 1]),
        ([0, 1, 2, 3], 4, [2, 1, 1, 0]),
        ([3], 20, [20]),
        ([0, 3], 1, [1, 0]),
        ([1, 2], 0, [0, 0]),
        ([], 9, []),
        ([3, 4, 9], 9, [3, 3, 3]),
    ],
)
def test_bands_share_a_window_by_weight(bands: list[int], room: int, shares: list[int]) -> None:
    assert window.share(bands, room) == shares
