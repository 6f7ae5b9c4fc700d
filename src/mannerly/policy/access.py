"""What an answer to robots.txt means, and what may be fetched until the next one (RFC 9309, 2.3.1 and 2.4).

Pure: the caller describes each answer as a `RobotsAnswer`; `judge` says whether to follow a redirect or what the
answer comes to, `settle` writes it into the origin's record, `in_force` and `verdict` read the record. Unreadable
rules forbid: nothing here turns a failure into leave to fetch, a file that once was missing included.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import msgspec

from mannerly.model.origin import MAX_DETAIL_CHARS, MAX_VALIDATOR_CHARS, Access, OriginRecord, Ruleset
from mannerly.model.verdict import ALLOWED, Reason, Verdict, refused
from mannerly.policy.pattern import canonical_path
from mannerly.policy.robots import Matcher

HOUR_S = 3_600.0
DAY_S = 24 * HOUR_S

FRESH_AT_MOST_S = DAY_S
"""RFC 9309, 2.4: a cached copy is not to be used for more than 24 hours, whatever its max-age says."""

FRESH_AT_LEAST_S = HOUR_S
"""A site that forbids caching would otherwise have robots.txt fetched before every page."""

STALE_AT_MOST_S = 30 * DAY_S
"""How long past its own time a copy stays in force while the origin is unreachable; RFC 9309, 2.3.1.4 names 30 days."""

STALE_RETRY_S = 600.0
"""Pause between attempts while a stale copy lets the crawl go on. Without one the host's back-off alone spaces them."""

RETRY_AFTER_AT_MOST_S = DAY_S

MAX_HOPS = 5
"""Redirects followed for one robots.txt. RFC 9309, 2.3.1.2: at least five, across hosts."""

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_AUTHORITATIVE_REFUSALS = frozenset({401, 403})
_FORBID_ALL = Ruleset(rules=((False, "/"),))


class Arrival(StrEnum):
    """How far the exchange for robots.txt came."""

    ANSWERED = "answered"
    FAILED = "failed"
    ADDRESS_REFUSED = "address-refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class RobotsAnswer:
    """One answer, or its absence, to a request for robots.txt or for what it redirected to.

    `status`: of the response, 0 unless ANSWERED. `failure`: what went wrong, in words (FAILED). `hops`: redirects
    followed before this answer. `location_ok`: a redirect names a URL of a scheme that is fetched;
    `target_refused`: but at an address that workers refuse. `truncated`: the body ended before its end (not: our
    limit was reached, which the ruleset says). `ruleset`: the parsed body of a 2xx. `max_age_s`: from
    Cache-Control, 0 for no-store and no-cache; `retry_after_s`: as asked.
    """

    arrival: Arrival = Arrival.ANSWERED
    status: int = 0
    failure: str = ""
    hops: int = 0
    location_ok: bool = False
    target_refused: bool = False
    truncated: bool = False
    ruleset: Ruleset | None = None
    max_age_s: float | None = None
    retry_after_s: float | None = None
    etag: str = ""
    last_modified: str = ""


@dataclass(frozen=True, slots=True)
class FollowRedirect:
    """Ask for the redirect's target, as a task of its own; its answer comes with `hops`, for the first origin."""

    hops: int


@dataclass(frozen=True, slots=True)
class Renewed:
    """304: the copy in hand is good for another `ttl_s`."""

    ttl_s: float


@dataclass(frozen=True, slots=True)
class AccessResult:
    """What asking came to; `ruleset` is there exactly when AVAILABLE. For UNREACHABLE `ttl_s` is a pause asked for, or 0."""

    access: Access
    detail: str
    ttl_s: float
    ruleset: Ruleset | None = None


def judge(
    answer: RobotsAnswer, *, forbid_on_401_403: bool = False
) -> FollowRedirect | Renewed | AccessResult:
    """Return what `answer` means.

    `forbid_on_401_403`: a server that asks for credentials, or refuses us, then forbids everything; by default it
    has no rules, as RFC 9309, 2.3.1.3 says.
    """
    match answer.arrival:
        case Arrival.FAILED:
            return _unreachable(answer, answer.failure or "no answer")
        case Arrival.ADDRESS_REFUSED:
            return _unreachable(answer, "address refused")
        case Arrival.ANSWERED:
            return _judge_status(answer, forbid_on_401_403=forbid_on_401_403)


