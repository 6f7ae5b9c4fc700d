"""How a stored crawl stands: totals, refusals with samples, hosts, robots.txt, templates, budgets, journal, sinks.

Whole tables are gone over a page of rows at a time, so that no transaction is long; what is kept of them is bounded.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Final

import msgspec

from mannerly.cli.reader import Stored
from mannerly.model.host import HostRecord, QueueState, WaitCause
from mannerly.model.origin import Access, OriginRecord
from mannerly.model.record import rfc3339
from mannerly.model.task import UrlState
from mannerly.model.verdict import Reason
from mannerly.ports import Counts, Position, Refusal, TemplateCount, UrlRecord

ROWS_AT_ONCE: Final = 2_000
ORIGINS_AT_ONCE: Final = 100
"""Fewer: a ruleset may be large."""

HOSTS_SHOWN: Final = 20
LAID_OFF_SHOWN: Final = 100
ORIGINS_SHOWN: Final = 50
SITEMAPS_SHOWN: Final = 100
TEMPLATES_SHOWN: Final = 20
SAMPLES_SHOWN: Final = 3
ENDED_LOOKED_AT: Final = 500
"""So many of the first refused and failed URLs are looked at for samples of each reason."""
_FAR: Final = 1e11


class Sample(msgspec.Struct, frozen=True):
    """A refused candidate."""

    url: str
    evidence: str


class Refusals(msgspec.Struct, frozen=True):
    """Candidates refused for one reason at intake; one refused on two pages may count twice."""

    reason: str
    sentence: str
    number: int
    samples: list[Sample]


class Settled(msgspec.Struct, frozen=True):
    """URLs that ended in one way: `fetched`, `redirected`, or the reason why there is no page.

    samples: of those without a page, some of the first.
    """

    result: str
    sentence: str
    number: int
    samples: list[Sample] = []


class HostLine(msgspec.Struct, frozen=True):
    """A host. cause: why it is left alone until `next_ok_at`, which is null if it may be asked now."""

    name: str
    state: str
    reason: str | None
    detail: str | None
    waiting: int
    stored: int
    pages: int
    delay_s: float
    crawl_delay_s: float
    failures: int
    next_ok_at: str | None
    cause: str | None


class OriginLine(msgspec.Struct, frozen=True):
    """An origin whose robots.txt is worth a look: unreachable, suspicious, cut, too complex."""

    origin: str
    access: str | None
    flaw: str
    detail: str
    expires_at: str | None


class TemplateLine(msgspec.Struct, frozen=True):
    """A kind of URL of one host."""

    host: str
    template: str
    stored: int
    fetched: int


class SinkLine(msgspec.Struct, frozen=True):
    """How far a sink has come; behind: whether the journal holds pages that it has not got yet."""

    name: str
    segment: int
    offset: int
    behind: bool


class Overview(msgspec.Struct, frozen=True):
    """The answer of `report`. See `mannerly.cli.report` for the meaning of each field."""

    id: str
    folder: str
    seeds: tuple[str, ...]
    scope: dict[str, object]
    running: int | None
    runs: int
    clean: bool
    finished: bool
    pages: int
    waiting: int
    stored: int
    hosts: int
    settled: list[Settled]
    refused: list[Refusals]
    hosts_by_state: dict[str, int]
    busiest_hosts: list[HostLine]
    laid_off_hosts: list[HostLine]
    robots_by_access: dict[str, int]
    robots_flawed: list[OriginLine]
    sitemaps: list[str]
    sitemaps_number: int
    templates: list[TemplateLine]
    budgets: list[str]
    journal_bytes: int
    journal_segments: int
    journal_end: tuple[int, int]
    sinks: list[SinkLine]


async def overview(stored: Stored, now: float) -> Overview:
    """Return how the crawl stands at `now` (UTC seconds)."""
    counts = await stored.store.counts()
    hosts = _Hosts(now)
    async for host in _hosts(stored):
        hosts.take(host)
    origins = _Origins()
    async for origin in _origins(stored):
        origins.take(origin)
    nbytes, segments = journal_size(stored.folder)
    end = stored.record.journal_end
    return Overview(
        id=stored.record.id,
        folder=str(stored.folder),
        seeds=stored.record.seeds,
        scope={**stored.job.scope.record(), "joined": list(stored.record.joined)},
        running=stored.pid,
        runs=stored.record.generation,
        clean=not stored.record.unclean,
        finished=stored.record.finished,
        pages=counts.pages,
        waiting=counts.waiting,
        stored=counts.stored,
        hosts=counts.hosts,
        settled=settled_lines(counts, await _ended(stored)),
        refused=await _refusals(stored, counts),
        hosts_by_state=dict(hosts.states),
        busiest_hosts=[host_line(host, now) for host in hosts.busiest()],
        laid_off_hosts=[host_line(host, now) for host in hosts.laid_off],
        robots_by_access=dict(origins.by_access),
        robots_flawed=origins.flawed,
        sitemaps=origins.sitemaps,
        sitemaps_number=origins.sitemaps_number,
        templates=await _templates(stored),
        budgets=budget_lines(stored, counts),
        journal_bytes=nbytes,
        journal_segments=segments,
        journal_end=(end.segment, end.offset),
        sinks=[
            SinkLine(sink.name, sink.position.segment, sink.position.offset, behind(sink.position, end))
            for sink in await stored.store.sinks()
        ],
    )


def behind(position: Position, end: Position) -> bool:
    """Tell whether the journal holds frames between `position` and `end`."""
    return position < end


# -------------------------------------------------------------------------------------------------- whole tables


async def _hosts(stored: Stored) -> AsyncIterator[HostRecord]:
    after = -1
    while rows := await stored.store.scan_hosts(after, limit=ROWS_AT_ONCE):
        for row in rows:
            yield row
        after = rows[-1].id


async def _origins(stored: Stored) -> AsyncIterator[OriginRecord]:
    after = ""
    while rows := await stored.store.scan_origins(after, limit=ORIGINS_AT_ONCE):
        for row in rows:
            yield row
        after = rows[-1].origin


async def _templates(stored: Stored) -> list[TemplateLine]:
    """Return the templates with the most URLs."""
    after: TemplateCount | None = None
    top: list[tuple[int, int, int, TemplateCount]] = []
    while rows := await stored.store.scan_templates(after, limit=ROWS_AT_ONCE):
        keyed = ((row.stored, row.host_id, row.id, row) for row in rows)
        top = heapq.nlargest(TEMPLATES_SHOWN, [*top, *keyed], key=lambda item: item[:3])
        after = rows[-1]
    return [TemplateLine(row.host, row.pattern, row.stored, row.fetched) for *_, row in top]


class _Hosts:
    """Takes hosts in one by one; keeps counts, the busiest and those laid off."""

    def __init__(self, now: float) -> None:
        self._now = now
        self._busiest: list[tuple[int, int, HostRecord]] = []
        self.states: Counter[str] = Counter()
        self.laid_off: list[HostRecord] = []

    def take(self, host: HostRecord) -> None:
        """Take one host in."""
        self.states[state_of(host, self._now)] += 1
        if host.state in (QueueState.PARKED, QueueState.RETIRED):
            if len(self.laid_off) < LAID_OFF_SHOWN:
                self.laid_off.append(host)
            return
        item = (host.waiting, -host.id, host)
        if len(self._busiest) < HOSTS_SHOWN:
            heapq.heappush(self._busiest, item)
        else:
            heapq.heappushpop(self._busiest, item)

    def busiest(self) -> list[HostRecord]:
        """Return the hosts with the most URLs waiting, most first."""
        return [host for *_, host in sorted(self._busiest, reverse=True)]


class _Origins:
    """Takes origins in one by one; keeps counts, those with a flaw, and sitemaps."""

    def __init__(self) -> None:
        self.by_access: Counter[str] = Counter()
        self.flawed: list[OriginLine] = []
        self.sitemaps: list[str] = []
        self.sitemaps_number = 0

    def take(self, origin: OriginRecord) -> None:
        """Take one origin in."""
        self.by_access[str(origin.access or "not-asked")] += 1
        flaw = flaw_of(origin)
        if flaw and len(self.flawed) < ORIGINS_SHOWN:
            self.flawed.append(
                OriginLine(origin.origin, origin.access, flaw, origin.detail, _iso(origin.expires_at))
            )
        if origin.ruleset is not None:
            self.sitemaps_number += len(origin.ruleset.sitemaps)
            self.sitemaps.extend(origin.ruleset.sitemaps[: SITEMAPS_SHOWN - len(self.sitemaps)])


# ---------------------------------------------------------------------------------------------------------- lines


def state_of(host: HostRecord, now: float) -> str:
    """Return the state of a host as it stands in the store: snoozed is worked out, in process is memory's alone."""
    if host.state in (QueueState.PARKED, QueueState.RETIRED):
        return host.state.name.lower()
    if not host.waiting:
        return "exhausted"
    return "snoozed" if host.next_ok_at > now else "ready"


