"""A server on loopback that says what it is told, whatever it is, and a client that asks it."""

from __future__ import annotations

import asyncio
from typing import Final

from mannerly.model.task import Limits
from mannerly.net.exchange import Exchange, Request
from mannerly.net.fetch import Fetcher

HOST: Final = "site.test"


class Speaker:
    """Asks its own server. Both live on one loop, made at the first question, as long as the process."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._loop: asyncio.AbstractEventLoop | None = None
        self._fetcher = Fetcher(idle_connections=1)
        self._says = b""
        self.url = ""

    def exchange(self, says: bytes) -> Exchange:
        """Return what a worker makes of a server that answers with `says` and closes."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._loop.run_until_complete(self._start())
        self._says = says
        return self._loop.run_until_complete(self._ask())

    async def _start(self) -> None:
        self._server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        self.url = f"http://{HOST}:{self._server.sockets[0].getsockname()[1]}/"
        await self._fetcher.__aenter__()

    async def _ask(self) -> Exchange:
        request = Request(
            url=self.url,
            address="127.0.0.1",
            user_agent="mannerly",
            private_ok=True,
            limits=self._limits,
            fresh=True,
        )
        return await self._fetcher.fetch(request)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(self._says)
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            return  # the client has what it wants
        finally:
            writer.close()
