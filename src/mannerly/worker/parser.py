"""The parser: a process of a worker's own that reads heavy pages, one at a time, until the pipe closes.

Answers come on stdin, what they say goes to stdout. It holds no state and no descriptor but those and stderr. Before
each page it asks the kernel to end it once the page has taken too much CPU: that holds whatever becomes of its worker.
"""

from __future__ import annotations

import ctypes
import math
import os
import resource
from collections.abc import Callable
from typing import Final

from mannerly.model.answer import Answer, ParserReady
from mannerly.model.errors import WireError
from mannerly.model.result import Failed, Failure, Fetched, Refused
from mannerly.worker.process import READ_BYTES, Reader, claim_pipes
from mannerly.worker.read import read_page

# The costliest page that is known takes 2 s (its tags are cut at a million); five times that is a page made to cost.
CPU_S: Final = 10


Frame = Callable[[ParserReady | Fetched | Refused | Failed], bytes]


def parse_pages(reader: Reader, frame: Frame, *, cpu_s: int = CPU_S) -> None:
    """Read pages until stdin closes. Ends by SIGXCPU in the page that takes more than `cpu_s` (to the next second)."""
    descriptor, out = claim_pipes()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a page that ends us leaves no 600 MB behind
    _write_all(out.fileno(), frame(ParserReady()))
    while chunk := os.read(descriptor, READ_BYTES):
        for answer in reader.feed(chunk):
            if not isinstance(answer, Answer):
                raise WireError(f"a {type(answer).__name__} where an answer was due")
            limit_cpu(cpu_s)
            _write_all(out.fileno(), _read(answer, frame))
            del answer
            give_back()


def _read(answer: Answer, frame: Frame) -> bytes:
    try:
        return frame(read_page(answer))
    except WireError as error:
        return frame(Failed(failure=Failure.TOO_COSTLY, detail=str(error), sent=True))


def give_back() -> None:
    """Give free memory back to the system: the next page is watched from what this process holds then (glibc alone)."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def limit_cpu(seconds: int) -> None:
    """Have the kernel end this process once it has used so many seconds of CPU more; whole seconds are all it counts."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    most = math.ceil(used.ru_utime + used.ru_stime) + seconds
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(
        resource.RLIMIT_CPU, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard)
    )


def _write_all(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]