def host_line(host: HostRecord, now: float) -> HostLine:
    """Return what is shown of a host."""
    waits = host.next_ok_at > now
    return HostLine(
        name=host.name,
        state=state_of(host, now),
        reason=host.reason,
        detail=host.detail or None,
        waiting=host.waiting,
        stored=host.stored,
        pages=host.pages,
        delay_s=host.pace.delay_s,
        crawl_delay_s=host.pace.crawl_delay_s,
        failures=host.pace.failures,
        next_ok_at=_iso(host.next_ok_at) if waits else None,
        cause=WaitCause(host.cause).name.lower().replace("_", "-") if waits else None,
    )


def flaw_of(origin: OriginRecord) -> str:
    """Return what is worth a look at an origin's robots.txt, '' for nothing."""
    ruleset = origin.ruleset
    flaws: Iterable[tuple[str, bool]] = (
        ("unreachable", origin.access is Access.UNREACHABLE),
        ("too complex", ruleset is not None and ruleset.too_complex),
        ("looks like HTML or binary data", ruleset is not None and ruleset.suspicious),
        ("longer than is read", ruleset is not None and ruleset.cut),
        ("denied", origin.access is Access.UNAVAILABLE and _denied(origin.detail)),
    )
    return ", ".join(name for name, is_so in flaws if is_so)


