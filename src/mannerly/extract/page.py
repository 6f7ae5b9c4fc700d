"""One response -> all it says, in one call. Pure: bytes and headers in, a value out; no input makes it raise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from mannerly.extract import digest, html, text
from mannerly.extract.charset import decode
from mannerly.extract.directives import NONE_GIVEN, Directives, directives
from mannerly.extract.document import Document
from mannerly.extract.html import NO_LINKS, Links, Pair, Refresh
from mannerly.extract.select import NOTHING, Selectors, Value, select
from mannerly.extract.types import Reading, media_type, reading, sniff
from mannerly.model.url import NO_NAMES


@dataclass(frozen=True, slots=True)
class Extracted:
    """What one response says. Where nothing was found a field is empty; `None` has a meaning of its own.

    `truncated` holds a word for everything that was cut: `tags`, `links`, `text`, `fields`.
    """

    content_type: str
    """The media type that the header declares, '' for none."""
    sniffed_type: str
    """The media type that the bytes were read as."""
    body_digest: str
    charset: str = ""
    title: str = ""
    description: str = ""
    language: str = ""
    canonical: Pair | None = None
    refresh: Refresh | None = None
    directives: Directives = NONE_GIVEN
    links: Links = NO_LINKS
    fields: dict[str, Value] = field(default_factory=dict)
    items: list[dict[str, Value]] | None = None
    """None unless records were asked for."""
    text: str = ""
    text_digest: str = ""
    fingerprint: int | None = None
    """None if there is no text."""
    truncated: tuple[str, ...] = ()


def extract_page(
    body: bytes,
    content_type: str,
    url: str,
    headers: Sequence[tuple[str, str]] = (),
    wanted: Selectors = NOTHING,
    *,
    token: str,
    strip: frozenset[str] = NO_NAMES,
) -> Extracted:
    """Return what the response says. `url` is where it came from, `body` is decoded, `token` is our product token.

    Links of a page that asks not to be followed are all in `links.nofollow`. Bodies that are neither HTML nor text
    have their types and digest alone. `strip` names more query parameters to leave out of keys.
    """
    declared = media_type(content_type).essence
    sniffed = sniff(body, declared)
    plain = Extracted(declared, sniffed, digest.body_digest(body), directives=directives((), headers, token))
    # What was not declared but sniffed is decoded as what it was sniffed to be.
    label = content_type if declared == sniffed else sniffed
    match reading(sniffed):
        case Reading.HTML:
            return _read_html(plain, decode(body, label), url, headers, wanted, token=token, strip=strip)
        case Reading.TEXT:
            return _read_text(plain, decode(body, label))
        case Reading.NONE:
            return plain


def page_text(body: bytes, content_type: str) -> str:
    """Return the decoded text that `extract_page` reads, '' for a body that is neither HTML nor text."""
    declared = media_type(content_type).essence
    sniffed = sniff(body, declared)
    if reading(sniffed) is Reading.NONE:
        return ""
    return decode(body, content_type if declared == sniffed else sniffed)[0]


def _read_html(
    plain: Extracted,
    decoded: tuple[str, str],
    url: str,
    headers: Sequence[tuple[str, str]],
    wanted: Selectors,
    *,
    token: str,
    strip: frozenset[str],
) -> Extracted:
    markup, charset = decoded
    document = Document(markup, xhtml=plain.sniffed_type == "application/xhtml+xml")
    head = html.head(document, url, strip=strip)
    links = html.links(document, head)
    rules = directives(head.metas, headers, token)
    selected = select(document, wanted)
    main, text_cut = text.main_text(document)  # last: it uses the document up
    cuts = {"tags": document.truncated, "links": links.cut, "text": text_cut, "fields": selected.cut}
    return replace(
        plain,
        charset=charset,
        title=head.title,
        description=head.description,
        language=head.language,
        canonical=head.canonical,
        refresh=head.refresh,
        directives=rules,
        links=links if rules.follow else links.none_to_follow(),
        fields=selected.fields,
        items=selected.items,
        text=main,
        text_digest=digest.text_digest(main),
        fingerprint=digest.fingerprint(main),
        truncated=tuple(word for word, was_cut in cuts.items() if was_cut),
    )


def _read_text(plain: Extracted, decoded: tuple[str, str]) -> Extracted:
    raw, charset = decoded
    main, cut = text.plain_text(raw)
    return replace(
        plain,
        charset=charset,
        text=main,
        text_digest=digest.text_digest(main),
        fingerprint=digest.fingerprint(main),
        truncated=("text",) if cut else (),
    )
