"""The contract of Journal, on every adapter (one so far), and what only files can suffer: cuts and flipped bytes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mannerly.model.errors import DiskFull, StateDamaged
from mannerly.model.frame import PageFrame
from mannerly.ports import Damage, Journal, Position
from mannerly.store import frames
from mannerly.store.journal import FileJournal

ADAPTERS: dict[str, Callable[[Path, int], Journal]] = {
    "file": lambda folder, segment_bytes: FileJournal(folder, segment_bytes=segment_bytes, min_free_bytes=0),
}
SMALL = 2_000


@pytest.fixture(params=list(ADAPTERS))
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Journal]:
    made = ADAPTERS[request.param](tmp_path / "journal", SMALL)
    yield made
    made.close()


def frame(n: int, size: int = 200) -> PageFrame:
    return PageFrame(
        url=f"https://a.test/{n}",
        key=f"https://a.test/{n}",
        status=200,
        fetched_at=float(n),
        depth=1,
        via="https://a.test/",
        redirected_from=(),
        bytes=size,
        elapsed_ms=3,
        body_digest="b",
        text_digest="t",
        fingerprint=(1 << 64) - 1,
        index=True,
        truncated="",
        duplicate_of="",
        identity="mannerly",
        authorization="",
        crawl="c",
        host_id=1,
        hash=n,
        blob=bytes([n % 251]) * size,
    )


def read_all(journal: Journal, end: Position | None = None, *, most: int = 1_000) -> list[PageFrame]:
    """Read to the end as a sink does."""
    at, stop, found = Position(), end or journal.end, []
    while at < stop:
        part, behind = journal.read(at, stop, most=most)
        assert at < behind <= stop
        assert len(part) <= most
        found += part
        at = behind
    return found


def numbers(found: list[PageFrame]) -> list[int]:
    return [f.hash for f in found]


def test_an_empty_journal_ends_where_it_starts(journal: Journal) -> None:
    assert journal.end == Position()
    assert journal.nbytes == 0
    assert journal.append([]) == []
    assert journal.read(Position(), Position()) == ([], Position())
    journal.cut(Position())
    assert read_all(journal) == []


def test_frames_come_back_in_order_over_many_segments(journal: Journal) -> None:
    written = [frame(n) for n in range(40)]
    positions = journal.append(written[:25]) + journal.append(written[25:])
    assert positions == sorted(set(positions))
    assert journal.end.segment > 3
    assert read_all(journal) == written
    assert read_all(journal, most=7) == written
    assert journal.damaged() == []


def test_reading_goes_on_from_any_frame(journal: Journal) -> None:
    positions = journal.append([frame(n) for n in range(20)])
    for n, position in enumerate(positions):
        found, _ = journal.read(position, journal.end)
        assert numbers(found) == list(range(n, 20))
        found, behind = journal.read(Position(), position)
        assert numbers(found) == list(range(n))
        assert behind == position


def test_i5_reading_stops_at_the_committed_position(journal: Journal) -> None:
    journal.append([frame(1)])
    committed = journal.end
    journal.append([frame(2)])
    assert numbers(read_all(journal, committed)) == [1]


def test_a_frame_larger_than_a_segment_has_one_of_its_own(journal: Journal) -> None:
    written = [frame(1), frame(2, 5 * SMALL), frame(3, 5 * SMALL), frame(4)]
    journal.append(written)
    assert read_all(journal) == written


def test_the_journal_goes_on_where_it_was_left(tmp_path: Path) -> None:
    for n in range(10):
        opened = FileJournal(tmp_path, segment_bytes=SMALL)
        assert numbers(read_all(opened)) == list(range(n))
        opened.append([frame(n)])
        opened.close()


@pytest.mark.slow
def test_i5_cutting_drops_what_no_transaction_knows(journal: Journal) -> None:
    for keep in (13, 12, 5, 1, 0):
        positions = journal.append([frame(n) for n in range(20)])
        journal.cut(positions[keep])
        assert journal.end == positions[keep]
        assert numbers(read_all(journal))[-keep:] == list(range(keep))[-keep:] or keep == 0
        journal.cut(Position())
        assert journal.end == Position()
        assert journal.nbytes == 0


def test_frames_written_after_a_cut_take_the_place_of_the_old(journal: Journal) -> None:
    positions = journal.append([frame(n) for n in range(20)])
    journal.cut(positions[7])
    journal.append([frame(n) for n in range(100, 103)])
    assert numbers(read_all(journal)) == [*range(7), 100, 101, 102]


def test_i5_a_journal_shorter_than_the_committed_position_gives_no_position_twice(journal: Journal) -> None:
    positions = journal.append([frame(n) for n in range(4)])
    committed = journal.end
    journal.cut(positions[2])  # the disk lost the tail
    journal.cut(committed)
    [new] = journal.append([frame(9)])
    assert new > committed
    assert numbers(read_all(journal)) == [0, 1, 9]
    assert journal.damaged() == [Damage(positions[2], Position(committed.segment + 1, 0))]


def test_i5_a_journal_that_is_gone_is_told_as_damage_and_gives_no_position_twice(tmp_path: Path) -> None:
    opened = FileJournal(tmp_path, segment_bytes=SMALL)
    positions = opened.append([frame(n) for n in range(20)])
    committed = opened.end
    assert committed.segment >= 3
    for path in tmp_path.iterdir():
        path.unlink()
    for _ in range(3):  # a run may commit no page and start again
        opened = FileJournal(tmp_path, segment_bytes=SMALL)
        opened.cut(committed)
        assert opened.end > committed
        assert opened.read(Position(), committed) == ([], committed)
        assert damaged_numbers(opened.damaged(), positions) == set(range(20))
    [new] = opened.append([frame(50)])
    assert new.segment == committed.segment + 1
    found, _ = opened.read(positions[12], opened.end)  # a sink that has all up to there
    assert numbers(found) == [50]
    assert damaged_numbers(opened.damaged(), positions) == set(range(12, 20))
    opened.read(committed, opened.end)
    assert damaged_numbers(opened.damaged(), positions) == set()


def test_i5_a_lost_end_is_told_from_the_last_frame_that_is_left(tmp_path: Path) -> None:
    opened = FileJournal(tmp_path, segment_bytes=SMALL)
    positions = opened.append([frame(n) for n in range(20)])
    committed = opened.end
    for number in range(2, committed.segment + 1):
        (tmp_path / f"{number:06}.pages").unlink()
    os.truncate(tmp_path / "000001.pages", positions[2].offset)
    opened = FileJournal(tmp_path, segment_bytes=SMALL)
    opened.cut(committed)
    opened.append([frame(50)])
    assert numbers(read_all(opened)) == [0, 1, 50]
    assert damaged_numbers(opened.damaged(), positions) == set(range(2, 20))


def test_segments_that_all_have_read_are_dropped(journal: Journal) -> None:
    positions = journal.append([frame(n) for n in range(20)])
    before = journal.nbytes
    middle = positions[10]
    journal.drop_before(middle)
    assert journal.nbytes < before
    kept = [n for n, p in enumerate(positions) if p.segment >= middle.segment]
    assert numbers(read_all(journal)) == kept
    assert journal.damaged() == []
    journal.drop_before(Position(99, 0))
    assert journal.end > positions[-1]  # the last stays, so that no position is given twice
    journal.append([frame(50)])
    assert numbers(read_all(journal))[-1] == 50


def test_a_read_is_bounded_in_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mannerly.store.journal.READ_BYTES", 1_000)
    opened = FileJournal(tmp_path)
    opened.append([frame(n) for n in range(20)])
    found, _ = opened.read(Position(), opened.end)
    assert 3 <= len(found) <= 5
    assert numbers(read_all(opened)) == list(range(20))


def test_full_tells_the_limit_of_the_log_and_of_the_disk(tmp_path: Path) -> None:
    opened = FileJournal(tmp_path, max_bytes=1_000, min_free_bytes=0)
    assert not opened.full()
    opened.append([frame(n) for n in range(5)])
    assert opened.full()
    opened.append([frame(6)])  # what is in flight is settled all the same
    assert FileJournal(tmp_path, min_free_bytes=1 << 60).full()


# ---------------------------------------------------------------------------------------------------------- damage


def damaged_numbers(told: list[Damage], positions: list[Position]) -> set[int]:
    return {n for n, p in enumerate(positions) for d in told if d.start <= p < d.end}


@pytest.mark.parametrize("where", [0, 3, 5, 9, 13, 17, 24, 60, 200])
def test_i5_a_flipped_byte_costs_its_frame_alone(tmp_path: Path, where: int) -> None:
    opened = FileJournal(tmp_path)
    positions = opened.append([frame(n) for n in range(6)])
    path = tmp_path / "000001.pages"
    raw = bytearray(path.read_bytes())
    raw[positions[2].offset + where] ^= 0x40
    path.write_bytes(raw)
    assert numbers(read_all(opened)) == [0, 1, 3, 4, 5]
    assert opened.damaged() == [Damage(positions[2], positions[3])]
    assert opened.damaged() == []


def test_i5_a_lost_block_is_told_with_all_frames_that_begin_in_it(tmp_path: Path) -> None:
    opened = FileJournal(tmp_path)
    positions = opened.append([frame(n) for n in range(30)])
    path = tmp_path / "000001.pages"
    raw = bytearray(path.read_bytes())
    raw[1_000:3_000] = bytes(2_000)
    path.write_bytes(raw)
    left = set(numbers(read_all(opened)))
    assert left | damaged_numbers(opened.damaged(), positions) == set(range(30))
    assert len(left) > 20


def test_i5_a_missing_segment_and_a_shortened_one_are_told(tmp_path: Path) -> None:
    opened = FileJournal(tmp_path, segment_bytes=SMALL)
    positions = opened.append([frame(n) for n in range(30)])
    (tmp_path / "000002.pages").unlink()
    last_of_third = max(p for p in positions if p.segment == 3)
    os.truncate(tmp_path / "000003.pages", last_of_third.offset)
    left = set(numbers(read_all(opened)))
    lost = {n for n, p in enumerate(positions) if p.segment == 2 or p == last_of_third}
    assert left == set(range(30)) - lost
    assert damaged_numbers(opened.damaged(), positions) == lost


def test_a_frame_inside_a_page_is_no_frame(tmp_path: Path) -> None:
    """A site may send the bytes of a whole segment; they must not be read as frames when the page's head is lost."""
    first = FileJournal(tmp_path / "first")
    first.append([frame(n) for n in range(5)])
    copied = (tmp_path / "first" / "000001.pages").read_bytes()
    opened = FileJournal(tmp_path / "second")
    inner = frame(8)
    positions = opened.append(
        [
            frame(7),
            PageFrame(**{f: getattr(inner, f) for f in inner.__struct_fields__[:-1]}, blob=copied * 3),
            frame(9),
        ]
    )
    path = tmp_path / "second" / "000001.pages"
    raw = bytearray(path.read_bytes())
    raw[positions[1].offset] ^= 1
    path.write_bytes(raw)
    assert numbers(read_all(opened)) == [7, 9]


