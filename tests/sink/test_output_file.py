"""The rules of a file that outlives a run: whose it is, where to go on, when to refuse."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from mannerly.model.errors import ConfigRefused, DiskFull, MannerlyError, StateDamaged, StateInUse
from mannerly.sink.output_file import FileState, Found, Layout, Leave, OutputFile, Standing, judge

JSONL = Layout("jsonl", b'{"url":')
WIDER = Layout("jsonl, wider", b'{"url":')


def stored(size: int, tail: str = "", *, inode: int = 7, layout: str = "jsonl") -> FileState:
    return FileState("/o", 1, inode, size, tail, layout, "c-1")


@pytest.mark.parametrize(
    ("before", "found", "leave", "expected"),
    [
        # never seen before
        (None, Found(1, 7, 0), Leave(), Standing.BEGIN),
        (None, Found(1, 7, 9), Leave(), "9 bytes that this crawl did not write"),
        (None, Found(1, 7, 9), Leave(overwrite=True), Standing.BEGIN),
        # owned, nothing saved yet: what lies there is a torn first write, or another's file with the inode given out again
        (stored(0), Found(1, 7, 0), Leave(), Standing.GO_ON),
        (stored(0), Found(1, 7, 30, b'{"url":"https://a.test/"'), Leave(), Standing.GO_ON),
        (stored(0), Found(1, 7, 4, b'{"ur'), Leave(), Standing.GO_ON),
        (stored(0), Found(1, 7, 4, b"\0\0\0\0"), Leave(), Standing.GO_ON),
        (stored(0), Found(1, 7, 4, b"mine"), Leave(), "4 bytes that this crawl did not write"),
        (stored(0), Found(1, 8, 30, b'{"url":"https://a.test/"'), Leave(), "did not write"),
        (stored(0), Found(1, 8, 4, b"mine"), Leave(overwrite=True), Standing.ANEW),
        # owned, with pages
        (stored(9, "t"), Found(1, 7, 9, b"{", "t"), Leave(), Standing.GO_ON),
        (stored(9, "t"), Found(1, 7, 50, b"{", "t"), Leave(), Standing.GO_ON),
        (stored(9, "t"), Found(2, 8, 50, b"{", "t"), Leave(), Standing.GO_ON),  # copied, or a reboot
        (stored(9, "t"), Found(1, 7, 0), Leave(), Standing.ANEW),  # deleted or emptied
        (stored(9, "t"), Found(1, 7, 8, b"{", "s"), Leave(), "holds 8 bytes, this crawl had written 9"),
        (stored(9, "t"), Found(1, 7, 8, b"{", "s"), Leave(overwrite=True), Standing.ANEW),
        (stored(9, "t"), Found(1, 7, 50, b"{", "s"), Leave(), "was changed by someone"),
        # --overwrite never restarts a file that is whole
        (stored(9, "t"), Found(1, 7, 50, b"{", "t"), Leave(overwrite=True), Standing.GO_ON),
        # other columns
        (stored(9, "t", layout="csv a"), Found(1, 7, 9, b"{", "t"), Leave(), Standing.ANEW),
        (stored(9, "t", layout="csv a"), Found(1, 7, 9, b"{", "t"), Leave(rewrite=False), "other columns"),
    ],
)
def test_whose_file_it_is(
    before: FileState | None, found: Found, leave: Leave, expected: Standing | str
) -> None:
    if isinstance(expected, Standing):
        assert judge("/o", before, found, layout=JSONL, leave=leave) is expected
        return
    with pytest.raises(ConfigRefused, match=expected) as refused:
        judge("/o", before, found, layout=JSONL, leave=leave)
    assert "-o" in refused.value.hint


def opened(
    path: Path, state: str | None = None, *, leave: Leave | None = None, crawl: str = "c-1"
) -> OutputFile:
    output = OutputFile(str(path), crawl=crawl, leave=leave)
    output.open(state, JSONL)
    return output


def test_what_lies_past_the_stored_size_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "o"
    first = opened(path)
    first.sync()
    first.write(b'{"url":1}\n')
    state = first.sync()
    first.write(b'{"url":2}\n{"ur')
    first.close()
    again = opened(path, state)
    assert path.read_bytes() == b'{"url":1}\n'
    again.write(b'{"url":3}\n')
    again.close()
    assert path.read_bytes() == b'{"url":1}\n{"url":3}\n'


def test_sync_flushes_to_the_disk_before_it_tells_the_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "o"
    output = opened(path)
    output.write(b"0123456789")
    flushed: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda fd: flushed.append(os.fstat(fd).st_ino))
    state = output.sync()
    assert '"size":10' in state
    assert flushed == [path.stat().st_ino]
    output.close()


def test_a_file_of_another_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "thesis.jsonl"
    path.write_text("years of work")
    with pytest.raises(ConfigRefused) as refused:
        opened(path)
    assert path.read_text() == "years of work"
    assert refused.value.exit_code == 78
    assert "--overwrite" in refused.value.hint


def test_overwrite_replaces_it(tmp_path: Path) -> None:
    path = tmp_path / "o"
    path.write_text("old")
    output = opened(path, leave=Leave(overwrite=True))
    output.write(b"new")
    output.close()
    assert path.read_bytes() == b"new"


def test_a_file_shortened_between_runs_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "o"
    output = opened(path)
    output.write(b"0123456789")
    state = output.sync()
    output.close()
    os.truncate(path, 4)
    with pytest.raises(ConfigRefused, match="changed by someone"):
        opened(path, state)
    assert path.read_bytes() == b"0123"


def test_a_file_edited_in_place_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "o"
    output = opened(path)
    output.write(b"0123456789" * 1_000)
    state = output.sync()
    output.close()
    with path.open("r+b") as editor:
        editor.seek(-1, os.SEEK_END)
        editor.write(b"X")
    with pytest.raises(ConfigRefused, match="changed by someone"):
        opened(path, state)


def test_a_file_cut_while_it_is_written_to_ends_the_crawl(tmp_path: Path) -> None:
    path = tmp_path / "o"
    output = opened(path)
    output.write(b"0123456789")
    os.truncate(path, 0)
    with pytest.raises(MannerlyError, match="was cut by someone"):
        output.write(b"more")
    output.close()


def test_a_deleted_file_begins_anew(tmp_path: Path) -> None:
    path = tmp_path / "o"
    output = opened(path)
    output.write(b"0123456789")
    state = output.sync()
    output.close()
    path.unlink()
    assert OutputFile(str(path), crawl="c-1").open(state, JSONL) is False
    assert path.read_bytes() == b""


def test_the_tail_is_known_however_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "o"
    output = opened(path)
    for size in (1, 4_095, 4_096, 10_000, 3):
        output.write(bytes(range(256)) * 40 if size == 10_000 else b"x" * size)
        state = output.sync()
        output.close()
        assert output.open(state, JSONL)


def test_two_crawls_cannot_write_to_one_file(tmp_path: Path) -> None:
    path = tmp_path / "o"
    first = opened(path)
    with pytest.raises(StateInUse, match="another process writes to"):
        opened(path)
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(StateInUse):
        opened(tmp_path / "link")
    first.close()
    opened(path).close()


@pytest.mark.slow
def test_the_lock_goes_with_the_process(tmp_path: Path) -> None:
    path = tmp_path / "o"
    code = f"from mannerly.sink.output_file import *; import os\nf = OutputFile({str(path)!r}, crawl='c')\nf.open(None, Layout('jsonl', b''))\nos._exit(0)"
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ | {"PYTHONPATH": "src"})
    opened(path).close()


@pytest.mark.parametrize("name", ["none/such/o", "file/o"])
def test_a_missing_folder_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigRefused, match="there is no folder") as refused:
        opened(tmp_path / name)
    assert refused.value.hint


def test_a_full_disk_is_told_as_such_and_nothing_is_torn_after_it(tmp_path: Path) -> None:
    path = tmp_path / "o"
    output = opened(path)
    output.write(b"a" * 1_000)
    state = output.sync()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_500, limits[1]))
    try:
        with pytest.raises(DiskFull) as full:
            output.write(b"b" * 1_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    output.close()
    assert full.value.exit_code == 1
    again = opened(path, state)
    again.write(b"b" * 1_000)
    again.close()
    assert path.read_bytes() == b"a" * 1_000 + b"b" * 1_000


@pytest.mark.parametrize("state", ["", "{}", "no json"])
def test_an_unreadable_state_is_damage(tmp_path: Path, state: str) -> None:
    with pytest.raises(StateDamaged):
        opened(tmp_path / "o", state)


def test_a_name_that_is_no_utf8_can_be_stored(tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.jsonl"))
    output = opened(path)
    output.write(b"x")
    assert "caf\\\\xe9" in output.sync()
    output.close()
    assert path.read_bytes() == b"x"
