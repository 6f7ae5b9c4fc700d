"""URLs for the independent walker: resolved, compared and requested without a line of mannerly.

**Normal form** of a URL, in which URLs are compared and printed: fragment and user info dropped; scheme and host in
lower case, default port dropped; dot segments removed (also written %2e); percent-encoding in upper-case hex,
unreserved characters decoded, everything that RFC 3986 does not allow in its place encoded as UTF-8 (in the query:
in the page's encoding); query parameters sorted by name, order of equal names kept, empty query dropped.
Fetched is the first spelling met.
"""

from __future__ import annotations

import re
from urllib.parse import urljoin, urlsplit

UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
KEPT_IN_PATH = UNRESERVED | frozenset(b"!$&'()*+,;=:@/")
KEPT_IN_QUERY = KEPT_IN_PATH | frozenset(b"?")
DEFAULT_PORTS = {"http": 80, "https": 443}
ESCAPE = re.compile(rb"%([0-9A-Fa-f]{2})")
SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*):")


def escaped(part: bytes, kept: frozenset[int]) -> str:
    """`part` with its percent-encoding normalised; a % that begins no escape stands as it is."""
    out: list[str] = []
    position = 0
    while position < len(part):
        byte = part[position]
        if byte == 0x25:
            match = ESCAPE.match(part, position)
            if match:
                value = int(match[1], 16)
                out.append(chr(value) if value in UNRESERVED else f"%{value:02X}")
                position += 3
                continue
            out.append("%")
        else:
            out.append(chr(byte) if byte in kept else f"%{byte:02X}")
        position += 1
    return "".join(out)


def without_dot_segments(path: str) -> str:
    """RFC 3986 section 5.2.4 on an absolute path."""
    out: list[str] = []
    segments = path.split("/")[1:]
    for index, segment in enumerate(segments):
        last = index == len(segments) - 1
        if segment == "..":
            if out:
                out.pop()
        elif segment != ".":
            out.append(segment)
            continue
        if last:
            out.append("")
    return "/" + "/".join(out)


def normal_form(url: str, encoding: str = "utf-8") -> str | None:
    """The normal form of an absolute http or https URL (see the module's text); None when it is none."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
        path = escaped(parts.path.encode("utf-8", "surrogatepass"), KEPT_IN_PATH)
        query = escaped(parts.query.encode(encoding, "xmlcharrefreplace"), KEPT_IN_QUERY)
    except (ValueError, LookupError):
        return None
    if parts.scheme not in DEFAULT_PORTS or not host or re.search(r"[\s<>^|%]", host):
        return None
    try:
        name = host.lower().encode("idna").decode("ascii") if not host.isascii() else host.lower()
    except UnicodeError:
        return None
    authority = f"[{name}]" if ":" in name else name
    if port is not None and port != DEFAULT_PORTS[parts.scheme]:
        authority += f":{port}"
    pairs = sorted((pair for pair in query.split("&") if pair), key=lambda pair: pair.partition("=")[0])
    tail = "?" + "&".join(pairs) if pairs else ""
    return f"{parts.scheme}://{authority}{without_dot_segments(path or '/')}{tail}"


def as_written(reference: str) -> str:
    """What the URL standard does to a reference before it is parsed: outer blanks, tabs, newlines, backslashes."""
    text = re.sub(
        r"[\t\n\r]", "", reference.strip("\x00\x01\x02\x03\x04\x05\x06\x07\x08\t\n\x0b\x0c\r\x1b\x1f ")
    )
    if not SCHEME.match(text) or text[:5].lower() in ("http:", "https"):
        head, mark, tail = text.partition("?")
        before, hash_mark, fragment = head.partition("#")
        before = re.sub(r"^((?:https?:)?/)/+", r"\1/", before.replace("\\", "/"), flags=re.IGNORECASE)
        text = before + hash_mark + fragment + mark + tail
    return text


def resolved(base: str, reference: str) -> str | None:
    """`reference` against `base`, fragment dropped; None for what is no http or https URL."""
    text = as_written(reference)
    scheme = SCHEME.match(text)
    if scheme:
        name = scheme[1].lower()
        if name not in DEFAULT_PORTS:
            return None
        rest = text[scheme.end() :]
        if not rest.startswith("//"):  # `https:x` is relative when the base has the same scheme
            text = rest if urlsplit(base).scheme == name else f"{name}://{rest.lstrip('/')}"
    try:
        return urljoin(base, text).partition("#")[0]
    except ValueError:
        return None


def target_of(url: str, encoding: str) -> str:
    """Path and query as they go on the request line: what must be encoded is, nothing else is touched."""
    parts = urlsplit(url)
    keep = frozenset(range(0x21, 0x7F)) - frozenset(b'"<>`{}')

    def sent(part: str, codec: str) -> str:
        raw = part.encode(codec, "xmlcharrefreplace")
        return "".join(chr(byte) if byte in keep else f"%{byte:02X}" for byte in raw)

    path = without_dot_segments(sent(parts.path, "utf-8") or "/")
    return path + ("?" + sent(parts.query, encoding) if parts.query else "")