def _judge_status(
    answer: RobotsAnswer, *, forbid_on_401_403: bool
) -> FollowRedirect | Renewed | AccessResult:
    status = answer.status
    detail = f"status {status}"
    if status == 304:
        return Renewed(_fresh_s(answer))
    if status == 204:
        return AccessResult(Access.UNAVAILABLE, detail, _fresh_s(answer))
    if status == 206:
        return _unreachable(answer, f"{detail}, a part nobody asked for")
    if 200 <= status < 300:
        if answer.truncated or answer.ruleset is None:
            return _unreachable(answer, f"{detail}, body incomplete")
        return AccessResult(Access.AVAILABLE, detail, _fresh_s(answer), answer.ruleset)
    if 300 <= status < 400:
        return _judge_redirect(answer)
    if status == 429 or not 400 <= status < 500:
        return _unreachable(answer, detail)
    if forbid_on_401_403 and status in _AUTHORITATIVE_REFUSALS:
        return AccessResult(Access.AVAILABLE, f"{detail}, taken as a refusal", _fresh_s(answer), _FORBID_ALL)
    return AccessResult(Access.UNAVAILABLE, detail, _fresh_s(answer))


def _judge_redirect(answer: RobotsAnswer) -> FollowRedirect | AccessResult:
    detail = f"status {answer.status}"
    if answer.status not in _REDIRECTS or not answer.location_ok:
        return AccessResult(Access.UNAVAILABLE, f"{detail} without a usable Location", _fresh_s(answer))
    if answer.hops >= MAX_HOPS:
        return AccessResult(Access.UNAVAILABLE, f"more than {MAX_HOPS} redirects", _fresh_s(answer))
    if answer.target_refused:
        return _unreachable(answer, f"{detail} to a refused address")
    return FollowRedirect(answer.hops + 1)


def _unreachable(answer: RobotsAnswer, detail: str) -> AccessResult:
    pause_s = answer.retry_after_s or 0.0
    return AccessResult(Access.UNREACHABLE, detail, min(max(pause_s, 0.0), RETRY_AFTER_AT_MOST_S))


def _fresh_s(answer: RobotsAnswer) -> float:
    max_age_s = FRESH_AT_MOST_S if answer.max_age_s is None else answer.max_age_s
    return min(max(max_age_s, FRESH_AT_LEAST_S), FRESH_AT_MOST_S)


def settle(
    before: OriginRecord, answer: RobotsAnswer, result: Renewed | AccessResult, *, now: float
) -> OriginRecord:
    """Return the record of the origin that was first asked, after `answer` was judged to be `result`.

    Where redirects led does not matter: the file found there rules the origin that was asked (2.3.1.2).
    """
    if isinstance(result, Renewed):
        if before.ruleset is None:
            return _unreached(before, "status 304 to an unconditional request", 0.0, now)
        return _renewed(before, answer, result, now)
    if result.access is Access.UNREACHABLE:
        return _unreached(before, result.detail, result.ttl_s, now)
    has_rules = result.ruleset is not None
    return OriginRecord(
        origin=before.origin,
        access=result.access,
        ruleset=result.ruleset,
        fetched_at=now,
        rules_expire_at=now + result.ttl_s if has_rules else 0.0,
        expires_at=now + result.ttl_s,
        detail=result.detail[:MAX_DETAIL_CHARS],
        etag=_validator(answer.etag) if has_rules else "",
        last_modified=_validator(answer.last_modified) if has_rules else "",
    )


def _renewed(before: OriginRecord, answer: RobotsAnswer, result: Renewed, now: float) -> OriginRecord:
    return msgspec.structs.replace(
        before,
        access=Access.AVAILABLE,
        fetched_at=now,
        rules_expire_at=now + result.ttl_s,
        expires_at=now + result.ttl_s,
        detail="status 304",
        failures=0,
        etag=_validator(answer.etag) or before.etag,
        last_modified=_validator(answer.last_modified) or before.last_modified,
    )


