"""Delivery: every page reaches every sink, files exactly once, whatever dies when (invariant I5)."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mannerly.coordinator import deliver
from mannerly.coordinator.deliver import Delivery
from mannerly.model.blob import PagePart, seal
from mannerly.model.config import OutputConfig
from mannerly.model.errors import ConfigRefused, DiskFull, StateDamaged
from mannerly.model.frame import PageFrame
from mannerly.ports import Damage, Journal, Position, Sink, SinkState, StateStore
from mannerly.sink.choice import choose_sink
from mannerly.store.journal import FileJournal

BLOB = seal(PagePart(title="t"))


def page(n: int) -> PageFrame:
    url = f"https://a.test/{n}"
    head = (url, url, 200, 1.5, 0, "", (), 10, 5, "", "", None)
    return PageFrame(*head, True, "", "", "mannerly", "", "c", 1, n, BLOB)


def numbers(frames: Sequence[PageFrame]) -> list[int]:
    return [frame.hash for frame in frames]


@dataclass
class Notebook:
    """The part of a StateStore that delivery uses."""

    sinks: dict[str, SinkState] = field(default_factory=dict)
    saves: int = 0
    again: list[Damage] = field(default_factory=list)

    async def sink(self, name: str) -> SinkState | None:
        return self.sinks.get(name)

    async def save_sink(self, state: SinkState) -> None:
        self.saves += 1
        self.sinks[state.name] = state

    async def wait_again(self, damage: Sequence[Damage]) -> int:
        self.again += damage
        return len(damage)


class Shelf:
    """A sink in memory; `write` can be held up or made to fail."""

    def __init__(self, name: str = "shelf") -> None:
        self.name = name
        self.got: list[int] = []
        self.fails: Exception | None = None
        self.calls = 0
        self.begun = threading.Event()
        self.free = threading.Event()
        self.free.set()
        self.threads: set[int] = set()

    def open(self, state: str | None) -> bool:
        self.threads.add(threading.get_ident())
        return True

    def write(self, frames: Sequence[PageFrame]) -> None:
        self.calls += 1
        self.threads.add(threading.get_ident())
        self.begun.set()
        self.free.wait()
        if self.fails:
            raise self.fails
        self.got += numbers(frames)

    def sync(self) -> str:
        return str(len(self.got))

    def close(self) -> None:
        """Nothing to close."""


@pytest.fixture
def journal(tmp_path: Path) -> FileJournal:
    return FileJournal(tmp_path / "journal", segment_bytes=4_096)


def delivery(journal: Journal, store: Notebook, *sinks: Sink, **more: object) -> Delivery:
    gone: list[str] = []
    terms = {"reader_gone": gone.append} | more
    return Delivery(journal, cast(StateStore, store), sinks, **terms)  # type: ignore[arg-type]


async def until(said: threading.Event) -> None:
    assert await asyncio.to_thread(said.wait, 5)


async def deliver_all(journal: Journal, store: Notebook, *sinks: Sink) -> None:
    async with delivery(journal, store, *sinks) as service:
        service.committed(journal.end)
        await service.drain()


def read_out(path: Path) -> list[int]:
    return [int(json.loads(line)["url"].rpartition("/")[2]) for line in path.read_bytes().splitlines()]


async def test_pages_go_out_as_they_are_committed_and_never_before(journal: FileJournal) -> None:
    store, shelf = Notebook(), Shelf()
    places = journal.append([page(n) for n in range(5)])
    async with delivery(journal, store, shelf) as service, asyncio.TaskGroup() as group:
        running = group.create_task(service.run())
        await asyncio.sleep(0.01)
        assert shelf.calls == 0
        service.committed(places[2])
        await until(shelf.begun)
        running.cancel()
        await asyncio.wait([running])
        await service.drain()
        assert shelf.got == [0, 1]
        assert store.sinks["shelf"] == SinkState("shelf", places[2], "2")


async def test_the_first_page_is_out_and_saved_without_waiting(tmp_path: Path, journal: FileJournal) -> None:
    store, sink = Notebook(), choose_sink(OutputConfig(file=str(tmp_path / "o")), crawl="c")
    journal.append([page(1)])
    async with delivery(journal, store, sink) as service:
        running = asyncio.create_task(service.run())
        service.committed(journal.end)
        async with asyncio.timeout(deliver.SYNC_S / 2):
            while store.sinks[sink.name].position < journal.end:
                await asyncio.sleep(0.001)
        assert read_out(tmp_path / "o") == [1]
        running.cancel()
        await asyncio.wait([running])


@pytest.mark.slow
async def test_a_busy_sink_is_synced_four_times_a_second(journal: FileJournal) -> None:
    store, shelf = Notebook(), Shelf()
    places = journal.append([page(n) for n in range(300)])
    async with delivery(journal, store, shelf) as service:
        running = asyncio.create_task(service.run())
        before, start = store.saves, asyncio.get_running_loop().time()
        for place in places:
            service.committed(place)
            await asyncio.sleep(0.002)
        passed_s = asyncio.get_running_loop().time() - start
        assert 1 < store.saves - before <= passed_s / deliver.SYNC_S + 2
        running.cancel()
        await asyncio.wait([running])


async def test_i5_ownership_is_stored_before_the_first_byte(tmp_path: Path, journal: FileJournal) -> None:
    store, sink = Notebook(), choose_sink(OutputConfig(file=str(tmp_path / "o")), crawl="c")
    journal.append([page(1)])
    async with delivery(journal, store, sink) as service:
        assert json.loads(store.sinks[sink.name].state)["size"] == 0
        assert (tmp_path / "o").read_bytes() == b""
        assert "1:0" in repr(service)


async def test_a_refused_sink_is_told_at_once_and_the_others_are_closed(
    tmp_path: Path, journal: FileJournal
) -> None:
    (tmp_path / "foreign").write_text("mine")
    ours = choose_sink(OutputConfig(file=str(tmp_path / "o")), crawl="c")
    foreign = choose_sink(OutputConfig(file=str(tmp_path / "foreign")), crawl="c")
    with pytest.raises(ConfigRefused, match="did not write"):
        await deliver_all(journal, Notebook(), ours, foreign)
    await deliver_all(journal, Notebook(), choose_sink(OutputConfig(file=str(tmp_path / "o")), crawl="c"))
    assert (tmp_path / "foreign").read_text() == "mine"


async def test_a_slow_sink_holds_up_no_other(journal: FileJournal) -> None:
    slow, quick = Shelf("slow"), Shelf("quick")
    slow.free.clear()
    journal.append([page(n) for n in range(200)])
    store = Notebook()
    async with delivery(journal, store, slow, quick) as service:
        running = asyncio.create_task(service.run())
        service.committed(journal.end)
        async with asyncio.timeout(5):
            while len(quick.got) < 200:
                await asyncio.sleep(0.001)
        assert slow.got == []
        slow.free.set()
        running.cancel()
        await asyncio.wait([running])
        await service.drain()
    assert slow.got == quick.got == list(range(200))
    assert len(slow.threads) == len(quick.threads) == 1  # each called from one thread, open included
    assert slow.threads != quick.threads


async def test_a_sink_added_later_begins_at_the_first_page(journal: FileJournal) -> None:
    store, early, late = Notebook(), Shelf("early"), Shelf("late")
    journal.append([page(1)])
    await deliver_all(journal, store, early)
    journal.append([page(2)])
    await deliver_all(journal, store, early, late)
    assert early.got == late.got == [1, 2]


async def test_a_deleted_file_is_written_anew_from_the_journal(tmp_path: Path, journal: FileJournal) -> None:
    path, store = tmp_path / "o.jsonl", Notebook()
    journal.append([page(1), page(2)])
    await deliver_all(journal, store, choose_sink(OutputConfig(file=str(path)), crawl="c"))
    path.unlink()
    journal.append([page(3)])
    await deliver_all(journal, store, choose_sink(OutputConfig(file=str(path)), crawl="c"))
    assert read_out(path) == [1, 2, 3]


@pytest.mark.parametrize("ending", [False, True])
async def test_a_full_disk_reaches_the_owner_bare(journal: FileJournal, ending: bool) -> None:
    shelf, other = Shelf(), Shelf("other")
    shelf.fails = DiskFull("no space")
    journal.append([page(1)])
    store = Notebook()
    async with delivery(journal, store, shelf, other) as service:
        service.committed(journal.end)
        with pytest.raises(DiskFull, match="no space"):
            await (service.drain() if ending else service.run())
    assert store.sinks["shelf"].position == Position()


async def test_a_write_that_failed_is_not_tried_again_by_the_drain(journal: FileJournal) -> None:
    shelf = Shelf()
    shelf.fails = DiskFull("no space")
    shelf.free.clear()
    journal.append([page(1)])
    async with delivery(journal, Notebook(), shelf) as service:
        service.committed(journal.end)
        running = asyncio.create_task(service.run())
        await until(shelf.begun)
        running.cancel()
        await asyncio.wait([running])
        shelf.free.set()
        with pytest.raises(DiskFull):
            await service.drain()
    assert shelf.calls == 1


async def test_a_write_that_was_on_when_the_crawl_ended_is_not_made_twice(journal: FileJournal) -> None:
    shelf = Shelf()
    shelf.free.clear()
    journal.append([page(1), page(2)])
    async with delivery(journal, Notebook(), shelf) as service:
        service.committed(journal.end)
        running = asyncio.create_task(service.run())
        await until(shelf.begun)
        running.cancel()
        await asyncio.wait([running])
        shelf.free.set()
        await service.drain()
    assert shelf.got == [1, 2]


async def test_drain_ends_a_run_that_is_on(journal: FileJournal) -> None:
    shelf = Shelf()
    journal.append([page(n) for n in range(200)])
    async with delivery(journal, Notebook(), shelf) as service, asyncio.TaskGroup() as group:
        running = group.create_task(service.run())
        await asyncio.sleep(0.001)
        service.committed(journal.end)
        await service.drain()
        assert running.done()
    assert shelf.got == list(range(200))


async def test_a_run_cancelled_while_it_drains_leaves_the_rest_to_the_drain(journal: FileJournal) -> None:
    shelf = Shelf()
    shelf.free.clear()
    journal.append([page(n) for n in range(200)])
    async with delivery(journal, Notebook(), shelf, committed=journal.end) as service:
        running = asyncio.create_task(service.run())
        await until(shelf.begun)
        draining = asyncio.create_task(service.drain())
        await asyncio.sleep(0.001)
        running.cancel()
        shelf.free.set()
        await draining
    assert shelf.got == list(range(200))


async def test_a_reader_that_hung_up_ends_its_sink_alone(journal: FileJournal) -> None:
    piped, shelf = Shelf("piped"), Shelf()
    piped.fails = BrokenPipeError()
    gone: list[str] = []
    store = Notebook()
    places = journal.append([page(1), page(2)])
    async with delivery(journal, store, piped, shelf, reader_gone=gone.append) as service:
        service.committed(places[1])
        await service.drain()
        service.committed(journal.end)
        await service.drain()
        assert "piped gone" in repr(service)
    assert (gone, piped.calls, shelf.got) == (["piped"], 1, [1, 2])
    assert store.sinks["piped"].position == Position()  # the next run tells it again


async def test_without_a_reader_run_returns(journal: FileJournal) -> None:
    piped = Shelf("piped")
    piped.fails = BrokenPipeError()
    journal.append([page(1)])
    async with delivery(journal, Notebook(), piped) as service:
        service.committed(journal.end)
        await service.run()


async def test_a_reader_that_stopped_reading_does_not_keep_the_crawl_from_ending(
    journal: FileJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliver, "CLOSE_S", 0.02)
    reading, writing = os.pipe()
    journal.append([page(n) for n in range(200)])
    sink = choose_sink(OutputConfig(file=f"/dev/fd/{writing}"), crawl="c")
    async with delivery(journal, Notebook(), sink) as service:
        service.committed(journal.end)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await service.drain()
    os.close(reading)  # lets the thread go
    os.close(writing)


@pytest.mark.parametrize("keep", ["all", "passed"])
async def test_segments_that_every_sink_has_passed_are_dropped_on_wish(
    journal: FileJournal, keep: str
) -> None:
    first, second = Shelf("first"), Shelf("second")
    second.fails = BrokenPipeError()
    journal.append([page(n) for n in range(100)])
    whole, store = journal.nbytes, Notebook()
    async with delivery(journal, store, first, second, keep=keep) as service:
        service.committed(journal.end)
        await service.drain()
        assert journal.nbytes == whole
    second.fails = None
    async with delivery(journal, store, first, second, keep=keep, committed=journal.end) as service:
        await service.drain()
    assert first.got == second.got == list(range(100))
    assert (journal.nbytes < whole) == (keep == "passed")


async def test_i5_damage_is_handed_on_before_any_position_passes_it(
    tmp_path: Path, journal: FileJournal
) -> None:
    store, shelf = Notebook(), Shelf()
    places = journal.append([page(1), page(2), page(3)])
    with (tmp_path / "journal" / "000001.pages").open("r+b") as file:
        file.seek(places[1].offset + 60)
        file.write(b"\xff\xff\xff\xff")
    async with delivery(journal, store, shelf) as service:
        service.committed(journal.end)
        await service.drain()
        assert service.waiting_again == 1
    assert shelf.got == [1, 3]
    assert [damage.start for damage in store.again] == [places[1]]


async def test_i5_pages_that_are_lost_are_told_where_a_sink_still_wants_them(
    tmp_path: Path, journal: FileJournal
) -> None:
    store, ahead = Notebook(), Shelf("ahead")
    told: list[int] = []
    journal.append([page(1), page(2)])
    committed = journal.end
    await deliver_all(journal, store, ahead)
    (tmp_path / "journal" / "000001.pages").unlink()
    for shelf, pages in ((ahead, [1, 2]), (Shelf("new"), [])):
        left = FileJournal(tmp_path / "journal")
        left.cut(committed)
        async with delivery(left, store, shelf, committed=committed, lost=told.append) as service:
            assert service.behind == (shelf is not ahead)
            await service.drain()
            assert not service.behind
        assert shelf.got == pages
    assert len(told) == 1
    assert store.again[0].end == committed


async def test_a_run_may_follow_a_drain(journal: FileJournal) -> None:
    shelf = Shelf()
    async with delivery(journal, Notebook(), shelf) as service:
        await service.drain()
        running = asyncio.create_task(service.run())
        await asyncio.sleep(0.01)
        assert not running.done()
        journal.append([page(1)])
        service.committed(journal.end)
        await service.drain()
        await running
    assert shelf.got == [1]


async def test_a_journal_that_makes_no_way_is_damage_and_no_endless_loop(journal: FileJournal) -> None:
    class Stuck(Shelf):
        def read(self, start: Position, end: Position, *, most: int) -> tuple[list[PageFrame], Position]:
            return [], start

        def damaged(self) -> list[Damage]:
            return []

    async with delivery(cast(Journal, Stuck()), Notebook(), Shelf(), committed=Position(1, 9)) as service:
        with pytest.raises(StateDamaged, match="1:9"):
            await service.drain()


# ------------------------------------------------------------------------------------------- crashes, at every point


class CrashError(Exception):
    """The process dies here."""


@dataclass
class Fuse:
    """Counts the points at which a process may die, and lets it die at one of them."""

    left: int

    def burn(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise CrashError


class Dying:
    """A sink around another, with a fuse. Remembers how much of the file a disk must have."""

    def __init__(self, inner: Sink, path: Path, fuse: Fuse) -> None:
        self.inner, self.path, self.fuse = inner, path, fuse
        self.durable = (
            path.stat().st_size if path.exists() else 0
        )  # what is there after a crash is on the disk
        self.name = inner.name

    def open(self, state: str | None) -> bool:
        self.fuse.burn()
        goes_on = self.inner.open(state)
        self.durable = self.path.stat().st_size
        self.fuse.burn()
        return goes_on

    def write(self, frames: Sequence[PageFrame]) -> None:
        half = len(frames) // 2
        for part in (frames[:half], frames[half:]):
            self.fuse.burn()
            self.inner.write(part)
        self.fuse.burn()

    def sync(self) -> str:
        self.fuse.burn()
        state = self.inner.sync()
        self.durable = self.path.stat().st_size
        self.fuse.burn()
        return state

    def close(self) -> None:
        self.inner.close()

    def lose_power(self, kept: float) -> None:
        """What was not synced is on the disk in part: any prefix of it."""
        size = self.path.stat().st_size if self.path.exists() else 0
        if size > self.durable:
            os.truncate(self.path, self.durable + int((size - self.durable) * kept))


class DyingNotebook(Notebook):
    """A store with a fuse before and after each save."""

    fuse = Fuse(0)

    async def save_sink(self, state: SinkState) -> None:
        self.fuse.burn()
        await super().save_sink(state)
        self.fuse.burn()


async def one_run(
    journal: Journal, store: DyingNotebook, path: Path, places: list[Position], fuse: Fuse
) -> Dying:
    store.fuse = fuse
    sink = Dying(choose_sink(OutputConfig(file=str(path)), crawl="c"), path, fuse)
    try:
        async with delivery(journal, store, sink) as service:
            for place in places:
                service.committed(place)
                await service.drain()
    except CrashError:
        return sink
    return sink


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
@given(
    crashes=st.lists(st.tuples(st.integers(1, 40), st.floats(0, 1)), max_size=5),
    commits=st.lists(st.integers(1, 6), min_size=1, max_size=4),
)
def test_i5_files_hold_each_page_once_wherever_the_process_dies(
    suffix: str, crashes: list[tuple[int, float]], commits: list[int]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path, journal, store = Path(folder, f"o.{suffix}"), FileJournal(Path(folder, "j")), DyingNotebook()
        places: list[Position] = []
        for count in commits:
            before = sum(commits[: len(places)])
            journal.append([page(n) for n in range(before, before + count)])
            places.append(journal.end)
        for fuse, kept in crashes:
            asyncio.run(one_run(journal, store, path, places, Fuse(fuse))).lose_power(kept)
        asyncio.run(one_run(journal, store, path, places, Fuse(0)))
        journal.close()
        urls = [f"https://a.test/{n}" for n in range(sum(commits))]
        lines = path.read_text().splitlines()
        if suffix == "csv":
            assert [line.split(",")[0] for line in lines] == ["url", *urls]
        else:
            assert [json.loads(line)["url"] for line in lines] == urls
