"""Signs of a trap that a URL shows by itself: the first and cheapest layer, before anything is fetched.

Limits are counted on what is passed in, href or key; a key has shed tracking parameters and gives sites more room.
"""

from __future__ import annotations

from dataclasses import dataclass

from mannerly.model.verdict import ALLOWED, Reason, Verdict, refused


@dataclass(frozen=True, slots=True)
class ShapeLimits:
    """Shapes that honest URLs do not have. A URL at a limit is still allowed."""

    length: int = 2000
    """Characters. Search engines' sitemaps allow 2,048; longer ones are mostly an unclosed quote that ate a page."""
    depth: int = 20
    """Path segments; a trailing slash opens none. Growing paths pass any limit soon, real trees rarely reach ten."""
    parameters: int = 20
    """Query parameters: faceted search multiplies its pages by each of them."""
    repeats: int = 3
    """How often the same run of segments may *not* follow itself, >= 2. Twice happens (`/2020/2020/`, `/en/en/`);
    three times is a relative link that was meant to be absolute, once more on every page."""


DEFAULT_SHAPE = ShapeLimits()


def shape_verdict(url: str, limits: ShapeLimits = DEFAULT_SHAPE) -> Verdict:
    """Tell whether an href or key has the shape of an honest URL; the evidence is the count or the run."""
    if len(url) > limits.length:
        return refused(Reason.URL_TOO_LONG, f"{len(url)} characters")
    path, _, query = url[url.find("/", 8) + 1 :].partition("?")
    if query.count("&") >= limits.parameters:
        return refused(Reason.TOO_MANY_PARAMETERS, f"{query.count('&') + 1} parameters")
    segments = path.split("/")
    if not segments[-1]:
        segments.pop()
    if len(segments) > limits.depth:
        return refused(Reason.PATH_TOO_DEEP, f"{len(segments)} segments")
    if (
        len(segments) - len(set(segments)) >= limits.repeats - 1
    ):  # a run that stands n times has n - 1 doubles
        run = repeated_run(segments, limits.repeats)
        if run:
            return refused(Reason.REPEATED_SEGMENTS, f"/{'/'.join(run)} {limits.repeats} times in a row")
    return ALLOWED


def depth_verdict(depth: int, max_depth: int | None) -> Verdict:
    """Tell whether a URL `depth` links from its seed lies within `--max-depth` (None: no limit; 0: seeds only)."""
    if max_depth is None or depth <= max_depth:
        return ALLOWED
    return refused(Reason.MAX_DEPTH, f"depth {depth}, --max-depth {max_depth}")


def repeated_run(segments: list[str], times: int) -> list[str]:
    """Return the shortest run of segments that stands `times` (>= 2) times back to back, empty if there is none.

    O(n^2 / times) for n segments: a run of length r repeats where (times - 1) * r neighbours at distance r are equal.
    """
    for length in range(1, len(segments) // times + 1):
        equal = 0
        for at in range(length, len(segments)):
            equal = equal + 1 if segments[at] == segments[at - length] else 0
            if equal == (times - 1) * length:
                return segments[at - length + 1 : at + 1]
    return []
