"""How long a host is left alone after a request, and when it is given up: pure decisions.

    delay = max(min_delay, Crawl-delay, min(factor x response time, 30 s), back-off, Retry-After)
    back-off = n > 0 ? min(2^n x max(1 s, min_delay, Crawl-delay), 30 min) : 0

n counts overload answers (429, 5xx, timeout, refused, reset after the request went out), at most 6; a success takes
one off. The delay counts from the end of the response. Attempts per URL stand in `retries`, address groups in
`groups`.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from datetime import UTC
from email.utils import parsedate_to_datetime
from enum import Enum, auto
from typing import Final

from mannerly.model.config import PolitenessConfig
from mannerly.model.host import HostRecord, Pace, WaitCause
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
from mannerly.model.task import Limits
from mannerly.model.verdict import ALLOWED, Reason, Verdict, refused

# A slow answer slows us down, but one hanging request must not silence a host for minutes.
MAX_RESPONSE_TERM_S: Final = 30.0
# With n = 6 a host is asked every 64 delays; retirement ends what does not recover.
MAX_OVERLOADS: Final = 6
MAX_BACKOFF_S: Final = 1_800.0
LEAST_BACKOFF_UNIT_S: Final = 1.0
# A day is the longest that a server means; a larger figure is a mistake or a way to be forgotten.
MAX_RETRY_AFTER_S: Final = 86_400.0
# Up to an hour a Crawl-delay is kept to the letter; above it a host is parked: not sped up, not silently dropped.
MAX_CRAWL_DELAY_S: Final = 3_600.0
RETIRED_AFTER_FAILURES: Final = 20

# Parts of a lease besides the exchange: waiting in a queue, held by a worker before it starts, clocks and wires.
QUEUE_S: Final = 10.0
HOLD_S: Final = 5.0
SLACK_S: Final = 5.0

# RFC 9110, 10.2.3 has whole seconds; fractions are seen and clear. ASCII digits alone.
_SECONDS = re.compile(r"[0-9]+(?:\.[0-9]*)?", re.ASCII)


class Ending(Enum):
    """How a request ended, as politeness sees it.

    OK: the server answered and was not overloaded; also 404. OVERLOAD: it is asked too much, or does not answer.
    FAILED: the exchange came to nothing for a reason that asking more slowly does not mend (TLS, no route): it counts
    towards retirement alone. NEUTRAL: nothing was learned of the host.
    """

    OK = auto()
    OVERLOAD = auto()
    FAILED = auto()
    NEUTRAL = auto()


# What a failed exchange says of the host, if the request went out and if it did not.
_ENDINGS: Final[dict[Failure, tuple[Ending, Ending]]] = {
    Failure.TIMEOUT: (Ending.OVERLOAD, Ending.OVERLOAD),
    Failure.REFUSED: (Ending.OVERLOAD, Ending.OVERLOAD),
    Failure.RESET: (Ending.OVERLOAD, Ending.FAILED),
    Failure.TRUNCATED_HEAD: (Ending.OVERLOAD, Ending.FAILED),
    Failure.UNREACHABLE: (Ending.FAILED, Ending.FAILED),
    Failure.TLS: (Ending.FAILED, Ending.FAILED),
    Failure.PROTOCOL: (Ending.FAILED, Ending.FAILED),
    Failure.HEADERS_TOO_LARGE: (Ending.FAILED, Ending.FAILED),
    Failure.INVALID_HOST: (Ending.FAILED, Ending.FAILED),
    Failure.ADDRESS_REFUSED: (Ending.FAILED, Ending.FAILED),
    # the page was sent in full, it is us who could not bear it
    Failure.TOO_COSTLY: (Ending.OK, Ending.NEUTRAL),
    Failure.KILLS_WORKER: (Ending.OK, Ending.NEUTRAL),
    # a server may close a kept connection at any time (RFC 9112, 9.5): no byte came, nothing is learned
    Failure.CONNECTION_CLOSED: (Ending.NEUTRAL, Ending.NEUTRAL),
    # ours, not the host's
    Failure.PROXY: (Ending.NEUTRAL, Ending.NEUTRAL),
    # name servers answer for these; attempts are counted by `retries`
    Failure.NAME_NOT_FOUND: (Ending.NEUTRAL, Ending.NEUTRAL),
    Failure.DNS_FAILED: (Ending.NEUTRAL, Ending.NEUTRAL),
    Failure.DNS_TIMEOUT: (Ending.NEUTRAL, Ending.NEUTRAL),
}


@dataclass(frozen=True, slots=True)
class Paused:
    """What follows from a request: the host's new pace, and how long it is left alone from the end of the response.

    cause: the term that ruled. DELAY does not count against the crawl's patience, BACKOFF and RETRY_AFTER do.
    """

    pace: Pace
    wait_s: float
    cause: WaitCause


def ending_of(outcome: Outcome) -> Ending:
    """Return what an outcome says of the host."""
    match outcome:
        case Fetched(page=page):
            return Ending.OVERLOAD if is_overload(page.status) else Ending.OK
        case NotModified() | Redirected():
            return Ending.OK
        case Failed(failure=failure, sent=sent):
            went_out, kept_back = _ENDINGS[failure]
            return went_out if sent else kept_back
        case Resolved() | Refused() | Unknown() | Expired() | AddressChanged():
            return Ending.NEUTRAL


def is_overload(status: int) -> bool:
    """Tell whether an HTTP status asks for less: 429 (RFC 6585, section 4) or any 5xx."""
    return status == 429 or status >= 500


def after(
    pace: Pace,
    ending: Ending,
    *,
    response_s: float,
    retry_after_s: float | None,
    config: PolitenessConfig,
) -> Paused:
    """Return the pace and the wait after a request that ended so.

    response_s: from the start of the request to the last byte, 0 if none was made. retry_after_s: what the server
    asks for, as `retry_after_s` reads it. `pace.delay_s` becomes the delay without back-off and Retry-After, which is
    what a host is held for after an unclean stop.
    """
    own_s = max(config.min_delay_s, pace.crawl_delay_s, min(config.factor * response_s, MAX_RESPONSE_TERM_S))
    if ending is Ending.NEUTRAL:
        # no response to go by: the host may have been slow, so its last delay stands
        own_s = max(own_s, pace.delay_s)
    new = replace(
        pace,
        delay_s=own_s,
        overloads=_overloads(pace.overloads, ending),
        failures=_failures(pace.failures, ending),
    )
    pause_s = back_off_s(new.overloads, pace=new, config=config)
    asked_s = min(retry_after_s or 0.0, MAX_RETRY_AFTER_S)
    wait_s = max(own_s, pause_s, asked_s)
    if wait_s == own_s:
        return Paused(new, wait_s, WaitCause.DELAY)
    return Paused(new, wait_s, WaitCause.BACKOFF if wait_s == pause_s else WaitCause.RETRY_AFTER)


def back_off_s(overloads: int, *, pace: Pace, config: PolitenessConfig) -> float:
    """Return the back-off after `overloads` overload answers that no success has taken off, in seconds."""
    if overloads <= 0:
        return 0.0
    unit_s = max(LEAST_BACKOFF_UNIT_S, config.min_delay_s, pace.crawl_delay_s)
    return min(2.0 ** min(overloads, MAX_OVERLOADS) * unit_s, MAX_BACKOFF_S)


def _overloads(n: int, ending: Ending) -> int:
    match ending:
        case Ending.OVERLOAD:
            return min(n + 1, MAX_OVERLOADS)
        case Ending.OK:
            return max(n - 1, 0)
        case Ending.FAILED | Ending.NEUTRAL:
            return n


def _failures(n: int, ending: Ending) -> int:
    match ending:
        case Ending.OVERLOAD | Ending.FAILED:
            return n + 1
        case Ending.OK:
            return 0
        case Ending.NEUTRAL:
            return n


def retry_after_s(text: str, now: float) -> float | None:
    """Read a Retry-After field (RFC 9110, 10.2.3): seconds from `now`, above 0 and at most 24 h.

    None for what asks for no wait or means nothing: zero, a negative number, a past date, words; then the back-off
    alone rules. `now` is UTC seconds.
    """
    text = text.strip()
    wait_s = float(text) if _SECONDS.fullmatch(text) else _until_date_s(text, now)
    return min(wait_s, MAX_RETRY_AFTER_S) if wait_s is not None and wait_s > 0 else None


def _until_date_s(text: str, now: float) -> float | None:
    try:
        date = parsedate_to_datetime(text)
        # a date without a zone is UTC: HTTP knows no other (RFC 9110, 5.6.7)
        date_at = (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
    return date_at - now


def crawl_delay_verdict(asked_s: float | None) -> Verdict:
    """Say whether a Crawl-delay is kept; above an hour the host is to be parked with the refusal's reason."""
    if asked_s is not None and asked_s > MAX_CRAWL_DELAY_S:
        return refused(Reason.CRAWL_DELAY_TOO_LONG, f"Crawl-delay: {asked_s:g} s")
    return ALLOWED


