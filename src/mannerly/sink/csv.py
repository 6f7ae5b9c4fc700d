"""CSV (RFC 4180, UTF-8): the selected fields as columns, a row a page, or a row an item."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec import UnsetType

from mannerly.model.blob import FieldValue
from mannerly.model.frame import PageFrame
from mannerly.model.record import PageRecord, record_of
from mannerly.sink.output import Output
from mannerly.sink.output_file import Layout

FIXED: Final = ("url", "status", "fetched_at", "title")

# A spreadsheet takes a cell that begins so for a formula (OWASP, "CSV Injection").
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n")

GATHERED_CHARS: Final = 1 << 20


class CsvSink:
    """Writes url, status, fetched_at, title and the selected fields. A page with items gives a row an item, and none
    if it has none. Many values of one field are joined with commas."""

    def __init__(self, output: Output, *, fields: Sequence[str]) -> None:
        self._output = output
        self._fields = tuple(dict.fromkeys(name.removesuffix("[]") for name in fields))
        self._header = [*(_fixed_name(name, self._fields) for name in FIXED), *self._fields]

    def __repr__(self) -> str:
        return f"<CsvSink {self._output!r}>"

    @property
    def name(self) -> str:
        """Name under which the position is stored: another output is another sink."""
        return f"csv:{self._output.label}"

    def open(self, state: str | None) -> bool:
        """Make ready to go on from `state`; False: begin anew, also when the columns are others than they were."""
        header = _text([self._header])
        return self._output.open(state, Layout(name=f"csv {header.rstrip()}", opening=header.encode()))

    def write(self, frames: Sequence[PageFrame]) -> None:
        """Write the frames' rows in order, after the header where the output is empty."""
        rows = [self._header] if self._output.empty and frames else []
        size = 0
        for frame in frames:
            for row in self._rows(record_of(frame)):
                rows.append(row)
                size += sum(map(len, row))
                if size >= GATHERED_CHARS:
                    self._output.write(_text(rows).encode())
                    rows, size = [], 0
        if rows:
            self._output.write(_text(rows).encode())

    def sync(self) -> str:
        """Make what was written durable; return the state to store with the position."""
        return self._output.sync()

    def close(self) -> None:
        """Close the output."""
        self._output.close()

    def _rows(self, record: PageRecord) -> Iterator[list[str]]:
        fixed = [record.url, str(record.status), record.fetched_at, record.title or ""]
        items = [record.fields] if isinstance(record.items, UnsetType) else record.items
        for item in items:
            yield [*fixed, *self._values(item, record.fields)]

    def _values(self, item: Mapping[str, FieldValue], page: Mapping[str, FieldValue]) -> Iterator[str]:
        for name in self._fields:
            value = item.get(name)
            yield _joined(page.get(name) if value is None else value)


def _fixed_name(name: str, fields: Sequence[str]) -> str:
    # `--select title=h1::text` is what the user calls title; the page's own value stays, under another name
    return f"page_{name}" if name in fields else name


def _joined(value: FieldValue) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else ",".join(value)


def _text(rows: Sequence[Sequence[str]]) -> str:
    text = io.StringIO()
    csv.writer(text).writerows([harmless(cell) for cell in row] for row in rows)
    return text.getvalue()


def harmless(cell: str) -> str:
    """Return `cell`, with an apostrophe before it where a spreadsheet would take it for a formula."""
    return f"'{cell}" if cell.startswith(_FORMULA) else cell
