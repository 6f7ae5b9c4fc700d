"""Documents that belong to a page without being pages to follow: its images, feeds, translations, neighbours.

Apart from `html`, because no page of a crawl pays for them unless asked.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from mannerly.extract.document import Document
from mannerly.extract.html import Head, Pair, rel_tokens


@dataclass(frozen=True, slots=True)
class Hints:
    """Other documents that `link` elements name: hints, not links to follow."""

    next: Pair | None = None
    prev: Pair | None = None
    amphtml: Pair | None = None
    alternates: tuple[tuple[str, Pair], ...] = ()
    """(hreflang, pair)."""
    feeds: tuple[Pair, ...] = ()


_FEED_TYPES: Final = frozenset({"application/rss+xml", "application/atom+xml", "application/feed+json"})


def hints(document: Document, page: Head) -> Hints:
    """Return the documents that the `link` elements name; of several the first counts. Never raises."""
    if page.base is None:
        return Hints()
    single: dict[str, Pair] = {}
    alternates: list[tuple[str, Pair]] = []
    feeds: list[Pair] = []
    for element in document.select("link[rel][href]"):
        wanted = rel_tokens(element) & {"next", "prev", "amphtml", "alternate"}
        pair = page.base.resolve(element.attr("href") or "") if wanted else None
        if pair is None:
            continue
        for token in wanted - {"alternate"}:
            single.setdefault(token, pair)
        if "alternate" in wanted:
            if (element.attr("type") or "").strip().lower() in _FEED_TYPES:
                feeds.append(pair)
            elif hreflang := element.attr("hreflang"):
                alternates.append((hreflang.strip().lower(), pair))
    return Hints(
        single.get("next"), single.get("prev"), single.get("amphtml"), tuple(alternates), tuple(feeds)
    )


def images(document: Document, page: Head) -> list[str]:
    """Return the URLs of the images: `src` and the candidates of `srcset`, in document order, each once."""
    if page.base is None:
        return []
    found: dict[str, None] = {}
    for element in document.select("img,source[srcset]"):
        source = element.attr("src") if element.tag == "img" else None
        for candidate in ([source] if source else []) + srcset(element.attr("srcset") or ""):
            if (pair := page.base.resolve(candidate)) is not None:
                found[pair[0]] = None
    return list(found)


def srcset(value: str) -> list[str]:
    """Return the URLs of a srcset attribute (HTML standard, 4.8.4.2.2); a comma inside a URL belongs to it."""
    urls: list[str] = []
    rest = value.lstrip("\t\n\x0c\r ,")
    while rest:
        url, _, rest = _split_blank(rest)
        if url.endswith(","):
            url = url.rstrip(",")
        else:
            rest = _after_descriptors(rest)
        urls.append(url)
        rest = rest.lstrip("\t\n\x0c\r ,")
    return urls


def _split_blank(text: str) -> tuple[str, str, str]:
    found = re.search(r"[\t\n\x0c\r ]", text)
    return (text, "", "") if found is None else (text[: found.start()], " ", text[found.end() :])


def _after_descriptors(text: str) -> str:
    """Return what follows the descriptors of one candidate: after the next comma outside parentheses."""
    depth = 0
    for at, character in enumerate(text):
        if character == "(":
            depth += 1
        elif character == ")":
            depth = max(0, depth - 1)
        elif character == "," and not depth:
            return text[at + 1 :]
    return ""
