"""Heavy pages, parsed aside: in a process of the worker's own, one at a time, watched.

So a page holds up neither the worker's loop nor its other hosts, whatever it costs; and where it costs too much or ends
the process that parses it, nobody else loses anything.

    page -> put (in memory, or on disk where many wait) -> its turn -> the parser, started on first need -> outcome

A page over its memory, CPU or time ends `too-costly` with its parser. A parser that ends by itself in a page is replaced
and the page tried once more; it ends `kills-worker` if that one ends too.
"""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import IO, Final, Self

from mannerly.model.answer import Answer, ParserReady
from mannerly.model.errors import WireError
from mannerly.model.result import Failed, Failure, Fetched, Outcome, Refused, Unknown
from mannerly.worker.memory import HAS_PROC, resident_bytes
from mannerly.worker.process import READ_BYTES, Reader

# Waiting pages are kept in memory up to this, three or four of the largest; what comes then waits on disk.
WAITING_BYTES: Final = 32 << 20
# How long a page waits for its turn. Turn, and a death in each of two tries, must end before the coordinator takes the
# worker for stuck: 120 s after the exchange.
TURN_S: Final = 35.0
# Wall clock of one page, for a parser that is stopped or starved; CPU is limited by the kernel (`parser`).
WALL_S: Final = 40.0
# 10 MiB of the costliest page known, words without markup that are not all ASCII, need 575 MiB; of markup 520.
MEMORY_BYTES: Final = 600 << 20
# a parser that holds on to more once its page is done is not used again: the next page is not to pay for it
KEPT_BYTES: Final = 128 << 20
# the parser allocates at most a GB a second: it is some 50 MB over its bound when that is seen
WATCH_S: Final = 0.05 if HAS_PROC else 0.5
# a busy machine takes seconds to start a process
START_S: Final = 30.0
# a process that dies closes its output a moment before its exit code is known
LAST_WORDS_S: Final = 1.0
TRIES: Final = 2


@dataclass(frozen=True, slots=True)
class Bounds:
    """What one page may cost its parser."""

    memory_bytes: int = MEMORY_BYTES
    wall_s: float = WALL_S
    turn_s: float = TURN_S
    waiting_bytes: int = WAITING_BYTES


class _Parser:
    """One parser process. `over` says why it was killed, '' if it was not."""

    def __init__(self, process: asyncio.subprocess.Process, reader: Reader) -> None:
        self.process = process
        self.over = ""
        self._reader = reader

    async def word(self) -> object | None:
        """Wait for its next word; None once it has closed its output or said what cannot be read."""
        pipe = self.process.stdout
        assert pipe is not None
        try:
            while chunk := await pipe.read(READ_BYTES):
                for word in self._reader.feed(chunk):
                    return word
        except WireError:
            pass  # it is ended by whoever waits for the word, as is one that has closed its output
        return None

    def say(self, frame: bytes) -> None:
        """Hand it a frame; one that has died meanwhile is noticed by its silence."""
        pipe = self.process.stdin
        assert pipe is not None
        pipe.write(frame)

    def kill(self) -> None:
        """Kill it, unless its end is known."""
        if self.process.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.process.pid, signal.SIGKILL)

    async def end(self, grace_s: float = 0.0) -> int:
        """Kill it, unless it ends by itself within `grace_s`; return its exit code."""
        if grace_s:
            with suppress(TimeoutError):
                async with asyncio.timeout(grace_s):
                    await self.process.wait()
        self.kill()
        code = await self.process.wait()
        assert self.process.stdin is not None
        self.process.stdin.close()
        return code


