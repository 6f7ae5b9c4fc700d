"""Where redirects end: each with a page or a reason, and found where the first of them was found."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, cast

import pytest

from mannerly.coordinator.hosts import ActiveHost
from mannerly.coordinator.intake import Intake, Rules
from mannerly.coordinator.rulesets import Rulesets
from mannerly.coordinator.settle import FrameFacts, Seeds, Settle, Settled, Told
from mannerly.model import url as urls
from mannerly.model.config import BudgetConfig, SettleConfig
from mannerly.model.frame import PageFrame
from mannerly.model.result import Fetched, LinkGroup, Outcome, Page, Redirected, Result
from mannerly.model.task import UrlState
from mannerly.model.verdict import Reason, Verdict
from mannerly.policy.scope import Scope, ScopeKind
from mannerly.ports import Position, UrlRecord, Waiting
from mannerly.store.sqlite import SqliteStore
from mannerly.testing import ManualClock

SECRET = 7


class NoJournal:
    """A journal that keeps nothing: where a page lies is not asked here."""

    end = None

    def append(self, frames: Sequence[PageFrame]) -> list[Position]:
        """Return a place for each page."""
        return [Position(1, 32)] * len(frames)


class Acked:
    """A transport that is told of durable results, and forgets."""

    async def ack(self, results: Sequence[Result]) -> None:
        """Nothing is kept to be acknowledged."""


class Scene:
    """Settling over an empty store: URLs are sown, then redirect."""

    def __init__(self, *, per_host: int = 100) -> None:
        self.store = SqliteStore(":memory:")
        self.told: list[Told] = []
        rules = Rules(
            secret=SECRET,
            budget=BudgetConfig(urls_per_found_host=per_host),
            strip=frozenset(),
            needs_contact=lambda _host: False,
            port_verdict=lambda _url: Verdict(),
            seed_hosts=frozenset(),
        )
        scope = Scope.of(ScopeKind.HOST, [urls.parse("http://a.test/")])
        self.intake = Intake(scope, rules, Rulesets(self.store, most_bytes=1 << 20), recent_keys=100)
        self.settle = Settle(
            store=self.store,
            journal=cast(Any, NoJournal()),
            transport=cast(Any, Acked()),
            intake=self.intake,
            clock=ManualClock(),
            config=SettleConfig(),
            facts=FrameFacts("c", "mannerly"),
            told=self.told.append,
        )

    async def find(self, href: str) -> UrlRecord:
        found = await self.store.find(*self.intake.place_of(href))
        assert found is not None
        return found

    async def sow(self, *hrefs: str) -> None:
        seeds = tuple(self.intake.of_seed(href, schemeless=False) for href in hrefs)
        await self.settle.settle([Seeds(seeds, asyncio.Event())])

    async def waiting(self, href: str) -> tuple[ActiveHost, Waiting]:
        record = await self.store.ensure_host(urls.host_of(href))
        window = await self.store.window(record.id, limit=100, now=0.0, exclude=frozenset())
        (entry,) = (entry for entry in window.urls if entry.href == href)
        return ActiveHost.of(record), entry

    async def answer(self, *answers: tuple[str, Outcome]) -> None:
        """Settle what came back for some URLs, in one batch."""
        items = []
        for number, (href, outcome) in enumerate(answers):
            host, entry = await self.waiting(href)
            items.append(Settled(host, entry, outcome, Result(number, outcome), 0.0))
        await self.settle.settle([*items])


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    made = Scene()
    yield made
    await made.store.close()


def to(path: str) -> Redirected:
    return Redirected(301, f"http://a.test{path}", f"http://a.test{path}")


def linking(path: str) -> Fetched:
    """A page with one link."""
    return Fetched(Page(200), links=(LinkGroup("a.test", ((at(path), ""),)),))


def at(path: str) -> str:
    return f"http://a.test{path}"


async def test_i8_a_redirect_over_the_budget_of_its_target_ends_with_the_reason() -> None:
    scene = Scene(per_host=2)
    await scene.sow(at("/1"))
    await scene.answer((at("/1"), linking("/2")))
    await scene.answer((at("/2"), to("/3")))
    found = await scene.find(at("/2"))
    assert (found.state, found.reason) == (UrlState.REFUSED, Reason.REDIRECT_TARGET_REFUSED)
    assert found.detail == "http://a.test/3: host-budget (a.test has 2 URLs stored)"
    assert (await scene.store.counts()).refused == {"host-budget": 1}
    await scene.store.close()


async def test_known_urls_that_redirect_to_each_other_are_a_loop(scene: Scene) -> None:
    await scene.sow(at("/1"), at("/2"), at("/3"), at("/4"))
    await scene.answer((at("/1"), to("/2")))
    await scene.answer((at("/2"), to("/3")))
    assert (await scene.find(at("/2"))).state is UrlState.REDIRECTED
    await scene.answer((at("/3"), to("/1")))
    found = await scene.find(at("/3"))
    assert (found.state, found.reason) == (UrlState.FAILED, Reason.REDIRECT_LOOP)
    assert found.detail == "back from http://a.test/1"
    # another that leads into the ring is no part of it: `why` follows it to the reason
    await scene.answer((at("/4"), to("/1")))
    assert (await scene.find(at("/4"))).state is UrlState.REDIRECTED


async def test_a_loop_of_one_batch_is_one_too(scene: Scene) -> None:
    await scene.sow(at("/1"), at("/2"), at("/3"))
    await scene.answer((at("/1"), to("/2")), (at("/2"), to("/1")), (at("/3"), to("/2")))
    assert [(await scene.find(at(path))).reason for path in ("/1", "/2")] == [Reason.REDIRECT_LOOP] * 2


async def test_a_redirect_to_a_known_page_needs_no_reason(scene: Scene) -> None:
    await scene.sow(at("/1"), at("/2"))
    await scene.answer((at("/1"), to("/2")))
    found = await scene.find(at("/1"))
    assert (found.state, found.reason, found.detail) == (UrlState.REDIRECTED, None, at("/2"))


async def test_more_known_redirects_than_a_chain_may_have_are_too_long_a_chain(scene: Scene) -> None:
    await scene.sow(*(at(f"/{n}") for n in range(13)))
    for n in reversed(range(12)):
        await scene.answer((at(f"/{n}"), to(f"/{n + 1}")))
    reasons = [(await scene.find(at(f"/{n}"))).reason for n in range(12)]
    assert reasons == [None, Reason.REDIRECT_CHAIN_TOO_LONG, *[None] * 10]


async def test_a_redirect_target_was_found_where_its_source_was(scene: Scene) -> None:
    await scene.sow(at("/"), at("/seed"))
    await scene.answer((at("/"), linking("/1")))
    await scene.answer((at("/1"), to("/2")), (at("/seed"), to("/moved")))
    await scene.answer((at("/2"), to("/3")))
    _, entry = await scene.waiting(at("/3"))
    assert (entry.via, entry.chain) == (at("/"), (at("/1"), at("/2")))
    assert (await scene.find(at("/moved"))).via == ""
