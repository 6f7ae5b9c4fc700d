"""What a line at the prompt of `shell` means, and what it answers. Pure: a page and a line in, lines out.

A line is CSS with `::text`, `::attr(NAME)` or `::html`, or `xpath EXPRESSION`, or a command that begins with a colon. No
line is ever evaluated as Python.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from mannerly.extract.document import Document
from mannerly.extract.select import Field, Selectors, compile_selector, select, xpath
from mannerly.model.errors import SelectorInvalid
from mannerly.model.printable import printable

LINE_CHARS: Final = 5_000
XPATH: Final = "xpath"

HELP: Final = """\
h1::text              the text of each match (::text may be left out)
img::attr(src)        an attribute of each match
article::html         the markup of each match
xpath //h1/text()     XPath 1.0
:url                  where the page is, and its status
:text                 its main text
:links                its links
:help                 this
:quit                 leave (or the end of the input)"""


@dataclass(frozen=True, slots=True)
class ShownPage:
    """The page that selectors are tried on. flaw: why selectors find nothing, '' if they may."""

    url: str
    status: int
    content_type: str
    text: str
    links: tuple[str, ...]
    document: Document
    flaw: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """What to print. lines: to stdout, safe for a terminal; note: to stderr, '' for none; leave: the end."""

    lines: tuple[str, ...] = ()
    note: str = ""
    leave: bool = False


def answer(page: ShownPage, line: str) -> Answer:
    """Return the answer to one line; an error is a note."""
    line = line.strip()
    if not line:
        return Answer()
    if line.startswith(":") and not line.startswith("::") and " " not in line:
        return _command(page, line)
    try:
        values = _values(page.document, line)
    except SelectorInvalid as error:
        return Answer(
            note=f"error: {printable(str(error), limit=1_000)}\nhint: :help shows what a line may be"
        )
    count = f"{len(values):,} match{'es' if len(values) != 1 else ''}"
    return Answer(
        tuple(printable(value, limit=LINE_CHARS) for value in values),
        note=f"{count}; {page.flaw}" if page.flaw else count,
    )


def _values(document: Document, line: str) -> list[str]:
    word, _, expression = line.partition(" ")
    if word == XPATH:
        if not expression.strip():
            raise SelectorInvalid("an XPath expression is missing")
        return xpath(document, expression.strip())
    field = Field("found", compile_selector(line), all=True)
    found = select(document, Selectors((field,))).fields["found"]
    assert isinstance(found, list)
    return found


def _command(page: ShownPage, line: str) -> Answer:
    match line:
        case ":url":
            return Answer((f"{printable(page.url)}  {page.status}  {printable(page.content_type)}",))
        case ":text":
            return Answer(tuple(printable(text, limit=LINE_CHARS) for text in page.text.splitlines()))
        case ":links":
            return Answer(tuple(printable(href, limit=LINE_CHARS) for href in page.links))
        case ":help":
            return Answer(tuple(HELP.splitlines()))
        case ":quit" | ":q" | ":exit":
            return Answer(leave=True)
        case _:
            return _pseudo_class(page, line)


def _pseudo_class(page: ShownPage, line: str) -> Answer:
    """Take what is no command for CSS (`:root`, `:is(h1,h2)`), or say that it is neither."""
    try:
        compile_selector(line)
    except SelectorInvalid:
        return Answer(note=f"there is no command {printable(line, limit=100)}; :help lists them")
    return answer(page, f"*{line}")
