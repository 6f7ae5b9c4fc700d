"""What answers to robots.txt mean, how long they hold, and what is in force in between."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mannerly.model.origin import MAX_VALIDATOR_CHARS, Access, OriginRecord, Ruleset
from mannerly.model.verdict import Reason
from mannerly.policy.access import (
    DAY_S,
    HOUR_S,
    MAX_HOPS,
    STALE_AT_MOST_S,
    STALE_RETRY_S,
    AccessResult,
    Arrival,
    FollowRedirect,
    Renewed,
    RobotsAnswer,
    Standing,
    in_force,
    judge,
    settle,
    verdict,
)
from mannerly.policy.retries import ROBOTS_ATTEMPTS
from mannerly.policy.robots import Matcher, parse

RULES = parse(b"User-agent: *\nDisallow: /private\n")
NEW = OriginRecord("http://a.test")
OK = RobotsAnswer(status=200, ruleset=RULES, etag='"1"')
DOWN = RobotsAnswer(status=503)


def after(before: OriginRecord, answer: RobotsAnswer, now: float) -> OriginRecord:
    result = judge(answer)
    assert not isinstance(result, FollowRedirect)
    return settle(before, answer, result, now=now)


def access(answer: RobotsAnswer) -> Access:
    result = judge(answer)
    assert isinstance(result, AccessResult)
    return result.access


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        *(
            (RobotsAnswer(status=status, ruleset=RULES), Access.AVAILABLE)
            for status in (200, 201, 203, 226, 299)
        ),
        *(
            (RobotsAnswer(status=s), Access.UNAVAILABLE)
            for s in (204, 400, 401, 403, 404, 410, 418, 451, 499)
        ),
        *((RobotsAnswer(status=s), Access.UNREACHABLE) for s in (429, 500, 503, 520, 599, 600, 999, 100, 0)),
        (RobotsAnswer(status=206, ruleset=RULES), Access.UNREACHABLE),
        (RobotsAnswer(status=200, ruleset=RULES, truncated=True), Access.UNREACHABLE),
        (RobotsAnswer(status=200), Access.UNREACHABLE),
        (RobotsAnswer(arrival=Arrival.FAILED, failure="timeout"), Access.UNREACHABLE),
        (RobotsAnswer(arrival=Arrival.ADDRESS_REFUSED), Access.UNREACHABLE),
        (RobotsAnswer(status=301), Access.UNAVAILABLE),
        (RobotsAnswer(status=300, location_ok=True), Access.UNAVAILABLE),
        (RobotsAnswer(status=301, location_ok=True, target_refused=True), Access.UNREACHABLE),
    ],
)
def test_access_of_an_answer(answer: RobotsAnswer, expected: Access) -> None:
    assert access(answer) is expected


def test_i4_no_failure_allows_anything() -> None:
    for answer in (
        DOWN,
        RobotsAnswer(arrival=Arrival.FAILED),
        RobotsAnswer(status=429),
        RobotsAnswer(status=206),
    ):
        assert in_force(after(NEW, answer, 0.0), 0.0).standing is Standing.FORBID_ALL


@pytest.mark.parametrize("status", [401, 403])
def test_a_setting_makes_401_and_403_forbid(status: int) -> None:
    answer = RobotsAnswer(status=status)
    result = judge(answer, forbid_on_401_403=True)
    assert isinstance(result, AccessResult)
    record = settle(NEW, answer, result, now=0.0)
    assert verdict(record, None, "/x", 1.0).reason is Reason.ROBOTS_DISALLOWED
    assert judge(RobotsAnswer(status=404), forbid_on_401_403=True) == judge(RobotsAnswer(status=404))


@pytest.mark.parametrize(
    ("max_age_s", "ttl_s"), [(None, DAY_S), (0.0, HOUR_S), (7_200.0, 7_200.0), (30 * DAY_S, DAY_S)]
)
@pytest.mark.parametrize("status", [200, 404])
def test_an_answer_holds_from_an_hour_to_a_day(status: int, max_age_s: float | None, ttl_s: float) -> None:
    record = after(NEW, RobotsAnswer(status=status, ruleset=RULES, max_age_s=max_age_s), 1_000.0)
    assert not in_force(record, 1_000.0 + ttl_s - 1).fetch_due
    expired = in_force(record, 1_000.0 + ttl_s)
    assert expired.fetch_due
    assert expired.standing is Standing.UNKNOWN


def test_304_renews_the_copy() -> None:
    record = after(after(NEW, OK, 0.0), RobotsAnswer(status=304), DAY_S)
    assert record.ruleset == RULES
    assert record.etag == '"1"'
    assert in_force(record, 2 * DAY_S - 1).standing is Standing.RULES


def test_304_without_a_copy_is_unreachable() -> None:
    assert judge(RobotsAnswer(status=304)) == Renewed(DAY_S)
    assert in_force(after(NEW, RobotsAnswer(status=304), 0.0), 0.0).standing is Standing.FORBID_ALL


def test_a_copy_outlives_its_time_while_the_origin_is_unreachable() -> None:
    record = after(after(NEW, OK, 0.0), DOWN, DAY_S)
    held = in_force(record, DAY_S)
    assert (held.standing, held.stale, held.fetch_due) == (Standing.RULES, True, False)
    assert in_force(record, DAY_S + STALE_RETRY_S).fetch_due
    assert verdict(record, None, "/private", DAY_S).reason is Reason.ROBOTS_DISALLOWED
    assert verdict(record, None, "/public", DAY_S).allowed


def test_a_copy_is_dropped_thirty_days_past_its_time() -> None:
    record = after(after(NEW, OK, 0.0), DOWN, DAY_S)
    assert in_force(record, DAY_S + STALE_AT_MOST_S).standing is Standing.RULES
    assert in_force(record, DAY_S + STALE_AT_MOST_S + 1).standing is Standing.FORBID_ALL


def test_a_file_that_was_missing_is_no_copy() -> None:
    record = after(after(NEW, RobotsAnswer(status=404), 0.0), DOWN, DAY_S)
    assert in_force(record, DAY_S).standing is Standing.FORBID_ALL


def test_retry_after_is_waited_for_up_to_a_day() -> None:
    assert after(NEW, RobotsAnswer(status=429, retry_after_s=120.0), 10.0).expires_at == 130.0
    assert after(NEW, RobotsAnswer(status=429, retry_after_s=1e9), 10.0).expires_at == 10.0 + DAY_S
    assert after(NEW, DOWN, 10.0).expires_at == 10.0, (
        "without one the host's back-off alone spaces the attempts"
    )


def test_failures_in_a_row_are_counted_and_a_copy_holds_however_many() -> None:
    fresh, cached = NEW, after(NEW, OK, 0.0)
    for attempt in range(ROBOTS_ATTEMPTS):
        fresh, cached = after(fresh, DOWN, DAY_S), after(cached, DOWN, DAY_S)
        assert (fresh.failures, cached.failures) == (attempt + 1, attempt + 1)
    assert in_force(fresh, DAY_S).standing is Standing.FORBID_ALL
    assert in_force(cached, DAY_S).standing is Standing.RULES
    assert after(fresh, OK, DAY_S).failures == 0


def test_validators_that_are_too_long_are_dropped_whole() -> None:
    record = after(NEW, RobotsAnswer(status=200, ruleset=RULES, etag="x" * (MAX_VALIDATOR_CHARS + 1)), 0.0)
    assert record.etag == ""


def test_records_survive_the_wire() -> None:
    record = after(NEW, OK, 5.0)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(record), type=OriginRecord) == record


# Bug reports


def test_b01_no_page_is_allowed_while_robots_txt_answers_5xx() -> None:
    record = after(NEW, DOWN, 0.0)
    refusal = verdict(record, None, "/p", 0.0)
    assert refusal.reason is Reason.ROBOTS_UNREACHABLE
    assert refusal.evidence == "status 503"
    assert in_force(record, 0.0).fetch_due


def test_b02_a_timeout_gives_no_lasting_permission() -> None:
    timeout = RobotsAnswer(arrival=Arrival.FAILED, failure="connect timeout")
    record = after(NEW, timeout, 0.0)
    assert not verdict(record, None, "/p", 599.0).allowed
    assert in_force(record, 599.0).fetch_due, "a failure is cached for minutes at most"
    record = after(record, RobotsAnswer(status=200, ruleset=parse(b"User-agent: *\nDisallow: /")), 600.0)
    assert verdict(record, None, "/p", 600.0).reason is Reason.ROBOTS_DISALLOWED


def test_b03_redirect_to_a_refused_address_is_retried_and_allows_nothing() -> None:
    answer = RobotsAnswer(status=301, location_ok=True, target_refused=True)
    record = after(NEW, answer, 0.0)
    assert record.access is Access.UNREACHABLE
    assert record.failures == 1
    assert not verdict(record, None, "/p", 0.0).allowed
    dialled = RobotsAnswer(arrival=Arrival.ADDRESS_REFUSED, hops=1)
    assert access(dialled) is Access.UNREACHABLE


def test_b05_redirect_loop_ends_after_six_requests_as_unavailable() -> None:
    hops, requests = 0, 0
    while True:
        result = judge(RobotsAnswer(status=301, location_ok=True, hops=hops))
        requests += 1
        if not isinstance(result, FollowRedirect):
            break
        hops = result.hops
    assert isinstance(result, AccessResult)
    assert result.access is Access.UNAVAILABLE
    assert requests == MAX_HOPS + 1 == 6


def test_b06_a_connection_closed_early_is_a_value() -> None:
    record = after(NEW, RobotsAnswer(arrival=Arrival.FAILED, failure="closed after the status line"), 0.0)
    assert verdict(record, None, "/p", 0.0).evidence == "closed after the status line"


def test_b07_robots_txt_needs_no_leave_and_is_not_due_again_within_its_time() -> None:
    assert verdict(None, None, "/robots.txt", 0.0).allowed
    assert in_force(None, 0.0).fetch_due
    assert not in_force(after(NEW, OK, 0.0), 1.0).fetch_due


# Verdicts


def test_verdict_before_any_answer_refuses() -> None:
    assert verdict(None, None, "/p", 0.0).reason is Reason.ROBOTS_UNREACHABLE
    assert verdict(NEW, None, "/p", 0.0).reason is Reason.ROBOTS_UNREACHABLE


def test_verdict_names_the_rule_that_decided() -> None:
    record = after(NEW, OK, 0.0)
    assert verdict(record, Matcher(RULES), "/private/x", 1.0).evidence == "Disallow: /private"


def test_verdict_never_trusts_a_matcher_of_other_rules() -> None:
    record = after(NEW, OK, 0.0)
    assert not verdict(record, Matcher(Ruleset()), "/private", 1.0).allowed


def test_verdict_on_rules_that_are_too_complex() -> None:
    record = after(NEW, RobotsAnswer(status=200, ruleset=Ruleset(too_complex=True)), 0.0)
    assert verdict(record, None, "/p", 1.0).reason is Reason.ROBOTS_TOO_COMPLEX


answers = st.builds(
    RobotsAnswer,
    arrival=st.sampled_from(Arrival),
    status=st.sampled_from([200, 204, 206, 301, 304, 403, 404, 429, 500, 503]),
    hops=st.integers(0, 6),
    location_ok=st.booleans(),
    target_refused=st.booleans(),
    truncated=st.booleans(),
    ruleset=st.sampled_from([None, RULES]),
    max_age_s=st.none() | st.floats(0, 1e7),
    retry_after_s=st.none() | st.floats(0, 1e7),
)


@pytest.mark.slow
@given(st.lists(st.tuples(answers, st.floats(0, 3 * DAY_S)), max_size=12))
def test_i4_only_a_readable_answer_ever_allows(history: list[tuple[RobotsAnswer, float]]) -> None:
    record, now, readable = NEW, 0.0, False
    for answer, wait_s in history:
        now += wait_s
        result = judge(answer)
        if isinstance(result, FollowRedirect):
            assert result.hops == answer.hops + 1 <= MAX_HOPS
            continue
        record = settle(record, answer, result, now=now)
        readable = readable or (isinstance(result, AccessResult) and result.access is not Access.UNREACHABLE)
        held = in_force(record, now)
        assert readable or held.standing is Standing.FORBID_ALL
        assert (held.ruleset is not None) == (held.standing is Standing.RULES)
        assert in_force(record, record.expires_at).fetch_due
        if record.access is Access.UNREACHABLE:
            assert held.standing in {Standing.FORBID_ALL, Standing.RULES}
