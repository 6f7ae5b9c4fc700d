"""A lane: one thread that makes one thing's blocking calls, in order, while the event loop goes on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")

_Call = tuple[Callable[[], Any], asyncio.AbstractEventLoop, "asyncio.Future[Any]"]


class Lane:
    """Calls made through one lane run one after another, never at once.

    The thread is a daemon and begins with the first call. An executor's threads are waited for when the process ends:
    one that writes to a pipe whose reader has stopped reading would keep the process from ever ending.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._ended = False

    def __repr__(self) -> str:
        return f"<Lane {self._name} {self._calls.qsize()} waiting{', ended' if self._ended else ''}>"

    async def call(self, function: Callable[[], T]) -> T:
        """Return what `function` returns, or raise what it raises. A cancelled call still runs to its end."""
        if self._ended:
            raise RuntimeError(f"the lane {self._name} has ended")
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name=f"lane {self._name}", daemon=True)
            self._thread.start()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        self._calls.put((function, loop, answer))
        return await answer

    def end(self) -> None:
        """Let the thread end after the calls made before; does not wait for it."""
        self._ended = True
        self._calls.put(None)

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            function, loop, answer = call
            try:
                outcome: Any = function()
                failed = None
            except BaseException as error:  # noqa: BLE001 - raised again where the call is awaited
                outcome, failed = None, error
            _tell(loop, answer, outcome, failed)


def _tell(
    loop: asyncio.AbstractEventLoop,
    answer: asyncio.Future[Any],
    outcome: Any,
    failed: BaseException | None,
) -> None:
    def settle() -> None:
        if answer.cancelled():
            return
        if failed is None:
            answer.set_result(outcome)
        else:
            answer.set_exception(failed)

    try:
        loop.call_soon_threadsafe(settle)
    except RuntimeError:
        return  # the loop was closed while the call ran: nobody is left to be told
