"""Content codings (RFC 9110, 8.4), undone under a limit on what comes out. Never raises on what a server sends.

A small body can unpack to half a gigabyte (16 KiB of zstd to 511 MiB, measured), so every step asks its library for a
bounded piece of output and stops when the sum is reached; memory stays near the limit. Browsers' tolerance is kept:
`deflate` with or without its zlib wrapper, data after the end of a gzip or deflate stream, and a body that is not coded
as declared, which is given as it came and marked.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Literal, Protocol

import brotli
import zstandard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Cut = Literal["body", "coding"]
"""Why a decoded body is not whole: the limit on output was reached, or the coding is not what was declared."""

MAX_CODINGS = 3
RATIO_FREE_BYTES = 1024 * 1024
"""Output below this is not held against the ratio: short runs of one byte are no bomb."""
ZSTD_WINDOW_BYTES = (
    8 * 1024 * 1024
)  # RFC 8878, 3.1.1.1.2: what every decoder should support; browsers take no more

_PIECE_BYTES = 64 * 1024
_ALIASES = {"x-gzip": "gzip", "": "identity", "none": "identity"}


def codings(content_encoding: Iterable[str]) -> tuple[str, ...]:
    """Return the codings named by all Content-Encoding values in the order they were applied, `identity` left out."""
    names = (name.strip(" \t").lower() for value in content_encoding for name in value.split(","))
    known = (_ALIASES.get(name, name) for name in names)
    return tuple(name for name in known if name != "identity")


class Decoder:
    """Undoes the codings of one body as it arrives.

    `feed` and `finish` return decoded bytes, in all at most `limit_bytes`. After `stopped` is "body" more input is
    ignored: the transfer may end. With "coding" it still counts: the rest comes as it is or is dropped.
    The output of each step, also between two codings, is bounded by `limit_bytes`, and the decoded body by `ratio`
    times the input once it is over `RATIO_FREE_BYTES`.
    """

    __slots__ = ("_came", "_emitted", "_first", "_limit_bytes", "_out", "_ratio", "stopped")

    def __init__(self, codings: tuple[str, ...], *, limit_bytes: int, ratio: int = 100) -> None:
        self.stopped: Cut | None = None
        self._limit_bytes = limit_bytes
        self._ratio = ratio
        self._came = 0
        self._emitted = 0
        self._out: list[bytes] = []
        self._first: Callable[[bytes], None] = self._emit
        self._chain(codings)

    def feed(self, data: bytes) -> bytes:
        """Take the next bytes of the body as transferred; return what they decode to."""
        if self.stopped == "body":
            return b""
        self._came += len(data)
        return self._collect(lambda: self._first(data))

    def finish(self) -> bytes:
        """Say that the body has ended; return what was held back. A stream that has not ended is marked."""
        if self.stopped == "body" or self._first == self._emit:
            return b""
        return self._collect(self._end)

    def _chain(self, codings: tuple[str, ...]) -> None:
        if len(codings) > MAX_CODINGS or any(name not in _STREAMS for name in codings):
            self.stopped = "coding"
            return
        # the first coding named was applied first, so it is undone last
        for name in codings:
            layer = _Layer(_STREAMS[name], self._first, self._limit_bytes, self._mark)
            self._first = layer.feed

    def _collect(self, work: Callable[[], None]) -> bytes:
        try:
            work()
        except _Full:
            self.stopped = "body"
        out = b"".join(self._out)
        self._out.clear()
        return out

    def _emit(self, data: bytes) -> None:
        room = self._limit_bytes - self._emitted
        if len(data) > room:
            self._out.append(data[:room])
            self._emitted = self._limit_bytes
            raise _Full
        self._out.append(data)
        self._emitted += len(data)
        if self._emitted > max(RATIO_FREE_BYTES, self._ratio * self._came):
            raise _Full

    def _end(self) -> None:
        layer: object = getattr(self._first, "__self__", None)
        while isinstance(layer, _Layer):
            layer.finish()
            layer = getattr(layer.emit, "__self__", None)

    def _mark(self) -> None:
        self.stopped = "coding"


class _Full(Exception):
    """No more output is wanted."""


class _Malformed(Exception):
    """The bytes are not in the coding that was declared."""


class _Stream(Protocol):
    """One compressed stream. `feed` hands every piece of output to `emit`, each of a bounded size."""

    @property
    def whole(self) -> bool:
        """True if the stream has come to its own end."""

    def feed(self, data: bytes, emit: Callable[[bytes], None]) -> None:
        """Decode `data`; raises `_Malformed`."""


class _Layer:
    """One coding of a body: a stream, or the bytes as they came once it turns out to be none."""

    __slots__ = ("_emitted", "_held", "_held_bytes", "_limit_bytes", "_mark", "_state", "_stream", "emit")

    def __init__(
        self,
        stream: Callable[[], _Stream],
        emit: Callable[[bytes], None],
        limit_bytes: int,
        mark: Callable[[], None],
    ) -> None:
        self.emit = emit
        self._stream = stream()
        self._limit_bytes = limit_bytes
        self._mark = mark
        self._emitted = 0
        self._held: list[bytes] = []  # input so far, kept while nothing has come out
        self._held_bytes = 0
        self._state: Literal["decode", "as it came", "drop"] = "decode"

    def feed(self, data: bytes) -> None:
        if self._state == "as it came":
            self.emit(data)
        elif self._state == "decode" and data:
            self._hold(data)
            try:
                self._stream.feed(data, self._pass_on)
            except _Malformed:
                self._give_up()

    def finish(self) -> None:
        if self._state == "decode" and self._held_bytes and not self._stream.whole:
            self._give_up()

    def _hold(self, data: bytes) -> None:
        self._held_bytes += len(data)
        if not self._emitted and self._held_bytes <= self._limit_bytes + _PIECE_BYTES:
            self._held.append(data)

    def _pass_on(self, data: bytes) -> None:
        if not self._emitted:
            self._held.clear()
        self._emitted += len(data)
        self.emit(data)
        if self._emitted > self._limit_bytes:  # between two codings, where the last one may put out nothing
            raise _Full

    def _give_up(self) -> None:
        self._mark()
        if self._emitted:
            self._state = "drop"
            return
        self._state = "as it came"
        held, self._held = self._held, []
        for data in held:
            self.emit(data)


class _Zlib:
    """gzip (RFC 1952, members one after the other) and deflate (RFC 1950, and RFC 1951 without the wrapper)."""

    __slots__ = ("_coding", "_head", "_object", "whole")

    def __init__(self, coding: Literal["gzip", "deflate"]) -> None:
        self.whole = False
        self._coding = coding
        self._head = b""
        self._object: zlib._Decompress | None = None

    def feed(self, data: bytes, emit: Callable[[bytes], None]) -> None:
        if self.whole:
            return
        while data:
            if self._object is None:
                data, self._head = self._head + data, b""
                if len(data) < 2:
                    self._head = data
                    return
                self._object = zlib.decompressobj(self._wbits(data))
            data = self._inflate(self._object, data, emit)

    def _inflate(self, stream: zlib._Decompress, data: bytes, emit: Callable[[bytes], None]) -> bytes:
        while True:
            try:
                out = stream.decompress(data, _PIECE_BYTES)
            except zlib.error as error:
                raise _Malformed(str(error)) from error
            if out:
                emit(out)
            if stream.eof:
                return self._next_member(stream.unused_data)
            data = stream.unconsumed_tail
            if not data and len(out) < _PIECE_BYTES:
                return b""

    def _next_member(self, rest: bytes) -> bytes:
        if self._coding == "gzip" and rest.startswith(b"\x1f\x8b"):
            self._object = None
            return rest
        self.whole = True  # what follows the end is ignored, as browsers do
        return b""

    def _wbits(self, head: bytes) -> int:
        if self._coding == "gzip":
            if not head.startswith(b"\x1f\x8b"):
                raise _Malformed("no gzip magic")
            return 16 + zlib.MAX_WBITS
        wrapped = head[0] & 0x0F == 8 and (head[0] << 8 | head[1]) % 31 == 0
        return zlib.MAX_WBITS if wrapped else -zlib.MAX_WBITS


class _Brotli:
    """br (RFC 7932); the window is at most 16 MiB by the format."""

    __slots__ = ("_object",)

    def __init__(self) -> None:
        self._object = brotli.Decompressor()

    @property
    def whole(self) -> bool:
        return bool(self._object.is_finished())

    def feed(self, data: bytes, emit: Callable[[bytes], None]) -> None:
        while not self._object.is_finished():
            try:
                out = self._object.process(data, output_buffer_limit=_PIECE_BYTES)
            except brotli.error as error:
                raise _Malformed(str(error)) from error
            if out:
                emit(out)
            elif self._object.can_accept_more_data():
                return
            data = b""  # output is held back even where more input is welcome: ask until none comes


class _Zstd:
    """zstd (RFC 8878), frames one after the other.

    The library gives all output of an input at once. A block is 4 bytes or more and puts out at most 128 KiB, so the
    input is cut into slices: of at most 1 MiB of output, or 8 MiB where the body has not shrunk much so far.
    """

    __slots__ = ("_between", "_object")

    _SLICE_BYTES = 32
    _LONG_SLICE_BYTES = 256

    def __init__(self) -> None:
        self._object = self._frame()
        self._between = True  # no byte of the current frame has come

    @property
    def whole(self) -> bool:
        return self._between

    def feed(self, data: bytes, emit: Callable[[bytes], None]) -> None:
        step, at = self._SLICE_BYTES, 0
        while at < len(data):
            piece = data[at : at + step]
            at += step
            out = self._decompress(piece, emit)
            # a body that shrinks by less than 64 is no bomb: take longer slices until it becomes one
            step = self._LONG_SLICE_BYTES if out < 64 * len(piece) else self._SLICE_BYTES

    def _decompress(self, piece: bytes, emit: Callable[[bytes], None]) -> int:
        total = 0
        while piece:
            try:
                out = self._object.decompress(piece)
            except zstandard.ZstdError as error:
                raise _Malformed(str(error)) from error
            total += len(out)
            if out:
                emit(out)
            self._between = self._object.eof
            if not self._between:
                break
            piece = self._object.unused_data
            self._object = self._frame()
        return total

    @staticmethod
    def _frame() -> zstandard.ZstdDecompressionObj:
        return zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW_BYTES).decompressobj()


_STREAMS: dict[str, Callable[[], _Stream]] = {
    "gzip": lambda: _Zlib("gzip"),
    "deflate": lambda: _Zlib("deflate"),
    "br": _Brotli,
    "zstd": _Zstd,
}
