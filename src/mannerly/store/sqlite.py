"""The state store in one SQLite file: WAL, one thread of its own, every call one transaction."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

import msgspec

from mannerly.model.host import HostRecord
from mannerly.model.origin import Access, OriginRecord
from mannerly.model.task import UrlState
from mannerly.model.verdict import Reason
from mannerly.ports import (
    Batch,
    Committed,
    Counts,
    CrawlRecord,
    Damage,
    Refusal,
    SinkState,
    TemplateCount,
    UrlId,
    UrlRecord,
    Window,
)
from mannerly.store import commit, crawl, reads, rows, survey
from mannerly.store.connection import connect, transaction, translated
from mannerly.store.window import WindowReader

if TYPE_CHECKING:  # readers (`why`, `report`) use no filter: numpy would take half of their time
    from mannerly.store.bloom import BloomFilter

# about 20 ms of the store's thread: what else is asked of the store waits no longer
_RESTORED_AT_ONCE = 20_000

P = ParamSpec("P")
T = TypeVar("T")

_origins = msgspec.msgpack.Decoder(OriginRecord)

_REVIVE = "UPDATE host SET state = 0, reason = NULL, detail = '', failures = 0 WHERE state IN (4, 5)"
_FRAMES_WITHIN = (
    'SELECT host_id, hash FROM page WHERE segment IS NOT NULL AND (segment, "offset") >= (?, ?) '
    'AND (segment, "offset") < (?, ?)'
)


class SqliteStore:
    """`StateStore` on a file, or on memory for `fetch` and tests.

    Calls are queued to the store's thread and carried out in the order they were made, each of them even if its
    caller is cancelled while it waits. The constructor opens the file, blocks, and raises StateDamaged, StateInUse
    or DiskFull. With `read_only` the file must exist, nothing is written, and a crawl may go on meanwhile.
    """

    def __init__(self, path: str | Path, *, read_only: bool = False) -> None:
        self._path = str(path)
        self._connection = connect(self._path, read_only=read_only)
        self._windows = WindowReader(self._connection)
        self._seen: BloomFilter | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="mannerly-store")
        self._closed = False

    def __repr__(self) -> str:
        return f"<SqliteStore {self._path}{' closed' if self._closed else ''}>"

    async def _run(self, work: Callable[[], T]) -> T:
        return await asyncio.shield(asyncio.wrap_future(self._thread.submit(self._guard, work)))

    def _guard(self, work: Callable[[], T]) -> T:
        with translated(self._path):
            return work()

    async def _read(
        self, query: Callable[Concatenate[sqlite3.Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        return await self._run(partial(query, self._connection, *args, **kwargs))

    async def _write(
        self, change: Callable[Concatenate[sqlite3.Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        def whole() -> T:
            with transaction(self._connection):
                return change(self._connection, *args, **kwargs)

        return await self._run(whole)

    async def open_crawl(self, wanted: CrawlRecord) -> CrawlRecord:
        """See `StateStore.open_crawl`. The record holds the configuration as it stood before this run."""
        return await self._write(crawl.opened, wanted)

    async def stored_crawl(self) -> CrawlRecord | None:
        """Return the crawl as a reader finds it, None if none was begun; `unclean` is true while it runs, too."""
        return await self._read(crawl.stored)

    async def close_crawl(self, *, finished: bool) -> None:
        """See `StateStore.close_crawl`."""
        await self._write(_execute, "UPDATE crawl SET running = 0, finished = ?", finished)

    async def commit(self, batch: Batch) -> Committed:
        """See `StateStore.commit`. `wakened` names hosts to which this batch gave a URL to fetch."""
        return await self._run(partial(self._commit, batch))

    def _commit(self, batch: Batch) -> Committed:
        with transaction(self._connection):
            committed = commit.commit(self._connection, batch)
        if self._seen is not None and batch.admissions:
            # what is stored and not yet in the filter costs an insert that does nothing, never a URL
            self._seen.add([rows.unsigned(admission.hash) for admission in batch.admissions])
        return committed

    async def ensure_host(self, name: str, *, seed: bool = False) -> HostRecord:
        """See `StateStore.ensure_host`."""
        return await self._write(_ensure_host, name, seed=seed)

    async def ready_hosts(
        self, *, limit: int, exclude: frozenset[str], polite: bool = False
    ) -> list[HostRecord]:
        """See `StateStore.ready_hosts`."""
        return await self._read(reads.ready_hosts, limit=limit, exclude=exclude, polite=polite)

    async def revive_hosts(self) -> int:
        """See `StateStore.revive_hosts`. Failures are counted anew; next_ok_at and back-off stand."""
        return await self._write(_revive)

    async def window(self, host_id: int, *, limit: int, now: float, exclude: frozenset[int]) -> Window:
        """See `StateStore.window`; the order is told in `store.window`."""
        return await self._run(partial(self._windows.read, host_id, limit=limit, now=now, exclude=exclude))

    async def known(self, pairs: Sequence[tuple[str, int]]) -> list[bool]:
        """See `StateStore.known`. Only what the filter does not call certainly new is read."""
        return await self._run(partial(self._known, pairs))

    def _known(self, pairs: Sequence[tuple[str, int]]) -> list[bool]:
        if self._seen is None or not pairs:
            return reads.known(self._connection, pairs)
        new = self._seen.certainly_new([rows.unsigned(hash_) for _, hash_ in pairs])
        doubtful = [pair for pair, is_new in zip(pairs, new, strict=True) if not is_new]
        stored = iter(reads.known(self._connection, doubtful))
        return [not is_new and next(stored) for is_new in new]

    def use_filter(self, seen: BloomFilter) -> None:
        """Ask `seen` before the table from now on; it belongs to the store, which closes it. Before any other call."""
        self._seen = seen

    async def restore_seen(self) -> None:
        """See `StateStore.restore_seen`."""
        last: UrlId | None = None
        while self._seen is not None and not self._seen.ready:
            last = await self._run(partial(self._restore_some, last))

    def _restore_some(self, after: UrlId | None) -> UrlId | None:
        seen = self._seen
        if seen is None:
            return after
        ids = reads.seen_hashes(self._connection, after, limit=_RESTORED_AT_ONCE)
        if not ids:
            seen.complete()
            return after
        seen.add([rows.unsigned(url_id.hash) for url_id in ids])
        return ids[-1]

    async def find(self, host: str, hash_: int) -> UrlRecord | None:
        """See `StateStore.find`."""
        return await self._read(reads.find, host, hash_)

    async def host(self, name: str) -> HostRecord | None:
        """See `StateStore.host`."""
        return await self._read(reads.host, name)

    async def origin(self, origin: str) -> OriginRecord | None:
        """See `StateStore.origin`."""
        return await self._read(reads.origin, origin)

    async def counts(self) -> Counts:
        """See `StateStore.counts`."""
        return await self._read(reads.counts)

    async def refusals(self, reason: Reason, *, limit: int = 100) -> list[Refusal]:
        """See `StateStore.refusals`."""
        return await self._read(reads.refusals, reason, limit=limit)

    async def urls(self, *, state: UrlState, limit: int = 100) -> list[UrlRecord]:
        """See `StateStore.urls`."""
        return await self._read(reads.urls, state=state, limit=limit)

    async def hosts(self, *, limit: int = 100) -> list[HostRecord]:
        """See `StateStore.hosts`."""
        return await self._read(reads.hosts, limit=limit)

    async def wait_again(self, damage: Sequence[Damage]) -> int:
        """See `StateStore.wait_again`."""
        return await self._write(_wait_again, damage)

    async def sink(self, name: str) -> SinkState | None:
        """See `StateStore.sink`."""
        return await self._read(reads.sink, name)

    async def save_sink(self, state: SinkState) -> None:
        """See `StateStore.save_sink`."""
        query = 'INSERT OR REPLACE INTO sink (name, segment, "offset", state) VALUES (?, ?, ?, ?)'
        position = state.position
        await self._write(_execute, query, state.name, position.segment, position.offset, state.state)

    async def seen_hashes(self, after: UrlId | None, *, limit: int) -> list[UrlId]:
        """See `StateStore.seen_hashes`."""
        return await self._read(reads.seen_hashes, after, limit=limit)

    # what readers ask besides: `why` and `report` go over whole tables in short transactions

    async def scan_hosts(self, after: int, *, limit: int) -> list[HostRecord]:
        """Return hosts with a larger id than `after`, in order of their ids."""
        return await self._read(survey.scan_hosts, after, limit=limit)

    async def scan_origins(self, after: str, *, limit: int) -> list[OriginRecord]:
        """Return origins behind `after`, in the order of their names."""
        return await self._read(survey.scan_origins, after, limit=limit)

    async def scan_templates(self, after: TemplateCount | None, *, limit: int) -> list[TemplateCount]:
        """Return templates behind `after`, in the order of the table."""
        return await self._read(survey.scan_templates, after, limit=limit)

    async def sinks(self) -> list[SinkState]:
        """Return how far each sink has come."""
        return await self._read(survey.sinks)

    async def refusals_of(self, urls: Sequence[str]) -> list[Refusal]:
        """Return the stored samples of refused candidates that are one of `urls`."""
        return await self._read(survey.refusals_of, urls)

    async def close(self) -> None:
        """See `StateStore.close`. May be called again."""
        if self._closed:
            return
        self._closed = True
        await self._run(self._connection.close)
        self._thread.shutdown()
        if self._seen is not None:
            self._seen.close()


def _revive(connection: sqlite3.Connection) -> int:
    """Give hosts and unreachable origins another chance: their failures are counted from nought."""
    unreachable = connection.execute(
        "SELECT origin, record FROM origin WHERE access = ?", (Access.UNREACHABLE,)
    ).fetchall()
    anew = [
        (msgspec.msgpack.encode(msgspec.structs.replace(_origins.decode(raw), failures=0)), origin)
        for origin, raw in unreachable
    ]
    connection.executemany("UPDATE origin SET record = ? WHERE origin = ?", anew)
    return _execute(connection, _REVIVE)


def _execute(connection: sqlite3.Connection, query: str, *parameters: object) -> int:
    return connection.execute(query, parameters).rowcount


def _ensure_host(connection: sqlite3.Connection, name: str, *, seed: bool) -> HostRecord:
    changes = commit.Transaction(connection)
    changes.ensure_host(name, seed=seed)
    changes.finish()
    record = reads.host(connection, name)
    if record is None:
        raise AssertionError(f"the row of host {name!r} was made in this transaction and is not there")
    return record


def _wait_again(connection: sqlite3.Connection, damage: Sequence[Damage]) -> int:
    changes = commit.Transaction(connection)
    waiting = 0
    for lost in damage:
        bounds = (lost.start.segment, lost.start.offset, lost.end.segment, lost.end.offset)
        for host_id, hash_ in connection.execute(_FRAMES_WITHIN, bounds).fetchall():
            waiting += changes.forget_page(host_id, hash_)
    changes.finish()
    return waiting
