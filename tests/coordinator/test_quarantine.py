"""Which of the pages that were out with a dead worker ends `kills-worker`: the one it dies of twice while alone with it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mannerly.coordinator import quarantine
from mannerly.coordinator.quarantine import DEATHS, Quarantine
from mannerly.model.result import Expired, Failed, Failure, Fetched, NotModified, Outcome, Page, Unknown

URL = "http://a.test/"
DIED = Unknown("the worker ended with code -11", died=True)


def test_two_deaths_while_alone_end_it() -> None:
    wards = Quarantine()
    assert wards.judge(URL, DIED, alone=False) == DIED
    assert URL in wards
    assert wards.judge(URL, DIED, alone=True) == DIED
    assert URL in wards
    assert wards.judge(URL, DIED, alone=True) == Failed(
        Failure.KILLS_WORKER, detail="the worker ended with code -11, 2 times while alone with it"
    )
    # a page is not asked for again; a robots.txt is, and alone from the start
    assert URL in wards
    assert wards.judge(URL, DIED, alone=True) == DIED
    assert isinstance(wards.judge(URL, DIED, alone=True), Failed)


def test_deaths_beside_others_never_end_it() -> None:
    wards = Quarantine()
    for _ in range(10):
        assert wards.judge(URL, DIED, alone=False) == DIED


@pytest.mark.parametrize("outcome", [Fetched(Page(200)), NotModified(), Failed(Failure.TIMEOUT), Expired()])
def test_what_comes_back_is_out_of_quarantine_and_unchanged(outcome: Outcome) -> None:
    wards = Quarantine()
    for alone in (False, True):
        wards.judge(URL, DIED, alone=alone)
    assert wards.judge(URL, outcome, alone=True) == outcome
    assert URL not in wards
    assert wards.judge(URL, DIED, alone=False) == DIED
    assert wards.judge(URL, DIED, alone=True) == DIED


def test_an_end_that_nobody_knows_says_nothing() -> None:
    wards = Quarantine()
    assert wards.judge(URL, Unknown("lost"), alone=False) == Unknown("lost")
    assert URL not in wards
    wards.judge(URL, DIED, alone=True)
    wards.judge(URL, Unknown("lost"), alone=True)
    assert isinstance(wards.judge(URL, DIED, alone=True), Failed)


@given(st.lists(st.tuples(st.integers(1, 4), st.booleans(), st.booleans()), max_size=40))
def test_a_url_ends_only_by_its_own_deaths_alone_in_a_row(steps: list[tuple[int, bool, bool]]) -> None:
    wards, counted = Quarantine(), dict.fromkeys(range(1, 5), 0)
    for number, died, alone in steps:
        outcome = DIED if died else Fetched(Page(200))
        counted[number] = counted[number] + alone if died else 0
        judged = wards.judge(str(number), outcome, alone=alone)
        assert isinstance(judged, Failed) is (counted[number] >= DEATHS)
        if isinstance(judged, Failed):
            counted[number] = 0


def test_i9_no_more_than_a_bound_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quarantine, "MOST", 3)
    wards = Quarantine()
    for number in range(5):
        wards.judge(str(number), DIED, alone=False)
    assert [str(number) in wards for number in range(5)] == [False, False, True, True, True]
