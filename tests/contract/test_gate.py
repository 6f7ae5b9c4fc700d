"""The contract of `HostGate`: one suite, every adapter in `BENCHES` passes it.

A bench is a gate whose time the test moves, and a count of what it holds.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import tracemalloc
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Protocol

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mannerly.clock import SystemClock
from mannerly.gate.memory import MemoryGate
from mannerly.ports import Claim, HostGate, Permit, Wait
from mannerly.testing.clock import ManualClock


class Bench(Protocol):
    """A gate on trial."""

    @property
    def gate(self) -> HostGate: ...

    @property
    def entries(self) -> int:
        """Host and group entries that the gate holds."""
        ...

    def now(self) -> float:
        """The gate's time."""
        ...

    def pass_time(self, seconds: float) -> None: ...


class MemoryBench:
    def __init__(self) -> None:
        self._clock = ManualClock()
        self.gate = MemoryGate(self._clock)

    @property
    def entries(self) -> int:
        return self.gate.entries

    def now(self) -> float:
        return self._clock.monotonic()

    def pass_time(self, seconds: float) -> None:
        self._clock.advance(seconds)


BENCHES: dict[str, Callable[[], Bench]] = {"memory": MemoryBench}
each_gate = pytest.mark.parametrize("make", BENCHES.values(), ids=BENCHES.keys())

LEASE_S = 80.0


def ask(
    host: str,
    group: str = "",
    *,
    delay_s: float = 1.0,
    per_host: int = 1,
    per_group: int = 2,
    group_spacing_s: float = 0.5,
) -> Claim:
    return Claim(
        host=host,
        address="192.0.2.1",
        group=group,
        lease_s=LEASE_S,
        delay_s=delay_s,
        per_host=per_host,
        per_group=per_group,
        group_spacing_s=group_spacing_s,
    )


async def granted(bench: Bench, claim: Claim) -> Permit:
    answer = await bench.gate.claim(claim)
    assert isinstance(answer, Permit), answer
    return answer


async def refused(bench: Bench, claim: Claim) -> Wait:
    answer = await bench.gate.claim(claim)
    assert isinstance(answer, Wait), answer
    assert answer.until > bench.now()
    return answer


# ----------------------------------------------------------------------------------------------------------- one host


@each_gate
async def test_a_host_never_seen_is_claimable_at_once(make: Callable[[], Bench]) -> None:
    bench = make()
    permit = await granted(bench, ask("new.test", "192.0.2.1"))
    assert (permit.host, permit.group, permit.address) == ("new.test", "192.0.2.1", "192.0.2.1")
    assert permit.lease_until == bench.now() + LEASE_S
    assert await bench.gate.in_flight() == 1


@each_gate
async def test_one_permit_at_a_time_and_a_wait_for_the_others(make: Callable[[], Bench]) -> None:
    bench = make()
    await granted(bench, ask("a.test"))
    await refused(bench, ask("a.test"))
    await granted(bench, ask("b.test"))
    assert await bench.gate.in_flight() == 2


@each_gate
async def test_i3_delay_counts_from_the_end_of_the_response(make: Callable[[], Bench]) -> None:
    bench = make()
    permit = await granted(bench, ask("a.test"))
    bench.pass_time(20)
    opens_at = await bench.gate.release(permit, delay_s=2)
    assert opens_at == bench.now() + 2
    bench.pass_time(1.999)
    assert (await refused(bench, ask("a.test"))).until == opens_at
    bench.pass_time(0.001)
    await granted(bench, ask("a.test"))


@each_gate
async def test_i3_permit_never_given_back_frees_its_host_at_lease_end_plus_delay(
    make: Callable[[], Bench],
) -> None:
    bench = make()
    await granted(bench, ask("a.test", "g", delay_s=7))
    bench.pass_time(LEASE_S + 6.9)
    wait = await refused(bench, ask("a.test", "g"))
    assert wait.until == pytest.approx(bench.now() + 0.1)
    assert await bench.gate.in_flight() == 1
    bench.pass_time(0.11)
    assert await bench.gate.in_flight() == 0
    await granted(bench, ask("a.test", "g"))


