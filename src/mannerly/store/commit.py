"""Apply one batch: all of it or nothing, with every counter exact in the same transaction.

Order inside a batch: hosts, admissions, URL changes, pages, the rest, then the counters of the hosts touched.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

import msgspec
import xxhash

from mannerly.model.host import QueueState
from mannerly.model.origin import OriginRecord
from mannerly.model.task import TRANSITIONS, UrlState
from mannerly.model.verdict import Reason
from mannerly.ports import (
    Admission,
    Admitted,
    Batch,
    Committed,
    HostChange,
    PageRow,
    Position,
    Refusal,
    UrlChange,
)
from mannerly.store import rows
from mannerly.store.connection import number

SAMPLES_A_REASON: Final = 100

# What lives in memory alone is stored as READY: after a crash it is nothing else.
DURABLE_STATES: Final = frozenset({QueueState.READY, QueueState.PARKED, QueueState.RETIRED})

_ADMIT = """
INSERT INTO url (host_id, hash, seq, "key", href, template, band, depth, via_host, via_hash, chain, seed, schemeless)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING
"""


def _change_query(state: UrlState) -> str:
    allowed = ", ".join(str(int(old)) for old, to in TRANSITIONS.items() if state in to)
    return f"""
UPDATE url SET state = {int(state)}, reason = ?, detail = ?, due_at = ?, attempts = ?, uncounted = ?, respelled = ?,
       href = coalesce(?, href)
