"""Fetches of a raw loopback server: what goes out, what comes back, what a misbehaving server comes to."""

from __future__ import annotations

import asyncio
import dataclasses
import gzip
import socket
import time
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

import brotli
import pytest
import zstandard

from mannerly.model.task import Limits
from mannerly.net.exchange import FetchFailure, Request
from mannerly.net.fetch import Fetcher

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.net.conftest import Conversation, Serve

    Ask = Callable[..., Request]


def response(body: bytes = b"", *fields: str, status: str = "200 OK", length: int | None = None) -> bytes:
    head = [f"HTTP/1.1 {status}", *fields]
    if length != -1:
        head.append(f"Content-Length: {len(body) if length is None else length}")
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


# What goes out


async def test_host_that_no_resolver_knows_is_dialled_at_the_vetted_address(
    serve: Serve, fetcher: Fetcher, ask: Ask
) -> None:
    server = await serve(response(b"here"))
    got = await fetcher.fetch(ask(server.port, host="no-such-host.test"))
    assert (got.failure, got.status, got.body, got.address) == (None, 200, b"here", "127.0.0.1")
    assert f"Host: no-such-host.test:{server.port}\r\n".encode() in server.heads[0]


async def test_ipv6_address_is_dialled(serve: Serve, fetcher: Fetcher, ask: Ask) -> None:
    try:
        server = await serve(response(b"six"), host="::1")
    except OSError as error:
        pytest.skip(f"no IPv6 on loopback: {error}")
    got = await fetcher.fetch(ask(server.port, address="::1"))
    assert (got.failure, got.body, got.address) == (None, b"six", "::1")


async def test_request_says_who_we_are_and_nothing_more(serve: Serve, fetcher: Fetcher) -> None:
    server = await serve(response())
    await fetcher.fetch(
        Request(
            url=f"http://site.test:{server.port}/p",
            address="127.0.0.1",
            private_ok=True,
            user_agent="mannerly/0 (+mailto:a@site.test)",
            from_="a@site.test",
            headers=(("X-Token", "t"),),
            if_none_match='"e"',
            if_modified_since="Mon, 30 Nov 2026 00:00:00 GMT",
        )
    )
    fields = dict(line.split(": ", 1) for line in server.heads[0].decode().strip().split("\r\n")[1:])
    assert fields == {
        "Host": f"site.test:{server.port}",
        "User-Agent": "mannerly/0 (+mailto:a@site.test)",
        "Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
        "Accept-Language": "en,*;q=0.5",
        "Accept-Encoding": "gzip, deflate, br, zstd",
        "From": "a@site.test",
        "If-None-Match": '"e"',
        "If-Modified-Since": "Mon, 30 Nov 2026 00:00:00 GMT",
        "X-Token": "t",
    }


async def test_fields_of_one_request_do_not_leak_into_the_next(
    serve: Serve, fetcher: Fetcher, ask: Ask
) -> None:
    server = await serve(response())
    plain = ask(server.port)
    await fetcher.fetch(
        Request(
            url=plain.url,
            address=plain.address,
            private_ok=True,
            user_agent="mannerly/0",
            headers=(("X-A", "1"),),
        )
    )
    await fetcher.fetch(plain)
    assert b"X-A: 1" in server.heads[0]
    assert b"X-A" not in server.heads[1]


@pytest.mark.parametrize("name", ["User-Agent", "host", "FROM", ""])
def test_fields_that_are_ours_are_not_set_by_headers(name: str) -> None:
    with pytest.raises(ValueError, match="not set by a header option"):
        Request(url="http://a.test/", address="192.0.2.1", user_agent="m", headers=((name, "x"),))


def test_line_break_in_a_field_is_refused() -> None:
    with pytest.raises(ValueError, match="not printable ASCII"):
        Request(url="http://a.test/", address="192.0.2.1", user_agent="m", headers=(("X", "a\r\nY: b"),))


