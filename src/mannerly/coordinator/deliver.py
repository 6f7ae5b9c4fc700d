"""Deliver: sinks read the journal, each from its own position, up to what was committed (invariant I5).

    committed(position)   a transaction holds the pages before `position`: they may go out
    read, write           the next frames, in the sink's own thread, so that a slow sink holds up nobody else
    sync, save            make them durable, and only then store how far the sink has come

A crash between any two of these repeats work and loses none: files are cut back to what was stored with the position,
everything else is told twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Final, Literal, Self

from mannerly.coordinator.lane import Lane
from mannerly.model.errors import StateDamaged
from mannerly.model.frame import PageFrame
from mannerly.ports import Journal, Position, Sink, SinkState, StateStore

# A sync and the transaction that saves a position cost a disk flush each: at most four a second and sink.
SYNC_S: Final = 0.25

# Frames read at once: few hops between threads, and at most this many blobs in memory a sink.
READ_FRAMES: Final = 64

# How long an end waits for sinks to close. A reader that has stopped reading must not keep the crawl from ending.
CLOSE_S: Final = 2.0


@dataclass(slots=True, eq=False)
class _Feed:
    """One sink and how far it has come: `read` was written to it, `saved` is durable and stored."""

    sink: Sink
    lane: Lane
    read: Position = field(default_factory=Position)
    saved: Position = field(default_factory=Position)
    sync_at: float = 0.0  # the event loop's time
    gone: bool = False  # its reader went away
    failure: BaseException | None = None  # what went wrong is never tried again: part of it may be done
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def write(self, frames: Sequence[PageFrame], after: Position) -> None:
        """Write, in the sink's lane. `read` is moved there as well: a caller that is cancelled changes nothing."""
        with self._failing():
            self.sink.write(frames)
        self.read = after

    def sync(self) -> str:
        """Sync, in the sink's lane. After a failed fsync a second one may claim success for bytes that are lost."""
        with self._failing():
            return self.sink.sync()

    @contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            self.failure = error
            raise


