"""URLs: what is fetched, what is compared, and what a host name is part of.

Every URL has two spellings. Its *href* is what is fetched: the URL as found, serialised by the WHATWG URL standard,
without fragment and user info. Its *key* is what is compared, counted and stored: the canonical form of the href.

    http://u:pw@Shop.test.:80/a/../B%7e?b=2&utm_source=x&a=%5b#top
    href  http://shop.test./B%7e?b=2&utm_source=x&a=%5b
    key   http://shop.test/B~?a=%5B&b=2

A key differs from its href in this, and in nothing else:
  - the host has no trailing dot (both are lower case, IDNA-encoded, without default port, with dot segments resolved);
  - percent-encoding is normalised (RFC 3986, 6.2.2): upper-case hex, unreserved characters decoded, characters that no
    path or query may hold raw (`| [ ] { } ^` and the like, RFC 3986 appendix A) and a stray `%` encoded. Reserved
    characters keep their spelling: `%23` is never `#`, `%2F` never `/`;
  - tracking parameters and session identifiers are left out (see `tracking`), and `;jsessionid=` of paths;
  - the parameters that are left stand in order of their names, equal names as found; empty ones and an empty query go.

A host is a name that DNS can hold or an IP address; IPv6 addresses stand in brackets, as in URLs. The standard's parser
also lets empty and overlong labels through, its definition of a valid domain does not (VerifyDnsLength), and nobody
can dial them: such URLs are invalid here. Names with an underscore exist in DNS and are taken.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import pslr
import upa_url
import xxhash

from mannerly.model.errors import InvalidUrl
from mannerly.model.printable import printable
from mannerly.model.tracking import SESSION, SESSION_PREFIXES, TRACKING, TRACKING_PREFIXES

_PARSE: Final = upa_url.URL.parse

DEFAULT_PORTS: Final = {"http": 80, "https": 443}
MAX_LABEL: Final = 63
MAX_NAME: Final = 253
"""Longest label and name (RFC 1035, 2.3.4: 255 octets on the wire, which are 253 characters)."""

NO_NAMES: Final[frozenset[str]] = frozenset()


@dataclass(frozen=True, slots=True)
class Url:
    """A valid http or https URL; made by `parse` or `Base.resolve_url` only."""

    href: str
    """What is fetched."""
    key: str
    """What is compared."""
    scheme: str
    host: str
    """Lower-case ASCII name without trailing dot, IPv4 address, or IPv6 address in brackets: the gate key's host."""
    port: int
    path: str
    """Path of the href; begins with `/`."""
    query: str
    """Query of the href without `?`; empty if there is none."""

    @property
    def origin(self) -> str:
        """Scheme, host and port as RFC 6454 writes them; the default port is left out. One robots.txt holds for it."""
        return origin_of(self.key)

    @property
    def path_query(self) -> str:
        """Path and query of the href, as the request line holds them and as rules of robots.txt see them."""
        return self.href[self.href.find("/", 8) :]


class Base:
    """The base URL of one page, parsed once; `resolve` is the way of every link.

    Holds a few strings for each host the page links to, so it is made for one page and dropped with it.
    """

    __slots__ = ("_base", "_names", "_sites")

    def __init__(self, base_href: str, *, strip: frozenset[str] = NO_NAMES) -> None:
        """Parse `base_href`; `strip` as for `canonical_key`. Raise InvalidUrl if it is no absolute URL."""
        base = whatwg(base_href)
        if base is None:
            raise InvalidUrl(f"no URL to resolve links against: {redacted(base_href)}")
        self._base = base
        self._names = _names(strip)
        self._sites: dict[str, tuple[str, str] | None] = {}

    def resolve(self, href: str) -> tuple[str, str] | None:
        """Return the href and the key of a link, None if it is no valid http or https URL. Never raises.

        White space around the link and tabs and line breaks inside it count for nothing, as the standard says.
        """
        found = href.find("#")
        if found == 0 or (found > 0 and href[found - 1] > " "):  # a blank before the # is part of the path
            href = href[:found]
        try:
            url = _PARSE(href, self._base)
        except TypeError:
            url = whatwg(href, self._base)
        if url is None:
            return None
        full: str = url.href
        if "#" in full:
            full = full[: full.index("#")]
        end = full.find("/", 8)
        prefix = full[:end]
        site = self._sites.get(prefix) or self._new_site(prefix)
        if site is None:
            return None
        rest = full[end:]
        return site[0] + rest, site[1] + _key_rest(rest, self._names)

    def resolve_url(self, href: str) -> Url | None:
        """Return the link as a Url, None where `resolve` gives None."""
        found = self.resolve(href)
        return None if found is None else _url(*found)

    def _new_site(self, prefix: str) -> tuple[str, str] | None:
        site = _site(prefix)
        if site is not None:  # what is no site may be a long `data:` URL: not kept
            self._sites[prefix] = site
        return site


