"""The active set: who stays in memory, and flights that end once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from typing import Any

import pytest

from mannerly.coordinator.active import ActiveSet
from mannerly.coordinator.addresses import AddressBook, literal
from mannerly.coordinator.flights import Flight, Flights
from mannerly.coordinator.hosts import ActiveHost, RobotsStep
from mannerly.gate.memory import MemoryGate
from mannerly.model.config import FrontierConfig
from mannerly.model.host import Addresses, HostRecord, Pace, QueueState, WaitCause
from mannerly.model.task import Task, TaskKind
from mannerly.model.verdict import Reason
from mannerly.ports import Admission, Batch, HostChange
from mannerly.store.sqlite import SqliteStore
from mannerly.testing import ManualClock

STEP = RobotsStep("http://first.test", "http://a.test/robots.txt", hops=1)


class Scene:
    """An active set on an empty store."""

    def __init__(self, *, unclean: bool = False, active_hosts: int = 4) -> None:
        self.clock = ManualClock()
        self.store = SqliteStore(":memory:")
        self.gate = MemoryGate(self.clock)
        self.spawned: set[asyncio.Task[None]] = set()
        self.active = ActiveSet(
            store=self.store,
            gate=self.gate,
            clock=self.clock,
            config=FrontierConfig(active_hosts=active_hosts),
            per_host=1,
            min_delay_s=1.0,
            restarted_at=self.clock.now(),
            unclean=unclean,
            spawn=self.spawn,
            changed=lambda: None,
        )

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(coroutine)
        self.spawned.add(task)
        task.add_done_callback(self.spawned.discard)


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    made = Scene()
    yield made
    await made.store.close()


async def entered(scene: Scene) -> ActiveHost:
    """Bring a.test into memory, as another's rules do."""
    host = await scene.active.ensure("a.test")
    assert host is not None
    return host


def state(host: ActiveHost) -> QueueState:
    return host.queue.state


async def test_a_host_brought_in_for_the_rules_of_another_stays_until_it_answered(scene: Scene) -> None:
    host = await entered(scene)
    host.queue.prerequisites.appendleft(STEP)
    scene.active.reschedule(host)
    assert scene.active.get("a.test") is host
    assert host.queue.state is QueueState.READY
    host.queue.prerequisites.clear()
    scene.active.reschedule(host)
    assert scene.active.get("a.test") is None


async def test_a_host_that_waits_for_its_own_rules_still_answers_for_those_of_others(scene: Scene) -> None:
    host = await entered(scene)
    host.blocked = True
    host.more = False
    host.queue.unsettled.add(1)
    scene.active.reschedule(host)
    assert state(host) is QueueState.SNOOZED
    host.queue.prerequisites.appendleft(STEP)
    scene.active.reschedule(host)
    assert state(host) is QueueState.READY
    host.resolving = True  # but nobody is asked before the name is resolved
    scene.active.reschedule(host)
    assert state(host) is QueueState.SNOOZED


async def test_a_paused_host_is_not_ready_before_its_instant(scene: Scene) -> None:
    host = await entered(scene)
    host.queue.prerequisites.appendleft(STEP)
    scene.active.pause(host, 5.0, WaitCause.BACKOFF)
    assert host.queue.state is QueueState.SNOOZED
    assert host.queue.until == scene.clock.monotonic() + 5.0
    assert host.next_ok_at == scene.clock.now() + 5.0
    scene.active.pause(host, 2.0, WaitCause.DELAY)
    assert host.queue.until == scene.clock.monotonic() + 5.0


async def test_a_host_that_was_laid_off_enters_as_it_was_left(scene: Scene) -> None:
    host = await entered(scene)
    host.queue.prerequisites.appendleft(STEP)
    scene.active.lay_off(host, QueueState.PARKED, Reason.CRAWL_DELAY_TOO_LONG, "7200")
    assert host.change().state is QueueState.PARKED
    stored = HostRecord(9, "b.test", state=QueueState.RETIRED, reason=Reason.HOST_RETIRED, waiting=3)
    again = await scene.active._enter(stored)
    assert again.queue.state is QueueState.RETIRED
    assert again.change().state is QueueState.RETIRED
    scene.active.reschedule(again)
    assert scene.active.get("b.test") is None


async def test_a_host_never_asked_is_held_for_the_least_delay_after_an_unclean_stop() -> None:
    scene = Scene(unclean=True)
    host = await entered(scene)
    assert host.open_at == scene.clock.monotonic() + 1.0
    await scene.store.close()


async def test_news_of_its_urls_cost_a_host_no_place_in_the_line_of_its_group(scene: Scene) -> None:
    host = await entered(scene)
    host.queue.prerequisites.appendleft(STEP)
    scene.active.frontier.snooze(host.queue, scene.clock.monotonic() + 80, WaitCause.GROUP, group="g")
    scene.active.wake(["a.test"])
    scene.active.reschedule(host)
    assert (state(host), host.queue.cause) == (QueueState.SNOOZED, WaitCause.GROUP)
    scene.active.group_released("g")
    assert state(host) is QueueState.READY


