"""Order and states of the frontier: bands by draw, hosts and templates in turn, waits, the end, who leaves."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mannerly.model.host import HostRecord, QueueState, WaitCause
from mannerly.policy.bands import band_of, draw_band
from mannerly.policy.frontier import (
    TRANSITIONS,
    Frontier,
    HostQueue,
    Standing,
    ended,
)

NOW = 1_000.0


@dataclass(frozen=True, slots=True)
class Url:
    """As much of a waiting URL as the order looks at."""

    name: str
    band: int = 1
    template: int = 0


Queue = HostQueue[Url, str]
Hosts = Frontier[Url, str]


def queue(name: str, *urls: Url) -> Queue:
    host = Queue(HostRecord(hash(name), name))
    host.fill(urls)
    return host


def hosts(*queues: Queue, most: int = 100) -> Hosts:
    frontier = Hosts(most=most)
    for host in queues:
        frontier.add(host)
    return frontier


def served(frontier: Hosts, draws: Iterator[float], n: int) -> list[str]:
    """Take `n` URLs in the frontier's order and return their names."""
    names = []
    for _ in range(n):
        turn = frontier.next_host(lambda: next(draws))
        if turn is None:
            break
        host, band = turn
        names.append(host.take(band).name)
    return names


def always(value: float) -> Iterator[float]:
    while True:
        yield value


# --------------------------------------------------------------------------------------------------------------- bands


@pytest.mark.parametrize(
    ("depth", "seed", "band"),
    [(0, True, 0), (3, True, 0), (0, False, 1), (1, False, 1), (2, False, 2), (3, False, 3), (40, False, 3)],
)
def test_band_follows_depth_and_seeds_are_first(depth: int, seed: bool, band: int) -> None:
    assert band_of(depth, seed=seed) == band


def test_bands_are_drawn_8_4_2_1() -> None:
    drawn = Counter(draw_band([True] * 4, i / 15) for i in range(15))
    assert drawn == {0: 8, 1: 4, 2: 2, 3: 1}


@pytest.mark.parametrize(
    ("filled", "drawn"),
    [
        ([False, True, True, True], {1: 4, 2: 2, 3: 1}),
        ([True, False, False, True], {0: 8, 3: 1}),
        ([False, False, True, False], {2: 2}),
    ],
)
def test_only_filled_bands_are_drawn(filled: list[bool], drawn: dict[int, int]) -> None:
    total = sum(drawn.values())
    assert Counter(draw_band(filled, i / total) for i in range(total)) == drawn


def test_nothing_filled_draws_nothing() -> None:
    assert draw_band([False] * 4, 0.5) is None


@given(st.lists(st.booleans(), min_size=4, max_size=4), st.floats(0, 1, exclude_max=True))
def test_draw_gives_a_filled_band_for_any_chance(filled: list[bool], chance: float) -> None:
    band = draw_band(filled, chance)
    assert (band is None) == (not any(filled))
    assert band is None or filled[band]


def test_seed_is_taken_before_others_8_of_15() -> None:
    chance = random.Random(7)
    first: Counter[str] = Counter()
    for _ in range(3_000):
        frontier = hosts(*(queue(f"h{band}.test", Url(str(band), band)) for band in range(4)))
        first[served(frontier, iter(chance.random, None), 1)[0]] += 1
    for band, share in enumerate((8, 4, 2, 1)):
        assert first[str(band)] / 3_000 == pytest.approx(share / 15, abs=0.03)


# ------------------------------------------------------------------------------------------------- order inside a host


def test_templates_come_in_turn_and_each_keeps_its_order() -> None:
    host = queue(
        "a.test", *(Url(f"x{i}", template=1) for i in range(4)), Url("y0", template=2), Url("z0", template=3)
    )
    assert [host.take(1).name for _ in range(6)] == ["x0", "y0", "z0", "x1", "x2", "x3"]
    assert len(host) == 0
    assert host.peek(1) is None
    with pytest.raises(LookupError, match="band 1"):
        host.take(1)


def test_peek_says_what_take_gives() -> None:
    host = queue("a.test", Url("x0"), Url("x1"), Url("y0", template=1), Url("deep", band=3))
    for band in (1, 3, 1, 1):
        assert host.peek(band) == host.take(band)


