"""`mannerly init [FILE]`: write an annotated crawl.toml. A file that is there is never touched."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from mannerly.cli.annotated import annotated
from mannerly.model.errors import ConfigRefused

DEFAULT: Final = "crawl.toml"


@click.command("init", short_help="write an annotated crawl.toml")
@click.argument("file", default=DEFAULT, metavar="[FILE|-]")
def command(*, file: str) -> None:
    """Write an annotated configuration to FILE [crawl.toml]: every key, its default, and the reason."""
    text = annotated()
    if file == "-":
        click.echo(text, nl=False)
        return
    write_new(Path(file), text)
    click.echo(f"wrote {file}; `mannerly crawl --config {file} URL` reads it", err=True)


def write_new(path: Path, text: str) -> None:
    """Write a file that is not there yet; raise ConfigRefused if it is, or cannot be written."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise ConfigRefused(
            f"{path} is there already, and is not overwritten",
            hint=f"name another file: mannerly init {path.stem}-2.toml; - prints it",
        ) from error
    except OSError as error:
        raise ConfigRefused(
            f"{path} cannot be written: {error.strerror}", hint="name a file in a folder of yours"
        ) from error
