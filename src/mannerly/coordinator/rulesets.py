"""Rulesets in hand, or asked for as prerequisite tasks.

In memory: an LRU bounded by bytes; behind it the store. Asking for robots.txt is a quest of one or more hops, each a
task through the gate of the host it goes to; one quest an origin at a time, however many URLs wait for it (B07).
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from mannerly.coordinator.hosts import RobotsStep
from mannerly.model import url as urls
from mannerly.model.origin import OriginRecord
from mannerly.model.url import Url
from mannerly.model.verdict import Verdict
from mannerly.policy import access, politeness
from mannerly.policy.robots import Matcher
from mannerly.ports import StateStore

# what an origin without rules costs in memory, about
RECORD_BYTES = 512


@dataclass(frozen=True, slots=True)
class KnownRules:
    """What is known of an origin's robots.txt, and the matcher of its rules, if there are any."""

    record: OriginRecord
    matcher: Matcher | None

    @property
    def nbytes(self) -> int:
        """Bytes it takes in memory, about."""
        return RECORD_BYTES + (self.matcher.nbytes if self.matcher is not None else 0)


class Rulesets:
    """The rules of origins. `obey` is False under the authorized identity: then every verdict allows."""

    def __init__(self, store: StateStore, *, most_bytes: int, obey: bool = True) -> None:
        self._store = store
        self._most_bytes = most_bytes
        self._held: OrderedDict[str, KnownRules | None] = OrderedDict()
        self._nbytes = 0
        self._delays: dict[str, dict[str, float]] = {}
        self.obey = obey
        self.quests: dict[str, RobotsStep] = {}

    def in_hand(self, origin: str) -> KnownRules | None:
        """Return what memory holds of the origin, or None (then `load` it, or it was never asked)."""
        known = self._held.get(origin)
        if known is not None:
            self._held.move_to_end(origin)
        return known

    def is_loaded(self, origin: str) -> bool:
        """True if memory knows the origin, or knows that the store does not."""
        return origin in self._held

    async def load(self, origin: str) -> None:
        """Bring what the store holds of the origin into memory."""
        record = await self._store.origin(origin)
        if origin in self._held:
            return  # a quest ended meanwhile: its answer is newer
        if record is None:
            self._hold(origin, None)
        else:
            self.put(record)

    def put(self, record: OriginRecord) -> None:
        """Hold a record; drop the longest unused over the bound."""
        ruleset = record.ruleset
        matcher = Matcher(ruleset) if ruleset is not None and not ruleset.too_complex else None
        self._hold(record.origin, KnownRules(record, matcher))

    def _hold(self, origin: str, known: KnownRules | None) -> None:
        """Hold what is known of an origin; that the store knows nothing of it takes room too."""
        if origin in self._held:
            self._drop(origin)
        self._held[origin] = known
        self._nbytes += _nbytes(known)
        asked_s = _crawl_delay_s(known)
        if asked_s > 0:
            self._delays.setdefault(urls.host_of(origin + "/"), {})[origin] = asked_s
        while self._nbytes > self._most_bytes and len(self._held) > 1:
            self._drop(next(iter(self._held)))

    def _drop(self, origin: str) -> None:
        known = self._held.pop(origin)
        self._nbytes -= _nbytes(known)
        if _crawl_delay_s(known) > 0:
            host = urls.host_of(origin + "/")
            del self._delays[host][origin]
            if not self._delays[host]:
                del self._delays[host]

    def crawl_delay_s(self, host: str) -> float:
        """Return the largest Crawl-delay that the host's origins in hand ask for, each as it was read last, or 0.

        One that is not kept does not count: its host is parked.
        """
        return max(self._delays.get(host, {}).values(), default=0.0)

    def verdict(self, url: Url, now: float) -> Verdict | None:
        """Return what the rules in hand say of the URL; None if robots.txt is to be asked first."""
        return self.verdict_of(url.origin, url.path_query, now)

    def verdict_of(self, origin: str, path_query: str, now: float) -> Verdict | None:
        """As `verdict`, for an origin and a path with query."""
        if not self.obey:
            return Verdict()
        known = self.in_hand(origin)
        if known is None:
            return None
        held = access.in_force(known.record, now)
        if held.fetch_due or held.standing is access.Standing.FORBID_ALL:
            return None  # unreadable rules forbid, and the URL waits for better ones
        return access.verdict(known.record, known.matcher, path_query, now)

    def __repr__(self) -> str:
        return f"<Rulesets {len(self._held)} origins, {self._nbytes} bytes, {len(self.quests)} quests>"


def _crawl_delay_s(known: KnownRules | None) -> float:
    ruleset = known.record.ruleset if known is not None else None
    asked_s = ruleset.crawl_delay_s if ruleset is not None else None
    return asked_s if asked_s is not None and politeness.crawl_delay_verdict(asked_s).allowed else 0.0


def _nbytes(known: KnownRules | None) -> int:
    return known.nbytes if known is not None else RECORD_BYTES
