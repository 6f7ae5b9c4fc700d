"""What a page asks of crawlers: robots meta elements and X-Robots-Tag headers.

Both take rules separated by commas, for all crawlers or for one named. The rules that concern us add up and the
stricter one counts (Google's "Robots meta tag, data-nosnippet, and X-Robots-Tag specifications"; there is no RFC).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

_VALUED: Final = frozenset({"unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"})
"""Rules with a colon of their own: what stands before it is no crawler's name."""

_EVERYONE: Final = frozenset({"robots", "*"})
_RULE: Final = re.compile(r"[a-z][a-z0-9_-]*")
MAX_CHARS: Final = 10_000
"""Characters of one element or header that are read."""

MAX_RAW: Final = 1_000
"""Characters of the rules kept for the record."""


@dataclass(frozen=True, slots=True)
class Directives:
    """The rules in force for us. `raw` holds them as they stood, for the page record."""

    index: bool = True
    """May the page be searchable, apart from `unavailable_after_at`."""
    follow: bool = True
    """May the page's links be followed from here."""
    archive: bool = True
    """May a copy be shown."""
    snippet: bool = True
    """May an excerpt be shown."""
    unavailable_after_at: float | None = None
    """UTC seconds; from then on the page asks not to be indexed."""
    raw: tuple[str, ...] = ()

    def indexable(self, now_at: float) -> bool:
        """Tell whether the page may be searchable at `now_at`, in UTC seconds."""
        return self.index and (self.unavailable_after_at is None or now_at < self.unavailable_after_at)


NONE_GIVEN: Final = Directives()


def directives(
    metas: Iterable[tuple[str, str]], headers: Sequence[tuple[str, str]], token: str
) -> Directives:
    """Return the rules in force for the crawler `token` (compared without case); never raises.

    `metas` are (name, content) of the page's meta elements, `headers` those of the response. A redirect's headers speak
    of the redirect, never of its target: they are not handed over here.
    """
    ours = token.lower()
    rules: list[str] = []
    for name, content in metas:
        if name.strip().lower() in {"robots", ours}:
            rules.extend(_parts(content))
    for name, value in headers:
        if name.lower() == "x-robots-tag":
            rules.extend(_for_us(value, ours))
    return _sum_up(rules) if rules else NONE_GIVEN


def _parts(content: str) -> Iterator[str]:
    """Yield the rules of a list; a date that holds a comma is put together again."""
    pending = ""
    for part in content[:MAX_CHARS].lower().split(","):
        if pending:
            rule, pending = f"{pending},{part}", ""
            yield rule.strip()
            continue
        rule = part.strip()
        if "unavailable_after" in rule and _instant(rule.partition("unavailable_after")[2]) is None:
            pending = rule
        elif rule:
            yield rule
    if pending:
        yield pending


def _for_us(value: str, ours: str) -> Iterator[str]:
    """Yield the rules of one header that concern us: a crawler's name holds until the next one."""
    concerned = True
    for rule in _parts(value):
        name, colon, rest = rule.partition(":")
        if colon and name.strip() not in _VALUED:
            concerned = name.strip() == ours or name.strip() in _EVERYONE
            rule = rest.strip()
        if concerned:
            yield rule


def _sum_up(rules: Sequence[str]) -> Directives:
    words: set[str] = set()
    limits: list[float] = []
    for rule in rules:
        name, colon, value = rule.partition(":")
        if colon and name.strip() == "unavailable_after":
            instant = _instant(value)
            limits.extend([] if instant is None else [instant])
        elif colon and name.strip() == "max-snippet" and value.strip() == "0":
            words.add("nosnippet")  # the same thing by its documentation
        else:
            # Blanks are no separators by the documentation, but "noindex nofollow" is common and means both.
            words.update(_RULE.findall(rule.partition(";")[0]) if not colon else ())
    none = "none" in words
    return Directives(
        index=not (none or "noindex" in words),
        follow=not (none or "nofollow" in words),
        archive=not {"noarchive", "nocache"} & words,
        snippet="nosnippet" not in words,
        unavailable_after_at=min(limits, default=None),
        raw=tuple(_bounded(rules)),
    )


def _bounded(rules: Iterable[str]) -> Iterator[str]:
    left = MAX_RAW
    for rule in rules:
        left -= len(rule)
        if left < 0:
            return
        yield rule


def _instant(text: str) -> float | None:
    """Return the UTC seconds of a date in RFC 822, RFC 850 or ISO 8601 form, None if it is none of them."""
    text = text.strip(" :\t")
    try:
        moment = datetime.fromisoformat(text.upper())
    except ValueError:
        try:
            moment = parsedate_to_datetime(text)
        except (ValueError, TypeError, IndexError, OverflowError):
            return None
    try:
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
