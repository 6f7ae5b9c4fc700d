"""One SQLite connection: its settings, its schema, and its errors in our words."""

from __future__ import annotations

import errno
import importlib.resources
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from mannerly.model.errors import DiskFull, MannerlyError, StateDamaged, StateInUse

MEMORY: Final = ":memory:"
APPLICATION_ID: Final = 0x6D6E6C79  # "mnly", so that a file of somebody else is never written to
BUSY_S: Final = 5.0

# 64 MiB of cache hold the upper levels of the tables' trees at 100 million URLs. The log is copied back every 16 MiB, so
# that a page that many commits touch is written once, and cut to 64 MiB after a reader held it open. FULL: a commit
# that returned is on the disk; fullfsync says the same to macOS.
SETTINGS: Final = (
    "PRAGMA synchronous = FULL",
    "PRAGMA fullfsync = ON",
    "PRAGMA checkpoint_fullfsync = ON",
    "PRAGMA cache_size = -65536",
    "PRAGMA wal_autocheckpoint = 4096",
    "PRAGMA journal_size_limit = 67108864",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA trusted_schema = OFF",
)

_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_PROBE_BYTES = 1 << 16
_FULL_HINT = "make space and run the same command again: nothing that was settled is lost"


def connect(path: str, *, read_only: bool) -> sqlite3.Connection:
    """Return a connection in autocommit mode with the newest schema, made where the file is new.

    May be handed to another thread, not used by two at once. Raises StateDamaged for a file that is not ours or of
    a newer version, DiskFull, StateInUse.
    """
    with translated(path):
        connection = _open(path, read_only=read_only)
        try:
            _check_ours(connection, path)
            _check_version(connection, path, read_only=read_only)
            for setting in SETTINGS:
                connection.execute(setting)
            if not read_only:
                connection.execute("PRAGMA journal_mode = WAL")
                _migrate(connection)
        except BaseException:
            connection.close()
            raise
    return connection


def _open(path: str, *, read_only: bool) -> sqlite3.Connection:
    if path == MEMORY:
        return sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    if read_only and not Path(path).is_file():
        raise StateDamaged(f"there is no state file {path}", hint="name the state folder with --state")
    uri = Path(path).absolute().as_uri() + ("?mode=ro" if read_only else "")
    return sqlite3.connect(uri, uri=True, timeout=BUSY_S, isolation_level=None, check_same_thread=False)


def _check_ours(connection: sqlite3.Connection, path: str) -> None:
    application = number(connection, "PRAGMA application_id")
    tables = number(connection, "SELECT count(*) FROM sqlite_schema")
    if application != APPLICATION_ID and (application or tables):
        raise StateDamaged(f"{path} is the database of another program", hint="choose another --state folder")


def migrations() -> list[tuple[int, str]]:
    """Return the numbered .sql files of the package as (number, text), in order."""
    folder = importlib.resources.files("mannerly.store") / "schema"
    files = [entry for entry in folder.iterdir() if entry.name.endswith(".sql")]
    return sorted((int(entry.name.partition("_")[0]), entry.read_text("utf-8")) for entry in files)


def _check_version(connection: sqlite3.Connection, path: str, *, read_only: bool) -> None:
    found = number(connection, "PRAGMA user_version")
    newest = migrations()[-1][0]
    if found > newest:
        raise StateDamaged(
            f"{path} has schema version {found}, this mannerly knows {newest}",
            hint="use the newer mannerly that wrote it, or --fresh",
        )
    if found < newest and read_only:
        raise StateDamaged(
            f"{path} has schema version {found}, not {newest}",
            hint="run `mannerly crawl` once to bring it up to date",
        )


def _migrate(connection: sqlite3.Connection) -> None:
    """Apply the steps that the file lacks, each a transaction of its own with its number."""
    found = number(connection, "PRAGMA user_version")
    for version, text in migrations():
        if version > found:
            marks = f"PRAGMA application_id = {APPLICATION_ID};\nPRAGMA user_version = {version};"
            connection.executescript(f"BEGIN IMMEDIATE;\n{text}\n{marks}\nCOMMIT;")


def number(connection: sqlite3.Connection, query: str, *parameters: object) -> int:
    """Return the one number that `query` selects, 0 for NULL or no row."""
    row = connection.execute(query, parameters).fetchone()
    return int(row[0] or 0) if row else 0


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All or nothing: commit at the end, roll back on any exception."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with suppress(
            sqlite3.Error
        ):  # SQLite has rolled back by itself after some errors, a full disk for one
            connection.execute("ROLLBACK")
        raise


@contextmanager
def translated(path: str) -> Iterator[None]:
    """Raise SQLite's errors about the file as ours; errors of our own SQL pass, for they are bugs."""
    try:
        yield
    except sqlite3.Error as error:
        ours = _ours(error, path)
        if ours is None:
            raise
        raise ours from error


def _ours(error: sqlite3.Error, path: str) -> MannerlyError | None:
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:
        return None
    match code & 0xFF:
        case sqlite3.SQLITE_FULL:
            return DiskFull(f"no space is left for {path}", hint=_FULL_HINT)
        case sqlite3.SQLITE_IOERR | sqlite3.SQLITE_CANTOPEN if _no_space_beside(path):
            return DiskFull(f"no space is left for {path} ({error})", hint=_FULL_HINT)
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return StateInUse(
                f"{path} is locked by another process ({error})", hint="wait for it, or stop it"
            )
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return StateDamaged(
                f"{path} is damaged ({error})", hint="restore the folder, or begin anew with --fresh"
            )
        case sqlite3.SQLITE_IOERR | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_READONLY:
            return StateDamaged(
                f"{path} cannot be read or written ({error})",
                hint="check the folder's owner, mode, and disk",
            )
    return None


def _no_space_beside(path: str) -> bool:
    """SQLite calls an exceeded quota or file size an input/output error: tell it from a broken disk by a write."""
    try:
        sizes = [file.stat().st_size for file in (Path(path), Path(f"{path}-wal")) if file.exists()]
        with tempfile.TemporaryFile(dir=Path(path).parent) as probe:
            probe.seek(max(sizes, default=0))
            probe.write(bytes(_PROBE_BYTES))
            probe.flush()
    except OSError as error:
        return error.errno in _NO_SPACE
    return False
