"""The worker process: receive, perform, report, until the pipe closes.

Tasks come on stdin and results go to stdout, as frames of the transport's codec (handed over by `cli/assemble.py`, as
workers know no transport). What else is printed goes to stderr. Ends with its parent (`parent`) and when the pipe
closes, in the middle of whatever it does: the state's lock, inherited by it, must not outlive it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from typing import BinaryIO, Protocol

from mannerly.model.errors import WireError
from mannerly.model.orders import WorkerOrders
from mannerly.model.result import Failed, Failure, Result
from mannerly.model.task import Task

UNREAD_BYTES = 4 << 20
READ_BYTES = 256 << 10


class Reader(Protocol):
    """Cuts bytes into messages."""

    def feed(self, chunk: bytes) -> Iterator[object]:
        """Yield the messages that are whole."""
        ...


class Performs(Protocol):
    """One task in, one result out; never raises for what the web does."""

    async def perform(self, task: Task, received_at: float) -> Result:
        """Perform the task; `received_at` is the loop's time of its receipt."""
        ...


Build = Callable[[WorkerOrders], AbstractAsyncContextManager[Performs]]


def claim_pipes() -> tuple[int, BinaryIO]:
    """Take stdin and stdout for frames; give stdout's number to stderr, so that a stray print harms no frame."""
    out = os.dup(1)
    os.dup2(2, 1)
    return 0, os.fdopen(out, "wb", buffering=0)


async def run_worker(build: Build, reader: Reader, frame: Callable[[Result | WorkerOrders], bytes]) -> None:
    """Perform tasks until stdin closes. The first message is the orders; they are repeated once all is up."""
    descriptor, out = claim_pipes()
    loop = asyncio.get_running_loop()
    stdin = asyncio.StreamReader(limit=READ_BYTES)
    await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(stdin), os.fdopen(descriptor, "rb", buffering=0)
    )
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, out)
    transport.set_write_buffer_limits(high=UNREAD_BYTES)
    writer = asyncio.StreamWriter(transport, protocol, None, loop)
    messages = _messages(stdin, reader)
    orders = await anext(messages, None)
    if orders is None:
        return
    if not isinstance(orders, WorkerOrders):
        raise WireError(f"a {type(orders).__name__} before the orders")
    async with build(orders) as performer, asyncio.TaskGroup() as group:
        writer.write(frame(orders))
        async for message in messages:
            if not isinstance(message, Task):
                raise WireError(f"a {type(message).__name__} where a task was due")
            group.create_task(_answer(performer, message, loop.time(), writer, frame))


async def _answer(
    performer: Performs,
    task: Task,
    received_at: float,
    writer: asyncio.StreamWriter,
    frame: Callable[[Result | WorkerOrders], bytes],
) -> None:
    result = await performer.perform(task, received_at)
    try:
        message = frame(result)
    except WireError as error:
        outcome = Failed(failure=Failure.TOO_COSTLY, detail=str(error))
        message = frame(Result(task_id=task.id, outcome=outcome, timing=result.timing, worker=result.worker))
    writer.write(message)
    await writer.drain()


async def _messages(stdin: asyncio.StreamReader, reader: Reader) -> AsyncIterator[object]:
    """Yield messages; at the end of the stream leave the process at once, requests in flight or not."""
    while chunk := await stdin.read(READ_BYTES):
        for message in reader.feed(chunk):
            yield message
    os._exit(0)
