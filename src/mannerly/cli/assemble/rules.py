"""What a crawl decides by, made of its job and its record: for the coordinator, and for readers that ask anew."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Final

from mannerly.cli.job import Job
from mannerly.coordinator.intake import Rules
from mannerly.model import url as urls
from mannerly.model.url import Url
from mannerly.model.verdict import Verdict
from mannerly.policy.scope import Scope, port_verdict
from mannerly.ports import CrawlRecord

# hosts whose need of a contact is not worked out anew for each of their URLs
HOSTS_REMEMBERED: Final = 10_000


def state_database(folder: Path) -> Path:
    """Return where the state of a crawl folder is."""
    return folder / "state.sqlite"


def scope_of(job: Job, record: CrawlRecord) -> Scope:
    """Return the scope as it stands: that of the seeds, and where redirected seeds of earlier runs ended up."""
    scope = job.scope
    for href in record.joined:
        scope = scope.joined(urls.parse(href))
    return scope


def intake_rules(job: Job, record: CrawlRecord) -> Rules:
    """Return what intake decides by."""
    ports, private = frozenset(job.config.fetch.ports), job.private_hosts

    def verdict(url: Url) -> Verdict:
        return port_verdict(url, ports, private)

    return Rules(
        secret=record.secret,
        budget=job.config.budget,
        strip=frozenset(job.config.scope.strip_parameters),
        needs_contact=lru_cache(HOSTS_REMEMBERED)(job.needs_contact),
        port_verdict=verdict,
        seed_hosts=frozenset(seed.url.host for seed in job.seeds),
    )
