"""Links, base, canonical, refresh, images: rows from the HTML and URL standards."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mannerly.extract import html, related
from mannerly.extract.document import Document


def _href(pair: html.Pair | None) -> str | None:
    return None if pair is None else pair[0]


def _fails(row: dict[str, Any]) -> list[str]:
    document = Document(row["html"])
    page = html.head(document, row["url"])
    links = html.links(document, page)
    hints = related.hints(document, page)
    follow = [href for href, _ in links.follow]
    base = page.base
    assert base is not None
    checks: dict[str, Callable[[Any], bool]] = {
        "follow": lambda want: follow == want,
        "follow_before_normalising": lambda want: follow == want,
        "frames": lambda want: follow == want,
        "follow_set": lambda want: set(follow) == set(want),
        "follow_new": lambda want: [href for href in follow if href != row["url"]] == want,
        "follow_at_least": lambda want: set(want) <= set(follow),
        "must_not_follow": lambda want: not set(want) & set(follow),
        "either": lambda want: follow in (want, []),
        "nofollow": lambda want: [href for href, _ in links.nofollow] == want,
        "images": lambda want: related.images(document, page) == want,
        "base": lambda want: _href(base.resolve("")) == want,
        "canonical": lambda want: _href(page.canonical) == want,
        "next": lambda want: _href(hints.next) == want,
        "prev": lambda want: _href(hints.prev) == want,
        "amphtml": lambda want: _href(hints.amphtml) == want,
        "feeds": lambda want: [_href(pair) for pair in hints.feeds] == want,
        "alternates": lambda want: (
            [{"hreflang": lang, "url": pair[0]} for lang, pair in hints.alternates] == want
        ),
        "refresh": lambda want: (
            want == (page.refresh and {"delay": page.refresh.delay_s, "url": page.refresh.pair[0]})
        ),
        "must_not_crash": bool,
    }
    return [name for name, want in row["expect"].items() if not checks[name](want)]


def test_all_link_rows(shared: Path) -> None:
    rows = [
        json.loads(line)
        for line in (shared / "conformance/html/links.jsonl").read_text("utf-8").split("\n")
        if line
    ]
    assert len(rows) == 96
    wrong = {row["id"]: (fails, row["note"]) for row in rows if (fails := _fails(row))}
    assert not wrong
