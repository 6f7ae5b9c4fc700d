"""The bounded set of hosts that are worked on: which host is in memory, which URLs of it, and when it may be asked.

A host enters when it has URLs waiting and there is room (soonest due first), or when a robots.txt redirect leads to it.
It leaves when the store holds nothing more of it and nothing of it is in flight or unsettled; or, when others wait for
room, if it has to wait long anyway. `reschedule` is the one place that decides a host's place in the frontier.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from typing import Any

from mannerly.clock import Clock
from mannerly.coordinator.hosts import ActiveHost, RobotsStep
from mannerly.model.config import FrontierConfig
from mannerly.model.host import HostRecord, QueueState, WaitCause
from mannerly.model.verdict import Reason
from mannerly.policy import politeness
from mannerly.policy.frontier import Frontier, HostQueue
from mannerly.ports import HostGate, StateStore, Waiting

FOREVER = float("inf")
# a window is read anew once it is down to this part of its bound and the store has more
REFILL_PART = 4
# hosts beyond the bound of the set, for the sake of others' robots.txt: as many as hosts that ask, or these
GUESTS_AT_LEAST = 64

Spawn = Callable[[Coroutine[Any, Any, None]], None]


class ActiveSet:
    """Hosts in memory, their windows and their places in the frontier. Touched by the coordinator's one loop alone.

    spawn runs a coroutine under the owner's task group. restarted_at: start of this run (UTC); unclean: the last run
    did not end cleanly, so each host is held for its own delay from then on. changed is called when a host may be due.
    """

    def __init__(
        self,
        *,
        store: StateStore,
        gate: HostGate,
        clock: Clock,
        config: FrontierConfig,
        per_host: int,
        min_delay_s: float,
        restarted_at: float,
        unclean: bool,
        spawn: Spawn,
        changed: Callable[[], None],
    ) -> None:
        self._store = store
        self._gate = gate
        self._clock = clock
        self._config = config
        self._per_host = per_host
        self._min_delay_s = min_delay_s
        self._restarted_at = restarted_at
        self._unclean = unclean
        self._spawn = spawn
        self._changed = changed
        self._hosts: dict[str, ActiveHost] = {}
        self._activating = False
        self._outside = True
        self._loads = 0
        self._guests = 0
        self._outsiders: tuple[HostRecord, ...] | None = None
        self._polite_outside: tuple[HostRecord, ...] | None = None
        most = config.active_hosts + max(config.active_hosts, GUESTS_AT_LEAST)
        self.frontier: Frontier[Waiting, RobotsStep] = Frontier(most=most)

    # --------------------------------------------------------------------------------------------- who is in

    def get(self, name: str) -> ActiveHost | None:
        """Return the host if it is in memory."""
        return self._hosts.get(name)

    def __iter__(self) -> Iterator[ActiveHost]:
        return iter(self._hosts.values())

    def __len__(self) -> int:
        return len(self._hosts)

    @property
    def full(self) -> bool:
        """True if no further host finds room."""
        return len(self._hosts) - self._guests >= self._config.active_hosts

    @property
    def outside(self) -> bool:
        """True if hosts with URLs waiting may be outside for want of room, or were not looked for yet."""
        return self._outside

    @property
    def outside_waits(self) -> tuple[tuple[float, WaitCause], ...] | None:
        """When (monotonic) and why hosts outside are due, if none inside waits longer than they do.

        The first of them, and the first that waits politely if that one does not. None if no host is outside, or one
        that is may be worth a place: then that is still to be seen.
        """
        if self._outsiders is None:
            return None
        ahead_s = self._clock.monotonic() - self._clock.now()
        return tuple((record.ready_at + ahead_s, record.waits_for) for record in self._outsiders)

    async def ensure(self, name: str) -> ActiveHost | None:
        """Return the host, brought into memory if it was not: a prerequisite leads to it. None if there is no room
        even for a guest.

        The caller hands it what it came for and calls `reschedule`: a host without anything to do does not stay.
        """
        host = self._hosts.get(name)
        if host is not None:
            return host
        record = await self._store.ensure_host(name)
        host = self._hosts.get(name)
        if host is None and not self.frontier.full:
            guest = self.full
            host = await self._enter(record)
            if guest:
                host.guest, host.more = True, False
                self._guests += 1
        return host

    def wake(self, names: list[str]) -> None:
        """Note that the store holds new URLs of these hosts."""
        for name in names:
            host = self._hosts.get(name)
            if host is None or host.guest:
                self._note_outside()
            else:
                host.more = True
                self.reschedule(host)
        if self._outside:
            self.activate()

    def wake_all(self) -> None:
        """Note that the store may hold URLs of any host that wait again."""
        for host in list(self._hosts.values()):
            host.more = not host.guest
            self.reschedule(host)
        self._note_outside()

    def activate(self) -> None:
        """Bring in hosts that have URLs waiting, as far as there is room, or hosts inside that wait longer."""
        if self._activating or not self._outside:
            return
        busy = self.frontier.count(QueueState.READY) or self.frontier.count(QueueState.IN_PROCESS)
        if self.full and busy and self.frontier.evictable(self._clock.monotonic(), stays=self._stays) is None:
            return
        self._activating = True
        self._spawn(self._activate())

    async def _activate(self) -> None:
        room = max(1, self._config.active_hosts - len(self._hosts) + self._guests)
        self._outside, self._outsiders = False, None
        crowded_out: tuple[HostRecord, ...] | None = None
        records = await self._store.ready_hosts(limit=room, exclude=frozenset(self._hosts))
        for record in records:
            if record.name in self._hosts:
                continue
            if self.full and not self._make_room(record):
                crowded_out = (record, *await self._polite_behind(record))
                break
            self.reschedule(await self._enter(record))
        if not self._outside:  # nor has a host outside got URLs meanwhile
            self._outsiders = crowded_out
        self._outside = self._outside or crowded_out is not None or len(records) == room
        self._activating = False
        self._changed()

    async def _polite_behind(self, first: HostRecord) -> tuple[HostRecord, ...]:
        """Return the first host outside that waits politely, if `first`, the very first, does not; () if none does.

        A crawl at rest looks four times a second, and nothing changes outside without being noted: it is kept.
        """
        if not first.waits_for.counts:
            return ()
        if self._polite_outside is None:
            inside = frozenset(self._hosts)
            found = tuple(await self._store.ready_hosts(limit=1, exclude=inside, polite=True))
            if self._outside:
                return found
            self._polite_outside = found
        return self._polite_outside

    def _note_outside(self) -> None:
        """Note that a host outside may have got URLs to fetch: who waits there is to be seen anew."""
        self._outside, self._outsiders, self._polite_outside = True, None, None

    async def _enter(self, record: HostRecord) -> ActiveHost:
        host = ActiveHost.of(record)
        now = self._clock.now()
        # never asked, as far as the store knows: its first answer may have been lost with the batch. And this run may
        # be told to be slower than the last: its pace counts from the last answer, too
        own_s = max(record.pace.delay_s, self._min_delay_s)
        record = replace(record, pace=replace(record.pace, delay_s=own_s))
        ok_at = politeness.resumed_ok_at(record, restarted_at=self._restarted_at, unclean=self._unclean)
        ok_at = max(ok_at, record.contacted_at + self._min_delay_s)
        held_s = max(0.0, ok_at - now)
        if held_s > 0:
            await self._gate.hold(record.name, for_s=held_s)
        host.next_ok_at = ok_at
        host.open_at = self._clock.monotonic() + held_s
        self._hosts[record.name] = host
        self._polite_outside = None
        self.frontier.add(host.queue)
        if record.state is QueueState.PARKED:
            self.frontier.park(host.queue)
        elif record.state is QueueState.RETIRED:
            self.frontier.retire(host.queue)
        return host

    def _make_room(self, record: HostRecord) -> bool:
        """Let a host go that has to wait long anyway, and longer than that of `record`; False if there is none."""
        now = self._clock.monotonic()
        queue = self.frontier.evictable(now, stays=self._stays)
        if queue is None or queue.until - now <= record.ready_at - self._clock.now():
            return False
        self._leave(self._hosts[queue.name])
        self._note_outside()
        return True

    def _leave(self, host: ActiveHost) -> None:
        self.frontier.drop(host.queue)
        del self._hosts[host.name]
        if host.guest:
            # URLs of its own may wait: nobody has looked for them as long as it was here
            self._guests -= 1
            self._note_outside()

    # ---------------------------------------------------------------------------------------------- its place

    def reschedule(self, host: ActiveHost) -> None:
        """Put the host where it belongs now: ready, snoozed until an instant, in process, or out of memory."""
        queue = host.queue
        if self._hosts.get(host.name) is not host or queue.state in (QueueState.PARKED, QueueState.RETIRED):
            self._leave_if_done(host)
            return
        self._refill(host)
        now = self._clock.monotonic()
        # while its own rules are asked for elsewhere, a host still answers for the rules of others
        waits = host.resolving or (host.blocked and not queue.prerequisites)
        if waits or (len(queue.in_flight) >= self._per_host and queue.state is QueueState.SNOOZED):
            self.frontier.snooze(queue, FOREVER, WaitCause.PREREQUISITE)
        elif len(queue.in_flight) >= self._per_host:
            self.frontier.start(queue)
        elif queue.bands():
            if host.ending is not None:
                self.frontier.ready(queue)
            elif host.open_at > now:
                self.frontier.snooze(queue, host.open_at, host.cause)
            elif not _in_line(queue, now):
                self.frontier.ready(queue)
        elif queue.in_flight or queue.unsettled or host.loading or host.more:
            self.frontier.snooze(queue, FOREVER, WaitCause.PREREQUISITE)
        elif host.next_due_at is not None:
            due_at = now + max(0.0, host.next_due_at - self._clock.now())
            self.frontier.snooze(queue, max(due_at, host.open_at), WaitCause.RETRY_SPACING)
        else:
            self.frontier.exhaust(queue)
            self._leave_if_done(host)
        self._changed()

    def woke(self, host: ActiveHost) -> None:
        """Note that a snoozed host's instant has come: delayed URLs of it may be due."""
        if host.next_due_at is not None and host.next_due_at <= self._clock.now():
            host.next_due_at = None
            host.more = True
        self.reschedule(host)

    def pause(self, host: ActiveHost, wait_s: float, cause: WaitCause) -> None:
        """Leave the host alone for `wait_s` at least, whatever it waits for otherwise."""
        until = self._clock.monotonic() + wait_s
        if until > host.open_at:
            host.open_at, host.cause = until, cause
            host.next_ok_at = max(host.next_ok_at, self._clock.now() + wait_s)
            host.dirty = True
        self.reschedule(host)

    def group_released(self, group: str) -> None:
        """A place in the address group is free: wake the host that waits longest for it, or whoever then takes it."""
        if group and self.frontier.wake_group(group) is not None:
            self._changed()

    def lay_off(self, host: ActiveHost, state: QueueState, reason: Reason, detail: str) -> None:
        """Park or retire the host for this run; its URLs stay waiting for the next."""
        host.stored_state, host.reason, host.detail = state, reason, detail
        host.dirty = True
        if state is QueueState.PARKED:
            self.frontier.park(host.queue)
        else:
            self.frontier.retire(host.queue)
        host.queue.clear()
        self._leave_if_done(host)
        self._changed()

    def _leave_if_done(self, host: ActiveHost) -> None:
        """Forget a host of which nothing is in flight, unsettled or undone."""
        queue = host.queue
        if self._hosts.get(host.name) is not host or queue.in_flight or queue.unsettled or host.loading:
            return
        if queue.prerequisites or host.dirty:
            return
        self._leave(host)
        self.activate()

    # ------------------------------------------------------------------------------------------------ windows

    def settled(self, host: ActiveHost, hash_: int, *, again: bool) -> None:
        """A URL of the host became durable; `again` if it is to be asked for once more."""
        host.queue.unsettled.discard(hash_)
        if again:
            host.more = True

    def _refill(self, host: ActiveHost) -> None:
        low = len(host.queue) <= self._config.window_urls // REFILL_PART
        if low and host.more and not host.loading:
            host.loading = True
            host.more = False
            self._loads += 1
            self._spawn(self._load(host))

    async def _load(self, host: ActiveHost) -> None:
        queue = host.queue
        exclude = frozenset(queue.in_flight | queue.unsettled | {item.id.hash for item in queue.waiting()})
        window = await self._store.window(
            host.id, limit=self._config.window_urls, now=self._clock.now(), exclude=exclude
        )
        host.loading = False
        self._loads -= 1
        queue.fill(window.urls)
        if queue.state in (QueueState.PARKED, QueueState.RETIRED):
            queue.clear()
        host.more = host.more or window.more
        host.next_due_at = window.next_due_at
        self.reschedule(host)

    def take(self, host: ActiveHost, band: int) -> Waiting:
        """Take the next URL of a band out of the host's window; until it is settled no window brings it back."""
        entry = host.queue.take(band)
        host.queue.unsettled.add(entry.id.hash)
        return entry

    def put_back(self, host: ActiveHost, entry: Waiting) -> None:
        """Undo `take`."""
        host.queue.unsettled.discard(entry.id.hash)
        host.queue.put_back(entry)

    def take_all(self, host: ActiveHost) -> list[Waiting]:
        """Take everything that the host's window holds."""
        taken = list(host.queue.waiting())
        host.queue.clear()
        host.queue.unsettled.update(entry.id.hash for entry in taken)
        return taken

    def take_steps(self, host: ActiveHost) -> list[RobotsStep]:
        """Take the robots.txt hops that wait for the host out of its queue."""
        steps = list(host.queue.prerequisites)
        host.queue.prerequisites.clear()
        return steps

    def _stays(self, name: str) -> bool:
        """Tell whether something is known of the host that no row holds: what came of its name, or unsaved facts."""
        host = self._hosts[name]
        return host.dirty or host.loading or host.dns_failures > 0 or host.ending is not None

    def __repr__(self) -> str:
        return f"<ActiveSet {len(self._hosts)} of {self._config.active_hosts} hosts, {self._loads} windows loading>"


def _in_line(queue: HostQueue[Waiting, RobotsStep], now: float) -> bool:
    """Tell whether the host waits for a place in its address group: news of other things leave it its place in line."""
    return queue.state is QueueState.SNOOZED and queue.cause is WaitCause.GROUP and queue.until > now
