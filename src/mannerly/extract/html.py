"""What an HTML page says of itself and where it links to.

A link is a pair (href, key) of `model.url`. The path of links is the hottest of the whole crawl: fragments are cut and
repeated hrefs dropped before anything is resolved, and no object is made for a link.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Final

from mannerly.extract.document import Document, Element, own_name
from mannerly.extract.text import cut_text
from mannerly.model.errors import InvalidUrl
from mannerly.model.url import NO_NAMES, Base

Pair = tuple[str, str]

MAX_LINKS: Final = 100_000
MAX_LINK_BYTES: Final = 4 << 20
"""Links of one page: over either bound the rest is cut, and `Links.cut` says so."""

MAX_URL_CHARS: Final = 8_192
"""A longer URL fits no message and no host's request line; such links are counted, not carried."""

MAX_REFRESHES: Final = 16
MAX_CANONICALS: Final = 64
MAX_METAS: Final = 10_000
MAX_HREF_CHARS: Final = 8 * MAX_URL_CHARS
"""Of an href as it stands; longer ones are too long without being resolved, which costs 0.2 s a million characters."""

MAX_RESOLVED: Final = MAX_LINKS + MAX_LINKS // 2
"""Different hrefs that are looked at: most may lead nowhere."""

MAX_TITLE_BYTES: Final = 4 << 10
MAX_DESCRIPTION_BYTES: Final = 16 << 10
MAX_LANGUAGE_CHARS: Final = 35
"""BCP 47, section 4.4.1: longer tags need not be taken."""

