"""The frontier's order: which host is next, and which of its URLs. In memory, pure: time and chance are arguments.

A *host queue* holds the next URLs of one host and stands in one state; `TRANSITIONS` says which moves there are. The
*frontier* holds a bounded set of active host queues. Ready hosts stand in a line for each band in which they have
URLs; a weighted draw (8 : 4 : 2 : 1) picks the band, hosts of a band come in turn. Within a host and band templates
come in turn, within a template the order is the store's: depth, then age.

No step looks at all hosts: each is O(log n) amortised for n active hosts, whatever their states.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

from mannerly.model.host import HostRecord, QueueState, WaitCause
from mannerly.policy.bands import BANDS, draw_band
from mannerly.policy.due import DueQueue
from mannerly.policy.lines import GroupLines

# A host that is due sooner is worth its place: to store it and read it back costs more than it frees.
EVICTABLE_FROM_S: Final = 30.0
# Hosts that may not leave are passed over, but not without end.
_EVICTION_TRIES: Final = 16

# What may follow what. READY: may be drawn. IN_PROCESS: as many requests in flight as the host may have. SNOOZED:
# waits until an instant. EXHAUSTED: no URL waits. PARKED, RETIRED: nothing is fetched in this run; READY again at the
# start of the next.
TRANSITIONS: Final[dict[QueueState, frozenset[QueueState]]] = {
    QueueState.READY: frozenset(QueueState),
    QueueState.IN_PROCESS: frozenset(QueueState),
    QueueState.SNOOZED: frozenset(QueueState) - {QueueState.IN_PROCESS},
    QueueState.EXHAUSTED: frozenset(QueueState) - {QueueState.IN_PROCESS},
    QueueState.PARKED: frozenset({QueueState.READY, QueueState.RETIRED}),
    QueueState.RETIRED: frozenset({QueueState.READY}),
}


class Ranked(Protocol):
    """What the order needs to know of a waiting URL."""

    @property
    def band(self) -> int:
        """Front queue, 0 (first) to 3."""
        ...

    @property
    def template(self) -> int:
        """Which of the host's templates the URL belongs to."""
        ...


U = TypeVar("U", bound=Ranked)
P = TypeVar("P")


class HostQueue(Generic[U, P]):
    """The next URLs of one host, its prerequisites and its state. The state is moved by the frontier alone.

    record: what is stored of the host; replaced as it changes. prerequisites: tasks that go before any URL of the
    host, of the owner's own kind. in_flight, unsettled: hashes of URLs whose result is awaited, or not yet committed;
    the owner keeps both, a host with either is not evicted.
    """

    __slots__ = (
        "_size",
        "_window",
        "cause",
        "group",
        "in_flight",
        "prerequisites",
        "record",
        "state",
        "unsettled",
        "until",
    )

    def __init__(self, record: HostRecord) -> None:
        self.record = record
        self.state = QueueState.READY
        self.until = 0.0
        self.cause = WaitCause.DELAY
        self.group = ""
        self.prerequisites: deque[P] = deque()
        self.in_flight: set[int] = set()
        self.unsettled: set[int] = set()
        # lists, not deques: a window holds few hundred URLs, most templates one or two, and a deque takes 0.7 KB
        self._window: dict[int, OrderedDict[int, list[U]]] = {}
        self._size = 0

    @property
    def name(self) -> str:
        """Host name, the gate key."""
        return self.record.name

    def __len__(self) -> int:
        return self._size

    def __bool__(self) -> bool:
        return True  # a queue without URLs is still a queue

    def __repr__(self) -> str:
        wait = f" until {self.until:.1f} ({self.cause.name})" if self.state is QueueState.SNOOZED else ""
        return f"<HostQueue {self.name} {self.state.name}{wait}, {len(self)} URLs, {len(self.in_flight)} in flight>"

    def fill(self, urls: Iterable[U]) -> None:
        """Put URLs behind those of their band and template. If the host is ready, `Frontier.ready` is called next."""
        for url in urls:
            rotation = self._window.setdefault(url.band, OrderedDict())
            rotation.setdefault(url.template, []).append(url)
            self._size += 1

    def put_back(self, url: U) -> None:
        """Undo `take`: `url` is the next of its band again. If the host is ready, `Frontier.ready` is called next."""
        rotation = self._window.setdefault(url.band, OrderedDict())
        rotation.setdefault(url.template, []).insert(0, url)
        rotation.move_to_end(url.template, last=False)
        self._size += 1

    def peek(self, band: int) -> U | None:
        """Return what `take` would give, or None if the band is empty."""
        rotation = self._window.get(band)
        return next(iter(rotation.values()))[0] if rotation else None

    def take(self, band: int) -> U:
        """Take out the next URL of a band, templates in turn. Raises LookupError if the band is empty."""
        rotation = self._window.get(band)
        if not rotation:
            raise LookupError(f"band {band} of {self.name} is empty")
        template, urls = next(iter(rotation.items()))
        url = urls.pop(0)
        self._size -= 1
        if urls:
            rotation.move_to_end(template)
        else:
            del rotation[template]
        if not rotation:
            del self._window[band]
        return url

    def waiting(self) -> Iterator[U]:
        """Yield what the window holds, band by band: O(n)."""
        for rotation in self._window.values():
            for urls in rotation.values():
                yield from urls

    def clear(self) -> None:
        """Forget the window: its URLs are in the store, or are no longer wanted."""
        self._window.clear()
        self._size = 0

    def bands(self) -> tuple[int, ...]:
        """Return the bands in which the host stands in line; one with prerequisites alone is in the first."""
        if self._window:
            return tuple(sorted(self._window))
        return (0,) if self.prerequisites else ()

    def stands_in(self, band: int) -> bool:
        """Tell whether the host stands in line in `band`."""
        return band in self._window or (band == 0 and not self._window and bool(self.prerequisites))