def _unreached(before: OriginRecord, detail: str, pause_s: float, now: float) -> OriginRecord:
    retry_s = STALE_RETRY_S if _copy_holds(before, now) else 0.0
    return msgspec.structs.replace(
        before,
        access=Access.UNREACHABLE,
        expires_at=now + max(pause_s, retry_s),
        detail=detail[:MAX_DETAIL_CHARS],
        failures=before.failures + 1,
    )


def _validator(value: str) -> str:
    """Half a validator would never match, so one that is too long is dropped."""
    return value if len(value) <= MAX_VALIDATOR_CHARS else ""


def _copy_holds(record: OriginRecord, now: float) -> bool:
    return record.ruleset is not None and now <= record.rules_expire_at + STALE_AT_MOST_S


class Standing(StrEnum):
    """What holds for an origin at an instant."""

    UNKNOWN = "unknown"  # pages wait for robots.txt
    RULES = "rules"
    ALLOW_ALL = "allow-all"
    FORBID_ALL = "forbid-all"


@dataclass(frozen=True, slots=True)
class InForce:
    """What holds now. `ruleset` is there exactly for RULES; `stale`: it is past its own time.

    `fetch_due`: robots.txt is to be asked for at the next turn. Under UNKNOWN and FORBID_ALL pages wait for that
    answer; under RULES (a stale copy) they need not.
    """

    standing: Standing
    fetch_due: bool
    ruleset: Ruleset | None = None
    stale: bool = False


_UNKNOWN = InForce(Standing.UNKNOWN, fetch_due=True)


def in_force(record: OriginRecord | None, now: float) -> InForce:
    """Return what holds for the origin of `record` at `now`; None is an origin never asked."""
    if record is None or record.access is None:
        return _UNKNOWN
    due = now >= record.expires_at
    match record.access:
        case Access.AVAILABLE:
            return _UNKNOWN if due else InForce(Standing.RULES, fetch_due=False, ruleset=record.ruleset)
        case Access.UNAVAILABLE:
            return _UNKNOWN if due else InForce(Standing.ALLOW_ALL, fetch_due=False)
        case Access.UNREACHABLE if _copy_holds(record, now):
            stale = now >= record.rules_expire_at
            return InForce(Standing.RULES, fetch_due=due, ruleset=record.ruleset, stale=stale)
        case Access.UNREACHABLE:
            return InForce(Standing.FORBID_ALL, fetch_due=due)


def verdict(record: OriginRecord | None, matcher: Matcher | None, path_query: str, now: float) -> Verdict:
    """Return the verdict of robots.txt on a URL of the record's origin; pure, for dispatch and for `why`.

    `matcher`: one already laid out; it is used if it is for the rules in force, else (or if None) one is made.
    Where nothing is known yet the URL is refused: whoever sends requests asks `in_force` first and waits.
    """
    if canonical_path(path_query) == "/robots.txt":
        return ALLOWED
    held = in_force(record, now)
    if held.standing is Standing.ALLOW_ALL:
        return ALLOWED
    if held.ruleset is None:
        return refused(Reason.ROBOTS_UNREACHABLE, _why_no_rules(record, held.standing))
    if matcher is None or (matcher.ruleset is not held.ruleset and matcher.ruleset != held.ruleset):
        matcher = Matcher(held.ruleset)
    decision = matcher.decide(path_query)
    if decision.allowed:
        return Verdict(evidence=f"Allow: {decision.pattern}") if decision.pattern else ALLOWED
    if decision.too_complex:
        return refused(Reason.ROBOTS_TOO_COMPLEX, "more wildcards than are matched")
    return refused(Reason.ROBOTS_DISALLOWED, f"Disallow: {decision.pattern}")


def _why_no_rules(record: OriginRecord | None, standing: Standing) -> str:
    if record is None or record.access is None:
        return "not asked for yet"
    return "expired, to be asked for again" if standing is Standing.UNKNOWN else record.detail
