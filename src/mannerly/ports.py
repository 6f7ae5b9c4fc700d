"""The contracts at the real seams: StateStore, HostGate, Transport, Journal, Sink.

Each has one contract suite that runs on all its adapters. What a docstring does not promise is not promised.
Adapters are known to `cli/assemble.py` alone; everybody else gets them as these protocols.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from mannerly.model.entry import Admission, Admitted, Refusal, UrlChange, UrlId, Waiting
from mannerly.model.frame import PageFrame
from mannerly.model.host import Addresses, HostRecord, Pace, QueueState, WaitCause
from mannerly.model.origin import OriginRecord
from mannerly.model.result import Result
from mannerly.model.task import Task, UrlState
from mannerly.model.verdict import Reason

__all__ = [
    "Admission",
    "Admitted",
    "Batch",
    "Claim",
    "Committed",
    "Counts",
    "CrawlRecord",
    "Damage",
    "HostChange",
    "HostGate",
    "Journal",
    "PageRow",
    "Permit",
    "Position",
    "Redirection",
    "Refusal",
    "Sink",
    "SinkState",
    "StateStore",
    "TemplateCount",
    "Transport",
    "UrlChange",
    "UrlId",
    "UrlRecord",
    "Wait",
    "Waiting",
    "Window",
]

# ---------------------------------------------------------------------------------------------------------- journal


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place in the journal: segment number and offset in it, in bytes."""

    segment: int = 1
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Damage:
    """A stretch of the journal, from `start` up to `end`, in which no frame can be read any more."""

    start: Position
    end: Position


class Journal(Protocol):
    """Append-only log of pages in segments. One writer; readers read up to a position that was committed.

    `append` and `read` may run in two threads at once.
    """

    @property
    def end(self) -> Position:
        """Where the next frame goes."""
        ...

    @property
    def nbytes(self) -> int:
        """Bytes of all segments kept."""
        ...

    def append(self, frames: Sequence[PageFrame]) -> list[Position]:
        """Write the frames and flush them to the disk; return where each begins. Blocks; raises DiskFull.

        After DiskFull nothing of the batch counts: the log is cut back to where it ended before. The limit told by
        `full` does not bind here: what is in flight is always settled.
        """
        ...

    def cut(self, position: Position) -> None:
        """Drop everything from `position` on: frames that no transaction knows.

        A log that ends before `position`, or is gone, goes on in a new segment behind it, so that no position is ever
        given twice; `read` tells what is missing as damage.
        """
        ...

    def full(self) -> bool:
        """True if dispatch is to stop: the log has reached its limit, or the disk its least free space. Blocks."""
        ...

    def read(self, start: Position, end: Position, *, most: int = 1_000) -> tuple[list[PageFrame], Position]:
        """Return up to `most` frames from `start` up to `end`, and the position to go on from. Blocks.

        Fewer are returned where they hold many bytes; done is when the position is `end`. Never raises for what
        stands in the files, save StateDamaged for a segment of a newer format: damaged frames are skipped and kept
        in `damaged`. Segments before the oldest one kept are passed over: they were dropped.
        """
        ...

    def damaged(self) -> list[Damage]:
        """Return what could not be read since the last call; `StateStore.wait_again` sets those URLs waiting."""
        ...

    def drop_before(self, position: Position) -> None:
        """Delete segments that lie wholly before `position`."""
        ...

    def close(self) -> None:
        """Close the files."""
        ...


# ------------------------------------------------------------------------------------------------------------ store


@dataclass(frozen=True, slots=True)
class PageRow:
    """What the store keeps of a page: enough to recognise it and to find its frame."""

    id: UrlId
    status: int
    fetched_at: float
    body_digest: str
    text_digest: str
    fingerprint: int | None
    etag: str
    last_modified: str
    frame: int  # index into Batch.positions, -1 if the page has no frame


@dataclass(frozen=True, slots=True)
class HostChange:
    """What is now known of a host; counters of URLs are kept by the store itself."""

    name: str
    state: QueueState
    next_ok_at: float
    cause: WaitCause
    pace: Pace
    addresses: Addresses
    contacted_at: float
    reason: Reason | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Redirection:
    """The end of a URL that redirects to an admission of the same batch (by its place in it).

    It becomes `followed`, or `refused` if the host of the target takes no more URLs: the insert alone can tell.
    """

    admission: int
    followed: UrlChange
    refused: UrlChange


@dataclass(slots=True)
class Batch:
    """All state changes of one settle batch: one transaction or nothing."""

    admissions: list[Admission] = field(default_factory=list)
    urls: list[UrlChange] = field(default_factory=list)
    redirects: list[Redirection] = field(default_factory=list)
    pages: list[PageRow] = field(default_factory=list)
    positions: list[Position] = field(default_factory=list)
    hosts: list[HostChange] = field(default_factory=list)
    origins: list[OriginRecord] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    joined_scope: list[str] = field(default_factory=list)
    journal_end: Position | None = None


