"""The crawl: its loops and their owner, and when it ends.

The loops live in one task group: receive, settle, dispatch, deliver, and a watch that looks four times a second whether
the crawl has ended. An error in one ends them all and is raised to the caller; nothing is lost by it, for nothing is
done before it is durable.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from mannerly.clock import Clock
from mannerly.coordinator.active import ActiveSet
from mannerly.coordinator.dispatch import Allowance, Dispatch
from mannerly.coordinator.flights import Flights
from mannerly.coordinator.intake import Candidate
from mannerly.coordinator.receipt import Receipt
from mannerly.coordinator.settle import Seeds, Settle, Told
from mannerly.model.config import BudgetConfig
from mannerly.model.host import HostRecord, QueueState
from mannerly.model.task import UrlState
from mannerly.policy import frontier
from mannerly.ports import Counts, Position, StateStore, Transport

TICK_S = 0.25
# hosts named at the end
HOSTS_TOLD = 20
FOREVER = float("inf")


class Ending(StrEnum):
    """Why a run ended."""

    DONE = "done"
    PATIENCE = "hosts are left waiting for longer than the patience"
    MAX_PAGES = "the page budget is spent (--max-pages)"
    MAX_TIME = "the time is up (--max-time)"
    INTERRUPTED = "interrupted"
    READER_GONE = "nobody reads the output any more"
    JOURNAL_FULL = "the journal's limit or the disk's reserve is reached"


@dataclass(frozen=True, slots=True)
class Status:
    """How the crawl stands, for progress and summary. next_due_s: until the next host is due, None if none waits."""

    pages: int
    run_pages: int
    queued: int
    in_flight: int
    hosts: int
    ready: int
    waiting: int
    next_due_s: float | None
    elapsed_s: float
    paused: str = ""


@dataclass(frozen=True, slots=True)
class Left:
    """A host with URLs left waiting at the end: how many, for what, and until when (UTC; 0: due, or until the next run)."""

    host: str
    urls: int
    why: str
    until: float


@dataclass(frozen=True, slots=True)
class Summary:
    """How a run ended."""

    ending: Ending
    status: Status
    counts: Counts
    left: tuple[Left, ...]


class Delivers(Protocol):
    """Brings pages to the sinks."""

    @property
    def behind(self) -> bool:
        """True while something committed was not yet read: it may turn out to be lost."""
        ...

    async def run(self) -> None:
        """Deliver what is committed, until cancelled."""
        ...

    def committed(self, end: Position) -> None:
        """Note how far the journal is committed."""
        ...

    async def drain(self) -> None:
        """Deliver the rest, once `run` has ended."""
        ...


class Runner:
    """Spawns coroutines under the task group of the run that is on. While one runs the crawl has not ended."""

    def __init__(self) -> None:
        self._group: asyncio.TaskGroup | None = None
        self._running = 0

    @property
    def busy(self) -> bool:
        """True while something spawned runs: it may give work."""
        return self._running > 0

    def bind(self, group: asyncio.TaskGroup | None) -> None:
        """Own what is spawned from now on."""
        self._group = group

    def __call__(self, coroutine: Coroutine[Any, Any, None]) -> None:
        if self._group is None:
            coroutine.close()
            return
        self._running += 1
        self._group.create_task(coroutine).add_done_callback(self._ran)

    def _ran(self, _task: asyncio.Task[None]) -> None:
        self._running -= 1


class Crawl:
    """One run of a crawl. Call `run` once; `stop` may be called from the loop at any time."""

    def __init__(
        self,
        *,
        store: StateStore,
        transport: Transport,
        active: ActiveSet,
        flights: Flights,
        receipt: Receipt,
        settle: Settle,
        dispatch: Dispatch,
        deliver: Delivers,
        allowance: Allowance,
        runner: Runner,
        clock: Clock,
        budget: BudgetConfig,
        patience_s: float,
        seeds: tuple[Candidate, ...],
        journal_full: Callable[[], bool],
        progress: Callable[[Status], None],
    ) -> None:
        self._store = store
        self._transport = transport
        self._active = active
        self._flights = flights
        self._receipt = receipt
        self._settle = settle
        self._dispatch = dispatch
        self._deliver = deliver
        self._allowance = allowance
        self._runner = runner
        self._clock = clock
        self._budget = budget
        self._patience_s = patience_s
        self._seeds = seeds
        self._journal_full = journal_full
        self._progress = progress
        self._ending: Ending | None = None
        self._stopped = asyncio.Event()
        self._began_at = clock.monotonic()
        self._run_pages = 0
        self._receiving = False
        self._queued = 0

    def stop(self, ending: Ending) -> None:
        """End the run: nothing more is sent, what is out is waited for and settled."""
        if self._ending is None:
            self._ending = ending
            self._stopped.set()
            self._allowance.paused = str(ending)
            self._settle.hurry()

    def told(self, told: Told) -> None:
        """Take in what a commit tells: deliver, wake hosts, count."""
        self._deliver.committed(told.journal_end)
        self._allowance.pages += told.pages
        self._run_pages += told.pages
        self._queued += told.admitted
        for host, url_id, state in told.settled:
            again = state in (UrlState.WAITING, UrlState.DELAYED)
            self._queued -= not again
            self._active.settled(host, url_id.hash, again=again)
        for host in told.hosts:
            self._active.reschedule(host)
        self._active.wake(told.wakened)
        self._go_on()

    def lost(self, pages: int) -> None:
        """Take in that so many pages of earlier batches are damaged or gone, and their URLs wait again."""
        self._allowance.pages -= pages
        self._queued += pages
        self._active.wake_all()
        self._go_on()

    def _go_on(self) -> None:
        """Let dispatch see what has changed, and send where the page budget has room again."""
        if self._ending is None and not self._allowance.spent:
            self._allowance.paused = ""
        self._dispatch.changed()

    async def run(self) -> Summary:
        """Crawl until the end. Raises DiskFull, and what the parts raise; what is durable then can be resumed."""
        counts = await self._store.counts()
        self._allowance.pages, self._queued = counts.pages, counts.waiting
        limit = self._limit()  # before the first request, not at the first look
        if limit is not None:
            self.stop(limit)
        try:
            await self._unless_stopped(self._transport.start())
            async with asyncio.TaskGroup() as group:
                self._runner.bind(group)
                loops = [
                    group.create_task(loop)
                    for loop in (
                        self._receive(),
                        self._settle.run(),
                        self._dispatch.run(),
                        self._deliver.run(),
                        self._store.restore_seen(),
                    )
                ]
                await self._sow()
                await self._watch()
                self._runner.bind(None)
                for loop in loops:
                    loop.cancel()
            await self._deliver.drain()
            counts, left = await self._store.counts(), await self._left()
            await self._store.close_crawl(finished=counts.waiting == 0)
        finally:
            self._runner.bind(None)
            await self._transport.stop()
        assert self._ending is not None
        return Summary(self._ending, self.status(), counts, left)

    async def _sow(self) -> None:
        """Put the seeds in once workers are up; those of an earlier run are known and change nothing.

        A run that is stopped before puts them in as well: without them the state would look like a finished crawl's.
        """
        await self._unless_stopped(self._transport.ready())
        if self._seeds:
            done = asyncio.Event()
            self._settle.put(Seeds(self._seeds, done))
            self._settle.hurry()
            await done.wait()
        self._active.activate()

    async def _unless_stopped(self, starting: Awaitable[None]) -> None:
        """Wait for workers that start. A run that is stopped needs none: then the wait is given up at once."""
        task = asyncio.ensure_future(starting)
        stopped = asyncio.create_task(self._stopped.wait())
        try:
            await asyncio.wait((task, stopped), return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                task.result()
        finally:
            stopped.cancel()
            task.cancel()
            await asyncio.gather(task, stopped, return_exceptions=True)

    async def _receive(self) -> None:
        while True:
            results = await self._transport.receive()
            self._receiving = True
            for result in results:
                await self._receipt.receive(result)
            self._receiving = False
            if not self._flights:
                self._settle.hurry()
            self._dispatch.changed()

    # ---------------------------------------------------------------------------------------------- the end

    async def _watch(self) -> None:
        """Look at the crawl until it has ended and nothing of it is in flight or unsettled."""
        while True:
            if self._ending is None:
                self._look()
            if self._ending is not None and not self._underway:
                return
            if not self._flights and self._settle.unsettled:
                self._settle.hurry()
            self._progress(self.status())
            await asyncio.sleep(TICK_S)

    def _look(self) -> None:
        """End the run if its time has come."""
        limit = self._limit()
        if limit is not None:
            self.stop(limit)
        elif self._has_ended():
            waits = self._active.frontier.count(QueueState.SNOOZED)
            self.stop(Ending.PATIENCE if waits else Ending.DONE)
        else:
            self._active.activate()

    def _limit(self) -> Ending | None:
        """Return the limit that has been reached, if one has."""
        if self._allowance.spent and not self._deliver.behind:  # pages found lost give their part of it back
            return Ending.MAX_PAGES
        if self._budget.max_time_s and self._elapsed_s() >= self._budget.max_time_s:
            return Ending.MAX_TIME
        return Ending.JOURNAL_FULL if self._journal_full() else None

    @property
    def _underway(self) -> bool:
        """True while a task is out, or a result is not yet durable."""
        return bool(self._flights) or self._receiving or self._settle.unsettled > 0

    def _has_ended(self) -> bool:
        outside = self._active.outside_waits
        if self._deliver.behind or self._underway or self._runner.busy:
            return False
        if self._active.outside and outside is None:
            return False
        standing = self._active.frontier.standing(in_flight=0)
        # a host that waits for a prerequisite waits for something in flight, or for another host's turn
        polite = None if standing.politely_due_at == FOREVER else standing.politely_due_at
        other = standing.otherwise_due_at
        for due_at, cause in outside or ():
            if cause.counts:
                other = due_at if other is None else min(other, due_at)
            else:
                polite = due_at
        standing = frontier.Standing(standing.in_flight, standing.ready, polite, other)
        return frontier.ended(standing, now=self._clock.monotonic(), patience_s=self._patience_s)

    async def _left(self) -> tuple[Left, ...]:
        """Return the hosts with the most URLs left, and what they wait for."""
        return tuple(
            self._left_at(record) for record in await self._store.hosts(limit=HOSTS_TOLD) if record.waiting
        )

    def _left_at(self, record: HostRecord) -> Left:
        if record.reason is not None:
            return Left(record.name, record.waiting, f"{record.state.name.lower()}: {record.reason}", 0.0)
        host, now = self._active.get(record.name), self._clock.now()
        if host is None or host.queue.state is not QueueState.SNOOZED or host.queue.until == FOREVER:
            until, why = record.next_ok_at, "its turn"
        else:
            until = host.queue.until + now - self._clock.monotonic()
            why = host.queue.cause.name.lower().replace("_", "-")
        return Left(record.name, record.waiting, why, until if until > now else 0.0)

    def _elapsed_s(self) -> float:
        return self._clock.monotonic() - self._began_at

    def status(self) -> Status:
        """Return how the crawl stands."""
        due = self._active.frontier.next_due()
        now = self._clock.monotonic()
        return Status(
            pages=self._allowance.pages,
            run_pages=self._run_pages,
            queued=max(0, self._queued),
            in_flight=len(self._flights),
            hosts=len(self._active),
            ready=self._active.frontier.count(QueueState.READY),
            waiting=self._active.frontier.count(QueueState.SNOOZED),
            next_due_s=max(0.0, due[0] - now) if due is not None and due[0] < FOREVER else None,
            elapsed_s=self._elapsed_s(),
            paused=self._allowance.paused,
        )
