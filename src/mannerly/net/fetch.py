"""One exchange with one vetted address: no redirect is followed, nothing is sent twice, everything is bounded.

libcurl's habits that are undone here, each measured: it sends a request again by itself when a kept connection turns
out dead; it takes proxies from the environment, which would dial past the vetted address; it keeps 25 TLS sessions in
all, so that a crawl of many hosts would resume none.
"""

from __future__ import annotations

import asyncio
import errno
import re
from collections import OrderedDict
from typing import TYPE_CHECKING, Self

import certifi
import pycurl

from mannerly.model.printable import printable
from mannerly.net.address import vet
from mannerly.net.exchange import Exchange, FetchFailure, Request
from mannerly.net.handle import Connections, Handle, Target
from mannerly.net.multi import ABORTED, Multi

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["Exchange", "FetchFailure", "Fetcher", "Request", "refusal"]

# A serialised http(s) URL: scheme, host, port, path with query. Printable ASCII throughout, no user info.
_URL = re.compile(
    r"(https?)://(\[[0-9A-Fa-f:.]+\]|[^\s/?#@:\\\[\]]+)(?::(\d{1,5}))?((?:[/?][!-\"$-~]*)?)(?:#[!-~]*)?",
    re.ASCII,
)
_DEFAULT_PORTS = {"http": 80, "https": 443}
_TOO_LARGE = 100  # CURLE_TOO_LARGE, which pycurl gives no name: libcurl's own bounds on one header line and their number
_PROXY = 97  # CURLE_PROXY

# From openssl/x509_vfy.h. OpenSSL has no complaint (0) or none that it tells (1, measured with libcurl 8.23) when it is
# libcurl that does not find the name in a good certificate.
_X509_NAME = (0, 1, 62, 64)  # OK, UNSPECIFIED, HOSTNAME_MISMATCH, IP_ADDRESS_MISMATCH
_X509_EXPIRED = (9, 10)  # X509_V_ERR_CERT_NOT_YET_VALID, X509_V_ERR_CERT_HAS_EXPIRED

_BEFORE_THE_REQUEST = {
    pycurl.E_URL_MALFORMAT: FetchFailure.INVALID_HOST,
    pycurl.E_UNSUPPORTED_PROTOCOL: FetchFailure.INVALID_URL,
    pycurl.E_COULDNT_RESOLVE_HOST: FetchFailure.INVALID_HOST,
    pycurl.E_LOGIN_DENIED: FetchFailure.INVALID_URL,
    pycurl.E_COULDNT_RESOLVE_PROXY: FetchFailure.PROXY_FAILED,
    _PROXY: FetchFailure.PROXY_FAILED,
    pycurl.E_OPERATION_TIMEDOUT: FetchFailure.CONNECT_TIMEOUT,
    pycurl.E_SSL_CONNECT_ERROR: FetchFailure.TLS_FAILED,
    pycurl.E_SSL_CERTPROBLEM: FetchFailure.TLS_FAILED,
    pycurl.E_SSL_CIPHER: FetchFailure.TLS_FAILED,
}
_AFTER_THE_REQUEST = {
    pycurl.E_OPERATION_TIMEDOUT: FetchFailure.TIMEOUT,
    ABORTED: FetchFailure.TIMEOUT,
    _TOO_LARGE: FetchFailure.HEADERS_TOO_LARGE,
    pycurl.E_GOT_NOTHING: FetchFailure.RESET,
    pycurl.E_SEND_ERROR: FetchFailure.RESET,
    pycurl.E_RECV_ERROR: FetchFailure.RESET,
}
_CONNECT_ERRNO = {
    errno.ECONNREFUSED: FetchFailure.REFUSED,
    errno.ECONNRESET: FetchFailure.REFUSED,
    errno.ETIMEDOUT: FetchFailure.CONNECT_TIMEOUT,
}