@dataclass(frozen=True, slots=True)
class Committed:
    """What a transaction did: one `Admitted` for each admission in order, and hosts that have URLs waiting now."""

    admitted: list[Admitted]
    wakened: list[str]


@dataclass(frozen=True, slots=True)
class CrawlRecord:
    """The crawl: who, what from, under which secret. `secret` keys the hashes of the seen set.

    configuration: JSON of what may not change on resume and of what may; unclean: the last run did not end cleanly.
    """

    id: str
    secret: int
    seeds: tuple[str, ...]
    scope: str
    configuration: str
    joined: tuple[str, ...] = ()
    generation: int = 0
    unclean: bool = False
    journal_end: Position = Position()
    finished: bool = False


@dataclass(frozen=True, slots=True)
class Counts:
    """Totals of a crawl, over all its runs.

    waiting: not settled, delayed ones too. settled: by `fetched`, `redirected` or the reason. refused: candidates that
    were not admitted, by reason; one refused on two pages counts twice.
    """

    pages: int = 0
    waiting: int = 0
    stored: int = 0
    hosts: int = 0
    settled: dict[str, int] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class UrlRecord:
    """Everything stored of one admitted URL, for `why` and `report`."""

    id: UrlId
    key: str
    href: str
    state: UrlState
    reason: Reason | None
    detail: str
    depth: int
    band: int
    template: str
    via: str
    chain: tuple[str, ...]
    due_at: float
    attempts: int
    status: int | None = None
    fetched_at: float | None = None


@dataclass(frozen=True, slots=True)
class SinkState:
    """How far a sink has come. `state` is the sink's own, opaque: a file's size, say."""

    name: str
    position: Position
    state: str


@dataclass(frozen=True, slots=True)
class TemplateCount:
    """A template of a host, and how many of its URLs are stored and fetched."""

    host_id: int
    id: int
    host: str
    pattern: str
    stored: int
    fetched: int


@dataclass(frozen=True, slots=True)
class Window:
    """The next URLs of a host in order of band, templates in turn; `next_due_at` if only delayed ones are left."""

    urls: list[Waiting]
    next_due_at: float | None
    more: bool


class StateStore(Protocol):
    """Durable crawl state. Every call is one transaction; calls of one store are applied in the order they were made.

    May be called by one coordinator; readers open their own store read-only.
    """

    async def open_crawl(self, wanted: CrawlRecord) -> CrawlRecord:
        """Create the crawl or return the one stored, with `unclean` told and marked running; raises ConfigRefused
        naming both where seeds or scope differ from those stored."""
        ...

    async def close_crawl(self, *, finished: bool) -> None:
        """Mark the end of this run as clean; `finished` if nothing is waiting or due."""
        ...

    async def commit(self, batch: Batch) -> Committed:
        """Apply a batch durably, all or nothing. Raises DiskFull; then nothing was applied.

        An admission is an insert that does nothing where the key is stored: its result is the truth. Host rows are
        made on first sight.
        """
        ...

    async def ensure_host(self, name: str, *, seed: bool = False) -> HostRecord:
        """Return the host's row, made if new: any number of callers get the same row."""
        ...

    async def ready_hosts(
        self, *, limit: int, exclude: frozenset[str], polite: bool = False
    ) -> list[HostRecord]:
        """Return hosts that have URLs waiting and are neither parked nor retired, soonest first.

        Soonest counts from `next_ok_at`, or from the first due time where only delayed URLs are left. polite: only those
        whose wait does not count against the patience (`HostRecord.waits_for`).
        """
        ...

    async def revive_hosts(self) -> int:
        """Make parked and retired hosts ready again at the start of a run; return how many.

        Their failures, and those of origins whose robots.txt is unreachable, are counted from nought.
        """
        ...

    async def window(self, host_id: int, *, limit: int, now: float, exclude: frozenset[int]) -> Window:
        """Return the host's next URLs, but not those whose hash is in `exclude` (in flight or not yet settled)."""
        ...

    async def known(self, pairs: Sequence[tuple[str, int]]) -> list[bool]:
        """Tell for each (host, hash) whether the URL was admitted."""
        ...

    async def find(self, host: str, hash_: int) -> UrlRecord | None:
        """Return the admitted URL, or None."""
        ...

    async def host(self, name: str) -> HostRecord | None:
        """Return the host's row, or None."""
        ...

    async def origin(self, origin: str) -> OriginRecord | None:
        """Return what robots.txt of an origin came to, or None if it was never asked for."""
        ...

    async def counts(self) -> Counts:
        """Return the totals."""
        ...

    async def refusals(self, reason: Reason, *, limit: int = 100) -> list[Refusal]:
        """Return stored samples of candidates refused for `reason`."""
        ...

    async def urls(self, *, state: UrlState, limit: int = 100) -> list[UrlRecord]:
        """Return URLs in `state`: settled ones oldest first, others host by host."""
        ...

    async def hosts(self, *, limit: int = 100) -> list[HostRecord]:
        """Return hosts, most URLs waiting first."""
        ...

    async def wait_again(self, damage: Sequence[Damage]) -> int:
        """Set the URLs whose frames begin in one of the stretches waiting again; return how many. Repeatable."""
        ...

    async def sink(self, name: str) -> SinkState | None:
        """Return how far a sink has come, or None if it is new."""
        ...

    async def save_sink(self, state: SinkState) -> None:
        """Store how far a sink has come."""
        ...

    async def seen_hashes(self, after: UrlId | None, *, limit: int) -> list[UrlId]:
        """Return admitted URLs after `after` in the order of the table, to rebuild the Bloom filter."""
        ...

    async def restore_seen(self) -> None:
        """Bring a lost filter of the seen set back, in small steps between other calls; at once if none was lost.

        Until then every answer of `known` is read from the table.
        """
        ...

    async def close(self) -> None:
        """Close the store; calls made before are finished."""
        ...


