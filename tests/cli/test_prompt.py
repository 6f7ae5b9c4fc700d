from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mannerly.cli.prompt import LINE_CHARS, Answer, ShownPage, answer
from mannerly.extract.document import Document
from mannerly.model.printable import printable

MARKUP = """<!doctype html><title>T</title><h1>Red <b>apples</b></h1><ul><li class=x>one<li>two</ul>
<img src="a.png" alt="\x1b]0;owned\x07"><p>a\u202eb</p>"""

PAGE = ShownPage(
    url="http://a.test/x",
    status=200,
    content_type="text/html",
    text="Red apples\none\ntwo",
    links=("http://a.test/1", "http://a.test/2"),
    document=Document(MARKUP),
)


@pytest.mark.parametrize(
    ("line", "lines", "note"),
    [
        ("h1", ("Red apples",), "1 match"),
        ("h1::text", ("Red apples",), "1 match"),
        ("li", ("one", "two"), "2 matches"),
        ("li.x::html", ('<li class="x">one</li>',), "1 match"),
        ("img::attr(src)", ("a.png",), "1 match"),
        ("nothing", (), "0 matches"),
        ("xpath //li/text()", ("one", "two"), "2 matches"),
        ("xpath count(//li)", ("2",), "1 match"),
        (":url", ("http://a.test/x  200  text/html",), ""),
        (":text", ("Red apples", "one", "two"), ""),
        (":links", ("http://a.test/1", "http://a.test/2"), ""),
        ("  ", (), ""),
    ],
)
def test_a_line_is_a_selector_or_a_command(line: str, lines: tuple[str, ...], note: str) -> None:
    assert answer(PAGE, line) == Answer(lines, note)


@pytest.mark.parametrize("line", ["h1[", "h1::nope", "::attr()", "xpath", "xpath ][", ":nope"])
def test_a_mistake_is_a_message(line: str) -> None:
    said = answer(PAGE, line)
    assert said.note
    assert not said.lines
    assert not said.leave


def test_a_pseudo_class_is_no_command() -> None:
    assert answer(PAGE, ":is(h1)").lines == ("Red apples",)


@pytest.mark.parametrize("line", [":quit", " :quit ", ":q"])
def test_quit_leaves(line: str) -> None:
    assert answer(PAGE, line).leave


def test_what_the_page_says_cannot_steer_the_terminal() -> None:
    assert answer(PAGE, "img::attr(alt)").lines == ("\\x1b]0;owned\\x07",)
    assert answer(PAGE, "p").lines == ("a\\u202eb",)


@pytest.mark.parametrize("line", ["__import__('os').system('true')", "1+1", "print(1)", "page.url", "!ls"])
def test_nothing_is_evaluated_as_python(line: str) -> None:
    assert answer(PAGE, line).lines == ()


@given(st.text(max_size=60))
def test_no_line_raises_and_no_answer_holds_a_control(line: str) -> None:
    said = answer(PAGE, line)
    assert all(printable(text, limit=LINE_CHARS) == text for text in said.lines)


def test_a_page_without_markup_says_why_nothing_matches() -> None:
    page = ShownPage(
        "http://a.test/x.pdf", 200, "application/pdf", "", (), Document(""), flaw="it is no HTML"
    )
    assert answer(page, "h1").note == "0 matches; it is no HTML"
