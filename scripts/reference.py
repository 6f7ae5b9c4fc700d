"""Write what docs/reference says and the code says already: options, keys of the configuration, objects of --json.

    python scripts/reference.py

What stands outside the marks `<!-- options: NAME -->` (or `keys: SECTION`, `json: NAME`) and `<!-- end -->` is prose and
left alone. A test holds the pages against what this would write.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Final

import click

from mannerly.cli.annotated import COMMENTS, SECTIONS, toml_value
from mannerly.cli.main import main as group
from mannerly.model.config import Config

REFERENCE: Final = Path(__file__).resolve().parent.parent / "docs" / "reference"
BLOCK: Final = re.compile(
    r"(<!-- (?P<kind>options|keys|json): (?P<name>\w+) -->\n).*?(<!-- end -->)", re.DOTALL
)


def options(name: str) -> str:
    """Return usage and options of a command as Markdown; raise LookupError if there is none of that name."""
    context = click.Context(group)
    command = group.get_command(context, name)
    if command is None:
        raise LookupError(f"there is no command {name}")
    usage = " ".join(["mannerly", name, *command.collect_usage_pieces(click.Context(command))])
    rows = [option_row(option) for option in command.params if isinstance(option, click.Option)]
    return "\n".join(["```", usage, "```", "", *header("option", *(["meaning"] if rows else [])), *rows, ""])


def option_row(option: click.Option) -> str:
    """Return the row of an option."""
    names, meaning = option.get_help_record(click.Context(group)) or (", ".join(option.opts), "")
    return row(f"`{names}`", meaning + (", may be repeated" if option.multiple else ""))


def keys(section: str) -> str:
    """Return the keys of a section as Markdown; `top` for those outside any."""
    config = Config()
    if section == "top":
        named = {name: (getattr(config, name), name) for name in ("seeds", "state")}
        text = ""
    else:
        inner = getattr(config, section)
        named = {f.name: (getattr(inner, f.name), f"{section}.{f.name}") for f in fields(inner)}
        text = SECTIONS[section] + "\n\n"
    rows = [row(f"`{name}`", f"`{toml_value(value)}`", COMMENTS[key]) for name, (value, key) in named.items()]
    return text + "\n".join([*header("key", "default", "meaning"), *rows, ""])


def json_object(name: str) -> str:
    """Return the fields of the object that a command prints with --json: the table in its module's docstring."""
    text = importlib.import_module(f"mannerly.cli.{name}").__doc__ or ""
    table = [line[4:] for line in text.splitlines() if line.startswith("    ")]
    return "\n".join(["```text", *table, "```", ""])


def header(*titles: str) -> list[str]:
    """Return the first two lines of a table; nothing for a table without columns beside the first."""
    return [row(*titles), "|" + "---|" * len(titles)] if len(titles) > 1 else []


def row(*cells: str) -> str:
    """Return a row of a Markdown table."""
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


KINDS: Final[dict[str, Callable[[str], str]]] = {"options": options, "keys": keys, "json": json_object}


def written(page: str) -> str:
    """Return the page with every block as the code says it."""
    return BLOCK.sub(lambda found: found[1] + KINDS[found["kind"]](found["name"]) + found[4], page)


def main() -> int:
    """Write the pages."""
    for path in sorted(REFERENCE.glob("*.md")):
        before = path.read_text(encoding="utf-8")
        after = written(before)
        if before != after:
            path.write_text(after, encoding="utf-8")
            print(f"wrote {path.relative_to(REFERENCE.parent.parent)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
