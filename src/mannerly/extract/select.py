"""Selectors: fields that a user asks for, by CSS.

    title = h1::text              the text of the first h1
    tags[] = a.tag::text          the texts of all matches
    image = img.cover::attr(src)  an attribute, of the first match that has it
    body = article::html          the markup of the element, its own tag included

`::text` is the whole text of an element with all it holds (what BeautifulSoup's `get_text` gives; parsel's `::text`
gives the element's own text nodes one by one); a selector without `::` means `::text`. Values are stripped of white
space at both ends, inside they are as in the page; `::html` is as in the page. With `each`, every match of it is a
record, and the fields are looked for inside it: `:scope` (or nothing before `::`) is the record itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from mannerly.extract.document import Document, Element, check_css, outermost
from mannerly.extract.text import cut_text
from mannerly.model.errors import SelectorInvalid

MAX_FIELD_BYTES: Final = 1 << 20
"""Of one field: over it the value is cut, of a list the rest left out."""

MAX_FIELDS_BYTES: Final = 8 << 20
"""Of all fields of a page together, so that a result fits its message."""

MAX_MATCHES: Final = 10_000

MAX_NESTED: Final = 16
"""A match or record inside so many others is left out, as one past MAX_MATCHES is: each is looked through as a whole,
the matches of a record once more."""

Value = str | list[str] | None

_SCOPE: Final = ":scope"
_PSEUDO: Final = re.compile(
    r"(text|html)|attr\(\s*(?:\"([^\"]+)\"|'([^']+)'|([^\s\"'()]+))\s*\)", re.IGNORECASE
)
_HINT: Final = "write NAME=CSS, with ::text, ::attr(NAME) or ::html at the end of the CSS"


class Take(StrEnum):
    """What is taken from a match."""

    TEXT = "text"
    ATTRIBUTE = "attribute"
    HTML = "html"


@dataclass(frozen=True, slots=True)
class Selector:
    """A compiled selector: which elements, and what of them. Made by `compile_selector`."""

    css: str
    take: Take = Take.TEXT
    attribute: str = ""


@dataclass(frozen=True, slots=True)
class Field:
    """A named value: of the first match, or of all."""

    name: str
    selector: Selector
    all: bool = False


@dataclass(frozen=True, slots=True)
class Selectors:
    """What to take from each page. Made once a crawl by `compile_selectors`; empty by default."""

    fields: tuple[Field, ...] = ()
    each: str = ""


class Selected(NamedTuple):
    """What was found: `items` is None unless records were asked for; with records `fields` is empty."""

    fields: dict[str, Value]
    items: list[dict[str, Value]] | None
    cut: bool


NOTHING: Final = Selectors()


def split_option(option: str) -> tuple[str, str]:
    """Split `NAME=CSS` at its first `=`; raise SelectorInvalid if there is no name or no CSS."""
    name, equals, css = option.partition("=")
    if not (equals and name.strip() and css.strip()):
        raise SelectorInvalid(f"no selector: {option}", hint=_HINT)
    return name.strip(), css.strip()


def compile_selectors(fields: Sequence[tuple[str, str]], each: str = "") -> Selectors:
    """Compile (name, css) pairs; a name that ends in `[]` takes all matches. Raise SelectorInvalid with a hint."""
    compiled: dict[str, Field] = {}
    for name, css in fields:
        plain = name.removesuffix("[]").strip()
        if not plain:
            raise SelectorInvalid(f"a selector without a name: {name}={css}", hint=_HINT)
        if plain in compiled:
            raise SelectorInvalid(
                f"two selectors are named {plain}", hint=f"for all matches write {plain}[]=CSS once"
            )
        compiled[plain] = Field(plain, compile_selector(css), all=name.endswith("[]"))
    if each:
        if any(pseudo for _, pseudo in _arms(each)):
            raise SelectorInvalid(
                f"--each takes elements, not what they hold: {each}", hint="leave ::... out"
            )
        _check(each.strip(), each)
    return Selectors(tuple(compiled.values()), each.strip())


def compile_selector(text: str) -> Selector:
    """Compile one CSS selector with its `::` part; raise SelectorInvalid with a hint if it is none."""
    parts: list[str] = []
    takes: set[tuple[Take, str]] = set()
    for css, pseudo in _arms(text):
        if not css.strip() and not pseudo:
            raise SelectorInvalid(f"an empty selector: '{text}'", hint=_HINT)
        takes.add(_take(pseudo, text))
        parts.append(css.strip() or _SCOPE)
    if len(takes) > 1:
        raise SelectorInvalid(
            f"one selector takes two kinds of value: {text}",
            hint="give each kind a name of its own: two selectors",
        )
    css = ", ".join(parts)
    _check(css, text)
    take, attribute = takes.pop()
    return Selector(css, take, attribute)


def select(document: Document, wanted: Selectors) -> Selected:
    """Return the values of `wanted` in the page. Never raises: selectors are valid once compiled."""
    room = _Room(MAX_FIELDS_BYTES)
    if not wanted.each:
        return Selected(
            {field.name: _value(document, field, room) for field in wanted.fields}, None, room.cut
        )
    items: list[dict[str, Value]] = []
    found = document.select(wanted.each)
    for record in outermost(found[:MAX_MATCHES], MAX_NESTED):
        if room.left <= 0:
            break
        items.append({field.name: _value(record, field, room) for field in wanted.fields})
    return Selected({}, items, room.cut or len(items) < len(found))


def xpath(document: Document, expression: str) -> list[str]:
    """Return what an XPath 1.0 expression selects, elements as their markup; raise SelectorInvalid if it is none."""
    found = document.xpath(expression)[:MAX_MATCHES]
    return [item if isinstance(item, str) else item.html for item in found]


class _Room:
    """How many bytes may still be taken from a page."""

    __slots__ = ("cut", "left")

    def __init__(self, left: int) -> None:
        self.left = left
        self.cut = False

    def take(self, text: str, limit_bytes: int) -> str:
        kept, was_cut = cut_text(text, max(0, min(limit_bytes, self.left)))
        self.cut = self.cut or was_cut
        self.left -= len(kept.encode("utf-8", "replace"))
        return kept


def _value(scope: Document | Element, field: Field, room: _Room) -> Value:
    if not field.all:
        for value in _values(_matches(scope, field.selector), field.selector):
            return room.take(value, MAX_FIELD_BYTES)
        return None
    matches = _matches(scope, field.selector)
    if field.selector.take is not Take.ATTRIBUTE:
        found, matches = matches, outermost(matches[: MAX_MATCHES + 1], MAX_NESTED)
        room.cut = room.cut or len(matches) < min(len(found), MAX_MATCHES + 1)
    values: list[str] = []
    left = MAX_FIELD_BYTES
    for value in _values(matches, field.selector):
        if len(values) >= MAX_MATCHES or left <= 0 or room.left <= 0:
            room.cut = True
            break
        before = room.left
        values.append(room.take(value, left))
        left -= before - room.left
    return values


def _matches(scope: Document | Element, selector: Selector) -> list[Element]:
    if isinstance(scope, Element) and selector.css == _SCOPE:
        return [scope]
    return scope.select(selector.css)


def _values(elements: Iterable[Element], selector: Selector) -> Iterator[str]:
    for element in elements:
        match selector.take:
            case Take.TEXT:
                yield element.text.strip()
            case Take.HTML:
                yield element.html
            case Take.ATTRIBUTE:
                if (value := element.attr(selector.attribute)) is not None:
                    yield value.strip()


def _take(pseudo: str, text: str) -> tuple[Take, str]:
    if not pseudo:
        return Take.TEXT, ""
    found = _PSEUDO.fullmatch(pseudo.strip())
    if found is None:
        raise SelectorInvalid(f"unknown ::{pseudo.strip()} in {text}", hint=_HINT)
    if found[1]:
        return Take(found[1].lower()), ""
    return Take.ATTRIBUTE, (found[2] or found[3] or found[4]).lower()


def _check(css: str, text: str) -> None:
    try:
        check_css(css)
    except SelectorInvalid as error:
        raise SelectorInvalid(f"no CSS selector: {text}: {error}", hint=_HINT) from error


def _arms(text: str) -> list[tuple[str, str]]:
    """Split a selector list at its commas, each arm into CSS and what follows `::` ('' for nothing).

    Commas and colons inside quotes, brackets, parentheses and after a backslash are part of the CSS.
    """
    arms: list[tuple[str, str]] = []
    begin, mark, depth, quote, at = 0, -1, 0, "", 0
    while at <= len(text):
        character = text[at] if at < len(text) else ","
        if at == len(text) or (character == "," and not depth and not quote):
            arms.append((text[begin:mark], text[mark + 2 : at]) if mark >= 0 else (text[begin:at], ""))
            begin, mark = at + 1, -1
        elif character == "\\":
            at += 1
        elif quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        elif character in "([":
            depth += 1
        elif character in ")]":
            depth -= 1
        elif character == ":" and mark < 0 and not depth and text.startswith("::", at):
            mark = at
        at += 1
    return arms
