"""Keys in the order in which they fall due: one structure for the frontier's snoozed hosts and the gate's entries.

Time is an argument; nothing here waits.
"""

from __future__ import annotations

from collections.abc import Hashable
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

# below this many stale places a heap is not worth rebuilding
_SLACK = 64


class DueQueue(Generic[K]):
    """Each key at most once, with the instant at which it falls due; keys of one instant keep the order of setting.

    A key set anew leaves a stale place in the heap. Once more than half the places are stale the heap is rebuilt, so
    `set` is O(log n) amortised and memory stays in proportion to the number of keys.
    """

    __slots__ = ("_heap", "_places", "_turn")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, K]] = []
        self._places: dict[K, tuple[float, int, K]] = {}
        self._turn = 0

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, key: object) -> bool:
        return key in self._places

    def __repr__(self) -> str:
        return f"<DueQueue {len(self)} keys, {len(self._heap)} places, earliest {self.earliest()}>"

    def set(self, key: K, due_at: float) -> None:
        """Let `key` fall due at `due_at`, whatever was set before."""
        self._turn += 1
        place = (due_at, self._turn, key)
        self._places[key] = place
        heappush(self._heap, place)
        if len(self._heap) > 2 * len(self._places) + _SLACK:
            self._heap = list(self._places.values())
            heapify(self._heap)

    def discard(self, key: K) -> None:
        """Forget `key` if it is there."""
        self._places.pop(key, None)

    def earliest(self) -> tuple[float, K] | None:
        """Return the instant and the key that falls due first, or None if there is no key."""
        heap = self._heap
        while heap:
            due_at, _, key = place = heap[0]
            if self._places.get(key) is place:
                return due_at, key
            heappop(heap)
        return None

    def pop_due(self, now: float, *, most: int | None = None) -> list[K]:
        """Take out and return the keys due at `now` or before, earliest first, at most `most` of them."""
        due: list[K] = []
        heap = self._heap
        while heap and heap[0][0] <= now and len(due) != most:
            place = heappop(heap)
            key = place[2]
            if self._places.get(key) is place:
                del self._places[key]
                due.append(key)
        return due
