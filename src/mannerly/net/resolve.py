"""Names to addresses, without threads, with a bounded cache. Only resolve tasks use it; a fetch never resolves.

What comes back is judged elsewhere (`address.vet_answers`): this module says what the name servers said.
"""

from __future__ import annotations

import asyncio
import socket
from collections import OrderedDict
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import ip_address
from typing import TYPE_CHECKING, Self

import aiodns
import pycares

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

MIN_TTL_S = 60.0
"""Shorter is not believed: a name is resolved once a minute at most, and rebinding gains nothing by haste."""
MAX_TTL_S = 86_400.0
NEGATIVE_TTL_S = 60.0
"""c-ares does not tell the SOA's time (RFC 2308), so a name that does not exist is believed for the shortest time."""
MAX_ADDRESSES = 16
"""More are dropped: nobody tries them, and a name can have hundreds."""

_NOT_FOUND = frozenset({pycares.errno.ARES_ENOTFOUND, pycares.errno.ARES_ENODATA, pycares.errno.ARES_ENONAME})
_INVALID = frozenset({pycares.errno.ARES_EBADNAME, pycares.errno.ARES_EBADQUERY, pycares.errno.ARES_EBADSTR})
_TIMEOUT = frozenset({pycares.errno.ARES_ETIMEOUT})


class ResolveFailure(StrEnum):
    """Why a name has no addresses."""

    NAME_NOT_FOUND = "name-not-found"  # it does not exist, or has no addresses: an answer
    INVALID_NAME = "invalid-name"  # no name that DNS can be asked for, such as a label over 63 bytes
    SERVFAIL = "servfail"  # the servers answered, but could or would not say
    TIMEOUT = "timeout"


@dataclass(frozen=True, slots=True)
class Resolution:
    """Either addresses (at most `MAX_ADDRESSES`, the ones to try first at the front) or a failure.

    `ttl_s` is how long this holds from now: `MIN_TTL_S` to `MAX_TTL_S`, counted down while it lies in the cache;
    0 for a failure that is not kept.
    """

    addresses: tuple[str, ...] = ()
    failure: ResolveFailure | None = None
    ttl_s: float = 0.0


class Resolver:
    """Resolves names on the running loop; one in a process. The hosts file counts, search domains do not.

    `nameservers` (`ADDRESS` or `ADDRESS:PORT`) replace the system's. `timeout_s` bounds one call, `try_s` one question to
    one server. The cache holds `entries` names, the least recently asked for goes first.
    """

    def __init__(
        self,
        *,
        nameservers: Sequence[str] = (),
        timeout_s: float = 15.0,
        try_s: float = 3.0,
        entries: int = 10_000,
    ) -> None:
        self._nameservers = nameservers
        self._timeout_s = timeout_s
        self._try_s = try_s
        self._entries = entries
        self._cache: OrderedDict[str, tuple[float, Resolution]] = OrderedDict()
        self._channel: aiodns.DNSResolver | None = None

    async def __aenter__(self) -> Self:
        """Start; the loop must run."""
        self._channel = aiodns.DNSResolver(
            nameservers=self._nameservers or None,
            timeout=self._try_s,
            tries=3,
            flags=pycares.ARES_FLAG_EDNS | pycares.ARES_FLAG_NOSEARCH,
        )
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End what is being asked."""
        await self.close()

    async def close(self) -> None:
        """End what is being asked."""
        if self._channel is not None:
            await self._channel.close()
            self._channel = None

    def __repr__(self) -> str:
        return f"<Resolver {len(self._cache)} names cached>"

    async def resolve(self, host: str, *, fresh: bool = False) -> Resolution:
        """Return what `host` (ASCII, without brackets) resolves to; a literal resolves to itself.

        `fresh` asks again whatever the cache holds: for a second attempt. Never raises on what a server says; raises
        RuntimeError outside `async with`. The caller keeps one question in flight a name.
        """
        name = host.lower().rstrip(".")
        if (literal := _literal(name)) is not None:
            return Resolution((literal,), ttl_s=MAX_TTL_S)
        now = asyncio.get_running_loop().time()
        if not fresh and (kept := self._kept(name, now)) is not None:
            return kept
        found = await self._ask(name)
        self._keep(name, found, now)
        return found

    async def _ask(self, name: str) -> Resolution:
        if self._channel is None:
            raise RuntimeError("a Resolver is used inside `async with`")
        if not name.isascii():
            return Resolution(failure=ResolveFailure.INVALID_NAME, ttl_s=MAX_TTL_S)
        try:
            async with asyncio.timeout(self._timeout_s):
                answer = await self._channel.getaddrinfo(
                    name, family=socket.AF_UNSPEC, type=socket.SOCK_STREAM
                )
        except TimeoutError:
            return Resolution(failure=ResolveFailure.TIMEOUT)
        except aiodns.error.DNSError as error:
            return _failed(error.args[0])
        return _found(answer)

    def _kept(self, name: str, now: float) -> Resolution | None:
        entry = self._cache.get(name)
        if entry is None or entry[0] <= now:
            return None
        self._cache.move_to_end(name)
        until, found = entry
        return Resolution(found.addresses, found.failure, until - now)

    def _keep(self, name: str, found: Resolution, now: float) -> None:
        self._cache.pop(name, None)
        if found.ttl_s > 0:
            self._cache[name] = (now + found.ttl_s, found)
        if len(self._cache) > self._entries:
            self._cache.popitem(last=False)


def _literal(name: str) -> str | None:
    try:
        return str(ip_address(name))
    except ValueError:
        return None


def _failed(code: int) -> Resolution:
    if code in _NOT_FOUND:
        return Resolution(failure=ResolveFailure.NAME_NOT_FOUND, ttl_s=NEGATIVE_TTL_S)
    if code in _INVALID:
        return Resolution(failure=ResolveFailure.INVALID_NAME, ttl_s=MAX_TTL_S)
    return Resolution(failure=ResolveFailure.TIMEOUT if code in _TIMEOUT else ResolveFailure.SERVFAIL)


def _found(answer: pycares.AddrInfoResult) -> Resolution:
    addresses = dict.fromkeys(_text(node.addr[0]) for node in answer.nodes)
    if not addresses:
        return Resolution(failure=ResolveFailure.NAME_NOT_FOUND, ttl_s=NEGATIVE_TTL_S)
    # a CNAME on the way may be shorter-lived than the addresses at its end
    ttls = [node.ttl for node in answer.nodes] + [cname.ttl for cname in answer.cnames]
    ttl_s = min(max(float(min(ttls)), MIN_TTL_S), MAX_TTL_S)
    return Resolution(tuple(addresses)[:MAX_ADDRESSES], ttl_s=ttl_s)


def _text(address: str | bytes) -> str:
    return address.decode("ascii") if isinstance(address, bytes) else address
