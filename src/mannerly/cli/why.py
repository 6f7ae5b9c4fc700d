"""`mannerly why URL`: the verdict on one URL of a crawl, the reason, and the evidence.

Exit: 0 fetched or waiting, 1 refused or failed, 3 never seen (then the verdict that it would get), 2 and 78 as ever. A
redirect counts as where it leads.

`--json` prints one object. What is not known is null; instants are RFC 3339, UTC.

    asked            the text of the command line
    url, key         the URL as fetched (or as it would be), and its canonical form
    verdict          fetched | waiting | redirected | refused | failed | never-seen
    allowed          whether it was, or would be, fetched
    reason, sentence, evidence    one of the closed list; the same in words; what decided
    state            waiting, delayed, fetched, redirected, refused, failed; null if it is not stored
    status, fetched_at            of the page
    due_at           no earlier than this is it asked for: null if it may be now
    attempts, depth, via, redirected_from, template
    spelled          the URL as asked, if another spelling of the same key was fetched
    refused_alike    refused candidates of this reason, if too many were to remember each: this may be one of them
    host             name, state (ready | parked | retired), reason, detail, next_ok_at, cause, delay_s,
                     crawl_delay_s, overloads, failures, waiting, stored, pages, budget; null for a host never seen
    robots           origin, obeyed, access, allowed, rule, reason, detail, fetched_at, expires_at, expired,
                     crawl_delay_s, suspicious
    redirect         the same object for the URL that a redirect leads to
    crawl            id, folder, running (process id, 0 if not known; null if none runs), finished
    notes            sentences that explain the rest
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from mannerly.cli.finding import Finding, Found, HostView, RobotsView, find_out
from mannerly.cli.main import UsageRefused
from mannerly.cli.meaning import schemeless
from mannerly.cli.pipe import while_read
from mannerly.cli.reader import Stored, opened, state_folder, state_option
from mannerly.cli.tables import show_facts
from mannerly.clock import SystemClock
from mannerly.model.printable import printable
from mannerly.ports import Counts

_COLOURS: Final = {
    Found.FETCHED: "green",
    Found.WAITING: "yellow",
    Found.REDIRECTED: "green",
    Found.REFUSED: "red",
    Found.FAILED: "red",
    Found.NEVER_SEEN: "cyan",
}


@click.command("why", short_help="tell why a URL was or was not fetched")
@click.argument("url")
@click.option("--json", "as_json", is_flag=True, help="one JSON object")
@state_option
@click.pass_context
def command(ctx: click.Context, /, *, url: str, as_json: bool, state: str | None) -> None:
    """Tell why URL was or was not fetched: verdict, reason, evidence.

    A host without a scheme, or a path, is looked for at the seeds of the crawl.
    Exit: 0 fetched or waiting, 1 refused or failed, 3 never seen (then the verdict that it would get).
    """
    if not url.strip():
        raise UsageRefused(
            "the URL is empty", hint="mannerly why URL: one of the crawl, or a path at its seeds"
        )
    finding = asyncio.run(answer(state_folder(state), url, as_json=as_json))
    ctx.exit(finding.exit_code)


async def answer(folder: Path, url: str, *, as_json: bool) -> Finding:
    """Find out and print; return the finding."""
    async with opened(folder) as stored:
        finding = await find_out(stored, url, SystemClock().now())
        notes = notes_on(finding, stored, await stored.store.counts())
    with while_read():
        if as_json:
            click.echo(msgspec.json.format(msgspec.json.encode(whole(finding, stored, notes)), indent=2))
        else:
            show(finding)
            for note in notes:
                click.echo(f"  {printable(note, limit=1_000)}")
    return finding


def whole(finding: Finding, stored: Stored, notes: list[str]) -> dict[str, Any]:
    """Return the object of `--json`."""
    return {
        **msgspec.to_builtins(finding),
        "crawl": {
            "id": stored.record.id,
            "folder": str(stored.folder),
            "running": stored.pid,
            "finished": stored.record.finished,
        },
        "notes": notes,
    }


def notes_on(finding: Finding, stored: Stored, counts: Counts) -> list[str]:
    """Return what explains the finding besides its own reason."""
    notes: list[str] = []
    if finding.key is not None and schemeless(finding.asked):
        notes.append(f"{finding.asked} names no scheme: taken as {finding.url}")
    robots = finding.robots
    forbidden = robots is not None and robots.obeyed and robots.allowed is False
    if robots is not None and robots.access and finding.key == f"{robots.origin}/robots.txt":
        notes.append("it was asked for as the robots.txt of its origin, not as a page")
    if finding.verdict is Found.WAITING:
        if forbidden:
            notes.append(
                "robots.txt, as it was read last, forbids it: so it ends unless that changes by its turn"
            )
        notes.append(
            "no crawl is running: the same `mannerly crawl` command goes on with it"
            if stored.pid is None
            else f"the crawl is running (process {stored.pid or 'unknown'})"
        )
        most = stored.config.budget.max_pages
        if most and counts.pages >= most:
            notes.append(f"the page budget is spent: --max-pages {most:,}")
    if finding.verdict is Found.NEVER_SEEN and finding.allowed:
        notes.append("it would be fetched if a page linked to it")
        if stored.config.budget.max_depth > 0:
            notes.append(f"that is, from a page at most {stored.config.budget.max_depth - 1} links deep")
    if finding.refused_alike is not None:
        notes.append(
            f"{finding.refused_alike:,} candidates were refused for this reason, too many to remember each: "
            "whether this is one of them is not known"
        )
    return notes


def show(finding: Finding, *, indent: int = 0) -> None:
    """Print a finding for people."""
    blanks = " " * indent
    word = "never seen" if finding.verdict is Found.NEVER_SEEN else str(finding.verdict)
    click.echo(
        f"{blanks}{click.style(word, fg=_COLOURS[finding.verdict], bold=True)}  {printable(finding.url, limit=2_000)}"
    )
    show_facts(facts_of(finding), indent=indent + 2)
    if finding.redirect is not None:
        click.echo(f"{blanks}  and there:")
        show(finding.redirect, indent=indent + 4)


def facts_of(finding: Finding) -> list[tuple[str, str]]:
    """Return label and value of each fact; '' for what is not known."""
    would = "would be" if finding.verdict is Found.NEVER_SEEN else "reason"
    reason = f"{finding.reason}: {finding.sentence}" if finding.reason else ""
    if finding.verdict is Found.NEVER_SEEN:
        reason = f"refused, {reason}" if reason else "allowed"
    return [
        (would, reason),
        ("leads to" if finding.verdict is Found.REDIRECTED else "evidence", finding.evidence or ""),
        ("status", str(finding.status) if finding.status else ""),
        ("fetched at", finding.fetched_at or ""),
        ("due at", finding.due_at or ""),
        ("attempts", str(finding.attempts) if finding.attempts else ""),
        ("depth", str(finding.depth) if finding.depth is not None else ""),
        ("via", finding.via or ""),
        ("redirected from", " -> ".join(finding.redirected_from)),
        ("asked as", finding.spelled or ""),
        ("key", finding.key or "" if finding.key != finding.url else ""),
        ("template", finding.template or ""),
        ("host", host_text(finding.host) if finding.host is not None else "never seen"),
        ("robots.txt", robots_text(finding.robots) if finding.robots is not None else ""),
    ]


def host_text(host: HostView) -> str:
    """Return the state of a host in a line."""
    parts = [host.name, host.state + (f" ({host.reason}: {host.detail or ''})" if host.reason else "")]
    if host.next_ok_at and host.cause != "delay":
        parts.append(f"left alone until {host.next_ok_at} ({host.cause})")
    parts.append(f"{host.delay_s:g} s between requests")
    if host.crawl_delay_s:
        parts.append(f"Crawl-delay {host.crawl_delay_s:g} s")
    if host.failures:
        parts.append(f"{host.failures} failures in a row")
    parts.append(f"{host.waiting:,} URLs waiting of {host.stored:,}")
    parts.append(f"{host.pages:,} pages")
    return ", ".join(parts)


def robots_text(robots: RobotsView) -> str:
    """Return what robots.txt says in a line."""
    if robots.access is None:
        return f"{robots.origin}/robots.txt was not asked for yet"
    says = {True: "allows it", False: "forbids it", None: "says nothing"}[robots.allowed]
    parts = [f"{robots.access}, {says}"]
    if robots.rule:
        parts.append(f"by the line {robots.rule}")
    elif robots.access == "available" and robots.allowed:
        parts.append("no rule matches")
    if robots.access != "available" and robots.detail:
        parts.append(robots.detail)
    if robots.fetched_at:
        parts.append(f"read {robots.fetched_at}")
    if robots.expired:
        parts.append("expired: asked for again before anything is fetched")
    if robots.suspicious:
        parts.append("it looks like HTML or binary data")
    if not robots.obeyed:
        parts.append("not obeyed, under a written authorization")
    return ", ".join(parts)
