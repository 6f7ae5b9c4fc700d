"""Between table rows and the records of the contract. SQLite's integers are signed, our hashes are not."""

from __future__ import annotations

import json
from typing import Any, Final

from mannerly.model.host import Addresses, HostRecord, Pace, QueueState, WaitCause
from mannerly.model.task import UrlState
from mannerly.model.verdict import Reason
from mannerly.ports import UrlId, UrlRecord, Waiting

_WRAP: Final = 1 << 64
_SIGN: Final = 1 << 63

HOST_COLUMNS: Final = (
    "id, name, seed, state, reason, detail, next_ok_at, cause, delay_s, crawl_delay_s, overloads, failures, "
    "addresses, addresses_until, contacted_at, waiting, stored, pages, ready_at"
)

# A URL's page of discovery is looked up, not copied: it is an admitted URL itself.
WAITING_QUERY: Final = """
SELECT u.host_id, u.hash, u."key", u.href, u.template, u.band, u.depth, u.attempts, u.uncounted, u.respelled,
       coalesce(v.href, v."key", ''), u.chain, u.seed, u.schemeless, u.seq, u.due_at
FROM url u LEFT JOIN url v ON v.host_id = u.via_host AND v.hash = u.via_hash
"""

URL_QUERY: Final = """
SELECT u.host_id, u.hash, u."key", u.href, u.state, u.reason, u.detail, u.depth, u.band, coalesce(t.pattern, ''),
       coalesce(v.href, v."key", ''), u.chain, u.due_at, u.attempts, p.status, p.fetched_at
FROM url u
LEFT JOIN template t ON t.host_id = u.host_id AND t.id = u.template
LEFT JOIN url v ON v.host_id = u.via_host AND v.hash = u.via_hash
LEFT JOIN page p ON p.host_id = u.host_id AND p.hash = u.hash
"""


def signed(value: int) -> int:
    """Return the 64-bit number as SQLite stores it."""
    return value - _WRAP if value >= _SIGN else value


def unsigned(value: int) -> int:
    """Return what `signed` was given."""
    return value + _WRAP if value < 0 else value


def texts(value: str | None) -> tuple[str, ...]:
    """Return the strings of a JSON array, none for NULL."""
    return tuple(json.loads(value)) if value else ()


def json_texts(values: tuple[str, ...] | list[str]) -> str:
    """Return the strings as a JSON array."""
    return json.dumps(list(values), ensure_ascii=False)


def reason(value: str | None) -> Reason | None:
    """Return the stored reason."""
    return Reason(value) if value else None


def host_record(row: tuple[Any, ...]) -> HostRecord:
    """Return the record of a row of HOST_COLUMNS."""
    return HostRecord(
        id=row[0],
        name=row[1],
        seed=bool(row[2]),
        state=QueueState(row[3]),
        reason=reason(row[4]),
        detail=row[5],
        next_ok_at=row[6],
        cause=WaitCause(row[7]),
        pace=Pace(delay_s=row[8], crawl_delay_s=row[9], overloads=row[10], failures=row[11]),
        addresses=Addresses(texts(row[12]), row[13]),
        contacted_at=row[14],
        waiting=row[15],
        stored=row[16],
        pages=row[17],
        ready_at=row[18],
    )


def waiting(row: tuple[Any, ...]) -> Waiting:
    """Return the record of a row of WAITING_QUERY, which ends in seq and due_at."""
    return Waiting(
        id=UrlId(row[0], unsigned(row[1])),
        key=row[2],
        href=row[3] or row[2],
        template=unsigned(row[4]),
        band=row[5],
        depth=row[6],
        attempts=row[7],
        uncounted=row[8],
        respelled=row[9],
        via=row[10],
        chain=texts(row[11]),
        seed=bool(row[12]),
        schemeless=bool(row[13]),
    )


def url_record(row: tuple[Any, ...]) -> UrlRecord:
    """Return the record of a row of URL_QUERY."""
    return UrlRecord(
        id=UrlId(row[0], unsigned(row[1])),
        key=row[2],
        href=row[3] or row[2],
        state=UrlState(row[4]),
        reason=reason(row[5]),
        detail=row[6],
        depth=row[7],
        band=row[8],
        template=row[9],
        via=row[10],
        chain=texts(row[11]),
        due_at=row[12],
        attempts=row[13],
        status=row[14],
        fetched_at=row[15],
    )
