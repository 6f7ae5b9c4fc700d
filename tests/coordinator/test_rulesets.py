"""Rulesets in memory: what is held, what it may take, and what a verdict waits for."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from mannerly.coordinator.rulesets import RECORD_BYTES, Rulesets
from mannerly.model import url as urls
from mannerly.model.origin import Access, OriginRecord, Ruleset
from mannerly.model.verdict import Reason
from mannerly.store.sqlite import SqliteStore

NOW = 1_000_000.0
RULES = Ruleset(rules=((False, "/private"),))


@pytest.fixture
async def store() -> AsyncIterator[SqliteStore]:
    opened = SqliteStore(":memory:")
    yield opened
    await opened.close()


def record(origin: str, *, access: Access = Access.AVAILABLE, failures: int = 0) -> OriginRecord:
    ruleset = RULES if access is Access.AVAILABLE else None
    until = NOW + 3_600
    return OriginRecord(
        origin, access=access, ruleset=ruleset, rules_expire_at=until, expires_at=until, failures=failures
    )


def verdict(rulesets: Rulesets, href: str, now: float = NOW) -> Reason | str:
    found = rulesets.verdict(urls.parse(href), now)
    return "ask" if found is None else found.reason or "allowed"


async def test_what_was_never_asked_is_to_be_asked_first(store: SqliteStore) -> None:
    rulesets = Rulesets(store, most_bytes=1 << 20)
    assert not rulesets.is_loaded("http://a.test")
    await rulesets.load("http://a.test")
    assert rulesets.is_loaded("http://a.test")
    assert verdict(rulesets, "http://a.test/") == "ask"


async def test_rules_in_hand_decide_until_they_expire(store: SqliteStore) -> None:
    rulesets = Rulesets(store, most_bytes=1 << 20)
    rulesets.put(record("http://a.test"))
    assert verdict(rulesets, "http://a.test/private/x") is Reason.ROBOTS_DISALLOWED
    assert verdict(rulesets, "http://a.test/open") == "allowed"
    assert verdict(rulesets, "http://a.test/open", NOW + 3_601) == "ask"
    # rules belong to an origin: another scheme or port has its own
    assert verdict(rulesets, "https://a.test/open") == "ask"
    assert verdict(rulesets, "http://a.test:8080/open") == "ask"


async def test_i4_an_origin_that_cannot_be_read_allows_nothing(store: SqliteStore) -> None:
    rulesets = Rulesets(store, most_bytes=1 << 20)
    rulesets.put(record("http://a.test", access=Access.UNREACHABLE, failures=1))
    assert verdict(rulesets, "http://a.test/") == "ask"


async def test_an_answer_that_came_while_the_store_was_asked_is_the_newer(store: SqliteStore) -> None:
    rulesets = Rulesets(store, most_bytes=1 << 20)
    rulesets.put(record("http://a.test"))
    await rulesets.load("http://a.test")
    assert verdict(rulesets, "http://a.test/open") == "allowed"


async def test_i9_b84_memory_is_bounded_whatever_the_number_of_origins(store: SqliteStore) -> None:
    rulesets = Rulesets(store, most_bytes=20 * RECORD_BYTES)
    for number in range(500):
        origin = f"http://h{number}.test"
        if number % 2:
            await rulesets.load(origin)  # a host that never got as far as robots.txt
        else:
            rulesets.put(record(origin))
    held = [number for number in range(500) if rulesets.is_loaded(f"http://h{number}.test")]
    assert len(held) <= 20
    assert max(held) == 499


async def test_the_longest_unused_origin_is_forgotten_first(store: SqliteStore) -> None:
    one = Rulesets(store, most_bytes=1 << 20)
    one.put(record("http://a.test"))
    known = one.in_hand("http://a.test")
    assert known is not None
    rulesets = Rulesets(store, most_bytes=2 * known.nbytes)
    rulesets.put(record("http://a.test"))
    rulesets.put(record("http://b.test"))
    assert rulesets.in_hand("http://a.test") is not None
    rulesets.put(record("http://c.test"))
    assert [rulesets.is_loaded(f"http://{name}.test") for name in "abc"] == [True, False, True]


async def test_under_an_authorization_no_rules_are_asked_for(store: SqliteStore) -> None:
    rulesets = Rulesets(store, most_bytes=1 << 20, obey=False)
    assert verdict(rulesets, "http://a.test/private/x") == "allowed"
