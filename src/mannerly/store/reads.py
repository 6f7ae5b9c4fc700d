"""Queries that change nothing: for the frontier, for `why` and `report`. Each is short, whatever the crawl's size."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

import msgspec

from mannerly.model.host import HostRecord, WaitCause
from mannerly.model.origin import OriginRecord
from mannerly.model.task import UrlState
from mannerly.model.verdict import Reason
from mannerly.ports import Counts, Position, Refusal, SinkState, UrlId, UrlRecord
from mannerly.store import rows

_READY = f"""
SELECT {rows.HOST_COLUMNS} FROM host INDEXED BY host_ready WHERE waiting > 0 AND state < 4 ORDER BY ready_at
"""  # noqa: S608 - a constant of ours
# as `HostRecord.waits_for` says it
_READY_POLITELY = _READY.replace(
    "ORDER BY", f"AND cause < {int(WaitCause.BACKOFF)} AND ready_at <= next_ok_at ORDER BY"
)

_origins = msgspec.msgpack.Decoder(OriginRecord)


def ready_hosts(
    connection: sqlite3.Connection, *, limit: int, exclude: frozenset[str], polite: bool
) -> list[HostRecord]:
    """See `StateStore.ready_hosts`."""
    found: list[HostRecord] = []
    for row in connection.execute(_READY_POLITELY if polite else _READY):
        if len(found) == limit:
            break
        if row[1] not in exclude:
            found.append(rows.host_record(row))
    return found


def host(connection: sqlite3.Connection, name: str) -> HostRecord | None:
    """Return the host's row."""
    query = f"SELECT {rows.HOST_COLUMNS} FROM host WHERE name = ?"  # noqa: S608 - a constant of ours
    row = connection.execute(query, (name,)).fetchone()
    return rows.host_record(row) if row else None


def hosts(connection: sqlite3.Connection, *, limit: int) -> list[HostRecord]:
    """Return hosts, most URLs waiting first."""
    busy = f"SELECT {rows.HOST_COLUMNS} FROM host WHERE waiting > 0 ORDER BY waiting DESC LIMIT ?"  # noqa: S608
    idle = f"SELECT {rows.HOST_COLUMNS} FROM host WHERE waiting = 0 ORDER BY id LIMIT ?"  # noqa: S608
    found = connection.execute(busy, (limit,)).fetchall()
    if len(found) < limit:
        found += connection.execute(idle, (limit - len(found),)).fetchall()
    return [rows.host_record(row) for row in found]


def known(connection: sqlite3.Connection, pairs: Sequence[tuple[str, int]]) -> list[bool]:
    """Tell for each (host, hash) whether the URL was admitted."""
    ids: dict[str, int | None] = {}
    answers = []
    for name, hash_ in pairs:
        if name not in ids:
            row = connection.execute("SELECT id FROM host WHERE name = ?", (name,)).fetchone()
            ids[name] = row[0] if row else None
        query = "SELECT 1 FROM url WHERE host_id = ? AND hash = ?"
        row = connection.execute(query, (ids[name], rows.signed(hash_))).fetchone()
        answers.append(row is not None)
    return answers


def find(connection: sqlite3.Connection, name: str, hash_: int) -> UrlRecord | None:
    """Return the admitted URL."""
    query = rows.URL_QUERY + " WHERE u.host_id = (SELECT id FROM host WHERE name = ?) AND u.hash = ?"  # noqa: S608
    row = connection.execute(query, (name, rows.signed(hash_))).fetchone()
    return rows.url_record(row) if row else None


def urls_query(state: UrlState) -> str:
    """Return the query for URLs in `state`, in the order of the partial index that holds them."""
    index, order = {
        UrlState.WAITING: ("u.state = 0", "u.host_id, u.band, u.template"),
        UrlState.DELAYED: ("u.state = 1", "u.host_id, u.due_at"),
    }.get(state, ("u.state >= 2", "u.seq"))  # said besides: SQLite does not conclude from 4 to >= 2
    return f"{rows.URL_QUERY} WHERE {index} AND u.state = {int(state)} ORDER BY {order} LIMIT ?"


def urls(connection: sqlite3.Connection, *, state: UrlState, limit: int) -> list[UrlRecord]:
    """Return URLs in `state`: settled ones oldest first, others host by host."""
    query = urls_query(state)
    return [rows.url_record(row) for row in connection.execute(query, (limit,))]


def origin(connection: sqlite3.Connection, name: str) -> OriginRecord | None:
    """Return what robots.txt of an origin came to."""
    row = connection.execute("SELECT record FROM origin WHERE origin = ?", (name,)).fetchone()
    return _origins.decode(row[0]) if row else None


def counts(connection: sqlite3.Connection) -> Counts:
    """Return the totals."""
    tallies: dict[str, dict[str, int]] = {"total": {}, "settled": {}, "refused": {}}
    for kind, name, number in connection.execute("SELECT kind, name, number FROM tally WHERE number > 0"):
        tallies[kind][name] = number
    total = tallies["total"]
    return Counts(
        pages=total.get("pages", 0),
        waiting=total.get("waiting", 0),
        stored=total.get("stored", 0),
        hosts=total.get("hosts", 0),
        settled=tallies["settled"],
        refused=tallies["refused"],
    )


def refusals(connection: sqlite3.Connection, reason: Reason, *, limit: int) -> list[Refusal]:
    """Return stored samples of candidates refused for `reason`."""
    query = "SELECT url, evidence FROM refusal WHERE reason = ? ORDER BY url LIMIT ?"
    return [Refusal(reason, url, evidence) for url, evidence in connection.execute(query, (reason, limit))]


def sink(connection: sqlite3.Connection, name: str) -> SinkState | None:
    """Return how far a sink has come."""
    row = connection.execute('SELECT segment, "offset", state FROM sink WHERE name = ?', (name,)).fetchone()
    return SinkState(name, Position(row[0], row[1]), row[2]) if row else None


def seen_hashes(connection: sqlite3.Connection, after: UrlId | None, *, limit: int) -> list[UrlId]:
    """Return admitted URLs after `after` in the order of the table."""
    start = (after.host_id, rows.signed(after.hash)) if after else (-1, 0)
    found = connection.execute(
        "SELECT host_id, hash FROM url WHERE (host_id, hash) > (?, ?) ORDER BY host_id, hash LIMIT ?",
        (*start, limit),
    )
    return [UrlId(host_id, rows.unsigned(hash_)) for host_id, hash_ in found]