urls = st.lists(
    st.builds(Url, st.uuids().map(str), st.integers(0, 3), st.integers(0, 4)), min_size=1, max_size=30
)


@pytest.mark.slow
@given(urls, st.data())
def test_put_back_undoes_take(given_urls: list[Url], data: st.DataObject) -> None:
    host, twin = queue("a.test", *given_urls), queue("a.test", *given_urls)
    while len(host):
        band = data.draw(st.sampled_from(host.bands()))
        if data.draw(st.booleans()):
            host.put_back(host.take(band))
        assert host.take(band) == twin.take(band)
        assert host.bands() == twin.bands()


@pytest.mark.slow
@given(urls)
def test_every_url_comes_out_once(given_urls: list[Url]) -> None:
    host = queue("a.test", *given_urls)
    out = [host.take(band) for band in host.bands() for _ in range(sum(u.band == band for u in given_urls))]
    assert Counter(out) == Counter(given_urls)
    assert host.bands() == ()


def test_host_with_prerequisites_alone_is_drawn() -> None:
    host = queue("a.test")
    frontier = hosts(host)
    assert frontier.next_host(lambda: 0.0) is None
    host.prerequisites.append("robots")
    frontier.ready(host)
    assert frontier.next_host(lambda: 0.0) == (host, 0)
    host.prerequisites.clear()
    assert frontier.next_host(lambda: 0.0) is None


# ------------------------------------------------------------------------------------------------------------ in turn


def test_hosts_of_a_band_come_in_turn() -> None:
    frontier = hosts(*(queue(n, *(Url(f"{n}{i}") for i in range(3))) for n in "abc"))
    assert served(frontier, always(0.0), 10) == ["a0", "b0", "c0", "a1", "b1", "c1", "a2", "b2", "c2"]


def test_host_stands_in_line_in_each_band_it_has_urls_in() -> None:
    frontier = hosts(queue("a", Url("a-seed", 0), Url("a-deep", 3)), queue("b", Url("b-deep", 3)))
    assert served(frontier, always(0.0), 1) == ["a-seed"]
    assert served(frontier, always(0.999), 2) == ["a-deep", "b-deep"]


def test_urls_that_came_since_are_drawn_after_ready_is_said_again() -> None:
    host = queue("a", Url("late", 2))
    frontier = hosts(host)
    host.fill([Url("seed", 0)])
    frontier.ready(host)
    assert served(frontier, always(0.0), 5) == ["seed", "late"]


def test_host_that_is_not_ready_is_not_drawn() -> None:
    host = queue("a", Url("x"))
    frontier = hosts(host)
    for move in (
        frontier.start,
        lambda h: frontier.snooze(h, NOW + 5, WaitCause.DELAY),
        frontier.exhaust,
        frontier.park,
        frontier.retire,
    ):
        move(host)
        assert frontier.next_host(lambda: 0.5) is None, host
        frontier.ready(host)
        assert frontier.next_host(lambda: 0.5) == (host, 1)


def test_b79_a_host_that_waits_does_not_hold_up_the_others() -> None:
    names = [chr(c) for c in range(ord("b"), ord("z") + 1)]
    frontier = hosts(
        queue("a", *(Url(f"a{i}") for i in range(1_000))),
        *(queue(n, *(Url(f"{n}{i}") for i in range(5))) for n in names),
    )
    chance, now, slots, done = random.Random(1), NOW, 16, Counter[str]()
    while sum(done[n] for n in names) < 5 * len(names):
        for _ in range(slots):
            turn = frontier.next_host(chance.random)
            if turn is None:
                break
            host, band = turn
            host.take(band)
            done[host.name] += 1
            frontier.snooze(host, now + (5.0 if host.name == "a" else 1.0), WaitCause.DELAY)
        now += 0.1
        frontier.wake_due(now)
    assert now - NOW < 7.0  # five visits one second apart
    assert done["a"] <= 2


# -------------------------------------------------------------------------------------------------------------- states


