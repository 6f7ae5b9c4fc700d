"""The certainly-new filter: never wrong about what was added, seldom about the rest, safe to lose."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mannerly.model.errors import DiskFull
from mannerly.store.bloom import BloomFilter

hashes = st.lists(st.integers(0, (1 << 64) - 1), max_size=200)


def random_keys(n: int, seed: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    return np.random.default_rng(seed).integers(0, 1 << 64, n, dtype=np.uint64)


@pytest.mark.slow
@given(added=st.lists(hashes, max_size=6), asked=hashes)
def test_what_was_added_is_never_certainly_new(added: list[list[int]], asked: list[int]) -> None:
    seen = BloomFilter.open(None, 50)
    known: set[int] = set()
    for part in added:
        seen.add(part)
        known.update(part)
    answers = seen.certainly_new([*asked, *known])
    assert all(not new or hash_ not in known for hash_, new in zip([*asked, *known], answers, strict=True))
    assert seen.count == sum(map(len, added))


@pytest.mark.slow
@pytest.mark.parametrize("layers", [1, 3])
def test_at_most_one_in_a_thousand_is_taken_for_seen(layers: int) -> None:
    capacity = 40_000
    seen = BloomFilter.open(None, capacity)
    keys = random_keys({1: capacity, 3: capacity * 21}[layers], 1)
    for start in range(0, len(keys), 2_000):
        seen.add(keys[start : start + 2_000])
    assert f"in {layers} layers" in repr(seen)
    asked = random_keys(400_000, 2)
    false = len(asked) - sum(seen.certainly_new(asked))
    assert false / len(asked) <= 0.001
    assert not any(seen.certainly_new(keys))


def test_a_clean_close_is_taken_up_again(tmp_path: Path) -> None:
    keys = [random_keys(300, n) for n in range(4)]
    seen = BloomFilter.open(tmp_path / "seen.bloom", 300, token=7)
    ready = [seen.ready]
    assert ready == [False]  # a missing file may have been lost: nobody knows what was admitted
    seen.rebuild([])
    for part in keys:
        seen.add(part)
    seen.close()
    again = BloomFilter.open(tmp_path / "seen.bloom", 300, token=7)
    assert again.ready
    assert again.count == 1_200
    assert not any(again.certainly_new(np.concatenate(keys)))
    assert sum(again.certainly_new(random_keys(1_000, 9))) > 980
    again.close()


@pytest.mark.parametrize(
    "harm",
    ["not closed", "other crawl", "shortened", "garbage", "empty", "first layer lost", "last layer lost"],
)
def test_an_unclean_filter_answers_maybe_until_it_is_rebuilt(tmp_path: Path, harm: str) -> None:
    path = tmp_path / "seen.bloom"
    seen = BloomFilter.open(path, 100, token=7)
    seen.complete()
    seen.add(list(range(90)))
    seen.add(list(range(90, 150)))
    if harm != "not closed":
        seen.close()
    match harm:
        case "shortened":
            path.write_bytes(path.read_bytes()[:-1])
        case "garbage":
            path.write_bytes(b"\xff" * path.stat().st_size)
        case "empty":
            path.write_bytes(b"")
        case "first layer lost":
            path.unlink()
        case "last layer lost":
            path.with_name("seen.bloom.1").unlink()
    again = BloomFilter.open(path, 100, token=8 if harm == "other crawl" else 7)
    ready = [again.ready]
    assert ready == [False]
    assert again.certainly_new([1, 1 << 63]) == [False, False]
    again.add([1 << 62])  # admitted while the rebuild runs
    again.rebuild([list(range(50)), np.arange(50, 90, dtype=np.uint64)])
    assert again.ready
    assert not any(again.certainly_new([*range(90), 1 << 62]))
    assert again.certainly_new([1 << 63])[0]
    again.close()


def test_a_filter_closed_before_it_was_rebuilt_is_not_whole(tmp_path: Path) -> None:
    BloomFilter.open(tmp_path / "b", 100).close()
    assert not BloomFilter.open(tmp_path / "b", 100).ready


def test_a_full_disk_is_met_when_the_file_is_made_not_by_a_signal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_space(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", no_space)
    with pytest.raises(DiskFull):
        BloomFilter.open(tmp_path / "b", 100)
    assert list(tmp_path.iterdir()) == []
