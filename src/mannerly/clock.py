"""Where instants come from: the two readings that mannerly uses, and nothing else.

Wall time is stored and shown; it may jump when the machine's clock is set. Durations, delays and leases are
measured on monotonic time alone. Decisions (`model`, `policy`, `extract`) are handed readings, never a clock.
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Two readings of time. Both may be taken from any thread."""

    def now(self) -> float:
        """UTC seconds since 1970; may jump either way between two calls."""
        ...

    def monotonic(self) -> float:
        """Seconds since an arbitrary start; never goes back. Comparable within one boot of one machine."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()
