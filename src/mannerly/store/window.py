"""The next URLs of a host, out of any number: due delayed ones, then every band's share, templates in turn.

The order inside a host (design 7): bands ascending; inside a band one URL of each template, round after round;
inside a template depth, then age. Each query is a short range of an index, so a host of ten million URLs answers
like one of ten. A window holds URLs of every band that has some, by the weights of the draw that will be made from
it (8:4:2:1); what a band does not use goes to the highest that has more. At most TEMPLATES_A_CALL templates of a band
take part in one window; the next window begins after the last one served, so all get their turn.
"""

from __future__ import annotations

import sqlite3
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from mannerly.ports import Window
from mannerly.store import rows

BAND_WEIGHTS: Final = (8, 4, 2, 1)
TEMPLATES_A_CALL: Final = 64
TURNS_REMEMBERED: Final = 20_000

_NEXT_BAND = "SELECT band FROM url WHERE host_id = ? AND band > ? AND state = 0 ORDER BY band LIMIT 1"
_NEXT_TEMPLATE = "SELECT template FROM url WHERE host_id = ? AND band = ? AND template > ? AND state = 0 ORDER BY template LIMIT 1"
_OF_TEMPLATE = (
    "SELECT depth, seq, hash FROM url WHERE host_id = ? AND band = ? AND template = ? AND state = 0 "
    "AND (depth, seq) > (?, ?) ORDER BY depth, seq LIMIT ?"
)
_DELAYED = "SELECT hash, due_at FROM url WHERE host_id = ? AND state = 1 ORDER BY due_at"
_BEFORE_ALL: Final = -(1 << 63)  # the least number a column holds


@dataclass(frozen=True, slots=True)
class _Found:
    """URLs of one band in order, as hashes; the templates of the first round; whether the band has more."""

    hashes: list[int]
    templates: list[int]
    more: bool


