"""One worker process, asked to resolve names, for `doctor`: what a crawl's workers would be told."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from mannerly.model.orders import WorkerOrders
from mannerly.model.result import Outcome
from mannerly.model.task import Task, TaskKind
from mannerly.transport.local import LocalTransport


async def resolve_in_worker(
    names: Sequence[str], *, nameservers: tuple[str, ...] = (), within_s: float
) -> dict[str, Outcome]:
    """Start a worker and return what it says of each name. `localhost` may be private, all else is vetted.

    Raises MannerlyError if workers do not start on this machine, TimeoutError after `within_s` seconds.
    """
    orders = WorkerOrders(name="worker", private_hosts=("localhost",), nameservers=nameservers)
    transport = LocalTransport(orders, 1)
    answers: dict[str, Outcome] = {}
    async with asyncio.timeout(within_s):
        await transport.start()
    try:
        async with asyncio.timeout(within_s):
            for number, name in enumerate(names):
                await transport.send(Task(id=number, kind=TaskKind.RESOLVE, url=name, host=name))
            while len(answers) < len(names):
                for result in await transport.receive():
                    answers[names[result.task_id]] = result.outcome
    finally:
        await transport.stop()
    return answers
