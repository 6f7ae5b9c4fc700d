"""Address groups: the second gate key, so that many names on one machine do not add up to a flood.

A group is one IPv4 address, or one IPv6 /64, the least that a network hands to one customer (RFC 6177, section 2;
RIPE-690, section 4.2), so that one machine's many IPv6 addresses count as one.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

# at least two at once in a group: many unrelated sites share one address
_LEAST_IN_GROUP = 2
_MOST_SPACING_S = 0.5

_NAT64 = IPv6Network("64:ff9b::/96")  # RFC 6052: the whole IPv4 Internet in one /64


def group_key(address: str, *, group_private: bool = False) -> str:
    """Return the key of the address group of `address`, '' if it is in none.

    Private addresses (those not globally routable) are in a group only with `group_private`: there one address is
    commonly a developer's machine that serves many names. An IPv6 address that embeds an IPv4 one (mapped, NAT64)
    is grouped under that. Raises ValueError for text that is no address.
    """
    ip = _embedded(ip_address(address.partition("%")[0]))
    if not (ip.is_global or group_private):
        return ""
    if isinstance(ip, IPv4Address):
        return str(ip)
    return str(IPv6Network((int(ip) >> 64 << 64, 64)))


def most_in_group(per_host: int) -> int:
    """Return how many requests may be in flight in one group."""
    return max(_LEAST_IN_GROUP, per_host)


def group_spacing_s(min_delay_s: float) -> float:
    """Return the least time between two starts in one group."""
    return min(_MOST_SPACING_S, min_delay_s)


def _embedded(ip: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    if isinstance(ip, IPv4Address):
        return ip
    if ip.ipv4_mapped is not None:
        return ip.ipv4_mapped
    if ip in _NAT64:
        return IPv4Address(int(ip) & 0xFFFF_FFFF)
    return ip
