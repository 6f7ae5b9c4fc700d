"""Robots meta and X-Robots-Tag: rows from Google's public documentation."""

from __future__ import annotations

import json
from pathlib import Path

from mannerly.extract.directives import directives
from mannerly.extract.document import Document
from mannerly.extract.html import head

NOW_AT = 1_800_000_000.0  # 2027: rows have dates in 2010 and 2099


def test_all_robots_meta_rows(shared: Path) -> None:
    path = shared / "conformance/html/robots_meta.jsonl"
    rows = [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]
    assert len(rows) == 56
    wrong = {}
    for row in rows:
        metas = head(Document(row["html"]), "https://h.test/").metas
        # A redirect (row m51) never comes to extraction: its headers speak of itself, not of its target.
        is_redirect = any(name == "Location" for name, _ in row["headers"])
        rules = directives(metas, [] if is_redirect else row["headers"], row["agent"])
        if (rules.indexable(NOW_AT), rules.follow) != (row["index"], row["follow"]):
            wrong[row["id"]] = (rules, row["note"])
    assert not wrong
