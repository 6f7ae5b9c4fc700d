"""Delay, back-off, Retry-After, Crawl-delay, restart, retirement, and the retry table."""

from __future__ import annotations

import math
from email.utils import formatdate
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    Page,
    Redirected,
    Refused,
    Resolved,
    Unknown,
)
from mannerly.model.task import Limits
from mannerly.model.verdict import Reason
from mannerly.policy.politeness import (
    Ending,
    after,
    back_off_s,
    crawl_delay_verdict,
    ending_of,
    lease_s,
    resumed_ok_at,
    retired,
    retry_after_s,
    with_crawl_delay,
)
from mannerly.policy.retries import FAILURES, Again, Final, name_of, retry, retry_robots

CONFIG = PolitenessConfig()
NOW = 1_700_000_000.0
DAY_S = 86_400.0


def fetched(status: int) -> Fetched:
    return Fetched(Page(status=status))


def paused(
    pace: Pace,
    ending: Ending,
    *,
    response_s: float = 0.1,
    retry_after: float | None = None,
    config: PolitenessConfig = CONFIG,
) -> tuple[float, WaitCause]:
    answer = after(pace, ending, response_s=response_s, retry_after_s=retry_after, config=config)
    return answer.wait_s, answer.cause


# ------------------------------------------------------------------------------------------------ how a request ended


@pytest.mark.parametrize(
    ("outcome", "ending"),
    [
        (fetched(200), Ending.OK),
        (fetched(404), Ending.OK),
        (fetched(403), Ending.OK),
        (fetched(429), Ending.OVERLOAD),
        (fetched(500), Ending.OVERLOAD),
        (fetched(503), Ending.OVERLOAD),
        (fetched(599), Ending.OVERLOAD),
        (NotModified(), Ending.OK),
        (Redirected(301, "http://a.test/"), Ending.OK),
        (Redirected(301), Ending.OK),
        (Failed(Failure.TIMEOUT, sent=True), Ending.OVERLOAD),
        (Failed(Failure.TIMEOUT), Ending.OVERLOAD),
        (Failed(Failure.REFUSED), Ending.OVERLOAD),
        (Failed(Failure.RESET, sent=True), Ending.OVERLOAD),
        (Failed(Failure.RESET), Ending.FAILED),
        (Failed(Failure.TLS), Ending.FAILED),
        (Failed(Failure.CONNECTION_CLOSED, sent=True), Ending.NEUTRAL),
        (Failed(Failure.NAME_NOT_FOUND), Ending.NEUTRAL),
        (Failed(Failure.DNS_TIMEOUT), Ending.NEUTRAL),
        (Resolved(("192.0.2.1",)), Ending.NEUTRAL),
        (Refused(), Ending.NEUTRAL),
        (Unknown(), Ending.NEUTRAL),
        (Expired(), Ending.NEUTRAL),
        (AddressChanged(), Ending.NEUTRAL),
    ],
    ids=lambda value: name_of(value) if isinstance(value, get_args(Outcome)) else None,
)
def test_outcome_says_of_the_host(outcome: Outcome, ending: Ending) -> None:
    assert ending_of(outcome) is ending


@pytest.mark.parametrize("failure", Failure)
@pytest.mark.parametrize("sent", [False, True])
def test_every_failure_has_an_ending_and_a_row(failure: Failure, sent: bool) -> None:
    assert ending_of(Failed(failure, sent=sent)) in Ending
    assert failure in FAILURES


# -------------------------------------------------------------------------------------------------------------- delay


@pytest.mark.parametrize(
    ("pace", "response_s", "config", "wait_s"),
    [
        (Pace(), 0.1, CONFIG, 1.0),
        (Pace(), 3.0, CONFIG, 6.0),
        (Pace(), 60.0, CONFIG, 30.0),
        (Pace(crawl_delay_s=2.5), 0.1, CONFIG, 2.5),
        (Pace(crawl_delay_s=0.25), 0.0, PolitenessConfig(min_delay_s=0.1, factor=0), 0.25),
        (Pace(), 50.0, PolitenessConfig(min_delay_s=0.2, factor=0), 0.2),
        (Pace(), 50.0, PolitenessConfig(min_delay_s=0, factor=0), 0.0),
        (Pace(crawl_delay_s=3_600), 50.0, CONFIG, 3_600.0),
    ],
)
def test_delay_is_the_largest_of_its_terms(
    pace: Pace, response_s: float, config: PolitenessConfig, wait_s: float
) -> None:
    assert paused(pace, Ending.OK, response_s=response_s, config=config) == (wait_s, WaitCause.DELAY)


