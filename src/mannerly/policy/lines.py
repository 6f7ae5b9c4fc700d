"""Who waits for a place in an address group: a line for each group, first come, first served. Pure.

A place that becomes free is offered to the first in line: the host is *on turn* until it is heard of again. If it goes
without taking the place (it waits for its own delay, for robots.txt, for its name), the turn passes to the next: nobody
else would tell those behind it that a place is free. If the group turns it down once more it stands where it stood.
"""

from __future__ import annotations

from mannerly.policy.due import DueQueue


class GroupLines:
    """The lines of all groups. A host, by its name, stands in one line, or is on turn for one group, or neither.

    Each step is O(log n) amortised for n hosts in a line.
    """

    def __init__(self) -> None:
        self._lines: dict[str, DueQueue[str]] = {}
        self._standing: dict[str, tuple[str, int]] = {}
        self._on_turn: dict[str, tuple[str, int]] = {}
        self._tickets = 0

    def __len__(self) -> int:
        return len(self._standing)

    def __repr__(self) -> str:
        return f"<GroupLines {len(self)} hosts in {len(self._lines)} lines, {len(self._on_turn)} on turn>"

    def first(self, group: str) -> str | None:
        """Return the host that has waited longest for the group, None if none waits."""
        line = self._lines.get(group)
        found = line.earliest() if line is not None else None
        return found[1] if found is not None else None

    def call(self, name: str) -> None:
        """Offer a host in line a place: it is on turn. One that stands in no line is not concerned."""
        place = self._standing.get(name)
        if place is not None:
            self.leave(name)
            self._on_turn[name] = place

    def leave(self, name: str) -> None:
        """Let a host leave its line, if it stands in one."""
        place = self._standing.pop(name, None)
        if place is not None:
            line = self._lines[place[0]]
            line.discard(name)
            if not line:
                del self._lines[place[0]]

    def stand(self, name: str, group: str) -> str:
        """Put a host that is in no line into that of `group` ('' for none), where it stood if it was on turn for it.

        Return the group for which its turn is over without having been turned down by it, '' if there is none.
        """
        turn, ticket = self._on_turn.pop(name, ("", 0))
        if group:
            if turn != group:
                self._tickets += 1
                ticket = self._tickets
            self._standing[name] = (group, ticket)
            self._lines.setdefault(group, DueQueue()).set(name, ticket)
        return turn if turn != group else ""
