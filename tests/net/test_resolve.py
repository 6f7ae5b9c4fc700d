"""Resolving against a small name server on loopback."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import cast

import pytest

from mannerly.net.resolve import MAX_ADDRESSES, MAX_TTL_S, MIN_TTL_S, NEGATIVE_TTL_S, ResolveFailure, Resolver

A, CNAME, AAAA = 1, 5, 28
Record = tuple[int, int, str]
"""Type, seconds to live, value."""


@dataclass
class NameServer(asyncio.DatagramProtocol):
    """Answers from `zone`: records, an RCODE (RFC 1035, 4.1.1), or None for silence. Others do not exist."""

    zone: dict[str, list[Record] | int | None]
    asked: Counter[str] = field(default_factory=Counter)
    port: int = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.DatagramTransport", transport)
        self.port = transport.get_extra_info("sockname")[1]

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        name, kind, end = question(data)
        self.asked[name] += 1
        entry = self.zone.get(name, 3)
        if entry is None:
            return
        code = entry if isinstance(entry, int) else 0
        records = entry if isinstance(entry, list) else []
        owner, answers = b"\xc0\x0c", []  # the name asked for, until an alias leads on
        for record in records:
            if record[0] in (kind, CNAME):
                answers.append(packed(record, owner))
            if record[0] == CNAME:
                owner = encoded(record[2])
        head = data[:2] + struct.pack("!HHHHH", 0x8180 | code, 1, len(answers), 0, 0)
        self.transport.sendto(head + data[12:end] + b"".join(answers), addr)


def question(data: bytes) -> tuple[str, int, int]:
    labels, at = [], 12
    while data[at]:
        labels.append(data[at + 1 : at + 1 + data[at]].decode())
        at += 1 + data[at]
    return ".".join(labels).lower(), struct.unpack_from("!H", data, at + 1)[0], at + 5


def encoded(name: str) -> bytes:
    return b"".join(bytes([len(part)]) + part.encode() for part in name.split(".")) + b"\0"


def packed(record: Record, owner: bytes) -> bytes:
    kind, ttl, value = record
    if kind == CNAME:
        value_bytes = encoded(value)
    else:
        value_bytes = socket.inet_pton(socket.AF_INET if kind == A else socket.AF_INET6, value)
    return owner + struct.pack("!HHIH", kind, 1, ttl, len(value_bytes)) + value_bytes


ZONE: dict[str, list[Record] | int | None] = {
    "dual.test": [(A, 300, "93.184.215.14"), (AAAA, 200, "2606:2800::14")],
    "short.test": [(A, 1, "93.184.215.14")],
    "long.test": [(A, 10_000_000, "93.184.215.14")],
    "many.test": [(A, 300, f"93.184.215.{n}") for n in range(30)],
    "six.test": [(AAAA, 300, "2606:2800::14")],
    "alias.test": [(CNAME, 70, "end.test"), (A, 300, "93.184.215.14")],
    "nothing.test": [],
    "broken.test": 2,
    "unwilling.test": 5,
    "silent.test": None,
    "private.test": [(A, 300, "10.0.0.1")],
}


@asynccontextmanager
async def serving(**options: float) -> AsyncIterator[tuple[NameServer, Resolver]]:
    loop = asyncio.get_running_loop()
    transport, server = await loop.create_datagram_endpoint(
        lambda: NameServer(dict(ZONE)), local_addr=("127.0.0.1", 0)
    )
    entries = int(options.pop("entries", 100))
    resolver = Resolver(nameservers=[f"127.0.0.1:{server.port}"], entries=entries, **options)
    async with resolver:
        yield server, resolver
    transport.close()


async def test_both_families_and_the_shortest_time_come_back() -> None:
    async with serving() as (_, resolver):
        found = await resolver.resolve("dual.test")
    assert set(found.addresses) == {"93.184.215.14", "2606:2800::14"}
    assert (found.failure, found.ttl_s) == (None, 200)


async def test_one_family_is_enough() -> None:
    async with serving() as (_, resolver):
        assert (await resolver.resolve("six.test")).addresses == ("2606:2800::14",)


async def test_alias_is_followed_and_its_time_counts() -> None:
    async with serving() as (_, resolver):
        found = await resolver.resolve("alias.test")
    assert (found.addresses, found.ttl_s) == (("93.184.215.14",), 70)


async def test_private_answers_come_back_to_be_judged() -> None:
    async with serving() as (_, resolver):
        assert (await resolver.resolve("private.test")).addresses == ("10.0.0.1",)


@pytest.mark.parametrize(("name", "ttl_s"), [("short.test", MIN_TTL_S), ("long.test", MAX_TTL_S)])
async def test_time_to_live_is_bounded(name: str, ttl_s: float) -> None:
    async with serving() as (_, resolver):
        assert (await resolver.resolve(name)).ttl_s == ttl_s


async def test_many_addresses_are_cut() -> None:
    async with serving() as (_, resolver):
        assert len((await resolver.resolve("many.test")).addresses) == MAX_ADDRESSES


@pytest.mark.parametrize(
    ("name", "failure"),
    [
        ("no-such.test", ResolveFailure.NAME_NOT_FOUND),
        ("nothing.test", ResolveFailure.NAME_NOT_FOUND),
        ("broken.test", ResolveFailure.SERVFAIL),
        ("unwilling.test", ResolveFailure.SERVFAIL),
        ("x" * 64 + ".test", ResolveFailure.INVALID_NAME),
        ("a..test", ResolveFailure.INVALID_NAME),
        ("é.test", ResolveFailure.INVALID_NAME),
    ],
)
async def test_failures_are_values(name: str, failure: ResolveFailure) -> None:
    async with serving() as (_, resolver):
        found = await resolver.resolve(name)
    assert (found.failure, found.addresses) == (failure, ())


@pytest.mark.slow
async def test_silence_is_a_timeout() -> None:
    async with serving(timeout_s=0.2, try_s=0.1) as (_, resolver):
        assert (await resolver.resolve("silent.test")).failure is ResolveFailure.TIMEOUT


@pytest.mark.slow
async def test_silence_to_every_try_is_a_timeout() -> None:
    async with serving(timeout_s=10, try_s=0.05) as (_, resolver):
        assert (await resolver.resolve("silent.test")).failure is ResolveFailure.TIMEOUT


async def test_answers_are_kept_and_count_down() -> None:
    async with serving() as (server, resolver):
        first = await resolver.resolve("dual.test")
        asked = server.asked["dual.test"]
        second = await resolver.resolve("DUAL.test.")
    assert server.asked["dual.test"] == asked
    assert second.addresses == first.addresses
    assert first.ttl_s - 1 < second.ttl_s < first.ttl_s


async def test_name_that_does_not_exist_is_kept_and_asked_again_when_fresh_is_wanted() -> None:
    async with serving() as (server, resolver):
        first = await resolver.resolve("late.test")
        asked = server.asked["late.test"]
        assert (await resolver.resolve("late.test")).failure is ResolveFailure.NAME_NOT_FOUND
        assert server.asked["late.test"] == asked
        server.zone["late.test"] = [(A, 300, "93.184.215.14")]
        found = await resolver.resolve("late.test", fresh=True)
    assert first.ttl_s == NEGATIVE_TTL_S
    assert found.addresses == ("93.184.215.14",)


async def test_failure_of_a_server_is_not_kept() -> None:
    async with serving() as (server, resolver):
        assert (await resolver.resolve("broken.test")).ttl_s == 0
        server.zone["broken.test"] = [(A, 300, "93.184.215.14")]
        assert (await resolver.resolve("broken.test")).failure is None


async def test_cache_is_bounded_and_the_least_recently_asked_goes_first() -> None:
    async with serving(entries=2) as (server, resolver):
        for name in ("dual.test", "six.test", "dual.test", "long.test"):
            await resolver.resolve(name)
        before = server.asked.copy()
        await resolver.resolve("dual.test")
        assert "2 names" in repr(resolver)
    assert server.asked == before


@pytest.mark.parametrize(
    ("literal", "address"), [("192.0.2.7", "192.0.2.7"), ("2001:DB8:0::7", "2001:db8::7"), ("::1", "::1")]
)
async def test_literal_resolves_to_itself_without_a_question(literal: str, address: str) -> None:
    async with serving() as (server, resolver):
        assert (await resolver.resolve(literal)).addresses == (address,)
        assert not server.asked


async def test_hosts_file_counts() -> None:
    async with serving() as (server, resolver):
        found = await resolver.resolve("localhost")
    assert "127.0.0.1" in found.addresses
    assert not server.asked


async def test_b20_label_too_long_is_a_value_and_others_go_on() -> None:
    async with serving() as (_, resolver):
        found = await asyncio.gather(*(resolver.resolve(name) for name in ("a" * 80 + ".test", "dual.test")))
    assert [one.failure for one in found] == [ResolveFailure.INVALID_NAME, None]


async def test_closed_resolver_is_our_fault() -> None:
    with pytest.raises(RuntimeError, match="async with"):
        await Resolver().resolve("dual.test")
