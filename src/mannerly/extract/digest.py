"""Digests and the 64-bit fingerprint of a page's text.

The fingerprint is a simhash (Charikar 2002; Manku, Jain, Das Sarma 2007) over shingles of three words: pages that
share most shingles differ in few bits. `policy.dedup.near` compares two of them. All of it is arithmetic on whole
arrays, with no object for a word: a fifth of a millisecond a page.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

MAX_WORDS: Final = 2_000
MAX_CHARS: Final = 8 * MAX_WORDS
MAX_BYTES: Final = 2 * MAX_CHARS
"""What is looked at of a text, in words, characters, and bytes of UTF-8: enough to tell pages apart."""

SHINGLE: Final = 3

_BLANK: Final = 0x20
_CJK_FIRST: Final = 0xE3
_CJK_LAST: Final = 0xE9
"""First bytes of U+3000 to U+9FFF in UTF-8: scripts without blanks, so each character is a word."""

_M1: Final = np.uint64(0x9E37_79B9_7F4A_7C15)
_M2: Final = np.uint64(0xC2B2_AE3D_27D4_EB4F)
_M3: Final = np.uint64(0x1656_67B1_9E37_79F9)
_S29: Final = np.uint64(29)
_S32: Final = np.uint64(32)

# Powers of an odd number and of its inverse, modulo 2**64: a word's hash is that of its letters' polynomial, taken
# from wherever the word stands back to place 0.
_POWERS: Final = np.cumprod(np.full(MAX_BYTES, _M1), dtype=np.uint64)
_INVERSE: Final = np.cumprod(np.full(MAX_BYTES, np.uint64(pow(int(_M1), -1, 1 << 64))), dtype=np.uint64)


def body_digest(body: bytes) -> str:
    """Return the SHA-256 of the decoded body, in hex."""
    return hashlib.sha256(body).hexdigest()


def text_digest(text: str) -> str:
    """Return the SHA-256 of a page's main text, in hex; '' for no text, so that empty pages are no duplicates."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest() if text else ""


def fingerprint(text: str) -> int | None:
    """Return the unsigned 64-bit fingerprint of the first MAX_WORDS words, None if there are none.

    Case and white space do not count. A text of fewer words than a shingle has the fingerprint of that one shingle:
    texts so short are near each other only if they are equal.
    """
    raw = np.frombuffer(text[:MAX_CHARS].lower().encode("utf-8", "surrogatepass")[:MAX_BYTES], np.uint8)
    hashes = _word_hashes(raw)
    return _simhash(hashes) if len(hashes) else None


def _word_hashes(raw: NDArray[np.uint8]) -> NDArray[np.uint64]:
    letters = raw > _BLANK
    begins = (raw >= _CJK_FIRST) & (raw <= _CJK_LAST)
    begins[1:] |= letters[1:] > letters[:-1]
    begins[:1] |= letters[:1]
    starts = np.flatnonzero(begins)
    if not len(starts):
        return np.empty(0, np.uint64)
    values = _POWERS[: len(raw)] * raw * letters
    hashes: NDArray[np.uint64] = np.add.reduceat(values, starts, dtype=np.uint64) * _INVERSE[starts]
    return hashes[:MAX_WORDS]


def _simhash(hashes: NDArray[np.uint64]) -> int:
    if len(hashes) < SHINGLE:
        hashes = np.pad(hashes, (0, SHINGLE - len(hashes)))
    mixed = hashes[:-2] * _M1 + hashes[1:-1] * _M2 + hashes[2:] * _M3
    mixed ^= mixed >> _S32
    mixed *= _M1
    mixed ^= mixed >> _S29
    mixed *= _M2
    mixed ^= mixed >> _S32
    count = len(mixed)
    bits = np.unpackbits(mixed.view(np.uint8), bitorder="little").reshape(count, 64)
    # A product with ones is twice as fast as a sum over columns; float32 counts to 2**24 without error.
    votes: NDArray[Any] = np.ones(count, np.float32) @ bits.astype(np.float32)
    return int.from_bytes(np.packbits(votes * 2 > count, bitorder="little").tobytes(), "little")
