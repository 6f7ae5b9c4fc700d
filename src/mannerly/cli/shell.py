"""`mannerly shell URL`: a prompt to try selectors on one fetched page. `prompt` says what a line means.

With piped input there is no prompt; values go to stdout, a match a line, everything else to stderr.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

import click

from mannerly.cli.onepage import fetched, job_for
from mannerly.cli.options import network_options
from mannerly.cli.pipe import while_read
from mannerly.cli.prompt import ShownPage, answer
from mannerly.extract.document import Document
from mannerly.model.blob import unseal
from mannerly.model.frame import PageFrame

PROMPT: Final = "> "


@click.command("shell", short_help="fetch one page and try selectors on it")
@click.argument("url")
@network_options
def command(*, url: str, **typed: Any) -> None:
    """Fetch one page and try selectors on it: CSS with ::text, ::attr(NAME) or ::html, or `xpath ...`.

    :help lists the commands. Nothing that is typed is evaluated as Python.
    """
    job = job_for(url, typed, command="shell", text=True, links=True, keep_body=True)
    page = page_of(fetched(job))
    interactive = sys.stdin.isatty()
    if interactive:
        click.echo("\n".join(answer(page, ":url").lines), err=True)
        click.echo("CSS, or `xpath ...`; :help lists the commands", err=True)
    with while_read():
        converse(page, interactive=interactive)


def converse(page: ShownPage, *, interactive: bool) -> None:
    """Answer line by line until the input ends or one of them says so."""
    for line in lines(interactive=interactive):
        said = answer(page, line)
        if said.lines:
            click.echo("\n".join(said.lines))
        if said.note:
            click.echo(said.note, err=True)
        if said.leave:
            break


def page_of(frame: PageFrame) -> ShownPage:
    """Return the page that a frame holds."""
    part = unseal(frame.blob)
    kind = part.sniffed_type or part.content_type
    markup = kind in ("text/html", "application/xhtml+xml")
    return ShownPage(
        url=frame.url,
        status=frame.status,
        content_type=kind,
        text=part.text,
        links=tuple(part.links or ()),
        document=Document(part.body if markup else "", xhtml=kind == "application/xhtml+xml"),
        flaw="" if markup and part.body else f"the page is no HTML ({kind or 'of no type'}) or is empty",
    )


def lines(*, interactive: bool) -> Iterator[str]:
    """Yield the lines typed, with a history on a terminal, until the input ends."""
    if not interactive:
        yield from sys.stdin
        return
    with suppress(ImportError):
        import readline  # noqa: F401 - imported for what it does to input()
    while True:
        try:
            yield input(PROMPT)
        except EOFError:
            click.echo(err=True)
            return
        except KeyboardInterrupt:
            click.echo(err=True)
