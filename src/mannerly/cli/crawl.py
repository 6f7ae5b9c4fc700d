"""`mannerly crawl`: crawl sites into a state folder, print one JSON object a page, resume by the same command."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import shutil
import signal
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from mannerly.cli import log
from mannerly.cli.ahead import anew, check_ahead, configuration_used
from mannerly.cli.assemble import crawl as assemble
from mannerly.cli.job import Job, job_of
from mannerly.cli.main import EXIT_INTERRUPTED
from mannerly.cli.options import changed, network_options, read_config, with_network
from mannerly.cli.progress import Progress
from mannerly.clock import SystemClock
from mannerly.coordinator.service import Crawl, Ending, Summary
from mannerly.model.config import Config, check
from mannerly.model.errors import ConfigRefused, DiskFull, MannerlyError, first_of
from mannerly.model.printable import printable
from mannerly.ports import CrawlRecord, Sink

DEFAULT_CONFIG = "crawl.toml"
NO_PAGE = "no seed gave a page; `mannerly report` lists why"


@click.command("crawl", short_help="crawl a site, or many")
@click.argument("urls", nargs=-1, metavar="[URL]...")
@click.option("-i", "--input", "input_file", metavar="FILE|-", help="seeds, one a line; # begins a comment")
@click.option("--state", metavar="DIR", help="the state folder [./crawl-HOST]")
@click.option("--fresh", is_flag=True, help="move the state folder aside and begin anew")
@click.option("-o", "--output", metavar="FILE|-", help="pages: .csv for CSV, else JSON lines [-]")
@click.option("--overwrite", is_flag=True, help="take an output file that this crawl did not write")
@click.option("--text", is_flag=True, help="put the main text into the records")
@click.option("--links", is_flag=True, help="put the links into the records")
@click.option("--errors", is_flag=True, help="records for 4xx and 5xx too")
@click.option(
    "--scope", type=click.Choice(["host", "domain", "prefix", "any"]), help="what belongs to the crawl [host]"
)
@click.option("--include", multiple=True, metavar="RE", help="only URLs that match one of these (RE2)")
@click.option("--exclude", multiple=True, metavar="RE", help="no URL that matches one of these (RE2)")
@click.option("--max-pages", type=int, metavar="N", help="over all runs; 0: no limit [0]")
@click.option("--max-depth", type=int, metavar="N", help="links from a seed; -1: no limit [-1]")
@click.option("--max-time", type=float, metavar="S", help="seconds of this run; 0: no limit [0]")
@click.option("--patience", type=float, metavar="S", help="most to wait for hosts in back-off [60]")
@click.option("--per-host", type=int, metavar="N", help="requests at once to a host [1]")
@click.option("--concurrency", type=int, metavar="N", help="requests at once in all [64]")
@click.option("--workers", type=int, metavar="N", help="worker processes [one a core]")
@click.option("--no-index", is_flag=True, help="build no search index (this version builds none)")
@click.option("--dry-run", is_flag=True, help="print configuration, scope and pace; no request, no folder")
@click.option("-q", "--quiet", is_flag=True, help="no progress")
@click.option("-v", "--verbose", is_flag=True, help="log every task")
@click.option("--log-file", metavar="FILE", help="the log, in full")
@network_options
@click.pass_context
def command(ctx: click.Context, /, **typed: Any) -> None:
    """Crawl the sites of the seed URLs, politely, and print one JSON object a page.

    The same command again resumes where it stopped. `mannerly why URL` tells why a page was or was not fetched.
    """
    config = configured(typed)
    seeds = [*typed["urls"], *read_seed_file(typed["input_file"])] or list(config.seeds)
    job = job_of(config, seeds, now=SystemClock().now())
    check_ahead(job, fresh=typed["fresh"], log_file=typed["log_file"])
    for text, why in job.bad_seeds:
        say(f"not a seed: {printable(text)}: {why}")
    if typed["dry_run"]:
        dry_run(job)
        return
    log.start_log(verbose=typed["verbose"], quiet=typed["quiet"], file=typed["log_file"])
    raise_descriptor_limit()
    ctx.exit(crawl(job, fresh=typed["fresh"], quiet=typed["quiet"]))


def configured(typed: Mapping[str, Any]) -> Config:
    """Return the configuration of the file and of what was typed."""
    path = typed["config_file"]
    if path is None and not typed["urls"] and not typed["input_file"] and Path(DEFAULT_CONFIG).exists():
        path = DEFAULT_CONFIG
    config = with_network(read_config(path), typed)

    config = replace(
        config,
        state=typed["state"] or config.state,
        scope=changed(config.scope, kind=typed["scope"], include=typed["include"], exclude=typed["exclude"]),
        budget=changed(
            config.budget,
            max_pages=typed["max_pages"],
            max_depth=typed["max_depth"],
            max_time_s=typed["max_time"],
        ),
        politeness=changed(config.politeness, per_host=typed["per_host"], patience_s=typed["patience"]),
        output=changed(
            config.output, file=typed["output"], overwrite=typed["overwrite"], errors=typed["errors"]
        ),
        select=changed(config.select, text=typed["text"], links=typed["links"]),
        workers=changed(config.workers, workers=typed["workers"], concurrency=typed["concurrency"]),
    )
    check(config)
    return config


def read_seed_file(name: str | None) -> list[str]:
    """Return the seeds in a file, or on stdin for '-'."""
    if name is None:
        return []
    if name == "-" and sys.stdin is None:
        raise no_seeds(name, "it is closed")
    try:
        text = (sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()).decode("utf-8-sig")
    except OSError as error:
        raise no_seeds(name, error.strerror or str(error)) from error
    except ValueError as error:  # bytes that are no UTF-8, a name with a NUL
        raise no_seeds(name, "it is no text in UTF-8") from error
    if "\0" in text:
        raise no_seeds(name, "it is no text")
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def no_seeds(name: str, why: str) -> ConfigRefused:
    """Return the error for seeds that cannot be read."""
    label = "stdin" if name == "-" else f"the seed file {name}"
    return ConfigRefused(
        f"{label} cannot be read: {why}", hint="-i takes a text file with one URL a line, or - for stdin"
    )


def pace_line(job: Job) -> str:
    """Say the pace in one line: what a site owner would see, and how long it takes."""
    politeness, hosts = job.config.politeness, len({seed.url.host for seed in job.seeds})
    at_once = min(politeness.per_host, job.config.workers.concurrency)
    text = f"{hosts} host{'s' * (hosts > 1)}, {at_once} request{'s' * (at_once > 1)} at a time"
    if politeness.min_delay_s <= 0:
        return f"{text}, no delay in between"
    # a page takes the delay and, as a rule of thumb, a fifth of a second to answer
    an_hour = hosts * at_once * 3_600 / (politeness.min_delay_s + 0.2)
    return f"{text}, {politeness.min_delay_s:g} s apart: about {rounded(an_hour):,} pages an hour"


def rounded(number: float) -> int:
    """Return the number to one digit that counts: nobody knows the pace any better."""
    unit = int("1" + "0" * (len(str(int(number))) - 1))
    return max(1, round(number / unit)) * unit


def dry_run(job: Job) -> None:
    """Print what would be done."""
    click.echo(configuration_used(job))
    click.echo(f"scope: {job.scope.kind}, {', '.join(sorted(job.scope.bases)) or 'every URL'}")
    click.echo(f"state: {job.folder}")
    click.echo(pace_line(job))


def crawl(job: Job, *, fresh: bool, quiet: bool) -> int:
    """Crawl; return the exit code."""
    folder = job.folder
    if fresh and folder.exists():
        move_aside(folder)
    make_folder(folder)
    code = 1
    try:
        code = asyncio.run(run(job, folder, quiet=quiet))
    except* MannerlyError as group:
        error = first_of(group)
        raise error from group
    return code


def make_folder(folder: Path) -> None:
    """Make the state folder, if it is not there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFull(f"no space is left for {folder}", hint="make space, then try again") from error
        raise ConfigRefused(
            f"the state folder {folder} cannot be made: {error.strerror}", hint="name another --state folder"
        ) from error


