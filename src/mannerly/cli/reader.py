"""What `why` and `report` read: which state folder, and the crawl that is stored in it.

A reader takes no lock and writes nothing; it may read while the crawl runs and after.
"""

from __future__ import annotations

import json
import re
import stat
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import click
import msgspec

from mannerly.cli.assemble import reading
from mannerly.cli.job import Job, Seed, private_hosts, read_mapping
from mannerly.cli.main import UsageRefused
from mannerly.coordinator.intake import Intake
from mannerly.model import url as urls
from mannerly.model.config import Config
from mannerly.model.errors import ConfigRefused, StateDamaged
from mannerly.model.host import HostRecord
from mannerly.model.origin import OriginRecord
from mannerly.model.printable import printable
from mannerly.model.task import UrlState
from mannerly.model.verdict import Reason
from mannerly.policy.scope import Scope
from mannerly.ports import Counts, CrawlRecord, Refusal, SinkState, TemplateCount, UrlRecord

# folders that --fresh moved aside
_MOVED: Final = re.compile(r".*\.old-\d{8}T\d{6}Z(-\d+)?")
_FOLDERS_NAMED: Final = 10

state_option = click.option(
    "--state", "state", metavar="DIR", help="the state folder [the only crawl-* folder here]"
)


class Reads(Protocol):
    """What readers ask of a stored crawl; each call is one short transaction."""

    async def find(self, host: str, hash_: int) -> UrlRecord | None:
        """Return the admitted URL, or None."""
        ...

    async def host(self, name: str) -> HostRecord | None:
        """Return the host's row, or None."""
        ...

    async def origin(self, origin: str) -> OriginRecord | None:
        """Return what robots.txt of an origin came to, or None."""
        ...

    async def counts(self) -> Counts:
        """Return the totals."""
        ...

    async def refusals(self, reason: Reason, *, limit: int = 100) -> list[Refusal]:
        """Return stored samples of candidates refused for `reason`."""
        ...

    async def refusals_of(self, urls: Sequence[str]) -> list[Refusal]:
        """Return stored samples of refused candidates that are one of `urls`."""
        ...

    async def urls(self, *, state: UrlState, limit: int = 100) -> list[UrlRecord]:
        """Return URLs in `state`, settled ones oldest first."""
        ...

    async def scan_hosts(self, after: int, *, limit: int) -> list[HostRecord]:
        """Return hosts with a larger id than `after`, in order of their ids."""
        ...

    async def scan_origins(self, after: str, *, limit: int) -> list[OriginRecord]:
        """Return origins behind `after`, in the order of their names."""
        ...

    async def scan_templates(self, after: TemplateCount | None, *, limit: int) -> list[TemplateCount]:
        """Return templates behind `after`, in the order of the table."""
        ...

    async def sinks(self) -> list[SinkState]:
        """Return how far each sink has come."""
        ...


@dataclass(frozen=True, slots=True)
class Stored:
    """A stored crawl. pid: the process that crawls it now (0: not known which), None if none does."""

    folder: Path
    record: CrawlRecord
    job: Job
    intake: Intake
    store: Reads
    pid: int | None

    @property
    def config(self) -> Config:
        """The configuration of the last run, the user's own header values left out."""
        return self.job.config


def state_folder(named: str | None, *, here: Path | None = None) -> Path:
    """Return the state folder that is meant; raise UsageRefused if that is not plain, ConfigRefused if it holds none."""
    if named is not None:
        folder = Path(named)
        if not _holds_state(folder):
            raise ConfigRefused(
                f"{named} is no state folder: it holds no state.sqlite",
                hint="--state names the folder that `mannerly crawl` made: crawl-HOST",
            )
        return folder
    here = here or Path()
    found = sorted(
        path for path in here.glob("crawl-*") if not _MOVED.fullmatch(path.name) and _holds_state(path)
    )
    if len(found) == 1:
        return found[0]
    if not found:
        raise UsageRefused("there is no crawl-* folder here", hint="--state DIR names the state folder")
    names = ", ".join(printable(path.name, limit=100) for path in found[:_FOLDERS_NAMED])
    more = f" and {len(found) - _FOLDERS_NAMED} more" if len(found) > _FOLDERS_NAMED else ""
    raise UsageRefused(
        f"there are {len(found)} state folders here: {names}{more}",
        hint="--state DIR names the one that is meant",
    )


def _holds_state(folder: Path) -> bool:
    """Tell whether a folder holds a crawl's database; raise ConfigRefused if we may not look."""
    try:
        mode = reading.state_database(folder).stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise _unreadable(folder, error) from error
    return stat.S_ISREG(mode)


def _unreadable(folder: Path, error: OSError) -> ConfigRefused:
    return ConfigRefused(
        f"the folder {folder} cannot be read: {error.strerror}",
        hint="read it as the user who crawls, or name another folder with --state DIR",
    )


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[Stored]:
    """Open the crawl of a state folder for reading; raise ConfigRefused if there is none that can be read."""
    try:
        store = reading.open_state(folder)
    except StateDamaged as error:  # exit 1 means "refused" for `why`
        raise ConfigRefused(str(error), hint=error.hint) from error
    try:
        record = await store.stored_crawl()
        if record is None:
            raise ConfigRefused(f"no crawl was begun in {folder}", hint="mannerly crawl URL begins one")
        job = stored_job(record)
        yield Stored(
            folder=folder,
            record=record,
            job=job,
            intake=reading.intake(job, record, store),
            store=store,
            pid=reading.holder(folder),
        )
    except PermissionError as error:  # of the journal, or of the lock
        raise _unreadable(folder, error) from error
    finally:
        await store.close()


def stored_job(record: CrawlRecord) -> Job:
    """Return the job of the last run, as far as it was stored: without the user's headers and the authorization."""
    config = stored_config(record.configuration)
    seeds = tuple(Seed(href, urls.parse(href), schemeless=False) for href in record.seeds)
    return Job(
        config=config,
        seeds=seeds,
        bad_seeds=(),
        scope=Scope.from_record(json.loads(record.scope)),
        mapped=read_mapping(config.fetch.resolve),
        private_hosts=private_hosts(config, seeds),
        headers=(),
        authorization=None,
    )


def stored_config(text: str) -> Config:
    """Return the configuration that is kept with a crawl; what was left out of it has its default."""
    raw: dict[str, Any] = json.loads(text)
    # values of headers and the proxy's address may be secrets: names, and whether there is one, were kept
    for name in ("headers", "proxy"):
        raw.get("fetch", {}).pop(name, None)
    return msgspec.convert(raw, Config, strict=False)
