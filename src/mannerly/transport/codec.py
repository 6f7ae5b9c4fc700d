"""Message <-> bytes. One form for pipes and broker; both sides treat the other's bytes as hostile.

    message = version (1 byte) kind (1 byte) body (MessagePack of the Struct, array-like)
    frame   = length (4 bytes, big endian) message          on pipes; a broker delimits messages itself

Bounds stand in the Structs (`model.task`, `model.result`) and are checked on decoding; a frame's length is checked
before its bytes are read. A message of another version is refused, never guessed at.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import Any, Final

import msgspec

from mannerly.model.errors import WireError
from mannerly.model.orders import WorkerOrders
from mannerly.model.result import MAX_RESULT_BYTES, Result
from mannerly.model.task import Task

VERSION: Final = 1
LENGTH_BYTES: Final = 4
MAX_MESSAGE_BYTES: Final = MAX_RESULT_BYTES + (1 << 20)

Message = Task | Result | WorkerOrders


class Kind(IntEnum):
    """Second byte of a message."""

    ORDERS = 1
    TASK = 2
    RESULT = 3


_encoder = msgspec.msgpack.Encoder()
_decoders: Final[dict[Kind, msgspec.msgpack.Decoder[Any]]] = {
    Kind.ORDERS: msgspec.msgpack.Decoder(WorkerOrders),
    Kind.TASK: msgspec.msgpack.Decoder(Task),
    Kind.RESULT: msgspec.msgpack.Decoder(Result),
}
_heads: Final = {
    WorkerOrders: bytes((VERSION, Kind.ORDERS)),
    Task: bytes((VERSION, Kind.TASK)),
    Result: bytes((VERSION, Kind.RESULT)),
}


def encode(message: Message) -> bytes:
    """Return the message's bytes; raise WireError if they are more than a message may have, or no UTF-8 holds its text."""
    try:
        body = _heads[type(message)] + _encoder.encode(message)
    except UnicodeEncodeError as error:
        raise WireError(f"a {type(message).__name__} cannot be sent: {error}") from error
    if len(body) > MAX_MESSAGE_BYTES:
        raise WireError(
            f"a {type(message).__name__} of {len(body)} bytes is over the bound of {MAX_MESSAGE_BYTES}"
        )
    return body


def decode(message: bytes | memoryview) -> Message:
    """Return the message that bytes hold; raise WireError for anything but one of ours within its bounds."""
    if len(message) > MAX_MESSAGE_BYTES:
        raise WireError(f"a message of {len(message)} bytes is over the bound of {MAX_MESSAGE_BYTES}")
    if len(message) < 2 or message[0] != VERSION:
        version = message[0] if len(message) else None
        raise WireError(f"a message of version {version}; this side speaks version {VERSION}")
    try:
        decoded: Message = _decoders[Kind(message[1])].decode(message[2:])
    except (ValueError, msgspec.MsgspecError, RecursionError) as error:
        raise WireError(f"a message of {len(message)} bytes is refused: {error}") from error
    return decoded


def frame(message: Message) -> bytes:
    """Return the message as a frame for a pipe."""
    body = encode(message)
    return len(body).to_bytes(LENGTH_BYTES, "big") + body


class FrameCutter:
    """Cuts a byte stream into the bodies of frames. Holds at most one unfinished frame, of `most_bytes` at most."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._buffer = bytearray()

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Take bytes as they came; yield the bodies that are whole. Raises WireError; the stream is then lost."""
        self._buffer += chunk
        while len(self._buffer) >= LENGTH_BYTES:
            length = int.from_bytes(self._buffer[:LENGTH_BYTES], "big")
            if not 2 <= length <= self._most_bytes:
                raise WireError(f"a frame that says it has {length} bytes")
            if len(self._buffer) < LENGTH_BYTES + length:
                break
            yield self._take(
                LENGTH_BYTES + length
            )  # held by nobody here while it is worked on: it may be large

    def _take(self, end: int) -> bytes:
        """Take a frame out of the buffer (to delete at its front costs nothing); return its body."""
        with memoryview(self._buffer) as view:
            message = bytes(view[LENGTH_BYTES:end])
        del self._buffer[:end]
        return message

    def __repr__(self) -> str:
        return f"{len(self._buffer)} bytes unfinished"


class FrameReader:
    """Reads the messages between a coordinator and its workers out of a byte stream."""

    def __init__(self) -> None:
        self._cutter = FrameCutter(MAX_MESSAGE_BYTES)

    def feed(self, chunk: bytes) -> Iterator[Message]:
        """Take bytes as they came; yield the messages that are whole. Raises WireError; the stream is then lost."""
        return map(decode, self._cutter.feed(chunk))

    def __repr__(self) -> str:
        return f"<FrameReader {self._cutter!r}>"
