"""The store behind its filter answers as it would without: the table is the truth, the filter saves reads."""

from __future__ import annotations

from pathlib import Path

from mannerly.model.entry import Admission, Admitted
from mannerly.ports import Batch
from mannerly.store.bloom import BloomFilter
from mannerly.store.sqlite import SqliteStore

HOST = "a.test"


def admissions(numbers: range) -> list[Admission]:
    """Return one admission a number; hashes cover the signed range."""
    return [
        Admission(
            HOST,
            n * 0x9E3779B97F4A7C15 % (1 << 64) - (1 << 63),
            f"http://{HOST}/{n}",
            f"http://{HOST}/{n}",
            "/{n}",
            1,
            1,
            1_000_000,
        )
        for n in numbers
    ]


async def test_known_answers_alike_with_and_without_a_filter(tmp_path: Path) -> None:
    stored, others = admissions(range(500)), admissions(range(500, 1_000))
    pairs = [(HOST, a.hash) for a in stored + others]
    store = SqliteStore(tmp_path / "state.sqlite")
    store.use_filter(BloomFilter.open(tmp_path / "seen.bloom", 10_000, token=7))
    await store.restore_seen()
    await store.commit(Batch(admissions=list(stored)))
    assert await store.known(pairs) == [True] * 500 + [False] * 500
    await store.close()


async def test_a_lost_filter_is_brought_back_and_misses_nothing(tmp_path: Path) -> None:
    stored = admissions(range(300))
    store = SqliteStore(tmp_path / "state.sqlite")
    await store.commit(Batch(admissions=list(stored)))  # before there was a filter
    seen = BloomFilter.open(tmp_path / "seen.bloom", 10_000, token=7)
    store.use_filter(seen)
    pairs = [(HOST, a.hash) for a in admissions(range(600))]
    was_ready = seen.ready
    assert await store.known(pairs) == [True] * 300 + [False] * 300
    await store.restore_seen()
    assert (was_ready, seen.ready) == (False, True)
    assert await store.known(pairs) == [True] * 300 + [False] * 300
    await store.close()


async def test_a_filter_that_missed_a_url_costs_an_insert_that_does_nothing(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "state.sqlite")
    seen = BloomFilter.open(None, 1_000)
    store.use_filter(seen)
    await store.commit(Batch(admissions=admissions(range(1))))
    store.use_filter(BloomFilter.open(None, 1_000))  # knows nothing
    committed = await store.commit(Batch(admissions=admissions(range(1))))
    assert committed.admitted == [Admitted.SEEN]
    await store.close()