def move_aside(folder: Path) -> None:
    """Move a state folder that nobody works in to NAME.old-<time>."""
    with assemble.state_lock(folder):
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        target = folder.with_name(f"{folder.name}.old-{stamp}")
        number = 1
        while target.exists():
            number += 1
            target = folder.with_name(f"{folder.name}.old-{stamp}-{number}")
        shutil.move(folder, target)
    say(f"the state so far is in {target}")


async def run(job: Job, folder: Path, *, quiet: bool) -> int:
    """Run the crawl to its end and say how it ended."""
    progress = Progress(quiet=quiet)

    def sinks(record: CrawlRecord) -> list[Sink]:
        return [assemble.output_sink(job, record, around=progress.around)]

    async with assemble.embedded(
        job, folder=folder, sinks=sinks, progress=progress, event=log.event
    ) as parts:
        lost = 0
        if parts.record.finished:
            lost = await parts.drain()
            if not lost:
                say(f"nothing due; {anew(job)} starts anew")
                return 0
            say_lost(lost)
        if not quiet:
            say(("resuming: " if parts.record.generation > 1 else "") + pace_line(job))
        if job.config.fetch.allow_private_addresses:
            say(f"private addresses are allowed for: {', '.join(sorted(job.private_hosts))}")
        stop_on_signals(parts.crawl, progress)
        with progress.shown():
            summary = await parts.crawl.run()
        say_lost(parts.delivery.waiting_again - lost)
    if not quiet:
        say_summary(job, summary)
    if summary.ending is Ending.JOURNAL_FULL:
        raise assemble.why_full(job, folder)
    code = exit_code(summary)
    if quiet and code == 1:
        say(NO_PAGE)  # what went wrong is told whatever -q says
    return code


