"""URL -> template: the URL with its varying parts blanked, so that a host's kinds of pages can take turns.

    /cal/2024/07/31            /cal/{n}/{n}/{n}
    /std/vec/struct.Vec.html   /std/vec/{}.html
    /list?page=7&q=red+shoes   /{}?page={n}&q={v}

A template says what kind of page it is, not which one. Words of a path stay, they are a site's structure, but
the name in the last segment is blanked to its extension: it is what tells the pages of one kind apart, and a
manual with 30,000 pages must not be 30,000 kinds.
"""

from __future__ import annotations

import re
from typing import Final

MAX_TEMPLATE: Final = 200
"""Longest template in characters; longer ones are cut, which joins kinds of pages and never splits one."""

_TOKEN: Final = 32
"""From this length on a segment is a token or a title, no part of a site's structure."""
_MIXED_TOKEN: Final = 16
"""The same for unbroken mixtures of letters and digits, such as base64 identifiers."""

_UUID: Final = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE)
_HEX: Final = re.compile(r"(?=[0-9]*[a-f])(?=[a-f]*[0-9])[0-9a-f]{8,}", re.IGNORECASE)
_DATE: Final = re.compile(r"[0-9]{4}[-_.][0-9]{1,2}(?:[-_.][0-9]{1,2})?(?:[T_ ].*)?")
_NUMBER: Final = re.compile(r"[-+]?[0-9]+(?:[.,][0-9]+)*")
_DIGITS: Final = re.compile(r"[0-9]+")
_EXTENSION: Final = re.compile(r"\.([A-Za-z]{1,5}[0-9]?|7z)$")


def template_of(key: str) -> str:
    """Return the template of a key: its path and query without host, varying parts as `{class}`.

    Classes: `{n}` number, `{date}`, `{hex}` at least 8 hexadecimal digits, `{uuid}`, `{t}` long token, `{v}` any other
    value, `{}` a name. At most MAX_TEMPLATE characters. Never raises, whatever the text.
    """
    path, mark, query = key[key.find("/", 8) + 1 :].partition("?")
    *directories, name = path.split("/")
    template = "/" + "".join([f"{_directory(word)}/" for word in directories]) + _name(name)
    if mark:
        template += "?" + "&".join([_parameter(pair) for pair in query.split("&")])
    return template[:MAX_TEMPLATE]


def _class(word: str) -> str:
    """Return the class of a word by its form, empty if it is no number, date, hash or token."""
    if word.isalpha() and len(word) < _MIXED_TOKEN:
        return ""
    if _NUMBER.fullmatch(word):
        return "{date}" if _DATE.fullmatch(word) else "{n}"
    if _DATE.fullmatch(word):
        return "{date}"
    if _HEX.fullmatch(word):
        return "{hex}"
    if _UUID.fullmatch(word):
        return "{uuid}"
    if len(word) >= _TOKEN or (len(word) >= _MIXED_TOKEN and word.isalnum() and not word.isalpha()):
        return "{t}"
    return ""


def _directory(word: str) -> str:
    blanked = _class(word)
    if blanked or word.isalpha() or "%" in word:  # the digits of %E4 are no number
        return blanked or word
    return _DIGITS.sub("{n}", word)


def _name(word: str) -> str:
    if not word:
        return ""
    found = _EXTENSION.search(word)
    if found is None:
        return _class(word) or "{}"
    return f"{_class(word[: found.start()]) or '{}'}.{found[1].lower()}"


def _parameter(pair: str) -> str:
    name, equals, value = pair.partition("=")
    if not equals:  # `?20240731` is a value without a name
        return _directory(name)
    return f"{_directory(name)}={(_class(value) or '{v}') if value else ''}"
