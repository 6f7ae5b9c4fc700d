"""Queries of `why` and `report` over whole tables: a page of rows at a time, so that no transaction is long."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

import msgspec

from mannerly.model.host import HostRecord
from mannerly.model.origin import OriginRecord
from mannerly.model.verdict import Reason
from mannerly.ports import Position, Refusal, SinkState, TemplateCount
from mannerly.store import rows

_origins = msgspec.msgpack.Decoder(OriginRecord)


def scan_hosts(connection: sqlite3.Connection, after: int, *, limit: int) -> list[HostRecord]:
    """Return hosts with a larger id than `after`, in order of their ids."""
    query = f"SELECT {rows.HOST_COLUMNS} FROM host WHERE id > ? ORDER BY id LIMIT ?"  # noqa: S608 - a constant
    return [rows.host_record(row) for row in connection.execute(query, (after, limit))]


def scan_origins(connection: sqlite3.Connection, after: str, *, limit: int) -> list[OriginRecord]:
    """Return origins behind `after`, in the order of their names."""
    query = "SELECT record FROM origin WHERE origin > ? ORDER BY origin LIMIT ?"
    return [_origins.decode(row[0]) for row in connection.execute(query, (after, limit))]


def scan_templates(
    connection: sqlite3.Connection, after: TemplateCount | None, *, limit: int
) -> list[TemplateCount]:
    """Return templates behind `after`, in the order of the table."""
    place = (after.host_id, after.id) if after is not None else (-1, 0)
    found = connection.execute(
        "SELECT t.host_id, t.id, h.name, t.pattern, t.stored, t.fetched "
        "FROM template t JOIN host h ON h.id = t.host_id "
        "WHERE (t.host_id, t.id) > (?, ?) ORDER BY t.host_id, t.id LIMIT ?",
        (*place, limit),
    )
    return [TemplateCount(*row) for row in found]


def sinks(connection: sqlite3.Connection) -> list[SinkState]:
    """Return how far each sink has come."""
    found = connection.execute('SELECT name, segment, "offset", state FROM sink ORDER BY name')
    return [SinkState(row[0], Position(row[1], row[2]), row[3]) for row in found]


def refusals_of(connection: sqlite3.Connection, urls: Sequence[str]) -> list[Refusal]:
    """Return the stored samples that are one of `urls`; the table holds at most 100 a reason."""
    found: dict[tuple[str, str], Refusal] = {}
    for url in urls:
        query = "SELECT reason, url, evidence FROM refusal WHERE url = ?"
        for reason, name, evidence in connection.execute(query, (url,)):
            found[reason, name] = Refusal(Reason(reason), name, evidence)
    return list(found.values())
