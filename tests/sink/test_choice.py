"""What `-o NAME` means."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from mannerly.model.config import OutputConfig
from mannerly.model.errors import ConfigRefused
from mannerly.sink.choice import choose_sink


@pytest.mark.parametrize(
    ("name", "sink"),
    [
        ("-", "jsonl:-"),
        ("/dev/stdout", "jsonl:-"),
        ("/dev/fd/1", "jsonl:-"),
        ("/proc/self/fd/1", "jsonl:-"),
        ("/dev/stderr", "jsonl:/dev/stderr"),
        ("/dev/fd/63", "jsonl:/dev/fd/63"),
        ("/dev/null", "jsonl:/dev/null"),
        ("/nowhere/x.jsonl", "jsonl:/nowhere/x.jsonl"),
        ("/nowhere/x.csv", "csv:/nowhere/x.csv"),
        ("/nowhere/x.CSV", "csv:/nowhere/x.CSV"),
        ("/nowhere/../nowhere/x", "jsonl:/nowhere/x"),
    ],
)
def test_a_name_means_one_sink(name: str, sink: str) -> None:
    assert choose_sink(OutputConfig(file=name), crawl="c").name == sink


def test_one_file_by_two_names_is_one_sink(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to("x")
    names = {
        choose_sink(OutputConfig(file=n), crawl="c").name for n in ("x", "./x", "link", str(tmp_path / "x"))
    }
    assert names == {f"jsonl:{tmp_path.resolve()}/x"}


def test_what_can_hold_no_pages_is_refused(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
    (tmp_path / "loop").symlink_to("loop")
    for name in ("", str(tmp_path), str(tmp_path / "socket"), str(tmp_path / "loop"), "a\0b"):
        with pytest.raises(ConfigRefused) as refused:
            choose_sink(OutputConfig(file=name), crawl="c")
        assert refused.value.exit_code == 78


def test_a_closed_descriptor_is_refused() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    os.close(writer)
    sink = choose_sink(OutputConfig(file=f"/dev/fd/{writer}"), crawl="c")
    with pytest.raises(ConfigRefused, match="is closed"):
        sink.open(None)
