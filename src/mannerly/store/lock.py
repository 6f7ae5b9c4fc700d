"""The locks that keep a second coordinator out of a state folder, and a second crawl off a host.

Locks are flock(2): they belong to the open file, go with it to a child that inherits the descriptor, and end with the
last process that has it. Workers inherit it, so a lock is free only when no request is in flight. Lock files are never
deleted: a lock on a deleted file locks nothing.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Self
from urllib.parse import quote

import msgspec
import xxhash

from mannerly.model.errors import ConfigRefused, DiskFull, StateDamaged, StateInUse

WAIT_S: Final = 10.0
_STEP_S: Final = 0.05
_NOTE_BYTES: Final = 4_096

# File systems on which flock does not reach other machines, or SQLite's WAL does not work.
# fmt: off
NETWORK_FILE_SYSTEMS: Final = frozenset({
    "9p", "afs", "beegfs", "ceph", "cifs", "davfs", "fuse.ceph", "fuse.davfs", "fuse.glusterfs", "fuse.rclone",
    "fuse.s3fs", "fuse.sshfs", "gfs", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4", "ocfs2",
    "orangefs", "smb2", "smb3", "smbfs", "vboxsf", "virtiofs",
})
# fmt: on


class Holder(msgspec.Struct, frozen=True):
    """Who holds a lock, as written in its file."""

    pid: int = 0
    state: str = ""


class FileLock:
    """One locked file. `fd` may be inherited; the lock is free when every process that has it closed it."""

    def __init__(self, fd: int, path: Path) -> None:
        self.fd = fd
        self.path = path

    @classmethod
    def take(cls, path: Path, note: Holder) -> FileLock | Holder:
        """Lock `path` and write who holds it, or return who does. Does not wait."""
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            raw = msgspec.json.encode(note)
            os.pwrite(fd, raw, 0)
            os.ftruncate(fd, len(raw))
        except BlockingIOError:
            holder = _holder(os.pread(fd, _NOTE_BYTES, 0))
            os.close(fd)
            return holder
        except BaseException:
            os.close(fd)
            raise
        return cls(fd, path)

    @classmethod
    def wait(
        cls, path: Path, note: Holder, *, wait_s: float, sleep: Callable[[float], None]
    ) -> FileLock | Holder:
        """Try to `take` for `wait_s` seconds; raise DiskFull, or StateDamaged if the file cannot be made."""
        left = int(wait_s / _STEP_S)
        try:
            while isinstance(taken := cls.take(path, note), Holder) and left > 0:
                left -= 1
                sleep(_STEP_S)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise DiskFull(f"no space is left for {path}", hint="make space, then try again") from error
            raise StateDamaged(
                f"{path} cannot be locked: {error.strerror}",
                hint="check that the folder exists, is yours, and lies on a local disk",
            ) from error
        return taken

    def release(self) -> None:
        """Close our descriptor; never unlock, for that would unlock it for the workers, too."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)


def _holder(raw: bytes) -> Holder:
    try:
        return msgspec.json.decode(raw, type=Holder)
    except msgspec.MsgspecError:
        return Holder()


