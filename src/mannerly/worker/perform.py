"""One task -> one result: vet the address, one request, decode, extract. Never raises for what the web does.

A worker dials only the address that it has vetted itself (invariant I7), obeys its own standing orders about private
addresses and ports, never its tasks', and says who we are in one of two fixed ways (invariant I10).
"""

from __future__ import annotations

import asyncio
import re
from typing import Final

import msgspec

from mannerly import __version__
from mannerly.clock import Clock
from mannerly.model import url as urls
from mannerly.model.answer import MAX_FIELDS, Answer
from mannerly.model.errors import InvalidUrl
from mannerly.model.orders import WorkerOrders
from mannerly.model.result import (
    AddressChanged,
    Expired,
    Failed,
    Failure,
    Fetched,
    NotModified,
    Outcome,
    Page,
    Redirected,
    Refused,
    Resolved,
    Result,
    Timing,
)
from mannerly.model.task import Identity, Task, TaskKind, Validators
from mannerly.model.url import Url
from mannerly.net import exchange as net
from mannerly.net.address import vet, vet_answers, vet_name
from mannerly.net.fetch import Fetcher
from mannerly.net.resolve import Resolution, ResolveFailure, Resolver
from mannerly.policy import robots
from mannerly.policy.robots import PRODUCT_TOKEN
from mannerly.policy.scope import host_matches, port_verdict
from mannerly.worker.aside import Aside
from mannerly.worker.read import MAX_DETAIL_CHARS, MAX_NAME_CHARS, MAX_URL_CHARS, is_heavy, read_page

REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
# robots.txt is read up to 500 KiB (RFC 9309, 2.5); a little more tells that it was cut
ROBOTS_BODY_BYTES: Final = 512 << 10
ROBOTS_TAG: Final = "x-robots-tag"
ROBOTS_HEADERS: Final = (("Accept", "text/plain,*/*;q=0.5"),)

_MAX_AGE = re.compile(r"max-age\s*=\s*\"?(\d{1,10})", re.IGNORECASE)
_NO_CACHE = re.compile(r"\bno-(?:store|cache)\b", re.IGNORECASE)

_FAILURES: Final = {
    net.FetchFailure.INVALID_HOST: Failure.INVALID_HOST,
    net.FetchFailure.CONNECT_TIMEOUT: Failure.TIMEOUT,
    net.FetchFailure.TIMEOUT: Failure.TIMEOUT,
    net.FetchFailure.REFUSED: Failure.REFUSED,
    net.FetchFailure.UNREACHABLE: Failure.UNREACHABLE,
    net.FetchFailure.PROXY_FAILED: Failure.PROXY,
    net.FetchFailure.TLS_NAME: Failure.TLS,
    net.FetchFailure.TLS_EXPIRED: Failure.TLS,
    net.FetchFailure.TLS_UNTRUSTED: Failure.TLS,
    net.FetchFailure.TLS_FAILED: Failure.TLS,
    net.FetchFailure.RESET: Failure.RESET,
    net.FetchFailure.CONNECTION_CLOSED: Failure.CONNECTION_CLOSED,
    net.FetchFailure.TRUNCATED_HEAD: Failure.TRUNCATED_HEAD,
    net.FetchFailure.HEADERS_TOO_LARGE: Failure.HEADERS_TOO_LARGE,
    net.FetchFailure.PROTOCOL_ERROR: Failure.PROTOCOL,
}
_UNRESOLVED: Final = {
    ResolveFailure.NAME_NOT_FOUND: Failure.NAME_NOT_FOUND,
    ResolveFailure.INVALID_NAME: Failure.INVALID_HOST,
    ResolveFailure.SERVFAIL: Failure.DNS_FAILED,
    ResolveFailure.TIMEOUT: Failure.DNS_TIMEOUT,
}
_NOT_DIALLED: Final = frozenset({net.FetchFailure.ADDRESS_REFUSED, net.FetchFailure.ADDRESS_CHANGED})


