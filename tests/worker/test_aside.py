"""Pages parsed aside: each gets an outcome of its own, whatever it does to the process that parses it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec
import pytest

from mannerly.cli.assemble.worker import PARSER_COMMAND
from mannerly.model.answer import Answer
from mannerly.model.result import Failed, Failure, Fetched, Outcome, Refused, Unknown
from mannerly.model.task import Wanted
from mannerly.transport import aside
from mannerly.worker.aside import Aside, Bounds
from mannerly.worker.read import LIGHT_BYTES, LIGHT_TAGS, is_heavy, read_page

SOURCE: Final = Path(__file__).resolve().parents[2] / "src"

# A parser that does to a page what the page's body says; `once`: as long as the file of its second argument is not there.
PARSER: Final = """
import os, signal, sys, time
from pathlib import Path

sys.path.insert(0, sys.argv[1])
from mannerly.transport import aside
from mannerly.worker import parser

marker = Path(sys.argv[2])

def read_page(answer):
    manner = answer.body.decode().split()
    if manner[0] == "once":
        if marker.exists():
            return read(answer)
        marker.touch()
        del manner[0]
    match manner:
        case ["dies"]:
            os._exit(3)
        case ["is", "killed"]:
            os.kill(os.getpid(), signal.SIGSEGV)
        case ["raises"]:
            raise MemoryError
        case ["garbles"]:
            os.write(out, b"\\0\\0\\0\\4junk")
            time.sleep(60)
        case ["closes"]:
            os.close(out)
            time.sleep(60)
        case ["says", "ready"]:
            os.write(out, aside.frame(aside.ParserReady()))
            time.sleep(60)
        case ["hangs"]:
            time.sleep(60)
        case ["loops"]:
            while True:
                pass
        case ["grows"]:
            held = []
            while True:
                held.append(bytearray(1 << 20))
    return read(answer)

def claim_pipes():
    global out
    descriptor, file = claim()
    out = file.fileno()
    return descriptor, file

read, parser.read_page = parser.read_page, read_page
claim, parser.claim_pipes = parser.claim_pipes, claim_pipes
parser.parse_pages(aside.WordReader(aside.MAX_ANSWER_BYTES), aside.frame, cpu_s=1)
"""


@pytest.fixture(autouse=True)
def on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """The real parser is `python -m mannerly`, which is not installed where these tests are run from a clone."""
    monkeypatch.setenv("PYTHONPATH", str(SOURCE))


def answer(body: str | bytes, content_type: str = "text/html") -> Answer:
    raw = body.encode() if isinstance(body, str) else body
    return Answer(url="http://a.test/", status=200, body=raw, content_type=content_type)


@asynccontextmanager
async def parser(folder: Path, bounds: Bounds | None = None) -> AsyncIterator[Aside]:
    program = folder / "parser.py"
    program.write_text(PARSER)
    command = (sys.executable, str(program), str(SOURCE), str(folder / "marker"))
    async with Aside(command, aside.WordReader, aside.frame, bounds=bounds) as made:
        yield made


async def outcome_of(made: Aside, body: str | bytes) -> Outcome:
    return await made.read(made.put(answer(body)))


def pid_of(made: Aside) -> int | None:
    return made._parser.process.pid if made._parser is not None else None


# ------------------------------------------------------------------------------------------------ which are heavy


@pytest.mark.parametrize(
    ("body", "content_type", "heavy"),
    [
        (b"<p>" * LIGHT_TAGS, "text/html", False),
        (b"<p>" * (LIGHT_TAGS + 1), "text/html", True),
        (b"<p>" + b"a" * (LIGHT_BYTES - 3), "text/html", False),
        (b"<p>" + b"a" * (LIGHT_BYTES - 2), "text/html", True),
        ("<p>".encode("utf-16") * (LIGHT_TAGS + 1), "text/html; charset=utf-16", True),
        (b"a" * (LIGHT_BYTES + 1), "text/plain", True),
        (b"\x89PNG\r\n\x1a\n" + b"<" * (2 * LIGHT_BYTES), "image/png", False),
        (b"", "text/html", False),
    ],
)
def test_a_page_is_heavy_by_its_size_or_its_tags_if_it_is_parsed_at_all(
    body: bytes, content_type: str, heavy: bool
) -> None:
    assert is_heavy(answer(body, content_type)) is heavy


# ------------------------------------------------------------------------------------------------ the real parser


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_a_page_read_aside_says_what_it_says_in_the_worker() -> None:
    markup = "<title>t</title><p>words of the page <a href='/x'>x</a><i class=c>field</i>" + "<p>a" * 200_000
    page = msgspec.structs.replace(
        answer(markup),
        wanted=Wanted(fields=(("f", ".c::text"),), text=True, links=True),
        headers=(("x-robots-tag", "noindex"),),
    )
    bad = msgspec.structs.replace(page, wanted=Wanted(fields=(("f", "["),)))
    async with Aside(PARSER_COMMAND, aside.WordReader, aside.frame) as made:
        expected = read_page(page)
        assert isinstance(expected, Fetched)
        assert not expected.page.index
        assert await made.read(made.put(page)) == expected
        assert await made.read(made.put(bad)) == read_page(bad)
        assert isinstance(read_page(bad), Refused)
        pid = pid_of(made)
        assert await made.read(made.put(page)) == expected
        assert pid_of(made) == pid


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_i5_a_parser_holds_nothing_of_the_state_it_could_outlive(tmp_path: Path) -> None:
    """The worker holds the state's lock by an inheritable descriptor; its parser must not."""
    lock = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    os.set_inheritable(lock, True)
    try:
        async with Aside(PARSER_COMMAND, aside.WordReader, aside.frame) as made:
            assert isinstance(await outcome_of(made, "<p>a"), Fetched)
            held = {str(path.readlink()) for path in Path(f"/proc/{pid_of(made)}/fd").iterdir()}
    finally:
        os.close(lock)
    assert str(tmp_path / "lock") not in held
    files = {name for name in held if not name.startswith(("pipe:", "/dev/"))}
    assert files <= {str(Path(f"/proc/{os.getpid()}/fd/2").readlink())}


