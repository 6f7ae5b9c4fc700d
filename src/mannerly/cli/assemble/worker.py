"""A worker process, and the parser process of a worker, joined."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from mannerly.clock import SystemClock
from mannerly.model.orders import WorkerOrders
from mannerly.net.fetch import Fetcher
from mannerly.net.resolve import Resolver
from mannerly.transport import aside, codec
from mannerly.worker.aside import Aside
from mannerly.worker.parser import parse_pages
from mannerly.worker.perform import Performer
from mannerly.worker.process import run_worker

# -P: it imports nothing from the folder that the crawl happens to be started in
PARSER_COMMAND: Final = (sys.executable, "-P", "-m", "mannerly", "_parser")


@asynccontextmanager
async def performer(orders: WorkerOrders) -> AsyncIterator[Performer]:
    """Open what a worker performs tasks with."""
    async with (
        Fetcher(idle_connections=4 * orders.slots) as fetcher,
        Resolver(nameservers=orders.nameservers) as resolver,
        Aside(PARSER_COMMAND, aside.WordReader, aside.frame) as heavy,
    ):
        yield Performer(orders, fetcher, resolver, heavy, SystemClock())


def work() -> None:
    """Be a worker process until stdin closes."""
    asyncio.run(run_worker(performer, codec.FrameReader(), codec.frame))


def parse() -> None:
    """Be the parser process of a worker until stdin closes."""
    parse_pages(aside.WordReader(aside.MAX_ANSWER_BYTES), aside.frame)
