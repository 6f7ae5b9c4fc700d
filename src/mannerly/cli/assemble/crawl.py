"""Coordinator, workers and sinks of an embedded crawl, joined."""

from __future__ import annotations

import asyncio
import json
import os
import random
import secrets
import shutil
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import msgspec

from mannerly.cli.assemble.rules import intake_rules, scope_of, state_database
from mannerly.cli.job import Job, is_public, scope_text
from mannerly.clock import Clock, SystemClock
from mannerly.coordinator.active import ActiveSet
from mannerly.coordinator.addresses import AddressBook
from mannerly.coordinator.deliver import Delivery
from mannerly.coordinator.dispatch import Allowance, Dispatch, Orders
from mannerly.coordinator.flights import Flights
from mannerly.coordinator.intake import Intake
from mannerly.coordinator.quarantine import Quarantine
from mannerly.coordinator.receipt import Receipt
from mannerly.coordinator.rulesets import Rulesets
from mannerly.coordinator.service import Crawl, Ending, Runner, Status
from mannerly.coordinator.settle import FrameFacts, Settle
from mannerly.gate.memory import MemoryGate
from mannerly.model.config import Config, OutputConfig
from mannerly.model.errors import DiskFull, StateInUse
from mannerly.model.orders import WorkerOrders
from mannerly.ports import CrawlRecord, Sink
from mannerly.sink.choice import choose_sink
from mannerly.sink.output import check_output
from mannerly.store.bloom import BloomFilter
from mannerly.store.journal import FileJournal
from mannerly.store.lock import WAIT_S, HostLocks, StateLock
from mannerly.store.sqlite import SqliteStore
from mannerly.transport.local import LocalTransport

# keys that the filter of the seen set is made for; it grows fourfold when they are passed (2 MB of disk at first)
SEEN_AT_FIRST = 1_000_000
LOCK_STEP_S = 0.05

Event = Callable[[str, dict[str, object]], None]
SinkMaker = Callable[[CrawlRecord], Sequence[Sink]]


@dataclass(frozen=True, slots=True)
class Embedded:
    """An embedded crawl, put together and open."""

    crawl: Crawl
    record: CrawlRecord
    store: SqliteStore
    transport: LocalTransport
    delivery: Delivery

    async def drain(self) -> int:
        """Bring the sinks of a finished crawl up to date, and end the run cleanly if nothing is due.

        Returns how many URLs wait again, because their pages were found damaged or gone: then `crawl` is to run.
        """
        await self.delivery.drain()
        if not self.delivery.waiting_again:
            await self.store.close_crawl(finished=True)
        return self.delivery.waiting_again


def state_lock(folder: Path) -> StateLock:
    """Return the lock of a state folder, not yet taken."""
    return StateLock(folder)


def why_full(job: Job, folder: Path) -> DiskFull:
    """Return what to say where the journal's limit, or the disk's reserve, has stopped the dispatch."""
    journal = job.config.journal
    free = shutil.disk_usage(folder).free
    if free < journal.min_free_bytes:
        return DiskFull(
            f"{mebibytes(free)} are free on the disk of {folder}, less than the reserve of "
            f"{mebibytes(journal.min_free_bytes)}",
            hint="make space and run the same command again, or lower [journal] min_free_bytes; nothing is lost",
        )
    return DiskFull(
        f"the journal in {folder / 'journal'} has reached its limit of {mebibytes(journal.max_bytes)}",
        hint="raise [journal] max_bytes and run the same command again; nothing is lost",
    )


def mebibytes(number: int) -> str:
    """Return a size as text."""
    return f"{number / (1 << 20):,.1f} MiB"


async def patiently(acquire: Callable[[], None]) -> None:
    """Try for 10 s to take a lock that workers of a dead coordinator may still hold; Ctrl-C is heard meanwhile."""
    loop = asyncio.get_running_loop()
    give_up_at = loop.time() + WAIT_S
    while True:
        try:
            acquire()
        except StateInUse:
            if loop.time() >= give_up_at:
                raise
        else:
            return
        await asyncio.sleep(LOCK_STEP_S)