class Performer:
    """Performs tasks, any number at once on one loop."""

    def __init__(
        self, orders: WorkerOrders, fetcher: Fetcher, resolver: Resolver, aside: Aside, clock: Clock
    ) -> None:
        self._orders = orders
        self._fetcher = fetcher
        self._resolver = resolver
        self._aside = aside
        self._clock = clock
        self._private_hosts = frozenset(orders.private_hosts)
        self._ports = frozenset(orders.ports)
        self._agents = {
            Identity.MANNERLY: user_agent("mannerly", orders.contact),
            Identity.AUTHORIZED: user_agent("mannerly-authorized", orders.contact),
        }
        self._from = orders.contact if "@" in orders.contact and ":" not in orders.contact else ""

    async def perform(self, task: Task, received_at: float) -> Result:
        """Perform the task; `received_at` is the loop's time of its receipt."""
        loop = asyncio.get_running_loop()
        if loop.time() - received_at > task.send_within_s:
            return self._result(task, Expired())
        if task.kind is TaskKind.RESOLVE:
            began_at = loop.time()
            outcome = await self._resolve(task.url, fresh=task.fresh)
            return self._result(task, outcome, Timing(elapsed_s=loop.time() - began_at))
        try:
            url = urls.parse(task.url)
        except InvalidUrl as error:
            return self._result(task, Refused(detail=str(error)[:MAX_DETAIL_CHARS]))
        exchange = await self._fetch(task, url)
        timing = Timing(elapsed_s=exchange.elapsed_s, first_byte_s=exchange.first_byte_s or 0.0)
        answered = self._outcome(task, url, exchange)
        if not isinstance(answered, Answer):
            return self._result(task, answered, timing)
        page = self._aside.put(answered)
        del exchange, answered  # megabytes, and the parser may be busy for long
        return self._result(task, await self._aside.read(page), timing)

    def _result(self, task: Task, outcome: Outcome, timing: Timing | None = None) -> Result:
        return Result(
            task_id=task.id,
            outcome=outcome,
            timing=timing or Timing(),
            worker=self._orders.name,
            epoch=task.epoch,
        )

    def _private_ok(self, host: str) -> bool:
        return host_matches(host, self._private_hosts)

    # ------------------------------------------------------------------------------------------------ names

    async def _resolve(self, name: str, *, fresh: bool) -> Outcome:
        private_ok = self._private_ok(name)
        why = vet_name(name, private_ok=private_ok)
        if why is not None:
            return Resolved(refused=((name[:MAX_NAME_CHARS], why[:MAX_NAME_CHARS]),))
        return resolution_outcome(await self._resolver.resolve(name, fresh=fresh), private_ok=private_ok)

    # ------------------------------------------------------------------------------------------------ fetching

    async def _fetch(self, task: Task, url: Url) -> net.Exchange:
        if not port_verdict(url, self._ports, self._private_hosts).allowed:
            return net.Exchange(failure=net.FetchFailure.PORT_REFUSED, detail=f"port {url.port}")
        is_robots = task.kind is TaskKind.ROBOTS
        request = net.Request(
            url=url.href,
            address=task.address,
            user_agent=self._agents[task.identity],
            from_=self._from,
            headers=ROBOTS_HEADERS if is_robots else task.headers,
            if_none_match=task.validators.etag,
            if_modified_since=task.validators.last_modified,
            proxy=self._orders.proxy or None,
            fresh=task.fresh,
            private_ok=self._private_ok(url.host),
            limits=msgspec.structs.replace(task.limits, body_bytes=ROBOTS_BODY_BYTES)
            if is_robots
            else task.limits,
        )
        return await self._fetcher.fetch(request)

    def _outcome(self, task: Task, url: Url, exchange: net.Exchange) -> Outcome | Answer:
        """Return what came of the exchange; the answer itself if it is to be read aside."""
        if exchange.failure is not None:
            return failed(exchange)
        status = exchange.status
        if status == 304:
            return NotModified(max_age_s=max_age_s(exchange))
        retry_after = (exchange.header("retry-after") or "")[:MAX_NAME_CHARS]
        if status in REDIRECTS:
            return redirected(exchange, url, retry_after)
        if task.kind is TaskKind.ROBOTS:
            return robots_read(exchange, retry_after)
        answer = answer_of(task, url, exchange, retry_after, now_at=self._clock.now())
        return answer if is_heavy(answer) else read_page(answer)


