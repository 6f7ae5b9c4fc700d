"""The Crawl-delay of a host: the largest that its origins ask for, each as it was read last."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from mannerly.coordinator.active import ActiveSet
from mannerly.coordinator.flights import Flight, Flights
from mannerly.coordinator.hosts import ActiveHost, RobotsStep
from mannerly.coordinator.quarantine import Quarantine
from mannerly.coordinator.receipt import Receipt
from mannerly.coordinator.rulesets import Rulesets
from mannerly.gate.memory import MemoryGate
from mannerly.model.config import FrontierConfig, PolitenessConfig
from mannerly.model.origin import Access, OriginRecord, Ruleset
from mannerly.model.result import Fetched, Page, Result
from mannerly.model.task import Task, TaskKind
from mannerly.policy.politeness import with_crawl_delay
from mannerly.store.sqlite import SqliteStore
from mannerly.testing import ManualClock


class Put:
    """A settle that keeps what it is given."""

    def __init__(self) -> None:
        self.items: list[object] = []

    def put(self, item: object) -> None:
        """Keep an item."""
        self.items.append(item)


class Scene:
    """Receipt over an empty store, told of answers to robots.txt."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = SqliteStore(":memory:")
        self.flights = Flights(generation=1)
        self.put = Put()
        self.rulesets = Rulesets(self.store, most_bytes=1 << 20)
        gate = MemoryGate(self.clock)
        self.active = ActiveSet(
            store=self.store,
            gate=gate,
            clock=self.clock,
            config=FrontierConfig(active_hosts=4),
            per_host=1,
            min_delay_s=1.0,
            restarted_at=self.clock.now(),
            unclean=False,
            spawn=lambda coroutine: coroutine.close(),
            changed=lambda: None,
        )
        self.receipt = Receipt(
            quarantine=Quarantine(),
            flights=self.flights,
            active=self.active,
            gate=gate,
            rulesets=self.rulesets,
            settle=cast(Any, self.put),
            clock=self.clock,
            config=PolitenessConfig(),
            needs_contact=lambda _name: False,
            event=lambda _name, _fields: None,
        )

    async def host(self, name: str) -> ActiveHost:
        host = await self.active.ensure(name)
        assert host is not None
        host.queue.unsettled.add(1)  # a page of it keeps it in memory
        return host

    async def answered(self, host: ActiveHost, origin: str, asked_s: float | None, status: int = 200) -> None:
        """Receive the answer of a host to the robots.txt of an origin."""
        step = RobotsStep(origin, f"{origin}/robots.txt")
        task = Task(id=self.flights.next_id(), kind=TaskKind.ROBOTS, url=step.url, host=host.name)
        self.flights.add(Flight(task, host, self.clock.monotonic(), step=step))
        ruleset = Ruleset(crawl_delay_s=asked_s) if status == 200 else None
        await self.receipt.receive(Result(task.id, Fetched(Page(status), ruleset=ruleset)))


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    made = Scene()
    yield made
    await made.store.close()


async def test_a_crawl_delay_that_was_lowered_is_believed(scene: Scene) -> None:
    host = await scene.host("a.test")
    await scene.answered(host, "http://a.test", 30.0)
    assert host.pace.crawl_delay_s == 30.0
    await scene.answered(host, "http://a.test", 5.0)
    assert (host.pace.crawl_delay_s, host.dirty) == (5.0, True)
    assert scene.put.items.count(host) >= 2
    await scene.answered(host, "http://a.test", None)
    assert host.pace.crawl_delay_s == 0.0


async def test_a_robots_txt_that_is_gone_asks_for_no_delay(scene: Scene) -> None:
    host = await scene.host("a.test")
    await scene.answered(host, "http://a.test", 30.0)
    await scene.answered(host, "http://a.test", None, status=404)
    assert host.pace.crawl_delay_s == 0.0


async def test_one_that_cannot_be_read_asks_for_what_it_asked_before(scene: Scene) -> None:
    host = await scene.host("a.test")
    await scene.answered(host, "http://a.test", 30.0)
    await scene.answered(host, "http://a.test", None, status=503)
    assert host.pace.crawl_delay_s == 30.0


async def test_the_largest_of_a_hosts_origins_holds(scene: Scene) -> None:
    host = await scene.host("a.test")
    await scene.answered(host, "http://a.test", 30.0)
    await scene.answered(host, "https://a.test", 5.0)
    assert host.pace.crawl_delay_s == 30.0
    await scene.answered(host, "http://a.test", 2.0)
    assert host.pace.crawl_delay_s == 5.0


async def test_a_host_does_not_keep_the_crawl_delay_of_rules_that_it_holds_for_another(scene: Scene) -> None:
    host, other = await scene.host("a.test"), await scene.host("b.test")
    await scene.answered(host, "http://b.test", 30.0)
    assert (host.pace.crawl_delay_s, other.pace.crawl_delay_s) == (0.0, 30.0)


async def test_what_an_earlier_run_was_asked_for_holds_until_robots_txt_is_read_anew(scene: Scene) -> None:
    host = await scene.host("a.test")
    host.pace = with_crawl_delay(host.pace, 30.0)
    stored = OriginRecord("http://a.test", access=Access.AVAILABLE, ruleset=Ruleset(crawl_delay_s=5.0))
    scene.rulesets.put(stored)
    scene.receipt.obey(host, stored)
    assert host.pace.crawl_delay_s == 30.0
    await scene.answered(host, "http://a.test", 5.0)
    assert host.pace.crawl_delay_s == 5.0


async def test_rules_that_are_forgotten_leave_nothing_behind(scene: Scene) -> None:
    small = Rulesets(scene.store, most_bytes=1)
    host = await scene.host("a.test")
    await scene.answered(host, "http://a.test", 30.0)
    known = scene.rulesets.in_hand("http://a.test")
    assert known is not None
    small.put(known.record)
    assert small.crawl_delay_s("a.test") == 30.0
    await small.load("http://other.test")
    assert small.crawl_delay_s("a.test") == 0.0
    assert small._delays == {}
