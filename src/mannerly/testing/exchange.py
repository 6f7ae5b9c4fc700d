"""The server's side of HTTP/1.1, written by hand so that it can misbehave in every way a reply asks for.

One `Connection` per client connection. It reads a request, asks `answer` for a `Reply`, plays it, reads the next:
requests of one connection never overlap, pipelined ones wait. A client that goes away (also by closing its side
for writing only) ends the request under way as aborted.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
import struct
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from http.client import responses
from typing import cast

from mannerly.testing.record import Headers, Record, Seen

MAX_HEAD_BYTES = 64 * 1024
# Up to this size a response leaves in one write; above it the last byte waits until the rest has left.
ONE_WRITE_BYTES = 32 * 1024
BODILESS = frozenset({204, 304})
LAST_CHUNK = b"0\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Request:
    """What a handler is told. `target` is the raw request target; `path` and `query` its two halves."""

    host: str
    method: str
    target: str
    headers: Headers
    body: bytes
    connection: int
    nth: int

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def query(self) -> str:
        return self.target.partition("?")[2]

    def header(self, name: str) -> str | None:
        """Value of the first header of that name (any case), or None."""
        wanted = name.lower()
        return next((value for key, value in self.headers if key.lower() == wanted), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One response, and how badly it is given.

    Sent are the status line, Content-Type (unless None or in `headers`), `headers` verbatim and in order, then
    framing: `chunked`, else Content-Length (unless `headers` hold one: it may lie). 204 and 304 have neither.

    `delay_s`            wait before the first byte
    `pause_s`            wait in the middle of the body, after `pause_after_bytes` of it
    `close_after_bytes`  send only so much of the body (as framed), then close
    `close`              close after the response; `Connection: close` is sent
    `silent`             send nothing, close
    `reset`              end with a TCP reset in place of a close (with `silent`, `close_after_bytes` or whole)
    `raw`                these bytes in place of a response, then close; `delay_s` and `reset` still hold
    `pieces`             makes the body (with `raw`: what follows it) anew for each response: never whole in memory, it
                         may have no end; each piece is a write, and is made when the client has taken the one before.
                         Without `chunked` and a Content-Length in `headers` it ends with the connection
    `every_s`            wait before each of the pieces
    """

    status: int = 200
    body: bytes | str = b""
    headers: Headers | list[tuple[str, str]] = ()
    content_type: str | None = "text/html; charset=utf-8"
    reason: str | None = None
    chunked: bool = False
    delay_s: float = 0.0
    pause_s: float = 0.0
    pause_after_bytes: int = 0
    close_after_bytes: int | None = None
    close: bool = False
    silent: bool = False
    reset: bool = False
    raw: bytes | None = None
    pieces: Callable[[], Iterable[bytes]] | None = None
    every_s: float = 0.0

    @property
    def framed_by_close(self) -> bool:
        """Whether nothing but the end of the connection tells where the body ends."""
        return (
            self.pieces is not None
            and not self.chunked
            and not any(name.lower() == "content-length" for name, _ in self.headers)
        )

    def __post_init__(self) -> None:
        """Refuse what cannot both be meant. Raises ValueError."""
        cut = self.body or self.pause_s or self.close_after_bytes is not None or self.silent
        if self.pieces is not None and cut:
            raise ValueError(
                "pieces make the whole body: no body, pause_s, close_after_bytes or silent beside them"
            )

    @property
    def closes(self) -> bool:
        """Whether the connection ends with this reply."""
        return (
            self.close
            or self.silent
            or self.reset
            or self.raw is not None
            or self.close_after_bytes is not None
            or self.framed_by_close
        )


