"""Near-duplicates: two pages whose fingerprints differ in few bits say the same."""

from __future__ import annotations

from typing import Final

NEAR_BITS: Final = 3
"""Bits in which near-duplicates may differ (Manku, Jain, Das Sarma 2007: 3 of 64 on 8 billion pages)."""


def distance(one: int, other: int) -> int:
    """Return in how many bits two 64-bit fingerprints differ: 0 to 64, about 32 for unrelated pages."""
    return (one ^ other).bit_count()


def near(one: int, other: int, bits: int = NEAR_BITS) -> bool:
    """Tell whether two fingerprints are those of near-duplicates: they differ in at most `bits` bits."""
    return distance(one, other) <= bits
