"""One page, fetched as a crawl of that page alone, for `fetch` and `shell`: robots.txt, gate and redirects included.

The state is in memory and the journal in a temporary folder; nothing of either is left.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import click

from mannerly.cli.assemble import crawl as assemble
from mannerly.cli.assemble import reading
from mannerly.cli.finding import Finding, Found, find_out
from mannerly.cli.job import Job, job_of
from mannerly.cli.options import read_config, with_network
from mannerly.cli.reader import Stored
from mannerly.clock import SystemClock
from mannerly.coordinator.service import Status
from mannerly.model.config import Config, JournalConfig, OutputConfig, ScopeConfig
from mannerly.model.errors import MannerlyError, first_of
from mannerly.model.frame import PageFrame
from mannerly.ports import CrawlRecord, Sink

LONG_WAIT_S: Final = 3.0
"""From here on a wait is told: a Crawl-delay of a minute looks like a hang."""

FALL_BACK_PATIENCE_S: Final = 5.0


class NoPage(MannerlyError):
    """The URL gave no page: it was refused, or the exchange failed."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A sink that keeps the frames in a list."""

    frames: list[PageFrame]

    @property
    def name(self) -> str:
        """Name under which the position is stored."""
        return "kept"

    def open(self, state: str | None) -> bool:
        """Make ready."""
        return state is not None

    def write(self, frames: Sequence[PageFrame]) -> None:
        """Keep the frames."""
        self.frames.extend(frames)

    def sync(self) -> str:
        """Nothing is to be made durable."""
        return ""

    def close(self) -> None:
        """Nothing is to be closed."""


def job_for(
    url: str, typed: Mapping[str, Any], *, command: str, text: bool, links: bool, keep_body: bool = False
) -> Job:
    """Return the job of fetching one page; raise ConfigRefused for what is not carried out."""
    config = one_page_config(with_network(read_config(typed["config_file"]), typed), text=text, links=links)
    job = job_of(config, [url], now=SystemClock().now(), command=command)
    if job.seeds[0].schemeless:
        # where https fails http is tried, and the host may be left alone for a moment in between
        politeness = replace(config.politeness, patience_s=FALL_BACK_PATIENCE_S)
        job = replace(job, config=replace(config, politeness=politeness))
    return replace(job, keep_body=keep_body)


def one_page_config(config: Config, *, text: bool, links: bool) -> Config:
    """Return the configuration for the page asked for and where it redirects to, and nothing else.

    Redirects may lead anywhere, as each hop is asked for on its own; links are refused by their depth.
    """
    return replace(
        config,
        scope=ScopeConfig(kind="any", strip_parameters=config.scope.strip_parameters),
        budget=replace(config.budget, max_pages=1, max_depth=0, max_time_s=0.0),
        politeness=replace(config.politeness, patience_s=0.0),
        output=OutputConfig(errors=True),
        select=replace(config.select, text=config.select.text or text, links=config.select.links or links),
        workers=replace(config.workers, workers=1),
        journal=JournalConfig(min_free_bytes=0),
    )


def fetched(job: Job) -> PageFrame:
    """Fetch the page; raise NoPage with the reason if it gave none."""
    try:
        return asyncio.run(_fetched(job))
    except* MannerlyError as group:
        raise first_of(group) from group


async def _fetched(job: Job) -> PageFrame:
    kept = Kept([])

    def sinks(_record: CrawlRecord) -> list[Sink]:
        return [kept]

    with tempfile.TemporaryDirectory(prefix="mannerly-") as folder:
        async with assemble.embedded(
            job, folder=Path(folder), sinks=sinks, progress=tell_long_wait(), event=_unheard, memory=True
        ) as parts:
            await parts.crawl.run()
            if kept.frames:
                return kept.frames[0]
            stored = Stored(
                folder=Path(folder),
                record=parts.record,
                job=job,
                intake=reading.intake(job, parts.record, parts.store),
                store=parts.store,
                pid=None,
            )
            raise no_page(await find_out(stored, job.seeds[0].text, SystemClock().now()))


def _unheard(_name: str, _fields: dict[str, object]) -> None:
    """Events go unheard: what stopped the page is told at the end, with its reason."""


def tell_long_wait() -> Callable[[Status], None]:
    """Return a listener that tells the first long wait on stderr."""
    told = False

    def listen(status: Status) -> None:
        nonlocal told
        if not told and not status.in_flight and (status.next_due_s or 0.0) >= LONG_WAIT_S:
            told = True
            click.echo(f"waiting {status.next_due_s:.0f} s: the delay that the host asks for", err=True)

    return listen


def no_page(finding: Finding) -> NoPage:
    """Return the error that says why there is no page: the last hop's reason, and what can be done."""
    while finding.redirect is not None:
        finding = finding.redirect
    if finding.verdict is Found.WAITING:
        return _still_waiting(finding)
    evidence = f" ({finding.evidence})" if finding.evidence else ""
    return NoPage(
        f"{finding.url}: {finding.sentence or 'no page'}{evidence}", hint=_HINTS.get(finding.reason or "", "")
    )


def _still_waiting(finding: Finding) -> NoPage:
    """Return the error for a URL that a crawl would ask for again later."""
    robots, host = finding.robots, finding.host
    again = f"; a crawl would try again after {finding.due_at}" if finding.due_at else ""
    if robots is not None and robots.obeyed and robots.allowed is False:
        return NoPage(
            f"{finding.url}: {robots.origin}/robots.txt cannot be read ({robots.detail or 'no answer'})",
            hint=f"nothing is fetched until it can (RFC 9309, 2.3.1.4){again}",
        )
    why = finding.evidence or (host.cause if host is not None else "no answer")
    return NoPage(f"{finding.url}: {why}", hint=f"the host did not give the page now{again}")


_HINTS: Final = {
    "robots-disallowed": "the site asks not to fetch it; --ignore-robots needs --authorization FILE",
    "address-refused": "--allow-private-addresses, if this is your own machine or network",
    "port-refused": "--port N lets another port be dialled",
    "no-contact": "--contact you@example.org says who asks",
    "name-not-found": "check the spelling, or give --resolve NAME=ADDR",
    "tls-failed": "http:// fetches without TLS, if the site offers it",
}
