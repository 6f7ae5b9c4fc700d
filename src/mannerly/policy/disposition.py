"""What the result of a page's task changes: the heart of settling, and pure.

`disposition(entry, outcome, now)` says what becomes of the URL, whether its page goes to the sinks, whether its links
are followed, and which URL a redirect leads to. What becomes of the *host* is `politeness`.
"""

from __future__ import annotations

from dataclasses import dataclass

from mannerly.model import url as urls
from mannerly.model.entry import UrlChange, Waiting
from mannerly.model.errors import InvalidUrl
from mannerly.model.result import (
    AddressChanged,
    Expired,
    Failed,
    Fetched,
    NotModified,
    Outcome,
    Redirected,
    Refused,
    Resolved,
    Unknown,
)
from mannerly.model.task import UrlState
from mannerly.model.verdict import Reason
from mannerly.policy import retries

# a redirect to another spelling of the same key is followed this often per key
MOST_RESPELLINGS = 2


@dataclass(frozen=True, slots=True)
class RedirectTo:
    """The next hop: an admission-to-be. `chain` are the URLs that led to it, oldest first."""

    href: str
    chain: tuple[str, ...]
    seed: bool


@dataclass(frozen=True, slots=True)
class Disposition:
    """What a result changes.

    change: new state of the URL. page: it goes to the sinks. follow: its links are candidates. redirect: where it
    leads. fallback: the URL to try instead of a seed that was given without a scheme.
    """

    change: UrlChange
    page: bool = False
    follow: bool = False
    redirect: RedirectTo | None = None
    fallback: str = ""


def disposition(
    entry: Waiting,
    outcome: Outcome,
    *,
    now: float,
    chain_limit: int = 10,
    strip: frozenset[str] = frozenset(),
    error_pages: bool = False,
) -> Disposition:
    """Return what the outcome of `entry`'s task changes.

    now: UTC seconds, for retries. strip: parameters stripped from keys in this crawl. error_pages: pages with an error
    status go to the sinks too, once they are final.
    """
    match outcome:
        case Fetched(page=page) if 200 <= page.status < 300:
            follow = page.follow
            return Disposition(_to(entry, UrlState.FETCHED), page=True, follow=follow)
        case NotModified():
            return Disposition(_to(entry, UrlState.FETCHED, detail="304"))
        case Redirected():
            return _redirected(entry, outcome, chain_limit, strip)
        case Fetched() | Failed() | Refused() | Unknown() | Expired() | AddressChanged() | Resolved():
            return _failed(entry, outcome, now, error_pages=error_pages)


def _to(
    entry: Waiting, state: UrlState, reason: Reason | None = None, detail: str = "", *, due_at: float = 0.0
) -> UrlChange:
    return UrlChange(
        id=entry.id,
        state=state,
        reason=reason,
        detail=detail,
        due_at=due_at,
        attempts=entry.attempts + 1,
        uncounted=entry.uncounted,
        respelled=entry.respelled,
    )


def _redirected(entry: Waiting, outcome: Redirected, chain_limit: int, strip: frozenset[str]) -> Disposition:
    try:
        target = urls.parse(outcome.location)
    except InvalidUrl:
        detail = f"{outcome.status} Location: {outcome.raw!r}"
        return Disposition(_to(entry, UrlState.FAILED, Reason.REDIRECT_INVALID, detail))
    key = urls.canonical_key(target.href, strip=strip)
    if key == entry.key:
        return _respelled(entry, target.href)
    chain = (*entry.chain, entry.href)
    if len(chain) > chain_limit:
        return Disposition(_to(entry, UrlState.FAILED, Reason.REDIRECT_CHAIN_TOO_LONG, f"to {target.href}"))
    if any(urls.canonical_key(href, strip=strip) == key for href in entry.chain):
        return Disposition(_to(entry, UrlState.FAILED, Reason.REDIRECT_LOOP, f"back to {target.href}"))
    change = _to(entry, UrlState.REDIRECTED, detail=target.href)
    return Disposition(change, redirect=RedirectTo(target.href, chain, entry.seed))


def _respelled(entry: Waiting, href: str) -> Disposition:
    """A redirect to another spelling of the same key: the same URL is asked for once more, as now spelt."""
    if entry.respelled >= MOST_RESPELLINGS:
        return Disposition(_to(entry, UrlState.FAILED, Reason.REDIRECT_LOOP, f"to its own spelling {href}"))
    change = UrlChange(
        id=entry.id,
        state=UrlState.WAITING,
        attempts=entry.attempts,
        uncounted=entry.uncounted,
        respelled=entry.respelled + 1,
        href=href,
    )
    return Disposition(change)


def _failed(entry: Waiting, outcome: Outcome, now: float, *, error_pages: bool) -> Disposition:
    match retries.retry(outcome, attempts=entry.attempts + 1, uncounted=entry.uncounted):
        case retries.Again(after_s=after_s, counted=counted):
            change = UrlChange(
                id=entry.id,
                state=UrlState.DELAYED if after_s > 0 else UrlState.WAITING,
                detail=retries.name_of(outcome),
                due_at=now + after_s if after_s > 0 else 0.0,
                attempts=entry.attempts + counted,
                uncounted=entry.uncounted + (not counted),
                respelled=entry.respelled,
            )
            return Disposition(change)
        case retries.Final(reason=reason):
            change = _to(entry, UrlState.FAILED, reason, retries.name_of(outcome))
            page = error_pages and isinstance(outcome, Fetched)
            return Disposition(change, page=page, fallback=plain_http(entry))


def plain_http(entry: Waiting) -> str:
    """Return the http URL to try instead of a seed that was given without a scheme and failed over https, or ''."""
    if entry.schemeless and entry.href.startswith("https://"):
        return "http://" + entry.href.removeprefix("https://")
    return ""
