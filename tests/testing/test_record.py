"""The checks on a record, against made-up records: they must not miss a fault, nor see one where there is none."""

from __future__ import annotations

from itertools import combinations, pairwise

from hypothesis import given
from hypothesis import strategies as st

from mannerly.testing.record import (
    Record,
    Seen,
    gaps,
    max_in_flight,
    overlaps,
    robots_faults,
    violations,
)


def seen(began_at: float, ended_at: float | None, *, host: str = "a.test", target: str = "/") -> Seen:
    return Seen(
        host=host,
        target=target,
        method="GET",
        headers=(),
        address="127.0.0.1",
        connection=1,
        nth=1,
        began_at=began_at,
        in_flight=1,
        in_flight_host=1,
        ended_at=ended_at,
    )


POLITE = [seen(0.0, 0.5), seen(1.5, 1.6), seen(2.6, 2.7)]


def test_gaps_count_from_the_end_of_the_response_before() -> None:
    assert gaps(POLITE, "a.test") == [1.0, 1.0]


def test_a_polite_record_has_no_violation() -> None:
    assert violations(POLITE, 1.0) == []
    assert overlaps(POLITE, "a.test") == 0
    assert max_in_flight(POLITE) == 1


def test_a_request_a_moment_too_early_is_found() -> None:
    found = violations([seen(0.0, 0.5, target="/one"), seen(1.497, 1.6, target="/two")], 1.0)
    assert [(fault.earlier, fault.later) for fault in found] == [("/one", "/two")]
    assert str(found[0]) == "a.test: /two began 0.9970 s after the end of /one, not 1.0000 s"


def test_the_tolerance_is_a_millisecond_and_not_more() -> None:
    assert violations([seen(0.0, 0.5), seen(1.4995, 1.6)], 1.0) == []


def test_a_long_response_that_spans_short_ones_still_counts_as_the_one_before() -> None:
    requests = [seen(0.0, 10.0), seen(1.0, 2.0), seen(5.0, 6.0)]
    assert gaps(requests, "a.test") == [-9.0, -5.0]
    assert len(violations(requests, 1.0)) == 2
    assert overlaps(requests, "a.test") == 2
    assert max_in_flight(requests) == 2


def test_a_response_under_way_forbids_any_other_request() -> None:
    requests = [seen(0.0, None), seen(100.0, 101.0)]
    assert gaps(requests, "a.test") == [-float("inf")]
    assert len(violations(requests, 1.0)) == 1


def test_hosts_are_judged_apart() -> None:
    requests = [seen(0.0, 0.5), seen(0.1, 0.6, host="b.test")]
    assert violations(requests, 1.0) == []
    assert max_in_flight(requests) == 2
    assert max_in_flight(requests, {"a.test"}) == 1


def test_a_request_that_begins_as_another_ends_is_not_at_once_with_it() -> None:
    assert max_in_flight([seen(0.0, 1.0), seen(1.0, 2.0)]) == 1
    assert overlaps([seen(0.0, 1.0), seen(1.0, 2.0)], "a.test") == 0


def test_robots_faults_names_hosts_that_were_entered_without_asking() -> None:
    requests = [
        seen(0, 1, target="/robots.txt"),
        seen(2, 3),
        seen(0, 1, host="b.test"),
        seen(2, 3, host="c.test", target="/robots.txt"),
        seen(4, 5, host="c.test", target="/robots.txt"),
    ]
    assert robots_faults(requests) == [
        "b.test: the first request was /, not /robots.txt",
        "c.test: /robots.txt was fetched 2 times",
    ]


spans = st.lists(
    st.tuples(st.floats(0, 50), st.floats(0.01, 10)).map(lambda span: (span[0], span[0] + span[1])),
    max_size=25,
)


@given(spans)
def test_overlaps_equals_the_count_over_all_pairs(times: list[tuple[float, float]]) -> None:
    requests = [seen(*span) for span in times]
    expected = sum(max(one[0], two[0]) < min(one[1], two[1]) for one, two in combinations(times, 2))
    assert overlaps(requests, "a.test") == expected
    assert (max_in_flight(requests) <= 1) == (expected == 0)


@given(spans, st.floats(0.1, 5))
def test_no_violation_means_every_pair_is_apart(times: list[tuple[float, float]], delay_s: float) -> None:
    requests = [seen(*span) for span in times]
    apart = all(
        later[0] - earlier[1] >= delay_s for earlier, later in pairwise(sorted(times))
    )  # of neighbours is enough: ends then rise with beginnings
    assert (violations(requests, delay_s, tolerance_s=0) == []) == apart


def test_a_record_counts_what_is_under_way() -> None:
    record = Record()

    def begin(host: str) -> Seen:
        return record.begin(
            host=host,
            target="/",
            method="GET",
            headers=(),
            address="127.0.0.1",
            connection=1,
            nth=1,
            began_at=0.0,
        )

    one, other, third = begin("a.test"), begin("a.test"), begin("b.test")
    assert [(each.in_flight, each.in_flight_host) for each in (one, other, third)] == [(1, 1), (2, 2), (3, 1)]
    record.end(one, status=200)
    first_end = one.ended_at
    record.end(one, status=0, aborted=True)
    assert (one.ended_at, one.status, one.aborted) == (first_end, 200, False)
    assert begin("a.test").in_flight_host == 2
    record.clear()
    assert one not in record.snapshot()
    assert other in record.snapshot()