@pytest.mark.parametrize("old", QueueState)
@pytest.mark.parametrize("new", QueueState)
def test_only_moves_of_the_table_are_made(old: QueueState, new: QueueState) -> None:
    def move(frontier: Hosts, host: Queue, state: QueueState) -> None:
        match state:
            case QueueState.READY:
                frontier.ready(host)
            case QueueState.IN_PROCESS:
                frontier.start(host)
            case QueueState.SNOOZED:
                frontier.snooze(host, NOW, WaitCause.DELAY)
            case QueueState.EXHAUSTED:
                frontier.exhaust(host)
            case QueueState.PARKED:
                frontier.park(host)
            case QueueState.RETIRED:
                frontier.retire(host)

    host = queue("a", Url("x"))
    frontier = hosts(host)
    move(frontier, host, old)
    if new in TRANSITIONS[old]:
        move(frontier, host, new)
        assert host.state is new
        assert frontier.count(new) == 1
    else:
        with pytest.raises(ValueError, match="does not become"):
            move(frontier, host, new)
        assert host.state is old
        assert frontier.count(old) == 1


def test_every_state_is_reached_and_left() -> None:
    assert set(TRANSITIONS) == set(QueueState)
    assert all(QueueState.READY in after for after in TRANSITIONS.values())


def test_snoozed_hosts_wake_when_due_earliest_first() -> None:
    a, b, c = queue("a", Url("a")), queue("b", Url("b")), queue("c", Url("c"))
    frontier = hosts(a, b, c)
    frontier.snooze(a, NOW + 3, WaitCause.DELAY)
    frontier.snooze(b, NOW + 1, WaitCause.DELAY)
    frontier.snooze(c, NOW + 2, WaitCause.BACKOFF)
    assert frontier.next_due() == (NOW + 1, WaitCause.DELAY)
    frontier.snooze(b, NOW + 9, WaitCause.RETRY_AFTER)
    assert frontier.next_due() == (NOW + 2, WaitCause.BACKOFF)
    assert frontier.wake_due(NOW + 1.9) == []
    assert set(frontier.wake_due(NOW + 3)) == {a, c}
    assert frontier.next_due() == (NOW + 9, WaitCause.RETRY_AFTER)
    frontier.ready(b)
    assert frontier.next_due() is None
    assert frontier.wake_due(NOW + 100) == []


def test_group_wakes_who_waited_longest() -> None:
    a, b, c = queue("a", Url("a")), queue("b", Url("b")), queue("c", Url("c"))
    frontier = hosts(a, b, c)
    for host in (b, a):
        frontier.snooze(host, NOW + 80, WaitCause.GROUP, group="192.0.2.1")
    frontier.snooze(c, NOW + 80, WaitCause.GROUP, group="192.0.2.2")
    assert frontier.wake_group("192.0.2.1") is b
    frontier.ready(a)
    assert frontier.wake_group("192.0.2.1") is None
    frontier.drop(c)
    assert frontier.wake_group("192.0.2.2") is None


@pytest.mark.parametrize("how", ["snooze", "exhaust", "park", "retire", "drop"])
def test_a_place_in_a_group_that_is_not_taken_is_offered_to_the_next(how: str) -> None:
    a, b, c = queues = [queue(name, Url(name)) for name in "abc"]
    frontier = hosts(*queues)
    for host in queues:
        frontier.snooze(host, NOW + 80, WaitCause.GROUP, group="g")
    assert frontier.wake_group("g") is a
    if how == "snooze":
        frontier.snooze(a, NOW + 5, WaitCause.DELAY)  # its own turn is not yet
    else:
        getattr(frontier, how)(a)
    assert (b.state, c.state) == (QueueState.READY, QueueState.SNOOZED)
    frontier.start(b)  # it took the place
    assert c.state is QueueState.SNOOZED


def test_who_is_turned_down_again_keeps_its_place_in_the_line_of_the_group() -> None:
    a, b, c = queues = [queue(name, Url(name)) for name in "abc"]
    frontier = hosts(*queues)
    for host in queues:
        frontier.snooze(host, NOW + 80, WaitCause.GROUP, group="g")
    assert frontier.wake_group("g") is a
    frontier.snooze(a, NOW + 1, WaitCause.GROUP, group="g")  # the group's spacing
    assert (b.state, c.state) == (QueueState.SNOOZED, QueueState.SNOOZED)
    assert frontier.wake_due(NOW + 1) == [a]
    frontier.snooze(a, NOW + 2, WaitCause.GROUP, group="g")
    assert frontier.wake_group("g") is a
    frontier.snooze(a, NOW + 9, WaitCause.GROUP, group="other")
    assert b.state is QueueState.READY