@each_gate
async def test_permit_given_back_twice_changes_nothing(make: Callable[[], Bench]) -> None:
    bench = make()
    first = await granted(bench, ask("a.test", "g", per_group=1, group_spacing_s=0))
    opens_at = await bench.gate.release(first, delay_s=2)
    bench.pass_time(1)
    assert await bench.gate.release(first, delay_s=0) == opens_at
    assert await bench.gate.release(first, delay_s=50) == opens_at
    bench.pass_time(1)
    await granted(bench, ask("a.test", "g", per_group=1, group_spacing_s=0))
    await bench.gate.release(first, delay_s=0)
    await refused(bench, ask("a.test"))
    assert (await refused(bench, ask("b.test", "g", per_group=1))).group == "g"
    assert await bench.gate.in_flight() == 1


@each_gate
async def test_permit_given_back_after_its_lease_does_not_shorten_the_wait(make: Callable[[], Bench]) -> None:
    bench = make()
    permit = await granted(bench, ask("a.test", delay_s=10))
    bench.pass_time(LEASE_S + 1)
    assert await bench.gate.release(permit, delay_s=0) == bench.now() + 9
    bench.pass_time(8.9)
    await refused(bench, ask("a.test"))
    bench.pass_time(0.2)
    await granted(bench, ask("a.test"))


@each_gate
async def test_permit_given_back_long_after_its_lease_does_not_free_its_successor(
    make: Callable[[], Bench],
) -> None:
    bench = make()
    lost = await granted(bench, ask("a.test"))
    bench.pass_time(LEASE_S + 1)
    await granted(bench, ask("a.test"))
    await bench.gate.release(lost, delay_s=0)
    await refused(bench, ask("a.test"))


@each_gate
async def test_hold_closes_a_host_and_never_shortens(make: Callable[[], Bench]) -> None:
    bench = make()
    await bench.gate.hold("a.test", for_s=100)
    await bench.gate.hold("a.test", for_s=1)
    assert (await refused(bench, ask("a.test"))).until == bench.now() + 100
    bench.pass_time(100)
    permit = await granted(bench, ask("a.test"))
    await bench.gate.hold("a.test", for_s=60)
    assert await bench.gate.release(permit, delay_s=1) == bench.now() + 60
    await granted(bench, ask("b.test"))


@each_gate
async def test_more_per_host_only_as_the_claim_says(make: Callable[[], Bench]) -> None:
    bench = make()
    three = [await granted(bench, ask("a.test", per_host=3)) for _ in range(3)]
    await refused(bench, ask("a.test", per_host=3))
    await bench.gate.release(three[0], delay_s=1)
    await refused(bench, ask("a.test", per_host=3))
    bench.pass_time(1)
    await granted(bench, ask("a.test", per_host=3))
    await refused(bench, ask("a.test", per_host=3))


@each_gate
async def test_b76_claimants_of_one_host_start_one_delay_apart(make: Callable[[], Bench]) -> None:
    bench = make()
    begin = bench.now()
    starts: list[float] = []
    waiting = [begin] * 3
    while waiting:
        bench.pass_time(min(waiting) - bench.now())
        due = [at for at in waiting if at <= bench.now()]
        waiting = [at for at in waiting if at > bench.now()]
        answers = [await bench.gate.claim(ask("a.test", delay_s=2)) for _ in due]
        for answer in answers:
            if isinstance(answer, Permit):
                starts.append(bench.now() - begin)
                await bench.gate.release(answer, delay_s=2)
        waiting += [bench.now() + 2 for answer in answers if isinstance(answer, Wait)]
    assert starts == [0, 2, 4]


@each_gate
async def test_race_of_six_for_a_new_host_gives_one_permit_and_five_waits(make: Callable[[], Bench]) -> None:
    bench = make()
    answers = await asyncio.gather(*(bench.gate.claim(ask("new.test", "g")) for _ in range(6)))
    assert sum(isinstance(answer, Permit) for answer in answers) == 1
    assert all(answer.until > bench.now() for answer in answers if isinstance(answer, Wait))


# ------------------------------------------------------------------------------------------------------ address group


@each_gate
async def test_group_allows_so_many_at_once_and_spaces_their_starts(make: Callable[[], Bench]) -> None:
    bench = make()
    first = await granted(bench, ask("a.test", "g"))
    wait = await refused(bench, ask("b.test", "g"))
    assert wait == Wait(bench.now() + 0.5, "g")
    bench.pass_time(0.5)
    await granted(bench, ask("b.test", "g"))
    bench.pass_time(0.5)
    assert (await refused(bench, ask("c.test", "g"))).group == "g"
    await granted(bench, ask("d.test", "h"))
    await bench.gate.release(first, delay_s=1)
    await granted(bench, ask("c.test", "g"))