def test_overload_doubles_the_wait_up_to_six_times_and_success_takes_one_off() -> None:
    pace, course = Pace(), list[tuple[float, WaitCause]]()
    for ending in [Ending.OVERLOAD] * 8 + [Ending.OK] * 7:
        answer = after(pace, ending, response_s=0.1, retry_after_s=None, config=CONFIG)
        pace = answer.pace
        course.append((answer.wait_s, answer.cause))
    backing_off = [2, 4, 8, 16, 32, 64, 64, 64, 32, 16, 8, 4, 2]
    assert course == [(s, WaitCause.BACKOFF) for s in backing_off] + [(1, WaitCause.DELAY)] * 2
    assert pace == Pace()


def test_back_off_stands_on_at_least_a_second_and_ends_at_half_an_hour() -> None:
    quick = PolitenessConfig(min_delay_s=0, factor=0)
    assert paused(Pace(), Ending.OVERLOAD, config=quick) == (2.0, WaitCause.BACKOFF)
    assert paused(Pace(crawl_delay_s=60, overloads=5), Ending.OVERLOAD) == (1_800.0, WaitCause.BACKOFF)
    # a Crawl-delay above the cap still holds, and is no back-off
    assert paused(Pace(crawl_delay_s=2_000, overloads=5), Ending.OVERLOAD) == (2_000.0, WaitCause.DELAY)


@pytest.mark.parametrize("ending", Ending)
@pytest.mark.parametrize(("asked_s", "kept_s"), [(120.0, 120.0), (DAY_S, DAY_S), (1e9, DAY_S)])
def test_retry_after_is_kept_in_full_up_to_a_day(ending: Ending, asked_s: float, kept_s: float) -> None:
    assert paused(Pace(), ending, retry_after=asked_s) == (kept_s, WaitCause.RETRY_AFTER)


def test_retry_after_shortens_no_other_wait() -> None:
    assert paused(Pace(overloads=5), Ending.OVERLOAD, retry_after=3.0) == (64.0, WaitCause.BACKOFF)
    assert paused(Pace(crawl_delay_s=10), Ending.OK, retry_after=3.0) == (10.0, WaitCause.DELAY)


def test_pace_keeps_the_delay_without_back_off_for_the_restart() -> None:
    answer = after(Pace(overloads=4), Ending.OVERLOAD, response_s=2.0, retry_after_s=900.0, config=CONFIG)
    assert answer.pace == Pace(delay_s=4.0, overloads=5, failures=1)


def test_unknown_outcome_keeps_the_last_delay_and_counts_nothing() -> None:
    pace = Pace(delay_s=12.0, overloads=0, failures=3)
    answer = after(pace, Ending.NEUTRAL, response_s=0.0, retry_after_s=None, config=CONFIG)
    assert (answer.pace, answer.wait_s, answer.cause) == (pace, 12.0, WaitCause.DELAY)


@given(
    pace=st.builds(
        Pace,
        delay_s=st.floats(0, 3_600),
        crawl_delay_s=st.floats(0, 3_600),
        overloads=st.integers(0, 6),
        failures=st.integers(0, 50),
    ),
    ending=st.sampled_from(Ending),
    response_s=st.floats(0, 4_000),
    asked_s=st.none() | st.floats(0.001, 1e12),
    min_delay_s=st.floats(0, 600),
    factor=st.floats(0, 10),
)
def test_wait_is_never_under_any_wish_and_never_without_end(
    pace: Pace, ending: Ending, response_s: float, asked_s: float | None, min_delay_s: float, factor: float
) -> None:
    config = PolitenessConfig(min_delay_s=min_delay_s, factor=factor)
    answer = after(pace, ending, response_s=response_s, retry_after_s=asked_s, config=config)
    assert answer.wait_s >= max(
        min_delay_s, pace.crawl_delay_s, answer.pace.delay_s, min(asked_s or 0, DAY_S)
    )
    assert answer.wait_s >= back_off_s(answer.pace.overloads, pace=answer.pace, config=config)
    assert answer.wait_s <= DAY_S
    assert 0 <= answer.pace.overloads <= 6
    assert abs(answer.pace.overloads - pace.overloads) <= 1


# -------------------------------------------------------------------------------------------------------- Retry-After


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("-5", None),
        ("120", 120.0),
        ("Wed, 21 Oct 2099 07:28:00 GMT", DAY_S),
        ("Wed, 21 Oct 2015 07:28:00 GMT", None),
        ("soon", None),
        ("999999999", DAY_S),
        ("1.5", 1.5),
        (" 7 ", 7.0),
        ("0", None),
        ("0.0", None),
        ("", None),
        ("nan", None),
        ("inf", None),
        ("1e3", None),
        ("٣", None),
        ("9" * 250, DAY_S),
        ("120, 60", None),
        (formatdate(NOW + 90, usegmt=True), 90.0),
        (formatdate(NOW + 90), 90.0),
        ("Tuesday, 14-Nov-23 22:14:20 GMT", 60.0),
        ("Tue Nov 14 22:14:20 2023", 60.0),
        ("Tue, 14 Nov 2023 23:14:20 +0100", 60.0),
        ("Tue, 99 Nov 2023 22:14:20 GMT", None),
        ("Fri, 31 Dec 9999 23:59:59 -2359", DAY_S),
    ],
)
def test_b81_retry_after_is_read_or_left_to_the_back_off(text: str, seconds: float | None) -> None:
    assert retry_after_s(text, NOW) == seconds


