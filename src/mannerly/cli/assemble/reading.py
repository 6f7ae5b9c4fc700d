"""A stored crawl, opened for readers: `why`, `report`, `doctor`. They take no lock and write nothing."""

from __future__ import annotations

from pathlib import Path

from mannerly.cli.assemble.rules import intake_rules, scope_of, state_database
from mannerly.cli.job import Job
from mannerly.coordinator.intake import Intake
from mannerly.coordinator.rulesets import Rulesets
from mannerly.ports import CrawlRecord
from mannerly.store.lock import StateLock, folder_is_local, user_folder
from mannerly.store.sqlite import SqliteStore

__all__ = ["folder_is_local", "holder", "intake", "open_state", "state_database", "user_folder"]


def open_state(folder: Path) -> SqliteStore:
    """Open the state of a crawl folder for reading. Raises StateDamaged, StateInUse."""
    return SqliteStore(state_database(folder), read_only=True)


def holder(folder: Path) -> int | None:
    """Return the process that holds the state folder (0 if it does not say which), None if nobody does."""
    found = StateLock(folder).holder()
    return None if found is None else found.pid


def intake(job: Job, record: CrawlRecord, store: SqliteStore) -> Intake:
    """Return the intake of the stored crawl, with no ruleset in hand: it judges a URL as the coordinator would."""
    rulesets = Rulesets(store, most_bytes=0, obey=job.authorization is None)
    return Intake(scope_of(job, record), intake_rules(job, record), rulesets, recent_keys=1)
