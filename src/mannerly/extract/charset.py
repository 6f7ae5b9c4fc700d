"""The character encoding of a body: byte order mark, header, declaration in the text, and what the bytes look like.

The order is that of the HTML standard (13.2.3.2): a BOM beats everything, the header beats the text. The declaration is
looked for in the first 1,024 bytes by the standard's prescan; a later `meta`, which a browser meets while it parses and
then begins anew with, is looked for by the same rules, skipping what is raw text.
"""

from __future__ import annotations

import re
from typing import Final

from mannerly.extract.encodings import decode_as, guess, lookup
from mannerly.extract.types import MediaType, media_type

PRESCAN_BYTES: Final = 1_024
LATE_BYTES: Final = 256 << 10
"""How far a late declaration is looked for; only where there is a `meta` past the prescan at all."""

_BOMS: Final = ((b"\xef\xbb\xbf", "utf-8"), (b"\xfe\xff", "utf-16be"), (b"\xff\xfe", "utf-16le"))
_UTF16_DECLARED: Final = ((b"<\x00?\x00x\x00", "utf-16le"), (b"\x00<\x00?\x00x", "utf-16be"))
# markup begins in ASCII: four such characters with a null byte each are nothing else
_UTF16_BY_LOOK: Final = (
    (re.compile(rb"(?:[\t\n\r -~]\x00){4}"), "utf-16le"),
    (re.compile(rb"(?:\x00[\t\n\r -~]){4}"), "utf-16be"),
)
_XML_DECLARATION: Final = re.compile(
    rb"<\?xml[^>]*?[\s\"']encoding[\x00-\x20]*=[\x00-\x20]*([\"'])([^\"'>]*)\1"
)
_XML_TYPES: Final = frozenset({"application/xhtml+xml", "application/xml", "text/xml"})
_HTML_TYPES: Final = frozenset({"", "text/html"})

_MARKUP: Final = re.compile(
    rb"<(?:(!--)|(meta)(?=[\x09\x0a\x0c\x0d\x20/])|(script|style|title|textarea|xmp|iframe|noembed|noframes)"
    rb"(?=[\x09\x0a\x0c\x0d\x20/>])|/?[a-z]|([!/?]))",
    re.IGNORECASE,
)
_META: Final = re.compile(rb"<meta[\x09\x0a\x0c\x0d\x20/]", re.IGNORECASE)
_ATTRIBUTE: Final = re.compile(
    rb"[\x09\x0a\x0c\x0d\x20/]*([^\x09\x0a\x0c\x0d\x20/>][^\x09\x0a\x0c\x0d\x20/>=]*)"
    rb"(?:[\x09\x0a\x0c\x0d\x20]*=[\x09\x0a\x0c\x0d\x20]*"
    rb"(?:\"([^\"]*)(\"|\Z)|'([^']*)('|\Z)|([^\x09\x0a\x0c\x0d\x20>\"'][^\x09\x0a\x0c\x0d\x20>]*)|()(?=[>])))?"
)
_CONTENT_CHARSET: Final = re.compile(
    r"charset[\t\n\x0c\r ]*=[\t\n\x0c\r ]*(?:\"([^\"]*)\"|'([^']*)'|([^\t\n\x0c\r ;\"'][^\t\n\x0c\r ;]*))",
    re.IGNORECASE,
)
_NOT_ASCII: Final = re.compile(rb"[\x80-\xff]")


def decode(body: bytes, content_type: str) -> tuple[str, str]:
    """Return the text of a body and the name of its encoding, given the Content-Type header ('' for none).

    The BOM is no part of the text; what is malformed becomes U+FFFD. Never raises.
    """
    for mark, name in _BOMS:
        if body.startswith(mark):
            return decode_as(body[len(mark) :], name), name
    declared = media_type(content_type)
    name = lookup(declared.charset) or _declared_inside(body, declared) or _by_look(body)
    return decode_as(body, name), name


