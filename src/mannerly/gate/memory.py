"""The host gate of one coordinator, in memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from threading import Lock

from mannerly.clock import Clock
from mannerly.policy.due import DueQueue
from mannerly.ports import Claim, Permit, Wait

# Idle entries looked at in one call: more than a call can make, so that they never pile up, yet a bounded step.
_SWEPT_A_CALL = 8


@dataclass(slots=True)
class _Entry:
    """Who is out under one key, each with the instant at which the place is free if never given back; `ok_at`: the
    next start."""

    ok_at: float
    out: dict[int, float] = field(default_factory=dict)


class _Places:
    """The entries of one kind of key, hosts or address groups. Not safe for threads: the gate's lock is held."""

    __slots__ = ("_due", "_entries", "out")

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}
        self._due: DueQueue[str] = DueQueue()
        self.out = 0

    def __len__(self) -> int:
        return len(self._entries)

    def opens_at(self, key: str, most: int, now: float) -> float:
        """Return when to ask again, `now` if a start is free; a key never seen is free. Makes no entry."""
        entry = self._entries.get(key)
        if entry is None:
            return now
        self._free_lost(entry, now)
        full_until = min(entry.out.values()) if len(entry.out) >= most else now
        return max(now, entry.ok_at, full_until)

    def take(self, key: str, permit_id: int, *, frees_at: float, ok_at: float) -> None:
        """Put a permit out; the next start is at `ok_at` or later."""
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = _Entry(ok_at)
        entry.ok_at = max(entry.ok_at, ok_at)
        entry.out[permit_id] = frees_at
        self.out += 1
        self._schedule(key, entry)

    def give_back(self, permit: Permit, key: str, *, now: float, ok_at: float) -> float:
        """Take a permit back and return the instant of the next start; one that is not out changes nothing."""
        entry = self._entries.get(key)
        if entry is None:
            return now
        frees_at = entry.out.pop(permit.id, None)
        if frees_at is not None:
            self.out -= 1
            late = now > permit.lease_until
            entry.ok_at = max(entry.ok_at, ok_at, frees_at if late else ok_at)
            self._schedule(key, entry)
        return max(now, entry.ok_at)

    def close(self, key: str, until: float) -> None:
        """Let nothing start before `until`."""
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = _Entry(until)
        entry.ok_at = max(entry.ok_at, until)
        self._schedule(key, entry)

    def sweep(self, now: float, *, most: int | None) -> None:
        """Drop entries that say nothing any more, and free permits that were lost."""
        for key in self._due.pop_due(now, most=most):
            entry = self._entries[key]
            self._free_lost(entry, now)
            if entry.out or entry.ok_at > now:
                self._schedule(key, entry)
            else:
                del self._entries[key]

    def _free_lost(self, entry: _Entry, now: float) -> None:
        for permit_id in [i for i, frees_at in entry.out.items() if frees_at <= now]:
            del entry.out[permit_id]
            self.out -= 1

    def _schedule(self, key: str, entry: _Entry) -> None:
        self._due.set(key, min(entry.out.values()) if entry.out else entry.ok_at)


class MemoryGate:
    """`HostGate` for one process, on the clock's monotonic time. Any number of threads may call at once.

    A step of one lock decides and reserves. A call takes O(log n) for n entries. An entry is kept while a permit is
    out under it or its next start lies ahead; each call drops a few whose time has passed, so that memory follows the
    hosts in use and not the hosts ever seen.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = Lock()
        self._ids = count(1)
        self._hosts = _Places()
        self._groups = _Places()

    @property
    def entries(self) -> int:
        """Entries held now, of hosts and groups."""
        with self._lock:
            return len(self._hosts) + len(self._groups)

    def __repr__(self) -> str:
        return f"<MemoryGate {self._hosts.out} permits out, {len(self._hosts)} hosts, {len(self._groups)} groups>"

    async def claim(self, claim: Claim) -> Permit | Wait:
        """Decide and reserve in one step."""
        with self._lock:
            now = self._clock.monotonic()
            self._sweep(now)
            if (until := self._hosts.opens_at(claim.host, claim.per_host, now)) > now:
                return Wait(until)
            if claim.group and (until := self._groups.opens_at(claim.group, claim.per_group, now)) > now:
                return Wait(until, claim.group)
            return self._reserve(claim, now)

    async def release(self, permit: Permit, *, delay_s: float) -> float:
        """Give a permit back: the response ended now; return the instant at which the host opens.

        After the lease ended the host still opens no earlier than it would have unreturned. A permit that is not out
        any more changes nothing.
        """
        with self._lock:
            now = self._clock.monotonic()
            self._sweep(now)
            if permit.group:
                self._groups.give_back(permit, permit.group, now=now, ok_at=now)
            return self._hosts.give_back(permit, permit.host, now=now, ok_at=now + delay_s)

    async def hold(self, host: str, *, for_s: float) -> None:
        """Close a host for `for_s` seconds from now; never shortens a wait in force."""
        with self._lock:
            now = self._clock.monotonic()
            self._sweep(now)
            self._hosts.close(host, now + for_s)

    async def in_flight(self) -> int:
        """Return how many permits are out, without those whose lease and delay have passed."""
        with self._lock:
            self._hosts.sweep(self._clock.monotonic(), most=None)
            return self._hosts.out

    def _reserve(self, claim: Claim, now: float) -> Permit:
        permit = Permit(next(self._ids), claim.host, claim.group, claim.address, now + claim.lease_s)
        frees_at = permit.lease_until + claim.delay_s
        self._hosts.take(claim.host, permit.id, frees_at=frees_at, ok_at=now)
        if claim.group:
            self._groups.take(claim.group, permit.id, frees_at=frees_at, ok_at=now + claim.group_spacing_s)
        return permit

    def _sweep(self, now: float) -> None:
        self._hosts.sweep(now, most=_SWEPT_A_CALL)
        self._groups.sweep(now, most=_SWEPT_A_CALL)
