"""A loopback web of many host names that records what it saw.

    with Site() as site:
        site.page("a.test", "/", '<a href="/b">b</a>')
        site.route("a.test", "/b", lambda request: Reply(status=503, headers=[("Retry-After", "2")]))
        subprocess.run([..., "crawl", site.url("a.test"), *site.resolve_args()])
        assert not site.violations(delay_s=1.0)

A crawler's manners can only be judged from the other side, so tests of whole crawls assert on `site.requests`.
The server runs in a thread of its own and serves while the test waits for a subprocess. Every method may be called
from any thread, also while a crawl is under way.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Self

from mannerly.testing import record
from mannerly.testing.exchange import Connection, Reply, Request
from mannerly.testing.generated import generate
from mannerly.testing.record import Record, Seen, Violation

Handler = Callable[[Request], Reply]

NOT_FOUND = Reply(status=404, body="<!doctype html><title>404</title><p>There is nothing here.")
START_TIMEOUT_S = 10.0


class SiteFault(Exception):
    """A handler raised, or the server could not run: the test's own fault, not the crawler's."""


@dataclass(slots=True)
class _Server:
    """What lives in the server's thread while a site is entered."""

    loop: asyncio.AbstractEventLoop
    stop: asyncio.Event
    listeners: dict[str, asyncio.Server] = field(default_factory=dict)


