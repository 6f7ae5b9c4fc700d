"""A file that pages are written to, over any number of runs: each byte exactly once.

Whose the file is stands in the state that `sync` returns and the store keeps: it is stored before the first byte, so
that whatever lies past the stored size is known to be ours, left by a run that died, and may be cut off. `judge`
decides; everything else here carries it out.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from hashlib import blake2b
from pathlib import Path
from typing import Annotated, Final

import msgspec

from mannerly.model.errors import ConfigRefused, DiskFull, MannerlyError, StateDamaged, StateInUse

# Bytes before the stored size that are compared: enough to tell two runs' pages apart, one read.
TAIL_BYTES: Final = 4_096

MAX_OFFSET: Final = (1 << 63) - 1

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_NO_LOCKS: Final = frozenset({errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})
_FOLDER_NOT_SYNCED: Final = frozenset({errno.EINVAL, errno.ENOTSUP, errno.EACCES, errno.EPERM})


class FileState(msgspec.Struct, frozen=True):
    """What is stored of an output file. `tail`: digest of the last `TAIL_BYTES` before `size`; '' for an empty file.

    Device and inode name the file while it is empty. From the first byte on the tail does: a device number may change
    with a reboot, an inode number is given out again, and an edit in place keeps both.
    """

    path: str
    device: int
    inode: int
    size: Annotated[int, msgspec.Meta(ge=0, le=MAX_OFFSET)]
    tail: str
    layout: str
    crawl: str


@dataclass(frozen=True, slots=True)
class Found:
    """The file as it is met. `head`: its first bytes; `tail`: digest of what lies before the stored size."""

    device: int
    inode: int
    size: int
    head: bytes = b""
    tail: str = ""


@dataclass(frozen=True, slots=True)
class Layout:
    """How a sink lays out its file. `name` changes with it (columns, say); `opening`: the file's first bytes."""

    name: str
    opening: bytes


@dataclass(frozen=True, slots=True)
class Leave:
    """What the user allows. overwrite: take a file that is not ours. rewrite: a change of layout may begin the file
    anew, which asks for a journal that still holds every page."""

    overwrite: bool = False
    rewrite: bool = True


class Standing(Enum):
    """What to do with the file: begin it, go on after the stored size, or begin it anew from the first page."""

    BEGIN = "begin"
    GO_ON = "go on"
    ANEW = "anew"


def judge(path: str, stored: FileState | None, found: Found, *, layout: Layout, leave: Leave) -> Standing:
    """Decide whose file this is. Raises ConfigRefused where going on would cut what this crawl did not write.

    A missing file is met as an empty one: it was created a moment ago. So a file that somebody emptied is treated
    like one that somebody deleted, which an inode number could not tell apart anyway.
    """
    if stored is None:
        if found.size == 0 or leave.overwrite:
            return Standing.BEGIN
        raise ConfigRefused(
            f"{path} holds {found.size} bytes that this crawl did not write",
            hint="--overwrite replaces the file; or give another name to -o",
        )
    if found.size == 0:
        return Standing.GO_ON if stored.size == 0 else Standing.ANEW
    complaint = _complaint(stored, found, layout)
    if not complaint:
        return _on_own_file(path, stored, layout=layout, leave=leave)
    if leave.overwrite:
        return Standing.ANEW
    raise ConfigRefused(
        f"{path} {complaint}",
        hint="--overwrite writes it anew from the journal; or move it away, or give another name to -o",
    )


def _complaint(stored: FileState, found: Found, layout: Layout) -> str:
    if found.size < stored.size:
        return f"was changed by someone: it holds {found.size} bytes, this crawl had written {stored.size}"
    if stored.size > 0:
        return "" if found.tail == stored.tail else "was changed by someone since this crawl last wrote to it"
    if (found.device, found.inode) != (stored.device, stored.inode) or not _could_begin(found.head, layout):
        return f"holds {found.size} bytes that this crawl did not write"
    return ""


def _could_begin(head: bytes, layout: Layout) -> bool:
    # a torn first write may be short, and after a power cut a file may hold zeros where the bytes were to be
    return layout.opening.startswith(head[: len(layout.opening)]) or not head.strip(b"\0")


def _on_own_file(path: str, stored: FileState, *, layout: Layout, leave: Leave) -> Standing:
    if stored.layout == layout.name:
        return Standing.GO_ON
    if leave.rewrite or leave.overwrite:
        return Standing.ANEW
    raise ConfigRefused(
        f"{path} has other columns ({stored.layout}) than are asked for now ({layout.name})",
        hint="give another name to -o; or --overwrite begins it anew with the pages that the journal still holds",
    )