@asynccontextmanager
async def embedded(
    job: Job,
    *,
    folder: Path,
    sinks: SinkMaker,
    progress: Callable[[Status], None],
    event: Event,
    clock: Clock | None = None,
    memory: bool = False,
) -> AsyncIterator[Embedded]:
    """Open the state folder and join coordinator, workers and sinks; all of it is closed at the end.

    memory: the state is in memory and nothing is resumed; `folder` holds the journal alone. Raises StateInUse,
    ConfigRefused, StateDamaged.
    """
    clock = clock or SystemClock()
    config = job.config
    async with AsyncExitStack() as stack:
        inherit: list[int] = []
        if not memory:
            lock, hosts = StateLock(folder), HostLocks(folder)
            stack.callback(lock.release)
            await patiently(lambda: lock.acquire(wait_s=0))
            stack.callback(hosts.release)
            await patiently(lambda: hosts.acquire(lock_names(job), wait_s=0))
            inherit.extend((*lock.fds, *hosts.fds))
        store = SqliteStore(":memory:" if memory else state_database(folder))
        stack.push_async_callback(store.close)
        journal = FileJournal(
            folder / "journal",
            segment_bytes=config.journal.segment_bytes,
            max_bytes=config.journal.max_bytes,
            min_free_bytes=config.journal.min_free_bytes,
        )
        stack.callback(journal.close)
        record = await store.open_crawl(crawl_record(job))
        journal.cut(record.journal_end)
        if not memory:
            store.use_filter(BloomFilter.open(folder / "seen.bloom", SEEN_AT_FIRST, token=record.secret))
        await store.revive_hosts()
        parts = _join(job, record, store, journal, clock, sinks, progress, event, inherit)
        await stack.enter_async_context(parts.delivery)
        yield Embedded(parts.crawl, record, store, parts.transport, parts.delivery)


@dataclass(frozen=True, slots=True)
class _Parts:
    crawl: Crawl
    delivery: Delivery
    transport: LocalTransport


def _join(
    job: Job,
    record: CrawlRecord,
    store: SqliteStore,
    journal: FileJournal,
    clock: Clock,
    sinks: SinkMaker,
    progress: Callable[[Status], None],
    event: Event,
    inherit: Sequence[int],
) -> _Parts:
    config = job.config
    runner = Runner()
    holder: list[Crawl] = []
    chance = random.Random(record.secret ^ record.generation)
    gate = MemoryGate(clock)
    flights, quarantine = Flights(record.generation), Quarantine()
    transport = LocalTransport(
        worker_orders(job), config.workers.workers or (os.cpu_count() or 1), inherit=inherit, event=event
    )
    rulesets = Rulesets(store, most_bytes=config.frontier.ruleset_cache_bytes, obey=job.authorization is None)
    intake = Intake(
        scope_of(job, record),
        intake_rules(job, record),
        rulesets,
        recent_keys=config.frontier.seen_cache_keys,
    )
    delivery = Delivery(
        journal,
        store,
        sinks(record),
        keep=config.journal.keep,
        lost=lambda pages: holder[0].lost(pages),
        reader_gone=lambda _name: holder[0].stop(Ending.READER_GONE),
    )
    delivery.committed(record.journal_end)
    settle = Settle(
        store=store,
        journal=journal,
        transport=transport,
        intake=intake,
        clock=clock,
        config=config.settle,
        facts=FrameFacts(
            crawl=record.id,
            identity=job.identity,
            authorization=job.authorization.digest if job.authorization is not None else "",
        ),
        told=lambda told: holder[0].told(told),
        chain_limit=config.budget.redirect_chain,
        strip=frozenset(config.scope.strip_parameters),
        error_pages=config.output.errors,
    )
    allowance = Allowance(config.workers.concurrency, config.budget.max_pages)
    changed: list[Callable[[], None]] = []
    active = ActiveSet(
        store=store,
        gate=gate,
        clock=clock,
        config=config.frontier,
        per_host=config.politeness.per_host,
        min_delay_s=config.politeness.min_delay_s,
        restarted_at=clock.now(),
        unclean=record.unclean,
        spawn=runner,
        changed=lambda: changed[0](),
    )
    receipt = Receipt(
        flights=flights,
        quarantine=quarantine,
        active=active,
        gate=gate,
        rulesets=rulesets,
        settle=settle,
        clock=clock,
        config=config.politeness,
        needs_contact=job.needs_contact,
        event=event,
    )
    dispatch = Dispatch(
        active=active,
        flights=flights,
        quarantine=quarantine,
        rulesets=rulesets,
        addresses=AddressBook(job.mapped),
        gate=gate,
        transport=transport,
        settle=settle,
        clock=clock,
        draw=chance.random,
        politeness_config=config.politeness,
        orders=Orders(
            identity=job.identity,
            limits=job.limits,
            wanted=job.wanted,
            headers=job.headers,
            header_origins=frozenset(seed.url.origin for seed in job.seeds),
        ),
        allowance=allowance,
        obey=receipt.obey,
        spawn=runner,
    )
    changed.append(dispatch.changed)
    crawl = Crawl(
        store=store,
        transport=transport,
        active=active,
        flights=flights,
        receipt=receipt,
        settle=settle,
        dispatch=dispatch,
        deliver=delivery,
        allowance=allowance,
        runner=runner,
        clock=clock,
        budget=config.budget,
        patience_s=config.politeness.patience_s,
        seeds=tuple(intake.of_seed(seed.url.href, schemeless=seed.schemeless) for seed in job.seeds),
        journal_full=journal.full,
        progress=progress,
    )
    holder.append(crawl)
    return _Parts(crawl, delivery, transport)


