"""What a fetch is asked for and what it comes to: `Request` in, `Exchange` out. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from mannerly.model.task import Limits

Truncated = Literal["body", "length", "coding"]
"""Why the body is not whole: cut at our limit; shorter than the server said; not coded as the server said."""

ACCEPT = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
ACCEPT_LANGUAGE = "en,*;q=0.5"
ACCEPT_ENCODING = "gzip, deflate, br, zstd"

DEFAULT_LIMITS = Limits()

_OWN_FIELDS = frozenset(
    {"host", "user-agent", "from", "connection", "content-length", "transfer-encoding", "te"}
)


class FetchFailure(StrEnum):
    """Why a fetch came to no response. A closed list; the comment says what it tells about the server."""

    # nothing was dialled
    INVALID_URL = "invalid-url"  # no http or https URL, or with credentials
    INVALID_HOST = "invalid-host"  # a host that libcurl refuses
    PORT_REFUSED = "port-refused"
    ADDRESS_REFUSED = "address-refused"  # the address is not one that may be dialled
    # no request went out
    ADDRESS_CHANGED = "address-changed"  # the socket would not lead to the vetted address
    CONNECT_TIMEOUT = "connect-timeout"  # TCP and TLS together
    REFUSED = "refused"  # the connection was refused
    UNREACHABLE = "unreachable"  # no route, or the network is down
    PROXY_FAILED = "proxy-failed"  # our own proxy; says nothing about the server
    TLS_NAME = "tls-name"  # the certificate is for other names
    TLS_EXPIRED = "tls-expired"  # or not yet valid
    TLS_UNTRUSTED = "tls-untrusted"  # self-signed, or from an authority that we do not know
    TLS_FAILED = "tls-failed"  # no handshake
    # a request may have gone out; `Exchange.sent` says
    TIMEOUT = "timeout"  # first byte, whole exchange, or too slow
    RESET = "reset"  # closed or reset before any byte of an answer
    CONNECTION_CLOSED = "connection-closed"  # a kept connection was dead: no overload, try once more
    TRUNCATED_HEAD = "truncated-head"  # closed in the middle of the headers
    HEADERS_TOO_LARGE = "headers-too-large"
    PROTOCOL_ERROR = "protocol-error"  # the answer is not HTTP


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One GET. `url` is the URL as found, WHATWG-serialised; `address` the vetted address, an IP literal.

    `headers` are further fields, decided by the caller. Raises ValueError on fields that are ours to set and on
    control characters: both are the caller's fault, never a site's.
    """

    url: str
    address: str
    user_agent: str
    from_: str = ""
    accept: str = ACCEPT
    accept_language: str = ACCEPT_LANGUAGE
    accept_encoding: str = ACCEPT_ENCODING
    headers: tuple[tuple[str, str], ...] = ()
    if_none_match: str = ""
    if_modified_since: str = ""
    proxy: str | None = None
    """The user's proxy; it is asked for a tunnel to `address`, for http too."""
    fresh: bool = False
    """No kept connection: for the next try after one that was dead."""
    private_ok: bool = False
    ports: frozenset[int] | None = None
    """Ports that may be dialled; None leaves the rule to the caller."""
    limits: Limits = DEFAULT_LIMITS

    def __post_init__(self) -> None:
        """Refuse what would break the head of the request."""
        for name, _ in self.headers:
            if name.lower() in _OWN_FIELDS or not name:
                raise ValueError(f"the field {name!r} is not set by a header option")
        text = "".join((self.user_agent, *self.field_lines()))
        if not text.isascii() or not text.isprintable():
            raise ValueError(f"not printable ASCII in a request header: {text!r}")

    def field_lines(self) -> list[str]:
        """Return the header lines besides Host and User-Agent, in the order they are sent."""
        named = {name.lower() for name, _ in self.headers}
        fields = (
            ("Accept", self.accept),
            ("Accept-Language", self.accept_language),
            ("Accept-Encoding", self.accept_encoding),
            ("From", self.from_),
            ("If-None-Match", self.if_none_match),
            ("If-Modified-Since", self.if_modified_since),
        )
        own = [f"{name}: {value}" for name, value in fields if value and name.lower() not in named]
        return own + [f"{name}: {value}" for name, value in self.headers]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """What came of one request. `failure` is None if a whole head arrived and the body as far as `truncated` says.

    A failed exchange keeps what had arrived: a timeout in the middle of a body has a status and a part of the body.
    """

    failure: FetchFailure | None = None
    detail: str = ""
    """What happened in words, for the log, as `printable` gives them: libcurl quotes the server. Empty on success."""
    status: int = 0
    http_version: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    """Of the final response, in order; names in lower case."""
    body: bytes = b""
    """Decoded; empty for redirects, whose body does not matter."""
    truncated: Truncated | None = None
    bytes_received: int = 0
    """Body bytes as transferred."""
    elapsed_s: float = 0.0
    first_byte_s: float | None = None
    """From the start of the exchange to the first byte of the answer."""
    address: str = ""
    """The address that the socket was connected to; a proxy's if there is one; empty if none was."""
    reused: bool = False
    """The request went out on a kept connection."""
    sent: bool = False
    """The request may have reached the server, so the server may count it."""

    def header(self, name: str) -> str | None:
        """Return the value of the first field of this name (in lower case)."""
        return next((value for field, value in self.headers if field == name), None)
