"""Encoding of pages: html5lib's encoding tests (MIT) and rows from the Encoding and HTML standards."""

from __future__ import annotations

import base64
import json
from pathlib import Path

from webencodings.labels import LABELS as REFERENCE_LABELS  # type: ignore[import-untyped]  # comes with html5lib

from mannerly.extract.charset import decode
from mannerly.extract.encodings import LABELS


def test_html5lib_encoding(shared: Path) -> None:
    path = shared / "conformance/html/html5lib_encoding.jsonl"
    rows = [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]
    assert len(rows) == 82
    wrong = {
        row["id"]: (got, row["encoding"])
        for row in rows
        if (got := decode(base64.b64decode(row["html_base64"]), "text/html")[1]) != row["encoding"].lower()
    }
    assert not wrong


def test_encoding_precedence(shared: Path) -> None:
    path = shared / "conformance/html/encoding_precedence.jsonl"
    rows = [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]
    assert len(rows) == 38
    wrong = {}
    for row in rows:
        text, name = decode(base64.b64decode(row["body_base64"]), row["content_type"] or "")
        if name != row["encoding"].lower() or row["text_contains"] not in text:
            wrong[row["id"]] = (name, text, row["note"])
    assert not wrong


def test_labels_are_those_of_the_encoding_standard() -> None:
    assert dict(REFERENCE_LABELS) == LABELS