def test_a_segment_of_a_newer_format_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "FORMAT", 2)
    FileJournal(tmp_path).append([frame(1)])
    monkeypatch.undo()
    opened = FileJournal(tmp_path)
    with pytest.raises(StateDamaged, match="format 2"):
        opened.read(Position(), opened.end)


COUNT = 12


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Position], Position]:
    folder = tmp_path_factory.mktemp("written")
    opened = FileJournal(folder, segment_bytes=1_500)
    positions = opened.append([frame(n, 20 * n) for n in range(COUNT)])
    opened.close()
    return folder, positions, opened.end


def copied(source: Path, target: Path) -> list[Path]:
    target.mkdir(exist_ok=True)
    for path in source.iterdir():
        (target / path.name).write_bytes(path.read_bytes())
    return sorted(target.iterdir())


def hurt(positions: list[Position], segment: int, start: int, end: int, last: int) -> set[int]:
    """Return the frames that hold a byte of [start, end) of a segment."""
    bounds = [*positions, Position(last + 1, 0)]
    lost = set()
    for n, p in enumerate(positions):
        behind = bounds[n + 1].offset if bounds[n + 1].segment == p.segment else 1 << 60
        if p.segment == segment and p.offset < end and start < behind:
            lost.add(n)
    return lost


@pytest.mark.slow
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_i5_any_flipped_bytes_leave_every_other_frame(
    data: st.DataObject, written: tuple[Path, list[Position], Position], tmp_path: Path
) -> None:
    source, positions, end = written
    files = copied(source, tmp_path / "j")
    index = data.draw(st.integers(0, len(files) - 1))
    raw = bytearray(files[index].read_bytes())
    start = data.draw(st.integers(0, len(raw) - 1))
    length = data.draw(st.sampled_from([1, 1, 1, 2, 8, 40, 300]))
    stop = min(len(raw), start + length)
    mask = data.draw(st.integers(1, 255))
    raw[start:stop] = bytes(byte ^ mask for byte in raw[start:stop])
    files[index].write_bytes(raw)
    opened = FileJournal(tmp_path / "j")
    left = set(numbers(read_all(opened, end)))
    lost = hurt(positions, index + 1, start, stop, end.segment)
    assert left == set(range(COUNT)) - lost
    assert damaged_numbers(opened.damaged(), positions) == lost


