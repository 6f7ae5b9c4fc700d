"""The append-only page log in a folder: `NNNNNN.pages`, fsynced before a transaction may know of it.

A frame lies whole in one segment. Readers go by positions that were committed, so they never see a frame that is
being written; damage is skipped to the next frame that passes its checks, and told.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from mannerly.model.errors import DiskFull, StateDamaged
from mannerly.model.frame import PageFrame
from mannerly.ports import Damage, Position
from mannerly.store import frames
from mannerly.store.segment import SegmentReader

SEGMENT_BYTES: Final = 256 << 20
MAX_BYTES: Final = 50 << 30
MIN_FREE_BYTES: Final = 2 << 30
READ_BYTES: Final = 32 << 20
"""A read ends after the frame that passes this many bytes: a settle batch, and as much as one costs in memory."""

_NAME: Final = re.compile(r"(\d{6,})\.pages")
_NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class FileJournal:
    """`Journal` on a folder, which is made if missing. One process writes; any may read what was committed."""

    def __init__(
        self,
        folder: str | Path,
        *,
        segment_bytes: int = SEGMENT_BYTES,
        max_bytes: int = MAX_BYTES,
        min_free_bytes: int = MIN_FREE_BYTES,
    ) -> None:
        self._folder = Path(folder)
        self._segment_bytes = segment_bytes
        self._max_bytes = max_bytes
        self._min_free_bytes = min_free_bytes
        self._encode = msgspec.msgpack.Encoder().encode
        self._fd = -1
        self._damaged: deque[Damage] = deque()  # filled by a reading thread, emptied by another
        with _translated(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
            self._sizes = {n: self._path(n).stat().st_size for n in self._numbers()}

    def __repr__(self) -> str:
        end = self.end
        return f"<FileJournal {self._folder} end {end.segment}:{end.offset}, {self.nbytes} bytes>"

    @property
    def end(self) -> Position:
        """Where the next frame goes; the start of the first segment if there is none."""
        last = max(self._sizes, default=0)
        return Position(last, self._sizes[last]) if last else Position()

    @property
    def nbytes(self) -> int:
        """Bytes of all segments kept."""
        return sum(list(self._sizes.values()))

    def append(self, frames_: Sequence[PageFrame]) -> list[Position]:
        """See `Journal.append`."""
        before = self.end
        try:
            with _translated(self._folder):
                return self._append(frames_)
        except BaseException:
            with suppress(OSError):  # what could not be cut now is cut by `cut` at the next start
                self._cut(before)
            raise

    def _append(self, frames_: Sequence[PageFrame]) -> list[Position]:
        positions: list[Position] = []
        buffer = bytearray()
        for frame in frames_:
            body = self._encode(frame)
            place = self._room_for(frames.HEAD_BYTES + len(body), buffer)
            buffer += frames.frame_head(body, place.segment, place.offset)
            buffer += body
            positions.append(place)
        self._flush(buffer)
        return positions

    def _room_for(self, size: int, buffer: bytearray) -> Position:
        """Return where a frame of `size` bytes goes behind `buffer`, in a new segment if this one is full."""
        end = self.end
        offset = end.offset + len(buffer)
        if self._sizes and (offset + size <= self._segment_bytes or offset <= frames.SEGMENT_HEAD_BYTES):
            return Position(end.segment, offset)
        self._flush(buffer)
        buffer.clear()
        last = max(self._sizes, default=0)
        self._begin(last + 1, self._sizes.get(last, 0))
        return self.end

    def _begin(self, number: int, size_before: int) -> None:
        """Make segment `number`, empty but for its head, known to the disk under its name."""
        self._close_segment()
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        self._fd = os.open(self._path(number), flags, 0o644)
        self._sizes[number] = 0
        self._flush(frames.segment_head(number, size_before))
        _sync_folder(self._folder)

    def _flush(self, data: bytes | bytearray) -> None:
        """Write at the end of the last segment and wait until the disk has it."""
        if not data:
            return
        last = max(self._sizes)
        if self._fd < 0:
            self._fd = os.open(self._path(last), os.O_RDWR | os.O_CLOEXEC)
        offset, view = self._sizes[last], memoryview(data)
        while view:
            written = os.pwrite(self._fd, view, offset)
            offset, view = offset + written, view[written:]
        _sync(self._fd)
        self._sizes[last] = offset

    def cut(self, position: Position) -> None:
        """See `Journal.cut`."""
        with _translated(self._folder):
            self._cut(position)
            if self.end < position:
                self._go_on_behind(position)

    def _go_on_behind(self, lost: Position) -> None:
        """Begin a segment behind what transactions know of and the disk has lost; `read` tells the gap as damage.

        An empty first segment stands in for a journal that is gone altogether: `read` takes what lies before the
        oldest segment for dropped on purpose.
        """
        if not self._sizes:
            self._path(1).touch()
            self._sizes[1] = 0
        self._begin(lost.segment + 1, lost.offset)

    def _cut(self, position: Position) -> None:
        self._close_segment()
        for number in sorted(self._sizes, reverse=True):
            if number > position.segment or (number == position.segment and position.offset == 0):
                self._path(number).unlink(missing_ok=True)
                del self._sizes[number]
        if position.segment in self._sizes:
            self._shorten(position)
        _sync_folder(self._folder)

    def _shorten(self, position: Position) -> None:
        fd = os.open(self._path(position.segment), os.O_RDWR | os.O_CLOEXEC)
        try:
            size = os.fstat(fd).st_size
            if size > position.offset:
                os.ftruncate(fd, position.offset)
                _sync(fd)
            self._sizes[position.segment] = min(size, position.offset)
        finally:
            os.close(fd)

    def full(self) -> bool:
        """See `Journal.full`."""
        if self.nbytes >= self._max_bytes:
            return True
        with _translated(self._folder):
            return shutil.disk_usage(self._folder).free < self._min_free_bytes

    def read(self, start: Position, end: Position, *, most: int = 1_000) -> tuple[list[PageFrame], Position]:
        """See `Journal.read`."""
        with _translated(self._folder):
            return self._read(start, end, most)

    def _read(self, start: Position, end: Position, most: int) -> tuple[list[PageFrame], Position]:
        numbers = self._numbers()
        oldest = min(numbers, default=end.segment)
        at = max(start, Position(oldest, 0))
        found: list[PageFrame] = []
        room = READ_BYTES
        while at < end and len(found) < most and room > 0:
            stop = end.offset if at.segment == end.segment else None
            with self._opened(at.segment) as file:
                if file is None:
                    present = min((n for n in numbers if n > at.segment), default=end.segment + 1)
                    at = self._missing(at, min(Position(present, 0), end))
                    continue
                reader = SegmentReader(file, at.segment, stop)
                at, taken = reader.read(at, found, most=most, room=room)
                room -= taken
                self._damaged.extend(reader.damaged)
            if at.offset >= reader.stop and at.segment < end.segment:
                at = self._next_segment(at)
        return found, min(max(at, start), end)

    def _missing(self, at: Position, behind: Position) -> Position:
        """Tell segments that are not there as one stretch of damage, and go on behind it."""
        self._damaged.append(Damage(at, behind))
        return behind

    def _next_segment(self, at: Position) -> Position:
        """Go on to the next segment. The rest of this one is damage if that remembers it longer, or cannot say."""
        behind = Position(at.segment + 1, 0)
        with self._opened(behind.segment) as file:
            head = file and frames.read_segment_head(file.read(frames.SEGMENT_HEAD_BYTES), behind.segment)
        if not head or head.size_before > at.offset:
            self._damaged.append(Damage(at, behind))
        return behind

    @contextmanager
    def _opened(self, number: int) -> Iterator[BinaryIO | None]:
        try:
            file = self._path(number).open("rb")
        except FileNotFoundError:
            yield None
            return
        with file:
            yield file

    def damaged(self) -> list[Damage]:
        """See `Journal.damaged`."""
        return [self._damaged.popleft() for _ in range(len(self._damaged))]

    def drop_before(self, position: Position) -> None:
        """See `Journal.drop_before`. The last segment stays, whatever the position."""
        with _translated(self._folder):
            for number in sorted(self._sizes)[:-1]:
                if number < position.segment:
                    self._path(number).unlink(missing_ok=True)
                    del self._sizes[number]

    def close(self) -> None:
        """See `Journal.close`."""
        self._close_segment()

    def _close_segment(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:06}.pages"

    def _numbers(self) -> list[int]:
        matches = (_NAME.fullmatch(entry.name) for entry in self._folder.iterdir())
        return sorted(int(match[1]) for match in matches if match)


def _disk_sync() -> Callable[[int], None]:
    full_sync = getattr(fcntl, "F_FULLFSYNC", None)
    if full_sync is None:
        return getattr(os, "fdatasync", os.fsync)

    def sync(fd: int) -> None:
        fcntl.fcntl(fd, full_sync)  # on macOS fsync leaves the data in the drive's cache

    return sync


_sync: Final = _disk_sync()


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


@contextmanager
def _translated(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in _NO_SPACE:
            raise DiskFull(
                f"no space is left for the journal in {folder}",
                hint="make space and run the same command again: nothing that was settled is lost",
            ) from error
        raise StateDamaged(
            f"the journal in {folder} cannot be read or written: {error.strerror}",
            hint="check the folder's owner, mode, and disk",
        ) from error
