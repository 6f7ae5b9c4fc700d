"""A clock that moves only when a test says so."""

from __future__ import annotations

import threading


class ManualClock:
    """A `mannerly.clock.Clock` for tests: time passes by `advance`, the wall clock is set by `step`.

    Starts at `now` (UTC seconds; the default is 2001-09-09T01:46:40Z, easy to tell from real time) and at
    monotonic 1,000 s. May be read and moved from any thread.
    """

    def __init__(self, *, now: float = 1_000_000_000.0, monotonic: float = 1_000.0) -> None:
        self._now = now
        self._monotonic = monotonic
        self._lock = threading.Lock()

    def now(self) -> float:
        with self._lock:
            return self._now

    def monotonic(self) -> float:
        with self._lock:
            return self._monotonic

    def advance(self, seconds: float) -> None:
        """Let `seconds` pass on both readings. Raises ValueError when they are negative: time does not go back."""
        if seconds < 0:
            raise ValueError(
                f"time cannot pass backwards: {seconds} s (to set the wall clock back, use step)"
            )
        with self._lock:
            self._now += seconds
            self._monotonic += seconds

    def step(self, seconds: float) -> None:
        """Set the wall clock forward or back by `seconds`, as an administrator or NTP does; monotonic stays."""
        with self._lock:
            self._now += seconds

    def __repr__(self) -> str:
        return f"ManualClock(now={self._now}, monotonic={self._monotonic})"
