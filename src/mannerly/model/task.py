"""Task: the order to perform one HTTP request, or to resolve one name, once (invariant I1).

A task is whole: it carries all that a worker needs and nothing of the crawl. It crosses the wire, so every field is
bounded; a message that breaks a bound is refused by the codec. The states of an admitted URL stand here as a table.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import Annotated, Final

import msgspec
from msgspec import Meta

Name = Annotated[str, Meta(max_length=255)]
UrlText = Annotated[str, Meta(max_length=8_192)]
Short = Annotated[str, Meta(max_length=4_096)]

MAX_EXCHANGE_S: Final = 3_600
MAX_CONNECT_S: Final = 600
MAX_BODY_BYTES: Final = 1 << 30
MAX_HEADERS_BYTES: Final = 16 << 20
MAX_RATIO: Final = 1 << 20
MAX_HEADERS: Final = 32
MAX_SELECTORS: Final = 256


class Identity(StrEnum):
    """Which of the two honest user agents a task is sent under (invariant I10). Workers know the strings."""

    MANNERLY = "mannerly"
    AUTHORIZED = "mannerly-authorized"


class TaskKind(StrEnum):
    """What a worker does for a task."""

    PAGE = "page"
    ROBOTS = "robots"
    RESOLVE = "resolve"


class Limits(msgspec.Struct, frozen=True, array_like=True):
    """Bounds of one exchange; seconds and bytes, body sizes after decoding."""

    connect_s: Annotated[float, Meta(gt=0, le=MAX_CONNECT_S)] = 10.0
    first_byte_s: Annotated[float, Meta(gt=0, le=MAX_EXCHANGE_S)] = 20.0
    exchange_s: Annotated[float, Meta(gt=0, le=MAX_EXCHANGE_S)] = 60.0
    low_speed_bytes_s: Annotated[int, Meta(ge=0, le=1 << 30)] = 100
    low_speed_s: Annotated[float, Meta(gt=0, le=MAX_EXCHANGE_S)] = 20.0
    headers_bytes: Annotated[int, Meta(gt=0, le=MAX_HEADERS_BYTES)] = 256 << 10
    body_bytes: Annotated[int, Meta(gt=0, le=MAX_BODY_BYTES)] = 10 << 20
    ratio: Annotated[int, Meta(gt=0, le=MAX_RATIO)] = 100


class Wanted(msgspec.Struct, frozen=True, array_like=True):
    """What to take from a page. `fields` are (name, selector) pairs, a name that ends in [] takes all matches.

    body: the decoded markup too, for `mannerly shell` alone.
    """

    fields: Annotated[tuple[tuple[Name, Short], ...], Meta(max_length=MAX_SELECTORS)] = ()
    each: Short = ""
    text: bool = False
    links: bool = False
    strip_parameters: Annotated[tuple[Name, ...], Meta(max_length=MAX_SELECTORS)] = ()
    body: bool = False


class Validators(msgspec.Struct, frozen=True, array_like=True):
    """ETag and Last-Modified of the copy at hand, for a conditional request (RFC 9110, section 8.8)."""

    etag: Short = ""
    last_modified: Short = ""


class Task(msgspec.Struct, frozen=True, array_like=True):
    """One request (or one resolution) to perform once.

    `url` is the URL as found, for `RESOLVE` the name. `address` is the permit's: the worker vets it and dials nothing
    else. `send_within_s` counts on the worker's monotonic clock from receipt; past it the answer is `Expired`.
    `id` is unique within the crawl; `epoch` fences an old owner of the host's slot. `fresh` asks for a new connection,
    or for a new question to the name server: the last attempt met what had been kept. `alone` asks for a worker that
    performs nothing else meanwhile, since one has died with the task; no second such task is sent before it is back.
    """

    id: Annotated[int, Meta(ge=0)]
    kind: TaskKind
    url: UrlText
    host: Name
    address: Name = ""
    identity: Identity = Identity.MANNERLY
    limits: Limits = Limits()
    wanted: Wanted = Wanted()
    headers: Annotated[tuple[tuple[Name, Short], ...], Meta(max_length=MAX_HEADERS)] = ()
    validators: Validators = Validators()
    proxy: Short = ""
    attempt: Annotated[int, Meta(ge=1, le=1_000)] = 1
    send_within_s: Annotated[float, Meta(gt=0, le=86_400)] = 30.0
    epoch: int = 0
    fresh: bool = False
    alone: bool = False


class UrlState(IntEnum):
    """State of an admitted URL, as stored. In flight is a state of memory alone: after a crash it is WAITING again."""

    WAITING = 0
    DELAYED = 1
    FETCHED = 2
    REDIRECTED = 3
    REFUSED = 4
    FAILED = 5

    @property
    def settled(self) -> bool:
        """True once nothing more is done for the URL in this run."""
        return self >= UrlState.FETCHED


# What may follow what: settling walks this table, the picture in the docs is made from it.
TRANSITIONS: Final[dict[UrlState, frozenset[UrlState]]] = {
    UrlState.WAITING: frozenset(UrlState),
    UrlState.DELAYED: frozenset(UrlState),
    UrlState.FETCHED: frozenset(),
    UrlState.REDIRECTED: frozenset(),
    UrlState.REFUSED: frozenset(),
    UrlState.FAILED: frozenset(),
}
