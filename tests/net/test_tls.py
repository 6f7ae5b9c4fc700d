"""Certificates: which are taken, and what the others come to."""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING

import pytest

from mannerly.net.exchange import FetchFailure, Request
from mannerly.net.fetch import Fetcher

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.net.conftest import Conversation, Serve, Server

    Ask = Callable[..., Request]

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CLOSING = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"


def speaking_tls(folder: Path, name: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / f"{name}.crt", folder / f"{name}.key")
    return context


@pytest.mark.parametrize(
    ("shown", "trusted", "host", "failure"),
    [
        ("good", "good", "site.test", None),
        ("good", "good", "wrong.test", FetchFailure.TLS_NAME),
        ("good", "other", "site.test", FetchFailure.TLS_UNTRUSTED),
        ("old", "old", "site.test", FetchFailure.TLS_EXPIRED),
    ],
)
async def test_certificate_decides(
    serve: Serve,
    ask: Ask,
    certificates: Path,
    shown: str,
    trusted: str,
    host: str,
    failure: FetchFailure | None,
) -> None:
    server = await serve(ANSWER, tls=speaking_tls(certificates, shown))
    async with Fetcher(ca_file=str(certificates / f"{trusted}.crt")) as fetcher:
        got = await fetcher.fetch(ask(server.port, host=host, scheme="https"))
    assert (got.failure, got.sent, len(server.heads)) == (failure, failure is None, int(failure is None)), got


async def test_self_signed_certificate_is_not_taken_by_default(
    serve: Serve, fetcher: Fetcher, ask: Ask, certificates: Path
) -> None:
    server = await serve(ANSWER, tls=speaking_tls(certificates, "good"))
    got = await fetcher.fetch(ask(server.port, scheme="https"))
    assert (got.failure, server.heads) == (FetchFailure.TLS_UNTRUSTED, [])


async def test_plain_http_on_the_https_port_is_no_handshake(serve: Serve, fetcher: Fetcher, ask: Ask) -> None:
    async def any_answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    listening = await asyncio.start_server(any_answer, "127.0.0.1", 0)
    got = await fetcher.fetch(ask(listening.sockets[0].getsockname()[1], scheme="https"))
    listening.close()
    assert (got.failure, got.sent) == (FetchFailure.TLS_FAILED, False), got


async def test_host_name_is_told_in_the_handshake(serve: Serve, ask: Ask, certificates: Path) -> None:
    names: list[str | None] = []
    context = speaking_tls(certificates, "good")
    context.sni_callback = lambda _socket, name, _context: names.append(name)
    server = await serve(ANSWER, tls=context)
    async with Fetcher(ca_file=str(certificates / "good.crt")) as fetcher:
        await fetcher.fetch(ask(server.port, scheme="https"))
    assert names == ["site.test"]


@pytest.mark.slow
async def test_sessions_of_more_hosts_than_libcurl_keeps_are_resumed(
    serve: Serve, ask: Ask, certificates: Path
) -> None:
    """libcurl keeps 25 sessions a share: with one share a host, 40 hosts all resume."""
    resumed: list[bool] = []

    async def tell(talk: Conversation) -> None:
        resumed.append(talk.writer.get_extra_info("ssl_object").session_reused)
        await talk.say(CLOSING)
        talk.writer.close()

    servers: list[Server] = [await serve(tell, tls=speaking_tls(certificates, "good")) for _ in range(40)]
    async with Fetcher(ca_file=str(certificates / "good.crt")) as fetcher:
        for _ in range(2):
            for server in servers:
                got = await fetcher.fetch(ask(server.port, scheme="https"))
                assert got.failure is None, got
    assert resumed == [False] * 40 + [True] * 40


async def test_sessions_are_kept_for_so_many_hosts(serve: Serve, ask: Ask, certificates: Path) -> None:
    resumed: list[bool] = []

    async def tell(talk: Conversation) -> None:
        resumed.append(talk.writer.get_extra_info("ssl_object").session_reused)
        await talk.say(CLOSING)
        talk.writer.close()

    servers = [await serve(tell, tls=speaking_tls(certificates, "good")) for _ in range(3)]
    async with Fetcher(ca_file=str(certificates / "good.crt"), tls_hosts=2) as fetcher:
        for server in (*servers, servers[2], servers[0]):
            await fetcher.fetch(ask(server.port, scheme="https"))
    assert resumed == [False, False, False, True, False]
