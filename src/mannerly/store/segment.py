"""Reads the frames of one segment, past any damage."""

from __future__ import annotations

import os
from typing import BinaryIO, Final

import msgspec

from mannerly.model.errors import StateDamaged
from mannerly.model.frame import PageFrame
from mannerly.ports import Damage, Position
from mannerly.store import frames

_SEARCH_BYTES: Final = 1 << 20
_BLOCK_BYTES: Final = 1 << 12
_decoder = msgspec.msgpack.Decoder(PageFrame)


class SegmentReader:
    """Reads one open segment up to `stop`, an offset that was committed; None: up to its end.

    A file shorter than that is read to its end, and the rest is damage. `damaged` grows as damage is met. Raises
    StateDamaged for a segment of a newer format.
    """

    def __init__(self, file: BinaryIO, number: int, stop: int | None) -> None:
        self._file = file
        self._number = number
        self._size = os.fstat(file.fileno()).st_size
        self.stop = self._size if stop is None else stop
        self.damaged: list[Damage] = []
        head = frames.read_segment_head(self._bytes(0, frames.SEGMENT_HEAD_BYTES), number)
        if head is not None and head.format > frames.FORMAT:
            raise StateDamaged(
                f"segment {number} of the journal has format {head.format}, this mannerly knows {frames.FORMAT}",
                hint="use the newer mannerly that wrote it, or --fresh",
            )

    def read(self, at: Position, found: list[PageFrame], *, most: int, room: int) -> tuple[Position, int]:
        """Add frames from `at` on to `found`, until it holds `most` or `room` bytes are used.

        Returns where to go on, and the bytes used.
        """
        offset = max(at.offset, min(frames.SEGMENT_HEAD_BYTES, self.stop))
        used = 0
        while offset < self.stop and len(found) < most and used < room:
            body, behind = self._frame(offset)
            frame = None if body is None else _decoded(body)
            if frame is None:
                behind = behind if body is not None else self._next_frame(offset + 1)
                self._tell(offset, behind)
            else:
                found.append(frame)
                used += len(body or b"")
            offset = behind
        return Position(self._number, offset), used

    def _tell(self, start: int, end: int) -> None:
        self.damaged.append(Damage(Position(self._number, start), Position(self._number, end)))

    def _frame(self, offset: int) -> tuple[bytes | None, int]:
        """Return the body of the frame that begins at `offset` and where it ends; None if it is damaged or none."""
        head = frames.read_frame_head(self._bytes(offset, frames.HEAD_BYTES), self._number, offset)
        if head is None:
            return None, offset
        start = offset + frames.HEAD_BYTES
        behind = start + head.length
        if behind > min(self.stop, self._size):
            return None, offset
        body = self._bytes(start, head.length)
        return (body if frames.is_whole(body, head, self._number, offset) else None), behind

    def _next_frame(self, start: int) -> int:
        """Return where the first frame at or behind `start` begins whose head is sound; `stop` if there is none."""
        limit = min(self.stop, self._size)
        at = start
        while at < limit:
            chunk = self._bytes(at, min(_SEARCH_BYTES, limit - at))
            i = chunk.find(frames.MAGIC)
            while 0 <= i <= len(chunk) - frames.HEAD_BYTES:
                head = chunk[i : i + frames.HEAD_BYTES]
                if frames.read_frame_head(head, self._number, at + i):
                    return at + i
                i = chunk.find(frames.MAGIC, i + 1)
            # a head that the chunk cuts is looked at with the next; what the disk cannot read is passed by blocks
            at += (
                len(chunk) - frames.HEAD_BYTES + 1
                if len(chunk) == _SEARCH_BYTES
                else len(chunk) or _BLOCK_BYTES
            )
        return self.stop

    def _bytes(self, offset: int, size: int) -> bytes:
        """Return up to `size` bytes from `offset`; fewer at the end of the file, or where the disk cannot read."""
        try:
            self._file.seek(offset)
            return self._file.read(size)
        except OSError:
            return b""


def _decoded(body: bytes) -> PageFrame | None:
    try:
        return _decoder.decode(body)
    except (msgspec.MsgspecError, RecursionError):
        return None
