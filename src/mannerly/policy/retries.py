"""How often a URL is tried, how far apart, and what it ends as: one table.

The spacing is the least; the URL also waits for its host's turn, which its back-off may put off further.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final as Constant

from mannerly.model.config import PolitenessConfig
from mannerly.model.host import Pace, WaitCause
from mannerly.model.result import (
    AddressChanged,
    Expired,
    Failed,
    Failure,
    Fetched,
    NotModified,
    Outcome,
    Redirected,
    Refused,
    Resolved,
    Unknown,
)
from mannerly.model.verdict import Reason
from mannerly.policy.politeness import back_off_s, is_overload


@dataclass(frozen=True, slots=True)
class Row:
    """attempts: all in all. spacing_s: before the second, the third, ...; the last holds on. final: what it ends as."""

    attempts: int
    spacing_s: tuple[float, ...]
    final: Reason
    cause: WaitCause = WaitCause.RETRY_SPACING


def _once(final: Reason) -> Row:
    return Row(1, (), final)


# An overloaded or restarting server is well again within minutes, or not today.
PASSING: Constant = Row(3, (30.0, 300.0), Reason.GAVE_UP)
_NAME_SERVER: Constant = Row(3, (30.0, 300.0), Reason.DNS_FAILED, WaitCause.DNS)

FAILURES: Constant[dict[Failure, Row]] = {
    Failure.TIMEOUT: PASSING,
    Failure.RESET: PASSING,
    Failure.TRUNCATED_HEAD: PASSING,
    Failure.REFUSED: PASSING,
    Failure.UNREACHABLE: PASSING,
    Failure.PROXY: PASSING,
    # after the one uncounted attempt of `retry`
    Failure.CONNECTION_CLOSED: PASSING,
    Failure.NAME_NOT_FOUND: Row(2, (5.0,), Reason.NAME_NOT_FOUND, WaitCause.DNS),
    # counted per host: nothing of it depends on the URL
    Failure.DNS_FAILED: _NAME_SERVER,
    Failure.DNS_TIMEOUT: _NAME_SERVER,
    Failure.TLS: _once(Reason.TLS_FAILED),
    Failure.PROTOCOL: _once(Reason.PROTOCOL_ERROR),
    Failure.HEADERS_TOO_LARGE: _once(Reason.HEADERS_TOO_LARGE),
    Failure.INVALID_HOST: _once(Reason.INVALID_HOST),
    Failure.ADDRESS_REFUSED: _once(Reason.ADDRESS_REFUSED),
    Failure.TOO_COSTLY: _once(Reason.TOO_COSTLY),
    # it was tried twice before it was called that
    Failure.KILLS_WORKER: _once(Reason.KILLS_WORKER),
}
INVALID_REDIRECT: Constant = _once(Reason.REDIRECT_INVALID)
ERROR_STATUS: Constant = _once(Reason.HTTP_ERROR)
REFUSED_BY_WORKER: Constant = _once(Reason.GAVE_UP)

# robots.txt unreachable this often: the host is retired for this run
ROBOTS_ATTEMPTS: Constant = 5
# An attempt is not counted where the site had no part in its end; but nothing goes on for ever.
MAX_UNCOUNTED: Constant = 10


@dataclass(frozen=True, slots=True)
class Again:
    """Another attempt, `after_s` from now at the earliest; 0: at the host's next turn. counted: this one counts."""

    after_s: float
    counted: bool = True
    cause: WaitCause = WaitCause.RETRY_SPACING


@dataclass(frozen=True, slots=True)
class Final:
    """No other attempt."""

    reason: Reason


def retry(outcome: Outcome, *, attempts: int, uncounted: int) -> Again | Final:
    """Say what becomes of a page's URL after an outcome that gave no page.

    attempts: made so far that count, this one included. uncounted: made before that did not. Not for 2xx, 304 and a
    redirect that leads somewhere: raises ValueError.
    """
    match outcome:
        case Unknown() | Expired() | AddressChanged():
            return _uncounted(uncounted)
        case Failed(failure=Failure.CONNECTION_CLOSED) if uncounted == 0:
            # the connection was idle and is gone, the request was not looked at (RFC 9110, 9.2.2 lets us repeat it)
            return _uncounted(uncounted)
        case Failed(failure=failure):
            return _counted(FAILURES[failure], attempts)
        case Fetched(page=page) if is_overload(page.status):
            return _counted(PASSING, attempts)
        case Fetched(page=page) if not 200 <= page.status < 300:
            return _counted(ERROR_STATUS, attempts)
        case Redirected(location=""):
            return _counted(INVALID_REDIRECT, attempts)
        case Refused() | Resolved():
            return _counted(REFUSED_BY_WORKER, attempts)
        case Fetched() | NotModified() | Redirected():
            raise ValueError(f"{name_of(outcome)} is no failure")


def retry_robots(failures: int, *, pace: Pace, config: PolitenessConfig) -> Again | Final:
    """Say what follows once robots.txt of a host was unreachable `failures` times in a row.

    The spacing is the back-off of as many overload answers, whatever made it unreachable. After `Final` the host is
    retired for this run: nothing of it may be fetched (RFC 9309, 2.3.1.4).
    """
    if failures >= ROBOTS_ATTEMPTS:
        return Final(Reason.ROBOTS_UNREACHABLE)
    return Again(back_off_s(failures, pace=pace, config=config), cause=WaitCause.ROBOTS_UNREACHABLE)


def name_of(outcome: Outcome) -> str:
    """Return the outcome in a few words, for `why` and the summary; holds text that a site sent."""
    match outcome:
        case Fetched(page=page):
            return f"HTTP {page.status}"
        case NotModified():
            return "HTTP 304"
        case Redirected(status=status, location=location):
            return f"HTTP {status} to {location}" if location else f"HTTP {status} without a usable Location"
        case Resolved(addresses=addresses):
            return f"resolved to {len(addresses)} addresses"
        case Failed(failure=failure, detail=detail):
            return _with_detail(str(failure), detail)
        case Refused(detail=detail):
            return _with_detail("refused by the worker", detail)
        case Unknown(detail=detail):
            return _with_detail("unknown", detail)
        case Expired():
            return "expired"
        case AddressChanged(detail=detail):
            return _with_detail("address changed", detail)


def _with_detail(name: str, detail: str) -> str:
    return f"{name}: {detail}" if detail else name


def _counted(row: Row, attempts: int) -> Again | Final:
    if attempts >= row.attempts:
        return Final(row.final)
    return Again(row.spacing_s[min(attempts, len(row.spacing_s)) - 1], cause=row.cause)


def _uncounted(before: int) -> Again | Final:
    if before >= MAX_UNCOUNTED:
        return Final(Reason.GAVE_UP)
    return Again(0.0, counted=False, cause=WaitCause.DELAY)
