from __future__ import annotations

import pytest

from mannerly.clock import Clock, SystemClock
from mannerly.testing import ManualClock


def test_time_passes_on_both_readings() -> None:
    clock = ManualClock(now=100.0, monotonic=5.0)
    clock.advance(2.5)
    assert (clock.now(), clock.monotonic()) == (102.5, 7.5)


def test_a_step_of_the_wall_clock_leaves_monotonic_time_alone() -> None:
    clock = ManualClock(now=100.0, monotonic=5.0)
    clock.step(-3_600.0)
    assert (clock.now(), clock.monotonic()) == (-3_500.0, 5.0)


def test_time_does_not_pass_backwards() -> None:
    clock = ManualClock()
    with pytest.raises(ValueError, match="-1 s"):
        clock.advance(-1)


def test_both_clocks_satisfy_the_protocol() -> None:
    clocks: list[Clock] = [SystemClock(), ManualClock()]
    for clock in clocks:
        assert clock.monotonic() <= clock.monotonic()
        assert clock.now() > 0
