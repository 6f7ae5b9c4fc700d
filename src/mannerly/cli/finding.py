"""What is known of one URL of a stored crawl: verdict, reason, evidence, and what they rest on.

For a URL that is not stored the verdict is worked out again, by the rules that intake and dispatch decide by.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import msgspec

from mannerly.cli.meaning import meant
from mannerly.cli.reader import Stored
from mannerly.model import url as urls
from mannerly.model.errors import InvalidUrl
from mannerly.model.host import HostRecord, QueueState
from mannerly.model.origin import Access, OriginRecord
from mannerly.model.record import rfc3339
from mannerly.model.seed import seed_verdict
from mannerly.model.task import UrlState
from mannerly.model.url import Url
from mannerly.model.verdict import Reason, Verdict, refused
from mannerly.policy import access
from mannerly.policy.robots import Matcher
from mannerly.ports import UrlRecord

SAMPLES: Final = 100
"""So many refused candidates of a reason are kept as samples, the others are counted alone."""

MOST_HOPS: Final = 32
_FAR: Final = 1e11


class Found(StrEnum):
    """How a URL stands. `waiting` includes one that is in flight at this moment."""

    FETCHED = "fetched"
    WAITING = "waiting"
    REDIRECTED = "redirected"
    REFUSED = "refused"
    FAILED = "failed"
    NEVER_SEEN = "never-seen"


_BY_STATE: Final = {
    UrlState.WAITING: Found.WAITING,
    UrlState.DELAYED: Found.WAITING,
    UrlState.FETCHED: Found.FETCHED,
    UrlState.REDIRECTED: Found.REDIRECTED,
    UrlState.REFUSED: Found.REFUSED,
    UrlState.FAILED: Found.FAILED,
}


class HostView(msgspec.Struct, frozen=True):
    """The host of a URL. Instants are RFC 3339; delays are seconds; budget: most URLs stored for it."""

    name: str
    state: str
    reason: str | None
    detail: str | None
    next_ok_at: str | None
    cause: str
    delay_s: float
    crawl_delay_s: float
    overloads: int
    failures: int
    waiting: int
    stored: int
    pages: int
    budget: int


class RobotsView(msgspec.Struct, frozen=True):
    """What robots.txt of the URL's origin says of it, by the copy read last.

    access: available, unavailable, unreachable, or null if it was not asked for. allowed: null if nothing is known.
    rule: the line that decides, null if none matches. expired: it is asked for again before anything is fetched.
    """

    origin: str
    obeyed: bool
    access: str | None
    allowed: bool | None
    rule: str | None
    reason: str | None
    detail: str | None
    fetched_at: str | None
    expires_at: str | None
    expired: bool
    crawl_delay_s: float | None
    suspicious: bool


class Finding(msgspec.Struct, frozen=True):
    """The answer of `why`. See `mannerly.cli.why` for the meaning of each field."""

    asked: str
    url: str
    key: str | None
    verdict: Found
    allowed: bool
    reason: str | None = None
    sentence: str | None = None
    evidence: str | None = None
    state: str | None = None
    status: int | None = None
    fetched_at: str | None = None
    due_at: str | None = None
    attempts: int | None = None
    depth: int | None = None
    via: str | None = None
    redirected_from: tuple[str, ...] = ()
    template: str | None = None
    spelled: str | None = None
    refused_alike: int | None = None
    host: HostView | None = None
    robots: RobotsView | None = None
    redirect: Finding | None = None

    @property
    def exit_code(self) -> int:
        """0 fetched or waiting, 1 refused or failed, 3 never seen; a redirect counts as where it leads."""
        match self.verdict:
            case Found.FETCHED | Found.WAITING:
                return 0
            case Found.REDIRECTED:
                return 0 if self.redirect is not None and self.redirect.exit_code == 0 else 1
            case Found.NEVER_SEEN:
                return 3
            case _:
                return 1


@dataclass(frozen=True, slots=True)
class _Asked:
    """What was asked for: the text, and the URL that it means in this crawl."""

    text: str
    url: Url


async def find_out(stored: Stored, text: str, now: float) -> Finding:
    """Return what is known of the URL that `text` means: of several the first that is stored, else the likeliest."""
    seeds = tuple(seed.url for seed in stored.job.seeds)
    candidates = meant(text, seeds, strip=frozenset(stored.config.scope.strip_parameters))
    if not candidates:
        verdict = seed_verdict(text)
        reason = verdict.reason or Reason.INVALID_URL
        return Finding(
            asked=text,
            url=text,
            key=None,
            verdict=Found.NEVER_SEEN,
            allowed=False,
            reason=reason,
            sentence=reason.sentence,
            evidence=verdict.evidence or None,
        )
    records = [(url, record) for url in candidates if (record := await _record(stored, url)) is not None]
    if records:
        # of https and http the one that did not fail: the other was tried in its place
        url, record = min(records, key=lambda pair: pair[1].state is UrlState.FAILED)
        return await _known(stored, _Asked(text, url), record, now, MOST_HOPS)
    return await _unknown(stored, _Asked(text, candidates[0]), now)


async def _record(stored: Stored, url: Url) -> UrlRecord | None:
    return await stored.store.find(url.host, urls.key_hash(url.key, stored.record.secret))


async def _known(stored: Stored, asked: _Asked, found: UrlRecord, now: float, hops: int) -> Finding:
    host = await stored.store.host(asked.url.host)
    robots = await _robots(stored, asked.url, now)
    verdict = _BY_STATE[found.state]
    waits = verdict is Found.WAITING
    due_at = max(found.due_at, host.next_ok_at if host is not None else 0.0) if waits else 0.0
    reason, evidence = found.reason, found.detail
    if waits and reason is None and host is not None:
        reason, evidence = host.reason, evidence or host.detail
    return Finding(
        asked=asked.text,
        url=found.href,
        key=found.key,
        verdict=verdict,
        allowed=verdict in (Found.FETCHED, Found.WAITING, Found.REDIRECTED),
        reason=reason,
        sentence=reason.sentence if reason is not None else None,
        evidence=evidence or None,
        state=found.state.name.lower(),
        status=found.status,
        fetched_at=_iso(found.fetched_at),
        due_at=_iso(due_at),
        attempts=found.attempts,
        depth=found.depth,
        via=found.via or None,
        redirected_from=found.chain,
        template=found.template or None,
        spelled=asked.url.href if asked.url.href != found.href else None,
        host=_host_view(stored, host),
        robots=robots,
        redirect=await _target(stored, found, now, hops),
    )


async def _target(stored: Stored, found: UrlRecord, now: float, hops: int) -> Finding | None:
    """Return what is known of the URL that a redirect leads to; for a redirect its place stands in `detail`."""
    if found.state is not UrlState.REDIRECTED or not hops:
        return None
    try:
        url = urls.parse(found.detail, strip=frozenset(stored.config.scope.strip_parameters))
    except InvalidUrl:
        return None
    asked = _Asked(found.detail, url)
    target = await _record(stored, url)
    if target is None:
        return await _unknown(stored, asked, now)
    return await _known(stored, asked, target, now, hops - 1)


async def _unknown(stored: Stored, asked: _Asked, now: float) -> Finding:
    """Work the verdict on a URL that is not stored out again, and look whether intake refused it."""
    url = asked.url
    host = await stored.store.host(url.host)
    robots = await _robots(stored, url, now)
    samples = await stored.store.refusals_of(list(dict.fromkeys([url.href, url.key])))
    verdict = would_be(stored, url, host, robots, now)
    alike = None
    if samples:
        verdict = refused(samples[0].reason, samples[0].evidence)
    elif verdict.reason is not None and len(await stored.store.refusals(verdict.reason)) >= SAMPLES:
        # more were refused than are remembered one by one: this one may be among them, so "never" cannot be said
        alike = (await stored.store.counts()).refused.get(verdict.reason, 0)
    met = bool(samples) or alike is not None
    return Finding(
        asked=asked.text,
        url=url.href,
        key=url.key,
        verdict=Found.REFUSED if met else Found.NEVER_SEEN,
        allowed=verdict.allowed,
        reason=verdict.reason,
        sentence=verdict.reason.sentence if verdict.reason is not None else None,
        evidence=verdict.evidence or None,
        refused_alike=alike,
        host=_host_view(stored, host),
        robots=robots,
    )


def would_be(stored: Stored, url: Url, host: HostRecord | None, robots: RobotsView, now: float) -> Verdict:
    """Return the verdict on a URL if it were found one link from a seed: intake's checks, budget, robots.txt."""
    verdict = stored.intake.verdict(url, 1, now)
    if not verdict.allowed:
        return verdict
    if host is not None and host.stored >= _budget(stored, url.host):
        return refused(Reason.HOST_BUDGET, f"{host.name} has {host.stored} URLs stored")
    if robots.obeyed and robots.allowed is False:
        return refused(Reason(robots.reason or Reason.ROBOTS_DISALLOWED), robots.rule or robots.detail or "")
    return verdict


