"""Which addresses and names may be dialled: judged before any packet is sent. Pure.

`vet` judges one address, `vet_answers` all answers for a name, `vet_name` a host name before it is looked up.
Each returns None if nothing speaks against it, else the reason in words. Python's own `is_global` is not used: it
passes NAT64, Teredo and 6to4 forms that carry a private address, Azure's host-side 168.63.129.16, and differs between
Python versions.
"""

from __future__ import annotations

from functools import lru_cache
from ipaddress import AddressValueError, IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# Blocks that are not for a public crawler. Source: IANA IPv4 and IPv6 Special-Purpose Address Registries as of 2025.
# The few blocks that the registries call globally reachable inside these (192.0.0.9, 192.0.0.10, 2001:1::1, ...) are
# anycast services that serve no web pages, so they are not excepted.
_SPECIAL_IPV4 = (
    ("0.0.0.0/8", "this network (RFC 791)"),
    ("10.0.0.0/8", "private (RFC 1918)"),
    ("100.64.0.0/10", "shared address space (RFC 6598)"),
    ("127.0.0.0/8", "loopback (RFC 1122)"),
    ("169.254.0.0/16", "link-local (RFC 3927)"),
    ("172.16.0.0/12", "private (RFC 1918)"),
    ("192.0.0.0/24", "IETF protocol assignment (RFC 6890)"),
    ("192.0.2.0/24", "documentation (RFC 5737)"),
    ("192.31.196.0/24", "AS112 (RFC 7535)"),
    ("192.52.193.0/24", "AMT (RFC 7450)"),
    ("192.88.99.0/24", "deprecated 6to4 relay (RFC 7526)"),
    ("192.168.0.0/16", "private (RFC 1918)"),
    ("192.175.48.0/24", "AS112 (RFC 7534)"),
    ("198.18.0.0/15", "benchmarking (RFC 2544)"),
    ("198.51.100.0/24", "documentation (RFC 5737)"),
    ("203.0.113.0/24", "documentation (RFC 5737)"),
    ("224.0.0.0/4", "multicast (RFC 5771)"),
    ("240.0.0.0/4", "reserved (RFC 1112)"),
)
_SPECIAL_IPV6 = (
    ("::/128", "unspecified (RFC 4291)"),
    ("::1/128", "loopback (RFC 4291)"),
    ("::/96", "IPv4-compatible (RFC 4291)"),
    ("::ffff:0:0/96", "IPv4-mapped (RFC 4291)"),
    ("::ffff:0:0:0/96", "IPv4-translated (RFC 2765)"),
    ("64:ff9b:1::/48", "local NAT64 (RFC 8215)"),
    ("100::/64", "discard-only (RFC 6666)"),
    ("100:0:0:1::/64", "dummy prefix (RFC 9780)"),
    ("2001::/32", "Teredo (RFC 4380)"),
    ("2001:db8::/32", "documentation (RFC 3849)"),
    ("2001::/23", "IETF protocol assignment (RFC 2928)"),
    ("2002::/16", "6to4 (RFC 3056)"),
    ("2620:4f:8000::/48", "AS112 (RFC 7534)"),
    ("3fff::/20", "documentation (RFC 9637)"),
    ("5f00::/16", "segment routing (RFC 9602)"),
    ("fc00::/7", "unique local (RFC 4193)"),
    ("fe80::/10", "link-local (RFC 4291)"),
    ("fec0::/10", "deprecated site-local (RFC 3879)"),
    ("ff00::/8", "multicast (RFC 4291)"),
)

# Addresses where a cloud hands out credentials or configuration to whoever asks from inside.
_METADATA = (
    "169.254.169.0/24",  # AWS, Google, Azure, Oracle, DigitalOcean, OpenStack
    "169.254.170.0/24",  # AWS container credentials
    "169.254.0.23/32",  # Tencent
    "168.63.129.16/32",  # Azure wire server; lies in public space
    "192.0.0.192/32",  # Oracle classic
    "100.100.100.200/32",  # Alibaba
    "fd00:ec2::/32",  # AWS
    "fd20:ce::254/128",  # Google
    "fe80::a9fe:a9fe/128",  # OpenStack
)

_METADATA_NAMES = frozenset(
    {
        "metadata",
        "metadata.google.internal",
        "instance-data",
        "instance-data.ec2.internal",
        "metadata.tencentyun.com",
        "api.metadata.cloud.ibm.com",
        "metadata.platformequinix.com",
        "rancher-metadata",
    }
)

# Names that no public server has, whatever a resolver answers.
_PRIVATE_SUFFIXES = {
    "localhost": "always local (RFC 6761)",
    "localdomain": "a local name",
    "local": "multicast DNS (RFC 6762)",
    "home.arpa": "a home network (RFC 8375)",
    "internal": "reserved for private use",
    "lan": "a private name",
    "corp": "a private name",
    "home": "a private name",
    "intranet": "a private name",
    "svc": "a cluster service",
    "cluster.local": "a cluster service",
    "onion": "not in DNS (RFC 7686)",
    "alt": "not in DNS (RFC 9476)",
    "invalid": "never resolves (RFC 6761)",
    "in-addr.arpa": "the reverse tree",
    "ip6.arpa": "the reverse tree",
}

