"""No bytes of others break what reads them: the corpus, a bounded run of the fuzzer, and each fault that it found.

The run is the same each time. For longer ones, and other inputs, see `bench/fuzz.py`.
"""

from __future__ import annotations

import asyncio
import importlib
import math
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest
import zstandard

from mannerly.extract.page import Extracted, extract_page
from mannerly.extract.select import compile_selectors
from mannerly.model.blob import PagePart, seal, unseal
from mannerly.model.errors import StateDamaged, WireError
from mannerly.model.frame import PageFrame
from mannerly.model.result import Failed, Failure, Result
from mannerly.net.exchange import Request
from mannerly.net.fetch import Fetcher
from mannerly.ports import Position
from mannerly.sink.output_file import Layout, OutputFile
from mannerly.store.journal import FileJournal
from mannerly.transport import codec

ROOT = Path(__file__).parents[2]
CORPUS = Path(__file__).parent / "corpus"
TARGETS = sorted(folder.name for folder in CORPUS.iterdir())
COUNTS = {"exchange": 1_000, "fields": 1_000, "journal": 600, "page": 1_500, "sink": 1_000, "url": 1_000}
"""Inputs of the targets that are slower than others; all take about 20 s."""

MAX_CPU_S = 2.0
FRAME = PageFrame(
    "http://a.test/",
    "http://a.test/",
    200,
    1e9,
    0,
    "",
    (),
    0,
    0,
    "",
    "",
    None,
    True,
    "",
    "",
    "mannerly",
    "",
    "c1",
    1,
    1,
    b"",
)


