from __future__ import annotations

import pytest

from mannerly.cli.tables import plain_table, show_facts, show_table, size


def test_columns_line_up_and_numbers_stand_to_the_right() -> None:
    rows = [(12_345, "out-of-scope", "http://a.test/"), (7, "nofollow", "")]
    assert plain_table(("number", "reason", "sample"), rows) == [
        "number  reason        sample",
        "12,345  out-of-scope  http://a.test/",
        "     7  nofollow",
    ]


def test_a_strangers_text_cannot_break_out_of_its_cell(capsys: pytest.CaptureFixture[str]) -> None:
    show_table("t", ("a",), [("x\n\x1b[31m[red]\u202e",)])
    show_facts([("label", "v\nforged  fact"), ("empty", "")])
    assert capsys.readouterr().out == "\nt\n  a\n  x\\n\\x1b[31m[red]\\u202e\n  label  v\\nforged  fact\n"


def test_a_table_without_rows_is_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    show_table("t", ("a",), [])
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [(0, "0 B"), (1_023, "1023 B"), (1_536, "1.5 KiB"), (50 << 30, "50.0 GiB"), (5 << 40, "5120.0 GiB")],
)
def test_sizes_for_people(nbytes: int, text: str) -> None:
    assert size(nbytes) == text