def say_lost(pages: int) -> None:
    """Say how many pages could not be read back from the journal, whatever -q says; nothing if there are none."""
    if pages:
        what = "page of the journal was" if pages == 1 else "pages of the journal were"
        say(f"{pages:,} {what} damaged or lost: fetched again")


def stop_on_signals(crawl: Crawl, progress: Progress) -> None:
    """Stop cleanly on the first Ctrl-C or SIGTERM, at once on the second."""
    loop = asyncio.get_running_loop()
    told = False

    def stop() -> None:
        nonlocal told
        if told:
            # the state is durable at each step: leaving at once loses what is in flight, and that is asked for again;
            # workers end when their pipes close
            with suppress(OSError):
                progress.clear()
                if sys.stderr is not None:
                    sys.stderr.flush()
            os._exit(EXIT_INTERRUPTED)
        told = True
        say("stopping: requests in flight are waited for; once more stops at once")
        crawl.stop(Ending.INTERRUPTED)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)


def exit_code(summary: Summary) -> int:
    """Return the exit code of a run that ended in order."""
    if summary.ending is Ending.INTERRUPTED:
        return EXIT_INTERRUPTED
    return 0 if summary.counts.pages else 1


def say_summary(job: Job, summary: Summary) -> None:
    """Say how the run ended, what was refused, which hosts are left waiting and which budget bit."""
    status, counts = summary.status, summary.counts
    say(
        f"{summary.ending}: {status.run_pages:,} pages in {status.elapsed_s:.1f} s"
        f" ({counts.pages:,} in all), {counts.waiting:,} URLs waiting"
    )
    no_page = {reason: n for reason, n in counts.settled.items() if reason not in ("fetched", "redirected")}
    table(no_page, "URLs that gave no page")
    table(counts.refused, "links not taken")
    for left in summary.left:
        say(f"  {printable(left.host)}: {left.urls:,} URLs wait{until_text(left.until)} ({left.why})")
    if counts.refused.get("host-budget"):
        budget = job.config.budget
        say(
            f"the budget of URLs a host was reached: [budget] urls_per_seed_host = {budget.urls_per_seed_host:,}, "
            f"urls_per_found_host = {budget.urls_per_found_host:,}"
        )
    if summary.ending is Ending.MAX_PAGES:
        say(f"--max-pages {job.config.budget.max_pages:,} was reached")
    if counts.pages == 0:
        say(NO_PAGE)


def until_text(at: float) -> str:
    """Return an instant as text to follow `wait`: nothing for 0, no date for one that no calendar holds."""
    if not at:
        return ""
    try:
        return datetime.fromtimestamp(at, UTC).strftime(" until %Y-%m-%d %H:%M:%SZ")
    except (OverflowError, ValueError, OSError):
        return " for years"


def table(numbers: Mapping[str, int], title: str) -> None:
    """Say numbers by reason, the largest first."""
    rows: Iterable[tuple[str, int]] = sorted(numbers.items(), key=lambda row: -row[1])
    text = ", ".join(f"{reason} {number:,}" for reason, number in rows if number)
    if text:
        say(f"{title}: {text}")


def say(text: str) -> None:
    """Say something on stderr. That nobody reads it any more (`2>&1 | head`) is no reason to end a crawl."""
    with suppress(OSError):
        click.echo(text, err=True)


def raise_descriptor_limit() -> None:
    """Take as many descriptors as we may: each seed host's lock and each connection is one."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = hard if hard != resource.RLIM_INFINITY else 65_536
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