async def test_path_goes_out_as_found(serve: Serve, fetcher: Fetcher, ask: Ask) -> None:
    server = await serve(response())
    for path in ("/a/../b/./c?a=2&b=1", "/%7euser?q=%zz&x=[1]", "//double"):
        await fetcher.fetch(ask(server.port, path))
    assert server.lines == [
        "GET /a/../b/./c?a=2&b=1 HTTP/1.1",
        "GET /%7euser?q=%zz&x=[1] HTTP/1.1",
        "GET //double HTTP/1.1",
    ]


async def test_b23_request_line_has_a_slash(serve: Serve, fetcher: Fetcher, ask: Ask) -> None:
    server = await serve(response())
    await fetcher.fetch(ask(server.port, "?x=1"))
    assert server.lines == ["GET /?x=1 HTTP/1.1"]


async def test_cookies_are_not_kept(serve: Serve, fetcher: Fetcher, ask: Ask) -> None:
    server = await serve(response(b"", "Set-Cookie: a=1; path=/"))
    await fetcher.fetch(ask(server.port))
    await fetcher.fetch(ask(server.port))
    assert b"Cookie" not in server.heads[1]


async def test_redirect_is_not_followed(serve: Serve, fetcher: Fetcher, ask: Ask) -> None:
    server = await serve(response(b"moved", "Location: /elsewhere", status="301 Moved"))
    got = await fetcher.fetch(ask(server.port))
    assert (got.failure, got.status, got.header("location"), got.body) == (None, 301, "/elsewhere", b"")
    assert len(server.heads) == 1


# Addresses


async def test_refused_address_is_not_dialled(serve: Serve, fetcher: Fetcher) -> None:
    server = await serve(response())
    url = f"http://site.test:{server.port}/"
    got = await fetcher.fetch(Request(url=url, address="127.0.0.1", user_agent="m"))
    assert (got.failure, got.sent, server.connections) == (FetchFailure.ADDRESS_REFUSED, False, 0)


async def test_metadata_address_stays_refused_with_private_ok(fetcher: Fetcher, ask: Ask) -> None:
    got = await fetcher.fetch(ask(80, address="169.254.169.254"))
    assert got.failure is FetchFailure.ADDRESS_REFUSED


async def test_literal_host_is_dialled_at_the_vetted_address_only(
    serve: Serve, fetcher: Fetcher, ask: Ask
) -> None:
    vetted = await serve(response(b"vetted"))
    got = await fetcher.fetch(ask(vetted.port, host="127.0.0.99"))
    assert (got.body, got.address) == (b"vetted", "127.0.0.1")


async def test_kept_connection_to_another_address_is_not_taken(
    fetcher: Fetcher, serve: Serve, ask: Ask
) -> None:
    """A name whose address changes between two requests: the second goes to the address vetted for it."""
    first = await serve(response(b"first"), host="0.0.0.0")
    await fetcher.fetch(ask(first.port, address="127.0.0.1"))
    got = await fetcher.fetch(ask(first.port, address="127.0.0.2"))
    assert (got.address, got.reused, first.connections) == ("127.0.0.2", False, 2)