_NOFOLLOW: Final = frozenset({"nofollow", "ugc", "sponsored"})
_HEAD: Final = "html[lang],base[href],title,meta,link[rel][href]"
_LINKING: Final = "a,area,iframe,frame"
_FRAMES: Final = frozenset({"iframe", "frame"})
_REFRESH: Final = re.compile(
    # possessive: what follows is never one of the characters given back, and looking for it among a long run of digits
    # would cost the square of its length
    r"[\t\n\x0c\r ]*(?:([0-9]++)[0-9.]*+|\.[0-9.]*+)(?:\Z|[\t\n\x0c\r ]*[;,\t\n\x0c\r ][\t\n\x0c\r ]*(.*))",
    re.DOTALL,
)
_REFRESH_URL: Final = re.compile(r"url[\t\n\x0c\r ]*=[\t\n\x0c\r ]*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Links:
    """The pages that a page links to, in document order, each key once. Frames and refreshes are links too.

    A link is in `nofollow` if every place that leads there says nofollow, ugc or sponsored.
    """

    follow: tuple[Pair, ...] = ()
    nofollow: tuple[Pair, ...] = ()
    cut: bool = False
    """Something was left out at MAX_LINKS, MAX_LINK_BYTES or MAX_RESOLVED."""
    too_long: int = 0
    """Links over MAX_URL_CHARS, or over MAX_HREF_CHARS as they stood, left out."""

    def none_to_follow(self) -> Links:
        """Return the same links, all to be followed by nobody: the page asked for it as a whole."""
        return Links((), self.follow + self.nofollow, self.cut, self.too_long)


NO_LINKS: Final = Links()


@dataclass(frozen=True, slots=True)
class Refresh:
    """A meta refresh: after `delay_s` a browser goes to `pair`."""

    delay_s: int
    pair: Pair


@dataclass(frozen=True, slots=True)
class Head:
    """What a page says of itself."""

    title: str = ""
    description: str = ""
    language: str = ""
    canonical: Pair | None = None
    refresh: Refresh | None = None
    without_script: tuple[Pair, ...] = ()
    """Where refreshes inside noscript lead: links for whoever runs no script, never redirects."""
    metas: tuple[tuple[str, str], ...] = ()
    """(name, content) of the meta elements with a name, for `directives`."""
    base: Base | None = None
    """What links are resolved against; None if the page's own URL is none."""
    has_base: bool = False


def head(document: Document, url: str, *, strip: frozenset[str] = NO_NAMES) -> Head:
    """Return what the page at `url` says of itself; `strip` names query parameters to leave out of keys. Never raises.

    `url` is where the answer came from, after any redirect.
    """
    found = document.select(_HEAD)
    base, has_base = _base(found, url, strip)
    title = description = og_description = language = content_language = ""
    metas: list[tuple[str, str]] = []
    links: list[Element] = []
    refreshing: list[Element] = []
    for element in found:
        tag = element.tag
        if tag == "meta":
            name = (element.attr("name") or "").strip().lower()
            content = element.attr("content") or ""
            pragma = (element.attr("http-equiv") or "").strip().lower()
            if name:
                if len(metas) < MAX_METAS:
                    metas.append((name, content))
                if name == "description" and not description:
                    description = content
            elif pragma == "refresh":
                refreshing.append(element)
            elif pragma == "content-language" and not content_language:
                content_language = content
            elif not og_description and element.attr("property") == "og:description":
                og_description = content
        elif tag == "link":
            links.append(element)
        elif tag == "title" and not title and own_name(element):
            title = element.text
        elif tag == "html":
            language = element.attr("lang") or ""
    refresh, without_script = _refreshes(document, refreshing, url, base, strip)
    return Head(
        title=_line(title, MAX_TITLE_BYTES),
        description=_line(description or og_description, MAX_DESCRIPTION_BYTES),
        language=_language(language or content_language),
        canonical=_canonical(links, base) if base is not None else None,
        refresh=refresh,
        without_script=without_script,
        metas=tuple(metas),
        base=base,
        has_base=has_base,
    )


def links(document: Document, page: Head) -> Links:
    """Return the links of the page whose head is `page`. Never raises; what is no http(s) URL is left out."""
    if page.base is None:
        return NO_LINKS
    hrefs: dict[str, bool] = {}  # href without fragment -> may be followed
    for element in document.select(_LINKING):
        href = element.attr("href")
        if href is None and (href := _other_href(element)) is None:
            continue
        cut = href.find("#")
        # A blank before the # belongs to the path, at the end of an href it does not: `resolve` sorts that out.
        if cut >= 0 and (cut == 0 or href[cut - 1] > " "):
            href = href[:cut]
        rel = element.attr("rel")
        if rel is None or _NOFOLLOW.isdisjoint(rel.lower().split()):
            hrefs[href] = True
        else:
            hrefs.setdefault(href, False)
    if not page.has_base:
        hrefs.pop("", None)  # leads to this page
    refreshed = [] if page.refresh is None else [page.refresh.pair]
    return _resolved(hrefs, page.base, [*refreshed, *page.without_script])


def _base(found: Iterable[Element], url: str, strip: frozenset[str]) -> tuple[Base | None, bool]:
    """Return the base for links, and whether a base element made it another than the page's URL."""
    try:
        own = Base(url, strip=strip)
    except InvalidUrl:
        return None, False
    for element in found:
        if element.tag == "base":
            pair = own.resolve(element.attr("href") or "")
            if pair is None or pair[0] == url:
                return own, False
            return Base(pair[0], strip=strip), True
    return own, False


def _resolved(hrefs: dict[str, bool], base: Base, more: Iterable[Pair]) -> Links:
    follow: dict[str, str] = {}  # key -> href
    nofollow: dict[str, str] = {}
    room, too_long, cut = MAX_LINK_BYTES, 0, len(hrefs) > MAX_RESOLVED
    resolve = base.resolve
    for href, key in more:  # few, and before the others, so that the bounds hold for all of them together
        room -= len(href) + len(key)
        follow.setdefault(key, href)
    for raw, may_follow in islice(hrefs.items(), MAX_RESOLVED):
        if len(raw) > MAX_HREF_CHARS:
            too_long += 1
            continue
        pair = resolve(raw)
        if pair is None:
            continue
        href, key = pair
        if len(href) > MAX_URL_CHARS or len(key) > MAX_URL_CHARS:
            too_long += 1
            continue
        room -= len(href) + len(key)
        if room < 0 or len(follow) + len(nofollow) >= MAX_LINKS:
            cut = True
            break
        (follow if may_follow else nofollow).setdefault(key, href)
    return Links(
        tuple([(href, key) for key, href in follow.items()]),
        tuple([(href, key) for key, href in nofollow.items() if key not in follow]),
        cut,
        too_long,
    )


def _other_href(element: Element) -> str | None:
    """Return where a frame or a link of an SVG drawing leads, None if nowhere."""
    return element.attr("src" if element.tag in _FRAMES else "xlink:href") or None


def _refreshes(
    document: Document, elements: list[Element], url: str, base: Base | None, strip: frozenset[str]
) -> tuple[Refresh | None, tuple[Pair, ...]]:
    """Return the first refresh that counts, and where those inside noscript lead."""
    if not elements or base is None:
        return None, ()
    inside = set(document.select("noscript meta[http-equiv]"))
    counts: Refresh | None = None
    without_script: list[Pair] = []
    for element in elements[:MAX_REFRESHES]:
        found = _refresh(element.attr("content") or "", url, base, strip)
        if found is not None and element in inside:
            without_script.append(found.pair)
        else:
            counts = counts or found
    return counts, tuple(without_script)


def _refresh(content: str, url: str, base: Base, strip: frozenset[str]) -> Refresh | None:
    """Parse a refresh (HTML standard, 4.2.5.3); without a URL it reloads the page at `url`."""
    found = _REFRESH.match(content)
    if found is None:
        return None
    target = found[2] or ""
    if (prefix := _REFRESH_URL.match(target)) is not None:
        target = target[prefix.end() :]
        if target[:1] in {"'", '"'}:
            target = target[1:].partition(target[0])[0]
    pair = base.resolve(target)
    if not target:
        pair = Base(url, strip=strip).resolve("")
    if pair is None or max(map(len, pair)) > MAX_URL_CHARS:
        return None
    return Refresh(min(int((found[1] or "0")[:9]), 10**9), pair)


def _canonical(links: Iterable[Element], base: Base) -> Pair | None:
    """Return the canonical address that the head names; None if it names several, or none that is a URL."""
    pairs: dict[str, Pair] = {}
    named = 0
    for element in links:
        parent = element.parent
        href = (element.attr("href") or "").strip()
        if (
            href
            and "canonical" in rel_tokens(element)
            and isinstance(parent, Element)
            and parent.tag == "head"
        ):
            named += 1
            pair = base.resolve(href)
            if pair is not None and max(map(len, pair)) <= MAX_URL_CHARS:
                pairs.setdefault(pair[1], pair)
        if named == MAX_CANONICALS or len(pairs) > 1:
            break
    return next(iter(pairs.values())) if len(pairs) == 1 else None


def rel_tokens(element: Element) -> set[str]:
    return set((element.attr("rel") or "").lower().split())


def _line(text: str, limit_bytes: int) -> str:
    return cut_text(" ".join(text.split()), limit_bytes)[0]


def _language(tag: str) -> str:
    first = tag.partition(",")[0].strip()
    return first if len(first) <= MAX_LANGUAGE_CHARS else ""