def parse(text: str, base: str | None = None, *, strip: frozenset[str] = NO_NAMES) -> Url:
    """Return the URL that `text` means, relative to `base` if given; `strip` as for `canonical_key`.

    Raise InvalidUrl unless it is an http or https URL with a host that can be dialled. User info is dropped; `seed.has_credentials`
    sees it.
    """
    found = _spellings(text, base, strip)
    if found is None:
        raise InvalidUrl(f"no http or https URL: {redacted(text)}")
    return _url(*found)


def canonical_key(href: str, *, strip: frozenset[str] = NO_NAMES) -> str:
    """Return the key of `href`; text that is no valid http or https URL comes back as it is.

    Never raises; the key of a key is the key. `strip` names more query parameters to leave out, without regard to
    case; `name*` stands for all that begin with `name`.
    """
    found = _spellings(href, None, strip)
    return href if found is None else found[1]


def key_hash(key: str, secret: int) -> int:
    """Return the 64-bit hash of `key` under `secret`, as a signed integer that SQLite and Postgres can hold.

    `secret` (its low 64 bits) keeps outsiders from choosing URLs that collide.
    """
    value = xxhash.xxh3_64_intdigest(key.encode("utf-8", "surrogatepass"), secret & 0xFFFF_FFFF_FFFF_FFFF)
    return value - (1 << 64) if value >> 63 else value


# Parts of a URL in hand


def origin_of(key: str) -> str:
    """Return the origin of a key: everything before its path."""
    return key[: key.find("/", 8)]


def host_of(key: str) -> str:
    """Return the host of a key, as `Url.host` has it."""
    return _host_port(key[: key.find("/", 8)])[1]


def whatwg(text: str, base: upa_url.URL | None = None) -> upa_url.URL | None:
    """Return what the standard's parser makes of `text`, None for a failure. Never raises."""
    try:
        return upa_url.URL.parse(text) if base is None else upa_url.URL.parse(text, base)
    except (
        TypeError
    ):  # a lone surrogate has no UTF-8: U+FFFD instead, as a page's script would see it (USVString)
        whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        return upa_url.URL.parse(whole) if base is None else upa_url.URL.parse(whole, base)


def redacted(text: str) -> str:
    """Return `text` fit for a message: what may be user info blanked, then escaped and cut by `printable`."""
    shown = text[:2000]
    return printable(_USER_INFO.sub(r"\1***@", squeezed(shown)) if "@" in shown else shown, limit=200)


def squeezed(text: str) -> str:
    """Return `text` as the standard's parser sees it: no control or blank around, no tab or line break inside."""
    return text.strip(_STRIPPED).translate(_DROPPED)


# Host names


def is_ip_literal(host: str) -> bool:
    """Tell whether `host` is an IPv4 address, or an IPv6 address with or without brackets."""
    return _address(host) is not None


def is_private_name(host: str) -> bool:
    """Tell whether `host` by itself shows that it is not on the public Internet.

    True for `localhost`, names under it (RFC 6761, 6.3) and IP addresses that are not globally reachable. Other names
    count as public, whatever they resolve to.
    """
    name = host.lower().removesuffix(".")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    address = _address(name)
    if address is None:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return not (mapped or address).is_global


def registrable_domain(host: str) -> str | None:
    """Return the public suffix of `host` plus one label, by the Public Suffix List with its private section.

    None for an IP address, for a host that is a public suffix itself, and for a single label.
    """
    if is_ip_literal(host):
        return None
    return pslr.privatesuffix(host)


def registered_domain(host: str) -> str:
    """Return the registrable domain of `host`, or `host` itself (lower case, no trailing dot) where there is none."""
    return registrable_domain(host) or host.lower().removesuffix(".")


# From here on: how it is done

# Of what RFC 3986 forbids in paths and queries, the standard's serialiser leaves these raw.
_UNRESERVED: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_RAW: Final = "|[]{}^`\\"
_ESCAPE: Final = re.compile(r"%(?:[0-9A-Fa-f]{2})?|[|\[\]{}^`\\]")
_HEX: Final = "0123456789ABCDEFabcdef"


def _escapes() -> dict[str, str]:
    table = {char: f"%{ord(char):02X}" for char in (*_RAW, "%")}
    for pair in (high + low for high in _HEX for low in _HEX):
        char = chr(int(pair, 16))
        table["%" + pair] = char if char in _UNRESERVED else f"%{pair.upper()}"
    return table