def _budget(stored: Stored, host: str) -> int:
    budget = stored.config.budget
    seeds = {seed.url.host for seed in stored.job.seeds}
    return budget.urls_per_seed_host if host in seeds else budget.urls_per_found_host


def _host_view(stored: Stored, host: HostRecord | None) -> HostView | None:
    if host is None:
        return None
    return HostView(
        name=host.name,
        state=host.state.name.lower() if host.state >= QueueState.PARKED else "ready",
        reason=host.reason,
        detail=host.detail or None,
        next_ok_at=_iso(host.next_ok_at),
        cause=host.cause.name.lower().replace("_", "-"),
        delay_s=host.pace.delay_s,
        crawl_delay_s=host.pace.crawl_delay_s,
        overloads=host.pace.overloads,
        failures=host.pace.failures,
        waiting=host.waiting,
        stored=host.stored,
        pages=host.pages,
        budget=_budget(stored, host.name),
    )


async def _robots(stored: Stored, url: Url, now: float) -> RobotsView:
    record = await stored.store.origin(url.origin)
    return robots_view(record, url, now, obeyed=not stored.config.identity.ignore_robots)


def robots_view(record: OriginRecord | None, url: Url, now: float, *, obeyed: bool = True) -> RobotsView:
    """Return what the stored robots.txt says of the URL; past its time it is read all the same, and called expired."""
    held = access.in_force(record, now)
    verdict = _last_word(record, url, now)
    rules = record.ruleset if record is not None else None
    return RobotsView(
        origin=url.origin,
        obeyed=obeyed,
        access=record.access if record is not None else None,
        allowed=verdict.allowed if verdict is not None else None,
        rule=verdict.evidence if verdict is not None and ": " in verdict.evidence and rules else None,
        reason=verdict.reason if verdict is not None else None,
        detail=(record.detail or None) if record is not None else None,
        fetched_at=_iso(record.fetched_at) if record is not None else None,
        expires_at=_iso(record.expires_at) if record is not None else None,
        expired=held.fetch_due and record is not None,
        crawl_delay_s=rules.crawl_delay_s if rules is not None else None,
        suspicious=rules.suspicious if rules is not None else False,
    )


def _last_word(record: OriginRecord | None, url: Url, now: float) -> Verdict | None:
    """Return what the last answer says of the URL, expired or not; None if there was none."""
    if record is None or record.access is None:
        return None
    if record.access is not Access.UNREACHABLE and record.expires_at <= now:
        record = msgspec.structs.replace(record, expires_at=now + 1.0, rules_expire_at=now + 1.0)
    matcher = Matcher(record.ruleset) if record.ruleset is not None else None
    return access.verdict(record, matcher, url.path_query, now)


def _iso(at: float | None) -> str | None:
    return rfc3339(at) if at and at < _FAR else None
