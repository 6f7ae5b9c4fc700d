"""CSV: columns, rows, and cells that no spreadsheet takes for a formula."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mannerly.model.blob import FieldValue, PagePart, seal
from mannerly.model.errors import ConfigRefused
from mannerly.model.frame import PageFrame
from mannerly.sink.csv import CsvSink, harmless
from mannerly.sink.output_file import Layout, Leave, OutputFile


def page(n: int = 1, **part: Any) -> PageFrame:
    blob = seal(PagePart(**part))
    head = (f"https://a.test/{n}", f"https://a.test/{n}", 200, 1.5, 0, "", (), 10, 5, "", "", None)
    return PageFrame(*head, True, "", "", "mannerly", "", "c", 1, n, blob)


class Memory:
    """An output that keeps what it is given."""

    label = "memory"

    def __init__(self) -> None:
        self.bytes = b""

    @property
    def empty(self) -> bool:
        return not self.bytes

    def open(self, state: str | None, layout: Layout) -> bool:
        return True

    def write(self, data: bytes) -> None:
        self.bytes += data

    def sync(self) -> str:
        return ""

    def close(self) -> None:
        """Nothing to close."""


def rows(*pages: PageFrame, fields: tuple[str, ...] = ()) -> list[list[str]]:
    memory = Memory()
    sink = CsvSink(memory, fields=fields)
    for one in pages:
        sink.write([one])
    return list(csv.reader(io.StringIO(memory.bytes.decode(), newline="")))


def test_a_row_a_page_after_one_header() -> None:
    told = rows(page(1, title="A", fields={"price": "1"}), page(2), fields=("price",))
    assert told == [
        ["url", "status", "fetched_at", "title", "price"],
        ["https://a.test/1", "200", "1970-01-01T00:00:01.500Z", "A", "1"],
        ["https://a.test/2", "200", "1970-01-01T00:00:01.500Z", "", ""],
    ]


def test_a_row_an_item_and_none_without() -> None:
    items: list[dict[str, FieldValue]] = [{"n": "1"}, {"n": "2"}]
    told = rows(page(1, items=items), page(2, items=[]), fields=("n",))
    assert [row[-1] for row in told] == ["n", "1", "2"]


def test_a_field_takes_the_column_of_its_name_and_the_page_keeps_its_value() -> None:
    told = rows(page(1, title="of the page", fields={"title": "of the field"}), fields=("title", "tags[]"))
    assert told[0] == ["url", "status", "fetched_at", "page_title", "title", "tags"]
    assert told[1][3:] == ["of the page", "of the field", ""]


def test_many_values_are_joined() -> None:
    assert rows(page(fields={"tags": ["a", "b"]}), fields=("tags[]",))[1][-1] == "a,b"


@pytest.mark.parametrize("cell", ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx", '=HYPERLINK("http://x")'])
def test_no_cell_is_a_formula(cell: str) -> None:
    told = rows(page(title=cell, fields={"f": cell}), fields=("f",))
    assert told[1][3:] == [f"'{cell}", f"'{cell}"]


@pytest.mark.slow
@given(st.lists(st.text(max_size=20), min_size=1, max_size=3))
def test_any_text_comes_back_as_one_cell(values: list[str]) -> None:
    told = rows(*(page(n, fields={"f": value}) for n, value in enumerate(values)), fields=("f",))
    assert [row[-1] for row in told[1:]] == [harmless(value) for value in values]


def test_the_header_stands_once_over_runs_and_crashes(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"

    def sink() -> CsvSink:
        return CsvSink(OutputFile(str(path), crawl="c"), fields=("f",))

    first = sink()
    first.open(None)
    owned = first.sync()
    first.write([page(1)])  # and no sync: a crash
    first.close()
    second = sink()
    second.open(owned)
    second.write([page(1)])
    state = second.sync()
    second.close()
    third = sink()
    assert third.open(state)
    third.write([page(2)])
    third.close()
    assert [row[0] for row in csv.reader(io.StringIO(path.read_bytes().decode(), newline=""))] == [
        "url",
        "https://a.test/1",
        "https://a.test/2",
    ]


def test_other_columns_begin_the_file_anew_where_the_journal_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    before = CsvSink(OutputFile(str(path), crawl="c"), fields=("a",))
    before.open(None)
    before.write([page(1)])
    state = before.sync()
    before.close()
    with pytest.raises(ConfigRefused, match="other columns"):
        CsvSink(OutputFile(str(path), crawl="c", leave=Leave(rewrite=False)), fields=("b",)).open(state)
    after = CsvSink(OutputFile(str(path), crawl="c"), fields=("b",))
    assert after.open(state) is False
    after.close()
    assert path.read_bytes() == b""