class StateLock:
    """The lock of a state folder: `with StateLock(folder) as lock: ...`."""

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)
        self._lock: FileLock | None = None

    @property
    def fds(self) -> tuple[int, ...]:
        """Descriptors for workers to inherit (`pass_fds`)."""
        return (self._lock.fd,) if self._lock else ()

    def acquire(self, *, wait_s: float = WAIT_S, sleep: Callable[[float], None] = time.sleep) -> None:
        """Take the lock, waiting up to `wait_s` for workers of a dead coordinator; blocks.

        Raises StateInUse naming the process that holds it, StateDamaged if the folder cannot be written.
        """
        path = self._folder / "lock"
        note = Holder(os.getpid(), str(self._folder.absolute()))
        taken = FileLock.wait(path, note, wait_s=wait_s, sleep=sleep)
        if isinstance(taken, Holder):
            raise StateInUse(
                f"process {taken.pid or 'unknown'} holds the state folder {self._folder}",
                hint="wait for it or stop it; to crawl beside it, name another --state folder",
            )
        self._lock = taken

    def release(self) -> None:
        """Let go of the lock. Workers that inherited it hold it until they end."""
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.release()

    def holder(self) -> Holder | None:
        """Return who holds the lock now, None if it is free; takes nothing that lasts, for `doctor`."""
        path = self._folder / "lock"
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return _holder(os.pread(fd, _NOTE_BYTES, 0))
        finally:
            os.close(fd)
        return None

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class HostLocks:
    """Locks of the seed hosts of one crawl, among all crawls of this user on this machine."""

    def __init__(self, state: str | Path, *, folder: Path | None = None) -> None:
        self._state = str(Path(state).absolute())
        self._folder = folder
        self._locks: list[FileLock] = []

    @property
    def fds(self) -> tuple[int, ...]:
        """Descriptors for workers to inherit (`pass_fds`)."""
        return tuple(lock.fd for lock in self._locks)

    def acquire(
        self, names: Sequence[str], *, wait_s: float = WAIT_S, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        """Lock every name (a host, or host:port), all or none, each waited for up to `wait_s`; blocks.

        Raises StateInUse naming the process and the state folder that have one of them, ConfigRefused if there is
        no folder that belongs to this user alone.
        """
        folder = self._folder or user_folder(os.environ)
        note = Holder(os.getpid(), self._state)
        with ExitStack() as undo:
            undo.callback(self.release)
            for name in sorted(
                set(names)
            ):  # one order for all, so that two crawls cannot wait for each other
                taken = FileLock.wait(folder / lock_name(name), note, wait_s=wait_s, sleep=sleep)
                if isinstance(taken, Holder):
                    raise StateInUse(
                        f"process {taken.pid or 'unknown'} is crawling {name} with the state folder {taken.state}",
                        hint="a host is crawled once at a time: wait for that crawl or stop it",
                    )
                self._locks.append(taken)
            undo.pop_all()

    def release(self) -> None:
        """Let go of all. Workers that inherited them hold them until they end."""
        locks, self._locks = self._locks, []
        for lock in locks:
            lock.release()


def lock_name(name: str) -> str:
    """Return the file name of a host's lock: readable, never a path, never over 255 bytes."""
    readable = quote(name, safe="")
    if len(readable) > 200:
        readable = f"{readable[:180]}~{xxhash.xxh3_64_hexdigest(name.encode())}"
    return f"{readable}.lock"


def user_folder(environment: Mapping[str, str]) -> Path:
    """Return the folder of this user's host locks, made if missing; raise ConfigRefused if it is not theirs alone.

    `$XDG_RUNTIME_DIR/mannerly`, else `mannerly-UID` under the temporary folder, mode 0700.
    """
    runtime = environment.get("XDG_RUNTIME_DIR", "")
    if runtime and _owned(Path(runtime)):
        folder = Path(runtime) / "mannerly"
    else:
        folder = Path(tempfile.gettempdir()) / f"mannerly-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise ConfigRefused(
            f"no folder for host locks can be made at {folder}: {error.strerror}",
            hint="set XDG_RUNTIME_DIR or TMPDIR to a folder that you may write to",
        ) from error
    if not _owned(folder) or stat.S_IMODE(folder.lstat().st_mode) & 0o077:
        raise ConfigRefused(
            f"the folder for host locks, {folder}, is not this user's alone",
            hint="have it removed, or set XDG_RUNTIME_DIR to a folder of yours",
        )
    return folder


def _owned(folder: Path) -> bool:
    try:
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()


def folder_is_local(path: str | Path, *, mounts: Path = Path("/proc/mounts")) -> bool | None:
    """Tell whether `path` lies on a file system of this machine; None where the system does not say."""
    found = file_system(path, mounts=mounts)
    return None if found is None else found not in NETWORK_FILE_SYSTEMS


def file_system(path: str | Path, *, mounts: Path = Path("/proc/mounts")) -> str | None:
    """Return the type of the file system that holds `path`, by the longest mount point above it."""
    try:
        lines = mounts.read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return None
    wanted = Path(path).resolve()
    best: tuple[int, str] | None = None
    for line in lines:
        columns = line.split(" ")
        if len(columns) < 3:
            continue
        point = Path(_unescaped(columns[1]))
        if wanted.is_relative_to(point) and (best is None or len(point.parts) >= best[0]):
            best = (len(point.parts), columns[2])
    return best[1] if best else None


def _unescaped(text: str) -> str:
    """Undo the octal escapes of /proc/mounts (space, tab, newline, backslash)."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)
