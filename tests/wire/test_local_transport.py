"""Workers that die, stammer, invent and repeat: every task sent gets exactly one result, and nothing else comes out."""

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

from mannerly.model.errors import MannerlyError
from mannerly.model.orders import WorkerOrders
from mannerly.model.result import Result, Unknown
from mannerly.model.task import Limits, Task, TaskKind
from mannerly.transport.local import STILLBORN_IN_A_ROW, LocalTransport

SOURCE: Final = Path(__file__).resolve().parents[2] / "src"
pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

# A worker as bad as its first argument says, as long as the file named by its second is not there; then a good one.
WORKER: Final = """
import os, signal, sys
from pathlib import Path

sys.path.insert(0, sys.argv[1])
from mannerly.model.result import Result, Unknown
from mannerly.transport import codec

manner, marker = sys.argv[2], Path(sys.argv[3])
bad = manner.startswith("always") or not marker.exists()
reader = codec.FrameReader()

def say(raw):
    os.write(1, raw)

def answer(task_id, detail="done"):
    return codec.frame(Result(task_id=task_id, outcome=Unknown(detail=detail)))

def misbehave(task):
    match manner:
        case "dies" | "always dies" | "always dies once it is up":
            os._exit(3)
        case "always dies alone":
            if task.alone:
                os._exit(3)
            say(answer(task.id))
        case "is killed":
            os.kill(os.getpid(), signal.SIGKILL)
        case "dies in a frame":
            say(answer(task.id)[:-2])
            os._exit(3)
        case "garbles" | "always garbles":
            say(b"\\0\\0\\0\\4junk")
        case "garbles and dies":
            say(b"\\0\\0\\0\\4junk")
            os._exit(3)
        case "says too much":
            say(b"\\xff\\xff\\xff\\xff")
        case "prints":
            say(b"Traceback (most recent call last):\\n")
        case "sends a task":
            say(codec.frame(task))
        case "invents":
            say(answer(task.id + 1_000, "invented") + answer(task.id))
        case "repeats":
            say(answer(task.id) + answer(task.id, "again"))
        case "closes its output":
            os.close(1)
            signal.pause()
        case "hangs":
            signal.pause()

say_nothing = manner == "stops"
while chunk := os.read(0, 1 << 18):
    for message in reader.feed(chunk):
        if type(message).__name__ != "Task":
            if say_nothing:
                os.kill(os.getpid(), signal.SIGSTOP)
            if manner in ("always dies once it is up", "always dies alone"):
                say(codec.frame(message))
            continue
        if bad:
            marker.touch()
            bad = manner.startswith("always")
            misbehave(message)
            if manner not in ("invents", "repeats"):
                continue
        else:
            say(answer(message.id))
"""


class Crew:
    """A transport to one worker of a kind, and what it told."""

    def __init__(self, manner: str, folder: Path, *, count: int = 1, grace_s: float = 60.0) -> None:
        program = folder / "worker.py"
        program.write_text(WORKER)
        self.events: list[str] = []
        self.transport = LocalTransport(
            WorkerOrders(name="w"),
            count,
            event=lambda name, _fields: self.events.append(name),
            command=(sys.executable, str(program), str(SOURCE), manner, str(folder / "marker")),
            grace_s=grace_s,
        )

    async def results(self, number: int) -> list[Result]:
        """Wait for so many results."""
        got: list[Result] = []
        async with asyncio.timeout(60):
            while len(got) < number:
                got += await self.transport.receive()
        return got


@asynccontextmanager
async def crew(manner: str, folder: Path, *, count: int = 1, grace_s: float = 60.0) -> AsyncIterator[Crew]:
    made = Crew(manner, folder, count=count, grace_s=grace_s)
    await made.transport.start()
    try:
        yield made
    finally:
        await made.transport.stop()


def task(number: int, host: str = "a.test") -> Task:
    return Task(id=number, kind=TaskKind.PAGE, url=f"http://{host}/{number}", host=host)


def told(results: list[Result]) -> dict[int, str]:
    details = {}
    for result in results:
        assert isinstance(result.outcome, Unknown)
        details[result.task_id] = result.outcome.detail
    assert len(details) == len(results)
    return details