OWNER: Final = """
import asyncio
from mannerly.cli.assemble.worker import PARSER_COMMAND
from mannerly.model.answer import Answer
from mannerly.transport import aside
from mannerly.worker.aside import Aside

async def run():
    made = Aside(PARSER_COMMAND, aside.WordReader, aside.frame)
    body = b"<p>a"
    while True:
        await made.read(made.put(Answer(url="http://a.test/", status=200, body=body)))
        if body == b"<p>a":
            print(made._parser.process.pid, flush=True)
        body = b"<b><p>" * 1_000_000

asyncio.run(run())
"""


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("after_s", [0.0, 0.5], ids=["at once", "in a page"])
def test_i5_a_parser_ends_with_its_worker(after_s: float) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
    )
    with process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        time.sleep(after_s)
        process.kill()
        process.wait()
        gone_by = time.monotonic() + (3 if sys.platform == "linux" else 15)
        while runs(pid):
            assert time.monotonic() < gone_by, "a parser outlives its worker"
            time.sleep(0.01)


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


# ------------------------------------------------------------------------------------------------ bad pages


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("manner", "how"),
    [
        ("dies", "with code 3"),
        ("is killed", "by SIGSEGV"),
        ("raises", "with code 1"),
        ("garbles", "by SIGKILL"),
        ("closes", "by SIGKILL"),
        ("says ready", "by SIGKILL"),
    ],
)
async def test_a_page_that_ends_its_parser_is_tried_once_more(manner: str, how: str, tmp_path: Path) -> None:
    async with parser(tmp_path) as made:
        assert isinstance(await outcome_of(made, f"once {manner}"), Fetched)
        assert await outcome_of(made, manner) == Failed(
            Failure.KILLS_WORKER, detail=f"it ended its parser {how}, twice", sent=True
        )
        assert isinstance(await outcome_of(made, "well"), Fetched)


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("manner", "bounds", "detail"),
    [
        ("grows", Bounds(memory_bytes=150 << 20), "MiB of memory; 150 are allowed"),
        ("hangs", Bounds(wall_s=0.3), "more than 0 s"),
        ("loops", Bounds(), "more CPU than a page may take"),
    ],
)
async def test_i9_a_page_that_costs_too_much_ends_with_its_parser(
    manner: str, bounds: Bounds, detail: str, tmp_path: Path
) -> None:
    async with parser(tmp_path, bounds) as made:
        await outcome_of(made, "well")
        first = pid_of(made)
        outcome = await outcome_of(made, manner)
        assert isinstance(outcome, Failed)
        assert outcome.failure is Failure.TOO_COSTLY
        assert outcome.sent
        assert detail in outcome.detail
        assert isinstance(await outcome_of(made, "well"), Fetched)
        assert pid_of(made) != first


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_a_parser_that_ended_between_pages_costs_none_of_them(tmp_path: Path) -> None:
    async with parser(tmp_path) as made:
        await outcome_of(made, "well")
        pid = pid_of(made)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        # it may be noticed in the page only: that is one death of two
        assert isinstance(await outcome_of(made, "well"), Fetched)
        assert isinstance(await outcome_of(made, "well"), Fetched)


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_pages_wait_their_turn_and_those_that_wait_too_long_are_asked_for_again(tmp_path: Path) -> None:
    async with parser(tmp_path, Bounds(turn_s=1.0, wall_s=4.0)) as made:
        await outcome_of(made, "well")
        outcomes = await asyncio.gather(
            *(outcome_of(made, body) for body in ("well", "hangs", "well", "well"))
        )
        assert isinstance(outcomes[0], Fetched)
        assert isinstance(outcomes[1], Failed)
        assert outcomes[2:] == [Unknown("no parser was free within 1 s")] * 2
        assert made._waiting_bytes == 0


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_i9_pages_past_the_bound_wait_on_disk(tmp_path: Path) -> None:
    pages = [answer(f"<title>{n}</title>" + "a" * 10_000) for n in range(20)]
    async with parser(tmp_path, Bounds(waiting_bytes=35_000)) as made:
        put = [made.put(page) for page in pages]
        assert made._waiting_bytes <= 35_000
        outcomes = await asyncio.gather(*map(made.read, put))
        assert outcomes == [read_page(page) for page in pages]
        assert made._waiting_bytes == 0


@pytest.mark.parametrize("program", ["import time; time.sleep(60)", "raise SystemExit(5)", "print('hello')"])
@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_a_parser_that_does_not_come_up_is_nothing_the_page_did(
    program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mannerly.worker.aside.START_S", 2.0)
    async with Aside((sys.executable, "-c", program), aside.WordReader, aside.frame) as made:
        assert await outcome_of(made, "well") == Unknown("the parser did not come up")


async def test_a_parser_that_cannot_be_started_is_named(tmp_path: Path) -> None:
    async with Aside((str(tmp_path / "nothing"),), aside.WordReader, aside.frame) as made:
        outcome = await outcome_of(made, "well")
        assert isinstance(outcome, Unknown)
        assert "nothing" in outcome.detail
