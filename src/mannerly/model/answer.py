"""Answer: a page as it came, on its way to whoever parses it; what it says comes back as an outcome.

Crosses the pipe between a worker and its parser alone, never that to a coordinator.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from mannerly.model.task import MAX_BODY_BYTES, MAX_HEADERS_BYTES, Name, Validators, Wanted

MAX_HREF_CHARS: Final = 65_536
MAX_FIELDS: Final = 10_000


class Answer(msgspec.Struct, frozen=True, array_like=True):
    """A whole answer to the task of a page, and what to take from it.

    url: where it came from, as dialled. headers: those that hold directives. truncated: what the exchange cut, or ''.
    now_at: UTC seconds, for directives with an expiry. body: decoded.
    """

    url: Annotated[str, Meta(max_length=MAX_HREF_CHARS)]
    status: Annotated[int, Meta(ge=100, le=999)]
    body: Annotated[bytes, Meta(max_length=MAX_BODY_BYTES)]
    content_type: Annotated[str, Meta(max_length=MAX_HEADERS_BYTES)] = ""
    headers: Annotated[tuple[tuple[Name, str], ...], Meta(max_length=MAX_FIELDS)] = ()
    validators: Validators = Validators()
    truncated: Name = ""
    retry_after: Name = ""
    wanted: Wanted = Wanted()
    now_at: float = 0.0


class ParserReady(msgspec.Struct, frozen=True, array_like=True):
    """A parser's first word: it has come up."""