@pytest.mark.parametrize(
    ("manner", "event", "code"),
    [
        ("dies", "worker-died", 3),
        ("is killed", "worker-died", -signal.SIGKILL),
        ("dies in a frame", "worker-died", 3),
        ("garbles", "worker-garbled", -signal.SIGKILL),
        ("says too much", "worker-garbled", -signal.SIGKILL),
        ("prints", "worker-garbled", -signal.SIGKILL),
        ("sends a task", "worker-garbled", -signal.SIGKILL),
    ],
)
async def test_i5_a_worker_that_is_lost_answers_for_what_it_held_and_is_replaced(
    manner: str, event: str, code: int, tmp_path: Path
) -> None:
    async with crew(manner, tmp_path) as it:
        (first,) = it.transport.pids
        for number in (1, 2, 3):
            await it.transport.send(task(number))
        assert told(await it.results(3)) == dict.fromkeys((1, 2, 3), f"the worker ended with code {code}")
        assert event in it.events
        await it.transport.send(task(4))
        assert told(await it.results(1)) == {4: "done"}
        assert it.transport.pids != [first]


async def test_a_worker_that_closes_its_output_is_lost_too(tmp_path: Path) -> None:
    async with crew("closes its output", tmp_path) as it:
        await it.transport.send(task(1))
        assert list(told(await it.results(1))) == [1]
        await it.transport.send(task(2))
        assert told(await it.results(1)) == {2: "done"}


async def test_a_worker_that_garbles_and_dies_is_lost_once(tmp_path: Path) -> None:
    async with crew("garbles and dies", tmp_path) as it:
        await it.transport.send(task(1))
        assert list(told(await it.results(1))) == [1]
        assert it.events == ["worker-garbled", "worker-died"]


async def test_a_worker_that_hangs_is_lost_once_its_lease_is_long_over(tmp_path: Path) -> None:
    async with crew("hangs", tmp_path, grace_s=0.1) as it:
        patient = Task(id=1, kind=TaskKind.PAGE, url="http://a.test/1", host="a.test")
        hasty = msgspec.structs.replace(patient, id=2, send_within_s=0.5, limits=Limits(exchange_s=0.5))
        began_at = time.monotonic()
        await it.transport.send(hasty)
        assert told(await it.results(1)) == {2: f"the worker ended with code {-signal.SIGKILL}"}
        assert time.monotonic() - began_at > 1.0
        assert it.events == ["worker-stuck", "worker-died"]
        await it.transport.send(patient)
        assert told(await it.results(1)) == {1: "done"}


async def test_a_worker_that_is_lost_costs_the_others_nothing(tmp_path: Path) -> None:
    hosts = [f"h{n}.test" for n in range(40)]
    async with crew("dies", tmp_path, count=2) as it:
        for number, host in enumerate(hosts):
            await it.transport.send(task(number, host))
        details = told(await it.results(len(hosts)))
        assert sorted(details) == list(range(len(hosts)))
        # which of the two saw the marker first is chance; one of them at least was good from the start
        assert "done" in details.values()


@pytest.mark.parametrize("manner", ["invents", "repeats"])
async def test_i5_a_result_that_nobody_asked_for_goes_no_further(manner: str, tmp_path: Path) -> None:
    async with crew(manner, tmp_path) as it:
        await it.transport.send(task(1))
        await it.transport.send(task(2))
        assert told(await it.results(2)) == {1: "done", 2: "done"}
        assert it.events == ["result-unasked"]


@pytest.mark.parametrize("manner", ["always dies", "always garbles"])
async def test_workers_that_never_work_end_the_crawl_with_a_reason(manner: str, tmp_path: Path) -> None:
    async with crew(manner, tmp_path) as it:
        answered = 0
        with pytest.raises(MannerlyError, match="workers end before they have done anything") as raised:
            for number in range(2 * STILLBORN_IN_A_ROW):
                await it.transport.send(task(number))
                answered += len(await it.results(1))
        assert answered == STILLBORN_IN_A_ROW - 1
        assert "doctor" in raised.value.hint


async def test_a_page_that_kills_every_worker_does_not_end_the_crawl(tmp_path: Path) -> None:
    """Three deaths a page; that nothing else was due meanwhile says nothing of the machine."""
    async with crew("always dies once it is up", tmp_path) as it:
        for number in range(11):
            await it.transport.send(task(number))
            (result,) = await it.results(1)
            assert isinstance(result.outcome, Unknown)


def alone(number: int) -> Task:
    return msgspec.structs.replace(task(number), alone=True)


