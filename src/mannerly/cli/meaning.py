"""Which URLs a text on the command line may mean in a stored crawl: people type hosts and paths, not always URLs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from mannerly.model import url as urls
from mannerly.model.errors import InvalidUrl
from mannerly.model.seed import seed_candidates, seed_verdict
from mannerly.model.url import Url
from mannerly.model.verdict import Reason

_SCHEME: Final = re.compile(r"\s*https?:(?!\d)", re.IGNORECASE)
# `page.html` has a dot as a host name has one; no top-level domain is spelled so
_PAGE: Final = re.compile(
    r"\.(html?|xhtml|php\d?|aspx?|jsp|cgi|txt|xml|json|pdf|css|js|png|jpe?g|gif|svg)$", re.IGNORECASE
)


def meant(text: str, seeds: Sequence[Url], *, strip: frozenset[str] = urls.NO_NAMES) -> tuple[Url, ...]:
    """Return the URLs that a text may mean in a crawl begun at `seeds`, the likeliest first; none if it is no URL.

    With a scheme it means itself. `a.test/x` is a host of the crawl under a seed's scheme and port, else https, then
    http; `dir/x.html` and `/x` are paths at the seeds. User info is dropped, as links drop it.
    """
    if not schemeless(text):
        return tuple(_parsed(_hrefs(text), strip))
    typed = tuple(_parsed(_hrefs(text), strip))
    paths = tuple(_paths(text, seeds, strip))
    at_seeds = tuple(_at_seeds(typed, seeds, strip))
    own = tuple(url for url in at_seeds if any(url.host == seed.host for seed in seeds))
    if own or _looks_like_host(text, typed):
        found = (*own, *typed, *at_seeds, *paths)
    else:
        found = (*paths, *at_seeds, *typed)
    return tuple({url.href: url for url in found}.values())


def schemeless(text: str) -> bool:
    """Tell whether a text may be a host or a path: it is not empty and names no scheme and no password."""
    return (
        bool(text.strip())
        and not _SCHEME.match(text)
        and seed_verdict(text).reason in (None, Reason.INVALID_URL)
    )


def _hrefs(text: str) -> Sequence[str]:
    try:
        return seed_candidates(text)
    except InvalidUrl:
        return (text,)


def _parsed(hrefs: Sequence[str], strip: frozenset[str], base: str | None = None) -> Iterator[Url]:
    """Yield the hrefs that are http(s) URLs."""
    for href in hrefs:
        try:
            yield urls.parse(href, base, strip=strip)
        except InvalidUrl:
            continue


def _at_seeds(typed: Sequence[Url], seeds: Sequence[Url], strip: frozenset[str]) -> Iterator[Url]:
    """Yield the typed host under each seed's scheme and port, unless another port was typed."""
    for url in typed[:1]:
        for seed in seeds:
            if url.port in (443, seed.port):
                # the seed's own spelling of a port: none where it is the scheme's default
                port = seed.origin.removeprefix(f"{seed.scheme}://{seed.host}")
                yield from _parsed([f"{seed.scheme}://{url.host}{port}{url.path_query}"], strip)


def _paths(text: str, seeds: Sequence[Url], strip: frozenset[str]) -> Iterator[Url]:
    """Yield the text as a path: at the root of each seed's origin, then beside the seed."""
    text = text.strip()
    if text.startswith(("//", "\\\\")):
        return
    for seed in seeds:
        if text[0] not in "?#":
            yield from _parsed(["/" + text.lstrip("/")], strip, seed.href)
        # without the dot `a:b` would be a scheme
        yield from _parsed([text if text[0] in "/?#" else f"./{text}"], strip, seed.href)


def _looks_like_host(text: str, typed: Sequence[Url]) -> bool:
    """Tell whether the first part of a text is rather a host name than a folder or a page."""
    if not typed:
        return False
    first = re.split(r"[/\\?#]", text.strip().lstrip("/\\"), maxsplit=1)[0]
    name = re.sub(r":\d+$", "", first)
    return name != first or name == "localhost" or ("." in name and not _PAGE.search(name))
