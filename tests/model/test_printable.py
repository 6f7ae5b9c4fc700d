"""The one escaping of crawled text."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mannerly.model.printable import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text, café, 日本語, [markup] stays", "plain text, café, 日本語, [markup] stays"),
        ("\x1b]0;owned\x07", r"\x1b]0;owned\x07"),
        ("a\nb\tc\rd\0", r"a\nb\tc\rd\x00"),
        ("\x7f\x9b31m", r"\x7f\x9b31m"),
        ("user\u202egnp.exe", r"user\u202egnp.exe"),
        ("a\u200bb\ufeffc\u2060", r"a\u200bb\ufeffc\u2060"),
        ("\u2028\u2029", r"\u2028\u2029"),
        ("\ud800", r"\ud800"),
        ("\U000e0041", r"\U000e0041"),
        ("", ""),
    ],
)
def test_shown(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(st.text(st.characters()), st.integers(1, 60))
def test_result_is_short_visible_one_line_and_stable(text: str, limit: int) -> None:
    shown = printable(text, limit=limit)
    assert len(shown) <= limit
    assert not any(unicodedata.category(char) in {"Cc", "Cs", "Zl", "Zp"} for char in shown)
    assert not any(
        unicodedata.bidirectional(char) in {"RLO", "LRO", "RLE", "LRE", "PDF", "RLI", "LRI", "FSI", "PDI"}
        for char in shown
    )
    assert printable(shown, limit=limit) == shown
    shown.encode()


def test_a_long_text_is_cut_between_escapes() -> None:
    assert printable("abcdef", limit=4) == "abc…"
    assert printable("abcd", limit=4) == "abcd"
    assert printable("a\x00\x00", limit=8) == r"a\x00…"
    assert printable("\x00" * 3, limit=3) == "…"
    assert len(printable("x" * 10_000_000)) == 500