def prescan(head: bytes, *, skip_raw_text: bool = False) -> str | None:
    """Return the encoding that a `meta` declares in `head`, None if none does (HTML standard, 13.2.3.2).

    UTF-16 so declared means UTF-8 (the `meta` could not have been read), x-user-defined means windows-1252.
    `skip_raw_text` passes over what scripts and the like hold; the standard's prescan looks into it.
    """
    at = 0
    while (found := _MARKUP.search(head, at)) is not None:
        comment, meta, raw, other = found.groups()
        if comment:
            end = head.find(b"-->", found.start() + 2)
            at = end + 3 if end >= 0 else len(head)
            continue
        if other:
            end = head.find(b">", found.end())
            at = end + 1 if end >= 0 else len(head)
            continue
        tag = _attributes(head, found.end() if meta else _name_end(head, found.end()))
        if tag is None:
            return None
        attributes, at = tag
        if meta and (name := _meta_charset(attributes)):
            return name
        if raw and skip_raw_text:
            at = _raw_end(head, at, raw)
    return None


def _declared_inside(body: bytes, declared: MediaType) -> str | None:
    is_xml = declared.essence in _XML_TYPES
    if not is_xml and declared.essence not in _HTML_TYPES:
        return None
    head = body[:PRESCAN_BYTES]
    for mark, name in _UTF16_DECLARED:
        if head.startswith(mark):
            return name
    if is_xml:
        return _xml_encoding(head)
    return prescan(head) or _xml_encoding(head) or _late_meta(body)


def _xml_encoding(head: bytes) -> str | None:
    found = _XML_DECLARATION.match(head)
    return _readable(found[2].decode("latin-1")) if found else None


def _late_meta(body: bytes) -> str | None:
    if len(body) <= PRESCAN_BYTES or not _META.search(body, PRESCAN_BYTES - 6, LATE_BYTES):
        return None
    return prescan(body[:LATE_BYTES], skip_raw_text=True)


def _by_look(body: bytes) -> str:
    """Return utf-8 if the bytes are (a character cut at the end is no objection), else a guess.

    UTF-16 without a byte order mark is ASCII with null bytes, so it is looked for first.
    """
    for begins, name in _UTF16_BY_LOOK:
        if begins.match(body):
            return name
    try:
        text_is_ascii = body.isascii()
        body.decode("utf-8")
    except UnicodeDecodeError as error:
        first = _NOT_ASCII.search(body)
        at = first.start() if first else 0
        cut_short = error.reason == "unexpected end of data" and at < error.start
        return "utf-8" if cut_short else guess(body, at)
    return "windows-1252" if text_is_ascii else "utf-8"  # of ASCII alone the standard says its default


def _readable(label: str) -> str | None:
    """Return the encoding of a label that stood in the text itself."""
    name = lookup(label)
    if name in {"utf-16le", "utf-16be"}:
        return "utf-8"
    return "windows-1252" if name == "x-user-defined" else name


def _meta_charset(attributes: dict[str, str]) -> str | None:
    """Return what one `meta` declares (the standard's steps for got pragma, need pragma, charset)."""
    if "charset" in attributes:
        return _readable(attributes["charset"])
    if attributes.get("http-equiv", "").lower() != "content-type":
        return None
    found = _CONTENT_CHARSET.search(attributes.get("content", ""))
    return _readable(found[1] or found[2] or found[3] or "") if found else None


def _attributes(head: bytes, at: int) -> tuple[dict[str, str], int] | None:
    """Return the attributes of the tag that `at` stands in, the first of a name, and where the tag ends.

    None if the bytes run out before the tag does.
    """
    attributes: dict[str, str] = {}
    while (found := _ATTRIBUTE.match(head, at)) is not None:
        at = found.end()
        name, double, _, single, _, bare, _ = found.groups()
        value = double if double is not None else single if single is not None else bare
        attributes.setdefault(name.decode("latin-1").lower(), (value or b"").decode("latin-1"))
    end = head.find(b">", at)
    return (attributes, end + 1) if end >= 0 else None


def _name_end(head: bytes, at: int) -> int:
    while at < len(head) and head[at] not in b"\t\n\x0c\r />":
        at += 1
    return at


def _raw_end(head: bytes, at: int, name: bytes) -> int:
    found = re.compile(rb"</" + name + rb"(?=[\x09\x0a\x0c\x0d\x20/>])", re.IGNORECASE).search(head, at)
    return found.start() if found else len(head)
