"""A raw loopback server that says exactly what a test tells it to, and records what it was asked."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import pytest

from mannerly.model.task import Limits
from mannerly.net.exchange import DEFAULT_LIMITS, Request
from mannerly.net.fetch import Fetcher

Answer = Callable[["Conversation"], Awaitable[None]]


@dataclass
class Conversation:
    """One connection: what it asks, and the means to answer. `asked` counts its requests from 1."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    asked: int = 0

    async def say(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    def reset(self) -> None:
        self.writer.transport.abort()


@dataclass
class Server:
    """A server on loopback. `heads` holds every request head as received; `connections` counts the dials."""

    answer: Answer
    port: int = 0
    heads: list[bytes] = field(default_factory=list)
    connections: int = 0
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def lines(self) -> list[str]:
        return [head.split(b"\r\n", 1)[0].decode() for head in self.heads]

    async def converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        self.connections += 1
        talk = Conversation(reader, writer)
        try:
            while not writer.transport.is_closing():
                self.heads.append(await reader.readuntil(b"\r\n\r\n"))
                talk.asked += 1
                await self.answer(talk)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            return  # the client went away, or the test is over
        finally:
            writer.transport.abort()
            self.tasks.discard(task)


class Serve(Protocol):
    """Start a server that answers each request with bytes, or as a coroutine does it."""

    async def __call__(
        self, answer: bytes | Answer, *, host: str = ..., tls: ssl.SSLContext | None = ...
    ) -> Server: ...


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    servers: list[tuple[asyncio.Server, Server]] = []

    async def start(
        answer: bytes | Answer, *, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None
    ) -> Server:
        async def fixed(talk: Conversation) -> None:
            assert isinstance(answer, bytes)
            await talk.say(answer)

        server = Server(fixed if isinstance(answer, bytes) else answer)
        listening = await asyncio.start_server(server.converse, host, 0, ssl=tls)
        server.port = listening.sockets[0].getsockname()[1]
        servers.append((listening, server))
        return server

    yield start
    for listening, server in servers:
        listening.close()
        for task in list(server.tasks):
            task.cancel()
        while server.tasks:
            await asyncio.sleep(0)
    await asyncio.sleep(0)


@pytest.fixture
async def fetcher() -> AsyncIterator[Fetcher]:
    async with Fetcher() as one:
        yield one


def ask(
    port: int,
    path: str = "/",
    *,
    host: str = "site.test",
    address: str = "127.0.0.1",
    scheme: str = "http",
    limits: Limits = DEFAULT_LIMITS,
    proxy: str | None = None,
) -> Request:
    """A request for a host name that no resolver knows, to a loopback server."""
    return Request(
        url=f"{scheme}://{host}:{port}{path}",
        address=address,
        user_agent="mannerly/0 (+mailto:test@site.test)",
        private_ok=True,
        limits=limits,
        proxy=proxy,
    )


@pytest.fixture(name="ask")
def ask_fixture() -> Callable[..., Request]:
    return ask


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `NAME.crt` and `NAME.key`, each its own authority: good (site.test), other (other.test), and old
    (site.test, expired yesterday). Made with the openssl command; without it the tests that need it skip."""
    folder = tmp_path_factory.mktemp("certificates")
    if shutil.which("openssl") is None:
        pytest.skip("no openssl command to make certificates with")

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], check=True, capture_output=True, cwd=folder)

    for name, host in (("good", "site.test"), ("other", "other.test")):
        subject = ("-subj", f"/CN={host}", "-addext", f"subjectAltName=DNS:{host}")
        key = (
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-keyout",
            f"{name}.key",
        )
        openssl("req", "-x509", *key, *subject, "-days", "2", "-out", f"{name}.crt")
    openssl("x509", "-in", "good.crt", "-signkey", "good.key", "-days", "-1", "-out", "old.crt")
    shutil.copy(folder / "good.key", folder / "old.key")
    return folder
