"""Selectors: what users write, what they get, what is refused."""

from __future__ import annotations

import pytest

from mannerly.extract import select as module
from mannerly.extract.document import Document
from mannerly.extract.select import (
    Selector,
    Take,
    compile_selector,
    compile_selectors,
    select,
    split_option,
    xpath,
)
from mannerly.model.errors import SelectorInvalid

MARKUP = """
<h1> Big <b>title</b> </h1>
<div class=q id=one><a class=tag href="/t,1">one</a><a class="tag x" href=/t2 title='a "b"'>two</a><i>1</i></div>
<div class=q id=two><a class=tag>three</a></div>
"""


@pytest.mark.parametrize(
    ("name", "css", "value"),
    [
        ("v", "h1::text", "Big title"),
        ("v", "h1", "Big title"),
        ("v", "h1 ::text", "Big title"),
        ("v[]", "a.tag::text", ["one", "two", "three"]),
        ("v", "a::attr(href)", "/t,1"),
        ("v[]", "a::attr( href )", ["/t,1", "/t2"]),
        ("v", "a.x::attr('title')", 'a "b"'),
        ("v", "i::html", "<i>1</i>"),
        ("v[]", "a:is(.x,.y)::text", ["two"]),
        ("v[]", 'a[href*=","]::text', ["one"]),
        ("v[]", "a[title='a \"b\"']::text", ["two"]),
        ("v[]", "i::text, h1::text", ["Big title", "1"]),
        ("v[]", ".q:not(#two) > :nth-child(2)::text", ["two"]),
        ("v", "h2::text", None),
        ("v[]", "h2::text", []),
        ("v", "h1::attr(id)", None),
    ],
)
def test_selectors_give_what_is_asked(name: str, css: str, value: module.Value) -> None:
    got = select(Document(MARKUP), compile_selectors([(name, css)]))
    assert got == ({"v": value}, None, False)


def test_each_makes_records() -> None:
    wanted = compile_selectors(
        [("id", "::attr(id)"), ("first", ":scope > a::text"), ("n", "i"), ("tags[]", "a")], each="div.q"
    )
    got = select(Document(MARKUP), wanted)
    assert got.fields == {}
    assert got.items == [
        {"id": "one", "first": "one", "n": "1", "tags": ["one", "two"]},
        {"id": "two", "first": "three", "n": None, "tags": ["three"]},
    ]


@pytest.mark.parametrize(
    "css",
    [
        "",
        "a[",
        "p >",
        ":nope",
        "a::before",
        "a::attr()",
        "a::text, b::html",
        "a,",
        "a::text::html",
        "]",
        "\\",
    ],
)
def test_what_is_no_selector_is_refused_with_a_hint(css: str) -> None:
    with pytest.raises(SelectorInvalid) as caught:
        compile_selectors([("name", css)])
    assert caught.value.hint
    assert caught.value.exit_code == 78


@pytest.mark.parametrize("fields", [[("", "a")], [("[]", "a")], [("a", "b"), ("a[]", "b")]])
def test_names_are_given_once(fields: list[tuple[str, str]]) -> None:
    with pytest.raises(SelectorInvalid):
        compile_selectors(fields)


@pytest.mark.parametrize("each", ["div::text", "div[", "div, p::html"])
def test_each_takes_elements(each: str) -> None:
    with pytest.raises(SelectorInvalid):
        compile_selectors([("a", "b")], each=each)


def test_an_option_is_split_at_its_first_equals_sign() -> None:
    assert split_option("a[]= b[c=d]::text") == ("a[]", "b[c=d]::text")
    for option in ("a", "=b", "a="):
        with pytest.raises(SelectorInvalid):
            split_option(option)


def test_a_selector_is_compiled_to_plain_css() -> None:
    assert compile_selector(r"a\:b::ATTR(HREF)") == Selector(r"a\:b", Take.ATTRIBUTE, "href")


def test_fields_are_cut_at_their_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    document = Document("<p>" + "é" * 60 + "</p><p>second</p><p>third</p>")
    monkeypatch.setattr(module, "MAX_FIELD_BYTES", 101)
    got = select(document, compile_selectors([("one", "p"), ("all[]", "p + p")]))
    assert got == ({"one": "é" * 50, "all": ["second", "third"]}, None, True)
    monkeypatch.setattr(module, "MAX_MATCHES", 2)
    assert select(document, compile_selectors([("all[]", "p + p")])).cut is False
    assert select(document, compile_selectors([("t", "::text")], each="p")) == (
        {},
        [{"t": "é" * 50}, {"t": "second"}],
        True,
    )
    monkeypatch.setattr(module, "MAX_FIELDS_BYTES", 8)
    assert select(document, compile_selectors([("all[]", "p + p")])) == (
        {"all": ["second", "th"]},
        None,
        True,
    )


def test_xpath_gives_strings_and_markup() -> None:
    document = Document(MARKUP)
    assert xpath(document, "//a/@href") == ["/t,1", "/t2"]
    assert xpath(document, "//i") == ["<i>1</i>"]
    assert xpath(document, "count(//a)") == ["3"]
    with pytest.raises(SelectorInvalid):
        xpath(document, "//[")