def head_of(reply: Reply, body_bytes: int) -> bytes:
    """Status line and headers of `reply`."""
    reason = responses.get(reply.status, "") if reply.reason is None else reply.reason
    given = {name.lower() for name, _ in reply.headers}
    lines = [f"HTTP/1.1 {reply.status} {reason}"]
    if reply.content_type is not None and "content-type" not in given and reply.status not in BODILESS:
        lines.append(f"Content-Type: {reply.content_type}")
    lines += [f"{name}: {value}" for name, value in reply.headers]
    if (reply.close or reply.framed_by_close) and "connection" not in given:
        lines.append("Connection: close")
    if reply.status not in BODILESS:
        if reply.chunked:
            lines.append("Transfer-Encoding: chunked")
        elif "content-length" not in given and reply.pieces is None:
            lines.append(f"Content-Length: {body_bytes}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def framed(reply: Reply, body: bytes) -> bytes:
    """`body` as it goes on the wire: in two chunks and the last one if `chunked`."""
    if not reply.chunked:
        return body
    half = len(body) // 2
    pieces = [piece for piece in (body[:half], body[half:]) if piece]
    return b"".join(map(chunk, pieces)) + LAST_CHUNK


def chunk(piece: bytes) -> bytes:
    """`piece` as one chunk; an empty one would end the body."""
    return b"%x\r\n%b\r\n" % (len(piece), piece)


def wire_form(reply: Reply, method: str) -> tuple[bytes, bytes]:
    """(head, body as framed and cut) of what is sent for `reply`, up to its pieces."""
    if reply.silent:
        return b"", b""
    if reply.raw is not None:
        return reply.raw, b""
    body = reply.body.encode() if isinstance(reply.body, str) else reply.body
    head = head_of(reply, len(body))
    if method == "HEAD" or reply.status in BODILESS or reply.pieces is not None:
        return head, b""
    sent = framed(reply, body)
    return head, sent if reply.close_after_bytes is None else sent[: reply.close_after_bytes]


class MalformedRequest(Exception):
    """Bytes that are no HTTP/1.1 request this server reads."""


def parse_head(head: bytes) -> tuple[str, str, Headers]:
    """(method, target, headers) of a request head without its final blank line."""
    lines = head.decode("latin-1").split("\r\n")
    words = lines[0].split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise MalformedRequest(f"no request line: {lines[0][:200]!r}")
    headers: list[tuple[str, str]] = []
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if not colon:
            raise MalformedRequest(f"no header line: {line[:200]!r}")
        headers.append((name, value.strip(" \t")))
    return words[0], words[1], tuple(headers)


def host_of(headers: Headers) -> str:
    """The Host header's name in lower case, without port and trailing dot; "" when there is none."""
    value = next((value for name, value in headers if name.lower() == "host"), "").lower()
    if value.startswith("["):
        return value.partition("]")[0] + "]"
    return value.partition(":")[0].rstrip(".")


class Connection(asyncio.Protocol):
    """One client connection; see the module's text. Lives in the server's loop."""

    _numbers = itertools.count(1)

    def __init__(self, record: Record, answer: Callable[[Request], Reply], alive: set[Connection]) -> None:
        self._record = record
        self._answer = answer
        self._alive = alive
        self._number = next(self._numbers)
        self._nth = 0
        self._buffer = bytearray()
        self._current: Seen | None = None
        self._playing: asyncio.Task[None] | None = None
        self._drained = asyncio.Event()
        self._drained.set()
        self._address = ""
        self._transport: asyncio.Transport

    # --- what asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=0)
        self._address = transport.get_extra_info("sockname")[0]
        self._alive.add(self)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._next_request(time.monotonic())

    def eof_received(self) -> bool:
        return False  # close our side too: a crawler that was killed has no use for the rest

    def connection_lost(self, exc: Exception | None) -> None:
        self._alive.discard(self)
        self._drained.set()
        if self._playing is not None:
            self._playing.cancel()
        if self._current is not None:
            self._record.end(self._current, status=0, aborted=True)
            self._current = None

    def pause_writing(self) -> None:
        self._drained.clear()

    def resume_writing(self) -> None:
        self._drained.set()

    def abort(self) -> None:
        self._transport.abort()

    # --- requests

    def _next_request(self, read_at: float) -> None:
        if self._current is not None or self._transport.is_closing():
            return
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0 or end > MAX_HEAD_BYTES:
            if len(self._buffer) > MAX_HEAD_BYTES:
                self._refuse(431)
            return
        try:
            method, target, headers = parse_head(bytes(self._buffer[:end]))
            length = self._body_length(headers)
        except MalformedRequest:
            self._refuse(400)
            return
        if len(self._buffer) < end + 4 + length:
            return  # the rest of the body is on its way
        body = bytes(self._buffer[end + 4 : end + 4 + length])
        del self._buffer[: end + 4 + length]
        self._nth += 1
        host = host_of(headers)
        self._current = self._record.begin(
            host=host,
            target=target,
            method=method,
            headers=headers,
            address=self._address,
            connection=self._number,
            nth=self._nth,
            began_at=read_at,
        )
        request = Request(host, method, target, headers, body, self._number, self._nth)
        self._start(self._answer(request), request)

    @staticmethod
    def _body_length(headers: Headers) -> int:
        for name, value in headers:
            if name.lower() == "transfer-encoding":
                raise MalformedRequest("requests in chunks are not read here")
            if name.lower() == "content-length":
                if not value.isdecimal():
                    raise MalformedRequest(f"no length: {value!r}")
                return int(value)
        return 0

    def _refuse(self, status: int) -> None:
        reply = Reply(status=status, close=True)
        self._transport.write(head_of(reply, 0))
        self._transport.close()

    # --- replies

    def _start(self, reply: Reply, request: Request) -> None:
        head, body = wire_form(reply, request.method)
        closes = reply.closes or (request.header("connection") or "").lower() == "close"
        bodiless = request.method == "HEAD" or reply.status in BODILESS
        streamed = reply.pieces if reply.raw is not None or not bodiless else None
        slow = reply.delay_s or reply.pause_s or reply.reset or streamed is not None
        if not slow and len(head) + len(body) <= ONE_WRITE_BYTES:
            self._finish(reply.status, head + body, closes=closes)
            return
        self._playing = asyncio.get_running_loop().create_task(
            self._play(reply, head, body, streamed, closes=closes)
        )

    async def _play(
        self,
        reply: Reply,
        head: bytes,
        body: bytes,
        streamed: Callable[[], Iterable[bytes]] | None,
        *,
        closes: bool,
    ) -> None:
        """Send a reply that takes its time; cancelled when the client goes away."""
        if reply.delay_s:
            await asyncio.sleep(reply.delay_s)
        if reply.pause_s:
            await self._send(head + body[: reply.pause_after_bytes])
            head, body = b"", body[reply.pause_after_bytes :]
            await asyncio.sleep(reply.pause_s)
        if streamed is not None:
            await self._send(head)
            await self._stream(streamed(), chunked=reply.chunked, every_s=reply.every_s)
            head, body = b"", LAST_CHUNK if reply.chunked else b""
        rest = head + body
        if len(rest) > ONE_WRITE_BYTES:
            await self._send(rest[:-1])
            rest = rest[-1:]
        self._playing = None
        if not reply.reset:
            self._finish(reply.status, rest, closes=closes)
            return
        if self._current is not None:
            self._record.end(self._current, status=reply.status)
            self._current = None
        await self._send(rest)
        self._reset()

    async def _stream(self, pieces: Iterable[bytes], *, chunked: bool, every_s: float) -> None:
        for piece in pieces:
            # also without a wait: other connections have their turn between two pieces
            await asyncio.sleep(every_s)
            if piece:
                await self._send(chunk(piece) if chunked else piece)

    async def _send(self, data: bytes) -> None:
        """Write and wait until the kernel has taken all of it."""
        if data:
            self._transport.write(data)
            await self._drained.wait()

    def _finish(self, status: int, rest: bytes, *, closes: bool) -> None:
        if self._current is None:
            return  # the client was gone first
        self._record.end(self._current, status=status)
        self._current = None
        if rest:
            self._transport.write(rest)
        if closes:
            self._transport.close()
        elif self._buffer:
            # not called from here: a thousand pipelined requests would nest as deep
            asyncio.get_running_loop().call_soon(lambda: self._next_request(time.monotonic()))

    def _reset(self) -> None:
        """Close with a TCP reset: linger time zero."""
        connection: socket.socket = self._transport.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._transport.abort()
