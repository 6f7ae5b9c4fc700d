"""Bodies that are too much: made piece by piece, so that the server never holds one.

Each function returns an iterator; what it yields is what `Reply.pieces` sends. All are the same on each call.
"""

from __future__ import annotations

import hashlib
import itertools
import struct
import zlib
from collections.abc import Iterable, Iterator
from typing import Final, Literal, Protocol

import brotli
import zstandard

Coding = Literal["gzip", "br", "zstd"]

MIB: Final = 1 << 20
PIECE_BYTES: Final = 64 << 10
BOMB_BYTES: Final = 500 * MIB

_ZEROS: Final = bytes(MIB)


class _Coder(Protocol):
    """Compresses piece by piece; a piece may give nothing yet."""

    def compress(self, data: bytes, /) -> bytes: ...

    def flush(self) -> bytes: ...


class _Brotli:
    def __init__(self) -> None:
        self._coder = brotli.Compressor(quality=5)

    def compress(self, data: bytes, /) -> bytes:
        coded: bytes = self._coder.process(data)
        return coded

    def flush(self) -> bytes:
        coded: bytes = self._coder.finish()
        return coded


def _coder(coding: Coding) -> _Coder:
    match coding:
        case "gzip":
            return zlib.compressobj(9, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
        case "br":
            return _Brotli()
        case "zstd":
            return zstandard.ZstdCompressor(level=3).compressobj()


def coded(coding: Coding, pieces: Iterable[bytes]) -> Iterator[bytes]:
    """`pieces` under a content coding (RFC 9110, 8.4.1; RFC 7932; RFC 8878), compressed as they are asked for."""
    coder = _coder(coding)
    for piece in pieces:
        yield coder.compress(piece)
    yield coder.flush()


def bomb(*codings: Coding, size_bytes: int = BOMB_BYTES) -> Iterator[bytes]:
    """`size_bytes` of zeros (whole MiB) under `codings`, the first applied first."""
    mebibytes = size_bytes // MIB
    first, *further = codings
    pieces = (
        _gzip_of_zeros(mebibytes) if first == "gzip" else coded(first, itertools.repeat(_ZEROS, mebibytes))
    )
    for coding in further:
        pieces = coded(coding, pieces)
    return pieces


def _gzip_of_zeros(mebibytes: int) -> Iterator[bytes]:
    """The same as `coded` gives, ten times as fast: one block is made, and sent again and again (RFC 1951, 2)."""
    coder = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    block = coder.compress(_ZEROS) + coder.flush(zlib.Z_FULL_FLUSH)
    checksum = 0
    yield b"\x1f\x8b\x08" + bytes(6) + b"\xff"
    for _ in range(mebibytes):
        checksum = zlib.crc32(_ZEROS, checksum)
        yield block
    yield coder.flush() + struct.pack("<II", checksum, mebibytes * MIB & 0xFFFFFFFF)


def filler(size_bytes: int) -> Iterator[bytes]:
    """HTML of about `size_bytes`: a head, then paragraphs, in whole pieces."""
    yield b"<!doctype html><title>long</title>"
    paragraph = b"<p>" + b"All work and no play makes Jack a dull boy. " * 30 + b"</p>\n"
    piece = paragraph * (PIECE_BYTES // len(paragraph))
    yield from itertools.repeat(piece, size_bytes // len(piece) + 1)


def repeated(text: bytes, times: int, *, head: bytes = b"", tail: bytes = b"") -> Iterator[bytes]:
    """`head`, `text` so many times, `tail`."""
    yield head
    a_piece = max(PIECE_BYTES // len(text), 1)
    yield from itertools.repeat(text * a_piece, times // a_piece)
    yield text * (times % a_piece)
    yield tail


def numbered(text: str, times: int, *, head: bytes = b"", tail: bytes = b"") -> Iterator[bytes]:
    """`head`, then `text` with its `{}` numbered from 0, `tail`."""
    yield head
    for first in range(0, times, 2_000):
        yield "".join(text.format(number) for number in range(first, min(first + 2_000, times))).encode()
    yield tail


def noise(size_bytes: int) -> bytes:
    """Bytes without pattern, the same each time."""
    return hashlib.shake_128(b"mannerly").digest(size_bytes)
