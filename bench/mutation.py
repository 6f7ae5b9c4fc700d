"""Changes bytes as a hostile or broken peer might: flips, cuts, splices, words of the format, runs and nests. Pure."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Final

MAX_BYTES: Final = 1 << 20
"""No input grows beyond; what is quadratic shows well before."""

_ODD: Final = (0, 1, 0x7F, 0x80, 0xFF, 0x0A, 0x0D, 0x20, 0x25, 0x2F, 0x3C, 0x3E, 0xC3, 0xD8, 0xED)
_NUMBERS: Final = (b"0", b"-1", b"4294967296", b"18446744073709551616", b"1e999", b"9" * 400, b"\xd9\xa3")

Words = Sequence[bytes]
_Change = Callable[[random.Random, bytes, Words], bytes]


def mutated(chance: random.Random, data: bytes, others: Sequence[bytes], words: Words) -> bytes:
    """Return `data` after one to five changes. `others` are inputs to splice with, `words` those of the format."""
    if others and chance.random() < 0.2:
        data = _spliced(chance, data, chance.choice(others))
    for _ in range(min(5, 1 + int(chance.expovariate(0.8)))):
        data = chance.choices(_CHANGES, _WEIGHTS)[0](chance, data, words)
    return data[:MAX_BYTES]


def _spliced(chance: random.Random, one: bytes, other: bytes) -> bytes:
    return one[: chance.randint(0, len(one))] + other[chance.randint(0, len(other)) :]


def _stretch(chance: random.Random, data: bytes) -> tuple[int, int]:
    """Return a stretch of `data`, more often a short one."""
    start = chance.randint(0, len(data))
    return start, min(len(data), start + int(chance.expovariate(1 / 12)))


def _flip(chance: random.Random, data: bytes, _: Words) -> bytes:
    if not data:
        return data
    at = chance.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << chance.randrange(8))]) + data[at + 1 :]


def _odd_byte(chance: random.Random, data: bytes, _: Words) -> bytes:
    at = chance.randint(0, len(data))
    return data[:at] + bytes([chance.choice(_ODD)]) + data[at + chance.randint(0, 1) :]


def _cut(chance: random.Random, data: bytes, _: Words) -> bytes:
    start, end = _stretch(chance, data)
    return data[:start] + data[end:]


def _end(chance: random.Random, data: bytes, _: Words) -> bytes:
    return data[: chance.randint(0, len(data))]


def _word(chance: random.Random, data: bytes, words: Words) -> bytes:
    at = chance.randint(0, len(data))
    return data[:at] + chance.choice(words or _NUMBERS) + data[at:]


def _number(chance: random.Random, data: bytes, _: Words) -> bytes:
    digits = [at for at, byte in enumerate(data[:4_096]) if 0x30 <= byte <= 0x39]
    at = chance.choice(digits) if digits else chance.randint(0, len(data))
    return data[:at] + chance.choice(_NUMBERS) + data[at + 1 :]


def _moved(chance: random.Random, data: bytes, _: Words) -> bytes:
    start, end = _stretch(chance, data)
    at = chance.randint(0, len(data))
    return data[:at] + data[start:end] + data[at:]


def _noise(chance: random.Random, data: bytes, _: Words) -> bytes:
    start, end = _stretch(chance, data)
    return data[:start] + chance.randbytes(end - start) + data[end:]


def _run(chance: random.Random, data: bytes, words: Words) -> bytes:
    """Say a piece again and again, before what follows: what costs more than its length does shows on runs and nests."""
    start, end = _stretch(chance, data)
    piece = data[start:end] or chance.choice(words or (b"a",))
    if words and chance.random() < 0.4:
        piece = chance.choice(words)
    times = 1 << chance.choice((2, 4, 8, 12, 15, 17))
    times = min(times, (MAX_BYTES - len(data)) // len(piece) if len(data) < MAX_BYTES else 0)
    return data[:end] + piece * times + data[end:]


_CHANGES: Final[tuple[_Change, ...]] = (
    _flip,
    _odd_byte,
    _cut,
    _end,
    _word,
    _number,
    _moved,
    _noise,
    _run,
)
_WEIGHTS: Final = (20, 15, 12, 4, 20, 8, 12, 8, 3)


def smaller(data: bytes, still_fails: Callable[[bytes], bool], *, tries: int = 400) -> bytes:
    """Return a shorter input that still fails, found by leaving stretches out (delta debugging), halves first."""
    step = max(1, len(data) // 2)
    while step and tries > 0:
        at = 0
        while at < len(data) and tries > 0:
            shorter = data[:at] + data[at + step :]
            tries -= 1
            if still_fails(shorter):
                data = shorter
            else:
                at += step
        step //= 2
    return data
