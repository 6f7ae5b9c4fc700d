"""Dispatch: due host queues -> address, ruleset -> gate -> tasks.

The frontier picks the host and the band, the host's templates in turn the URL. Before a URL goes out its host's
address and its origin's ruleset must be in hand; what is missing is asked for as a prerequisite task, the host waits
meanwhile. The permit is taken last: nothing but sending follows it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from mannerly.clock import Clock
from mannerly.coordinator.active import ActiveSet, Spawn
from mannerly.coordinator.addresses import AddressBook
from mannerly.coordinator.flights import Flight, Flights
from mannerly.coordinator.hosts import ActiveHost, RobotsStep
from mannerly.coordinator.quarantine import Quarantine
from mannerly.coordinator.rulesets import Rulesets
from mannerly.coordinator.settle import Dropped, Settle
from mannerly.model import url as urls
from mannerly.model.config import PolitenessConfig
from mannerly.model.errors import InvalidUrl
from mannerly.model.host import QueueState, WaitCause
from mannerly.model.origin import OriginRecord
from mannerly.model.task import Identity, Limits, Task, TaskKind, UrlState, Validators, Wanted
from mannerly.model.url import Url
from mannerly.model.verdict import Reason, Verdict, refused
from mannerly.policy import groups, politeness
from mannerly.ports import Claim, HostGate, Permit, Transport, Wait, Waiting

# URLs settled without a request before another host gets its turn
DROPS_IN_A_ROW = 100
# how soon a host looks again whether what it is to ask for alone has its turn
ALONE_S = 0.25
FOREVER = float("inf")


@dataclass(frozen=True, slots=True)
class Orders:
    """What tasks of this crawl are made of. header_origins: origins that the user's own headers may go to."""

    identity: Identity
    limits: Limits
    wanted: Wanted
    headers: tuple[tuple[str, str], ...] = ()
    header_origins: frozenset[str] = frozenset()


@dataclass(slots=True)
class Allowance:
    """Whether more may be sent. `paused` tells why not, '' if it may. pages: pages of all runs so far."""

    concurrency: int
    max_pages: int = 0
    pages: int = 0
    paused: str = ""

    def room(self, flights: Flights) -> bool:
        """True if another task may go out now."""
        return not self.paused and len(flights) < self.concurrency

    def page_room(self, flights: Flights, unsettled: int) -> bool:
        """True if another page fits the page budget, those that are out or not yet counted included."""
        return not self.max_pages or self.pages + flights.pages + unsettled < self.max_pages

    @property
    def spent(self) -> bool:
        """True once as many pages as allowed were taken."""
        return bool(self.max_pages) and self.pages >= self.max_pages