WHERE host_id = ? AND hash = ? AND state IN ({allowed}) RETURNING template
"""  # noqa: S608 - numbers of our own table


_CHANGE: Final = {state: _change_query(state) for state in UrlState}

_HOST = """
INSERT INTO host (name, state, reason, detail, next_ok_at, cause, delay_s, crawl_delay_s, overloads, failures,
                  addresses, addresses_until, contacted_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (name) DO UPDATE SET state = excluded.state, reason = excluded.reason, detail = excluded.detail,
    next_ok_at = excluded.next_ok_at, cause = excluded.cause, delay_s = excluded.delay_s,
    crawl_delay_s = excluded.crawl_delay_s, overloads = excluded.overloads, failures = excluded.failures,
    addresses = excluded.addresses, addresses_until = excluded.addresses_until, contacted_at = excluded.contacted_at
RETURNING id, stored
"""

# A host all of whose URLs are delayed is ready when the first is due. Both look-ups are one step in an index.
_COUNT_HOST = """
UPDATE host SET waiting = waiting + ?, stored = stored + ?, pages = pages + ?,
    ready_at = CASE WHEN EXISTS (SELECT 1 FROM url WHERE host_id = host.id AND state = 0) THEN next_ok_at
        ELSE max(next_ok_at, coalesce((SELECT min(due_at) FROM url WHERE host_id = host.id AND state = 1), 0)) END
WHERE id = ? RETURNING name, waiting, state
"""

# The first page of a URL stands: a second one comes from a task that was taken for lost.
_PAGE = """
INSERT INTO page (host_id, hash, status, fetched_at, body_digest, text_digest, fingerprint, etag, last_modified,
                  segment, "offset")
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING
"""

_TALLY = """
INSERT INTO tally (kind, name, number) VALUES (?, ?, ?)
ON CONFLICT (kind, name) DO UPDATE SET number = number + excluded.number
"""

_TEMPLATE = """
INSERT INTO template (host_id, id, pattern, stored) VALUES (?, ?, ?, ?)
ON CONFLICT (host_id, id) DO UPDATE SET stored = stored + excluded.stored
"""

_ORIGIN = (
    "INSERT OR REPLACE INTO origin (origin, access, fetched_at, expires_at, record) VALUES (?, ?, ?, ?, ?)"
)

_FIND_HOST = "SELECT id, stored, seed FROM host WHERE name = ?"
_SETTLED_WITH_PAGE = (
    f"SELECT template, state, reason FROM url WHERE host_id = ? AND hash = ? "  # noqa: S608 - numbers of our own table
    f"AND state IN ({int(UrlState.FETCHED)}, {int(UrlState.FAILED)})"
)
_VIA = "SELECT via_host, via_hash FROM url WHERE host_id = ? AND hash = ?"
_IS_STORED = "SELECT 1 FROM url WHERE host_id = ? AND hash = ?"


@dataclass(slots=True)
class HostTally:
    """What a batch changes in a host's counters. `budget_used` is `stored` as it stands while the batch runs."""

    budget_used: int = 0
    waiting: int = 0
    stored: int = 0
    pages: int = 0
    awake: bool = False


class Transaction:
    """The changes of one open transaction: rows are written at once, counters when it is finished."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._ids: dict[str, int] = {}
        self._hosts: dict[int, HostTally] = {}
        self._tally: Counter[tuple[str, str]] = Counter()
        self._stored: Counter[tuple[int, int, str]] = Counter()
        self._fetched: Counter[tuple[int, int]] = Counter()
        self._next_seq = number(
            connection, "SELECT number FROM tally WHERE kind = 'total' AND name = 'stored'"
        )

    def apply(self, batch: Batch) -> list[Admitted]:
        """Write all rows of the batch; return what became of its admissions."""
        for host in batch.hosts:
            self._change_host(host)
        refused: list[Refusal] = []
        admitted = self._admit(batch.admissions, refused)
        for change in batch.urls:
            self.change_url(change)
        for redirect in batch.redirects:
            over = admitted[redirect.admission] is Admitted.OVER_BUDGET
            self.change_url(redirect.refused if over else redirect.followed)
        for page in batch.pages:
            self._add_page(page, batch.positions)
        self._save_origins(batch.origins)
        self._refuse(chain(batch.refusals, refused))
        self._connection.executemany(
            "INSERT INTO joined (name) VALUES (?) ON CONFLICT DO NOTHING", [(n,) for n in batch.joined_scope]
        )
        if batch.journal_end is not None:
            self._move_journal(batch.journal_end)
        return admitted

    def finish(self) -> list[str]:
        """Write the counters; return the hosts that got a URL to fetch and are neither parked nor retired."""
        execute = self._connection.execute
        wakened = []
        for id_, host in self._hosts.items():
            found = execute(_COUNT_HOST, (host.waiting, host.stored, host.pages, id_)).fetchone()
            if found and host.awake and found[1] > 0 and found[2] < QueueState.PARKED:
                wakened.append(found[0])
            for name in ("waiting", "stored", "pages"):
                self._tally["total", name] += getattr(host, name)
        for (host_id, template, pattern), n in self._stored.items():
            execute(_TEMPLATE, (host_id, template, pattern, n))
        self._connection.executemany(
            "UPDATE template SET fetched = fetched + ? WHERE host_id = ? AND id = ?",
            [(n, *key) for key, n in self._fetched.items()],
        )
        self._connection.executemany(_TALLY, [(*key, n) for key, n in self._tally.items() if n])
        return wakened

    def ensure_host(self, name: str, *, seed: bool) -> int:
        """Return the host's number, its row made if new and marked if it is a seed's."""
        id_ = self._ids.get(name)
        if id_ is not None and not seed:
            return id_
        found = self._connection.execute(_FIND_HOST, (name,)).fetchone()
        if found is None:
            made = self._connection.execute("INSERT INTO host (name, seed) VALUES (?, ?)", (name, seed))
            found = (made.lastrowid, 0, seed)
            self._tally["total", "hosts"] += 1
        elif seed and not found[2]:
            self._connection.execute("UPDATE host SET seed = 1 WHERE id = ?", (found[0],))
        return self._know(name, found[0], found[1])

    def change_url(self, change: UrlChange) -> None:
        """Give a URL its new state, if the state table allows it from the one it has."""
        found = self._connection.execute(
            _CHANGE[change.state],
            (
                change.reason,
                change.detail,
                change.due_at,
                change.attempts,
                change.uncounted,
                change.respelled,
                change.href or None,
                change.id.host_id,
                rows.signed(change.id.hash),
            ),
        ).fetchone()
        if found is None:
            return
        host = self._host(change.id.host_id)
        if not change.state.settled:
            host.awake = True
            return
        host.waiting -= 1
        self._tally["settled", settled_name(change.state, change.reason)] += 1
        if change.state is UrlState.FETCHED:
            self._fetched[change.id.host_id, found[0]] += 1

    def forget_page(self, host_id: int, hash_: int) -> bool:
        """Set a URL (signed hash) whose page is lost waiting as if it had never been asked for; False if it had none.

        An error page that was kept belongs to a URL that failed: that waits again, too.
        """
        execute = self._connection.execute
        host = self._host(host_id)
        lost = execute("DELETE FROM page WHERE host_id = ? AND hash = ?", (host_id, hash_)).rowcount
        host.pages -= lost
        found = execute(_SETTLED_WITH_PAGE, (host_id, hash_)).fetchone() if lost else None
        if found is None:
            return False
        template, state, why = found[0], UrlState(found[1]), rows.reason(found[2])
        execute(
            "UPDATE url SET state = 0, reason = NULL, detail = '', due_at = 0, attempts = 0, uncounted = 0 "
            "WHERE host_id = ? AND hash = ?",
            (host_id, hash_),
        )
        host.waiting += 1
        host.awake = True
        self._tally["settled", settled_name(state, why)] -= 1
        if state is UrlState.FETCHED:
            self._fetched[host_id, template] -= 1
        return True

    def _know(self, name: str, id_: int, stored: int) -> int:
        self._ids[name] = id_
        host = self._host(id_)
        host.budget_used = stored + host.stored
        return id_

    def _host(self, id_: int) -> HostTally:
        host = self._hosts.get(id_)
        if host is None:
            host = self._hosts[id_] = HostTally()
        return host

    def _change_host(self, change: HostChange) -> None:
        before = self._connection.execute(_FIND_HOST, (change.name,)).fetchone()
        state = change.state if change.state in DURABLE_STATES else QueueState.READY
        found = self._connection.execute(
            _HOST,
            (
                change.name,
                state,
                change.reason,
                change.detail,
                change.next_ok_at,
                change.cause,
                change.pace.delay_s,
                change.pace.crawl_delay_s,
                change.pace.overloads,
                change.pace.failures,
                rows.json_texts(change.addresses.addresses),
                change.addresses.expires_at,
                change.contacted_at,
            ),
        ).fetchone()
        if before is None:
            self._tally["total", "hosts"] += 1
        self._know(change.name, found[0], found[1])

    def _admit(self, admissions: Sequence[Admission], refused: list[Refusal]) -> list[Admitted]:
        verdicts = []
        for admission in admissions:
            verdict = self._admit_one(admission)
            verdicts.append(verdict)
            if verdict is Admitted.OVER_BUDGET:
                evidence = f"{admission.host} has {admission.budget} URLs stored"
                refused.append(Refusal(Reason.HOST_BUDGET, admission.href, evidence))
        return verdicts

    def _admit_one(self, a: Admission) -> Admitted:
        host_id = self._ids.get(a.host)
        if host_id is None or a.seed:
            host_id = self.ensure_host(a.host, seed=a.seed)
        host = self._hosts[host_id]
        hash_ = rows.signed(a.hash)
        execute = self._connection.execute
        if host.budget_used >= a.budget:
            stored = execute(_IS_STORED, (host_id, hash_)).fetchone()
            return Admitted.SEEN if stored else Admitted.OVER_BUDGET
        template = template_id(a.template)
        made = execute(
            _ADMIT,
            (
                host_id,
                hash_,
                self._next_seq,
                a.key,
                None if a.href == a.key else a.href,
                template,
                a.band,
                a.depth,
                *self._via(a),
                rows.json_texts(a.chain) if a.chain else None,
                a.seed,
                a.schemeless,
            ),
        )
        if not made.rowcount:
            return Admitted.SEEN
        self._next_seq += 1
        host.budget_used += 1
        host.stored += 1
        host.waiting += 1
        host.awake = True
        self._stored[host_id, template, a.template] += 1
        return Admitted.NEW

    def _via(self, a: Admission) -> tuple[int | None, int | None]:
        """Return the key of the page that a URL was found on; one that was redirected to was found where its source was."""
        if a.via is not None:
            return a.via.host_id, rows.signed(a.via.hash)
        if a.source is None:
            return None, None
        of_source = (a.source.host_id, rows.signed(a.source.hash))
        return self._connection.execute(_VIA, of_source).fetchone() or (None, None)

    def _add_page(self, page: PageRow, positions: Sequence[Position]) -> None:
        position = positions[page.frame] if page.frame >= 0 else None
        made = self._connection.execute(
            _PAGE,
            (
                page.id.host_id,
                rows.signed(page.id.hash),
                page.status,
                page.fetched_at,
                page.body_digest,
                page.text_digest,
                None if page.fingerprint is None else rows.signed(page.fingerprint),
                page.etag,
                page.last_modified,
                position.segment if position else None,
                position.offset if position else None,
            ),
        )
        self._host(page.id.host_id).pages += made.rowcount

    def _save_origins(self, origins: Iterable[OriginRecord]) -> None:
        self._connection.executemany(
            _ORIGIN,
            [(o.origin, o.access, o.fetched_at, o.expires_at, msgspec.msgpack.encode(o)) for o in origins],
        )

    def _refuse(self, refusals: Iterable[Refusal]) -> None:
        """Count refusals; keep the first of each reason as samples, a URL once."""
        execute = self._connection.execute
        room: dict[Reason, int] = {}
        for refusal in refusals:
            reason = refusal.reason
            self._tally["refused", reason] += 1
            left = room.get(reason)
            if left is None:
                query = "SELECT count(*) FROM refusal WHERE reason = ?"
                left = SAMPLES_A_REASON - int(execute(query, (reason,)).fetchone()[0])
            if left > 0:
                left -= execute(
                    "INSERT INTO refusal (reason, url, evidence) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
                    (reason, refusal.url, refusal.evidence),
                ).rowcount
            room[reason] = left

    def _move_journal(self, end: Position) -> None:
        moved = self._connection.execute(
            'UPDATE crawl SET segment = ?, "offset" = ?', (end.segment, end.offset)
        )
        if not moved.rowcount:
            raise RuntimeError("a batch with a journal position was committed before the crawl was opened")


def commit(connection: sqlite3.Connection, batch: Batch) -> Committed:
    """Apply `batch` within the open transaction."""
    changes = Transaction(connection)
    admitted = changes.apply(batch)
    return Committed(admitted, changes.finish())


def template_id(pattern: str) -> int:
    """Return a template's number, as stored: the signed 64-bit hash of its pattern."""
    return rows.signed(xxhash.xxh3_64_intdigest(pattern.encode()))


def settled_name(state: UrlState, reason: Reason | None) -> str:
    """Return what a settled URL is counted under: its reason, or how it ended well."""
    return str(reason) if reason else state.name.lower()