@pytest.fixture
def fuzz(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("bench.fuzz")


@pytest.fixture
def targets(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.syspath_prepend(str(ROOT))
    found: dict[str, Any] = importlib.import_module("bench.fuzz_targets").TARGETS
    return found


def test_every_target_has_a_corpus(targets: dict[str, Any]) -> None:
    assert sorted(targets) == TARGETS


@pytest.mark.parametrize("name", TARGETS)
def test_the_corpus_breaks_nothing(fuzz: ModuleType, targets: dict[str, Any], name: str) -> None:
    for path in sorted((CORPUS / name).iterdir()):
        _, fault = fuzz.attempt(targets[name], path.read_bytes())
        assert fault is None, f"{path.name}: {fault}"


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_no_mutation_breaks_a_target(fuzz: ModuleType, targets: dict[str, Any], name: str) -> None:
    tally = fuzz.Fuzzer(name, targets[name], 1).run(count=COUNTS.get(name, 3_000))
    assert not tally.faults
    assert tally.shapes > 2


def test_a_fault_is_found_and_made_small(fuzz: ModuleType, targets: dict[str, Any]) -> None:
    def check(data: bytes) -> int:
        if b"\xff" in data:
            raise KeyError("planted")
        return len(data) // 8

    target = type(targets["head"])(check)
    tally = fuzz.Fuzzer("planted", target, 1).run(count=5_000)
    ((fault, data),) = tally.faults.items()
    assert fault.kind == "KeyError"
    assert fuzz.minimised(target, fault, data) == b"\xff"


# What it found

YARDSTICK_S = 0.1
"""What `yardstick_s` gives on the quiet machine that the bounds were set on."""


def read(markup: bytes, *, fields: tuple[tuple[str, str], ...] = (), each: str = "") -> Extracted:
    """Extract a page and see that it costs no more than a page may."""
    wanted = compile_selectors(fields, each)
    slowness = max(1.0, yardstick_s() / YARDSTICK_S)
    begun_s = time.process_time()
    page = extract_page(markup, "text/html", "http://site.test/", wanted=wanted, token="mannerly")
    assert time.process_time() - begun_s < MAX_CPU_S * slowness
    return page


def yardstick_s() -> float:
    """Return what a fixed piece of work costs now: on a machine that others use, processor time grows too."""
    begun_s = time.process_time()
    for _ in range(10):
        [number * number for number in range(100_000)]
    return time.process_time() - begun_s


def test_a_refresh_of_a_million_digits_costs_no_time() -> None:
    page = read(b'<meta http-equiv=refresh content="' + b"1" * 1_000_000 + b'x">')
    assert page.refresh is None


@pytest.mark.parametrize(
    ("content", "delay_s", "leads_to"),
    [
        ("5.5;url=/a", 5, "/a"),
        (".9 /a", 0, "/a"),
        ("1.2.3, /a", 1, "/a"),
        ("7", 7, "/"),
    ],
)
def test_what_a_refresh_says_is_still_read(content: str, delay_s: int, leads_to: str) -> None:
    refresh = read(f'<meta http-equiv=refresh content="{content}">'.encode()).refresh
    assert refresh is not None
    assert (refresh.delay_s, refresh.pair[0]) == (delay_s, f"http://site.test{leads_to}")


@pytest.mark.slow
def test_elements_inside_each_other_are_not_weighed_again_and_again() -> None:
    read(b"<pre>" * 50_000 + b"<b></b>" * 200_000 + b"words " * 200)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fields", "each"),
    [
        ((("all[]", "div::text"),), ""),
        ((("all[]", "div::html"),), ""),
        ((("first", "p::text"),), "div"),
        ((("whole", ":scope::text"),), "div"),
    ],
)
def test_matches_inside_each_other_are_left_out_at_a_depth(
    fields: tuple[tuple[str, str], ...], each: str
) -> None:
    page = read(b"<div>" * 20_000 + b"<b> </b>" * 100_000, fields=fields, each=each)
    assert "fields" in page.truncated


def test_matches_inside_each_other_are_all_found_up_to_the_depth() -> None:
    page = read(b"<div>" * 16 + b"x", fields=(("all[]", "div::text"), ("one", "div::text")))
    assert page.fields == {"all": ["x"] * 16, "one": "x"}
    assert page.truncated == ()
    side_by_side = read(b"<p>x</p>" * 200, fields=(("all[]", "p::text"),))
    assert side_by_side.fields == {"all": ["x"] * 200}


@pytest.mark.slow
def test_many_canonical_addresses_are_not_all_resolved() -> None:
    page = read(b"<link rel=canonical href=/a>" * 300_000)
    assert page.canonical == ("http://site.test/a", "http://site.test/a")


@pytest.mark.slow
@pytest.mark.parametrize(
    "pieces",
    [
        [b"<b a%d><p>" % number for number in range(100_000)],
        [b"<b a%d>" % (number % 300) for number in range(900_000)],
        [b"<html a%d><body b%d>" % (number, number) for number in range(100_000)],
    ],
    ids=["formatting of different attributes", "few kinds, very often", "roots"],
)
def test_tags_that_are_compared_with_each_other_cut_the_page(pieces: list[bytes]) -> None:
    assert "tags" in read(b"".join(pieces)).truncated


def test_a_page_of_many_closed_formatting_elements_is_read_whole() -> None:
    page = read(b"".join(b"<p><code id=c%d>x</code> y" % number for number in range(5_000)))
    assert page.truncated == ()
    assert page.text.count("x y") == 5_000


@pytest.mark.slow
def test_a_large_page_of_closed_formatting_elements_is_read_whole() -> None:
    # an index of an API: every entry in a <code> of its own, 60,000 of them
    page = read(b"".join(b"<li><code id=c%d>x</code> y\n" % number for number in range(60_000)))
    assert page.truncated == ()
    assert page.text.count("x y") == 60_000


@pytest.mark.slow
def test_links_that_lead_nowhere_are_not_looked_at_without_end() -> None:
    page = read(b"".join(b"<a href=x:%d>" % number for number in range(400_000)))
    assert page.links.cut
    assert page.links.follow == ()


def test_an_href_of_a_megabyte_is_too_long_without_being_resolved() -> None:
    page = read(b'<a href="/' + b"a" * 1_000_000 + b'">')
    assert page.links.too_long == 1


@pytest.mark.slow
def test_dates_in_directives_are_not_read_without_end() -> None:
    date = b'<meta name=robots content="noindex, unavailable_after: %d">'
    page = read(b"".join(date % number for number in range(100_000)))
    assert not page.directives.index


@pytest.mark.parametrize(
    "packed",
    [
        b"\x98" + b"\xa0" * 7 + b"\x81\xa1a" + b"\x91" * 100_000,
        b"\xdc\x00\x0f" + b"\xa0" * 7 + b"\x80\x80\xc0\xa0\xc0\xc2\xa0" + b"\x91" * 100_000,
        b"\x98" + b"\xa0" * 7 + b"\x81\xa1a\xd4\x05\x00",
    ],
    ids=["directives without end", "an unknown field without end", "a directive that JSON cannot hold"],
)
def test_a_blob_that_no_record_can_hold_is_refused(packed: bytes) -> None:
    with pytest.raises(WireError):
        unseal(zstandard.compress(packed))
    part = PagePart(robots={"follow": False})
    assert unseal(seal(part)) == part


def test_text_that_no_utf8_holds_is_a_wire_error() -> None:
    with pytest.raises(WireError, match="surrogates"):
        codec.encode(Result(task_id=1, outcome=Failed(failure=Failure.PROTOCOL, detail="\udce5")))


async def test_what_libcurl_quotes_of_a_server_is_escaped() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write((CORPUS / "exchange" / "quoted-by-libcurl").read_bytes())
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    request = Request(
        url=f"http://site.test:{port}/", address="127.0.0.1", user_agent="mannerly", private_ok=True
    )
    async with server, Fetcher() as fetcher:
        exchange = await fetcher.fetch(request)
    assert exchange.failure is not None
    assert r"\udce5" in exchange.detail


@pytest.mark.parametrize("fetched_at", [-1.0, 1e12, math.inf, math.nan])
def test_a_frame_of_no_instant_that_can_be_written_is_damage(tmp_path: Path, fetched_at: float) -> None:
    journal = FileJournal(tmp_path)
    frame = msgspec.structs.replace(FRAME, fetched_at=fetched_at)
    journal.append([frame, FRAME])
    found, _ = journal.read(Position(), journal.end)
    journal.close()
    assert found == [FRAME]
    assert len(journal.damaged()) == 1


@pytest.mark.parametrize("size", [-1, 1 << 63])
def test_a_stored_size_that_no_file_has_is_damage(tmp_path: Path, size: int) -> None:
    state = f'{{"path":"p","device":1,"inode":2,"size":{size},"tail":"","layout":"l","crawl":"c1"}}'
    output = OutputFile(str(tmp_path / "pages.jsonl"), crawl="c1")
    with pytest.raises(StateDamaged):
        output.open(state, Layout("l", b"{"))