@pytest.mark.parametrize(
    "text",
    [
        "-5",
        "120",
        "Wed, 21 Oct 2099 07:28:00 GMT",
        "Wed, 21 Oct 2015 07:28:00 GMT",
        "soon",
        "999999999",
        "1.5",
    ],
)
def test_b81_host_pauses_after_429_whatever_retry_after_says(text: str) -> None:
    wait_s, cause = paused(Pace(), ending_of(fetched(429)), retry_after=retry_after_s(text, NOW))
    assert 2.0 <= wait_s <= DAY_S
    assert cause.counts


@pytest.mark.slow
@given(
    st.text(max_size=60)
    | st.from_regex(r"[A-Z][a-z]{2}, \d{1,3} [A-Z][a-z]{2} \d{1,6} \d\d:\d\d:\d\d [-+]?\w{0,5}")
)
def test_b81_no_retry_after_raises_or_is_out_of_range(text: str) -> None:
    seconds = retry_after_s(text, NOW)
    assert seconds is None or 0 < seconds <= DAY_S


# -------------------------------------------------------------------------------------------------------- Crawl-delay


def test_b09_crawl_delay_is_kept_up_to_an_hour_and_parks_above() -> None:
    assert crawl_delay_verdict(120.0).allowed
    pace = with_crawl_delay(Pace(), 120.0)
    assert paused(pace, Ending.OK) == (120.0, WaitCause.DELAY)
    assert crawl_delay_verdict(3_600.0).allowed
    assert paused(with_crawl_delay(Pace(), 3_600.0), Ending.OK) == (3_600.0, WaitCause.DELAY)
    verdict = crawl_delay_verdict(3_600.5)
    assert (verdict.reason, verdict.evidence) == (Reason.CRAWL_DELAY_TOO_LONG, "Crawl-delay: 3600.5 s")


def test_b09_crawl_delay_is_kept_to_the_fraction() -> None:
    assert paused(with_crawl_delay(Pace(), 1.25), Ending.OK) == (1.25, WaitCause.DELAY)


@pytest.mark.parametrize("asked_s", [None, math.nan, -5.0, 0.0])
def test_b10_unusable_crawl_delay_leaves_the_default(asked_s: float | None) -> None:
    assert crawl_delay_verdict(asked_s).allowed
    assert with_crawl_delay(Pace(), asked_s) == Pace()
    assert paused(with_crawl_delay(Pace(), asked_s), Ending.OK) == (1.0, WaitCause.DELAY)


@pytest.mark.parametrize("asked_s", [1e9, math.inf])
def test_b10_crawl_delay_without_end_parks(asked_s: float) -> None:
    assert crawl_delay_verdict(asked_s).reason is Reason.CRAWL_DELAY_TOO_LONG


# -------------------------------------------------------------------------------------------------- restart, retirement


def test_i5_after_an_unclean_stop_a_host_is_left_alone_for_its_own_delay() -> None:
    record = HostRecord(1, "a.test", next_ok_at=NOW + 3, pace=Pace(delay_s=10.0))
    assert resumed_ok_at(record, restarted_at=NOW, unclean=True) == NOW + 10
    assert resumed_ok_at(record, restarted_at=NOW, unclean=False) == NOW + 3
    long_block = HostRecord(1, "a.test", next_ok_at=NOW + DAY_S, pace=Pace(delay_s=10.0))
    assert resumed_ok_at(long_block, restarted_at=NOW, unclean=True) == NOW + DAY_S


def test_host_is_retired_after_twenty_failures_in_a_row() -> None:
    pace = Pace()
    for ending in [Ending.OVERLOAD, Ending.FAILED] * 9 + [Ending.NEUTRAL] * 30 + [Ending.FAILED]:
        pace = after(pace, ending, response_s=0, retry_after_s=None, config=CONFIG).pace
    assert (pace.failures, retired(pace)) == (19, False)
    last = after(pace, Ending.OVERLOAD, response_s=0, retry_after_s=None, config=CONFIG).pace
    assert retired(last)
    mended = after(pace, Ending.OK, response_s=0, retry_after_s=None, config=CONFIG).pace
    assert mended.failures == 0


def test_lease_covers_queue_hold_exchange_and_slack() -> None:
    assert lease_s(Limits()) == 80.0
    assert lease_s(Limits(exchange_s=5.0), queue_s=0.0, hold_s=30.0) == 40.0


