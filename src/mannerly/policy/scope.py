"""Does this URL belong to the crawl? A pure decision, made for every link.

A crawl has one *kind* of scope, and bases that its seeds give:

    host    the seed's host name. Scheme and port do not matter: a site that moves to https, or serves a part of itself
            on another port, is still the site. `www.a.test` and `a.test` are two hosts.
    domain  all hosts under the seed's registered domain (Public Suffix List with its private section, so
            `one.github.io` and `two.github.io` are strangers); for an IP address, the address.
    prefix  the seed's host and everything below the seed's directory: up to the last `/` of its path, as in
            `wget --no-parent`. `/docs/` and `/docs/intro` both mean `/docs/`; `/docs` means `/`.
    any     every http and https URL.

Within it an `--exclude` pattern takes URLs out, and if there are `--include` patterns one must match. Patterns are
searched anywhere in the href, as it is shown in results. They run on RE2, whose time is linear in the length of
the URL whatever the pattern: Python's own `re` backtracks, so that `(a+)+$` and a URL made for it would hold up
the crawl for ever, and no check of a pattern finds all such pairs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, Protocol, TypedDict

from mannerly.model.errors import ConfigRefused
from mannerly.model.url import Url, registered_domain
from mannerly.model.verdict import ALLOWED, Reason, Verdict, refused

WEB_PORTS: Final[frozenset[int]] = frozenset({80, 443, 8080, 8443})
"""Ports that are dialled without being asked for: a crawler must not be a port scanner that links can steer."""

_PATTERN_MEMORY_BYTES: Final = 8 << 20


class ScopeKind(StrEnum):
    """How far from its seeds a crawl goes."""

    HOST = "host"
    DOMAIN = "domain"
    PREFIX = "prefix"
    ANY = "any"


class ScopeRecord(TypedDict):
    """A scope as plain data, for the state store."""

    kind: str
    bases: list[str]
    includes: list[str]
    excludes: list[str]
    authorized: list[str] | None


class _CompiledSet(Protocol):
    def Match(self, text: str) -> list[int] | None: ...  # noqa: N802 - RE2's own name


@dataclass(frozen=True, slots=True)
class Patterns:
    """Regular expressions in RE2 syntax, all tried in one pass over the text. Equal if their texts are."""

    texts: tuple[str, ...] = ()
    _set: _CompiledSet | None = field(init=False, repr=False, compare=False, default=None)

    def __post_init__(self) -> None:
        """Compile. Raise ConfigRefused for what RE2 cannot do in linear time or does not understand."""
        if self.texts:
            object.__setattr__(self, "_set", _compiled(self.texts))

    def first_match(self, text: str) -> str | None:
        """Return the first pattern, in the order given, that matches somewhere in `text`."""
        if self._set is None:
            return None
        first = min(self._set.Match(text) or (), default=len(self.texts))
        return self.texts[first] if first < len(self.texts) else None


@dataclass(frozen=True, slots=True)
class Scope:
    """Which URLs belong to the crawl. Make one with `Scope.of`; `joined` gives a wider one."""

    kind: ScopeKind
    bases: frozenset[str]
    """Host names, registered domains, or `host/directory/`, by kind; empty for `any`."""
    includes: Patterns = Patterns()
    excludes: Patterns = Patterns()
    authorized: frozenset[str] | None = None
    """Hosts (or `*.x`) that a written authorization names; the scope is cut to them. None: there is no such limit."""
    _hosts: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Note the hosts of prefixes once, for `admits_host`."""
        object.__setattr__(self, "_hosts", frozenset(base.partition("/")[0] for base in self.bases))

    @classmethod
    def of(
        cls,
        kind: ScopeKind,
        seeds: Iterable[Url],
        *,
        includes: Iterable[str] = (),
        excludes: Iterable[str] = (),
        authorized: Iterable[str] | None = None,
    ) -> Scope:
        """Return the scope of a crawl that starts at `seeds`. Raise ConfigRefused for a pattern that cannot be run."""
        return cls(
            kind,
            frozenset(base for seed in seeds for base in _bases(kind, seed)),
            Patterns(tuple(includes)),
            Patterns(tuple(excludes)),
            None if authorized is None else frozenset(name.lower().removesuffix(".") for name in authorized),
        )

    def joined(self, url: Url) -> Scope:
        """Return this scope with `url` as one more base: where a redirected seed ended up. Patterns stay as they are."""
        return replace(self, bases=self.bases | set(_bases(self.kind, url)))

    def verdict(self, url: Url, *, seed: bool = False) -> Verdict:
        """Tell whether `url` belongs to the crawl. A seed need not match an include: it is where to start from."""
        if self.authorized is not None and not host_matches(url.host, self.authorized):
            return refused(Reason.NOT_AUTHORIZED, url.host)
        if not self._holds(url):
            return refused(Reason.OUT_OF_SCOPE, f"{url.host} ({self.kind} scope)")
        pattern = self.excludes.first_match(url.href)
        if pattern is not None:
            return refused(Reason.EXCLUDED, pattern)
        if self.includes.texts and not seed and self.includes.first_match(url.href) is None:
            return refused(Reason.NOT_INCLUDED, " | ".join(self.includes.texts))
        return ALLOWED

    def admits_host(self, host: str) -> bool:
        """Tell whether any URL of `host` can be in scope: one question for all of a page's links to it."""
        if self.authorized is not None and not host_matches(host, self.authorized):
            return False
        if self.kind is ScopeKind.ANY:
            return True
        return (registered_domain(host) if self.kind is ScopeKind.DOMAIN else host) in self._hosts

    def record(self) -> ScopeRecord:
        """Return the scope as plain data; `from_record` gives an equal one."""
        return ScopeRecord(
            kind=self.kind.value,
            bases=sorted(self.bases),
            includes=list(self.includes.texts),
            excludes=list(self.excludes.texts),
            authorized=None if self.authorized is None else sorted(self.authorized),
        )

    @classmethod
    def from_record(cls, record: ScopeRecord) -> Scope:
        """Return the scope that `record` was made from."""
        authorized = record["authorized"]
        return cls(
            ScopeKind(record["kind"]),
            frozenset(record["bases"]),
            Patterns(tuple(record["includes"])),
            Patterns(tuple(record["excludes"])),
            None if authorized is None else frozenset(authorized),
        )

    def _holds(self, url: Url) -> bool:
        if self.kind is ScopeKind.ANY:
            return True
        if self.kind is ScopeKind.HOST:
            return url.host in self.bases
        if self.kind is ScopeKind.DOMAIN:
            return registered_domain(url.host) in self.bases
        return url.host in self._hosts and any(place in self.bases for place in _directories(url))