# ------------------------------------------------------------------------------------------------------------- gate


@dataclass(frozen=True, slots=True)
class Claim:
    """What is asked of the gate: leave for one request to `host` at `address`.

    per_host, per_group: most in flight. group: key of the address group, '' for none. lease_s: after it an
    unreturned permit frees its place, `delay_s` later. group_spacing_s: least time between two starts in the group.
    """

    host: str
    address: str
    group: str
    lease_s: float
    delay_s: float
    per_host: int = 1
    per_group: int = 2
    group_spacing_s: float = 0.5


@dataclass(frozen=True, slots=True)
class Permit:
    """Leave for one request. Times are the gate's monotonic seconds."""

    id: int
    host: str
    group: str
    address: str
    lease_until: float


@dataclass(frozen=True, slots=True)
class Wait:
    """No leave now. `until` is when to ask again (gate's monotonic seconds); `group` if the address group refused."""

    until: float
    group: str = ""


class HostGate(Protocol):
    """The only authority on whether a request may go to a gate key now (invariant I2).

    Claim and release are atomic; any number may call at once. A host never seen is claimable at once. Losing a race
    is a `Wait`, never an error.
    """

    async def claim(self, claim: Claim) -> Permit | Wait:
        """Decide and reserve in one step."""
        ...

    async def release(self, permit: Permit, *, delay_s: float) -> float:
        """Give a permit back; the call's instant ends the response. The host opens `delay_s` later: that instant is
        returned. A permit given back twice, or after its lease ended, changes nothing but may not shorten a wait."""
        ...

    async def hold(self, host: str, *, for_s: float) -> None:
        """Close a host for `for_s` seconds from now; never shortens a wait in force."""
        ...

    async def in_flight(self) -> int:
        """Return how many permits are out."""
        ...


# -------------------------------------------------------------------------------------------------------- transport


class Transport(Protocol):
    """Tasks out, results back. At most once out: a task may be lost with its worker (then its result is `Unknown`)."""

    async def start(self) -> None:
        """Start what carries the tasks."""
        ...

    async def ready(self) -> None:
        """Wait until workers are up, a while at most: a task is then performed soon after it was sent.

        Starts are spaced at the gate. Two tasks that wait for one worker to come up would start at once.
        """
        ...

    async def send(self, task: Task) -> None:
        """Hand a task to a worker. Tasks of one host go to one worker while it lives.

        A task that is to be `alone` goes to a worker that has no other; no second is sent before its result has come.
        A worker that dies is answered for: `Unknown`, with `died` for each task that it held.
        """
        ...

    async def receive(self) -> list[Result]:
        """Wait for results; return those at hand, at least one. Every task sent gets exactly one result."""
        ...

    async def ack(self, results: Sequence[Result]) -> None:
        """Say that results were settled durably."""
        ...

    async def stop(self) -> None:
        """Let go of the workers; tasks still out are lost."""
        ...


# ------------------------------------------------------------------------------------------------------------- sink


class Sink(Protocol):
    """Where pages go. Called from one thread, never at once. Files exactly once, everything else at least once."""

    @property
    def name(self) -> str:
        """Name under which the position is stored."""
        ...

    def open(self, state: str | None) -> bool:
        """Make ready to go on from `state` (None: from the start). False: what stood there is gone, begin anew."""
        ...

    def write(self, frames: Sequence[PageFrame]) -> None:
        """Take the frames in order. Raises DiskFull, or BrokenPipeError once nobody reads."""
        ...

    def sync(self) -> str:
        """Make what was written durable; return the state to store with the position."""
        ...

    def close(self) -> None:
        """Close; nothing is written after."""
        ...