_NORMAL: Final = _escapes()
_PATH_SESSION: Final = re.compile(r";jsessionid=[^;/]*", re.IGNORECASE)
_DOT_SEGMENT: Final = re.compile(r"/\.\.?(?:/|$)")

_USER_INFO: Final = re.compile(r"^((?:[a-z][a-z0-9+.-]*:(?=[/\\]))?[/\\]*)[^?#]*@", re.IGNORECASE)
_DROPPED: Final = str.maketrans("", "", "\t\n\r")
_STRIPPED: Final = "".join(map(chr, range(0x21)))


def _spellings(text: str, base: str | None, strip: frozenset[str]) -> tuple[str, str] | None:
    """Return href and key, None for what is no valid http or https URL."""
    against = None if base is None else whatwg(base)
    if base is not None and against is None:
        return None
    url = whatwg(text, against)
    if url is None:
        return None
    full = url.href.partition("#")[0]
    end = full.find("/", 8)
    site = _site(full[:end])
    if site is None:
        return None
    return site[0] + full[end:], site[1] + _key_rest(full[end:], _names(strip))


def _site(prefix: str) -> tuple[str, str] | None:
    """Return what href and key begin with, from a serialised URL up to its path; None unless it can be dialled."""
    scheme, separator, authority = prefix.partition("://")
    if scheme not in DEFAULT_PORTS or not separator:
        return None
    authority = authority.rpartition("@")[2]
    if authority.startswith("["):
        return f"{scheme}://{authority}", f"{scheme}://{authority}"
    host, colon, port = authority.partition(":")
    name = host.removesuffix(".")
    if len(name) > MAX_NAME or not all(0 < len(label) <= MAX_LABEL for label in name.split(".")):
        return None
    return f"{scheme}://{authority}", f"{scheme}://{name}{colon}{port}"


def _host_port(origin: str) -> tuple[str, str, int]:
    """Return scheme, host and port of an origin as keys begin with it."""
    scheme, _, authority = origin.partition("://")
    host, colon, port = authority.rpartition(":")
    if colon and not port.endswith("]"):
        return scheme, host, int(port)
    return scheme, authority, DEFAULT_PORTS[scheme]


def _url(href: str, key: str) -> Url:
    scheme, host, port = _host_port(key[: key.find("/", 8)])
    path, _, query = href[href.find("/", 8) :].partition("?")
    return Url(href, key, scheme, host, port, path, query)


@lru_cache(maxsize=64)
def _names(strip: frozenset[str]) -> tuple[frozenset[str], tuple[str, ...]]:
    """Return the names and the beginnings of names of parameters to leave out."""
    own = {name.lower() for name in strip if name.strip("*")}
    return (
        TRACKING | SESSION | {name for name in own if not name.endswith("*")},
        TRACKING_PREFIXES
        + SESSION_PREFIXES
        + tuple(sorted(name.rstrip("*") for name in own if name.endswith("*"))),
    )


def _key_rest(rest: str, names: tuple[frozenset[str], tuple[str, ...]]) -> str:
    """Return path and query as the key has them, from path and query of an href."""
    # Six substring tests are four times as fast as a character class, and most links end here: the serialiser leaves
    # nothing else in a path that the key would change.
    odd = "?" in rest or "%" in rest or ";" in rest or "[" in rest or "]" in rest or "|" in rest
    if not odd:
        return rest
    rest = _ESCAPE.sub(_normal, rest)
    path, _, query = rest.partition("?")
    if ";" in path:
        path = _without_session(path)
    if query:
        query = _key_query(query, names)
    return f"{path}?{query}" if query else path


def _normal(found: re.Match[str]) -> str:
    return _NORMAL[found[0]]


def _without_session(path: str) -> str:
    bare = _PATH_SESSION.sub("", path)
    # `/..;jsessionid=1/` would become a dot segment, and its key another page's.
    return path if _DOT_SEGMENT.search(bare) else bare


def _key_query(query: str, names: tuple[frozenset[str], tuple[str, ...]]) -> str:
    exact, prefixes = names
    kept: list[tuple[str, str]] = []
    for pair in query.split("&"):
        name = pair.partition("=")[0]
        lower = name.lower()
        if pair and lower not in exact and not lower.startswith(prefixes):
            kept.append((name, pair))
    if len(kept) == 1:
        return kept[0][1]
    kept.sort(key=_name_of)
    return "&".join([pair for _, pair in kept])


def _name_of(named: tuple[str, str]) -> str:
    return named[0]


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not bare or not (bare[-1].isdigit() or ":" in bare):  # no name that can be registered ends in a digit
        return None
    try:
        return ipaddress.ip_address(bare)
    except ValueError:
        return None
