"""An answer -> all that it says, in the form that crosses the wire. Pure; in the worker itself or in its parser.

A parser is a process of a worker's own: what it is handed may end it, and costs nobody else anything then (`aside`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from typing import Final

from mannerly.extract.html import NO_LINKS
from mannerly.extract.page import Extracted, extract_page, page_text
from mannerly.extract.select import Selectors, compile_selectors
from mannerly.extract.text import cut_text
from mannerly.extract.types import Reading, media_type, reading, sniff
from mannerly.model import url as urls
from mannerly.model.answer import Answer
from mannerly.model.blob import PagePart, seal
from mannerly.model.errors import SelectorInvalid
from mannerly.model.result import MAX_BLOB_BYTES, MAX_TEXT_BYTES, Fetched, LinkGroup, Page, Refused
from mannerly.model.task import Wanted
from mannerly.policy.robots import PRODUCT_TOKEN

MAX_DETAIL_CHARS: Final = 1_000
MAX_NAME_CHARS: Final = 255
MAX_URL_CHARS: Final = 8_192
# What a worker parses itself: a page under both bounds takes at most some 100 ms, for which its other hosts can wait.
LIGHT_BYTES: Final = 1 << 20
LIGHT_TAGS: Final = 100_000


def is_heavy(answer: Answer) -> bool:
    """Tell whether parsing the page may take long. What is neither HTML nor text costs its digest alone."""
    body = answer.body
    if len(body) <= LIGHT_TAGS or (len(body) <= LIGHT_BYTES and body.count(b"<") <= LIGHT_TAGS):
        return False
    return reading(sniff(body, media_type(answer.content_type).essence)) is not Reading.NONE


def read_page(answer: Answer) -> Fetched | Refused:
    """Return all that a page says: the facts that decide, its links by host, and the blob for the sinks."""
    wanted, body, content_type = answer.wanted, answer.body, answer.content_type
    try:
        selectors = compiled(wanted.fields, wanted.each)
    except SelectorInvalid as error:
        return Refused(detail=str(error)[:MAX_DETAIL_CHARS])
    said = extract_page(
        body,
        content_type,
        answer.url,
        answer.headers,
        selectors,
        token=PRODUCT_TOKEN,
        strip=frozenset(wanted.strip_parameters),
    )
    cuts = [*([answer.truncated] if answer.truncated else []), *said.truncated]
    markup = page_text(body, content_type) if wanted.body else ""
    blob = seal(page_part(said, wanted, cut_text(markup, MAX_TEXT_BYTES)[0]))
    if len(blob) > MAX_BLOB_BYTES:
        # what does not shrink was hardly text: the record goes without it, never the page without a record
        blob = seal(page_part(replace(said, text="", fields={}, items=None, links=NO_LINKS), wanted))
        cuts.append("record")
    page = Page(
        status=answer.status,
        bytes=len(body),
        body_digest=said.body_digest,
        text_digest=said.text_digest,
        fingerprint=said.fingerprint,
        index=said.directives.indexable(answer.now_at),
        follow=said.directives.follow,
        canonical=said.canonical[0] if said.canonical else "",
        content_type=said.content_type[:MAX_NAME_CHARS],
        truncated=",".join(cuts),
        validators=answer.validators,
    )
    return Fetched(
        page=page,
        links=(*grouped(said.links.follow), *grouped(said.links.nofollow, nofollow=True)),
        links_cut=said.links.cut,
        blob=blob,
        retry_after=answer.retry_after,
    )


def page_part(said: Extracted, wanted: Wanted, body: str = "") -> PagePart:
    """Return the part of a page that sinks need; `body` is its markup, where that was wanted."""
    rules = said.directives
    return PagePart(
        content_type=said.content_type,
        sniffed_type=said.sniffed_type,
        charset=said.charset,
        title=said.title,
        description=said.description,
        language=said.language,
        canonical=said.canonical[0] if said.canonical else "",
        robots={
            "index": rules.index,
            "follow": rules.follow,
            "archive": rules.archive,
            "snippet": rules.snippet,
        },
        fields=said.fields,
        items=said.items,
        text=said.text,
        links=[href for href, _ in (*said.links.follow, *said.links.nofollow)] if wanted.links else None,
        wants_text=wanted.text,
        body=body,
    )


def grouped(links: Iterable[tuple[str, str]], *, nofollow: bool = False) -> tuple[LinkGroup, ...]:
    """Return (href, key) pairs by host, in the order in which hosts appear; a URL that equals its key is sent once."""
    by_host: dict[str, list[tuple[str, str]]] = {}
    prefix, group = "\0", []
    for href, key in links:
        if not key.startswith(prefix):
            origin = urls.origin_of(key)
            prefix = origin + "/"
            group = by_host.setdefault(urls.host_of(key), [])
        if len(key) <= MAX_URL_CHARS:
            group.append((key, "" if href == key else href))
    return tuple(LinkGroup(host, tuple(pairs), nofollow) for host, pairs in by_host.items())


@lru_cache(maxsize=64)
def compiled(fields: tuple[tuple[str, str], ...], each: str) -> Selectors:
    """Return the selectors of a crawl, compiled once for all its tasks."""
    return compile_selectors(fields, each)
