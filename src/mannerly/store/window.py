"""The next URLs of a host, out of any number: due delayed ones, then every band's share, templates in turn.

The order inside a host: bands ascending; inside a band one URL of each template, round after round;
inside a template depth, then age. Each query is a short range of an index, so a host of ten million URLs answers
like one of ten. A window holds URLs of every band that has some, by the weights of the draw that will be made from
it (8:4:2:1); what a band does not use goes to the highest that has more. At most TEMPLATES_A_CALL templates of a band
take part in one window; the next window begins after the last one served, so all get their turn.
"""

from __future__ import annotations

import sqlite3
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from mannerly.policy.bands import BAND_WEIGHTS
from mannerly.ports import Waiting, Window
from mannerly.store import rows

TEMPLATES_A_CALL: Final = 64
TURNS_REMEMBERED: Final = 20_000

_NEXT_BAND = "SELECT band FROM url WHERE host_id = ? AND band > ? AND state = 0 ORDER BY band LIMIT 1"
_NEXT_TEMPLATE = (
    "SELECT template FROM url WHERE host_id = ? AND band = ? AND template > ? AND template <= ? AND state = 0 "
    "ORDER BY template LIMIT 1"
)
_OF_TEMPLATE = rows.WAITING_QUERY + (
    " WHERE u.host_id = ? AND u.band = ? AND u.template = ? AND u.state = 0 AND (u.depth, u.seq) > (?, ?)"
    " ORDER BY u.depth, u.seq LIMIT ?"
)
_DELAYED = rows.WAITING_QUERY + " WHERE u.host_id = ? AND u.state = 1 ORDER BY u.due_at"
_FIRST: Final = -(1 << 63)  # the range of a column
_LAST: Final = (1 << 63) - 1
_CHUNK: Final = 4
_LARGEST_CHUNK: Final = 256


class _Band:
    """The URLs of one band of a host, read as they are taken: templates in turn from the one after `turn`."""

    def __init__(
        self, connection: sqlite3.Connection, host_id: int, band: int, turn: int, left_out: set[int]
    ) -> None:
        self._connection = connection
        self._host_id = host_id
        self._band = band
        self._left_out = left_out
        self._urls = self._in_turn(turn)
        self._capped = False
        self.number = band
        self.turn = turn
        self.taken: list[Waiting] = []

    def take(self, most: int) -> int:
        """Take up to `most` further URLs; return how many. `turn` is then the last template served."""
        before = len(self.taken)
        self.taken.extend(islice(self._urls, most))
        return len(self.taken) - before

    def has_more(self) -> bool:
        """True if there was more to take. Nothing may be taken after."""
        return next(self._urls, None) is not None or self._capped

    def _in_turn(self, start: int) -> Iterator[Waiting]:
        """Yield one URL of each template, round after round. Templates are looked up as the first round goes.

        One whose URLs are all left out is passed over; there are no more of those than URLs left out.
        """
        queues: list[Iterator[Waiting]] = []
        for template in self._templates(start):
            if len(queues) == TEMPLATES_A_CALL:
                self._capped = True
                break
            queue = self._of_template(template)
            for url in islice(queue, 1):
                self.turn = template
                yield url
                queues.append(queue)
        while queues:
            unfinished = []
            for queue in queues:
                for url in islice(queue, 1):
                    yield url
                    unfinished.append(queue)
            queues = unfinished

    def _templates(self, start: int) -> Iterator[int]:
        """Yield each template once: those after `start`, then those up to it."""
        for after, last in ((start, _LAST), (_FIRST, start)):
            template = after
            while row := self._connection.execute(
                _NEXT_TEMPLATE, (self._host_id, self._band, template, last)
            ).fetchone():
                template = row[0]
                yield template

    def _of_template(self, template: int) -> Iterator[Waiting]:
        depth, seq, chunk = -1, -1, _CHUNK
        while True:
            found = self._connection.execute(
                _OF_TEMPLATE, (self._host_id, self._band, template, depth, seq, chunk)
            ).fetchall()
            yield from (rows.waiting(row) for row in found if row[1] not in self._left_out)
            if len(found) < chunk:
                return
            depth, seq = found[-1][6], found[-1][14]
            chunk = min(2 * chunk, _LARGEST_CHUNK)


class WindowReader:
    """Reads windows over one connection. Remembers in memory, for a bounded number of hosts, whose turn is next."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._turns: OrderedDict[tuple[int, int], int] = OrderedDict()

    def read(self, host_id: int, *, limit: int, now: float, exclude: frozenset[int]) -> Window:
        """See `StateStore.window`."""
        left_out = {rows.signed(hash_) for hash_ in exclude}
        due, more_due, next_due_at = self._due(host_id, now, left_out, limit)
        bands = [self._band(host_id, band, left_out) for band in self._bands(host_id)]
        # half for those that are due, all of it if nothing else waits
        room = limit - min(len(due), -(-limit // 2))
        for band, most in zip(bands, share([band.number for band in bands], room), strict=True):
            room -= band.take(most)
        for band in bands:
            room -= band.take(room)
        chosen = [url for band in bands for url in band.taken]
        first = due[: limit - len(chosen)]
        for band in bands:
            self._pass_turn(host_id, band)
        more = more_due or len(first) < len(due) or any(band.has_more() for band in bands)
        urls = [*first, *chosen]
        return Window(urls, None if urls or more else next_due_at, more)

    def _band(self, host_id: int, band: int, left_out: set[int]) -> _Band:
        return _Band(self._connection, host_id, band, self._turns.get((host_id, band), _FIRST), left_out)

    def _due(
        self, host_id: int, now: float, left_out: set[int], limit: int
    ) -> tuple[list[Waiting], bool, float | None]:
        """Return the delayed URLs that are due, whether there are more, and when the next one is due if not."""
        urls: list[Waiting] = []
        for row in self._connection.execute(_DELAYED, (host_id,)):
            if row[1] in left_out:
                continue
            if row[15] > now:
                return urls, False, row[15]
            if len(urls) == limit:
                return urls, True, None
            urls.append(rows.waiting(row))
        return urls, False, None

    def _bands(self, host_id: int) -> Iterator[int]:
        band = -1
        while row := self._connection.execute(_NEXT_BAND, (host_id, band)).fetchone():
            band = row[0]
            yield band

    def _pass_turn(self, host_id: int, band: _Band) -> None:
        """Let the next window begin after the last template served."""
        key = (host_id, band.number)
        self._turns[key] = band.turn
        self._turns.move_to_end(key)
        while len(self._turns) > TURNS_REMEMBERED:
            self._turns.popitem(last=False)


def share(bands: Sequence[int], room: int) -> list[int]:
    """Return how many of `room` places each of the bands gets by its weight: at least one, while there is room.

    What is not shared out, or not used, is for the first band that has more.
    """
    weights = [BAND_WEIGHTS[min(band, len(BAND_WEIGHTS) - 1)] for band in bands]
    shares = []
    left = room
    for weight in weights:
        shares.append(min(left, max(1, room * weight // sum(weights))))
        left -= shares[-1]
    return shares