@each_gate
async def test_refusal_by_the_group_does_not_touch_the_host(make: Callable[[], Bench]) -> None:
    bench = make()
    await granted(bench, ask("a.test", "g", per_group=1))
    await refused(bench, ask("b.test", "g", per_group=1))
    await granted(bench, ask("b.test", "h", per_group=1))


@each_gate
async def test_b78_four_names_on_one_address_take_turns(make: Callable[[], Bench]) -> None:
    bench = make()
    names = ["a1.test", "a2.test", "a3.test", "a4.test"]
    served: Counter[str] = Counter()
    for _ in range(200):
        answers = [await bench.gate.claim(ask(name, "192.0.2.1", per_group=1)) for name in names]
        permits = [answer for answer in answers if isinstance(answer, Permit)]
        names.append(names.pop(0))  # who goes first is the caller's to say
        assert len(permits) <= 1
        assert await bench.gate.in_flight() == len(permits)
        bench.pass_time(0.3)
        for permit in permits:
            served[permit.host] += 1
            await bench.gate.release(permit, delay_s=1)
    assert set(served) == set(names)


# -------------------------------------------------------------------------------------------------- any interleaving

HOSTS = ("a.test", "b.test", "c.test")
GROUPS = ("", "g", "h")
CLAIM_DELAY_S = 4.0

steps = st.lists(
    st.one_of(
        st.tuples(st.just("claim"), st.sampled_from(HOSTS), st.sampled_from(GROUPS)),
        # of all permits ever given, also those given back or lost: a release may come late or twice
        st.tuples(st.just("release"), st.integers(0, 30), st.sampled_from((0.0, 0.5, 3.0, 200.0))),
        st.tuples(st.just("hold"), st.sampled_from(HOSTS), st.sampled_from((0.0, 1.0, 90.0))),
        st.tuples(st.just("pass"), st.sampled_from((0.1, 0.5, 1.0, 3.0, 81.0, 85.0)), st.just(None)),
    ),
    max_size=60,
)


@dataclass
class Model:
    """What the gate must do, written down the slow way: every permit and every instant are kept for ever."""

    out: dict[int, tuple[Permit, float]] = field(default_factory=dict)
    host_ok_at: dict[str, float] = field(default_factory=dict)
    group_ok_at: dict[str, float] = field(default_factory=dict)

    def live(self, now: float) -> list[Permit]:
        return [permit for permit, frees_at in self.out.values() if frees_at > now]

    def allows(self, claim: Claim, now: float) -> bool:
        live = self.live(now)
        host_free = not any(permit.host == claim.host for permit in live)
        group_free = not claim.group or sum(permit.group == claim.group for permit in live) < claim.per_group
        return (
            host_free
            and group_free
            and now >= self.host_ok_at.get(claim.host, 0.0)
            and now >= self.group_ok_at.get(claim.group, 0.0)
        )

    def grant(self, permit: Permit, claim: Claim, now: float) -> None:
        self.out[permit.id] = (permit, permit.lease_until + claim.delay_s)
        if claim.group:
            self.group_ok_at[claim.group] = now + claim.group_spacing_s

    def release(self, permit: Permit, delay_s: float, now: float) -> None:
        _, frees_at = self.out.pop(permit.id, (None, 0.0))
        if frees_at > now:
            late_until = frees_at if now > permit.lease_until else 0.0
            self.close(permit.host, max(now + delay_s, late_until))

    def close(self, host: str, until: float) -> None:
        self.host_ok_at[host] = max(self.host_ok_at.get(host, 0.0), until)


@pytest.mark.slow
@each_gate
@settings(max_examples=150)
@given(steps=steps)
async def test_i2_any_interleaving_keeps_one_per_host_the_gap_and_the_group(
    make: Callable[[], Bench], steps: list[tuple[str, str | int | float, str | float | None]]
) -> None:
    bench, model, given_out = make(), Model(), list[Permit]()
    for step in steps:
        now = bench.now()
        match step:
            case ("claim", str(host), str(group)):
                claim = ask(host, group, delay_s=CLAIM_DELAY_S)
                answer = await bench.gate.claim(claim)
                assert isinstance(answer, Permit) == model.allows(claim, now)
                if isinstance(answer, Permit):
                    given_out.append(answer)
                    model.grant(answer, claim, now)
                else:
                    assert answer.until > now
                    assert answer.group in {"", group}
            case ("release", int(index), float(delay_s)) if given_out:
                permit = given_out[index % len(given_out)]
                opens_at = await bench.gate.release(permit, delay_s=delay_s)
                model.release(permit, delay_s, now)
                assert opens_at == max(now, model.host_ok_at.get(permit.host, 0.0))
            case ("hold", str(host), float(for_s)):
                await bench.gate.hold(host, for_s=for_s)
                model.close(host, now + for_s)
            case ("pass", float(seconds), None):
                bench.pass_time(seconds)
        assert await bench.gate.in_flight() == len(model.live(bench.now()))
    bench.pass_time(LEASE_S + 300.0)
    for host in HOSTS:
        permit = await granted(bench, ask(host, group_spacing_s=0))
        await bench.gate.release(permit, delay_s=0)


