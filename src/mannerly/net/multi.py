"""libcurl's multi interface on the event loop: one `Multi` runs any number of handles at once, without threads.

libcurl says which sockets to watch and when to be called (`M_SOCKETFUNCTION`, `M_TIMERFUNCTION`); the loop calls back
with `socket_action`. Nothing here knows HTTP.
"""

from __future__ import annotations

import asyncio

import pycurl

ABORTED = -1
"""The code of a transfer that `Multi.abort` ended; libcurl's own are not negative."""


class Multi:
    """Runs transfers. Lives on one loop, used from it alone; make it and close it there."""

    def __init__(self, *, idle_connections: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[pycurl.Curl, asyncio.Future[tuple[int, str]]] = {}
        self._watched: set[int] = set()
        self._timer: asyncio.Handle | None = None
        self._multi = pycurl.CurlMulti()
        self._multi.setopt(pycurl.M_MAXCONNECTS, idle_connections)
        self._multi.setopt(pycurl.M_SOCKETFUNCTION, self._watch)
        self._multi.setopt(pycurl.M_TIMERFUNCTION, self._set_timer)

    def __repr__(self) -> str:
        return f"<Multi {len(self._waiting)} running, {len(self._watched)} sockets watched>"

    async def perform(self, curl: pycurl.Curl) -> tuple[int, str]:
        """Run one transfer; return libcurl's code (0: no fault seen) and its message. Cancelling ends the transfer."""
        future: asyncio.Future[tuple[int, str]] = self._loop.create_future()
        self._multi.add_handle(curl)
        self._waiting[curl] = future
        try:
            return await future
        finally:
            if self._waiting.pop(curl, None) is not None:
                self._multi.remove_handle(curl)

    def abort(self, curl: pycurl.Curl, message: str) -> None:
        """End a running transfer with the code `ABORTED`; its connection is closed. Not for use in a callback."""
        self._finish(curl, ABORTED, message)

    def close(self) -> None:
        """Cancel every transfer and close every connection."""
        for curl, future in self._waiting.items():
            self._multi.remove_handle(curl)
            future.cancel()
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()
        self._multi.close()
        for fd in self._watched:
            self._loop.remove_reader(fd)
            self._loop.remove_writer(fd)
        self._watched.clear()

    def _finish(self, curl: pycurl.Curl, code: int, message: str) -> None:
        future = self._waiting.pop(curl, None)
        if future is None:
            return
        self._multi.remove_handle(curl)
        if not future.done():
            future.set_result((code, message))

    def _watch(self, what: int, fd: int, _multi: pycurl.CurlMulti, _data: object) -> None:
        if fd in self._watched and what != pycurl.POLL_INOUT:
            if what != pycurl.POLL_IN:
                self._loop.remove_reader(fd)
            if what != pycurl.POLL_OUT:
                self._loop.remove_writer(fd)
        if what == pycurl.POLL_REMOVE:
            self._watched.discard(fd)
            return
        self._watched.add(fd)
        if what in (pycurl.POLL_IN, pycurl.POLL_INOUT):
            self._loop.add_reader(fd, self._act, fd, pycurl.CSELECT_IN)
        if what in (pycurl.POLL_OUT, pycurl.POLL_INOUT):
            self._loop.add_writer(fd, self._act, fd, pycurl.CSELECT_OUT)

    def _set_timer(self, timeout_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if timeout_ms == 0:
            self._timer = self._loop.call_soon(self._act, pycurl.SOCKET_TIMEOUT, 0)
        elif timeout_ms > 0:
            self._timer = self._loop.call_later(timeout_ms / 1000, self._act, pycurl.SOCKET_TIMEOUT, 0)

    def _act(self, fd: int, events: int) -> None:
        running = 0
        try:
            _, running = self._multi.socket_action(fd, events)
        finally:  # a fault in a callback surfaces here; what it ended must not be waited for
            if running < len(self._waiting):
                self._read_ends()

    def _read_ends(self) -> None:
        more = 1
        while more:
            more, done, failed = self._multi.info_read()
            for curl in done:
                self._finish(curl, 0, "")
            for curl, code, message in failed:
                self._finish(curl, code, message)
