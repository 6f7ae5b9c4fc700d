"""Hosts that a worker for public addresses must refuse, or may fetch: `conformance/ssrf`.

A URL goes the way of any link: parsed by the URL standard, its name judged, its answers (of a fake resolver) judged,
then what the fetcher itself judges before it dials. Redirect targets go the same way as a second request.
"""

from __future__ import annotations

import json
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING, Any

import pytest

from mannerly.model.errors import InvalidUrl
from mannerly.model.url import parse
from mannerly.net.address import vet, vet_answers, vet_name
from mannerly.net.exchange import Request
from mannerly.net.fetch import refusal

if TYPE_CHECKING:
    from pathlib import Path

PORTS = frozenset({80, 443, 8080, 8443})
PAGE = "http://public.test/"


@pytest.fixture(scope="module")
def hosts(shared: Path) -> list[dict[str, Any]]:
    lines = (shared / "conformance/ssrf/hosts.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def why_refused(url: str, answers: list[str]) -> str | None:
    """Return why nothing is dialled for a link on `PAGE`, or None."""
    try:
        parsed = parse(url, PAGE)
    except InvalidUrl as error:
        return str(error)
    host = parsed.host.strip("[]")
    try:
        answers = [str(ip_address(host))]
    except ValueError:
        if (why := vet_name(host, private_ok=False)) is not None:
            return why
    if not answers:
        return "no answer"
    if (why := vet_answers(answers, private_ok=False)) is not None:
        return why
    request = Request(url=parsed.href, address=answers[0], user_agent="mannerly/0", ports=PORTS)
    found = refusal(request)
    return None if found is None else f"{found[0]}: {found[1]}"


def is_right(row: dict[str, Any]) -> bool:
    sequence = row.get("resolved_sequence", [row.get("resolved", [])])
    why = [why_refused(row["url"], answers) for answers in sequence]
    match row["verdict"]:
        case "allow":
            return why == [None]
        case "refuse" | "error_dns":
            return None not in why
        case "allow_or_refuse":
            return True
        case "connect_only_to_first_checked_address" | "refuse_second_request":
            return why[0] is None and why[1] is not None
        case "refuse_second_hop":
            location = row["response"]["location"]
            hop = why_refused(location, LAN.get(location, []))
            return why == [None] and hop is not None
    return False


LAN = {"http://lan.test/": ["192.168.1.10"]}  # row s350 says what the resolver answers


def test_every_row_is_judged_right(hosts: list[dict[str, Any]]) -> None:
    assert len(hosts) == 452
    assert [(row["id"], row["url"]) for row in hosts if not is_right(row)] == []


def test_every_block_is_refused_at_both_ends(shared: Path) -> None:
    """Blocks that the registries call globally reachable (AS112, AMT, anycast) hold no web servers; those may be refused."""
    blocks = json.loads((shared / "conformance/ssrf/special_purpose_blocks.json").read_text(encoding="utf-8"))
    passed = [
        str(address)
        for block in blocks["ipv4"] + blocks["ipv6"]
        if block["globally_reachable"] is False
        for address in (ip_network(block["block"])[0], ip_network(block["block"])[-1])
        if vet(str(address), private_ok=False) is None
    ]
    assert passed == []
