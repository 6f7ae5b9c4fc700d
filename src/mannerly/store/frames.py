"""How frames lie in a segment of the journal: bytes in, bytes out, no file.

    segment:  "mnlyseg\\n", format u32, number u32, size of the segment before it u64, check u64
    frame:    magic u32, length u32, head check u32, zero u32, body check u64, then `length` bytes of MessagePack

Numbers are little-endian. Every check is XXH3-64 of what it guards, seeded with the place it stands at: a copy of a
frame inside a page, however it got there, is no frame. The head's own check bounds the search after damage: a false
magic costs one short hash, never a read of the length it claims.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

import xxhash

FORMAT: Final = 1
MAX_FRAME_BYTES: Final = 64 << 20
"""A result is at most 15 MiB on the wire; a longer length is damage."""

_SEGMENT: Final = struct.Struct("<8sIIQQ")
_SEGMENT_MAGIC: Final = b"mnlyseg\n"
SEGMENT_HEAD_BYTES: Final = _SEGMENT.size

_HEAD: Final = struct.Struct("<4sIIIQ")
MAGIC: Final = b"\xf0MF\x0d"  # 0xf0 M is no UTF-8, so no text holds it
HEAD_BYTES: Final = _HEAD.size


@dataclass(frozen=True, slots=True)
class SegmentHead:
    """What a segment says of itself."""

    format: int
    number: int
    size_before: int


@dataclass(frozen=True, slots=True)
class FrameHead:
    """A frame's head that passed its check."""

    length: int
    body_check: int


def segment_head(number: int, size_before: int) -> bytes:
    """Return the first bytes of segment `number`, whose predecessor has `size_before` bytes."""
    body = _SEGMENT.pack(_SEGMENT_MAGIC, FORMAT, number, size_before, 0)[:-8]
    return body + struct.pack("<Q", xxhash.xxh3_64_intdigest(body, number))


def read_segment_head(raw: bytes, number: int) -> SegmentHead | None:
    """Return the head of segment `number`, None if it is damaged."""
    if len(raw) < SEGMENT_HEAD_BYTES:
        return None
    magic, format_, found, size_before, check = _SEGMENT.unpack_from(raw)
    if magic != _SEGMENT_MAGIC or found != number:
        return None
    if check != xxhash.xxh3_64_intdigest(raw[: SEGMENT_HEAD_BYTES - 8], number):
        return None
    return SegmentHead(format_, found, size_before)


def frame_head(body: bytes, segment: int, offset: int) -> bytes:
    """Return the head of a frame that begins at `offset`. Raises ValueError for a body over MAX_FRAME_BYTES."""
    if len(body) > MAX_FRAME_BYTES:
        raise ValueError(f"a frame of {len(body)} bytes is over the limit of {MAX_FRAME_BYTES}")
    place = _place(segment, offset)
    return _HEAD.pack(
        MAGIC, len(body), _head_check(len(body), place), 0, xxhash.xxh3_64_intdigest(body, place)
    )


def read_frame_head(raw: bytes, segment: int, offset: int) -> FrameHead | None:
    """Return the head of the frame that begins at `offset`, None if none does or its head is damaged."""
    if len(raw) < HEAD_BYTES:
        return None
    magic, length, check, zero, body_check = _HEAD.unpack_from(raw)
    if magic != MAGIC or zero or length > MAX_FRAME_BYTES:
        return None
    if check != _head_check(length, _place(segment, offset)):
        return None
    return FrameHead(length, body_check)


def is_whole(body: bytes, head: FrameHead, segment: int, offset: int) -> bool:
    """True if the body is the one that was written under `head` at this place."""
    if len(body) != head.length:
        return False
    return xxhash.xxh3_64_intdigest(body, _place(segment, offset)) == head.body_check


def _place(segment: int, offset: int) -> int:
    return (segment << 36 ^ offset) & 0xFFFF_FFFF_FFFF_FFFF


def _head_check(length: int, place: int) -> int:
    return xxhash.xxh3_64_intdigest(length.to_bytes(4, "little"), place) & 0xFFFF_FFFF