@dataclass(frozen=True, slots=True)
class Standing:
    """What the end of a crawl depends on. Instants are None if nobody waits so.

    in_flight: tasks whose result is not yet committed. ready: hosts that could be asked now. politely_due_at: first
    host that waits for a cause which does not count against the patience; otherwise_due_at: for one that does.
    """

    in_flight: int
    ready: int
    politely_due_at: float | None
    otherwise_due_at: float | None


def ended(standing: Standing, *, now: float, patience_s: float) -> bool:
    """Tell whether the crawl ends: nothing is in flight and nothing becomes due within `patience_s`.

    A wait that politeness asks for (delay, Crawl-delay, address group, prerequisite) does not count, however long:
    such a host keeps the crawl going. A host in back-off, Retry-After, retry spacing, without robots.txt or DNS does so
    only if it is due within the patience. The standing knows active hosts alone: ask only once every host that waits
    in the store is active, or the first of those that are not is part of the standing.
    """
    if standing.in_flight or standing.ready or standing.politely_due_at is not None:
        return False
    return standing.otherwise_due_at is None or standing.otherwise_due_at > now + patience_s


class Frontier(Generic[U, P]):
    """The active host queues, at most `most` of them, each in the state it was last moved to.

    Instants are in whichever clock the caller keeps to. Not safe for threads.
    """

    def __init__(self, *, most: int) -> None:
        self._most = most
        self._hosts: dict[str, HostQueue[U, P]] = {}
        self._lines: tuple[OrderedDict[str, HostQueue[U, P]], ...] = tuple(
            OrderedDict() for _ in range(BANDS)
        )
        self._groups = GroupLines()
        self._counts = dict.fromkeys(QueueState, 0)
        self._polite: DueQueue[str] = DueQueue()
        self._other: DueQueue[str] = DueQueue()
        self._furthest: DueQueue[str] = DueQueue()  # by -until: who leaves first

    def __len__(self) -> int:
        return len(self._hosts)

    def __repr__(self) -> str:
        states = ", ".join(f"{n} {state.name.lower()}" for state, n in self._counts.items() if n)
        return f"<Frontier {len(self)} of {self._most} hosts: {states or 'none'}>"

    @property
    def full(self) -> bool:
        """True if one must leave before another is added."""
        return len(self._hosts) >= self._most

    def hosts(self) -> list[HostQueue[U, P]]:
        """Return all active hosts: O(n)."""
        return list(self._hosts.values())

    def get(self, name: str) -> HostQueue[U, P] | None:
        """Return an active host, or None."""
        return self._hosts.get(name)

    def count(self, state: QueueState) -> int:
        """Return how many active hosts are in `state`."""
        return self._counts[state]

    def add(self, host: HostQueue[U, P]) -> None:
        """Make a host active and ready. Raises ValueError if the set is full or has a host of this name."""
        if self.full or host.name in self._hosts:
            raise ValueError(f"{host!r} cannot join {self!r}")
        self._hosts[host.name] = host
        host.state = QueueState.READY
        self._counts[host.state] += 1
        self._line_up(host)

    def drop(self, host: HostQueue[U, P]) -> None:
        """Let a host leave the active set, in whatever state it is."""
        self._leave(host)
        self._counts[host.state] -= 1
        del self._hosts[host.name]
        self.wake_group(self._groups.stand(host.name, ""))

    def evictable(
        self, now: float, *, stays: Callable[[str], bool] = lambda _name: False
    ) -> HostQueue[U, P] | None:
        """Return the host that leaves if another needs its place, or None if all are worth theirs.

        It is the one that waits longest, more than 30 s from now, with nothing in flight, unsettled or required first
        (and not for a prerequisite), and of which `stays` does not say that it may not leave.
        """
        passed_over: list[tuple[str, float]] = []
        found = None
        while found is None and len(passed_over) < _EVICTION_TRIES and (first := self._furthest.earliest()):
            negated, name = first
            if -negated <= now + EVICTABLE_FROM_S:
                break
            host = self._hosts[name]
            if host.in_flight or host.unsettled or host.prerequisites or stays(name):
                passed_over.append((name, negated))
                self._furthest.discard(name)
            else:
                found = host
        for name, negated in passed_over:
            self._furthest.set(name, negated)
        return found

    def ready(self, host: HostQueue[U, P]) -> None:
        """Let a host be drawn; of a ready one, stand in line for bands that it has got URLs in since."""
        self._move(host, QueueState.READY)
        self._line_up(host)

    def start(self, host: HostQueue[U, P]) -> None:
        """A host has as many requests in flight as it may: it is not drawn."""
        self._move(host, QueueState.IN_PROCESS)

    def snooze(self, host: HostQueue[U, P], until: float, cause: WaitCause, *, group: str = "") -> None:
        """Let a host wait until an instant. group: the address group that refused it, in whose line it then stands."""
        self._move(host, QueueState.SNOOZED, group=group)
        host.until, host.cause, host.group = until, cause, group
        (self._other if cause.counts else self._polite).set(host.name, until)
        if cause is not WaitCause.PREREQUISITE:  # what it waits for is known in memory alone, and soon here
            self._furthest.set(host.name, -until)

    def exhaust(self, host: HostQueue[U, P]) -> None:
        """A host has no URL waiting."""
        self._move(host, QueueState.EXHAUSTED)

    def park(self, host: HostQueue[U, P]) -> None:
        """A host asks for what we cannot do: nothing is fetched from it in this run."""
        self._move(host, QueueState.PARKED)

    def retire(self, host: HostQueue[U, P]) -> None:
        """A host failed too often: nothing is fetched from it in this run."""
        self._move(host, QueueState.RETIRED)

    def wake_due(self, now: float) -> list[HostQueue[U, P]]:
        """Make hosts ready whose wait is over, and return them."""
        woken = [self._hosts[name] for name in (*self._polite.pop_due(now), *self._other.pop_due(now))]
        for host in woken:
            self._groups.call(host.name)
            self.ready(host)
        return woken

    def wake_group(self, group: str) -> HostQueue[U, P] | None:
        """Make the host ready that has waited longest for an address group, and return it; None if none waits.

        If it then goes elsewhere than into flight or back into this line, the next in line is woken in its stead.
        """
        name = self._groups.first(group)
        if name is None:
            return None
        host = self._hosts[name]
        self._groups.call(name)
        self.ready(host)
        return host

    def next_host(self, draw: Callable[[], float]) -> tuple[HostQueue[U, P], int] | None:
        """Return the host whose turn it is and the band that was drawn, or None if no ready host has anything.

        draw: chance in [0, 1). The host goes to the end of the band's line and stays ready: the caller takes a URL
        (or a prerequisite), or moves the host.
        """
        while (band := draw_band([bool(line) for line in self._lines], draw())) is not None:
            line = self._lines[band]
            name, host = next(iter(line.items()))
            if host.stands_in(band):
                line.move_to_end(name)
                return host, band
            del line[name]  # its URLs of the band were taken since
        return None

    def next_due(self) -> tuple[float, WaitCause] | None:
        """Return when the next snoozed host is due, and why it waits."""
        first = [due for due in (self._polite.earliest(), self._other.earliest()) if due]
        if not first:
            return None
        until, name = min(first)
        return until, self._hosts[name].cause

    def standing(self, *, in_flight: int) -> Standing:
        """Return what `ended` decides by. O(1)."""
        polite, other = self._polite.earliest(), self._other.earliest()
        return Standing(
            in_flight=in_flight,
            ready=self._counts[QueueState.READY],
            politely_due_at=polite[0] if polite else None,
            otherwise_due_at=other[0] if other else None,
        )

    def _move(self, host: HostQueue[U, P], state: QueueState, *, group: str = "") -> None:
        if state not in TRANSITIONS[host.state]:
            raise ValueError(f"{host!r} does not become {state.name}")
        if self._hosts.get(host.name) is not host:
            raise ValueError(f"{host!r} is not active")
        if state is host.state is QueueState.READY:
            return
        self._leave(host)
        self._counts[host.state] -= 1
        self._counts[state] += 1
        host.state = state
        if state is not QueueState.READY:
            turn = self._groups.stand(host.name, group)
            if state is not QueueState.IN_PROCESS:
                self.wake_group(turn)

    def _line_up(self, host: HostQueue[U, P]) -> None:
        for band in host.bands():
            self._lines[band].setdefault(host.name, host)

    def _leave(self, host: HostQueue[U, P]) -> None:
        """Take a host out of the lines and waits of its state."""
        if host.state is QueueState.READY:
            for line in self._lines:
                line.pop(host.name, None)
        elif host.state is QueueState.SNOOZED:
            self._polite.discard(host.name)
            self._other.discard(host.name)
            self._furthest.discard(host.name)
            self._groups.leave(host.name)
