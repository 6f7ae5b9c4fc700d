"""What a sink writes to: a file or a stream, and which of the two a name means."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Final, Protocol

from mannerly.model.errors import ConfigRefused
from mannerly.sink.output_file import Layout, Leave, OutputFile, printable_path
from mannerly.sink.output_stream import OutputStream

_STANDARD: Final = {"-": 1, "/dev/stdout": 1, "/dev/stderr": 2}
_DESCRIPTOR: Final = re.compile(r"/(?:dev|proc/self)/fd/(\d{1,7})")
_FLAGS: Final = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOCTTY


class Output(Protocol):
    """Bytes in order; what `Sink` promises of open, sync and close holds here too."""

    label: str

    @property
    def empty(self) -> bool:
        """True while a header is still to be written."""
        ...

    def open(self, state: str | None, layout: Layout) -> bool:
        """Make ready to go on from `state`; False: begin anew."""
        ...

    def write(self, data: bytes) -> None:
        """Write all of `data`."""
        ...

    def sync(self) -> str:
        """Make what was written durable; return the state to store."""
        ...

    def close(self) -> None:
        """Close."""
        ...


def output_named(
    name: str,
    *,
    crawl: str,
    leave: Leave,
    around: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Output:
    """Return what `-o name` means, not yet opened; raise ConfigRefused where no page can go.

    Descriptors (`-`, /dev/stdout, /dev/fd/N as the shell's process substitution gives them) are taken over rather
    than opened by name, which on Linux would begin at offset 0 of a redirected file, or fail on a socket.
    """
    if not name:
        raise ConfigRefused("-o was given an empty name", hint="-o - writes to stdout")
    descriptor = _descriptor(name)
    if descriptor is not None:
        label = "-" if descriptor == 1 else printable_path(name)
        return OutputStream(label, partial(os.dup, descriptor), around=around)
    kind = _kind(name)
    label = printable_path(os.path.realpath(name))
    if stat.S_ISFIFO(kind) or stat.S_ISCHR(kind):
        return OutputStream(label, partial(os.open, name, _FLAGS))
    if kind and not stat.S_ISREG(kind):
        what = "a folder" if stat.S_ISDIR(kind) else "no file, pipe or character device"
        raise ConfigRefused(f"{label} is {what}", hint="-o takes the name of a file, or - for stdout")
    return OutputFile(name, crawl=crawl, leave=leave)


def check_output(name: str, *, overwrite: bool, begins: bool) -> None:
    """Raise ConfigRefused where `-o name` could take no page; touch nothing. begins: the crawl has written none yet."""
    descriptor = _descriptor(name) if name else None
    if descriptor is not None:
        try:
            os.fstat(descriptor)
        except OSError as error:
            what = "stdout" if descriptor == 1 else printable_path(name)
            raise ConfigRefused(f"{what} is closed", hint="-o FILE writes to a file") from error
    output = output_named(name, crawl="", leave=Leave(overwrite=overwrite))
    if isinstance(output, OutputFile):
        output.check(begins=begins)


def _descriptor(name: str) -> int | None:
    if name in _STANDARD:
        return _STANDARD[name]
    match = _DESCRIPTOR.fullmatch(name)
    return int(match[1]) if match else None


def _kind(name: str) -> int:
    try:
        return os.stat(name).st_mode  # noqa: PTH116 - a name with a NUL or of bytes is judged here as well
    except (FileNotFoundError, PermissionError, NotADirectoryError):
        return 0  # said in full when the file is opened
    except (OSError, ValueError) as error:
        raise ConfigRefused(f"{printable_path(name)} cannot be written: {error}") from error
