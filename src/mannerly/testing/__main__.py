"""`python -m mannerly.testing site`: a small demo web on a free loopback port, until Ctrl-C; `hostile`: a bad one."""

from __future__ import annotations

import argparse
import shlex
import signal
import threading

from mannerly.testing.hostile import serve_hostile, table_of
from mannerly.testing.site import Site


def serve_demo(*, port: int, pages: int) -> None:
    """Serve one generated host and say how to crawl it; then print each request as it ends."""
    with Site(port=port) as site:
        site.grow(hosts=1, pages=pages)
        host = "h0.test"
        site.robots(host, "User-agent: *\nDisallow: /part-0/page-7.html\n")
        arguments = [site.url(host), *site.resolve_args(), "--delay", "0.1", "-o", "pages.jsonl"]
        _tell(
            site,
            f"serving {pages} pages at {site.url(host)}; Ctrl-C ends it. Try, in another terminal:\n\n"
            f"  mannerly crawl {shlex.join(arguments)}\n"
            f"  mannerly why {site.url(host, '/part-0/page-7.html')}\n",
        )


def serve_bad_manners(*, port: int) -> None:
    """Serve every hostile behaviour and say where; then print each request as it ends."""
    with Site(port=port) as site:
        serve_hostile(site)
        _tell(site, table_of(site) + "\n")


def _tell(site: Site, greeting: str) -> None:
    """Print the greeting, then each request as it ends, until Ctrl-C."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    print(greeting, flush=True)
    told = 0
    while not stop.wait(0.2):
        ended = [seen for seen in site.requests if seen.ended_at is not None]
        for seen in ended[told:]:
            print(f"{seen.status or 'gone'} {seen.method} {seen.host}{seen.target!a}", flush=True)
        told = len(ended)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m mannerly.testing")
    commands = parser.add_subparsers(dest="command", required=True)
    site = commands.add_parser("site", help="serve a small demo web")
    site.add_argument("--port", type=int, default=0, help="default: a free one")
    site.add_argument("--pages", type=int, default=60)
    hostile = commands.add_parser("hostile", help="serve bad manners, one a host")
    hostile.add_argument("--port", type=int, default=0, help="default: a free one")
    options = parser.parse_args()
    if options.command == "hostile":
        serve_bad_manners(port=options.port)
    else:
        serve_demo(port=options.port, pages=options.pages)


if __name__ == "__main__":
    main()
