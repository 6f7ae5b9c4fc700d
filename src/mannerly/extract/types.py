"""Media types: what a Content-Type header says, what the bytes look like, and how a type is read.

Sniffing follows the WHATWG MIME Sniffing standard (sections 4, 6 and 7) in what a crawler needs: the declared type
holds unless the bytes carry the mark of a binary format. HTML is looked for only where nothing usable is declared, so
text/plain is never taken for a page.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

SNIFFED_BYTES: Final = 1_445
"""Bytes looked at (MIME Sniffing, 5.2)."""

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_PARAMETER: Final = re.compile(r';[ \t\r\n]*([^;=]*)(?:=(?:"((?:[^"\\]|\\.)*)"?[^;]*|([^;]*)))?')
_BINARY: Final = re.compile(rb"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f]")
_HTML: Final = re.compile(
    rb"[\t\n\x0c\r ]*<(?:!doctype html|html|head|script|iframe|h1|div|font|table|a|style|title|b|body|br|p|meta|link)"
    rb"(?=[ >\t\n\x0c\r/])|[\t\n\x0c\r ]*<!--",
    re.IGNORECASE,
)
_XML: Final = re.compile(rb"[\t\n\x0c\r ]*<\?xml")
_XHTML: Final = re.compile(rb"<(?:!doctype html|html[\s>])", re.IGNORECASE)
_BOMS: Final = (b"\xef\xbb\xbf", b"\xfe\xff", b"\xff\xfe")

# (offset, first bytes, type): MIME Sniffing section 6, and RFC 8878 for zstd.
_MAGIC: Final[tuple[tuple[int, bytes, str], ...]] = (
    (0, b"%PDF-", "application/pdf"),
    (0, b"%!PS-Adobe-", "application/postscript"),
    (0, b"\x1f\x8b\x08", "application/gzip"),
    (0, b"PK\x03\x04", "application/zip"),
    (0, b"Rar!\x1a\x07", "application/x-rar-compressed"),
    (0, b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
    (0, b"\x28\xb5\x2f\xfd", "application/zstd"),
    (0, b"BZh", "application/x-bzip2"),
    (0, b"\xfd7zXZ\x00", "application/x-xz"),
    (0, b"\x89PNG\r\n\x1a\n", "image/png"),
    (0, b"\xff\xd8\xff", "image/jpeg"),
    (0, b"GIF87a", "image/gif"),
    (0, b"GIF89a", "image/gif"),
    (8, b"WEBPVP", "image/webp"),
    (0, b"BM", "image/bmp"),
    (0, b"\x00\x00\x01\x00", "image/x-icon"),
    (4, b"ftypavif", "image/avif"),
    (4, b"ftyp", "video/mp4"),
    (0, b"\x1aE\xdf\xa3", "video/webm"),
    (8, b"WAVE", "audio/wave"),
    (8, b"AVI ", "video/avi"),
    (0, b"OggS\x00", "application/ogg"),
    (0, b"ID3", "audio/mpeg"),
    (0, b"wOFF", "font/woff"),
    (0, b"wOF2", "font/woff2"),
    (0, b"\x00asm", "application/wasm"),
    (0, b"\x7fELF", "application/x-executable"),
)

_UNDECLARED: Final = frozenset({"", "*/*", "unknown/unknown", "application/unknown"})
_OPAQUE: Final = "application/octet-stream"


class Reading(StrEnum):
    """How the bytes of a media type are read."""

    HTML = "html"
    TEXT = "text"
    NONE = "none"
    """Not read: the page record has its digest and its types."""


READINGS: Final[dict[str, Reading]] = {
    "text/html": Reading.HTML,
    "application/xhtml+xml": Reading.HTML,
    "text/plain": Reading.TEXT,
}


@dataclass(frozen=True, slots=True)
class MediaType:
    """A parsed Content-Type: `essence` in lower case ('' if it is none), and the label of its charset, or ''."""

    essence: str = ""
    charset: str = ""


def media_type(header: str) -> MediaType:
    """Parse the value of a Content-Type header (MIME Sniffing, 4.4); never raises.

    Of several charset parameters the first counts. Quotes around a charset are taken off, single ones too, which are
    none by the standard but common.
    """
    essence, _, _ = header.partition(";")
    main, slash, sub = essence.strip(" \t\r\n").partition("/")
    if not (slash and _TOKEN.fullmatch(main) and _TOKEN.fullmatch(sub)):
        main = sub = slash = ""
    charset = ""
    for name, quoted, plain in _PARAMETER.findall(header[len(essence) :][:1_000]):
        if name.strip().lower() == "charset" and (value := (quoted or plain).strip(" \t\r\n'\"")):
            charset = value
            break
    return MediaType(f"{main}{slash}{sub}".lower(), charset)


def sniff(body: bytes, declared: str) -> str:
    """Return the media type that a body has, given the essence that was declared ('' for none).

    The declared type, unless it is none, or is one of text and the first bytes bear the mark of another. Never raises.
    """
    head = body[:SNIFFED_BYTES]
    is_textual = declared.startswith("text/") or declared in READINGS or declared.endswith(("xml", "json"))
    found = _by_magic(head, textual=is_textual)
    if found and (is_textual or declared in _UNDECLARED or _same_kind(found, declared)):
        return found
    if declared in _UNDECLARED:
        return _unlabelled(head)
    if declared == "text/plain":
        return _OPAQUE if _binary(head) else declared
    if declared in {"application/xml", "text/xml"} and _XML.match(head) and _XHTML.search(head):
        return "application/xhtml+xml"
    return declared


def reading(sniffed: str) -> Reading:
    """Return how a body of this type is read."""
    return READINGS.get(sniffed, Reading.NONE)


def _by_magic(head: bytes, *, textual: bool) -> str:
    for offset, mark, name in _MAGIC:
        if head.startswith(mark, offset):
            # "BM" and the like may begin a text; then no byte of it is one that text cannot hold
            plain = textual and mark.isascii() and name != "application/pdf"
            return "" if plain and not _BINARY.search(head) else name
    return ""


def _same_kind(found: str, declared: str) -> bool:
    """Tell whether the bytes only say which image, sound or film it is (MIME Sniffing, 6)."""
    kind = found.partition("/")[0]
    return kind in {"image", "audio", "video", "font"} and declared.startswith(f"{kind}/")


def _unlabelled(head: bytes) -> str:
    bare = head.removeprefix(b"\xef\xbb\xbf")
    if _HTML.match(bare):
        return "text/html"
    if _XML.match(bare):
        return "application/xhtml+xml" if _XHTML.search(head) else "text/xml"
    return _OPAQUE if _binary(head) else "text/plain"


def _binary(head: bytes) -> bool:
    return not head.startswith(_BOMS) and _BINARY.search(head) is not None