async def test_what_is_known_of_a_name_in_memory_alone_keeps_its_host_there(scene: Scene) -> None:
    host = await entered(scene)
    host.queue.prerequisites.appendleft(STEP)
    scene.active.reschedule(host)
    host.queue.prerequisites.clear()
    now = scene.clock.monotonic()
    scene.active.frontier.snooze(host.queue, now + 300, WaitCause.RETRY_SPACING)
    soon = HostRecord(9, "b.test", waiting=1, ready_at=scene.clock.now())
    host.dns_failures = 1
    assert not scene.active._make_room(soon)
    host.dns_failures, host.ending = 0, Reason.NAME_NOT_FOUND
    assert not scene.active._make_room(soon)
    host.ending = None
    assert scene.active._make_room(soon)
    assert scene.active.get("a.test") is None


async def waits(scene: Scene, name: str, wait_s: float, cause: WaitCause) -> None:
    """Store a host with one URL, that is left alone for a while."""
    href = f"http://{name}/"
    url = Admission(
        host=name, hash=1, key=href, href=href, template="/", band=0, depth=0, budget=9, seed=True
    )
    ok_at = scene.clock.now() + wait_s
    change = HostChange(name, QueueState.READY, ok_at, cause, Pace(), Addresses(), 0.0)
    await scene.store.commit(Batch(admissions=[url], hosts=[change]))


async def settled_down(scene: Scene) -> None:
    """Let the set bring in whom it has room for."""
    scene.active.activate()
    while scene.spawned:
        await asyncio.gather(*scene.spawned)


async def test_a_host_outside_that_waits_politely_is_seen_behind_one_in_back_off() -> None:
    scene = Scene(active_hosts=1)
    await waits(scene, "inside.test", 900.0, WaitCause.BACKOFF)
    await settled_down(scene)
    await waits(scene, "backoff.test", 1_000.0, WaitCause.BACKOFF)
    await waits(scene, "slow.test", 2_000.0, WaitCause.DELAY)
    scene.active.wake(["backoff.test", "slow.test"])
    assert scene.active.outside
    await settled_down(scene)
    now = scene.clock.monotonic()
    expected = ((now + 1_000.0, WaitCause.BACKOFF), (now + 2_000.0, WaitCause.DELAY))
    assert scene.active.outside_waits == expected
    await settled_down(scene)  # as a crawl at rest does, four times a second
    assert scene.active.outside_waits == expected
    await scene.store.close()


async def test_who_is_woken_outside_while_it_is_looked_there_is_looked_for_anew() -> None:
    scene = Scene(active_hosts=1)
    await waits(scene, "inside.test", 900.0, WaitCause.BACKOFF)
    await settled_down(scene)
    await waits(scene, "backoff.test", 1_000.0, WaitCause.BACKOFF)
    scene.active.wake(["backoff.test"])
    await asyncio.sleep(0)  # the store is being asked
    scene.active.wake(["new.test"])
    await asyncio.gather(*scene.spawned)
    assert (scene.active.outside, scene.active.outside_waits) == (True, None)
    await scene.store.close()


def flight(number: int) -> Flight:
    task = Task(id=number, kind=TaskKind.PAGE, url="http://a.test/", host="a.test")
    return Flight(task, ActiveHost.of(HostRecord(1, "a.test")), 0.0)


def test_b68_a_result_that_comes_again_or_too_late_finds_no_flight() -> None:
    flights = Flights(generation=3)
    first, second = flights.next_id(), flights.next_id()
    assert first != second
    flights.add(flight(first))
    assert flights.pages == 1
    assert flights.take(second) is None
    assert flights.take(first) is not None
    assert flights.take(first) is None
    assert (len(flights), flights.pages) == (0, 0)
    # nor does one of an earlier run
    assert Flights(generation=4).next_id() > second


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("a.test", "127.0.0.1"),
        ("b.a.test", "127.0.0.1"),
        ("exact.test", "10.0.0.1"),
        ("sub.exact.test", "127.0.0.1"),
        ("test", ""),
        ("atest", ""),
        ("a.example", ""),
        ("[2001:db8::1]", "2001:db8::1"),
        ("192.0.2.1", "192.0.2.1"),
    ],
)
def test_a_name_is_mapped_by_itself_before_its_parents(name: str, address: str) -> None:
    assert AddressBook({"*.test": "127.0.0.1", "exact.test": "10.0.0.1"}).known(name) == address


def test_an_address_holds_until_its_expiry_and_the_next_follows_in_turn() -> None:
    book, host = AddressBook({}), ActiveHost.of(HostRecord(1, "a.example"))
    assert book.current(host, 0.0) == ""
    host.addresses = Addresses(("192.0.2.1", "192.0.2.2"), expires_at=100.0)
    assert book.current(host, 99.0) == "192.0.2.1"
    host.address_index += 1
    assert book.current(host, 99.0) == "192.0.2.2"
    host.address_index += 1
    assert book.current(host, 99.0) == "192.0.2.1"
    assert book.current(host, 100.0) == ""
    assert literal("a.example") == ""