class WindowReader:
    """Reads windows over one connection. Remembers in memory, for a bounded number of hosts, whose turn is next."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._turns: OrderedDict[tuple[int, int], int] = OrderedDict()

    def read(self, host_id: int, *, limit: int, now: float, exclude: frozenset[int]) -> Window:
        """See `StateStore.window`."""
        left_out = {rows.signed(hash_) for hash_ in exclude}
        due, more_due, next_due_at = self._due(host_id, now, left_out, limit)
        bands = {band: self._band(host_id, band, limit, left_out) for band in self._bands(host_id)}
        available = {band: len(found.hashes) for band, found in bands.items()}
        # half for those that are due, all of it if nothing else waits
        room = limit - min(len(due), -(-limit // 2) if any(available.values()) else limit)
        shares = share(available, room)
        chosen = [hash_ for band, found in bands.items() for hash_ in found.hashes[: shares[band]]]
        first = due[: limit - len(chosen)]
        for band, found in bands.items():
            self._pass_turn(host_id, band, found.templates[: shares[band]])
        more = (
            more_due
            or any(found.more for found in bands.values())
            or len(first) + len(chosen) < len(due) + sum(available.values())
        )
        urls = [rows.waiting(self._row(host_id, hash_)) for hash_ in (*first, *chosen)]
        return Window(urls, None if urls or more else next_due_at, more)

    def _row(self, host_id: int, hash_: int) -> tuple[object, ...]:
        row: tuple[object, ...] = self._connection.execute(rows.WAITING_QUERY, (host_id, hash_)).fetchone()
        return row

    def _due(
        self, host_id: int, now: float, left_out: set[int], limit: int
    ) -> tuple[list[int], bool, float | None]:
        """Return the delayed URLs that are due, whether there are more, and when the next one is due if not."""
        hashes: list[int] = []
        for hash_, due_at in self._connection.execute(_DELAYED, (host_id,)):
            if hash_ in left_out:
                continue
            if due_at > now:
                return hashes, False, due_at
            if len(hashes) == limit:
                return hashes, True, None
            hashes.append(hash_)
        return hashes, False, None

    def _bands(self, host_id: int) -> Iterator[int]:
        band = -1
        while row := self._connection.execute(_NEXT_BAND, (host_id, band)).fetchone():
            band = row[0]
            yield band

    def _band(self, host_id: int, band: int, limit: int, left_out: set[int]) -> _Found:
        """Return up to `limit` URLs of a band, templates in turn from the one whose turn it is."""
        ids, complete = self._templates(host_id, band, left_out)
        chunk = max(4, limit // max(1, len(ids)) + 1)
        queues = [self._of_template(host_id, band, id_, left_out, chunk) for id_ in ids]
        hashes = list(islice(in_turn(queues), limit + 1))
        return _Found(hashes[:limit], ids, more=len(hashes) > limit or not complete)

    def _templates(self, host_id: int, band: int, left_out: set[int]) -> tuple[list[int], bool]:
        """Return the templates whose turn it is that have a URL to give, and whether these are all there are.

        A template all of whose URLs are left out is passed over; there are no more of those than URLs left out.
        """
        start = self._turns.get((host_id, band), _BEFORE_ALL)
        ids: list[int] = []
        for id_ in self._templates_from(host_id, band, start):
            if len(ids) == TEMPLATES_A_CALL:
                return ids, False
            if not left_out or next(self._of_template(host_id, band, id_, left_out, 1), None) is not None:
                ids.append(id_)
        return ids, True

    def _templates_from(self, host_id: int, band: int, start: int) -> Iterator[int]:
        """Yield each template of the band once: those after `start`, then those up to it."""
        template = start
        while row := self._connection.execute(_NEXT_TEMPLATE, (host_id, band, template)).fetchone():
            template = row[0]
            yield template
        template = _BEFORE_ALL
        while row := self._connection.execute(_NEXT_TEMPLATE, (host_id, band, template)).fetchone():
            template = row[0]
            if template > start:
                return
            yield template

    def _of_template(
        self, host_id: int, band: int, template: int, left_out: set[int], chunk: int
    ) -> Iterator[int]:
        depth, seq = -1, -1
        while True:
            found = self._connection.execute(
                _OF_TEMPLATE, (host_id, band, template, depth, seq, chunk)
            ).fetchall()
            yield from (row[2] for row in found if row[2] not in left_out)
            if len(found) < chunk:
                return
            depth, seq = found[-1][0], found[-1][1]
            chunk = min(2 * chunk, 256)

    def _pass_turn(self, host_id: int, band: int, served: list[int]) -> None:
        """Let the next window begin after the last of the templates served."""
        if not served:
            return
        self._turns[host_id, band] = served[-1]
        self._turns.move_to_end((host_id, band))
        while len(self._turns) > TURNS_REMEMBERED:
            self._turns.popitem(last=False)


def in_turn(queues: Sequence[Iterator[int]]) -> Iterator[int]:
    """Yield one of each queue, round after round, until all are empty."""
    while queues:
        unfinished = []
        for queue in queues:
            for hash_ in islice(queue, 1):
                yield hash_
                unfinished.append(queue)
        queues = unfinished


def share(available: Mapping[int, int], room: int) -> dict[int, int]:
    """Return how many of `room` places each band gets, none more than the URLs it has available.

    `available` has the bands in ascending order. Each that has some gets its part by weight, at least one while there
    is room; the rest goes to the first band that has more.
    """
    weights = {band: BAND_WEIGHTS[min(band, len(BAND_WEIGHTS) - 1)] for band, n in available.items() if n}
    whole = sum(weights.values())
    shares = dict.fromkeys(available, 0)
    left = room
    for band, weight in weights.items():
        shares[band] = min(available[band], max(1, room * weight // whole), left)
        left -= shares[band]
    for band, n in available.items():
        more = min(n - shares[band], left)
        shares[band] += more
        left -= more
    return shares
