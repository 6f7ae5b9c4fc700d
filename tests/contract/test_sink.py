"""The contract of `ports.Sink`, held by every sink."""

from __future__ import annotations

import csv
import io
import json
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest

from mannerly.model.blob import PagePart, seal
from mannerly.model.config import OutputConfig
from mannerly.model.errors import DiskFull
from mannerly.model.frame import PageFrame
from mannerly.ports import Sink
from mannerly.sink.choice import choose_sink


def page(n: int) -> PageFrame:
    url = f"https://a.test/{n}"
    head = (url, url, 200, 1.5, 0, "", (), 10, 5, "", "", None)
    return PageFrame(*head, True, "", "", "mannerly", "", "c", 1, n, seal(PagePart(title=f"page {n}")))


def urls_of(name: str, data: bytes) -> list[str]:
    if name.startswith("csv:"):
        return [row[0] for row in csv.reader(io.StringIO(data.decode(), newline="")) if row[0] != "url"]
    return [json.loads(line)["url"] for line in data.splitlines()]


@dataclass
class Bench:
    """A kind of sink: `make` as often as the crawl is started; `told` closes what is open and reads what came out."""

    exactly_once: bool
    make: Callable[[], Sink]
    told: Callable[[], bytes]
    made: list[Sink] = field(default_factory=list)

    def start(self) -> Sink:
        sink = self.make()
        self.made.append(sink)
        return sink

    def urls(self) -> list[str]:
        for sink in self.made:
            sink.close()
        return urls_of(self.made[0].name, self.told())


def file_bench(path: Path) -> Bench:
    return Bench(True, lambda: choose_sink(OutputConfig(file=str(path)), crawl="c"), path.read_bytes)


class Reader:
    """The other end of a pipe: reads all that comes, or hangs up."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.came = bytearray()
        self.thread = threading.Thread(target=self._read)
        self.thread.start()

    def _read(self) -> None:
        while data := os.read(self.fd, 1 << 16):
            self.came += data

    def all(self) -> bytes:
        self.thread.join()
        return bytes(self.came)


@pytest.fixture(params=["jsonl file", "csv file", "jsonl pipe", "csv pipe", "descriptor"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    """Every kind of output under every kind of sink."""
    if request.param.endswith("file"):
        yield file_bench(tmp_path / f"o.{request.param.split()[0]}")
        return
    reading, writing = os.pipe()
    if request.param == "descriptor":
        name = f"/dev/fd/{writing}"
        keeps = writing
    else:
        os.close(reading)
        os.close(writing)
        name = str(tmp_path / f"fifo.{request.param.split()[0]}")
        os.mkfifo(name)
        reading = os.open(name, os.O_RDONLY | os.O_NONBLOCK)
        os.set_blocking(reading, True)
        keeps = os.open(name, os.O_WRONLY)  # so that the reader sees no end between two runs
    reader = Reader(reading)
    closed: list[int] = []

    def end() -> bytes:
        if not closed:
            closed.append(keeps)
            os.close(keeps)
        return reader.all()

    yield Bench(False, lambda: choose_sink(OutputConfig(file=name), crawl="c"), end)
    end()
    os.close(reading)


def test_pages_come_out_in_order(bench: Bench) -> None:
    sink = bench.start()
    assert sink.open(None)
    sink.sync()
    sink.write([page(1), page(2)])
    sink.write([])
    sink.write([page(3)])
    sink.sync()
    assert bench.urls() == [f"https://a.test/{n}" for n in (1, 2, 3)]


def test_a_run_goes_on_from_the_state_that_sync_returned(bench: Bench) -> None:
    first = bench.start()
    first.open(None)
    first.write([page(1)])
    state = first.sync()
    first.close()
    second = bench.start()
    assert second.name == first.name
    assert second.open(state)
    second.write([page(2)])
    second.sync()
    assert bench.urls() == ["https://a.test/1", "https://a.test/2"]


def test_i5_after_a_crash_files_hold_a_page_once_and_others_at_least_once(bench: Bench) -> None:
    first = bench.start()
    first.open(None)
    owned = first.sync()
    first.write([page(1), page(2)])  # a crash: neither synced nor saved
    first.close()
    second = bench.start()
    assert second.open(owned)
    second.write([page(1), page(2)])
    second.sync()
    urls = bench.urls()
    if bench.exactly_once:
        assert urls == ["https://a.test/1", "https://a.test/2"]
    assert set(urls) == {"https://a.test/1", "https://a.test/2"}


def test_close_may_come_before_open_and_twice(bench: Bench) -> None:
    sink = bench.start()
    sink.close()
    sink.open(None)
    sink.close()
    sink.close()


def test_a_sink_says_what_it_is(bench: Bench) -> None:
    assert bench.start().name.split(":")[1].rpartition("/")[2] in repr(bench.start())


@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
def test_a_sink_that_nobody_reads_says_so(tmp_path: Path, suffix: str) -> None:
    name = str(tmp_path / f"fifo.{suffix}")
    os.mkfifo(name)
    reading = os.open(name, os.O_RDONLY | os.O_NONBLOCK)
    sink = choose_sink(OutputConfig(file=name), crawl="c")
    sink.open(None)
    os.close(reading)
    with pytest.raises(BrokenPipeError):
        sink.write([page(1)])
    sink.close()


def test_a_file_with_a_page_of_any_size(tmp_path: Path) -> None:
    long = "word " * 400_000
    blob = seal(PagePart(text=long, wants_text=True))
    sink = choose_sink(OutputConfig(file=str(tmp_path / "o")), crawl="c")
    sink.open(None)
    sink.write([msgspec.structs.replace(page(1), blob=blob)] * 3)
    sink.close()
    texts = [json.loads(line)["text"] for line in (tmp_path / "o").read_bytes().splitlines()]
    assert texts == [long] * 3


def test_a_null_device_takes_everything() -> None:
    sink = choose_sink(OutputConfig(file="/dev/null"), crawl="c")
    assert sink.open(None)
    sink.write([page(1)])
    assert sink.sync() == ""
    sink.close()


def test_a_descriptor_of_a_file_is_appended_to_where_it_stands(tmp_path: Path) -> None:
    path = tmp_path / "redirected"
    path.write_bytes(b"before\n")
    fd = os.open(path, os.O_WRONLY | os.O_APPEND)
    sink = choose_sink(OutputConfig(file=f"/dev/fd/{fd}"), crawl="c")
    sink.open(None)
    sink.write([page(1)])
    sink.close()
    os.close(fd)
    head, line = path.read_bytes().splitlines()
    assert head == b"before"
    assert json.loads(line)["url"] == "https://a.test/1"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
def test_a_full_device_is_a_full_disk() -> None:
    sink = choose_sink(OutputConfig(file="/dev/full"), crawl="c")
    sink.open(None)
    with pytest.raises(DiskFull):
        sink.write([page(1)])
    sink.close()


def test_a_stream_shared_with_a_process_that_made_it_non_blocking_is_written_whole() -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    sink = choose_sink(OutputConfig(file=f"/dev/fd/{writing}"), crawl="c")
    sink.open(None)
    reader = Reader(reading)
    sink.write([page(n) for n in range(1_000)])
    sink.close()
    os.close(writing)
    assert len(reader.all().splitlines()) == 1_000
    os.close(reading)