def port_verdict(url: Url, extra_ports: frozenset[int], private_hosts: frozenset[str]) -> Verdict:
    """Tell whether the port of `url` may be dialled.

    `extra_ports` are those of `--port`. On `private_hosts` (names or `*.x`: the hosts that `--allow-private-addresses`
    is for) any port may be.
    """
    if url.port in WEB_PORTS or url.port in extra_ports or host_matches(url.host, private_hosts):
        return ALLOWED
    return refused(Reason.PORT_REFUSED, str(url.port))


def host_matches(host: str, names: frozenset[str]) -> bool:
    """Tell whether `names` holds `host`, or `*.x` for an `x` that `host` lies under (`*.x` is not `x` itself)."""
    if host in names:
        return True
    dot = host.find(".")
    while dot >= 0:
        if f"*{host[dot:]}" in names:
            return True
        dot = host.find(".", dot + 1)
    return False


def _bases(kind: ScopeKind, seed: Url) -> tuple[str, ...]:
    if kind is ScopeKind.ANY:
        return ()
    if kind is ScopeKind.HOST:
        return (seed.host,)
    if kind is ScopeKind.DOMAIN:
        return (registered_domain(seed.host),)
    return (_directories(seed)[-1],)


def _directories(url: Url) -> list[str]:
    """Return `host/`, `host/a/`, `host/a/b/` for a URL in `/a/b/`, from its key: one spelling for each directory."""
    path = url.key[url.key.find("/", 8) :].partition("?")[0]
    found: list[str] = []
    slash = 0
    while slash >= 0:
        found.append(url.host + path[: slash + 1])
        slash = path.find("/", slash + 1)
    return found


def _compiled(texts: tuple[str, ...]) -> _CompiledSet:
    import re2

    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = _PATTERN_MEMORY_BYTES
    compiled = re2.Set.SearchSet(options)
    for text in texts:
        try:
            re2.compile(text, options)  # for its message: a set only says that it failed
            compiled.Add(text)
        except (re2.error, UnicodeEncodeError) as error:
            raise ConfigRefused(f"pattern {text!r}: {_said(error)}", hint=_HINT) from error
    compiled.Add("")  # matches everything: a set short of memory answers "none", and this shows it
    try:
        compiled.Compile()
        ready = bool(compiled.Match(""))
    except re2.error:
        ready = False
    if not ready:
        raise ConfigRefused(
            f"{len(texts)} patterns together need more than {_PATTERN_MEMORY_BYTES >> 20} MiB",
            hint="use fewer or simpler patterns",
        )
    result: _CompiledSet = compiled
    return result


_HINT: Final = (
    "patterns are RE2, matched in time linear in the URL: no backreferences, no (?=...) or (?<=...), "
    "at most 1000 repetitions; the end is $ or \\z"
)


def _said(error: Exception) -> str:
    said = error.args[0] if error.args else ""
    return said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