# ------------------------------------------------------------------------------------------------------------- retries

GAVE_UP = Final(Reason.GAVE_UP)


@pytest.mark.parametrize(
    ("outcome", "course"),
    [
        *[
            (outcome, [30.0, 300.0, Reason.GAVE_UP])
            for outcome in (
                fetched(429),
                fetched(500),
                fetched(503),
                Failed(Failure.TIMEOUT, sent=True),
                Failed(Failure.RESET, sent=True),
                Failed(Failure.TRUNCATED_HEAD, sent=True),
                Failed(Failure.REFUSED),
            )
        ],
        (Failed(Failure.NAME_NOT_FOUND), [5.0, Reason.NAME_NOT_FOUND]),
        (Failed(Failure.DNS_FAILED), [30.0, 300.0, Reason.DNS_FAILED]),
        (Failed(Failure.DNS_TIMEOUT), [30.0, 300.0, Reason.DNS_FAILED]),
        (Failed(Failure.TLS), [Reason.TLS_FAILED]),
        (Failed(Failure.PROTOCOL), [Reason.PROTOCOL_ERROR]),
        (Failed(Failure.TOO_COSTLY), [Reason.TOO_COSTLY]),
        (Failed(Failure.KILLS_WORKER), [Reason.KILLS_WORKER]),
        (Failed(Failure.ADDRESS_REFUSED), [Reason.ADDRESS_REFUSED]),
        (Failed(Failure.INVALID_HOST), [Reason.INVALID_HOST]),
        (Failed(Failure.HEADERS_TOO_LARGE), [Reason.HEADERS_TOO_LARGE]),
        (Redirected(302, raw="mailto:x"), [Reason.REDIRECT_INVALID]),
        (fetched(404), [Reason.HTTP_ERROR]),
        (fetched(403), [Reason.HTTP_ERROR]),
        (fetched(300), [Reason.HTTP_ERROR]),
        (Refused("odd"), [Reason.GAVE_UP]),
        (Resolved(), [Reason.GAVE_UP]),
    ],
    ids=lambda value: name_of(value) if isinstance(value, get_args(Outcome)) else None,
)
def test_counted_attempts_and_their_spacing(outcome: Outcome, course: list[float | Reason]) -> None:
    seen: list[float | Reason] = []
    for attempt in range(1, len(course) + 1):
        match retry(outcome, attempts=attempt, uncounted=0):
            case Again(after_s, counted):
                assert counted
                seen.append(after_s)
            case Final(reason):
                seen.append(reason)
    assert seen == course
    assert retry(outcome, attempts=50, uncounted=0) == Final(course[-1])  # type: ignore[arg-type]


@pytest.mark.parametrize("outcome", [Unknown(), Expired(), AddressChanged()], ids=name_of)
def test_attempts_without_the_sites_part_are_not_counted_but_end(outcome: Outcome) -> None:
    for uncounted in range(10):
        answer = retry(outcome, attempts=1, uncounted=uncounted)
        assert answer == Again(0.0, counted=False, cause=WaitCause.DELAY)
    assert retry(outcome, attempts=1, uncounted=10) == GAVE_UP


def test_dead_kept_connection_is_uncounted_once_and_then_a_reset() -> None:
    closed = Failed(Failure.CONNECTION_CLOSED, sent=True)
    assert retry(closed, attempts=1, uncounted=0) == Again(0.0, counted=False, cause=WaitCause.DELAY)
    assert retry(closed, attempts=1, uncounted=1) == Again(30.0)
    assert retry(closed, attempts=2, uncounted=1) == Again(300.0)
    assert retry(closed, attempts=3, uncounted=1) == GAVE_UP


@pytest.mark.parametrize(
    "outcome", [fetched(200), NotModified(), Redirected(301, "http://a.test/")], ids=name_of
)
def test_what_succeeded_is_not_retried(outcome: Outcome) -> None:
    with pytest.raises(ValueError, match="no failure"):
        retry(outcome, attempts=1, uncounted=0)


def test_unreachable_robots_is_asked_for_five_times_in_back_off() -> None:
    spacing = [retry_robots(n, pace=Pace(), config=CONFIG) for n in range(1, 5)]
    assert spacing == [Again(s, cause=WaitCause.ROBOTS_UNREACHABLE) for s in (2.0, 4.0, 8.0, 16.0)]
    assert retry_robots(5, pace=Pace(), config=CONFIG) == Final(Reason.ROBOTS_UNREACHABLE)


def test_outcome_is_named_with_its_value() -> None:
    assert name_of(fetched(503)) == "HTTP 503"
    assert name_of(Failed(Failure.TLS, "certificate has expired")) == "tls-failed: certificate has expired"
    assert name_of(Redirected(302, raw="mailto:x")) == "HTTP 302 without a usable Location"
    assert name_of(Unknown()) == "unknown"
