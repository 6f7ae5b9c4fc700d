"""Receipt: what is due at once for each result, before anything is durable.

The instant of receipt ends the response: the permit is released with the delay that the host's new pace asks for. Then
the result goes where it belongs: a page's to the settle batch, robots.txt's to the rulesets, a name's to its host.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from mannerly.clock import Clock
from mannerly.coordinator.active import ActiveSet
from mannerly.coordinator.addresses import literal
from mannerly.coordinator.flights import Flight, Flights
from mannerly.coordinator.hosts import ActiveHost, RobotsStep
from mannerly.coordinator.quarantine import Quarantine
from mannerly.coordinator.rulesets import Rulesets
from mannerly.coordinator.settle import Dropped, Settle, Settled
from mannerly.model import url as urls
from mannerly.model.config import PolitenessConfig
from mannerly.model.errors import InvalidUrl
from mannerly.model.host import Addresses, QueueState, WaitCause
from mannerly.model.origin import Access, OriginRecord, Ruleset
from mannerly.model.result import (
    AddressChanged,
    Expired,
    Failed,
    Failure,
    Fetched,
    NotModified,
    Outcome,
    Redirected,
    Resolved,
    Result,
    Unknown,
)
from mannerly.model.task import TaskKind, UrlState
from mannerly.model.verdict import Reason, refused
from mannerly.policy import access, politeness, retries
from mannerly.policy.disposition import plain_http
from mannerly.ports import HostGate

# how long an unresolved name is left alone: the first try and the second
DNS_SPACING_S = (30.0, 300.0)
NAME_SPACING_S = 5.0
NAME_ATTEMPTS = 2
DNS_ATTEMPTS = 3

Event = Callable[[str, dict[str, object]], None]


class Receipt:
    """Takes results in, one at a time, from the coordinator's loop."""

    def __init__(
        self,
        *,
        flights: Flights,
        quarantine: Quarantine,
        active: ActiveSet,
        gate: HostGate,
        rulesets: Rulesets,
        settle: Settle,
        clock: Clock,
        config: PolitenessConfig,
        needs_contact: Callable[[str], bool],
        event: Event,
    ) -> None:
        self._flights = flights
        self._quarantine = quarantine
        self._active = active
        self._gate = gate
        self._rulesets = rulesets
        self._settle = settle
        self._clock = clock
        self._config = config
        self._needs_contact = needs_contact
        self._event = event

    async def receive(self, result: Result) -> None:
        """Take one result in. A result of no task that is out is counted and ignored."""
        flight = self._flights.take(result.task_id)
        if flight is None:
            self._event("result-unasked", {"task": result.task_id, "worker": result.worker})
            return
        outcome = result.outcome
        if flight.task.kind is not TaskKind.RESOLVE:
            outcome = self._quarantine.judge(flight.task.url, outcome, alone=flight.task.alone)
        self._event(
            "task",
            {
                "kind": flight.task.kind,
                "url": flight.task.url,
                "attempt": flight.task.attempt,
                "outcome": retries.name_of(outcome),
                "elapsed_ms": round(result.timing.elapsed_s * 1_000),
                "worker": result.worker,
            },
        )
        if flight.step is not None and isinstance(outcome, Fetched) and outcome.ruleset is not None:
            self._heed(flight.host, flight.step, outcome.ruleset)
        if flight.permit is not None:
            await self._release(flight, result)
        host = flight.host
        if flight.task.kind is TaskKind.RESOLVE:
            self._resolved(host, outcome)
        elif flight.step is not None:
            host.queue.in_flight.discard(flight.task.id)
            await self._robots(flight.step, outcome)
            self._settle.put(host)
        elif flight.entry is not None:
            host.queue.in_flight.discard(flight.entry.id.hash)
            host.queue.unsettled.add(flight.entry.id.hash)
            self._settle.put(Settled(host, flight.entry, outcome, result, self._clock.now()))
        if isinstance(outcome, AddressChanged):
            self._next_address(host, outcome.detail)
        self._active.reschedule(host)

    # ------------------------------------------------------------------------------------------------ the host

    async def _release(self, flight: Flight, result: Result) -> None:
        """Give the permit back with the delay that the outcome asks for."""
        host, outcome, now = flight.host, result.outcome, self._clock.now()
        assert flight.permit is not None
        text = outcome.retry_after if isinstance(outcome, Fetched | Redirected) else ""
        asked = politeness.retry_after_s(text, now)
        ending = politeness.ending_of(outcome)
        paused = politeness.after(
            host.pace, ending, response_s=result.timing.elapsed_s, retry_after_s=asked, config=self._config
        )
        host.pace, host.cause = paused.pace, paused.cause
        host.open_at = await self._gate.release(flight.permit, delay_s=paused.wait_s)
        # the gate knows of longer waits that are in force: neither it nor what is stored is ever shortened
        host.next_ok_at = max(host.next_ok_at, now + host.open_at - self._clock.monotonic())
        host.contacted_at = now
        host.dirty = True
        self._active.group_released(flight.permit.group)
        if isinstance(outcome, Failed) and not outcome.sent and outcome.failure in _TRY_NEXT_ADDRESS:
            host.address_index += 1
        if host.reason is None and politeness.retired(host.pace):
            self._retire(host, Reason.HOST_RETIRED, f"{host.pace.failures} failures in a row")

    def _heed(self, host: ActiveHost, step: RobotsStep, ruleset: Ruleset) -> None:
        """Let the rules' own answer count for their Crawl-delay, before it is known whether they hold."""
        asked_s = ruleset.crawl_delay_s
        if asked_s is None or urls.host_of(step.origin + "/") != host.name:
            return
        if asked_s > host.pace.crawl_delay_s and politeness.crawl_delay_verdict(asked_s).allowed:
            host.pace = politeness.with_crawl_delay(host.pace, asked_s)

    def _let_go(self, host: ActiveHost) -> None:
        """Forget a Crawl-delay that none of the host's origins asks for any more; one of them has been read anew."""
        asked_s = self._rulesets.crawl_delay_s(host.name)
        if asked_s < host.pace.crawl_delay_s:
            host.pace = politeness.with_crawl_delay(host.pace, asked_s)
            host.dirty = True
            self._settle.put(host)

    def _next_address(self, host: ActiveHost, detail: str) -> None:
        """The worker would not dial the address: try the next; after the last of them resolve anew, if that can help."""
        host.address_index += 1
        if literal(host.name):
            self._give_up(host, Reason.ADDRESS_REFUSED, detail)
        elif host.address_index >= len(host.addresses.addresses):
            host.addresses = Addresses()
            host.address_index = 0

    def _pause(self, host: ActiveHost, wait_s: float, cause: WaitCause) -> None:
        """Leave the host alone, and make that durable: what no transaction holds keeps it in memory, too."""
        host.dirty = True
        self._active.pause(host, wait_s, cause)
        self._settle.put(host)

    def _retire(self, host: ActiveHost, reason: Reason, detail: str) -> None:
        self._event("host-retired", {"host": host.name, "reason": reason, "detail": detail})
        self._lay_off(host, QueueState.RETIRED, reason, detail)

    def _lay_off(self, host: ActiveHost, state: QueueState, reason: Reason, detail: str) -> None:
        """Park or retire the host; what other origins' robots.txt redirects wait for there comes to nothing."""
        steps = self._active.take_steps(host)
        self._active.lay_off(host, state, reason, detail)
        self._settle.put(host)
        self._come_to_nothing(steps, reason)

    def _come_to_nothing(self, steps: list[RobotsStep], reason: Reason) -> None:
        """Conclude hops that cannot be asked, for the reason that ended their host."""
        refused_address = reason is Reason.ADDRESS_REFUSED
        arrival = access.Arrival.ADDRESS_REFUSED if refused_address else access.Arrival.FAILED
        for step in steps:
            self._conclude(step, access.RobotsAnswer(arrival=arrival, failure=str(reason), hops=step.hops))

    # ------------------------------------------------------------------------------------------------ the name

    def _resolved(self, host: ActiveHost, outcome: Outcome) -> None:
        host.resolving = False
        match outcome:
            case Resolved(addresses=addresses, ttl_s=ttl_s) if addresses:
                host.addresses = Addresses(addresses, self._clock.now() + ttl_s)
                host.address_index = 0
                host.dns_failures = host.unanswered = 0
                self._settle.put(host)
            case Resolved(refused=turned_down):
                detail = ", ".join(f"{address}: {why}" for address, why in turned_down[:4])
                self._give_up(host, Reason.ADDRESS_REFUSED, detail or "the name has no address")
            case Failed(failure=Failure.NAME_NOT_FOUND, detail=detail):
                self._unresolved(host, Reason.NAME_NOT_FOUND, detail, NAME_ATTEMPTS, (NAME_SPACING_S,))
            case Failed(failure=Failure.INVALID_HOST, detail=detail):
                self._give_up(host, Reason.INVALID_HOST, detail)
            case Failed(detail=detail):
                self._unresolved(host, Reason.DNS_FAILED, detail, DNS_ATTEMPTS, DNS_SPACING_S)
            case Unknown() | Expired() if host.unanswered < retries.MAX_UNCOUNTED:
                host.unanswered += 1  # nobody asked; asked again at the host's next turn
            case Unknown() | Expired():
                self._give_up(host, Reason.GAVE_UP, f"its name: {retries.name_of(outcome)}")
            case _:
                self._give_up(host, Reason.INVALID_HOST, "the worker would not resolve the name")

    def _unresolved(
        self, host: ActiveHost, reason: Reason, detail: str, most: int, spacing_s: tuple[float, ...]
    ) -> None:
        """Count a failed resolution for the host, not for each of its URLs (B82)."""
        host.dns_failures += 1
        if host.dns_failures >= most:
            self._give_up(host, reason, detail)
            return
        wait_s = spacing_s[min(host.dns_failures, len(spacing_s)) - 1]
        self._event("name-unresolved", {"host": host.name, "reason": reason, "again_in_s": wait_s})
        self._pause(host, wait_s, WaitCause.DNS)

    def _give_up(self, host: ActiveHost, reason: Reason, detail: str) -> None:
        """End every URL of the host with `reason`, as its turn comes, without a request."""
        host.ending, host.ending_detail = reason, detail
        self._event("host-ends", {"host": host.name, "reason": reason, "detail": detail})
        self._come_to_nothing(self._active.take_steps(host), reason)

    # ----------------------------------------------------------------------------------------------- robots.txt

    async def _robots(self, step: RobotsStep, outcome: Outcome) -> None:
        """Follow robots.txt's redirect, or conclude what asking came to."""
        uncounted = isinstance(outcome, Unknown | Expired | AddressChanged)
        kept_was_dead = isinstance(outcome, Failed) and outcome.failure is Failure.CONNECTION_CLOSED
        if (uncounted and step.repeats < retries.MAX_UNCOUNTED) or (kept_was_dead and not step.repeats):
            await self._ask(replace(step, repeats=step.repeats + 1))
            return
        answer = answer_of(outcome, step, self._clock.now())
        judged = access.judge(answer, forbid_on_401_403=self._config.robots_denied == "disallow")
        if isinstance(judged, access.FollowRedirect):
            assert isinstance(outcome, Redirected)
            await self._ask(RobotsStep(step.origin, outcome.location, judged.hops))
            return
        self._conclude(step, answer)

    async def _ask(self, step: RobotsStep) -> None:
        """Put the step first in the queue of the host that it goes to, if that may be asked at all."""
        name = urls.parse(step.url).host
        if self._needs_contact(name):
            refusal = access.RobotsAnswer(
                arrival=access.Arrival.ADDRESS_REFUSED, failure="no contact for a public host", hops=step.hops
            )
            self._conclude(step, refusal)
            return
        self._rulesets.quests[step.origin] = step
        host = await self._active.ensure(name)
        if host is None:
            crowded = access.RobotsAnswer(
                arrival=access.Arrival.FAILED, failure="no room for the host that it moved to", hops=step.hops
            )
            self._conclude(step, crowded)
            return
        if host.ending is not None or host.reason is not None:
            self._come_to_nothing([step], host.ending or host.reason or Reason.HOST_RETIRED)
            self._active.reschedule(host)
            return
        host.queue.prerequisites.appendleft(step)
        self._active.reschedule(host)

    def _conclude(self, step: RobotsStep, answer: access.RobotsAnswer) -> None:
        """Note the answer to a quest in memory and in the batch; wake or stop the origin's host."""
        self._rulesets.quests.pop(step.origin, None)
        known = self._rulesets.in_hand(step.origin)
        before = known.record if known is not None else OriginRecord(step.origin)
        judged = access.judge(answer, forbid_on_401_403=self._config.robots_denied == "disallow")
        assert not isinstance(judged, access.FollowRedirect)
        record = access.settle(before, answer, judged, now=self._clock.now())
        self._rulesets.put(record)
        self._settle.put(record)
        self._event(
            "robots", {"origin": record.origin, "access": str(record.access), "detail": record.detail}
        )
        host = self._active.get(urls.host_of(step.origin + "/"))
        if host is None:
            return
        host.blocked = False
        if host.reason is not None:
            pass  # parked or retired while the answer was on its way: so it stays for this run
        elif record.access is Access.UNREACHABLE:
            self._unreachable(host, record)
        else:
            self._let_go(host)
            self.obey(host, record)
        self._active.reschedule(host)

    def obey(self, host: ActiveHost, record: OriginRecord) -> None:
        """Take what the rules of an origin ask of its host; park it where that cannot be kept.

        Called whenever rules come into memory: as an answer, or out of the store in a later run.
        """
        if record.ruleset is None or host.reason is not None:
            return
        asked_s = self._rulesets.crawl_delay_s(host.name)
        if asked_s > host.pace.crawl_delay_s:
            host.pace = politeness.with_crawl_delay(host.pace, asked_s)
            # the rules lay on another host: this one's permit was given back before its wish was known
            left_s = host.contacted_at + host.pace.crawl_delay_s - self._clock.now()
            self._pause(host, left_s, WaitCause.DELAY)
        reason = park_reason(record)
        if reason is not None:
            delay = f"Crawl-delay: {record.ruleset.crawl_delay_s}" if record.ruleset.crawl_delay_s else ""
            self._event("host-parked", {"host": host.name, "reason": reason})
            self._lay_off(host, QueueState.PARKED, reason, delay)

    def _unreachable(self, host: ActiveHost, record: OriginRecord) -> None:
        """Nothing is fetched without rules: wait with the host's back-off, retire it after five times."""
        now = self._clock.now()
        if access.in_force(record, now).standing is not access.Standing.FORBID_ALL:
            return  # a copy at hand stays in force
        if host.ending is not None or self._fall_back_to_http(host, record):
            return
        match retries.retry_robots(record.failures, pace=host.pace, config=self._config):
            case retries.Final(reason=reason):
                self._retire(host, reason, record.detail)
            case retries.Again(after_s=after_s, cause=cause):
                self._pause(host, max(after_s, record.expires_at - now), cause)

    def _fall_back_to_http(self, host: ActiveHost, record: OriginRecord) -> bool:
        """Try http for a seed that was given without a scheme, if https cannot be reached at all."""
        if not record.origin.startswith("https:"):
            return False
        entries = self._active.take_all(host)
        seeds = [entry for entry in entries if plain_http(entry)]
        for entry in reversed(entries):  # each goes to the front of its line
            if not plain_http(entry):
                self._active.put_back(host, entry)
        for entry in seeds:
            verdict = refused(Reason.ROBOTS_UNREACHABLE, record.detail)
            self._settle.put(Dropped(host, entry, UrlState.FAILED, verdict, plain_http(entry)))
        return bool(seeds)


