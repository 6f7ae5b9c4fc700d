"""The parsed page: a small class over the HTML library (turbohtml), which stands behind it alone.

turbohtml follows the WHATWG tree construction, so mangled markup gives the tree a browser builds; no input makes it
raise, and depth costs it nothing. What the other modules use of a node is `Element`: its `tag`, `attr(name)`, `text`,
`html`, `parent`, `ancestors`, `select`, `select_one`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

import turbohtml
from turbohtml import Element, SelectorSyntaxError

from mannerly.model.errors import SelectorInvalid

__all__ = ["MAX_TAGS", "Document", "Element", "check_css", "outermost", "own_name"]

MAX_TAGS: Final = 1_000_000
"""A page is cut at this many `<`: 10 MiB of `<b><p>` would build a tree of 900 MB."""

MAX_ROOT_TAGS: Final = 32
"""A page is cut at so many `<html>` and `<body>`: each one's attributes are looked for among those of all before it."""

MAX_FORMATTING_STEPS: Final = 20_000_000
"""What comparing formatting elements may cost, one second at worst (50 ns each): the HTML standard (13.2.4.3, "Noah's Ark clause") compares
each with all that are open, and those of different attributes may stay open to the end of the page."""

ASIDE_CHARS: Final = 1 << 20
"""A page of more characters has more bytes than a worker parses itself."""

CHEAP_CHARS: Final = 64 << 10
"""A shorter page cannot hold enough tags for either."""

MAX_CLIMB: Final = 500_000
"""Steps towards the root that `outermost` takes in all; a page whose elements ask for more has few real ones."""

_ROOT_TAG: Final = re.compile(r"<(?:html|body)[\t\n\x0c\r />]", re.IGNORECASE)
_FORMATTING: Final = re.compile(  # not `a`: one begins by closing the one before
    r"<(/?)(b|big|code|em|font|i|nobr|s|small|strike|strong|tt|u)(?=[\t\n\x0c\r />])[^>]*", re.IGNORECASE
)
_SELF_CLOSED: Final = re.compile(
    r"<(script|style|title|textarea|iframe|noscript|noframes|xmp)\b([^<>]*)/>", re.IGNORECASE
)


class Document:
    """One parsed page. Not shared between threads; `main` and `drop` change the tree, all else reads it."""

    __slots__ = ("_tree", "truncated")

    def __init__(self, markup: str, *, xhtml: bool = False) -> None:
        """Parse `markup`, cut where it would cost too much (the bounds above). Never raises.

        `xhtml` is set for pages served as XHTML: there `<script/>` is a whole element, which an HTML parser would take
        as the begin of one that swallows the page.
        """
        cut = _tag_limit(markup)
        self.truncated: bool = cut is not None
        if cut is not None:
            markup = markup[:cut]
        if xhtml and "/>" in markup:
            markup = _SELF_CLOSED.sub(r"<\1\2></\1>", markup)
        self._tree = turbohtml.parse(markup, positions=False)

    def select(self, css: str) -> list[Element]:
        """Return all elements that match `css`, in document order; raise SelectorInvalid if it is no CSS selector."""
        try:
            return self._tree.select(css)
        except SelectorSyntaxError as error:
            raise SelectorInvalid(str(error)) from error

    def select_one(self, css: str) -> Element | None:
        """Return the first element that matches `css`; raise SelectorInvalid if it is no CSS selector."""
        try:
            return self._tree.select_one(css)
        except SelectorSyntaxError as error:
            raise SelectorInvalid(str(error)) from error

    def xpath(self, expression: str) -> list[str | Element]:
        """Return what an XPath 1.0 expression selects; a number, truth value or string comes as the one string."""
        try:
            found = self._tree.xpath(expression)
        except ValueError as error:
            raise SelectorInvalid(f"no XPath expression: {expression}: {error}") from error
        if isinstance(found, list):
            return [item if isinstance(item, (str, Element)) else item.text for item in found]
        if isinstance(found, bool):
            return ["true" if found else "false"]
        return [f"{found:g}" if isinstance(found, float) else found]

    @property
    def body(self) -> Element | None:
        """The body; a frameset page has none, then the root."""
        return self._tree.select_one("body") or self._tree.root

    def drop(self, css: str) -> None:
        """Take every element that matches `css` out of the tree, with all it holds."""
        self._tree.remove(css)

    def text_runs(self, root: Element, inline: str) -> Iterator[str]:
        """Yield the text under `root`, stripped, one run for each stretch between two tags that are not `inline`.

        Changes the tree: the inline elements are unwrapped, so that `H<sub>2</sub>O` is one run.
        """
        root.strip_tags(inline)
        root.normalize()
        return root.stripped_strings


def check_css(css: str) -> None:
    """Raise SelectorInvalid unless `css` is a selector list that `Document.select` takes."""
    _EMPTY.select_one(css)


def own_name(element: Element) -> bool:
    """Tell whether the element is one of HTML's own: an SVG drawing has titles and links too."""
    return element.namespace is turbohtml.Namespace.HTML


def outermost(elements: Sequence[Element], depth: int) -> list[Element]:
    """Return, in order, those of `elements` (in document order) that stand inside fewer than `depth` others of them.

    To look at all that an element holds costs what it holds, so a hundred thousand elements inside each other would
    cost the square of the page; with `depth` it costs at most so many times the page. No step is taken twice.
    """
    kept: list[Element] = []
    inside: dict[Element, int] = {}  # how many of `elements` a node is, or is in
    left = MAX_CLIMB
    for element in elements:
        passed: list[Element] = []
        node = element.parent
        while isinstance(node, Element) and node not in inside and left > 0:
            passed.append(node)
            node = node.parent
            left -= 1
        if left <= 0:
            break
        holders = inside.get(node, 0) if isinstance(node, Element) else 0
        inside.update(dict.fromkeys(passed, holders))
        inside[element] = holders + 1
        if holders < depth:
            kept.append(element)
    return kept


def _tag_limit(markup: str) -> int | None:
    """Return where `markup` has to be cut, None if it need not be."""
    if len(markup) <= CHEAP_CHARS:
        return None
    cuts = (_too_many(markup), _too_many_roots(markup), _too_many_formatting(markup))
    return min((cut for cut in cuts if cut is not None), default=None)


def _too_many(markup: str) -> int | None:
    if len(markup) <= MAX_TAGS or markup.count("<") <= MAX_TAGS:
        return None
    return len(markup) - len(markup.split("<", MAX_TAGS)[-1]) - 1


def _too_many_roots(markup: str) -> int | None:
    found = next(islice(_ROOT_TAG.finditer(markup), MAX_ROOT_TAGS, None), None)
    return None if found is None else found.start()


def _too_many_formatting(markup: str) -> int | None:
    """Return where the formatting tags cost too much; of equal ones at most three are open at a time.

    Pages write `</code>` after `<code>`, and then few are open. But a closing tag in a comment or a script closes
    nothing, so it counts only in a page that is parsed aside, where the CPU watch ends whoever cheats.
    """
    trusts_closing = len(markup) > ASIDE_CHARS
    different: set[str] = set()
    opened: Counter[str] = Counter()
    in_all = steps = 0
    for found in _FORMATTING.finditer(markup):
        name = found[2].lower()
        if found[1]:
            in_all -= opened[name] > 0
            opened[name] -= opened[name] > 0
            continue
        different.add(found[0])
        opened[name] += 1
        in_all += 1
        steps += min(in_all, 3 * len(different)) if trusts_closing else len(different)
        if steps > MAX_FORMATTING_STEPS:
            return found.start()
    return None


_EMPTY: Final = Document("")
