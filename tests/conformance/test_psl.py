"""Registrable domains, against the Public Suffix List's own test (publicsuffix/list, CC0)."""

from __future__ import annotations

import json
from pathlib import Path

from mannerly.model.url import registrable_domain


def test_check_public_suffix(shared: Path) -> None:
    rows = [
        json.loads(line)
        for line in (shared / "conformance/psl/check_public_suffix.jsonl").read_bytes().splitlines()
    ]
    rows = [row for row in rows if row["input"] is not None]
    assert len(rows) == 77
    wrong = [
        (row["input"], row["registrable_domain"], got)
        for row in rows
        if (got := registrable_domain(row["input"])) != row["registrable_domain"]
    ]
    assert not wrong
