"""What is known of a host: its addresses, its pace, the state of its queue."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

from mannerly.model.verdict import Reason


class QueueState(IntEnum):
    """State of a host queue. The transitions stand in `policy.frontier`."""

    READY = 0
    IN_PROCESS = 1
    SNOOZED = 2
    EXHAUSTED = 3
    PARKED = 4
    RETIRED = 5


class WaitCause(IntEnum):
    """Why a host waits. Those from BACKOFF on count against `--patience`; a delay that politeness asks for does not."""

    DELAY = 0
    GROUP = 1
    PREREQUISITE = 2
    BACKOFF = 3
    RETRY_AFTER = 4
    RETRY_SPACING = 5
    ROBOTS_UNREACHABLE = 6
    DNS = 7

    @property
    def counts(self) -> bool:
        """True if the wait counts against the crawl's patience."""
        return self >= WaitCause.BACKOFF


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast a host is asked, and how it fares.

    delay_s: the delay after the last response, without back-off. crawl_delay_s: what robots.txt asks for.
    overloads: n of the back-off formula, 0 to 6. failures: failures in a row, for retirement.
    """

    delay_s: float = 1.0
    crawl_delay_s: float = 0.0
    overloads: int = 0
    failures: int = 0


@dataclass(frozen=True, slots=True)
class Addresses:
    """The addresses of a host that may be dialled, in the order to try, valid until an instant."""

    addresses: tuple[str, ...] = ()
    expires_at: float = 0.0


@dataclass(frozen=True, slots=True)
class HostRecord:
    """A row of the `host` table.

    next_ok_at: no request starts before this instant (UTC), whatever restarts. waiting: URLs stored and not settled.
    stored: URLs ever stored. ready_at: next_ok_at, or when the first is due if all that wait are delayed. `state` is
    READY, PARKED or RETIRED in the store; the others live in memory.
    """

    id: int
    name: str
    seed: bool = False
    state: QueueState = QueueState.READY
    reason: Reason | None = None
    detail: str = ""
    next_ok_at: float = 0.0
    cause: WaitCause = WaitCause.DELAY
    pace: Pace = field(default_factory=Pace)
    addresses: Addresses = field(default_factory=Addresses)
    waiting: int = 0
    stored: int = 0
    pages: int = 0
    contacted_at: float = 0.0
    ready_at: float = 0.0

    @property
    def waits_for(self) -> WaitCause:
        """Why nothing of it is asked for before `ready_at`: where only delayed URLs wait, these and not the host."""
        return WaitCause.RETRY_SPACING if self.ready_at > self.next_ok_at else self.cause
