"""The one row of the crawl: opened at the start of a run, closed at its clean end."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace

from mannerly.model.errors import ConfigRefused
from mannerly.ports import CrawlRecord, Position
from mannerly.store import rows

_SELECT = (
    "SELECT name, secret, seeds, scope, configuration, generation, running, finished, segment, "
    '"offset" FROM crawl'
)
_INSERT = (
    "INSERT INTO crawl (id, name, secret, seeds, scope, configuration, generation, running) "
    "VALUES (1, ?, ?, ?, ?, ?, ?, 1)"
)


def stored(connection: sqlite3.Connection) -> CrawlRecord | None:
    """Return the crawl as stored; `unclean` is true while it runs, too. `finished` only while nothing waits."""
    row = connection.execute(_SELECT).fetchone()
    if row is None:
        return None
    joined = connection.execute("SELECT name FROM joined ORDER BY name").fetchall()
    waits = connection.execute("SELECT 1 FROM host WHERE waiting > 0 LIMIT 1").fetchone() is not None
    return CrawlRecord(
        id=row[0],
        secret=int(row[1], 16),
        seeds=rows.texts(row[2]),
        scope=row[3],
        configuration=row[4],
        joined=tuple(name for (name,) in joined),
        generation=row[5],
        unclean=bool(row[6]),
        finished=bool(row[7]) and not waits,
        journal_end=Position(row[8], row[9]),
    )


def opened(connection: sqlite3.Connection, wanted: CrawlRecord) -> CrawlRecord:
    """Create the crawl, or check that it is the wanted one; mark it running within the open transaction.

    The record returned holds the configuration as it stood; `wanted.configuration` is stored from now on. Seeds may
    come in any order.
    """
    found = stored(connection)
    if found is None:
        created = replace(
            wanted, joined=(), generation=1, unclean=False, finished=False, journal_end=Position()
        )
        seeds = json.dumps(wanted.seeds)
        connection.execute(
            _INSERT, (wanted.id, f"{wanted.secret:x}", seeds, wanted.scope, wanted.configuration, 1)
        )
        return created
    _check_same(found, wanted)
    connection.execute(
        "UPDATE crawl SET running = 1, generation = generation + 1, configuration = ?",
        (wanted.configuration,),
    )
    return replace(found, generation=found.generation + 1)


def _check_same(found: CrawlRecord, wanted: CrawlRecord) -> None:
    hint = "give the same again to resume, name another --state folder, or begin anew with --fresh"
    if sorted(found.seeds) != sorted(wanted.seeds):
        raise ConfigRefused(
            f"this state was begun with the seeds {_listed(found.seeds)}, not {_listed(wanted.seeds)}",
            hint=hint,
        )
    if found.scope != wanted.scope:
        raise ConfigRefused(
            f"this state was begun with the scope {found.scope}, not {wanted.scope}", hint=hint
        )


def _listed(seeds: tuple[str, ...], most: int = 5) -> str:
    shown = ", ".join(seeds[:most]) or "(none)"
    return f"{shown} and {len(seeds) - most} more" if len(seeds) > most else shown