@given(
    st.lists(st.sampled_from(["taken", "still full", "own delay", "nothing left"]), min_size=6, max_size=6)
)
def test_no_place_in_a_group_stays_free_while_somebody_waits_for_it(ways: list[str]) -> None:
    queues = [queue(name, Url(name)) for name in "abcdef"]
    frontier = hosts(*queues)
    for host in queues:
        frontier.snooze(host, NOW + 80, WaitCause.GROUP, group="g")
    frontier.wake_group("g")
    for number, way in enumerate(ways):
        offered = [host for host in queues if host.state is QueueState.READY]
        assert offered == [queues[number]], "one after the other, in the order in which they came"
        match way:
            case "taken":
                frontier.start(offered[0])
            case "still full":
                frontier.snooze(offered[0], NOW + 90, WaitCause.GROUP, group="g")
            case "own delay":
                frontier.snooze(offered[0], NOW + 1, WaitCause.DELAY)
            case "nothing left":
                frontier.exhaust(offered[0])
        if way in ("taken", "still full"):
            assert all(host.state is not QueueState.READY for host in queues)
            break
    else:
        assert len(frontier._groups) == 0, "all were asked"


def test_active_set_is_bounded_and_holds_a_name_once() -> None:
    frontier = hosts(queue("a"), queue("b"), most=2)
    assert frontier.full
    with pytest.raises(ValueError, match="cannot join"):
        frontier.add(queue("c"))
    a = frontier.get("a")
    assert a is not None
    frontier.drop(a)
    frontier.add(queue("c"))
    assert [host.name for host in frontier.hosts()] == ["b", "c"]
    assert frontier.get("a") is None
    with pytest.raises(ValueError, match="not active"):
        frontier.ready(a)
    assert repr(frontier) == "<Frontier 2 of 2 hosts: 2 ready>"


# ----------------------------------------------------------------------------------------------------- end of the crawl


@pytest.mark.parametrize(
    ("standing", "over"),
    [
        (Standing(0, 0, None, None), True),
        (Standing(1, 0, None, None), False),
        (Standing(0, 1, None, None), False),
        (Standing(0, 0, NOW + 3_600, None), False),
        (Standing(0, 0, NOW + 3_600, NOW + 3_600), False),
        (Standing(0, 0, None, NOW + 60), False),
        (Standing(0, 0, None, NOW + 60.1), True),
        (Standing(2, 0, None, NOW + 3_600), False),
    ],
)
def test_crawl_ends_when_nothing_is_in_flight_or_due_within_patience(standing: Standing, over: bool) -> None:
    assert ended(standing, now=NOW, patience_s=60.0) is over


@pytest.mark.parametrize("cause", WaitCause)
def test_only_waits_that_politeness_does_not_ask_for_count_against_patience(cause: WaitCause) -> None:
    host = queue("a", Url("x"))
    frontier = hosts(host)
    frontier.snooze(host, NOW + 600, cause)
    polite = cause in {WaitCause.DELAY, WaitCause.GROUP, WaitCause.PREREQUISITE}
    assert ended(frontier.standing(in_flight=0), now=NOW, patience_s=60.0) is not polite
    frontier.wake_due(NOW + 600)
    assert not ended(frontier.standing(in_flight=0), now=NOW, patience_s=60.0)
    frontier.exhaust(host)
    assert ended(frontier.standing(in_flight=0), now=NOW, patience_s=60.0)


# ------------------------------------------------------------------------------------------------------------- eviction


def test_host_that_waits_longest_leaves_if_it_may() -> None:
    names = ("near", "far", "farther", "flying", "unsettled", "required", "waiting")
    near, far, farther, flying, unsettled, required, waiting = queues = [queue(n, Url(n)) for n in names]
    frontier = hosts(*queues)
    for wait_s, host in (
        (30, near),
        (31, far),
        (90, farther),
        (500, flying),
        (600, unsettled),
        (700, required),
    ):
        frontier.snooze(host, NOW + wait_s, WaitCause.BACKOFF)
    frontier.snooze(waiting, inf, WaitCause.PREREQUISITE)
    flying.in_flight.add(1)
    unsettled.unsettled.add(2)
    required.prerequisites.append("robots")
    for host in (farther, far):
        assert frontier.evictable(NOW) is host
        frontier.drop(host)
    assert frontier.evictable(NOW) is None
    flying.in_flight.clear()
    assert frontier.evictable(NOW) is flying
    assert frontier.evictable(NOW + 471) is None
    assert frontier.evictable(NOW, stays=lambda name: name == "flying") is None


