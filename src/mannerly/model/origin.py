"""What is known of an origin's robots.txt: the access result and the ruleset, as they are sent and stored.

A worker reads robots.txt and reduces it to a `Ruleset` (`policy.robots.parse`); the coordinator keeps one
`OriginRecord` an origin (`policy.access.settle`). Both are plain values with bounded fields, whatever a site sends.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

MAX_BODY_BYTES = 500 * 1024
"""How much of robots.txt is read. RFC 9309, 2.5: "the parsing limit MUST be at least 500 kibibytes"."""

MAX_RULES = MAX_BODY_BYTES // len("allow:/\n")
"""No file within `MAX_BODY_BYTES` holds more rules, so none is ever left out; 64,000."""

MAX_PATTERNS_BYTES = 3 * MAX_BODY_BYTES
"""All patterns of a ruleset together: an octet grows to at most three (`%C3`) in canonical form."""

MAX_WILDCARD_RULES = 2_000
"""Rules with a `*` that is more than the one at the end; above it the ruleset is too complex. Large real files hold a few hundred."""

MAX_STARS_PER_RULE = 64
MAX_STARS = 10_000

MAX_CRAWL_DELAY_S = 1e9
"""Stands for every longer Crawl-delay. It is far above what is obeyed: such a host is parked, not sped up."""

MAX_SITEMAPS = 1_000
MAX_SITEMAP_CHARS = 2_048
MAX_CLEAN_PARAMS = 200
MAX_CLEAN_PARAM_CHARS = 500
MAX_VALIDATOR_CHARS = 1_024
MAX_DETAIL_CHARS = 200


Pattern = Annotated[str, Meta(max_length=MAX_PATTERNS_BYTES)]
Sitemap = Annotated[str, Meta(max_length=MAX_SITEMAP_CHARS)]
CleanParam = Annotated[str, Meta(max_length=MAX_CLEAN_PARAM_CHARS)]


class Access(StrEnum):
    """What asking for robots.txt came to (RFC 9309, 2.3.1)."""

    AVAILABLE = "available"
    UNAVAILABLE = "unavailable"
    UNREACHABLE = "unreachable"


class Ruleset(msgspec.Struct, frozen=True, array_like=True):
    """The rules of one origin, reduced to the groups that bind one product token.

    `rules`: (allow, pattern) in the order of the file, each pattern once, in canonical form: it begins with `/`
    or `*`, `*` stands for any run of octets, a last `$` for the end, every other octet is spelled as
    `policy.pattern.canonical_path` spells it. `crawl_delay_s` is what the file asks, from 0 to `MAX_CRAWL_DELAY_S`,
    None if it asks nothing usable. `sitemaps` and `clean_params` hold for everyone, so they come from any group;
    a sitemap may be a relative reference. `suspicious`: the file looks like HTML or binary data, though it was
    read by the same rules. `too_complex`: it holds more wildcards than are matched; `rules` is then empty and
    nothing may be fetched. `cut`: it was longer than `MAX_BODY_BYTES`, the rest was not read.
    """

    rules: Annotated[tuple[tuple[bool, Pattern], ...], Meta(max_length=MAX_RULES)] = ()
    crawl_delay_s: Annotated[float, Meta(ge=0, le=MAX_CRAWL_DELAY_S)] | None = None
    sitemaps: Annotated[tuple[Sitemap, ...], Meta(max_length=MAX_SITEMAPS)] = ()
    clean_params: Annotated[tuple[CleanParam, ...], Meta(max_length=MAX_CLEAN_PARAMS)] = ()
    suspicious: bool = False
    too_complex: bool = False
    cut: bool = False


class OriginRecord(msgspec.Struct, frozen=True, array_like=True):
    """One origin and the last answer to its robots.txt; instants are UTC seconds.

    `access` is the last answer, None before any. `ruleset` is the copy of the rules last read: present when
    `access` is AVAILABLE, possibly (still) present when it is UNREACHABLE. `fetched_at`: when that copy was read
    or renewed, or when the origin last answered "unavailable"; `rules_expire_at`: the end of the copy's own time.
    `expires_at`: when the last answer is over and robots.txt is to be asked for again. `detail`: the last answer
    in words. `failures`: unreachable answers in a row. `etag` and `last_modified` are the copy's validators.
    """

    origin: str
    access: Access | None = None
    ruleset: Ruleset | None = None
    fetched_at: float = 0.0
    rules_expire_at: float = 0.0
    expires_at: float = 0.0
    detail: str = ""
    failures: int = 0
    etag: str = ""
    last_modified: str = ""