# -------------------------------------------------------------------------------------------------------------- memory


@each_gate
@pytest.mark.slow
async def test_b84_entries_return_to_a_bounded_number_after_200_000_hosts(make: Callable[[], Bench]) -> None:
    bench = make()
    most = 0
    for i in range(200_000):
        permit = await granted(bench, ask(f"h{i}.test", f"g{i}"))
        await bench.gate.release(permit, delay_s=1)
        bench.pass_time(0.001)
        most = max(most, bench.entries)
    assert most < 3_000  # 1,000 hosts are within their delay at any instant, 500 groups within their spacing
    bench.pass_time(2)
    for _ in range(most):
        await refused_or_granted(bench)
    assert bench.entries <= 2


@each_gate
async def test_b84_permits_that_were_lost_leave_nothing_behind(make: Callable[[], Bench]) -> None:
    bench = make()
    for i in range(2_000):
        await granted(bench, ask(f"h{i}.test", f"g{i}"))
    assert bench.entries == 4_000
    bench.pass_time(LEASE_S + 1)
    for _ in range(1_000):
        await refused_or_granted(bench)
    assert bench.entries <= 2
    assert await bench.gate.in_flight() <= 1


async def refused_or_granted(bench: Bench) -> None:
    await bench.gate.claim(ask("last.test", "last"))


async def test_b84_holding_one_host_many_times_does_not_grow() -> None:
    bench = MemoryBench()
    await bench.gate.hold("a.test", for_s=86_400)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(5_000):
            await bench.gate.hold("a.test", for_s=86_400)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert bench.entries == 1
    assert after - before < 100_000


# ------------------------------------------------------------------------------------------------- memory gate, threads


def in_threads(work: Callable[[], None], *, threads: int = 8) -> None:
    """Run `work` in threads that switch as often as they can; raise what any of them raised."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(threads) as pool:
            for running in [pool.submit(work) for _ in range(threads)]:
                running.result()
    finally:
        sys.setswitchinterval(interval)


@pytest.mark.slow
def test_race_of_8_threads_and_80_000_claims_for_one_host_gives_one_permit() -> None:
    gate = MemoryGate(ManualClock())
    permits: list[Permit] = []

    async def claim_often() -> None:
        for _ in range(10_000):
            answer = await gate.claim(ask("a.test", "g"))
            if isinstance(answer, Permit):
                permits.append(answer)

    in_threads(lambda: asyncio.run(claim_often()))
    assert len(permits) == 1


@pytest.mark.slow
def test_race_of_8_threads_never_puts_two_permits_out_for_a_host() -> None:
    gate = MemoryGate(SystemClock())
    owners: dict[str, int] = {}
    in_group: Counter[str] = Counter()
    lock = threading.Lock()
    grants = 0

    def enter(permit: Permit) -> None:
        nonlocal grants
        with lock:
            grants += 1
            assert permit.host not in owners, f"two permits out for {permit.host}"
            owners[permit.host] = permit.id
            in_group[permit.group] += 1
            assert in_group[permit.group] <= 2

    def leave(permit: Permit) -> None:
        with lock:
            del owners[permit.host]
            in_group[permit.group] -= 1

    async def claim_often() -> None:
        for i in range(10_000):
            claim = ask(f"h{i % 5}.test", f"g{i % 2}", delay_s=0, group_spacing_s=0)
            answer = await gate.claim(claim)
            if isinstance(answer, Permit):
                enter(answer)
                leave(answer)
                await gate.release(answer, delay_s=0)

    in_threads(lambda: asyncio.run(claim_often()))
    assert grants > 10_000
    assert not owners


def test_state_of_the_memory_gate_is_one_line() -> None:
    assert repr(MemoryGate(ManualClock())) == "<MemoryGate 0 permits out, 0 hosts, 0 groups>"