_Address = IPv4Address | IPv6Address
_Masked = tuple[int, int, str]


def _masked(network: IPv4Network | IPv6Network, name: str) -> _Masked:
    return int(network.network_address), int(network.netmask), name


_V4_BLOCKS = tuple(_masked(IPv4Network(block), f"{name}, {block}") for block, name in _SPECIAL_IPV4)
_V6_BLOCKS = tuple(_masked(IPv6Network(block), f"{name}, {block}") for block, name in _SPECIAL_IPV6)
_V4_METADATA = tuple(_masked(IPv4Network(block), block) for block in _METADATA if ":" not in block)
_V6_METADATA = tuple(_masked(IPv6Network(block), block) for block in _METADATA if ":" in block)
_GLOBAL_UNICAST = _masked(IPv6Network("2000::/3"), "")
_NAT64 = _masked(IPv6Network("64:ff9b::/96"), "")


@lru_cache(maxsize=4096)  # a host's pages all come with one address
def vet(address: str, *, private_ok: bool) -> str | None:
    """Return None if `address` (an IP literal, no brackets) may be dialled, else why not.

    `private_ok` lifts every rule but these: what is no address, zone ids, and cloud metadata, also when a metadata
    address is carried inside an IPv6 form.
    """
    if "%" in address:
        return f"{address} has a zone id"
    try:
        parsed = ip_address(address)
    except (ValueError, AddressValueError):
        return f"{address!r} is no IP address"
    carried = tuple(_carried(parsed)) if isinstance(parsed, IPv6Address) else ()
    for one in (parsed, *carried):
        if _block(one, _V4_METADATA, _V6_METADATA):
            return f"{address} is a cloud metadata address"
    if private_ok:
        return None
    why = _not_global(parsed)
    return None if why is None else f"{address} is not public: {why}"


def vet_answers(addresses: Sequence[str], *, private_ok: bool) -> str | None:
    """Return None if every answer for one name may be dialled, else why the name is refused.

    One bad answer refuses the name: a name that mixes public and private addresses is how rebinding looks, and which
    of them would be dialled is chance.
    """
    return next((why for address in addresses if (why := vet(address, private_ok=private_ok))), None)


def vet_name(host: str, *, private_ok: bool) -> str | None:
    """Return None if the host name (ASCII, as in a parsed URL; not a literal) may be looked up, else why not.

    `private_ok` lifts every rule but that for metadata names.
    """
    name = host.lower().rstrip(".")
    if name in _METADATA_NAMES:
        return f"{name} is a cloud metadata name"
    if private_ok:
        return None
    labels = name.split(".")
    if len(labels) == 1:
        return f"{name} has no dot: a local name"
    for suffix in (labels[-1], ".".join(labels[-2:])):
        if suffix in _PRIVATE_SUFFIXES:
            return f"{name} is not public: {_PRIVATE_SUFFIXES[suffix]}"
    return None


def _not_global(address: _Address) -> str | None:
    why = _block(address, _V4_BLOCKS, _V6_BLOCKS)
    if why is not None or isinstance(address, IPv4Address):
        return why
    bits = int(address)
    if _within(bits, _NAT64):  # RFC 6052: as public as the address it carries
        return _not_global(IPv4Address(bits & 0xFFFFFFFF))
    if not _within(bits, _GLOBAL_UNICAST):
        return "outside the global unicast range 2000::/3"
    if _is_isatap(bits):
        return "ISATAP (RFC 5214)"
    return None


def _block(address: _Address, ipv4: Iterable[_Masked], ipv6: Iterable[_Masked]) -> str | None:
    bits = int(address)
    blocks = ipv4 if isinstance(address, IPv4Address) else ipv6
    return next((block[2] for block in blocks if _within(bits, block)), None)


def _within(bits: int, block: _Masked) -> bool:
    return bits & block[1] == block[0]


def _is_isatap(bits: int) -> bool:
    return (bits >> 32) & 0xFFFFFFFF in (0x00005EFE, 0x02005EFE)


def _carried(address: IPv6Address) -> list[IPv4Address]:
    """Every IPv4 address that this IPv6 address can stand for; too many is harmless, they only refuse."""
    bits = int(address)
    low = bits & 0xFFFFFFFF
    found: list[int] = []
    if bits >> 32 in (0, 0xFFFF, 0xFFFF0000) or _within(bits, _NAT64) or _is_isatap(bits):
        found.append(low)
    elif bits >> 80 == 0x0064FF9B0001:  # RFC 8215; any RFC 6052 length, of which /48 and /96 are in use
        found += [low, ((bits >> 64) & 0xFFFF) << 16 | (bits >> 40) & 0xFFFF]
    elif bits >> 112 == 0x2002:
        found.append((bits >> 80) & 0xFFFFFFFF)
    elif bits >> 96 == 0x20010000:  # Teredo: the server, and the client with its bits turned over
        found += [(bits >> 64) & 0xFFFFFFFF, low ^ 0xFFFFFFFF]
    return [IPv4Address(one) for one in found]