def crawl_record(job: Job) -> CrawlRecord:
    """Return the record of the crawl that the job wants, under a fresh id and secret."""
    return CrawlRecord(
        id=secrets.token_hex(8),
        secret=secrets.randbits(63),
        seeds=tuple(seed.url.href for seed in job.seeds),
        scope=scope_text(job.scope),
        configuration=configuration_text(job.config),
    )


def configuration_text(config: Config) -> str:
    """Return the configuration as it is kept with the crawl: JSON, the user's own header values left out."""
    raw = msgspec.to_builtins(config)
    raw["fetch"]["headers"] = [text.partition(":")[0] for text in config.fetch.headers]
    raw["fetch"]["proxy"] = bool(config.fetch.proxy)
    return json.dumps(raw, sort_keys=True)


def worker_orders(job: Job) -> WorkerOrders:
    """Return the standing orders of the job's workers."""
    config = job.config
    return WorkerOrders(
        name="worker",
        contact=config.identity.contact,
        ports=config.fetch.ports,
        private_hosts=tuple(sorted(job.private_hosts)),
        nameservers=config.fetch.nameservers,
        proxy=config.fetch.proxy,
        slots=config.workers.concurrency,
    )


def lock_names(job: Job) -> list[str]:
    """Return what the crawl locks for this user: seed hosts, with the port where the target is private."""
    urls_ = [seed.url for seed in job.seeds]
    return sorted({u.host if is_public(u.host, job.mapped) else f"{u.host}:{u.port}" for u in urls_})


def check_output_ahead(config: OutputConfig, *, begins: bool) -> None:
    """Raise ConfigRefused where `-o` could take no page; touch nothing. begins: the crawl has written none yet."""
    check_output(config.file, overwrite=config.overwrite, begins=begins)


def output_sink(
    job: Job, record: CrawlRecord, *, around: Callable[[], AbstractContextManager[None]] = nullcontext
) -> Sink:
    """Return the sink for `-o`. around: entered for each write to stdout."""
    names = [name.removesuffix("[]") for name in job.config.select.fields]
    whole = job.config.journal.keep == "all"
    return choose_sink(job.config.output, crawl=record.id, fields=names, journal_whole=whole, around=around)
