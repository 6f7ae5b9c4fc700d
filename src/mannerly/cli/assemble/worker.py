"""A worker process, joined."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mannerly.clock import SystemClock
from mannerly.model.orders import WorkerOrders
from mannerly.net.fetch import Fetcher
from mannerly.net.resolve import Resolver
from mannerly.transport import codec
from mannerly.worker.perform import Performer
from mannerly.worker.process import run_worker


@asynccontextmanager
async def performer(orders: WorkerOrders) -> AsyncIterator[Performer]:
    """Open what a worker performs tasks with."""
    async with (
        Fetcher(idle_connections=4 * orders.slots) as fetcher,
        Resolver(nameservers=orders.nameservers) as resolver,
    ):
        yield Performer(orders, fetcher, resolver, SystemClock())


def work() -> None:
    """Be a worker process until stdin closes."""
    asyncio.run(run_worker(performer, codec.FrameReader(), codec.frame))
