"""A page record: what sinks write of a page, and what `mannerly fetch` prints.

Its fields, their order and what null means are public: `docs/reference/page-record.md` and the JSON Schema beside it.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from mannerly.model.blob import FieldValue, PagePart, unseal
from mannerly.model.errors import WireError
from mannerly.model.frame import PageFrame
from mannerly.model.task import Identity

BLOB_UNREADABLE: Final = "blob-unreadable"


class PageRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One page. What is not known is null; `items`, `text`, `links`, `authorization` are left out unless asked for.

    fetched_at: RFC 3339, UTC, milliseconds. fingerprint: 16 hex digits, since a reader whose numbers are doubles
    would round a 64-bit number. bytes: the decoded body's size. elapsed_ms: the whole exchange, milliseconds.
    """

    url: str
    key: str
    status: int
    fetched_at: str
    depth: int
    via: str | None
    redirected_from: tuple[str, ...]
    content_type: str | None
    sniffed_type: str | None
    charset: str | None
    title: str | None
    description: str | None
    language: str | None
    canonical: str | None
    robots: dict[str, Any]
    fields: dict[str, FieldValue]
    items: list[dict[str, FieldValue]] | UnsetType = UNSET
    text: str | UnsetType = UNSET
    links: list[str] | UnsetType = UNSET
    bytes: int
    elapsed_ms: int
    body_digest: str | None
    text_digest: str | None
    fingerprint: str | None
    duplicate_of: str | None
    truncated: str | None
    identity: str
    crawl: str
    authorization: str | UnsetType = UNSET


def record_of(frame: PageFrame) -> PageRecord:
    """Return the record of a journal frame.

    A page whose blob does not open still gets its record: what the coordinator knows of it, `truncated` saying
    `blob-unreadable`. One broken worker must cost neither the page nor the pages behind it.
    """
    part, flaw = _opened(frame.blob)
    return PageRecord(
        url=frame.url,
        key=frame.key,
        status=frame.status,
        fetched_at=rfc3339(frame.fetched_at),
        depth=frame.depth,
        via=frame.via or None,
        redirected_from=frame.redirected_from,
        content_type=part.content_type or None,
        sniffed_type=part.sniffed_type or None,
        charset=part.charset or None,
        title=part.title or None,
        description=part.description or None,
        language=part.language or None,
        canonical=part.canonical or None,
        robots={"index": frame.index, "follow": True} | part.robots,
        fields=part.fields,
        items=UNSET if part.items is None else part.items,
        text=part.text if part.wants_text else UNSET,
        links=UNSET if part.links is None else part.links,
        bytes=frame.bytes,
        elapsed_ms=frame.elapsed_ms,
        body_digest=frame.body_digest or None,
        text_digest=frame.text_digest or None,
        fingerprint=None if frame.fingerprint is None else f"{frame.fingerprint:016x}",
        duplicate_of=frame.duplicate_of or None,
        truncated=frame.truncated or flaw or None,
        identity=frame.identity,
        crawl=frame.crawl,
        authorization=frame.authorization if frame.identity == Identity.AUTHORIZED else UNSET,
    )


def rfc3339(instant_at: float) -> str:
    """Return UTC seconds as `2026-01-31T23:59:59.125Z`; milliseconds are cut, not rounded up into the future."""
    whole_s, rest = divmod(round(instant_at * 1_000_000), 1_000_000)
    return f"{_second(whole_s)}.{rest // 1_000:03}Z"


@lru_cache(maxsize=64)  # pages come many a second
def _second(whole_s: int) -> str:
    return datetime.fromtimestamp(whole_s, UTC).replace(tzinfo=None).isoformat()


_encoder = msgspec.json.Encoder()

# DEL and C1 (a terminal obeys some of them), line ends of Unicode (str.splitlines would tear the record), and the
# bidi controls: U+061C, U+200E-F, U+202A-E, U+2066-9. JSON has \uXXXX for each, so the value stays what it was.
_SPECIAL: Final = re.compile(
    rb"\x7f|\xc2[\x80-\x9f]|\xd8\x9c|\xe2(?:\x80[\x8e\x8f\xa8-\xae]|\x81[\xa6-\xa9])"
)
# The pattern above takes 10 us a KB; these say no at once, and curly quotes (U+2018-D) are everywhere.
_GENERAL_PUNCTUATION: Final = re.compile(rb"\xe2\x80[\x8e\x8f\xa8-\xae]")


def record_json(record: PageRecord) -> bytes:
    """Return the record as JSON on one line, without the line end; safe to print on a terminal."""
    line = _encoder.encode(record)
    if (
        b"\x7f" in line
        or b"\xc2" in line
        or b"\xd8\x9c" in line
        or b"\xe2\x81" in line
        or _GENERAL_PUNCTUATION.search(line)
    ):
        return _SPECIAL.sub(_escaped, line)
    return line


def _escaped(match: re.Match[bytes]) -> bytes:
    return b"\\u%04x" % ord(match[0].decode())


def _opened(blob: bytes) -> tuple[PagePart, str]:
    if not blob:
        return PagePart(), ""
    try:
        return unseal(blob), ""
    except WireError:
        return PagePart(), BLOB_UNREADABLE
