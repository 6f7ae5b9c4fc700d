"""`mannerly fetch URL`: one page, its record as pretty JSON on stdout; nothing is stored.

The URL goes through robots.txt, gate and redirects as in a crawl. Exit: 0 for a page; 1 if there is none (the reason
is on stderr), and for a status of 400 or more: the record is printed all the same, as `curl --fail-with-body` does. An
answer that a crawl would ask for again (429, 5xx) gives no record.
"""

from __future__ import annotations

from typing import Any

import click
import msgspec

from mannerly.cli.onepage import fetched, job_for
from mannerly.cli.options import network_options
from mannerly.cli.pipe import while_read
from mannerly.model.record import record_json, record_of


@click.command("fetch", short_help="fetch one page and print its record")
@click.argument("url")
@click.option("--text", is_flag=True, help="put the main text into the record")
@click.option("--links", is_flag=True, help="put the links into the record")
@network_options
@click.pass_context
def command(ctx: click.Context, /, *, url: str, text: bool, links: bool, **typed: Any) -> None:
    """Fetch one page and print its record as JSON; nothing is stored.

    robots.txt is asked first, redirects are followed. Exit 1 if there is no page, or its status is 400 or more.
    """
    frame = fetched(job_for(url, typed, command="fetch", text=text, links=links))
    with while_read():
        click.echo(msgspec.json.format(record_json(record_of(frame)), indent=2))
    if frame.status >= 400:
        click.echo(f"the server answered with status {frame.status}", err=True)
        ctx.exit(1)