class OutputFile:
    """A regular file, locked while it is open. Not safe for two threads."""

    def __init__(self, path: str, *, crawl: str, leave: Leave | None = None) -> None:
        self._path = os.path.realpath(path)
        self._crawl = crawl
        self._leave = leave or Leave()
        self._fd: int | None = None
        self._size = 0
        self._tail = b""
        self._layout = Layout("", b"")
        self.label = printable_path(self._path)

    def __repr__(self) -> str:
        return f"<OutputFile {self.label} {self._size} bytes{'' if self._fd is None else ', open'}>"

    def check(self, *, begins: bool) -> None:
        """Refuse ahead what `open` would refuse, and touch nothing. begins: no byte of the file is this crawl's."""
        self._check_folder()
        path = Path(self._path)
        if not os.access(path if path.exists() else path.parent, os.W_OK):
            raise ConfigRefused(
                f"{self.label} cannot be written: permission denied", hint="give another name to -o"
            )
        if begins and path.exists():
            facts = path.stat()
            found = Found(facts.st_dev, facts.st_ino, facts.st_size)
            judge(self.label, None, found, layout=Layout("", b""), leave=self._leave)

    def open(self, state: str | None, layout: Layout) -> bool:
        """Open or create the file and cut it back to the stored size; False if it begins anew.

        Raises ConfigRefused (not ours, or cannot be opened), StateInUse (another crawl writes to it), DiskFull.
        """
        stored = None if state is None else self._read_state(state)
        fd = self._opened()
        try:
            with translated(self.label):
                self._lock(fd)
                found = _look(fd, at=0 if stored is None else stored.size)
                standing = judge(self.label, stored, found, layout=layout, leave=self._leave)
                size = stored.size if stored is not None and standing is Standing.GO_ON else 0
                if found.size != size:
                    os.ftruncate(fd, size)
                self._tail = os.pread(fd, TAIL_BYTES, max(0, size - TAIL_BYTES))
                _sync_folder(Path(self._path).parent)
        except BaseException:
            os.close(fd)
            raise
        self._fd, self._size, self._layout = fd, size, layout
        return standing is not Standing.ANEW

    @property
    def empty(self) -> bool:
        """True until the first byte."""
        return self._size == 0

    def write(self, data: bytes) -> None:
        """Write all of `data`, or none of it: raises DiskFull."""
        fd = self._open_fd()
        with translated(self.label):
            if os.fstat(fd).st_size < self._size:
                raise MannerlyError(f"{self.label} was cut by someone while this crawl wrote to it")
            self._append(fd, data)
        self._size += len(data)
        self._tail = (self._tail + data[-TAIL_BYTES:])[-TAIL_BYTES:]

    def _append(self, fd: int, data: bytes) -> None:
        rest, at = memoryview(data), self._size
        try:
            while rest:
                written = os.pwrite(fd, rest, at)
                rest, at = rest[written:], at + written
        except OSError:
            with suppress(
                OSError
            ):  # whoever reads the file is to find no torn line; `open` cuts it in any case
                os.ftruncate(fd, self._size)
            raise

    def sync(self) -> str:
        """Flush the file to the disk; return whose it is and how far it goes."""
        fd = self._open_fd()
        with translated(self.label):
            os.fsync(fd)
            facts = os.fstat(fd)
        state = FileState(
            path=self.label,
            device=facts.st_dev,
            inode=facts.st_ino,
            size=self._size,
            tail=_digest(self._tail),
            layout=self._layout.name,
            crawl=self._crawl,
        )
        return msgspec.json.encode(state).decode()

    def close(self) -> None:
        """Close the file and let go of its lock; does nothing if it is closed."""
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)

    def _read_state(self, state: str) -> FileState:
        try:
            stored = msgspec.json.decode(state, type=FileState)
        except msgspec.MsgspecError as error:
            raise StateDamaged(f"the state stored for {self.label} cannot be read: {error}") from error
        if stored.crawl != self._crawl:
            raise StateDamaged(
                f"the state stored for {self.label} is crawl {stored.crawl}'s, not {self._crawl}'s"
            )
        return stored

    def _check_folder(self) -> None:
        parent = Path(self._path).parent
        if not parent.is_dir():
            raise ConfigRefused(
                f"{self.label} cannot be written: there is no folder {printable_path(str(parent))}",
                hint="make the folder first, or give another name to -o",
            )

    def _opened(self) -> int:
        self._check_folder()
        try:
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            if error.errno in _FULL:
                raise _full(self.label) from error
            raise ConfigRefused(
                f"{self.label} cannot be written: {error.strerror}", hint="give another name to -o"
            ) from error
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise ConfigRefused(f"{self.label} is no regular file any more", hint="run the command again")
        return fd

    def _lock(self, fd: int) -> None:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StateInUse(
                f"another process writes to {self.label}", hint="give another name to -o, or wait for its end"
            ) from error
        except OSError as error:
            if error.errno not in _NO_LOCKS:  # a file system without locks leaves the user in charge
                raise

    def _open_fd(self) -> int:
        if self._fd is None:
            raise ValueError(f"{self.label} is not open")
        return self._fd


def _look(fd: int, *, at: int) -> Found:
    facts = os.fstat(fd)
    before = os.pread(fd, min(at, TAIL_BYTES), max(0, at - TAIL_BYTES))
    return Found(facts.st_dev, facts.st_ino, facts.st_size, os.pread(fd, 64, 0), _digest(before))


def _digest(tail: bytes) -> str:
    return blake2b(tail, digest_size=16).hexdigest() if tail else ""


def _sync_folder(folder: Path) -> None:
    # so that the name of a file just made is as durable as the ownership stored next
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        if error.errno not in _FOLDER_NOT_SYNCED:
            raise
        return
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in _FOLDER_NOT_SYNCED:
            raise
    finally:
        os.close(fd)


def printable_path(path: str) -> str:
    """Return a path as text that can be stored and shown, bytes that are no UTF-8 written as `\\xNN`."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


@contextmanager
def translated(label: str) -> Iterator[None]:
    """Turn what the operating system says into our exceptions; a broken pipe passes as it is."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.errno in _FULL:
            raise _full(label) from error
        raise MannerlyError(f"{label} cannot be written: {error.strerror}") from error


def _full(label: str) -> DiskFull:
    return DiskFull(
        f"no space is left for {label}",
        hint="make room and run the same command again: no page is lost",
    )
