"""An admitted URL on its way: admission, waiting, a new state. And a candidate that was refused."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from mannerly.model.task import UrlState
from mannerly.model.verdict import Reason


@dataclass(frozen=True, slots=True)
class UrlId:
    """Primary key of an admitted URL: its host's row and the keyed 64-bit hash of its key."""

    host_id: int
    hash: int


@dataclass(frozen=True, slots=True)
class Admission:
    """A candidate to insert. Scope, shape, robots (where at hand) have said yes; the insert says if it is new.

    budget: most URLs stored for the host. via: the page it was found on (always an admitted URL itself). chain: URLs
    that redirected here, oldest first; source: the last of them, whose `via` it takes over. schemeless: a seed given
    without a scheme, to be tried over http if https fails.
    """

    host: str
    hash: int
    key: str
    href: str
    template: str
    band: int
    depth: int
    budget: int
    via: UrlId | None = None
    chain: tuple[str, ...] = ()
    source: UrlId | None = None
    seed: bool = False
    schemeless: bool = False


class Admitted(IntEnum):
    """What became of an admission."""

    NEW = 0
    SEEN = 1
    OVER_BUDGET = 2


@dataclass(frozen=True, slots=True)
class Waiting:
    """An admitted URL that is to be fetched, as the frontier's window holds it. `via` is the URL of that page."""

    id: UrlId
    key: str
    href: str
    template: int
    band: int
    depth: int
    attempts: int = 0
    uncounted: int = 0
    respelled: int = 0
    via: str = ""
    chain: tuple[str, ...] = ()
    seed: bool = False
    schemeless: bool = False


@dataclass(frozen=True, slots=True)
class UrlChange:
    """A new state of an admitted URL. `href` '' keeps the spelling. Applied only if the state table allows it."""

    id: UrlId
    state: UrlState
    reason: Reason | None = None
    detail: str = ""
    due_at: float = 0.0
    attempts: int = 0
    uncounted: int = 0
    respelled: int = 0
    href: str = ""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A candidate that was not admitted. Counted by reason with 100 samples each, not stored as a row."""

    reason: Reason
    url: str
    evidence: str = ""