async def test_what_is_to_be_alone_goes_to_one_more_worker_and_costs_the_others_nothing(
    tmp_path: Path,
) -> None:
    async with crew("always dies alone", tmp_path, count=2) as it:
        await it.transport.ready()
        usual = set(it.transport.pids)
        for number in range(20):
            await it.transport.send(task(number, f"h{number}.test"))
        for number in (100, 101):
            await it.transport.send(alone(number))
            results = await it.results(1 if number > 100 else 21)
            (outcome,) = (result.outcome for result in results if result.task_id == number)
            assert outcome == Unknown("the worker ended with code 3", died=True)
            assert all(result.outcome == Unknown("done") for result in results if result.task_id < 100)
        assert set(it.transport.pids) == usual
        assert it.events == ["worker-died"] * 2


async def test_one_quarantined_worker_performs_all_that_is_to_be_alone(tmp_path: Path) -> None:
    (tmp_path / "marker").touch()  # a good worker from the start
    async with crew("works", tmp_path) as it:
        pids = []
        for number in range(3):
            await it.transport.send(alone(number))
            assert told(await it.results(1)) == {number: "done"}
            pids.append(it.transport.pids)
        assert len(pids[0]) == 2
        assert pids == [pids[0]] * 3


async def test_what_a_dead_worker_never_saw_is_not_what_it_died_of(tmp_path: Path) -> None:
    async with crew("dies", tmp_path) as it:
        await it.transport.send(task(1))
        while it.events != ["worker-died"]:
            await asyncio.sleep(0)
        await it.transport.send(task(2))
        outcomes = {result.task_id: result.outcome for result in await it.results(2)}
        assert outcomes[1] == Unknown("the worker ended with code 3", died=True)
        assert isinstance(outcomes[2], Unknown)
        assert not outcomes[2].died


async def test_a_program_that_cannot_be_started_is_named(tmp_path: Path) -> None:
    transport = LocalTransport(WorkerOrders(name="w"), 2, command=(str(tmp_path / "nothing"),))
    with pytest.raises(MannerlyError, match=r"cannot be started.*nothing"):
        await transport.start()
    await transport.stop()


async def test_i9_a_worker_that_does_not_read_holds_up_who_sends(tmp_path: Path) -> None:
    async with crew("stops", tmp_path) as it:
        big = Task(id=1, kind=TaskKind.PAGE, url="http://a.test/" + "a" * 8_000, host="a.test")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3):
                for _ in range(10_000):  # 80 MB
                    await it.transport.send(big)
        (pid,) = it.transport.pids
        held = memory_bytes(os.getpid())
        os.kill(pid, signal.SIGKILL)
        assert held < 400 << 20


def memory_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def test_a_worker_that_does_not_end_is_ended(tmp_path: Path) -> None:
    async with crew("stops", tmp_path) as it:
        (pid,) = it.transport.pids
        began_at = time.monotonic()
    assert not Path(f"/proc/{pid}").exists()
    assert time.monotonic() - began_at < 20


# ------------------------------------------------------------------------------------------------ the real worker

COORDINATOR: Final = """
import asyncio, sys
from mannerly.model.orders import WorkerOrders
from mannerly.transport.local import LocalTransport

async def run():
    transport = LocalTransport(WorkerOrders(name="w"), 3)
    await transport.start()
    print(*transport.pids, flush=True)
    await asyncio.sleep(60)

asyncio.run(run())
"""


@pytest.mark.parametrize("after_s", [0.0, 0.2, 2.5], ids=["at once", "while they import", "when they wait"])
def test_i5_workers_end_with_a_coordinator_that_is_killed(after_s: float) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", COORDINATOR],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
    )
    with process:
        assert process.stdout is not None
        pids = [int(pid) for pid in process.stdout.readline().split()]
        assert len(pids) == 3
        time.sleep(after_s)
        process.kill()
        process.wait()
        gone_by = time.monotonic() + 3
        while any(runs(pid) for pid in pids):
            assert time.monotonic() < gone_by, "a worker outlives its coordinator"
            time.sleep(0.01)


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_a_worker_imports_nothing_from_where_the_crawl_was_started(tmp_path: Path) -> None:
    """`python -m` looks into the working folder first: a `select.py` there would be run, and break the worker."""
    (tmp_path / "msgspec.py").write_text("import os; os._exit(9)")
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            COORDINATOR.replace("import asyncio, sys", "import sys; sys.path.remove('')\nimport asyncio"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
    )
    with process:
        assert process.stdout is not None
        (pid, *_) = [int(pid) for pid in process.stdout.readline().split()]
        time.sleep(2.5)
        alive = runs(pid)
        process.kill()
    assert alive
