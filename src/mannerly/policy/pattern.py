"""Paths and patterns of robots.txt in one canonical spelling (RFC 9309, 2.2.2 and 2.2.3).

Both sides are brought to the same form, so that comparing octets is comparing meaning.
"""

from __future__ import annotations

import re

_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")

# A reserved octet stands for itself when plain and is another octet when escaped (RFC 3986, 2.2), with two
# exceptions: `*` and `$` mean something in a pattern, so as plain octets they are always written escaped.
_ESCAPE = re.compile(r"%[0-9A-Fa-f]{2}|[^A-Za-z0-9\-._~:/?#\[\]@!&'()+,;=*]")
_ESCAPE_STAR = re.compile(r"%[0-9A-Fa-f]{2}|[^A-Za-z0-9\-._~:/?#\[\]@!&'()+,;=]")


def canonical_path(path_query: str) -> str:
    """Return a URL's path and query as patterns are compared with: RFC 9309, 2.2.2; ASCII, begins with `/`.

    Escaped unreserved octets are decoded, other escapes have upper-case digits, octets that are neither
    unreserved nor reserved are escaped (non-ASCII as UTF-8), and so are `*`, `$`, and a `%` that escapes nothing.
    A fragment is dropped.
    """
    path = path_query.partition("#")[0]
    if not path.startswith("/"):
        path = "/" + path
    if not path.isascii():
        path = path.encode("utf-8", "surrogatepass").decode("latin-1")
    return _ESCAPE_STAR.sub(_respell, path)


def canonical_pattern(value: bytes) -> str:
    """Return the path of a rule in canonical form, or "" if it can match nothing (`Disallow:` or `Disallow: a/b`).

    `*` and a last `$` keep their meaning; any other `$` is the plain octet (`%24`).
    """
    if value[:1] not in (b"/", b"*"):
        return ""
    anchored = value.endswith(b"$")
    text = value[:-1] if anchored else value
    return _ESCAPE.sub(_respell, text.decode("latin-1")) + ("$" if anchored else "")


def is_wildcard(pattern: str) -> bool:
    """Tell whether a canonical pattern needs more than a look-up: a `*` other than a single one at its end."""
    return "*" in pattern[:-1]


def _spellings() -> dict[str, str]:
    table = {chr(octet): f"%{octet:02X}" for octet in range(256)}
    for octet in range(256):
        digits = f"{octet:02x}"
        spelled = chr(octet) if chr(octet) in _UNRESERVED else f"%{octet:02X}"
        for high in {digits[0], digits[0].upper()}:
            for low in {digits[1], digits[1].upper()}:
                table[f"%{high}{low}"] = spelled
    return table


_SPELLING = _spellings()


def _respell(match: re.Match[str]) -> str:
    return _SPELLING[match[0]]
