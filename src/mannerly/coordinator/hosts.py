"""The hosts that are worked on: facts of the row, and the queue of the frontier."""

from __future__ import annotations

from dataclasses import dataclass, field

from mannerly.model.host import Addresses, HostRecord, Pace, QueueState, WaitCause
from mannerly.model.verdict import Reason
from mannerly.policy.frontier import HostQueue
from mannerly.ports import HostChange, Waiting


@dataclass(frozen=True, slots=True)
class RobotsStep:
    """One hop of asking for an origin's robots.txt: a prerequisite of that origin's URLs.

    origin: whose rules. url: what to ask now, another URL after a redirect. hops: redirects followed so far. repeats:
    times that nobody knows what came of it.
    """

    origin: str
    url: str
    hops: int = 0
    repeats: int = 0


@dataclass(slots=True)
class ActiveHost:
    """A host in the bounded active set. Mutable; touched by the coordinator's one loop alone.

    more: the store may hold URLs that are not in the window. loading: a window is being read. blocked: a ruleset is
    asked for or read. resolving: its name is asked for. dirty: there are facts that no transaction holds yet. ending:
    why each URL of it is settled without a request (its name does not exist, say). next_ok_at: UTC, open_at: the same
    instant on the monotonic clock. next_due_at: UTC, when the first delayed URL falls due. address_index: which of the
    addresses is tried next. dns_failures: failures in a row. guest: here for a robots.txt redirect alone, beyond the
    bound of the set, so none of its own URLs is read.
    """

    name: str
    id: int
    queue: HostQueue[Waiting, RobotsStep]
    seed: bool = False
    pace: Pace = field(default_factory=Pace)
    addresses: Addresses = field(default_factory=Addresses)
    next_ok_at: float = 0.0
    cause: WaitCause = WaitCause.DELAY
    open_at: float = 0.0
    contacted_at: float = 0.0
    more: bool = True
    loading: bool = False
    blocked: bool = False
    resolving: bool = False
    dirty: bool = False
    next_due_at: float | None = None
    address_index: int = 0
    dns_failures: int = 0
    unanswered: int = 0
    guest: bool = False
    ending: Reason | None = None
    ending_detail: str = ""
    reason: Reason | None = None
    detail: str = ""
    stored_state: QueueState = QueueState.READY

    @classmethod
    def of(cls, record: HostRecord) -> ActiveHost:
        """Return the host of a row, its window empty."""
        return cls(
            name=record.name,
            id=record.id,
            queue=HostQueue(record),
            seed=record.seed,
            pace=record.pace,
            addresses=record.addresses,
            next_ok_at=record.next_ok_at,
            cause=record.cause,
            contacted_at=record.contacted_at,
            more=record.waiting > 0,
            stored_state=record.state,
            reason=record.reason,
            detail=record.detail,
        )

    def change(self) -> HostChange:
        """Return what a transaction is to hold of the host now."""
        return HostChange(
            name=self.name,
            state=self.stored_state,
            next_ok_at=self.next_ok_at,
            cause=self.cause,
            pace=self.pace,
            addresses=self.addresses,
            contacted_at=self.contacted_at,
            reason=self.reason,
            detail=self.detail,
        )
