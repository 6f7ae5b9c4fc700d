"""Main text: what a page says, without the navigation around it.

First the elements that never hold content are dropped (`BOILERPLATE`). Then the smallest block that holds most of the
running text is taken, if there is enough running text to judge by: paragraphs of an article stand together, and what
stands elsewhere is teasers, comments, sidebars. Reference pages made of lists and short definitions are kept whole.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Final

from mannerly.extract.document import Document, Element, outermost

MAX_TEXT_BYTES: Final = 8 << 20

BOILERPLATE: Final = (
    "script,style,noscript,template,nav,footer,header,aside,form,iframe,svg,select,button,"
    '[role="navigation"],[role="search"],[aria-hidden="true"]'
)

# Elements inside a line; all others begin a new run of text (HTML standard, 15.3: those are display: block, table
# parts, or a line break).
INLINE: Final = (
    "a,abbr,acronym,b,bdi,bdo,big,cite,code,data,del,dfn,em,font,i,ins,kbd,label,mark,q,rp,rt,ruby,s,samp,small,span,"
    "strike,strong,sub,sup,time,tt,u,var,wbr"
)

RUNNING: Final = "p,pre,td"
"""Elements whose own text counts as running text."""

MIN_RUN: Final = 25
"""Characters; shorter ones are labels and bylines."""

MIN_RUNNING: Final = 500
"""Characters of running text below which the page is kept whole: too few to judge by."""

SHARE: Final = 0.7
"""Share of the running text that the block must hold. Between 0.6 and 0.7 the score on the pages it was chosen on is flat; a
smaller share loses sections of reference pages."""

MAX_WEIGHED_CHARS: Final = 16 << 20
"""Elements inside each other are weighed again and again: past this many characters in all no more are."""

MAX_WEIGHED: Final = 100_000
"""A page with more such elements is kept whole: to weigh half a million takes longer than to parse them."""

MAX_NESTED: Final = 16
"""An element inside so many others of its kind is not weighed; the layout tables of old go half as deep."""

_BLOCKS: Final = frozenset({"div", "section", "article", "main", "body", "center", "details", "td"})


def main_text(document: Document) -> tuple[str, bool]:
    """Return the main text, and whether it was cut at MAX_TEXT_BYTES. **Uses the document up.**

    One line for each run of text (a paragraph, a heading, a list item, a table cell, a line of a `br`), words separated
    by one blank. Never raises.
    """
    document.drop(BOILERPLATE)
    body = document.body
    if body is None:
        return "", False
    block = _densest(document, body)
    text = "\n".join([" ".join(run.split()) for run in document.text_runs(block, INLINE)])
    return cut_text(text, MAX_TEXT_BYTES)


def plain_text(text: str) -> tuple[str, bool]:
    """Return the text of a text/plain body in the form of `main_text`: blank lines and repeated blanks go."""
    lines = [" ".join(line.split()) for line in text[:MAX_TEXT_BYTES].splitlines()]
    joined, cut = cut_text("\n".join([line for line in lines if line]), MAX_TEXT_BYTES)
    return joined, cut or len(text) > MAX_TEXT_BYTES


def cut_text(text: str, limit_bytes: int) -> tuple[str, bool]:
    """Return at most `limit_bytes` of UTF-8 of `text`, whole characters, and whether something was cut."""
    if len(text) * 4 <= limit_bytes:
        return text, False
    encoded = text.encode("utf-8", "replace")
    if len(encoded) <= limit_bytes:
        return text, False
    return encoded[:limit_bytes].decode("utf-8", "ignore"), True


def _densest(document: Document, body: Element) -> Element:
    """Return the deepest block that holds SHARE of the running text; the body if there is too little to judge by.

    A block is a stretch of the document: one that holds more than half of the running text holds its middle. So only
    what is around the middle comes into question, and what a stretch holds is summed up on the way there.
    """
    weights = _running_by_parent(document)
    total = sum(weights.values())
    if total < MIN_RUNNING:
        return body
    upto = zip(weights, accumulate(weights.values()), strict=True)
    middle = next(parent for parent, weight in upto if weight * 2 >= total)
    chain = [node for node in (middle, *middle.ancestors) if isinstance(node, Element)]
    held = _held(chain, weights)
    for node, weight in zip(chain, accumulate(held), strict=True):
        if weight >= SHARE * total and node.tag in _BLOCKS:
            return node
    return body


def _running_by_parent(document: Document) -> dict[Element, int]:
    """Return how much running text the children of an element hold, in document order; nothing for too many."""
    weights: dict[Element, int] = {}
    running = document.select(RUNNING)
    if len(running) > MAX_WEIGHED:
        return weights
    budget = MAX_WEIGHED_CHARS
    for element in outermost(running, MAX_NESTED):
        length = len(element.text)
        budget -= length
        if budget < 0:
            break
        parent = element.parent
        if length >= MIN_RUN and isinstance(parent, Element):
            weights[parent] = weights.get(parent, 0) + length
    return weights


def _held(chain: list[Element], weights: dict[Element, int]) -> list[int]:
    """Return for each element of the path `chain` what it holds beyond the one before it. Visits a node once."""
    held = [0] * len(chain)
    place = {node: at for at, node in enumerate(chain)}
    for parent, weight in weights.items():
        node, passed = parent, []
        while (at := place.get(node)) is None:
            passed.append(node)
            above = node.parent
            if not isinstance(above, Element):
                break
            node = above
        if at is not None:
            held[at] += weight
            place.update(dict.fromkeys(passed, at))
    return held
