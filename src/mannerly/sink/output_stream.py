"""Pipes, character devices and stdout: what went out cannot be taken back, so each page goes there at least once."""

from __future__ import annotations

import errno
import os
import select
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from mannerly.model.errors import ConfigRefused
from mannerly.sink.output_file import Layout, translated


class OutputStream:
    """A stream of bytes that somebody reads, or nobody. Not safe for two threads; a slow reader blocks `write`.

    connect: return a file descriptor to write to, ours to close; may block (a named pipe waits for its reader).
    around: entered for each write, so that a progress bar can step aside on a terminal; on the writing thread.
    """

    def __init__(
        self,
        label: str,
        connect: Callable[[], int],
        *,
        around: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self.label = label
        self._connect = connect
        self._around = around
        self._fd: int | None = None
        self._begun = False

    def __repr__(self) -> str:
        return f"<OutputStream {self.label}{'' if self._fd is None else ', open'}>"

    def open(self, state: str | None, layout: Layout) -> bool:
        """Connect; always True: what went out before is not ours to judge. Raises ConfigRefused if it is closed."""
        try:
            self._fd = self._connect()
        except OSError as error:
            if error.errno == errno.EBADF:
                name = "stdout" if self.label == "-" else self.label
                raise ConfigRefused(f"{name} is closed", hint="-o FILE writes to a file") from error
            raise ConfigRefused(
                f"output {self.label} cannot be opened: {error.strerror}", hint="give another name to -o"
            ) from error
        return True

    @property
    def empty(self) -> bool:
        """True until this run's first byte: a reader that comes anew needs a header anew."""
        return not self._begun

    def write(self, data: bytes) -> None:
        """Write all of `data`. Raises BrokenPipeError once nobody reads."""
        if self._fd is None:
            raise ValueError(f"{self.label} is not open")
        self._begun = True
        with translated(self.label), self._around():
            _write_waiting(self._fd, data)

    def sync(self) -> str:
        """Return the state to store: none is needed."""
        return ""

    def close(self) -> None:
        """Close the stream; does nothing if it is closed."""
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)


def _write_waiting(fd: int, data: bytes) -> None:
    """Write every byte, also where a process we share the stream with has made it non-blocking."""
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(fd, rest) :]
        except BlockingIOError:
            waiting = select.poll()  # not select(): descriptors above 1,023 are common in a crawler
            waiting.register(fd, select.POLLOUT)
            waiting.poll()