class Delivery:
    """The service that feeds the sinks. Used as `async with`: entering opens the sinks, leaving closes them.

    keep: `passed` deletes segments that every sink is past. committed: how far the journal was committed before this
    run. lost: told how many URLs wait again because their frames are damaged or gone, before any sink passes them.
    reader_gone: told a sink's name once nobody reads it any more; the sink gets nothing further in this run, and
    goes on from its stored position in the next.
    """

    def __init__(
        self,
        journal: Journal,
        store: StateStore,
        sinks: Sequence[Sink],
        *,
        keep: Literal["all", "passed"] = "all",
        committed: Position | None = None,
        lost: Callable[[int], None] | None = None,
        reader_gone: Callable[[str], None],
    ) -> None:
        self._journal = journal
        self._store = store
        self._sinks = tuple(sinks)
        self._keep = keep
        self._lost = lost
        self._reader_gone = reader_gone
        self._feeds: list[_Feed] = []
        self._reading = asyncio.Lock()
        self._journal_lane = Lane("journal")
        self._committed = committed or Position()
        self._kept_from = Position()
        self._running: asyncio.Event | None = None
        self._ending = False
        self.waiting_again = 0
        """URLs set waiting again because their frames were damaged or gone."""

    def __repr__(self) -> str:
        feeds = ", ".join(
            f"{f.sink.name} {'gone' if f.gone else f'{f.saved.segment}:{f.saved.offset}'}"
            for f in self._feeds
        )
        return (
            f"<Delivery up to {self._committed.segment}:{self._committed.offset}: {feeds or 'no sink open'}>"
        )

    async def __aenter__(self) -> Self:
        """Open every sink and store whose output it is, before its first byte. Raises ConfigRefused, StateInUse."""
        try:
            for sink in self._sinks:
                await self._open(sink)
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the sinks; what was not saved is delivered again by the next run."""
        await self._close()

    def committed(self, position: Position) -> None:
        """Tell that all frames before `position` stand in a committed transaction. Called on the event loop."""
        if position > self._committed:
            self._committed = position
            self._wake()

    @property
    def behind(self) -> bool:
        """True while a sink has not yet been given all that is committed: what it still has to read may be lost."""
        return any(feed.read < self._committed and not feed.gone for feed in self._feeds)

    async def run(self) -> None:
        """Deliver until cancelled, until `drain` is done, or until no sink has a reader. Raises what a sink raises
        (DiskFull), bare."""
        self._running = asyncio.Event()
        try:
            await self._serve_all()
        finally:
            self._running.set()

    async def drain(self) -> None:
        """Deliver the rest: return when every sink has all that was committed, durable and saved.

        `run` may be on, then it ends; or it was cancelled, then the rest is done here. Raises what a sink raises. A
        reader that has stopped reading holds it up: cancel it to end without. `run` may be called once more.
        """
        self._ending = True
        self._wake()
        if self._running is not None:
            await self._running.wait()
        await self._serve_all()
        self._ending = False

    def _wake(self) -> None:
        for feed in self._feeds:
            feed.news.set()

    async def _serve_all(self) -> None:
        failure: Exception | None = None
        try:
            async with asyncio.TaskGroup() as group:
                for feed in self._feeds:
                    if not feed.gone:
                        group.create_task(self._serve(feed), name=f"deliver {feed.sink.name}")
        except ExceptionGroup as failed:
            if len(failed.exceptions) != 1:
                raise
            failure = failed.exceptions[0]
        if failure is not None:
            raise failure

    async def _open(self, sink: Sink) -> None:
        feed = _Feed(sink, Lane(sink.name))
        self._feeds.append(feed)  # first, so that it is closed however the opening ends
        stored = await self._store.sink(sink.name)
        goes_on = await feed.lane.call(partial(sink.open, stored.state if stored else None))
        if stored and goes_on:
            feed.read = feed.saved = stored.position
        await self._save(feed)
        feed.sync_at = 0.0  # the first page is not to wait

    async def _serve(self, feed: _Feed) -> None:
        try:
            await feed.lane.call(_nothing)  # a call whose caller was cancelled may still be on
            while await self._step(feed):
                pass
        except BrokenPipeError:
            feed.gone = True
            self._reader_gone(feed.sink.name)

    async def _step(self, feed: _Feed) -> bool:
        """Do the next thing there is to do for the sink; False once it has all and no more will come."""
        if feed.failure is not None:
            raise feed.failure
        feed.news.clear()
        behind, unsaved = feed.read < self._committed, feed.saved < feed.read
        due = asyncio.get_running_loop().time() >= feed.sync_at
        if unsaved and (due or (self._ending and not behind)):
            await self._save(feed)
        elif behind:
            await self._pump(feed)
        elif self._ending:
            return False
        else:
            await _until(feed.news, feed.sync_at if unsaved else None)
        return True

    async def _pump(self, feed: _Feed) -> None:
        """Write the next frames to the sink."""
        start, end = feed.read, self._committed
        # One reader at a time, and what it met damaged is handed on before any sink's position can pass it.
        async with self._reading:
            frames, after = await self._journal_lane.call(
                partial(self._journal.read, start, end, most=READ_FRAMES)
            )
            damaged = self._journal.damaged()
            if damaged:
                again = await self._store.wait_again(damaged)
                self.waiting_again += again
                if self._lost is not None and again:
                    self._lost(again)
        if after <= start:
            raise StateDamaged(
                f"the journal ends at {start.segment}:{start.offset}, the state knows of pages up to "
                f"{end.segment}:{end.offset}"
            )
        await feed.lane.call(partial(feed.write, frames, after))

    async def _save(self, feed: _Feed) -> None:
        """Make what was written durable, then store how far the sink has come."""
        position = feed.read
        state = await feed.lane.call(feed.sync)
        await self._store.save_sink(SinkState(feed.sink.name, position, state))
        feed.saved = position
        feed.sync_at = asyncio.get_running_loop().time() + SYNC_S
        if self._keep == "passed":
            await self._drop_passed()

    async def _drop_passed(self) -> None:
        # a sink whose reader is gone counts too: the next run goes on from its position
        if len(self._feeds) < len(self._sinks):
            return
        passed = min(feed.saved for feed in self._feeds)
        if passed.segment > self._kept_from.segment:
            async with self._reading:
                await self._journal_lane.call(partial(self._journal.drop_before, passed))
            self._kept_from = passed

    async def _close(self) -> None:
        feeds, self._feeds = self._feeds, []
        closing = {asyncio.create_task(feed.lane.call(feed.sink.close)) for feed in feeds}
        try:
            done, late = await asyncio.wait(closing, timeout=CLOSE_S) if closing else (set(), set())
            for call in late:
                call.cancel()
        finally:
            for feed in feeds:
                feed.lane.end()
            self._journal_lane.end()
        for call in done:
            call.result()


async def _until(news: asyncio.Event, instant: float | None) -> None:
    try:
        async with asyncio.timeout_at(instant):
            await news.wait()
    except TimeoutError:
        return


def _nothing() -> None:
    """What a lane is asked to do to learn that it has done all else."""
