"""A server of bad manners, for any crawler: each behaviour of `behaviours` at a host of its own.

    with Site() as site:
        serve_hostile(site)
        subprocess.run([..., "crawl", *seeds_of(site), *site.resolve_args()])

The host of a behaviour is `NAME.test`; every path of it but robots.txt behaves. For crawlers that cannot be told where a
name lies, `http://127.0.0.1:PORT/NAME/` behaves alike, but for robots.txt: an address has only one.
"""

from __future__ import annotations

import html
import shlex
from functools import partial
from typing import Final

from mannerly.testing.behaviours import BEHAVIOURS, Behaviour
from mannerly.testing.exchange import Reply, Request
from mannerly.testing.site import NOT_FOUND, Site

LOCAL_NAMES: Final = ("127.0.0.1", "localhost")


def serve_hostile(site: Site) -> None:
    """Give `site` a host for each behaviour, and the paths `/NAME/` at its address."""
    for row in BEHAVIOURS.values():
        site.fallback(row.host, partial(reply_of, row))
    for name in LOCAL_NAMES:
        site.fallback(name, _by_path)


def seeds_of(site: Site) -> list[str]:
    """The URL of each behaviour, in the table's order."""
    return [site.url(row.host) for row in BEHAVIOURS.values()]


def reply_of(row: Behaviour, request: Request) -> Reply:
    """The answer of a behaviour's host to a request."""
    answer = row.robots or NOT_FOUND if request.path == "/robots.txt" else row.answer
    return answer if isinstance(answer, Reply) else answer(request)


def _by_path(request: Request) -> Reply:
    name = request.path.strip("/").partition("/")[0]
    row = BEHAVIOURS.get(name)
    if row is None:
        return Reply(body=_index()) if request.path == "/" else NOT_FOUND
    return row.answer if isinstance(row.answer, Reply) else row.answer(request)


def _index() -> str:
    links = "".join(
        f'<li><a href="/{name}/">{name}</a>: {html.escape(row.does)}' for name, row in BEHAVIOURS.items()
    )
    return f"<!doctype html><title>bad manners</title><ul>{links}</ul>"


def table_of(site: Site) -> str:
    """The behaviours with their URLs, one a line, and how to try a crawler on them."""
    widest = max(map(len, BEHAVIOURS))
    lines = [
        f"{name:<{widest}}  {site.url(row.host)}\n{'':<{widest}}  does: {row.does}\n{'':<{widest}}  good: {row.good}"
        for name, row in BEHAVIOURS.items()
    ]
    one = shlex.join([site.url("gzip-bomb.test"), *site.resolve_args(), "--max-depth", "0"])
    return "\n".join(
        [
            *lines,
            "",
            f"{len(BEHAVIOURS)} behaviours; Ctrl-C ends them. Each host is at {site.address}, and each behaviour also at",
            f"{site.url(site.address, '/NAME/')}, which {site.url(site.address)} lists. Try, in another terminal:",
            "",
            f"  mannerly crawl {one}",
            f"  curl --resolve gzip-bomb.test:{site.port}:{site.address} --compressed -o /dev/null {site.url('gzip-bomb.test')}",
        ]
    )