async def test_socket_to_another_address_is_refused(
    serve: Serve, fetcher: Fetcher, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If libcurl ever dials elsewhere than pinned, the look at the socket's address catches it before a packet."""
    server = await serve(response(), host="127.0.0.2")
    monkeypatch.setattr("mannerly.net.handle.connect_to", lambda _address, port: [f"::127.0.0.2:{port}"])
    got = await fetcher.fetch(ask(server.port, address="127.0.0.1"))
    assert (got.failure, got.sent, server.connections) == (FetchFailure.ADDRESS_CHANGED, False, 0)
    assert "127.0.0.2" in got.detail


@pytest.mark.parametrize("name", ["http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy", "ALL_PROXY"])
async def test_environment_proxies_have_no_effect(
    serve: Serve, fetcher: Fetcher, ask: Ask, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    server, trap = await serve(response(b"direct")), await serve(response(b"through the proxy"))
    monkeypatch.setenv(name, f"http://127.0.0.1:{trap.port}")
    got = await fetcher.fetch(ask(server.port))
    assert (got.body, trap.connections) == (b"direct", 0)


async def test_proxy_is_asked_for_a_tunnel_to_the_vetted_address(
    serve: Serve, fetcher: Fetcher, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "*")  # would take the host past the user's own proxy

    async def tunnel(talk: Conversation) -> None:
        if talk.asked == 1:
            await talk.say(b"HTTP/1.1 200 Connected\r\nX-Proxy: yes\r\n\r\n")
        else:
            await talk.say(response(b"tunnelled"))

    proxy = await serve(tunnel)
    got = await fetcher.fetch(ask(81, address="127.0.0.7", proxy=f"http://127.0.0.1:{proxy.port}"))
    assert (got.failure, got.body, got.header("x-proxy")) == (None, b"tunnelled", None)
    assert proxy.lines == ["CONNECT 127.0.0.7:81 HTTP/1.1", "GET / HTTP/1.1"]


async def test_proxy_that_says_no_is_our_failure(serve: Serve, fetcher: Fetcher, ask: Ask) -> None:
    proxy = await serve(response(b"", status="403 No"))
    got = await fetcher.fetch(ask(81, address="127.0.0.7", proxy=f"http://127.0.0.1:{proxy.port}"))
    assert (got.failure, got.sent) == (FetchFailure.PROXY_FAILED, False)


@pytest.mark.parametrize(
    ("url", "failure"),
    [
        ("ftp://site.test/", FetchFailure.INVALID_URL),
        ("file:///etc/hostname", FetchFailure.INVALID_URL),
        ("http://user:pass@site.test/", FetchFailure.INVALID_URL),
        ("http://site.test/a b", FetchFailure.INVALID_URL),
        ("http:///", FetchFailure.INVALID_URL),
        ("http://site.test/é", FetchFailure.INVALID_URL),
        ("http://site.test:0/", FetchFailure.PORT_REFUSED),
        ("http://site.test:70000/", FetchFailure.PORT_REFUSED),
        ("http://site.test:81/", FetchFailure.PORT_REFUSED),
        ("http://si`te.test/", FetchFailure.INVALID_HOST),
        ("http://si{te.test/", FetchFailure.INVALID_HOST),
    ],
)
async def test_urls_that_are_not_dialled(fetcher: Fetcher, url: str, failure: FetchFailure) -> None:
    request = Request(
        url=url, address="127.0.0.1", user_agent="m", private_ok=True, ports=frozenset({80, 443})
    )
    got = await fetcher.fetch(request)
    assert (got.failure, got.sent) == (failure, False)


async def test_b21_underscore_in_a_host_is_dialled(serve: Serve, fetcher: Fetcher, ask: Ask) -> None:
    server = await serve(response(b"ok"))
    got = await fetcher.fetch(ask(server.port, host="my_site.test"))
    assert got.body == b"ok"


# Connections


async def test_connection_is_kept(serve: Serve, fetcher: Fetcher, ask: Ask) -> None:
    server = await serve(response(b"ok"))
    first, second = await fetcher.fetch(ask(server.port)), await fetcher.fetch(ask(server.port, "/2"))
    assert (first.reused, second.reused, server.connections) == (False, True, 1)


async def test_request_on_a_dead_kept_connection_is_seen_once(
    serve: Serve, fetcher: Fetcher, ask: Ask
) -> None:
    async def close_after_the_second(talk: Conversation) -> None:
        if talk.asked == 1:
            await talk.say(response(b"ok"))
        else:
            talk.writer.close()

    server = await serve(close_after_the_second)
    await fetcher.fetch(ask(server.port, "/1"))
    got = await fetcher.fetch(ask(server.port, "/2"))
    await asyncio.sleep(0.02)
    assert (got.failure, got.sent, got.reused) == (FetchFailure.CONNECTION_CLOSED, True, True)
    assert server.lines == ["GET /1 HTTP/1.1", "GET /2 HTTP/1.1"]
    assert server.connections == 1


async def test_reset_of_a_kept_connection_is_seen_once(serve: Serve, fetcher: Fetcher, ask: Ask) -> None:
    async def reset_after_the_second(talk: Conversation) -> None:
        if talk.asked == 1:
            await talk.say(response(b"ok"))
        else:
            talk.reset()

    server = await serve(reset_after_the_second)
    await fetcher.fetch(ask(server.port, "/1"))
    got = await fetcher.fetch(ask(server.port, "/2"))
    assert (got.failure, len(server.heads)) == (FetchFailure.CONNECTION_CLOSED, 2)


async def test_connection_closed_while_idle_is_not_used(serve: Serve, fetcher: Fetcher, ask: Ask) -> None:
    async def close_after_answer(talk: Conversation) -> None:
        await talk.say(response(b"ok"))
        talk.writer.close()

    server = await serve(close_after_answer)
    await fetcher.fetch(ask(server.port, "/1"))
    await asyncio.sleep(0.02)
    got = await fetcher.fetch(ask(server.port, "/2"))
    assert (got.failure, got.reused, server.connections) == (None, False, 2)


async def test_fresh_request_takes_no_kept_connection(serve: Serve, fetcher: Fetcher, ask: Ask) -> None:
    server = await serve(response(b"ok"))
    await fetcher.fetch(ask(server.port))
    got = await fetcher.fetch(dataclasses.replace(ask(server.port), fresh=True))
    assert (got.reused, server.connections) == (False, 2)


async def test_close_of_a_fresh_connection_is_a_reset(serve: Serve, fetcher: Fetcher, ask: Ask) -> None:
    async def close(talk: Conversation) -> None:
        talk.writer.close()

    async def reset(talk: Conversation) -> None:
        talk.reset()

    for answer in (close, reset):
        server = await serve(answer)
        got = await fetcher.fetch(ask(server.port))
        assert (got.failure, got.sent, len(server.heads)) == (FetchFailure.RESET, True, 1)


async def test_closed_port_is_refused(serve: Serve, fetcher: Fetcher, ask: Ask) -> None:
    got = await fetcher.fetch(ask(1))
    assert (got.failure, got.sent) == (FetchFailure.REFUSED, False)


async def test_cancelled_fetch_closes_its_connection_and_harms_no_other(
    serve: Serve, fetcher: Fetcher, ask: Ask
) -> None:
    gone = asyncio.Event()

    async def hang(talk: Conversation) -> None:
        if b"/hang" not in server.heads[-1]:
            return await talk.say(response(b"ok"))
        await talk.reader.read()
        gone.set()
        return None

    server = await serve(hang)
    task = asyncio.create_task(fetcher.fetch(ask(server.port, "/hang")))
    while not server.heads:
        await asyncio.sleep(0.001)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(gone.wait(), 1)
    assert (await fetcher.fetch(ask(server.port, "/next"))).body == b"ok"


async def test_close_cancels_what_runs(serve: Serve, ask: Ask) -> None:
    async def hang(talk: Conversation) -> None:
        await talk.reader.read()

    server = await serve(hang)
    async with Fetcher() as fetcher:
        task = asyncio.create_task(fetcher.fetch(ask(server.port)))
        while not server.heads:
            await asyncio.sleep(0.001)
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(RuntimeError, match="async with"):
        await fetcher.fetch(ask(server.port))


async def test_many_at_once(serve: Serve, fetcher: Fetcher, ask: Ask) -> None:
    async def echo(talk: Conversation) -> None:
        await asyncio.sleep(0)
        path = server.heads[-1].split()[1]
        await talk.say(response(path))

    server = await serve(echo)
    got = await asyncio.gather(
        *(fetcher.fetch(ask(server.port, f"/{n}", host=f"h{n}.test")) for n in range(100))
    )
    assert all(one.failure is None for one in got)
    assert server.connections == 100


# Heads


async def test_only_the_last_header_block_counts(serve: Serve, fetcher: Fetcher, ask: Ask) -> None:
    interim = (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\nX-Interim: 1\r\n\r\n"
    )
    server = await serve(interim + response(b"ok", "X-Final: 1"))
    got = await fetcher.fetch(ask(server.port))
    assert (got.status, got.http_version, got.body) == (200, "1.1", b"ok")
    assert got.headers == (("x-final", "1"), ("content-length", "2"))


async def test_trailers_are_not_headers(serve: Serve, fetcher: Fetcher, ask: Ask) -> None:
    server = await serve(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Trailer: 1\r\n\r\n"
    )
    got = await fetcher.fetch(ask(server.port))
    assert (got.body, got.header("x-trailer"), got.truncated) == (b"ok", None, None)


async def test_repeated_and_odd_fields_are_kept_in_order(serve: Serve, fetcher: Fetcher, ask: Ask) -> None:
    server = await serve(
        response(b"", "X-A: 1", "x-a:2", "X-B: caf\xe9".encode("latin-1").decode("latin-1"), "X-C:")
    )
    got = await fetcher.fetch(ask(server.port))
    assert [value for name, value in got.headers if name == "x-a"] == ["1", "2"]
    assert got.header("x-c") == ""


@pytest.mark.parametrize(
    ("raw", "location"),
    [
        (b"/\xe2\x82\xac/x", "/€/x"),
        (b"/caf\xe9", "/caf%E9"),  # not UTF-8: the bytes as they are
        (b"/%E2%82%AC", "/%E2%82%AC"),
    ],
)
async def test_b33_raw_bytes_in_location_are_kept_right(
    serve: Serve, fetcher: Fetcher, ask: Ask, raw: bytes, location: str
) -> None:
    server = await serve(b"HTTP/1.1 302 Found\r\nLocation: " + raw + b"\r\nContent-Length: 0\r\n\r\n")
    got = await fetcher.fetch(ask(server.port))
    assert (got.status, got.header("location")) == (302, location)


async def test_b56_long_header_is_read(serve: Serve, fetcher: Fetcher, ask: Ask) -> None:
    policy = "default-src " + "x" * 8500
    server = await serve(response(b"<p>ok", f"Content-Security-Policy: {policy}"))
    got = await fetcher.fetch(ask(server.port))
    assert (got.body, got.header("content-security-policy")) == (b"<p>ok", policy)


@pytest.mark.slow
async def test_b56_ten_megabytes_of_headers_are_refused(serve: Serve, fetcher: Fetcher, ask: Ask) -> None:
    many = "\r\n".join(f"X-{n}: {'y' * 2000}" for n in range(5000))
    one = "X: " + "y" * 10_000_000
    short = "\r\n".join(f"X-{n}: y" for n in range(20000))
    for fields in (many, one, short):
        server = await serve(response(b"", fields))
        got = await fetcher.fetch(ask(server.port))
        assert (got.failure, got.body) == (FetchFailure.HEADERS_TOO_LARGE, b"")


async def test_interim_responses_without_end_are_refused(serve: Serve, fetcher: Fetcher, ask: Ask) -> None:
    async def hints(talk: Conversation) -> None:
        while True:
            await talk.say(b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n" * 100)

    server = await serve(hints)
    assert (await fetcher.fetch(ask(server.port))).failure is FetchFailure.HEADERS_TOO_LARGE


@pytest.mark.parametrize(
    "answer",
    [
        b"<html>HTTP/0.9</html>",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"\x00\x01\x02\x03\r\n\r\n",
        b"HTTP/1.1 2xx OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: a\x00b\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"\x15\x03\x01\x00\x02\x02\x0a",  # a TLS alert: https spoken on this port
    ],
)
async def test_what_is_not_http_is_a_protocol_error(
    serve: Serve, fetcher: Fetcher, ask: Ask, answer: bytes
) -> None:
    async def say(talk: Conversation) -> None:
        await talk.say(answer)
        talk.writer.close()

    server = await serve(say)
    got = await fetcher.fetch(ask(server.port))
    assert (got.failure, got.sent) == (FetchFailure.PROTOCOL_ERROR, True), got


@pytest.mark.parametrize("head", [b"HTTP/1.1 200 OK\r\nX: 1\r\nContent-", b"HTTP/1.1 200 OK\r\n"])
async def test_head_that_breaks_off(serve: Serve, fetcher: Fetcher, ask: Ask, head: bytes) -> None:
    async def say(talk: Conversation) -> None:
        await talk.say(head)
        talk.writer.close()

    server = await serve(say)
    got = await fetcher.fetch(ask(server.port))
    assert got.failure is FetchFailure.TRUNCATED_HEAD, got


# Bodies


@pytest.mark.parametrize(
    ("coding", "pack"),
    [
        ("gzip", gzip.compress),
        ("x-gzip", gzip.compress),
        ("deflate", zlib.compress),
        ("br", brotli.compress),
        ("zstd", zstandard.compress),
        ("identity", bytes),
        ("GZIP", gzip.compress),
    ],
)
async def test_codings_are_undone(
    serve: Serve, fetcher: Fetcher, ask: Ask, coding: str, pack: Callable[[bytes], bytes]
) -> None:
    text = b"<p>a page</p>" * 2000
    server = await serve(response(pack(text), f"Content-Encoding: {coding}"))
    got = await fetcher.fetch(ask(server.port))
    assert (got.body, got.truncated, got.bytes_received) == (text, None, len(pack(text)))


async def test_b47_broken_body_of_a_redirect_does_not_matter(
    serve: Serve, fetcher: Fetcher, ask: Ask
) -> None:
    server = await serve(response(b"moved", "Location: /n", "Content-Encoding: gzip", status="302 Found"))
    first, second = await fetcher.fetch(ask(server.port)), await fetcher.fetch(ask(server.port))
    assert (first.failure, first.header("location"), first.truncated) == (None, "/n", None)
    assert second.reused


async def test_b47_cut_or_endless_body_of_a_redirect_does_not_matter(
    serve: Serve, fetcher: Fetcher, ask: Ask
) -> None:
    async def cut(talk: Conversation) -> None:
        await talk.say(response(b"short", "Location: /n", status="302 Found", length=1000))
        talk.writer.close()

    async def endless(talk: Conversation) -> None:
        await talk.say(response(b"", "Location: /n", status="302 Found", length=-1))
        while True:
            await talk.say(b"a" * 65536)

    for answer in (cut, endless):
        server = await serve(answer)
        got = await fetcher.fetch(ask(server.port))
        assert (got.failure, got.status, got.header("location")) == (None, 302, "/n")
        assert got.bytes_received < 200_000


async def test_b51_bomb_stops_at_the_limit(serve: Serve, fetcher: Fetcher, ask: Ask) -> None:
    limits = Limits(body_bytes=5 * 1024 * 1024, ratio=10**9)
    zeros = bytes(30 * 1024 * 1024)
    for coding, packed in (
        ("gzip", gzip.compress(zeros, 1)),
        ("br", brotli.compress(zeros, quality=1)),
        ("zstd", zstandard.compress(zeros)),
    ):
        server = await serve(response(packed, f"Content-Encoding: {coding}"))
        got = await fetcher.fetch(ask(server.port, limits=limits))
        assert (got.failure, got.status, len(got.body), got.truncated) == (
            None,
            200,
            limits.body_bytes,
            "body",
        )


async def test_b52_short_body_is_marked(serve: Serve, fetcher: Fetcher, ask: Ask) -> None:
    async def short(talk: Conversation) -> None:
        await talk.say(response(b"fourteen bytes", length=10_000))
        talk.writer.close()

    server = await serve(short)
    got = await fetcher.fetch(ask(server.port))
    assert (got.failure, got.status, got.body, got.truncated) == (None, 200, b"fourteen bytes", "length")


async def test_b52_reset_within_the_body_and_broken_chunks_are_marked(
    serve: Serve, fetcher: Fetcher, ask: Ask
) -> None:
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"

    async def cut(talk: Conversation) -> None:
        await talk.say(chunked)
        talk.writer.close()

    async def broken(talk: Conversation) -> None:
        await talk.say(chunked + b"zz\r\nno chunk\r\n")

    for answer in (cut, broken):
        server = await serve(answer)
        got = await fetcher.fetch(ask(server.port))
        assert (got.failure, got.status, got.body, got.truncated) == (None, 200, b"hello", "length")


async def test_length_that_is_too_small_gives_so_many_bytes(serve: Serve, fetcher: Fetcher, ask: Ask) -> None:
    server = await serve(response(b"longer than said", length=6))
    got = await fetcher.fetch(ask(server.port))
    again = await fetcher.fetch(ask(server.port))
    assert (got.failure, got.body, again.failure, again.body) == (None, b"longer", None, b"longer")


async def test_b55_endless_body_stops_at_the_limit(serve: Serve, fetcher: Fetcher, ask: Ask) -> None:
    closed = asyncio.Event()

    async def endless(talk: Conversation) -> None:
        await talk.say(response(b"", length=-1))
        try:
            while True:
                await talk.say(b"a" * 65536)
        finally:
            closed.set()

    server = await serve(endless)
    limits = Limits(body_bytes=2 * 1024 * 1024)
    got = await fetcher.fetch(ask(server.port, limits=limits))
    assert (got.failure, len(got.body), got.truncated) == (None, limits.body_bytes, "body")
    assert got.bytes_received < limits.body_bytes + 64 * 1024
    await asyncio.wait_for(closed.wait(), 1)


async def test_coded_stream_that_decodes_to_nothing_ends(serve: Serve, fetcher: Fetcher, ask: Ask) -> None:
    packer = zlib.compressobj(wbits=31)
    start = packer.compress(b"x") + packer.flush(zlib.Z_FULL_FLUSH)
    empty = b"\x00\x00\x00\xff\xff" * 10_000  # stored blocks of length 0

    async def endless(talk: Conversation) -> None:
        await talk.say(response(b"", "Content-Encoding: gzip", length=-1) + start)
        while True:
            await talk.say(empty)

    server = await serve(endless)
    got = await fetcher.fetch(ask(server.port, limits=Limits(body_bytes=300_000)))
    assert (got.failure, got.body, got.truncated) == (None, b"x", "body")
    assert got.bytes_received < 500_000


async def test_coding_that_is_a_lie_gives_the_bytes_that_came(
    serve: Serve, fetcher: Fetcher, ask: Ask
) -> None:
    for coding in ("gzip", "br", "zstd", "deflate", "compress", "utf-8", "gzip, gzip, gzip, gzip"):
        server = await serve(response(b"<p>plain text</p>", f"Content-Encoding: {coding}"))
        got = await fetcher.fetch(ask(server.port))
        assert (got.failure, got.body, got.truncated) == (None, b"<p>plain text</p>", "coding"), coding


async def test_body_limit_holds_to_the_byte(serve: Serve, fetcher: Fetcher, ask: Ask) -> None:
    server = await serve(response(b"12345678"))
    whole = await fetcher.fetch(ask(server.port, limits=Limits(body_bytes=8)))
    cut = await fetcher.fetch(ask(server.port, limits=Limits(body_bytes=7)))
    assert (whole.body, whole.truncated, cut.body, cut.truncated) == (b"12345678", None, b"1234567", "body")


async def test_not_modified_has_no_body(serve: Serve, fetcher: Fetcher, ask: Ask) -> None:
    server = await serve(b'HTTP/1.1 304 Not Modified\r\nETag: "e"\r\nContent-Length: 500\r\n\r\n')
    got = await fetcher.fetch(ask(server.port))
    assert (got.failure, got.status, got.body, got.header("etag")) == (None, 304, b"", '"e"')


# Time


@pytest.mark.slow
@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 100 Continue\r\n"])
async def test_slow_head_ends(serve: Serve, fetcher: Fetcher, ask: Ask, said: bytes) -> None:
    async def hang(talk: Conversation) -> None:
        await talk.say(said)
        await asyncio.sleep(30)

    server = await serve(hang)
    began = time.perf_counter()
    got = await fetcher.fetch(ask(server.port, limits=Limits(first_byte_s=0.1, exchange_s=0.3)))
    assert (got.failure, got.status, got.sent) == (FetchFailure.TIMEOUT, 0, True)
    assert time.perf_counter() - began < 1


@pytest.mark.slow
async def test_b55_drip_ends_by_the_time_of_the_exchange(serve: Serve, fetcher: Fetcher, ask: Ask) -> None:
    async def drip(talk: Conversation) -> None:
        await talk.say(response(b"", length=-1))
        while True:
            await talk.say(b"a")
            await asyncio.sleep(0.02)

    server = await serve(drip)
    got = await fetcher.fetch(ask(server.port, limits=Limits(exchange_s=0.3)))
    assert (got.failure, got.status, got.sent) == (FetchFailure.TIMEOUT, 200, True)
    assert 0 < len(got.body) < 100
    assert 0.25 < got.elapsed_s < 1


@pytest.mark.slow
async def test_low_speed_ends(serve: Serve, fetcher: Fetcher, ask: Ask) -> None:
    async def drip(talk: Conversation) -> None:
        await talk.say(response(b"", length=-1))
        while True:
            await talk.say(b"a")
            await asyncio.sleep(0.1)

    server = await serve(drip)
    got = await fetcher.fetch(ask(server.port, limits=Limits(low_speed_s=1)))
    assert got.failure is FetchFailure.TIMEOUT
    assert got.elapsed_s < 5


@pytest.mark.slow
async def test_connection_that_is_not_accepted_times_out(fetcher: Fetcher, ask: Ask) -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        with socket.create_connection(listening.getsockname()):  # fills the queue
            got = await fetcher.fetch(ask(listening.getsockname()[1], limits=Limits(connect_s=0.2)))
    assert (got.failure, got.sent) == (FetchFailure.CONNECT_TIMEOUT, False)


async def test_times_are_told(serve: Serve, fetcher: Fetcher, ask: Ask) -> None:
    async def late(talk: Conversation) -> None:
        await asyncio.sleep(0.03)
        await talk.say(response(b"ab")[:-1])
        await asyncio.sleep(0.03)
        await talk.say(b"b")

    server = await serve(late)
    got = await fetcher.fetch(ask(server.port))
    assert got.first_byte_s is not None
    assert 0.025 < got.first_byte_s < got.elapsed_s - 0.02 < 0.2


@pytest.mark.slow
async def test_no_descriptor_is_lost(serve: Serve, ask: Ask) -> None:
    async def rude(talk: Conversation) -> None:
        if talk.asked % 2:
            await talk.say(response(b"ok"))
        else:
            talk.reset()

    server = await serve(rude)
    folder = Path("/proc/self/fd")
    if not folder.is_dir():
        pytest.skip("no /proc to count descriptors in")
    before = len(list(folder.iterdir()))
    async with Fetcher() as fetcher:
        for _ in range(50):
            await fetcher.fetch(ask(server.port))
    await asyncio.sleep(0.05)
    assert len(list(folder.iterdir())) <= before + 2
