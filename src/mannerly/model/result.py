"""Result: a worker's report on one task. The web's failures are values here, never exceptions.

Results are hostile input to a coordinator: every field is bounded, and the codec refuses a message that breaks one.
Over a worker's own bounds links and text are cut and flagged, never dropped.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from mannerly.model.origin import Ruleset
from mannerly.model.task import Name, Short, UrlText, Validators

MAX_LINKS: Final = 100_000
MAX_LINK_BYTES: Final = 4 << 20
MAX_TEXT_BYTES: Final = 8 << 20
MAX_BLOB_BYTES: Final = 12 << 20
MAX_RESULT_BYTES: Final = 15 << 20
MAX_ADDRESSES: Final = 64

Digest = Annotated[str, Meta(max_length=64)]
# bounded on both sides, which refuses NaN and the infinities too: delays are computed from these
Elapsed = Annotated[float, Meta(ge=0, le=86_400)]
Age = Annotated[float, Meta(ge=0, le=1e10)]


class Failure(StrEnum):
    """Why an exchange or a resolution gave no answer."""

    TIMEOUT = "timeout"
    REFUSED = "connection-refused"
    UNREACHABLE = "unreachable"
    RESET = "reset"
    CONNECTION_CLOSED = "connection-closed"
    TRUNCATED_HEAD = "truncated-head"
    PROTOCOL = "protocol-error"
    HEADERS_TOO_LARGE = "headers-too-large"
    TLS = "tls-failed"
    INVALID_HOST = "invalid-host"
    ADDRESS_REFUSED = "address-refused"
    PROXY = "proxy-failed"
    TOO_COSTLY = "too-costly"
    KILLS_WORKER = "kills-worker"
    NAME_NOT_FOUND = "name-not-found"
    DNS_FAILED = "dns-failed"
    DNS_TIMEOUT = "dns-timeout"


class Timing(msgspec.Struct, frozen=True, array_like=True):
    """Seconds, on the worker's monotonic clock."""

    elapsed_s: Elapsed = 0.0
    first_byte_s: Elapsed = 0.0


class LinkGroup(msgspec.Struct, frozen=True, array_like=True):
    """A page's links to one host: (key, URL as found, or '' where it equals the key) in document order."""

    host: Name
    links: Annotated[tuple[tuple[UrlText, UrlText], ...], Meta(max_length=MAX_LINKS)]
    nofollow: bool = False


class Page(msgspec.Struct, frozen=True, array_like=True):
    """The facts of an answer that a coordinator decides by; all else is in the blob."""

    status: Annotated[int, Meta(ge=100, le=999)]
    bytes: Annotated[int, Meta(ge=0)] = 0
    body_digest: Digest = ""
    text_digest: Digest = ""
    fingerprint: Annotated[int, Meta(ge=0)] | None = None
    index: bool = True
    follow: bool = True
    canonical: UrlText = ""
    content_type: Name = ""
    truncated: Name = ""
    validators: Validators = Validators()


class Fetched(msgspec.Struct, frozen=True, array_like=True, tag="fetched"):
    """An answer other than a redirect or 304. For robots.txt `ruleset` is what a 2xx body said.

    Holds at most MAX_LINKS links, those of all groups together: ValueError.
    """

    page: Page
    links: Annotated[tuple[LinkGroup, ...], Meta(max_length=MAX_LINKS)] = ()
    links_cut: bool = False
    blob: Annotated[bytes, Meta(max_length=MAX_BLOB_BYTES)] = b""
    ruleset: Ruleset | None = None
    max_age_s: Age | None = None
    retry_after: Name = ""

    def __post_init__(self) -> None:
        if sum(len(group.links) for group in self.links) > MAX_LINKS:
            raise ValueError(f"more than {MAX_LINKS} links")


class NotModified(msgspec.Struct, frozen=True, array_like=True, tag="not-modified"):
    """304: the copy at hand is current."""

    max_age_s: Age | None = None


class Redirected(msgspec.Struct, frozen=True, array_like=True, tag="redirected"):
    """A 3xx with a Location. `location` is absolute, '' if there was none that is an http(s) URL; `raw` as sent."""

    status: Annotated[int, Meta(ge=300, le=399)]
    location: UrlText = ""
    raw: Short = ""
    retry_after: Name = ""


class Resolved(msgspec.Struct, frozen=True, array_like=True, tag="resolved"):
    """The addresses of a name that may be dialled, and those that may not, each with the reason."""

    addresses: Annotated[tuple[Name, ...], Meta(max_length=MAX_ADDRESSES)] = ()
    refused: Annotated[tuple[tuple[Name, Name], ...], Meta(max_length=MAX_ADDRESSES)] = ()
    ttl_s: Age = 60.0


class Failed(msgspec.Struct, frozen=True, array_like=True, tag="failed"):
    """No answer. `sent` tells whether the request went out (then the server may be overloaded)."""

    failure: Failure
    detail: Short = ""
    sent: bool = False


class Refused(msgspec.Struct, frozen=True, array_like=True, tag="refused"):
    """The worker would not perform the task: what it dislikes, in words. Nothing was sent."""

    detail: Short = ""


class Unknown(msgspec.Struct, frozen=True, array_like=True, tag="unknown"):
    """Nobody knows whether the request was sent, or what came of it. `died`: the worker died while it held the task."""

    detail: Short = ""
    died: bool = False


class Expired(msgspec.Struct, frozen=True, array_like=True, tag="expired"):
    """The task came too late; nothing was sent."""


class AddressChanged(msgspec.Struct, frozen=True, array_like=True, tag="address-changed"):
    """The permit's address may not be dialled or is not the one asked for; nothing was sent."""

    detail: Short = ""


Outcome = (
    Fetched | NotModified | Redirected | Resolved | Failed | Refused | Unknown | Expired | AddressChanged
)


class Result(msgspec.Struct, frozen=True, array_like=True):
    """The report on one task."""

    task_id: Annotated[int, Meta(ge=0)]
    outcome: Outcome
    timing: Timing = Timing()
    worker: Name = ""
    epoch: int = 0