def user_agent(product: str, contact: str) -> str:
    """Return the one User-Agent of an identity: `mannerly/VERSION (+CONTACT)`."""
    return f"{product}/{__version__} (+{contact})" if contact else f"{product}/{__version__}"


def resolution_outcome(answer: Resolution, *, private_ok: bool) -> Outcome:
    """Return what a resolution came to, each address vetted: one that may not be dialled is never handed on.

    One bad answer among good ones refuses the name (see `net.address.vet_answers`).
    """
    if answer.failure is not None:
        return Failed(failure=_UNRESOLVED[answer.failure], detail=str(answer.failure))
    if vet_answers(answer.addresses, private_ok=private_ok) is None:
        return Resolved(addresses=answer.addresses, ttl_s=answer.ttl_s)
    turned_down = tuple(
        (
            address,
            (vet(address, private_ok=private_ok) or "its name has others that are not")[:MAX_NAME_CHARS],
        )
        for address in answer.addresses
    )
    return Resolved(refused=turned_down, ttl_s=answer.ttl_s)


def failed(exchange: net.Exchange) -> Outcome:
    """Return the outcome of an exchange without an answer."""
    failure, detail = exchange.failure, exchange.detail[:MAX_DETAIL_CHARS]
    assert failure is not None
    if failure in _NOT_DIALLED:
        return AddressChanged(detail=detail)
    if failure not in _FAILURES:
        return Refused(detail=f"{failure}: {detail}")
    named = _FAILURES[failure]
    # the failure goes before the detail wherever it is shown: here only what says more than it
    said = [text for text in dict.fromkeys((str(failure), detail)) if text and text != named]
    return Failed(failure=named, detail=": ".join(said), sent=exchange.sent)


def redirected(exchange: net.Exchange, url: Url, retry_after: str) -> Outcome:
    """Return where a redirect leads: an absolute http(s) URL, or '' if it says nowhere that can be fetched."""
    raw = exchange.header("location") or ""
    target = urls.Base(url.href).resolve(raw) if raw.strip() else None
    location = target[0] if target is not None and len(target[0]) <= MAX_URL_CHARS else ""
    return Redirected(
        status=exchange.status, location=location, raw=raw[:MAX_DETAIL_CHARS], retry_after=retry_after
    )


def max_age_s(exchange: net.Exchange) -> float | None:
    """Return what Cache-Control says of freshness in seconds; None if it says nothing."""
    said = exchange.header("cache-control")
    if said is None:
        return None
    if _NO_CACHE.search(said):
        return 0.0
    found = _MAX_AGE.search(said)
    return float(found[1]) if found else None


def validators_of(exchange: net.Exchange) -> Validators:
    """Return the validators of an answer; one too long to be sent back is none."""
    etag, modified = exchange.header("etag") or "", exchange.header("last-modified") or ""
    return Validators(
        etag=etag if len(etag) <= MAX_DETAIL_CHARS and etag.isascii() else "",
        last_modified=modified if len(modified) <= MAX_NAME_CHARS and modified.isascii() else "",
    )


def robots_read(exchange: net.Exchange, retry_after: str) -> Outcome:
    """Return what robots.txt said, reduced to our groups."""
    ruleset = None
    if 200 <= exchange.status < 300:
        content_type = exchange.header("content-type") or ""
        ruleset = robots.parse(exchange.body, PRODUCT_TOKEN, content_type=content_type)
    page = Page(
        status=exchange.status,
        bytes=len(exchange.body),
        truncated=exchange.truncated or "",
        validators=validators_of(exchange),
    )
    return Fetched(page=page, ruleset=ruleset, max_age_s=max_age_s(exchange), retry_after=retry_after)


def answer_of(task: Task, url: Url, exchange: net.Exchange, retry_after: str, *, now_at: float) -> Answer:
    """Return a page's answer as it is to be read."""
    return Answer(
        url=url.href,
        status=exchange.status,
        body=exchange.body,
        content_type=exchange.header("content-type") or "",
        headers=tuple(field for field in exchange.headers if field[0] == ROBOTS_TAG)[:MAX_FIELDS],
        validators=validators_of(exchange),
        truncated=exchange.truncated or "",
        retry_after=retry_after,
        wanted=task.wanted,
        now_at=now_at,
    )
