"""One libcurl handle and the exchange it is busy with.

Handles are kept and used again. What never changes is set once; what a request decides is set anew only if it differs
from the last request's, which is most of what a setopt costs.
"""

from __future__ import annotations

import select
import socket
from dataclasses import dataclass
from ipaddress import ip_address
from math import ceil
from typing import TYPE_CHECKING, Literal

import pycurl

from mannerly.net.decode import Decoder, codings
from mannerly.net.head import Head

if TYPE_CHECKING:
    from collections.abc import Callable

    from mannerly.model.task import Limits
    from mannerly.net.exchange import Request, Truncated

Stop = Literal["body", "redirect", "headers", "address", "resend", "stale"]
"""Why we ended a transfer: enough body; the body of a redirect; too many headers; another address; sent once already;
the kept connection was seen to be closed before anything was sent on it."""

REDIRECT_BODY_BYTES = 64 * 1024
"""So much of a redirect's body is read and dropped to keep the connection; a longer one costs the connection."""
CODED_SLACK_BYTES = 64 * 1024
"""A coded body may be this much longer than the decoded limit: streams of empty blocks decode to nothing for ever."""

# Options that libcurl has and pycurl gives no name; the numbers are part of libcurl's ABI (curl/curl.h).
_SUPPRESS_CONNECT_HEADERS = 265
_DISALLOW_USERNAME_IN_URL = 278

# Without POLLRDHUP (not Linux), waiting bytes are taken for an end: an idle server has nothing to say.
_HANGUP = getattr(select, "POLLRDHUP", select.POLLIN)

_SOCKET_BAD: int = pycurl.SOCKET_BAD
_SOCKOPT_OK: int = pycurl.SOCKOPT_OK
_GO: int = pycurl.PREREQFUNC_OK
_ABORT: int = pycurl.PREREQFUNC_ABORT


_Ends = tuple[str, int, str, int]
"""Local address and port, remote address and port."""


@dataclass(frozen=True, slots=True)
class Target:
    """A URL in the parts that libcurl is told: `origin` as `http://host:port/`, `path` with the query."""

    origin: str
    path: str
    scheme: str
    host: str
    port: int


def connect_to(address: str, port: int) -> list[str]:
    """Return the value of CONNECT_TO by which `address` is dialled, whatever host and port the URL names."""
    return [f"::[{address}]:{port}" if ":" in address else f"::{address}:{port}"]


class Connections:
    """Knows the descriptor of each kept connection, to see whether the peer has closed it.

    libcurl looks for closed connections at most once a second, and tells no descriptor in the callback before a
    request. So each is noted when it is first used, by its two ends. Entries of closed connections stay until their
    descriptor is used again: at most one for each descriptor, and never asked for.
    """

    def __init__(self) -> None:
        self._descriptors: dict[_Ends, int] = {}
        self._ends: dict[int, _Ends] = {}

    def add(self, descriptor: int, ends: _Ends) -> None:
        """Note a connection that is new."""
        old = self._ends.get(descriptor)
        if old is not None and self._descriptors.get(old) == descriptor:
            del self._descriptors[old]
        self._ends[descriptor] = ends
        self._descriptors[ends] = descriptor

    def is_closed(self, ends: _Ends) -> bool:
        """Return True if the peer has closed this connection, which libcurl still holds open."""
        descriptor = self._descriptors.get(ends)
        if descriptor is None:
            return False
        poll = select.poll()
        poll.register(descriptor, _HANGUP)
        return bool(poll.poll(0))