@pytest.mark.slow
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_i5_any_cut_leaves_every_frame_before_it_and_tells_the_rest(
    data: st.DataObject, written: tuple[Path, list[Position], Position], tmp_path: Path
) -> None:
    source, positions, end = written
    files = copied(source, tmp_path / "j")
    index = data.draw(st.integers(0, len(files) - 1))
    size = data.draw(st.integers(0, files[index].stat().st_size - 1))
    os.truncate(files[index], size)
    opened = FileJournal(tmp_path / "j")
    left = set(numbers(read_all(opened, end)))
    lost = hurt(positions, index + 1, size, 1 << 60, end.segment)
    assert left == set(range(COUNT)) - lost
    assert damaged_numbers(opened.damaged(), positions) == lost


@pytest.mark.slow
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_i5_a_torn_append_is_cut_at_the_committed_position(
    data: st.DataObject, written: tuple[Path, list[Position], Position], tmp_path: Path
) -> None:
    """kill -9 within an append: whatever of it reached the disk, the next run starts from what was committed."""
    source, positions, _ = written
    keep = data.draw(st.integers(0, COUNT - 1))
    files = copied(source, tmp_path / "j")
    for path in files[positions[keep].segment :]:
        path.unlink()
    path = files[positions[keep].segment - 1]
    os.truncate(path, data.draw(st.integers(positions[keep].offset, path.stat().st_size)))
    opened = FileJournal(tmp_path / "j", segment_bytes=1_500)
    opened.cut(positions[keep])
    opened.append([frame(77)])
    assert numbers(read_all(opened)) == [*range(keep), 77]
    assert opened.damaged() == []
    for path in (tmp_path / "j").iterdir():
        path.unlink()


def test_no_space_cuts_back_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = FileJournal(tmp_path, segment_bytes=SMALL)
    opened.append([frame(0)])
    before, end = read_all(opened), opened.end
    left = [9]
    real = os.pwrite

    def nearly_full(fd: int, data: memoryview, offset: int) -> int:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(28, "No space left on device")
        return real(fd, data[: max(1, len(data) // 2)], offset)

    monkeypatch.setattr(os, "pwrite", nearly_full)
    with pytest.raises(DiskFull) as full:
        opened.append([frame(n) for n in range(1, 30)])
    assert full.value.hint
    assert (opened.end, read_all(opened)) == (end, before)
    monkeypatch.undo()
    opened.append([frame(n) for n in range(1, 30)])
    assert numbers(read_all(opened)) == list(range(30))
