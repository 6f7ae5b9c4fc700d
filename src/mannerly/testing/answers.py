"""The answers of bad manners that `behaviours` names, made of `Reply`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from email.utils import formatdate
from typing import Final

from mannerly.testing import bodies
from mannerly.testing.exchange import Reply, Request

NEVER_S: Final = 86_400.0
MAZE_STEPS: Final = 1_000
OK: Final = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n"
PAGE: Final = (
    b"<!doctype html><title>a page</title><p>It is as good as any other, but for how it is sent.</p>\n"
)


def stream(make: Callable[[], Iterable[bytes]], *headers: tuple[str, str], chunked: bool = False) -> Reply:
    """A body made piece by piece."""
    return Reply(pieces=make, headers=headers, chunked=chunked)


def raw(head: bytes, body: bytes = PAGE) -> Reply:
    """These bytes, a blank line, and a body as it is."""
    return Reply(raw=head + b"\r\n" + body)


def coded(*codings: bodies.Coding) -> Reply:
    """A page under content codings, the first applied first."""
    body = b"".join(through(codings, [PAGE]))
    return Reply(body=body, headers=(("Content-Encoding", ", ".join(codings)),))


def through(codings: Iterable[bodies.Coding], pieces: Iterable[bytes]) -> Iterable[bytes]:
    """`pieces` under content codings."""
    for coding in codings:
        pieces = bodies.coded(coding, pieces)
    return pieces


def bomb(*codings: bodies.Coding) -> Reply:
    """Zeros without number under content codings."""
    return stream(lambda: bodies.bomb(*codings), ("Content-Encoding", ", ".join(codings)))


def page_with(*headers: tuple[str, str], body: bytes = PAGE) -> Reply:
    """A page with these headers."""
    return Reply(body=body, headers=headers)


def typed(content_type: str | None, body: bytes) -> Reply:
    """A body under a Content-Type, or none."""
    return Reply(body=body, content_type=content_type)


def to(location: str) -> Reply:
    """A redirect."""
    return Reply(status=302, headers=(("Location", location),))


def later(retry_after: str) -> Reply:
    """503, and when to come again."""
    return Reply(status=503, headers=(("Retry-After", retry_after),))


def maze(request: Request) -> Reply:
    """The next of many redirects, by the number in the query."""
    step = int(request.query) if request.query.isdecimal() else 0
    return to(f"?{step + 1}") if step < MAZE_STEPS else Reply(body=PAGE)


def here_again(request: Request) -> Reply:
    """A redirect to what was asked for."""
    return to(request.target)


def second_is_closed(request: Request) -> Reply:
    """A page, but the second request of a connection gets none."""
    return Reply(silent=True) if request.nth == 2 else Reply(body=PAGE)


def robots_bounced(request: Request) -> Reply:
    """Back to robots.txt, for the other file that it leads to."""
    return to("/robots.txt") if request.path == "/robots-2.txt" else Reply(body=PAGE)


def robots_text(make: Callable[[], Iterable[bytes]]) -> Reply:
    """A robots.txt made piece by piece."""
    return Reply(pieces=make, content_type="text/plain")


NO_LINKS_FOLLOWED: Final = Reply(body="User-agent: *\nDisallow: /link/\n", content_type="text/plain")
UTF_16: Final = "<!doctype html><title>sixteen</title><p>Für alle Fälle: 日本語</p>".encode("utf-16-le")
CONFLICT: Final = (
    '<!doctype html><meta charset="shift_jis"><title>Fälle</title><p>Für alle Fälle.</p>'.encode()
)
PNG: Final = b"\x89PNG\r\n\x1a\n" + bodies.noise(2_000)
FILLER_LINE: Final = "X-Filler-{}: " + "f" * 180 + "\r\n"
# so far that no crawl waits for it
FAR_OFF: Final = formatdate(4_000_000_000, usegmt=True)
NINE_TIMES: Final[tuple[bodies.Coding, ...]] = ("gzip",) * 9
