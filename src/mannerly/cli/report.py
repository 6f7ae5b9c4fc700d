"""`mannerly report`: how a crawl stands and what was refused, while it runs and after.

`--json` prints one object. Lists are bounded: the largest, or the first in order of their names, are shown.

    id, folder, seeds, scope{kind, bases, includes, excludes, authorized, joined}
    running          process that crawls now (0 if not known), null if none
    runs, clean, finished    runs begun; whether the last one ended cleanly; whether nothing is left to do
    pages, waiting, stored, hosts    totals over all runs
    settled[]        result, sentence, number, samples[{url, evidence}]: `fetched`, `redirected`, or why there is no page
    refused[]        reason, sentence, number, samples[{url, evidence}]: links that were not taken
    hosts_by_state   ready, snoozed (until its next_ok_at), exhausted (nothing waits), parked, retired
    busiest_hosts[], laid_off_hosts[]    name, state, reason, detail, waiting, stored, pages, delay_s, crawl_delay_s,
                     failures, next_ok_at, cause
    robots_by_access available, unavailable, unreachable, not-asked: numbers of origins
    robots_flawed[]  origin, access, flaw, detail, expires_at
    sitemaps[], sitemaps_number    collected from robots.txt
    templates[]      host, template, stored, fetched
    budgets[]        sentences: which budget bit
    journal_bytes, journal_segments, journal_end[segment, offset]
    sinks[]          name, segment, offset, behind
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import click
import msgspec

from mannerly.cli.overview import HostLine, Overview, Sample, overview
from mannerly.cli.pipe import while_read
from mannerly.cli.reader import opened, state_folder, state_option
from mannerly.cli.tables import show_facts, show_table, size
from mannerly.clock import SystemClock
from mannerly.model.printable import printable

SITEMAPS_PRINTED = 10


@click.command("report", short_help="tell how a crawl stands, and what was refused")
@click.option("--json", "as_json", is_flag=True, help="one JSON object")
@state_option
def command(*, as_json: bool, state: str | None) -> None:
    """Tell how a crawl stands: totals, refusals with samples, hosts, robots.txt, budgets, sinks."""
    found = asyncio.run(_overview(state_folder(state)))
    with while_read():
        if as_json:
            click.echo(msgspec.json.format(msgspec.json.encode(found), indent=2))
        else:
            show(found)


async def _overview(folder: Path) -> Overview:
    async with opened(folder) as stored:
        return await overview(stored, SystemClock().now())


def show(found: Overview) -> None:
    """Print the report for people."""
    click.echo(f"crawl {found.id} in {printable(found.folder)}")
    show_facts(
        [
            ("seeds", _some(found.seeds, 5)),
            ("scope", _scope_text(found)),
            ("state", _standing(found)),
            ("pages", f"{found.pages:,}"),
            ("URLs", f"{found.stored:,} stored, {found.waiting:,} waiting; hosts: {found.hosts:,}"),
            ("hosts", ", ".join(f"{number:,} {name}" for name, number in found.hosts_by_state.items())),
            ("robots.txt", ", ".join(f"{n:,} {access}" for access, n in found.robots_by_access.items())),
            ("journal", f"{size(found.journal_bytes)}, segments: {found.journal_segments:,}"),
        ]
    )
    show_table(
        "how URLs ended",
        ("URLs", "result", "sample", "evidence"),
        [(line.number, line.result, *_first(line.samples)) for line in found.settled],
    )
    show_table(
        "links not taken",
        ("number", "reason", "sample", "evidence"),
        [(line.number, line.reason, *_first(line.samples)) for line in found.refused],
    )
    show_table("hosts with the most URLs waiting", _HOST_HEAD, [_host_row(h) for h in found.busiest_hosts])
    show_table(
        "hosts laid off for this run",
        ("host", "state", "reason", "detail", "waiting"),
        [(h.name, h.state, h.reason or "", h.detail or "", h.waiting) for h in found.laid_off_hosts],
    )
    show_table(
        "robots.txt worth a look",
        ("origin", "access", "flaw", "detail"),
        [(o.origin, o.access or "", o.flaw, o.detail) for o in found.robots_flawed],
    )
    show_table(
        f"sitemaps named by robots.txt ({found.sitemaps_number:,})",
        ("URL",),
        [(url,) for url in found.sitemaps[:SITEMAPS_PRINTED]],
    )
    show_table(
        "kinds of URLs",
        ("stored", "fetched", "host", "template"),
        [(t.stored, t.fetched, t.host, t.template) for t in found.templates],
    )
    show_table("budgets that bit", ("budget",), [(line,) for line in found.budgets])
    show_table(
        "sinks",
        ("sink", "position", ""),
        [(s.name, f"{s.segment}:{s.offset}", "behind" if s.behind else "up to date") for s in found.sinks],
    )


_HOST_HEAD = ("host", "state", "waiting", "pages", "delay", "failures", "next")


def _host_row(host: HostLine) -> tuple[str | int, ...]:
    until = f"{host.next_ok_at} ({host.cause})" if host.next_ok_at else ""
    delay = f"{max(host.delay_s, host.crawl_delay_s):g} s"
    return host.name, host.state, host.waiting, host.pages, delay, host.failures, until


def _first(samples: list[Sample]) -> tuple[str, str]:
    return (samples[0].url, samples[0].evidence) if samples else ("", "")


def _some(texts: tuple[str, ...], most: int) -> str:
    more = f" and {len(texts) - most:,} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more


def _scope_text(found: Overview) -> str:
    bases = found.scope["bases"]
    assert isinstance(bases, list)
    return f"{found.scope['kind']}: {_some(tuple(bases), 5)}" if bases else str(found.scope["kind"])


def _standing(found: Overview) -> str:
    runs = f"{found.runs:,} run{'s' if found.runs != 1 else ''}"
    if found.running is not None:
        return f"running, process {found.running or 'unknown'}; {runs}"
    if not found.clean:
        return f"the last run did not end cleanly: the same command goes on with it; {runs}"
    return f"{'finished' if found.finished else 'stopped: the same command goes on with it'}; {runs}"