_TRY_NEXT_ADDRESS = frozenset({Failure.REFUSED, Failure.UNREACHABLE, Failure.TIMEOUT})


def park_reason(record: OriginRecord) -> Reason | None:
    """Return why a host is parked by what its robots.txt says, or None."""
    ruleset = record.ruleset
    if ruleset is None:
        return None
    if ruleset.too_complex:
        return Reason.ROBOTS_TOO_COMPLEX
    return politeness.crawl_delay_verdict(ruleset.crawl_delay_s).reason


def answer_of(outcome: Outcome, step: RobotsStep, now: float) -> access.RobotsAnswer:
    """Return what an outcome says about robots.txt. `target_refused` is settled later, by the target's own host."""
    match outcome:
        case Fetched(page=page):
            return access.RobotsAnswer(
                status=page.status,
                hops=step.hops,
                truncated=page.truncated not in ("", "body"),
                ruleset=outcome.ruleset,
                max_age_s=outcome.max_age_s,
                retry_after_s=politeness.retry_after_s(outcome.retry_after, now),
                etag=page.validators.etag,
                last_modified=page.validators.last_modified,
            )
        case NotModified(max_age_s=max_age_s):
            return access.RobotsAnswer(status=304, hops=step.hops, max_age_s=max_age_s)
        case Redirected(status=status, location=location):
            return access.RobotsAnswer(status=status, hops=step.hops, location_ok=_usable(location))
        case Failed(failure=failure, detail=detail):
            return access.RobotsAnswer(
                arrival=access.Arrival.FAILED, failure=f"{failure}: {detail}", hops=step.hops
            )
        case _:
            return access.RobotsAnswer(
                arrival=access.Arrival.FAILED, failure=type(outcome).__name__, hops=step.hops
            )


def _usable(location: str) -> bool:
    try:
        urls.parse(location)
    except InvalidUrl:
        return False
    return True
