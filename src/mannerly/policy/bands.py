"""Bands: the front queues of the frontier, from seeds (0) to what lies deep (3), and how often each is served. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

BANDS: Final = 4
BAND_WEIGHTS: Final = (8, 4, 2, 1)


def band_of(depth: int, *, seed: bool) -> int:
    """Return the band of a URL that lies `depth` links from a seed: a seed is 0, all else 1 to 3 by depth."""
    return 0 if seed else min(max(depth, 1), BANDS - 1)


def draw_band(filled: Sequence[bool], chance: float) -> int | None:
    """Return a band that is filled, drawn by weight with `chance` in [0, 1); None if none is."""
    left = chance * sum(weight for weight, full in zip(BAND_WEIGHTS, filled, strict=True) if full)
    last = None
    for band, full in enumerate(filled):
        if full:
            last = band
            left -= BAND_WEIGHTS[band]
            if left < 0:
                break
    return last