def with_crawl_delay(pace: Pace, asked_s: float | None) -> Pace:
    """Return the pace under a Crawl-delay, kept to the fraction of a second; None or an unusable number asks nothing.

    A host with several origins is asked no faster than the slowest of them wishes: give the largest. Only for what
    `crawl_delay_verdict` allows.
    """
    usable = asked_s is not None and math.isfinite(asked_s) and asked_s > 0
    crawl_delay_s = asked_s if usable and asked_s is not None else 0.0
    return replace(pace, crawl_delay_s=crawl_delay_s, delay_s=max(pace.delay_s, crawl_delay_s))


def retired(pace: Pace) -> bool:
    """Tell whether the host has failed so often in a row that it is left alone for the rest of this run."""
    return pace.failures >= RETIRED_AFTER_FAILURES


def resumed_ok_at(record: HostRecord, *, restarted_at: float, unclean: bool) -> float:
    """Return the instant (UTC seconds) before which a host is not asked after a restart.

    What is stored is kept. After an unclean stop a response may have ended up to the very restart without a trace, so
    the host is left alone for its own delay from then on.
    """
    if not unclean:
        return record.next_ok_at
    own_s = max(record.pace.delay_s, record.pace.crawl_delay_s)
    return max(record.next_ok_at, restarted_at + own_s)


def lease_s(limits: Limits, *, queue_s: float = QUEUE_S, hold_s: float = HOLD_S) -> float:
    """Return how long a permit may be out: in a queue, held by a worker before the start, the exchange, and slack."""
    return queue_s + hold_s + limits.exchange_s + SLACK_S
