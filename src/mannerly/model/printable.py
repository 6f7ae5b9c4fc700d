"""The one escaping of crawled text for terminal and log.

A title, a URL or a header is a stranger's text: it may move the cursor, set the window's title, reverse what is shown
(CVE-2021-42574, "Trojan Source"), or forge a line of a log. Whatever reaches a terminal or a log passes `printable`.
"""

from __future__ import annotations

import re
from typing import Final

ELLIPSIS: Final = "…"

_UNSAFE: Final = re.compile(
    "["
    "\x00-\x1f\x7f-\x9f"  # C0, DEL, C1
    "\u00ad\u034f\u061c\u180e"  # soft hyphen, grapheme joiner, Arabic letter mark, Mongolian separator
    "\u115f\u1160\u3164\uffa0"  # Hangul fillers: letters that show nothing
    "\u200b-\u200f\u2060-\u2064\ufeff"  # zero width; left-to-right and right-to-left marks
    "\u2028\u2029"  # line and paragraph separator
    "\u202a-\u202e\u2066-\u206f"  # bidi embeddings, overrides, isolates; deprecated format characters
    "\ufff9-\ufffb"  # interlinear annotation
    "\U000e0000-\U000e007f"  # tags
    "\ud800-\udfff"  # lone surrogates cannot be encoded
    "]"
)
_SHORT: Final = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}


def printable(text: str, *, limit: int = 500) -> str:
    r"""Return `text` on one line, nothing hidden, at most `limit` (>= 1) characters long.

    What is unsafe becomes a visible escape as Python writes it (`\n`, `\x1b`, `\u202e`, `\U000e0041`); everything else
    stays. The result can be encoded as UTF-8, and applying the function again changes nothing. It is for reading, not
    for undoing: a backslash of the text itself is not doubled. A longer result is cut between escapes and ends
    in `…`; the work is bounded by `limit`, however long the text is.

    Markup of the `rich` library is not escaped here: callers that print through it use `rich.markup.escape` on the
    result, or a `Text` object.
    """
    head = text[: limit + 1]
    escaped = _UNSAFE.sub(_escape, head)
    if len(escaped) <= limit:
        return escaped
    return _cut(head, limit - 1) + ELLIPSIS


def _escape(found: re.Match[str]) -> str:
    char = found[0]
    code = ord(char)
    if code < 0x100:
        return _SHORT.get(char) or f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _cut(text: str, room: int) -> str:
    """Return the longest escaped beginning of `text` that fits `room` characters and splits no escape."""
    pieces: list[str] = []
    for char in text:
        piece = _UNSAFE.sub(_escape, char)
        room -= len(piece)
        if room < 0:
            break
        pieces.append(piece)
    return "".join(pieces)
