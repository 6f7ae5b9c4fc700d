"""Addresses in hand, or asked for as resolve tasks: a fetch never resolves.

An address comes from the host itself if it is a literal, from `--resolve`, or from a resolve task that a worker
performed; it is valid until its expiry, past which a new resolve task is due.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping

from mannerly.coordinator.hosts import ActiveHost

FOREVER = float("inf")


class AddressBook:
    """Which address a host is asked at. `mapped` is `--resolve`: names, or `*.name`, to an address."""

    def __init__(self, mapped: Mapping[str, str]) -> None:
        self._exact = {name: address for name, address in mapped.items() if not name.startswith("*")}
        self._under = {name[1:]: address for name, address in mapped.items() if name.startswith("*.")}
        self._everything = mapped.get("*", "")

    def known(self, name: str) -> str:
        """Return the address that needs no resolution, or ''."""
        if name in self._exact:
            return self._exact[name]
        _, dot, parent = name.partition(".")
        while dot:
            if "." + parent in self._under:
                return self._under["." + parent]
            _, dot, parent = parent.partition(".")
        return self._everything or literal(name)

    def current(self, host: ActiveHost, now: float) -> str:
        """Return the address to ask the host at, or '' if a resolve task is due."""
        known = self.known(host.name)
        if known:
            return known
        held = host.addresses
        if not held.addresses or held.expires_at <= now:
            return ""
        return held.addresses[host.address_index % len(held.addresses)]


def literal(name: str) -> str:
    """Return the address that an IP-literal host names, or ''."""
    try:
        return str(ipaddress.ip_address(name.strip("[]")))
    except ValueError:
        return ""