def _denied(detail: str) -> bool:
    return any(status in detail for status in ("401", "403"))


def settled_lines(counts: Counts, ended: Iterable[UrlRecord] = ()) -> list[Settled]:
    """Return how many URLs ended in which way, most first; `ended`: URLs without a page, for samples."""
    samples: dict[str, list[Sample]] = {}
    for record in ended:
        held = samples.setdefault(str(record.reason), [])
        if len(held) < SAMPLES_SHOWN:
            held.append(Sample(record.href, record.detail))
    rows = sorted(counts.settled.items(), key=lambda row: (-row[1], row[0]))
    return [Settled(name, _sentence(name), number, samples.get(name, [])) for name, number in rows]


async def _ended(stored: Stored) -> list[UrlRecord]:
    """Return some of the first URLs that were refused or failed."""
    return [
        record
        for state in (UrlState.REFUSED, UrlState.FAILED)
        for record in await stored.store.urls(state=state, limit=ENDED_LOOKED_AT)
    ]


async def _refusals(stored: Stored, counts: Counts) -> list[Refusals]:
    rows = sorted(counts.refused.items(), key=lambda row: (-row[1], row[0]))
    lines = []
    for name, number in rows:
        samples = await stored.store.refusals(Reason(name), limit=SAMPLES_SHOWN)
        lines.append(Refusals(name, _sentence(name), number, [_sample(sample) for sample in samples]))
    return lines


def _sample(refusal: Refusal) -> Sample:
    return Sample(refusal.url, refusal.evidence)


def _sentence(name: str) -> str:
    try:
        return Reason(name).sentence
    except ValueError:
        return {"fetched": "a page was taken", "redirected": "it leads to another URL"}.get(name, "")


def budget_lines(stored: Stored, counts: Counts) -> list[str]:
    """Return which budgets bit, each with the option that says how large it is."""
    budget, refused = stored.config.budget, counts.refused
    lines = []
    if budget.max_pages and counts.pages >= budget.max_pages:
        lines.append(f"--max-pages {budget.max_pages:,} was reached")
    if number := refused.get(Reason.MAX_DEPTH):
        lines.append(f"--max-depth {budget.max_depth}: {number:,} links lie deeper")
    if number := refused.get(Reason.HOST_BUDGET):
        lines.append(
            f"[budget] urls_per_seed_host = {budget.urls_per_seed_host:,}, "
            f"urls_per_found_host = {budget.urls_per_found_host:,}: {number:,} links not taken"
        )
    if number := counts.settled.get(Reason.REDIRECT_CHAIN_TOO_LONG):
        lines.append(f"[budget] redirect_chain = {budget.redirect_chain}: {number:,} URLs ended")
    return lines


def journal_size(folder: Path) -> tuple[int, int]:
    """Return the bytes and the number of the journal's segments."""
    sizes = []
    for path in (folder / "journal").glob("*.pages"):
        try:
            sizes.append(path.stat().st_size)
        except FileNotFoundError:  # dropped meanwhile: every sink is past it
            continue
    return sum(sizes), len(sizes)


def _iso(at: float) -> str | None:
    return rfc3339(at) if 0 < at < _FAR else None
