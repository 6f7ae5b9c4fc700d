"""One response -> all it says, and the faults of other crawlers that concern extraction."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mannerly.extract import html
from mannerly.extract.document import MAX_TAGS, Document
from mannerly.extract.page import Extracted, extract_page
from mannerly.extract.select import compile_selectors

HTML = "text/html; charset=utf-8"


def page(markup: str, url: str = "http://a.test/", content_type: str = HTML) -> Extracted:
    return extract_page(markup.encode(), content_type, url, token="mannerly")


def follow(markup: str, url: str = "http://a.test/") -> list[str]:
    return [href for href, _ in page(markup, url).links.follow]


def test_a_page_says_what_it_is() -> None:
    got = page(
        "<html lang=de><title> A\n  title </title><svg><title>drawn</title></svg>"
        "<meta name=Description content='what it is'><p>Some text.<p>More <b>te</b>xt."
    )
    assert (got.title, got.description, got.language) == ("A title", "what it is", "de")
    assert (got.content_type, got.sniffed_type, got.charset) == ("text/html", "text/html", "utf-8")
    assert got.text == "Some text.\nMore text."
    assert len(got.body_digest) == len(got.text_digest) == 64
    assert got.fingerprint is not None
    assert got.truncated == ()


def test_types_that_are_not_read_have_a_digest_and_the_rules_of_headers() -> None:
    headers = [("X-Robots-Tag", "noindex")]
    got = extract_page(b"%PDF-1.7 \x00", "text/html", "http://a.test/", headers, token="mannerly")
    assert (got.content_type, got.sniffed_type) == ("text/html", "application/pdf")
    assert got.text == ""
    assert got.fingerprint is None
    assert got.body_digest
    assert not got.directives.index


def test_plain_text_is_text_without_links() -> None:
    got = page("<a href=/x>\n\n  two   words\n", content_type="text/plain")
    assert got.text == "<a href=/x>\ntwo words"
    assert got.links.follow == ()


def test_undeclared_html_is_read_as_html() -> None:
    assert [href for href, _ in page("<p><a href=/x>x</a>", content_type="").links.follow] == [
        "http://a.test/x"
    ]


def test_xhtml_script_that_closes_itself_does_not_swallow_the_page() -> None:
    got = page(
        "<html><script src='x'/><body><a href='/x'>x</a></body></html>", content_type="application/xhtml+xml"
    )
    assert [href for href, _ in got.links.follow] == ["http://a.test/x"]


def test_links_keep_the_first_spelling_of_a_key() -> None:
    links = page("<a href='/s?a=1&b=2'></a><a href='/s?b=2&a=1'></a><a href='/s?b=2&a=1#f'></a>").links
    assert links.follow == (("http://a.test/s?a=1&b=2", "http://a.test/s?a=1&b=2"),)


def test_links_over_the_bounds_are_cut_and_flagged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html, "MAX_LINKS", 3)
    got = page("".join(f"<a href=/{n}></a>" for n in range(9)))
    assert len(got.links.follow) == 3
    assert got.truncated == ("links",)
    refreshing = "<meta http-equiv=refresh content='5;url=/new'>" + "".join(
        f"<a href=/{n}></a>" for n in range(9)
    )
    assert [href for href, _ in page(refreshing).links.follow] == [
        f"http://a.test/{x}" for x in ("new", 0, 1)
    ]
    monkeypatch.setattr(html, "MAX_LINK_BYTES", 70)
    assert len(page("".join(f"<a href=/{n}></a>" for n in range(9))).links.follow) == 2


def test_links_no_message_can_hold_are_counted() -> None:
    links = page(f"<a href=/{'x' * 9000}></a><a href=/ok></a>").links
    assert [href for href, _ in links.follow] == ["http://a.test/ok"]
    assert links.too_long == 1


@pytest.mark.slow
def test_a_page_of_too_many_tags_is_cut_and_flagged() -> None:
    document = Document("<a href=/first></a>" + "<" * MAX_TAGS + "<a href=/last></a>")
    assert document.truncated
    assert [element.attr("href") for element in document.select("a")] == ["/first"]


def test_b20_overlong_and_empty_host_labels_drop_only_their_link() -> None:
    assert follow(
        f'<a href="http://{"a" * 64}.test/">1</a><a href="http://a..test/">2</a><a href="/ok">3</a>'
    ) == ["http://a.test/ok"]


def test_b24_one_bad_link_costs_the_page_no_other() -> None:
    markup = (
        '<a href="/1">1</a><a href="http://[x/">2</a><a href="http://a.test:port/">3</a><a href="/4">4</a>'
    )
    assert follow(markup) == ["http://a.test/1", "http://a.test/4"]


def test_b25_line_breaks_around_an_href_are_no_part_of_it() -> None:
    assert follow('<a href="\n http://a.test/n/1\n ">1</a>', "http://a.test/n/") == ["http://a.test/n/1"]


def test_b26_links_resolve_against_the_address_that_answered() -> None:
    assert follow('<a href="x">x</a>', "http://a.test/r/") == ["http://a.test/r/x"]


def test_b32_fragments_make_no_new_links() -> None:
    markup = "".join(f"<a href='{href}'></a>" for href in ("/a", "/a#top", "/a#caf%C3%A9", "/a?", "/a#"))
    assert follow(markup) == ["http://a.test/a"]


def test_b44_refresh_inside_noscript_is_a_link_and_no_redirect() -> None:
    got = page('<noscript><meta http-equiv="refresh" content="0;url=/nojs"></noscript><p>real text</p>')
    assert got.refresh is None
    assert got.text == "real text"
    assert [href for href, _ in got.links.follow] == ["http://a.test/nojs"]


def test_b57_a_byte_order_mark_beats_the_header() -> None:
    body = bytes.fromhex("efbbbfd09fd180d0b8")
    got = extract_page(body, "text/html; charset=windows-1251", "http://a.test/", token="mannerly")
    assert (got.text, got.charset) == ("При", "utf-8")


def test_b59_depth_hides_nothing() -> None:
    got = page("<div>" * 300 + "<a href=/deep>deep words</a>" + "</div>" * 300)
    assert got.text == "deep words"
    assert [href for href, _ in got.links.follow] == ["http://a.test/deep"]


@pytest.mark.slow
def test_b59_a_hundred_thousand_levels_are_read_in_time() -> None:
    got = page("<div>" * 100_000 + "<p>" + "deep words " * 200 + "<a href=/deep>link</a>")
    assert got.links.follow
    assert "deep words" in got.text


def test_b61_an_xml_declaration_in_the_text_disturbs_nothing() -> None:
    facts = "Ten tiger facts for children. " * 30
    markup = (
        f'<?xml version="1.0" encoding="utf-8"?><!DOCTYPE html><html><body><article><p>{facts}</p></article>'
    )
    assert "Ten tiger facts" in page(markup).text


def test_b62_a_missing_quote_gives_no_raw_markup_in_urls() -> None:
    for href in follow('<a href="/x?m=1”>one</a> <p>long text</p> <a href="/ok">two</a>'):
        assert not set(href) & set('<>" ')


def test_b63_noindex_leaves_the_links_and_nofollow_the_page() -> None:
    noindex = page('<meta name=robots content="noindex,follow"><a href="/x">x</a>')
    assert not noindex.directives.index
    assert [href for href, _ in noindex.links.follow] == ["http://a.test/x"]
    nofollow = page('<meta name=robots content="nofollow"><a href="/x">x</a>')
    assert nofollow.directives.index
    assert not nofollow.links.follow
    assert [href for href, _ in nofollow.links.nofollow] == ["http://a.test/x"]


WANTED = compile_selectors([("t", "h1"), ("a[]", "a::attr(href)"), ("h", "p::html")], each="div, p")
PIECES = [
    *(
        "<a href=",
        "'",
        '"',
        ">",
        "<",
        "</",
        "/>",
        "<p>",
        "<div>",
        "<table><td>",
        "<svg>",
        "<template>",
        "<noscript>",
    ),
    *(
        "<base href=",
        "<meta http-equiv=refresh content=",
        "<meta charset=",
        "<script>",
        "</script>",
        "<!--",
        "&#xD800;",
    ),
    *(
        "<meta name=robots content=",
        "unavailable_after:",
        "0;url=",
        "[",
        "]",
        "//",
        "http:",
        "\x00",
        "\ud7ff",
        "é",
        " ",
    ),
    *(
        "<select>",
        "<frameset>",
        "<plaintext>",
        "<link rel=canonical href=",
        "<img srcset=",
        "utf-16",
        "#",
        "?a=%",
        ",",
    ),
]


@given(st.binary(max_size=300), st.text(max_size=60), st.text(max_size=30))
def test_no_bytes_make_extraction_raise(body: bytes, content_type: str, url: str) -> None:
    extract_page(body, content_type, url, [("X-Robots-Tag", content_type)], WANTED, token="mannerly")
    extract_page(body, "text/html", "http://a.test/", (), WANTED, token="mannerly")


@given(st.lists(st.sampled_from(PIECES), max_size=40))
def test_no_mangled_page_makes_extraction_raise(pieces: list[str]) -> None:
    body = "".join(pieces).encode("utf-8", "surrogatepass")
    got = extract_page(body, "text/html", "http://a.test/d/p", (), WANTED, token="mannerly")
    for href, key in got.links.follow + got.links.nofollow:
        assert href.startswith(("http://", "https://"))
        assert key.startswith(("http://", "https://"))
    keys = [key for _, key in got.links.follow + got.links.nofollow]
    assert len(keys) == len(set(keys))