# --------------------------------------------------------------------------------------------------- whatever happens

moves = st.lists(
    st.tuples(
        st.sampled_from(
            ["ready", "start", "snooze", "exhaust", "fill", "take", "draw", "wake", "drop", "add"]
        ),
        st.sampled_from("abcd"),
        st.integers(0, 3),
    ),
    max_size=80,
)


@pytest.mark.slow
@given(moves)
def test_every_ready_host_with_urls_is_drawn_and_no_other(steps: list[tuple[str, str, int]]) -> None:
    frontier, now = hosts(*(queue(n, Url(n, i)) for i, n in enumerate("abcd"))), NOW
    for step, name, number in steps:
        host = frontier.get(name)
        if host is None:
            if step == "add":
                frontier.add(queue(name, Url(name, number)))
            continue
        match step:
            case "ready":
                frontier.ready(host)
            case "start" if host.state is QueueState.READY:
                frontier.start(host)
            case "snooze":
                frontier.snooze(host, now + number, list(WaitCause)[number * 2], group="g" * (number == 1))
            case "exhaust":
                frontier.exhaust(host)
            case "fill":
                host.fill([Url(name, number, number)])
                if host.state is QueueState.READY:
                    frontier.ready(host)
            case "take" if host.bands():
                host.take(host.bands()[-1])
            case "draw":
                frontier.next_host(always(number / 4).__next__)
            case "wake":
                now += number
                woken = frontier.wake_due(now)
                assert all(h.state is QueueState.READY and h.until <= now for h in woken)
            case "drop":
                frontier.drop(host)
        assert sum(frontier.count(state) for state in QueueState) == len(frontier)
    could = {(h.name, b) for h in frontier.hosts() if h.state is QueueState.READY for b in h.bands()}
    chance = iter(random.Random(3).random, None)
    drawn = {
        (h.name, b)
        for _ in range(400)
        if (turn := frontier.next_host(lambda: next(chance)))
        for h, b in [turn]
    }
    assert drawn == could
    snoozed = [h.until for h in frontier.hosts() if h.state is QueueState.SNOOZED]
    due = frontier.next_due()
    assert (due and due[0]) == (min(snoozed) if snoozed else None)


@pytest.mark.slow
def test_step_does_not_grow_with_the_number_of_hosts() -> None:
    def step_s(n: int) -> float:
        frontier = hosts(*(queue(f"h{i}", Url("x", i % 4)) for i in range(n)), most=n)
        chance, now, batches = random.Random(5), NOW, list[float]()
        for _ in range(5):
            begin = process_time()
            for _ in range(1_000):
                turn = frontier.next_host(chance.random)
                assert turn is not None
                host, band = turn
                url = host.take(band)
                frontier.start(host)
                host.put_back(url)
                frontier.snooze(host, now + chance.random(), WaitCause.DELAY)
                now += 1e-3
                frontier.wake_due(now)
                frontier.standing(in_flight=1)
                frontier.evictable(now)
            batches.append((process_time() - begin) / 1_000)
        return min(batches)

    small, large = step_s(2_000), step_s(200_000)
    assert large < 10 * small, (small, large)  # a scan would make it a hundred times


@pytest.mark.slow
def test_b84_hosts_that_left_leave_nothing_behind() -> None:
    frontier = Hosts(most=100)
    for i in range(20_000):
        host = queue(f"h{i}", Url("x"))
        if frontier.full:
            out = frontier.evictable(NOW)
            assert out is not None
            frontier.drop(out)
        frontier.add(host)
        frontier.snooze(host, NOW + 60 + i % 50, WaitCause.BACKOFF, group=f"g{i}")
    for host in frontier.hosts():
        frontier.drop(host)
    assert len(frontier) == 0
    assert frontier.next_due() is None
    assert len(frontier._groups) == 0
    assert not any(frontier._lines)
    assert len(frontier._furthest) == 0
