"""What a worker is told once, at its start. Everything else comes with each task."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from mannerly.model.task import Name, Short

MAX_PORTS: Final = 1_000
MAX_NAMESERVERS: Final = 16
MAX_SLOTS: Final = 10_000


class WorkerOrders(msgspec.Struct, frozen=True, array_like=True):
    """Standing orders: who we are, and what may be dialled beyond public addresses on the ordinary ports.

    private_hosts: names, or `*.name`, whose private addresses may be dialled, on any port. nameservers: `host:port`,
    empty for the system's. workers trust their orders, not their tasks: a task cannot widen them.
    """

    name: Name
    contact: Name = ""
    ports: Annotated[tuple[int, ...], Meta(max_length=MAX_PORTS)] = ()
    private_hosts: Annotated[tuple[Name, ...], Meta(max_length=10_000)] = ()
    nameservers: Annotated[tuple[Name, ...], Meta(max_length=MAX_NAMESERVERS)] = ()
    proxy: Short = ""
    slots: Annotated[int, Meta(ge=1, le=MAX_SLOTS)] = 64
