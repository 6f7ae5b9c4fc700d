"""The pipe between a worker and its parser: an answer one way, what it says the other.

Frames are those of `codec`: length, version, kind, MessagePack. Another bound holds for them, since an answer may be as
large as a body may be. The parser's words are hostile to the worker as a worker's are to its coordinator: the page may
have made it say them.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import Any, Final

import msgspec

from mannerly.model.answer import Answer, ParserReady
from mannerly.model.errors import WireError
from mannerly.model.result import Failed, Fetched, Refused
from mannerly.model.task import MAX_BODY_BYTES, MAX_HEADERS_BYTES
from mannerly.transport.codec import LENGTH_BYTES, MAX_MESSAGE_BYTES, VERSION, FrameCutter

# body, headers, and what the task wants of them: at most 256 selectors and 256 parameters of 4 KiB
MAX_ANSWER_BYTES: Final = MAX_BODY_BYTES + MAX_HEADERS_BYTES + (4 << 20)

Word = Answer | ParserReady | Fetched | Refused | Failed


class Kind(IntEnum):
    """Second byte of a word. Apart from those of `codec.Kind`: neither side takes the other pipe's messages."""

    ANSWER = 17
    READY = 18
    FETCHED = 19
    REFUSED = 20
    FAILED = 21


_encoder = msgspec.msgpack.Encoder()
_kinds: Final[dict[type[Word], Kind]] = {
    Answer: Kind.ANSWER,
    ParserReady: Kind.READY,
    Fetched: Kind.FETCHED,
    Refused: Kind.REFUSED,
    Failed: Kind.FAILED,
}
_decoders: Final[dict[Kind, msgspec.msgpack.Decoder[Any]]] = {
    kind: msgspec.msgpack.Decoder(word) for word, kind in _kinds.items()
}


def frame(word: Word) -> bytes:
    """Return the word as a frame; raise WireError if it is over its bound, or no UTF-8 holds its text."""
    kind = _kinds[type(word)]
    body = bytearray((0, 0, 0, 0, VERSION, kind))
    try:
        _encoder.encode_into(word, body, len(body))
    except UnicodeEncodeError as error:
        raise WireError(f"a {type(word).__name__} cannot be sent: {error}") from error
    length, most = len(body) - LENGTH_BYTES, MAX_ANSWER_BYTES if kind is Kind.ANSWER else MAX_MESSAGE_BYTES
    if length > most:
        raise WireError(f"a {type(word).__name__} of {length} bytes is over the bound of {most}")
    body[:LENGTH_BYTES] = length.to_bytes(LENGTH_BYTES, "big")
    return bytes(body)


def decode(message: bytes) -> Word:
    """Return the word that bytes hold; raise WireError for anything but one of ours within its bounds."""
    if len(message) < 2 or message[0] != VERSION:
        raise WireError(f"no word of version {VERSION}: {message[:8]!r}")
    try:
        word: Word = _decoders[Kind(message[1])].decode(memoryview(message)[2:])
    except (ValueError, msgspec.MsgspecError, RecursionError) as error:
        raise WireError(f"a word of {len(message)} bytes is refused: {error}") from error
    return word


class WordReader:
    """Reads words out of a byte stream: a parser with the bound of answers, a worker with that of messages."""

    def __init__(self, most_bytes: int = MAX_MESSAGE_BYTES) -> None:
        self._cutter = FrameCutter(most_bytes)

    def feed(self, chunk: bytes) -> Iterator[Word]:
        """Take bytes as they came; yield the words that are whole. Raises WireError; the stream is then lost."""
        return map(decode, self._cutter.feed(chunk))

    def __repr__(self) -> str:
        return f"<WordReader {self._cutter!r}>"
