"""Worker processes over pipes: the embedded transport.

A worker is `python -m mannerly _worker`; tasks go to its stdin, results come from its stdout, both as frames of
`codec`, both ways without blocking. Hosts stick to a worker while it lives (connections, TLS sessions). A worker that
dies is replaced, and each task it held is answered with `Unknown`, marked. What is to be performed alone goes to one
more worker, the quarantined one, which is started when it is needed. Workers inherit the descriptor of the state's lock,
so that the lock is free only when no request is in flight; they end at once when their pipe closes.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import msgspec
import xxhash

from mannerly.model.errors import MannerlyError, WireError
from mannerly.model.orders import WorkerOrders
from mannerly.model.result import Result, Unknown
from mannerly.model.task import Task
from mannerly.transport import codec

UNREAD_BYTES = 4 << 20
READ_BYTES = 256 << 10
# workers that die this often in a row before they have come up cannot work on this machine
STILLBORN_IN_A_ROW = 5
# and those that come up, but die before any of them has given a result: a page that kills its worker is tried three
# times before it is given up, and several such pages may come one after another
DEATHS_IN_A_ROW = 50
# how long a worker may take to come up before tasks are sent to it all the same: a busy machine takes seconds
READY_S = 30.0
# how long workers may take to end once their pipe is closed
END_S = 5.0
# how long past a task's lease a worker is still believed to work on it: a heavy page waits for its turn, and may end a
# parser twice (`worker.aside` has the figures)
GRACE_S = 120.0
# -P: a worker imports nothing from the folder that the crawl happens to be started in
WORKER_COMMAND = (sys.executable, "-P", "-m", "mannerly", "_worker")
_HINT = "`mannerly doctor` tells why"

Event = Callable[[str, dict[str, object]], None]


@dataclass(frozen=True, slots=True)
class _Sent:
    task: Task
    sent_at: float  # the event loop's time


@dataclass(slots=True)
class _Worker:
    number: int
    process: asyncio.subprocess.Process
    ready: bool = False
    tasks: dict[int, _Sent] = field(default_factory=dict)


class LocalTransport:
    """`Transport` over pipes to `count` worker processes."""

    def __init__(
        self,
        orders: WorkerOrders,
        count: int,
        *,
        inherit: Sequence[int] = (),
        event: Event | None = None,
        command: Sequence[str] = WORKER_COMMAND,
        grace_s: float = GRACE_S,
    ) -> None:
        self._orders = orders
        self._command = tuple(command)
        self._grace_s = grace_s
        self._count = count
        self._inherit = tuple(inherit)
        self._event = event or (lambda _name, _fields: None)
        self._workers: dict[int, _Worker] = {}
        self._results: asyncio.Queue[Result] = asyncio.Queue()
        self._watchers: dict[int, asyncio.Task[None]] = {}
        self._deaths = 0
        self._stillborn = 0
        self._broken: MannerlyError | None = None
        self._stopping = False
        self._up = asyncio.Event()
        self._minder: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start the workers. Raises MannerlyError where no process can be started."""
        try:
            await asyncio.gather(*(self._start(number) for number in range(self._count)))
        except OSError as error:
            raise MannerlyError(f"a worker process cannot be started: {error}", hint=_HINT) from error
        self._minder = asyncio.create_task(self._mind(), name="stuck workers")

    async def ready(self) -> None:
        """Wait until every worker has repeated its orders, or for 30 s."""
        with suppress(TimeoutError):
            async with asyncio.timeout(READY_S):
                await self._up.wait()

    @property
    def pids(self) -> list[int]:
        """Process ids of the workers that live."""
        return [w.process.pid for w in self._workers.values() if w.process.returncode is None]

    async def send(self, task: Task) -> None:
        """Hand the task to its host's worker, or to the quarantined one; waits while it leaves more than 4 MiB unread.

        Raises MannerlyError if the quarantined worker cannot be started.
        """
        number = self._count if task.alone else xxhash.xxh3_64_intdigest(task.host.encode()) % self._count
        if number not in self._workers:
            await self._start_quarantined()
        worker = self._workers[number]
        worker.tasks[task.id] = _Sent(task, asyncio.get_running_loop().time())
        pipe = worker.process.stdin
        assert pipe is not None
        # a broken pipe is no error here: the watcher answers for every task the worker held
        with suppress(BrokenPipeError, ConnectionResetError):
            pipe.write(codec.frame(task))
            await pipe.drain()

    async def _start_quarantined(self) -> None:
        try:
            await self._start(self._count)
        except OSError as error:
            raise MannerlyError(f"a worker process cannot be started: {error}", hint=_HINT) from error

    async def receive(self) -> list[Result]:
        """Wait for results; return those at hand."""
        if self._broken is not None:
            raise self._broken
        results = [await self._results.get()]
        while not self._results.empty():
            results.append(self._results.get_nowait())
        if self._broken is not None:
            raise self._broken
        return results

    async def ack(self, results: Sequence[Result]) -> None:
        """Nothing to say: pipes keep nothing."""

    async def stop(self) -> None:
        """Close the pipes; a worker ends at once on it. One that is not up yet would hear of it late: it is killed."""
        self._stopping = True
        for worker in self._workers.values():
            if not worker.ready and not worker.tasks:
                _kill(worker)
            if worker.process.stdin is not None:
                worker.process.stdin.close()
        try:
            async with asyncio.timeout(END_S):
                await asyncio.gather(*(worker.process.wait() for worker in self._workers.values()))
        except TimeoutError:
            for worker in self._workers.values():
                _kill(worker)
        if self._minder is not None:
            self._minder.cancel()
        watchers = [*self._watchers.values(), *([self._minder] if self._minder is not None else [])]
        await asyncio.gather(*watchers, return_exceptions=True)

    async def _start(self, number: int) -> None:
        process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            pass_fds=self._inherit,
            process_group=0,  # Ctrl-C at a terminal is the coordinator's to hear, also while a worker starts
            limit=READ_BYTES,
            env=_worker_environment(),
        )
        worker = self._workers[number] = _Worker(number, process)
        if self._stopping:
            _kill(worker)
            await process.wait()
            return
        pipe = process.stdin
        assert pipe is not None
        pipe.transport.set_write_buffer_limits(high=UNREAD_BYTES)
        self._workers[number] = worker  # from here on `stop` ends it, should this start be given up
        with suppress(BrokenPipeError, ConnectionResetError):
            pipe.write(codec.frame(msgspec.structs.replace(self._orders, name=f"w{number}-{process.pid}")))
            await pipe.drain()
        self._watchers[number] = asyncio.create_task(self._watch(worker), name=f"worker {number}")

    async def _watch(self, worker: _Worker) -> None:
        """Read a worker's results until it ends; answer for what it held; put another in its place."""
        reader = codec.FrameReader()
        pipe = worker.process.stdout
        assert pipe is not None
        try:
            while chunk := await pipe.read(READ_BYTES):
                for message in reader.feed(chunk):
                    self._take(worker, message)
        except WireError as error:
            self._event("worker-garbled", {"worker": worker.number, "error": str(error)})
        _kill(worker)  # one that says nothing any more, or nothing that can be read, is as good as dead
        code = await worker.process.wait()
        if self._stopping:
            return
        self._event("worker-died", {"worker": worker.number, "code": code, "tasks": len(worker.tasks)})
        held = frozenset(worker.tasks)  # what is sent from now on it never saw
        self._deaths += 1
        self._stillborn = 0 if worker.ready else self._stillborn + 1
        await self._replace(worker.number, code)
        owed, worker.tasks = worker.tasks, {}
        for sent in owed.values():
            outcome = Unknown(detail=f"the worker ended with code {code}", died=sent.task.id in held)
            self._results.put_nowait(Result(task_id=sent.task.id, outcome=outcome, epoch=sent.task.epoch))
        if self._broken is not None and not owed:
            self._results.put_nowait(Result(task_id=0, outcome=Unknown()))

    async def _mind(self) -> None:
        """Kill workers that owe a result for much too long: stopped, or caught in an endless loop."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(min(5.0, self._grace_s))
            now = loop.time()
            for worker in list(self._workers.values()):
                # tasks stand in the order in which they were sent: the first is the oldest
                oldest = next(iter(worker.tasks.values()), None)
                if oldest is not None and oldest.sent_at + lease_s(oldest.task) + self._grace_s < now:
                    self._event("worker-stuck", {"worker": worker.number, "tasks": len(worker.tasks)})
                    _kill(worker)

    async def _replace(self, number: int, code: int) -> None:
        """Start another worker, unless workers cannot live here: then everybody who waits for results is told."""
        why = f"workers end before they have done anything (exit code {code})"
        if self._stillborn < STILLBORN_IN_A_ROW and self._deaths < DEATHS_IN_A_ROW:
            if number == self._count:
                del self._workers[number]  # another is started when it is needed
                return
            try:
                await self._start(number)
            except OSError as error:
                why = f"a worker process cannot be started: {error}"
            else:
                return
        self._broken = MannerlyError(why, hint=_HINT)
        self._up.set()

    def _take(self, worker: _Worker, message: codec.Message) -> None:
        """Pass a result on, if it is one that this worker owes; its orders, repeated, say that it is up."""
        if isinstance(message, WorkerOrders):
            worker.ready = True
            if sum(w.ready for w in self._workers.values()) >= self._count:
                self._up.set()
            return
        if not isinstance(message, Result):
            raise WireError(f"a {type(message).__name__} from a worker")
        if worker.tasks.pop(message.task_id, None) is None:
            self._event("result-unasked", {"worker": worker.number, "task": message.task_id})
            return
        self._deaths = self._stillborn = 0
        self._results.put_nowait(message)

    def __repr__(self) -> str:
        held = sum(len(w.tasks) for w in self._workers.values())
        return f"<LocalTransport {len(self.pids)} of {self._count} workers, {held} tasks out>"


def lease_s(task: Task) -> float:
    """Return how long a task may be out: until its request has to start, and the exchange."""
    return task.send_within_s + task.limits.exchange_s


def _kill(worker: _Worker) -> None:
    """Kill a worker, unless its end is known. Not by `process.kill()`, which reaps what asyncio then looks for in vain."""
    if worker.process.returncode is None:
        with suppress(ProcessLookupError):
            os.kill(worker.process.pid, signal.SIGKILL)


def _worker_environment() -> dict[str, str]:
    """The environment of a worker: ours, and one thread for the arithmetic of a page's fingerprint."""
    return {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