class Aside:
    """Reads heavy pages in one parser process. `command` starts it, `reader` and `frame` are the codec of its pipe."""

    def __init__(
        self,
        command: Sequence[str],
        reader: Callable[[], Reader],
        frame: Callable[[Answer], bytes],
        *,
        bounds: Bounds | None = None,
    ) -> None:
        self._command = tuple(command)
        self._reader = reader
        self._frame = frame
        self._bounds = bounds or Bounds()
        self._turn = asyncio.Lock()
        self._waiting_bytes = 0
        self._parser: _Parser | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._drop()

    def put(self, answer: Answer) -> bytes | IO[bytes] | Failed:
        """Take a page in; what comes back is to be handed to `read`. It is in memory, or on disk where many wait."""
        try:
            frame = self._frame(answer)
        except WireError as error:
            return Failed(failure=Failure.TOO_COSTLY, detail=str(error), sent=True)
        if self._waiting_bytes + len(frame) > self._bounds.waiting_bytes:
            with suppress(OSError):  # what the disk does not take stays in memory
                return _on_disk(frame)
        self._waiting_bytes += len(frame)
        return frame

    async def read(self, page: bytes | IO[bytes] | Failed) -> Outcome:
        """Return what the page says, or why that is not known. Nobody has to wait for long: see the bounds."""
        if isinstance(page, Failed):
            return page
        try:
            async with self._in_turn():
                if not isinstance(page, bytes):
                    with page:
                        page = page.read()
                    self._waiting_bytes += len(page)
                return await self._read(page)
        except TimeoutError:
            return Unknown(detail=f"no parser was free within {self._bounds.turn_s:.0f} s")
        except OSError as error:
            return Unknown(detail=f"nothing could parse the page: {error}")
        finally:
            if isinstance(page, bytes):
                self._waiting_bytes -= len(page)
            else:
                page.close()

    @asynccontextmanager
    async def _in_turn(self) -> AsyncIterator[None]:
        """Wait for the turn; raise TimeoutError if it does not come."""
        async with asyncio.timeout(self._bounds.turn_s):
            await self._turn.acquire()
        try:
            yield
        finally:
            self._turn.release()

    async def _read(self, frame: bytes) -> Outcome:
        code = 0
        for _ in range(TRIES):
            parser = await self._ready()
            if parser is None:
                return Unknown(detail="the parser did not come up")
            word = await self._ask(parser, frame)
            if isinstance(word, Fetched | Refused | Failed):
                if await resident_bytes(parser.process.pid) > KEPT_BYTES:
                    await self._drop()
                return word
            code = await self._drop(0.0 if parser.over else LAST_WORDS_S)
            if code == -signal.SIGXCPU:
                parser.over = "more CPU than a page may take"
            if parser.over:
                return Failed(failure=Failure.TOO_COSTLY, detail=parser.over, sent=True)
        return Failed(
            failure=Failure.KILLS_WORKER, detail=f"it ended its parser {_end_of(code)}, twice", sent=True
        )

    async def _ask(self, parser: _Parser, frame: bytes) -> object | None:
        """Return the parser's word on the page; None if it ended, or was ended, in it."""
        async with asyncio.TaskGroup() as group:
            watch = group.create_task(self._watch(parser), name="parser's watch")
            parser.say(frame)
            word = await parser.word()
            watch.cancel()
        return word

    async def _watch(self, parser: _Parser) -> None:
        """Kill the parser once it takes too much memory or time."""
        loop, bounds = asyncio.get_running_loop(), self._bounds
        ends_at = loop.time() + bounds.wall_s
        while not parser.over:
            await asyncio.sleep(WATCH_S)
            if loop.time() > ends_at:
                parser.over = f"more than {bounds.wall_s:.0f} s"
            held = await resident_bytes(parser.process.pid)
            if held > bounds.memory_bytes:
                parser.over = f"{held >> 20} MiB of memory; {bounds.memory_bytes >> 20} are allowed"
        parser.kill()

    async def _ready(self) -> _Parser | None:
        """Return the parser that lives, or a new one; None if it does not come up. Raises OSError."""
        if self._parser is not None and self._parser.process.returncode is None:
            return self._parser
        # it inherits our stderr and nothing else: of the state's lock, which we hold, it knows nothing
        process = await asyncio.create_subprocess_exec(
            *self._command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=READ_BYTES
        )
        self._parser = _Parser(process, self._reader())
        with suppress(TimeoutError):
            async with asyncio.timeout(START_S):
                if isinstance(await self._parser.word(), ParserReady):
                    return self._parser
        await self._drop()
        return None

    async def _drop(self, grace_s: float = 0.0) -> int:
        """End the parser and return its exit code, 0 if there is none."""
        parser, self._parser = self._parser, None
        return await parser.end(grace_s) if parser is not None else 0

    def __repr__(self) -> str:
        pid = self._parser.process.pid if self._parser is not None else "none"
        return f"<Aside parser {pid}, {self._waiting_bytes} bytes waiting>"


def _on_disk(frame: bytes) -> IO[bytes]:
    """Return a file without a name that holds the frame."""
    file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by whoever reads it
    try:
        file.write(frame)
        file.seek(0)
    except OSError:
        file.close()
        raise
    return file


def _end_of(code: int) -> str:
    """Return an exit code in words."""
    return f"by {signal.Signals(-code).name}" if code < 0 else f"with code {code}"