class Dispatch:
    """Sends tasks while there is room and a host is ready."""

    def __init__(
        self,
        *,
        active: ActiveSet,
        flights: Flights,
        quarantine: Quarantine,
        rulesets: Rulesets,
        addresses: AddressBook,
        gate: HostGate,
        transport: Transport,
        settle: Settle,
        clock: Clock,
        draw: Callable[[], float],
        politeness_config: PolitenessConfig,
        orders: Orders,
        allowance: Allowance,
        obey: Callable[[ActiveHost, OriginRecord], None],
        spawn: Spawn,
    ) -> None:
        self._active = active
        self._flights = flights
        self._quarantine = quarantine
        self._rulesets = rulesets
        self._addresses = addresses
        self._gate = gate
        self._transport = transport
        self._settle = settle
        self._clock = clock
        self._draw = draw
        self._politeness = politeness_config
        self._orders = orders
        self._allowance = allowance
        self._obey = obey
        self._spawn = spawn
        self._work = asyncio.Event()
        self._lease_s = politeness.lease_s(orders.limits)

    def changed(self) -> None:
        """Look again: a host may be due, or a place is free."""
        self._work.set()

    async def run(self) -> None:
        """Send what is due, until cancelled."""
        while True:
            self._work.clear()
            due_at = await self._send_due()
            await self._wait(due_at)

    async def _wait(self, due_at: float | None) -> None:
        """Wait until something changed, or the first snoozed host is due."""
        if due_at is None:
            await self._work.wait()
            return
        left_s = due_at - self._clock.monotonic()
        if left_s <= 0:
            await asyncio.sleep(0)
            return
        # not `wait_for`: cancelled in the instant in which the event is set it would forget the cancellation (CPython
        # gh-86296), and the crawl could not end
        with suppress(TimeoutError):
            async with asyncio.timeout(left_s):
                await self._work.wait()

    async def _send_due(self) -> float | None:
        """Serve ready hosts while there is room; return when the next host is due (monotonic), if one is snoozed."""
        frontier = self._active.frontier
        while self._allowance.room(self._flights):
            for queue in frontier.wake_due(self._clock.monotonic()):
                host = self._active.get(queue.name)
                if host is not None:
                    self._active.woke(host)
            chosen = frontier.next_host(self._draw)
            if chosen is None:
                due = frontier.next_due()
                return due[0] if due is not None and due[0] < FOREVER else None
            queue, band = chosen
            host = self._active.get(queue.name)
            assert host is not None
            await self._serve(host, band)
        return None

    # ------------------------------------------------------------------------------------------------ one host

    async def _serve(self, host: ActiveHost, band: int) -> None:
        """Send one task for the host, or find out what it waits for; settle on the way what is not to be sent."""
        for _ in range(DROPS_IN_A_ROW):
            if host.queue.prerequisites and host.ending is None:
                await self._send_step(host)
                break
            if not host.queue.stands_in(band) or host.queue.peek(band) is None:
                break
            entry = self._active.take(host, band)
            verdict = self._speaks_against(host, entry)
            if verdict is not None and not verdict.allowed:
                self._drop(host, entry, verdict)
                continue
            if verdict is None or not await self._send_page(host, entry):
                self._active.put_back(host, entry)
            break
        if host.queue.state is QueueState.READY:
            self._active.reschedule(host)

    def _speaks_against(self, host: ActiveHost, entry: Waiting) -> Verdict | None:
        """Return the verdict on the URL as it goes out; None if the host now waits for a prerequisite."""
        if host.ending is not None:
            return refused(host.ending, host.ending_detail)
        try:
            url = urls.parse(entry.href)
        except InvalidUrl as error:
            return refused(Reason.INVALID_URL, str(error))
        verdict = self._rulesets.verdict(url, self._clock.now())
        if verdict is not None:
            return verdict
        self._ask_for_rules(host, url)
        return None

    def _drop(self, host: ActiveHost, entry: Waiting, verdict: Verdict) -> None:
        """Settle the URL without a request."""
        state = UrlState.REFUSED if verdict.reason in _REFUSALS else UrlState.FAILED
        self._settle.put(Dropped(host, entry, state, verdict))

    def _ask_for_rules(self, host: ActiveHost, url: Url) -> None:
        """Bring the ruleset into memory, or put robots.txt first in the host's queue."""
        origin = url.origin
        if not self._rulesets.is_loaded(origin):
            host.blocked = True
            self._spawn(self._load_rules(host, origin))
        elif origin in self._rulesets.quests:
            host.blocked = True  # asked already: the answer wakes the host
        else:
            step = RobotsStep(origin, f"{origin}/robots.txt")
            self._rulesets.quests[origin] = step
            host.queue.prerequisites.appendleft(step)
        self._active.reschedule(host)

    async def _load_rules(self, host: ActiveHost, origin: str) -> None:
        await self._rulesets.load(origin)
        host.blocked = False
        known = self._rulesets.in_hand(origin)
        if known is not None:
            self._obey(host, known.record)
        self._active.reschedule(host)

    # ----------------------------------------------------------------------------------------------- one task

    async def _send_step(self, host: ActiveHost) -> None:
        """Ask for robots.txt, or for where it moved, unless the host has to wait first."""
        alone = host.queue.prerequisites[0].url in self._quarantine
        if alone and not self._quarantine_free(host):
            return
        permit = await self._permit(host)
        if permit is None:
            return
        step = host.queue.prerequisites.popleft()
        known = self._rulesets.in_hand(step.origin)
        held = known.record if known is not None and not step.hops else None
        task = Task(
            id=self._flights.next_id(),
            kind=TaskKind.ROBOTS,
            url=step.url,
            host=host.name,
            address=permit.address,
            identity=self._orders.identity,
            limits=self._orders.limits,
            send_within_s=politeness.HOLD_S,
            validators=Validators(held.etag, held.last_modified) if held is not None else Validators(),
            fresh=step.repeats > 0,
            alone=alone,
        )
        host.queue.in_flight.add(task.id)
        if urls.host_of(step.origin + "/") == host.name:
            host.blocked = True
        await self._send(Flight(task, host, self._clock.monotonic(), permit, step=step))

    async def _send_page(self, host: ActiveHost, entry: Waiting) -> bool:
        """Ask for the URL; False if the host has to wait first."""
        if not self._allowance.page_room(self._flights, self._settle.unsettled):
            self._allowance.paused = "the page budget is out with workers"
            return False
        alone = entry.href in self._quarantine
        if alone and not self._quarantine_free(host):
            return False
        permit = await self._permit(host)
        if permit is None:
            return False
        host.queue.unsettled.discard(entry.id.hash)
        host.queue.in_flight.add(entry.id.hash)
        origin = urls.origin_of(entry.href)
        task = Task(
            id=self._flights.next_id(),
            kind=TaskKind.PAGE,
            url=entry.href,
            host=host.name,
            address=permit.address,
            identity=self._orders.identity,
            limits=self._orders.limits,
            send_within_s=politeness.HOLD_S,
            wanted=self._orders.wanted,
            headers=self._orders.headers if origin in self._orders.header_origins else (),
            attempt=entry.attempts + 1,
            fresh=entry.uncounted > 0,
            alone=alone,
        )
        await self._send(Flight(task, host, self._clock.monotonic(), permit, entry=entry))
        return True

    def _quarantine_free(self, host: ActiveHost) -> bool:
        """Tell whether nothing is out alone; if something is, the host waits: no permit runs while it stands in line."""
        if not self._flights.alone:
            return True
        self._active.frontier.snooze(host.queue, self._clock.monotonic() + ALONE_S, WaitCause.DELAY)
        return False

    async def _permit(self, host: ActiveHost) -> Permit | None:
        """Take the host's permit; None if its name is to be resolved first, or the gate says to wait."""
        address = self._addresses.current(host, self._clock.now())
        if not address:
            await self._resolve(host)
            return None
        group = groups.group_key(address, group_private=self._politeness.group_private)
        claim = Claim(
            host=host.name,
            address=address,
            group=group,
            lease_s=self._lease_s,
            delay_s=max(host.pace.delay_s, host.pace.crawl_delay_s, self._politeness.min_delay_s),
            per_host=self._politeness.per_host,
            per_group=groups.most_in_group(self._politeness.per_host),
            group_spacing_s=groups.group_spacing_s(self._politeness.min_delay_s),
        )
        answer = await self._gate.claim(claim)
        if isinstance(answer, Permit):
            return answer
        self._wait_at(host, answer)
        return None

    def _wait_at(self, host: ActiveHost, wait: Wait) -> None:
        cause = WaitCause.GROUP if wait.group else host.cause
        self._active.frontier.snooze(host.queue, wait.until, cause, group=wait.group)

    async def _resolve(self, host: ActiveHost) -> None:
        """Ask a worker for the host's addresses; one such task a name at a time, no permit needed."""
        task = Task(
            id=self._flights.next_id(),
            kind=TaskKind.RESOLVE,
            url=host.name,
            host=host.name,
            fresh=host.dns_failures > 0,
        )
        host.resolving = True
        await self._send(Flight(task, host, self._clock.monotonic()))
        self._active.reschedule(host)

    async def _send(self, flight: Flight) -> None:
        self._flights.add(flight)
        await self._transport.send(flight.task)

    def __repr__(self) -> str:
        return f"<Dispatch {self._flights!r}{', paused: ' + self._allowance.paused if self._allowance.paused else ''}>"


# settled as refused; what else ends a URL without a request is a failure
_REFUSALS = frozenset(
    {
        Reason.ROBOTS_DISALLOWED,
        Reason.ROBOTS_UNREACHABLE,
        Reason.ROBOTS_TOO_COMPLEX,
        Reason.ADDRESS_REFUSED,
        Reason.INVALID_URL,
    }
)