class Fetcher:
    """Runs fetches on the running loop, any number at once; one in a process.

        async with Fetcher() as fetcher:
            exchange = await fetcher.fetch(request)

    `idle_connections` are kept open between requests; `tls_hosts` is how many hosts' TLS sessions are kept, the
    least recently fetched goes first. `ca_file` is a PEM bundle (default: certifi's).
    """

    def __init__(
        self, *, idle_connections: int = 256, tls_hosts: int = 512, ca_file: str | None = None
    ) -> None:
        self._idle_connections = idle_connections
        self._tls_hosts = tls_hosts
        self._ca_file = ca_file or certifi.where()
        self._shares: OrderedDict[str, pycurl.CurlShare] = OrderedDict()
        self._connections = Connections()
        self._idle: list[Handle] = []
        self._multi: Multi | None = None

    async def __aenter__(self) -> Self:
        """Start; the loop must run."""
        self._multi = Multi(idle_connections=self._idle_connections)
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End every exchange and close every connection."""
        self.close()

    def close(self) -> None:
        """End every exchange (its `fetch` is cancelled) and close every connection."""
        if self._multi is not None:
            self._multi.close()
            self._multi = None
        for handle in self._idle:
            handle.close()
        self._idle.clear()
        self._shares.clear()

    async def fetch(self, request: Request) -> Exchange:
        """Send `request` at most once and return what came of it. Raises nothing that a server could cause.

        Cancelling closes the connection. Raises RuntimeError outside `async with`.
        """
        multi = self._multi
        if multi is None:
            raise RuntimeError("a Fetcher is used inside `async with`")
        judged = _judge(request)
        if not isinstance(judged, Target):
            return Exchange(failure=judged[0], detail=judged[1])
        handle = self._idle.pop() if self._idle else self._new_handle()
        try:
            return await self._exchange(multi, handle, request, judged)
        finally:
            handle.rest()
            if self._multi is None:
                handle.close()
            else:
                self._idle.append(handle)

    async def _exchange(self, multi: Multi, handle: Handle, request: Request, target: Target) -> Exchange:
        share = self._share(target.origin) if target.scheme == "https" else None
        watch = _FirstByteWatch(multi, handle, request.limits.first_byte_s)
        for fresh in (request.fresh, True):
            try:
                handle.begin(request, target, share=share, fresh=fresh, on_sent=watch.start)
            except pycurl.error as error:
                return Exchange(failure=FetchFailure.INVALID_HOST, detail=printable(str(error)))
            try:
                code, message = await multi.perform(handle.curl)
            finally:
                watch.stop()
            if handle.stop != "stale":
                return _outcome(handle, request, code, message)
            # nothing was sent on the dead connection, so this is still the first request
        raise AssertionError("a fresh connection is never stale")

    def _new_handle(self) -> Handle:
        return Handle(self._ca_file, self._connections, asyncio.get_running_loop().time)

    def _share(self, key: str) -> pycurl.CurlShare:
        share = self._shares.pop(key, None)
        if share is None:
            share = pycurl.CurlShare()
            share.setopt(pycurl.SH_SHARE, pycurl.LOCK_DATA_SSL_SESSION)
        self._shares[key] = share
        if len(self._shares) > self._tls_hosts:
            self._shares.popitem(last=False)  # a handle that still uses it keeps it alive
        return share


class _FirstByteWatch:
    """Ends a transfer whose answer does not begin in time; libcurl has no limit of this kind for HTTP."""

    def __init__(self, multi: Multi, handle: Handle, limit_s: float) -> None:
        self._multi = multi
        self._handle = handle
        self._limit_s = limit_s
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._limit_s, self._end)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _end(self) -> None:
        if self._handle.first_byte_at is None:
            self._multi.abort(self._handle.curl, f"no byte within {self._limit_s:g} s")


def refusal(request: Request) -> tuple[FetchFailure, str] | None:
    """Return why nothing is dialled for `request`, judged before any packet; None if nothing speaks against it."""
    judged = _judge(request)
    return None if isinstance(judged, Target) else judged


def _judge(request: Request) -> Target | tuple[FetchFailure, str]:
    match = _URL.fullmatch(request.url)
    if match is None:
        return FetchFailure.INVALID_URL, f"no http or https URL without credentials: {request.url[:200]!r}"
    scheme, host, digits, path = match.groups()
    port = _DEFAULT_PORTS[scheme] if digits is None else int(digits)
    if not 0 < port < 65536 or (request.ports is not None and port not in request.ports):
        return FetchFailure.PORT_REFUSED, f"port {port}"
    if (why := vet(request.address, private_ok=request.private_ok)) is not None:
        return FetchFailure.ADDRESS_REFUSED, why
    origin = f"{scheme}://{host}/" if digits is None else f"{scheme}://{host}:{port}/"
    return Target(origin, path if path.startswith("/") else f"/{path}", scheme, host, port)


def _outcome(handle: Handle, request: Request, code: int, message: str) -> Exchange:
    head = handle.head
    failure = _failure(handle, request, code)
    body = b"" if handle.is_redirect else handle.body()
    truncated = handle.truncated
    if failure is None and code and handle.stop is None and not handle.is_redirect:
        truncated = truncated or "length"
    first = handle.first_byte_at
    return Exchange(
        failure=failure,
        detail="" if failure is None else printable(handle.detail or message or failure.value),
        status=head.status if head.complete else 0,
        http_version=head.version,
        headers=tuple(head.fields) if head.complete else (),
        body=body,
        truncated=None if handle.is_redirect else truncated,
        bytes_received=handle.received_bytes,
        elapsed_s=handle.elapsed_s(),
        first_byte_s=None if first is None else first - handle.started_at,
        address=handle.dialled,
        reused=handle.reused,
        sent=handle.sent,
    )


def _failure(handle: Handle, request: Request, code: int) -> FetchFailure | None:
    match handle.stop:
        case "headers":
            return FetchFailure.HEADERS_TOO_LARGE
        case "address":
            return FetchFailure.ADDRESS_CHANGED
        case "resend" if not handle.head.seen_bytes:
            return FetchFailure.CONNECTION_CLOSED
        case _:
            pass
    if handle.head.complete:
        late = code in (pycurl.E_OPERATION_TIMEDOUT, ABORTED) and not handle.is_redirect
        return FetchFailure.TIMEOUT if late else None
    return _failure_after(handle, code) if handle.sent else _failure_before(handle, request, code)


def _failure_after(handle: Handle, code: int) -> FetchFailure:
    """Name the failure of a request that went out and got no whole head."""
    failure = _AFTER_THE_REQUEST.get(code, FetchFailure.PROTOCOL_ERROR)
    if failure is not FetchFailure.RESET and code != 0:
        return failure
    if handle.head.seen_bytes:
        return FetchFailure.TRUNCATED_HEAD
    return FetchFailure.CONNECTION_CLOSED if handle.reused else FetchFailure.RESET


def _failure_before(handle: Handle, request: Request, code: int) -> FetchFailure:
    """Name the failure of an exchange whose request did not go out."""
    if code == pycurl.E_PEER_FAILED_VERIFICATION:
        return _certificate_failure(handle.curl)
    if request.proxy and code in (pycurl.E_COULDNT_CONNECT, pycurl.E_RECV_ERROR, pycurl.E_SEND_ERROR):
        return FetchFailure.PROXY_FAILED
    if code == pycurl.E_COULDNT_CONNECT:
        return _CONNECT_ERRNO.get(handle.curl.getinfo(pycurl.OS_ERRNO), FetchFailure.UNREACHABLE)
    return _BEFORE_THE_REQUEST.get(code, FetchFailure.UNREACHABLE)


def _certificate_failure(curl: pycurl.Curl) -> FetchFailure:
    verdict = curl.getinfo(pycurl.SSL_VERIFYRESULT)
    if verdict in _X509_NAME:
        return FetchFailure.TLS_NAME
    return FetchFailure.TLS_EXPIRED if verdict in _X509_EXPIRED else FetchFailure.TLS_UNTRUSTED
