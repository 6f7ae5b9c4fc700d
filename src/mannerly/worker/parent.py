"""A worker ends with its coordinator. Apart and light: it comes before everything else that a worker imports.

A worker inherits the state's lock, and a coordinator that starts after the death of another waits for it. So a worker
whose parent dies while it is still importing must not hold it until it comes to read its pipe.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
from typing import Final

PR_SET_PDEATHSIG: Final = 1


def end_with_parent(pipe: int = 0) -> None:
    """Have the kernel kill this process when its parent dies (Linux); end now if it has died already.

    pipe: where tasks come from; its other end is closed once the parent is dead, which is what ends a worker on other
    systems, too. Ctrl-C reaches every process of a terminal; what it means is the coordinator's to decide.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    hung_up = select.poll()
    hung_up.register(pipe, 0)  # POLLHUP is told unasked; not POLLIN: orders may wait in the pipe
    if hung_up.poll(0):
        os._exit(0)
