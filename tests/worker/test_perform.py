"""What a worker will not do whatever its task says (invariant I7)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from mannerly.clock import SystemClock
from mannerly.model.orders import WorkerOrders
from mannerly.model.result import AddressChanged, Fetched, Refused
from mannerly.model.task import Task, TaskKind
from mannerly.net.fetch import Fetcher
from mannerly.net.resolve import Resolver
from mannerly.transport import aside
from mannerly.worker.aside import Aside
from mannerly.worker.perform import Performer

NO_PARSER = Aside(("no-parser-is-needed",), aside.WordReader, aside.frame)
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Listener:
    """A server on loopback that counts who connects."""

    def __init__(self) -> None:
        self.connections = 0
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        await reader.readuntil(b"\r\n\r\n")
        writer.write(ANSWER)
        await writer.drain()
        writer.close()


@asynccontextmanager
async def listening() -> AsyncIterator[Listener]:
    listener = Listener()
    server = await asyncio.start_server(listener.serve, "127.0.0.1", 0)
    listener.port = server.sockets[0].getsockname()[1]
    async with server:
        yield listener


def task(url: str, *, host: str, address: str = "127.0.0.1") -> Task:
    return Task(id=1, kind=TaskKind.PAGE, url=url, host=host, address=address)


@pytest.mark.parametrize(
    ("host", "claimed", "address", "outcome", "connections"),
    [
        ("named.test", "named.test", "127.0.0.1", Fetched, 1),
        ("other.test", "other.test", "127.0.0.1", Refused, 0),  # for the port: any is for named hosts alone
        ("other.test", "named.test", "127.0.0.1", Refused, 0),  # the URL decides, not what the task calls it
        ("named.test", "named.test", "169.254.169.254", AddressChanged, 0),
    ],
)
async def test_i7_a_task_cannot_widen_what_its_worker_was_told(
    host: str, claimed: str, address: str, outcome: type, connections: int
) -> None:
    orders = WorkerOrders(name="w", private_hosts=("named.test",))
    async with listening() as listener, Fetcher() as fetcher, Resolver() as resolver:
        performer = Performer(orders, fetcher, resolver, NO_PARSER, SystemClock())
        told = task(f"http://{host}:{listener.port}/", host=claimed, address=address)
        result = await performer.perform(told, asyncio.get_running_loop().time())
    assert type(result.outcome) is outcome, result.outcome
    assert listener.connections == connections


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "10.0.0.1", "::1", "::ffff:127.0.0.1", "100.64.0.1", "0.0.0.0"]
)
async def test_i7_an_address_that_was_not_vetted_elsewhere_is_vetted_here(address: str) -> None:
    async with Fetcher() as fetcher, Resolver() as resolver:
        performer = Performer(WorkerOrders(name="w"), fetcher, resolver, NO_PARSER, SystemClock())
        told = task("http://public.test/", host="public.test", address=address)
        result = await performer.perform(told, asyncio.get_running_loop().time())
    assert type(result.outcome) is AddressChanged, result.outcome