class Handle:
    """A reusable handle. Between `begin` and the end of the transfer its fields hold what has arrived."""

    def __init__(self, ca_file: str, connections: Connections, now: Callable[[], float]) -> None:
        self.curl = pycurl.Curl()
        self._connections = connections
        self._now = now
        self._descriptor = -1
        self._request: Request | None = None
        self._set: dict[int, object] = {}
        self._limits: Limits | None = None
        self._share: pycurl.CurlShare | None = None
        self._socket: socket.socket | None = None
        self._on_sent: Callable[[], None] = lambda: None
        self._fix_options(ca_file)

    def begin(
        self,
        request: Request,
        target: Target,
        *,
        share: pycurl.CurlShare | None,
        fresh: bool,
        on_sent: Callable[[], None],
    ) -> None:
        """Make ready for `request`; `fresh` forbids a kept connection. `on_sent` is called as the request goes out.

        Raises pycurl.error or UnicodeEncodeError if libcurl does not take the URL.
        """
        self._request = request
        self._on_sent = on_sent
        self.head = Head(request.limits.headers_bytes)
        self.decoder: Decoder | None = None
        self.chunks: list[bytes] = []
        self.received_bytes = 0
        self.kept_bytes = 0
        self.truncated: Truncated | None = None
        self.stop: Stop | None = None
        self.detail = ""
        self.dialled = ""
        self.connected = False
        self.sent = False
        self.started_at = self._now()
        self.first_byte_at: float | None = None
        self._set_options(request, target, share, fresh=fresh)

    def rest(self) -> None:
        """Let go of the exchange; the handle may begin another."""
        self._request = None
        self._close_socket()

    def close(self) -> None:
        """Give the handle back to libcurl."""
        self.rest()
        self.curl.close()

    @property
    def is_redirect(self) -> bool:
        """True if the final head has arrived and its body does not matter."""
        return self.head.complete and 300 <= self.head.status < 400

    @property
    def reused(self) -> bool:
        """True if the request went out on a kept connection."""
        return self.sent and not self.connected

    def elapsed_s(self) -> float:
        """Return the seconds since `begin`."""
        return self._now() - self.started_at

    def body(self) -> bytes:
        """Return the decoded body and set `truncated`; once, at the end."""
        if self.decoder is not None:
            self.chunks.append(self.decoder.finish())
            self.truncated = self.truncated or self.decoder.stopped
        return b"".join(self.chunks)

    def _fix_options(self, ca_file: str) -> None:
        for option, value in (
            (pycurl.NOSIGNAL, 1),
            (pycurl.PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS),
            (pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_1_1),
            (pycurl.HTTP09_ALLOWED, 0),
            (pycurl.FOLLOWLOCATION, 0),
            (pycurl.HTTP_CONTENT_DECODING, 0),
            (pycurl.NETRC, pycurl.NETRC_IGNORED),
            (pycurl.CAINFO, ca_file),
            (pycurl.SSL_VERIFYPEER, 1),
            (pycurl.SSL_VERIFYHOST, 2),
            (pycurl.BUFFERSIZE, 128 * 1024),
            (_SUPPRESS_CONNECT_HEADERS, 1),
            (_DISALLOW_USERNAME_IN_URL, 1),
            (pycurl.OPENSOCKETFUNCTION, self._open_socket),
            (pycurl.SOCKOPTFUNCTION, self._see_descriptor),
            (pycurl.PREREQFUNCTION, self._before_request),
            (pycurl.HEADERFUNCTION, self._take_header),
            (pycurl.WRITEFUNCTION, self._take_body),
        ):
            self.curl.setopt(option, value)

    def _set_options(
        self, request: Request, target: Target, share: pycurl.CurlShare | None, *, fresh: bool
    ) -> None:
        self._set_option(pycurl.URL, target.origin)
        # left to itself, libcurl writes %7e as %7E and drops dot segments; the URL as found is what goes out
        self._set_option(pycurl.REQUEST_TARGET, target.path)
        self._set_option(pycurl.CONNECT_TO, connect_to(request.address, target.port))
        self._set_option(pycurl.FRESH_CONNECT, 1 if fresh else 0)
        self._set_option(pycurl.HTTPHEADER, request.field_lines())
        self._set_option(pycurl.USERAGENT, request.user_agent)
        if request.limits is not self._limits:
            self._set_limits(request.limits)
        # both are set always: unset, libcurl reads http_proxy, https_proxy and no_proxy from the environment
        self._set_option(pycurl.PROXY, request.proxy or "")
        self._set_option(pycurl.NOPROXY, "" if request.proxy else "*")
        self._set_option(pycurl.HTTPPROXYTUNNEL, 1 if request.proxy else 0)
        if share is not None and share is not self._share:
            if self._share is not None:
                self.curl.unsetopt(pycurl.SHARE)
            self.curl.setopt(pycurl.SHARE, share)
            self._share = share

    def _set_option(self, option: int, value: str | int | list[str]) -> None:
        if self._set.get(option) != value:
            self.curl.setopt(option, value)
            self._set[option] = value

    def _set_limits(self, limits: Limits) -> None:
        self.curl.setopt(pycurl.CONNECTTIMEOUT_MS, round(limits.connect_s * 1000))
        self.curl.setopt(pycurl.TIMEOUT_MS, round(limits.exchange_s * 1000))
        self.curl.setopt(pycurl.LOW_SPEED_LIMIT, limits.low_speed_bytes_s)
        self.curl.setopt(pycurl.LOW_SPEED_TIME, ceil(limits.low_speed_s))
        self._limits = limits

    # libcurl's callbacks: run inside socket_action, never raise, never touch the multi handle

    def _open_socket(self, _purpose: int, target: pycurl.CurlSockAddr) -> socket.socket | int:
        request = self._request
        if request is None or self.sent:
            # libcurl would dial again to send the request once more
            self.stop = "resend"
            return _SOCKET_BAD
        if not request.proxy and not self._is_expected(str(target.addr[0])):
            return _SOCKET_BAD
        self.connected = True
        self.dialled = str(target.addr[0])
        self._close_socket()
        try:
            self._socket = socket.socket(target.family, target.socktype, target.protocol)
        except OSError as error:
            self.detail = str(error)
            return _SOCKET_BAD
        return self._socket  # libcurl takes a duplicate

    def _see_descriptor(self, descriptor: int, _purpose: int) -> int:
        self._descriptor = descriptor
        return _SOCKOPT_OK

    def _before_request(self, address: str, local: str, port: int, local_port: int) -> int:
        request = self._request
        self._close_socket()
        if request is None or self.sent:
            self.stop = "resend"
            return _ABORT
        if not request.proxy and not self._is_expected(address):
            return _ABORT
        ends = (local, local_port, address, port)
        if self.connected:
            self._connections.add(self._descriptor, ends)
        elif self._connections.is_closed(ends):
            self.stop = "stale"
            return _ABORT
        self.dialled = address
        self.sent = True
        self._on_sent()
        return _GO

    def _is_expected(self, address: str) -> bool:
        request = self._request
        if request is None:
            return False
        if address == request.address or ip_address(address) == ip_address(request.address):
            return True
        self.detail = f"{address} would have been dialled, not {request.address}"
        self.stop = "address"
        return False

    def _take_header(self, line: bytes) -> int | None:
        if self.first_byte_at is None:
            self.first_byte_at = self._now()
        if not self.head.take(line):
            self.detail = f"more than {self.head.limit_bytes:,} bytes"
            self.stop = "headers"
            return -1
        if self.head.complete and not self.received_bytes and self.decoder is None:
            self._choose_decoder()
        return None

    def _choose_decoder(self) -> None:
        names = codings(self.head.values("content-encoding"))
        request = self._request
        if names and request is not None:
            limits = request.limits
            self.decoder = Decoder(names, limit_bytes=limits.body_bytes, ratio=limits.ratio)

    def _take_body(self, data: bytes) -> int | None:
        request = self._request
        if request is None:
            return -1
        self.received_bytes += len(data)
        if self.is_redirect:
            return self._end_if("redirect", over=self.received_bytes > REDIRECT_BODY_BYTES)
        limit = request.limits.body_bytes
        if self.decoder is None:
            room = limit - self.kept_bytes
            if room > 0:
                self.chunks.append(data if len(data) <= room else data[:room])
            self.kept_bytes += len(data)
            return self._end_if("body", over=self.kept_bytes > limit)
        if out := self.decoder.feed(data):
            self.chunks.append(out)
        over = self.decoder.stopped == "body" or self.received_bytes > limit + CODED_SLACK_BYTES
        return self._end_if("body", over=over)

    def _end_if(self, stop: Stop, *, over: bool) -> int | None:
        if not over:
            return None
        self.stop = stop
        if stop == "body":
            self.truncated = "body"
        return -1

    def _close_socket(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