class Site:
    """A web on one loopback address (more with `listen`), all on one free port; see the module's text.

    What is not a page or route is answered 404, robots.txt too. A handler runs in the server's thread and must not
    block: waiting is what `Reply.delay_s` is for. If one raises (or the pieces of its reply do: then they end), the client gets 500 and leaving the `with` block
    raises SiteFault.
    """

    def __init__(self, *, address: str = "127.0.0.1", port: int = 0) -> None:
        self.address = address
        self.port = port
        self._record = Record()
        self._replies: dict[tuple[str, str], Reply | Handler] = {}
        self._fallbacks: dict[str, Handler] = {}
        self._addresses: dict[str, str] = {}
        self._faults: list[BaseException] = []
        self._alive: set[Connection] = set()
        self._server: _Server | None = None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mannerly-site", daemon=True)

    # --- life

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._ready.wait(START_TIMEOUT_S):
            raise SiteFault(f"the site did not start within {START_TIMEOUT_S} s")
        if self._faults:
            raise SiteFault(f"cannot listen on {self.address}:{self.port}") from self._faults[0]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        server = self._running()
        server.loop.call_soon_threadsafe(server.stop.set)
        self._thread.join()
        if self._faults and error is None:
            raise SiteFault(f"{len(self._faults)} replies failed in the site itself") from self._faults[0]

    def _running(self) -> _Server:
        if self._server is None:
            raise SiteFault("the site does not run: enter it with `with Site() as site`")
        return self._server

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except OSError as error:
            self._faults.append(error)
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        server = _Server(asyncio.get_running_loop(), asyncio.Event())
        listener = await self._bind(server, self.address)
        self.port = listener.sockets[0].getsockname()[1]
        self._server = server
        self._ready.set()
        await server.stop.wait()
        for each in server.listeners.values():
            each.close()
        for connection in list(self._alive):
            connection.abort()
        await asyncio.sleep(0)  # let the aborted connections hear of it

    async def _bind(self, server: _Server, address: str) -> asyncio.Server:
        listener = await server.loop.create_server(
            lambda: Connection(self._record, self._reply_to, self._alive), address, self.port, backlog=1024
        )
        server.listeners[address] = listener
        return listener

    # --- what there is

    def page(
        self,
        host: str,
        path: str,
        html: str | bytes,
        *,
        status: int = 200,
        headers: dict[str, str] | None = None,
        content_type: str | None = "text/html; charset=utf-8",
        delay_s: float = 0.0,
    ) -> None:
        """Serve `html` at `path` (with query, if it has one; a path without answers for any query)."""
        reply = Reply(
            status=status,
            body=html,
            headers=tuple((headers or {}).items()),
            content_type=content_type,
            delay_s=delay_s,
        )
        self._replies[host, path] = reply

    def route(self, host: str, path: str, handler: Handler | Reply) -> None:
        """Answer requests for `path` with what `handler` returns, or with that reply each time."""
        self._replies[host, path] = handler

    def fallback(self, host: str, handler: Handler) -> None:
        """Answer all that `host` has no page or route for, robots.txt included."""
        self._fallbacks[host] = handler

    def redirect(self, host: str, path: str, location: str, *, status: int = 301) -> None:
        self._replies[host, path] = Reply(status=status, headers=(("Location", location),))

    def robots(self, host: str, text: str | bytes, *, status: int = 200) -> None:
        """Serve a robots.txt; without one the host answers 404."""
        self._replies[host, "/robots.txt"] = Reply(
            status=status, body=text, content_type="text/plain; charset=utf-8"
        )

    def grow(
        self,
        *,
        hosts: int = 10,
        pages: int = 2000,
        links: int = 5,
        foreign_links: int = 0,
        words: int = 80,
        seed: int = 1,
        delay_s: float = 0.0,
    ) -> list[str]:
        """Serve a generated web of `pages` pages on `h0.test`, `h1.test`, ...; returns the hosts' seed URLs.

        The same arguments give the same web. Every page of a host can be reached from its seed by links of the
        host; `foreign_links` a page lead to other hosts. Each answer takes `delay_s`. `urls()` lists all pages.
        """
        names = [f"h{number}.test" for number in range(hosts)]
        for page in generate(
            hosts=names,
            pages=pages,
            links=links,
            foreign_links=foreign_links,
            words=words,
            port=self.port,
            seed=seed,
        ):
            self.page(page.host, page.path, page.html, delay_s=delay_s)
        return [self.url(name) for name in names]

    def listen(self, address: str, *hosts: str) -> None:
        """Listen on a further loopback address, on the same port; `hosts` live there (see `resolve_args`).

        Raises OSError when the port is taken there.
        """
        server = self._running()
        if address not in server.listeners:
            asyncio.run_coroutine_threadsafe(self._bind(server, address), server.loop).result(START_TIMEOUT_S)
        self._addresses.update(dict.fromkeys(hosts, address))

    # --- how it is reached

    def url(self, host: str, path: str = "/") -> str:
        return f"http://{host}:{self.port}{path}"

    def urls(self, host: str | None = None) -> set[str]:
        """URLs served with status 200, of `host` or of all; without robots.txt and what handlers answer."""
        return {
            self.url(name, path)
            for (name, path), reply in list(self._replies.items())
            if isinstance(reply, Reply)
            and reply.status == 200
            and path != "/robots.txt"
            and (host is None or host == name)
        }

    def resolve_args(self) -> list[str]:
        """Arguments for `mannerly crawl` that lead every host of this site to its address.

        Names under .test are covered by one wildcard; a host of `listen`, or with another ending, is named.
        """
        named = {host: self.address for host, _ in list(self._replies) if not host.endswith(".test")}
        named.update(self._addresses)
        arguments: list[str] = []
        for host, address in sorted(named.items()):
            arguments += ["--resolve", f"{host}={address}"]
        return [*arguments, "--resolve", f"*.test={self.address}", "--allow-private-addresses"]

    # --- what it saw

    @property
    def requests(self) -> list[Seen]:
        """All requests so far, by beginning. A snapshot, but those under way are filled in when they end."""
        return self._record.snapshot()

    def paths(self, host: str) -> list[str]:
        """Targets asked of `host`, in order, robots.txt included."""
        return [seen.target for seen in record.of_host(self.requests, host)]

    def gaps(self, host: str) -> list[float]:
        return record.gaps(self.requests, host)

    def overlaps(self, host: str) -> int:
        return record.overlaps(self.requests, host)

    def max_in_flight(self, hosts: Collection[str] | None = None) -> int:
        return record.max_in_flight(self.requests, hosts)

    def violations(
        self, delay_s: float, *, tolerance_s: float = 0.001, hosts: Collection[str] | None = None
    ) -> list[Violation]:
        return record.violations(self.requests, delay_s, tolerance_s=tolerance_s, hosts=hosts)

    def robots_faults(self) -> list[str]:
        return record.robots_faults(self.requests)

    def forget(self) -> None:
        """Drop the record of all requests that have ended."""
        self._record.clear()

    def __repr__(self) -> str:
        hosts = {host for host, _ in list(self._replies)}
        return f"Site({self.address}:{self.port}, {len(hosts)} hosts, {len(self.requests)} requests seen)"

    # --- answering (in the server's thread)

    def _reply_to(self, request: Request) -> Reply:
        found = self._replies.get((request.host, request.target)) or self._replies.get(
            (request.host, request.path)
        )
        handler = found or self._fallbacks.get(request.host) or NOT_FOUND
        try:
            reply = handler if isinstance(handler, Reply) else handler(request)
            return reply if reply.pieces is None else replace(reply, pieces=self._watched(reply.pieces))
        except Exception as error:  # noqa: BLE001 - kept, and raised when the test leaves the site
            self._faults.append(error)
            return Reply(status=500, content_type=None)

    def _watched(self, pieces: Callable[[], Iterable[bytes]]) -> Callable[[], Iterable[bytes]]:
        def watched() -> Iterable[bytes]:
            try:
                yield from pieces()
            except Exception as error:  # noqa: BLE001 - as above; the body ends here
                self._faults.append(error)

        return watched


def in_turn(*replies: Reply) -> Handler:
    """A handler that gives each reply once, in order, and the last one from then on."""
    if not replies:
        raise ValueError("in_turn needs at least one reply")
    left = iter(replies[:-1])
    return lambda _: next(left, replies[-1])


def close_on_nth(nth: int, reply: Reply, *, reset: bool = False) -> Handler:
    """A handler that answers with `reply`, but closes without a word on reading the `nth` request of a connection."""

    def answer(request: Request) -> Reply:
        return Reply(silent=True, reset=reset) if request.nth == nth else reply

    return answer


__all__ = [
    "Handler",
    "Reply",
    "Request",
    "Seen",
    "Site",
    "SiteFault",
    "Violation",
    "close_on_nth",
    "in_turn",
]
