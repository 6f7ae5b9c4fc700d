"""Facts and tables on stdout: aligned plain text, in colour on a terminal. Every text passes the one escaping."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Final

import click

from mannerly.model.printable import printable

CELL_CHARS: Final = 120
VALUE_CHARS: Final = 2_000


def show_facts(facts: Iterable[tuple[str, str]], *, indent: int = 2) -> None:
    """Print label and value, one fact a line; those without a value are left out."""
    shown = [(label, value) for label, value in facts if value]
    width = max((len(label) for label, _ in shown), default=0)
    for label, value in shown:
        click.echo(
            f"{' ' * indent}{click.style(label.ljust(width), dim=True)}  {printable(value, limit=VALUE_CHARS)}"
        )


def show_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str | int]]) -> None:
    """Print a table, numbers to the right; nothing if there is no row."""
    if not rows:
        return
    click.echo()
    if sys.stdout.isatty():
        _show_rich(title, header, rows)
        return
    click.echo(title)
    for line in plain_table(header, rows):
        click.echo(f"  {line}")


def plain_table(header: Sequence[str], rows: Sequence[Sequence[str | int]]) -> list[str]:
    """Return the lines of a table: columns two blanks apart, as wide as their widest cell."""
    cells = [list(header), *([cell_text(cell) for cell in row] for row in rows)]
    right = [isinstance(value, int) for value in rows[0]]
    widths = [max(len(row[at]) for row in cells) for at in range(len(header))]
    return [
        "  ".join(
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(row, widths, right, strict=True)
        ).rstrip()
        for row in cells
    ]


def cell_text(cell: str | int) -> str:
    """Return a cell as it is shown."""
    return f"{cell:,}" if isinstance(cell, int) else printable(cell, limit=CELL_CHARS)


def _show_rich(title: str, header: Sequence[str], rows: Sequence[Sequence[str | int]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(title), title_justify="left", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name, value in zip(header, rows[0], strict=True):
        table.add_column(
            name, justify="right" if isinstance(value, int) else "left", overflow="fold", style=""
        )
    for row in rows:
        table.add_row(*(Text(cell_text(cell)) for cell in row))  # Text: a stranger's [red] is no markup
    Console().print(table)


def size(nbytes: int) -> str:
    """Return a size for people: 1,536 -> 1.5 KiB."""
    amount, units = float(nbytes), ["B", "KiB", "MiB", "GiB"]
    while amount >= 1_024 and len(units) > 1:
        amount /= 1_024
        units.pop(0)
    return f"{amount:.0f} B" if units[0] == "B" else f"{amount:.1f} {units[0]}"
