"""A frame of the journal: one page as it was settled. Sinks make records of frames."""

from __future__ import annotations

import builtins
from typing import Annotated, Final

import msgspec

YEAR_10000_AT: Final = 253_402_300_800.0
"""UTC seconds; RFC 3339 has four digits for a year."""


class PageFrame(msgspec.Struct, frozen=True, array_like=True):
    """One page: what the coordinator knows of it, and the worker's blob, unopened.

    fetched_at: UTC seconds, in a year that RFC 3339 can write; a frame of another instant is damaged. redirected_from: URLs that led here, oldest first. host_id and hash name the URL's row.
    authorization: digest of the file that allows to ignore robots.txt, '' under the obedient identity.
    """

    url: str
    key: str
    status: int
    fetched_at: Annotated[float, msgspec.Meta(ge=0, lt=YEAR_10000_AT)]
    depth: int
    via: str
    redirected_from: tuple[str, ...]
    bytes: int
    elapsed_ms: int
    body_digest: str
    text_digest: str
    fingerprint: int | None
    index: bool
    truncated: str
    duplicate_of: str
    identity: str
    authorization: str
    crawl: str
    host_id: int
    hash: int
    blob: builtins.bytes  # `bytes` is a field above
