"""Output that may lose its reader: `| head` ends what is printed, not what the exit code says."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def while_read() -> Iterator[None]:
    """Run a block that prints to stdout; leave it quietly once nobody reads stdout any more."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        # what is buffered has nowhere to go: at exit Python would try once more, and complain
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
