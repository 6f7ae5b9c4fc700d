"""Which addresses and names may be dialled."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mannerly.net.address import vet, vet_answers, vet_name

METADATA = [
    "169.254.169.254",
    "169.254.170.2",
    "168.63.129.16",
    "100.100.100.200",
    "fd00:ec2::254",
    "fd20:ce::254",
]


def forms(address: str) -> list[str]:
    """Every IPv6 form that carries an IPv4 address."""
    bits = int(IPv4Address(address))
    return [
        str(IPv6Address(one))
        for one in (
            bits,  # IPv4-compatible
            0xFFFF << 32 | bits,  # mapped
            0xFFFF << 48 | bits,  # translated
            0x64FF9B << 96 | bits,  # NAT64
            0x64FF9B0001 << 80 | bits,  # local NAT64, /96
            0x64FF9B0001 << 80 | (bits >> 16) << 64 | (bits & 0xFFFF) << 40,  # local NAT64, /48
            0x2002 << 112 | bits << 80,  # 6to4
            0x20010000 << 96 | bits << 64,  # Teredo server
            0x20010000 << 96 | (bits ^ 0xFFFFFFFF),  # Teredo client
            0x2A0104F8 << 96 | 0x5EFE << 32 | bits,  # ISATAP
            0x2A0104F8 << 96 | 0x02005EFE << 32 | bits,
        )
    ]


@pytest.mark.parametrize("address", ["1.1.1.1", "93.184.215.14", "2606:4700:4700::1111", "64:ff9b::808:808"])
def test_public_address_may_be_dialled(address: str) -> None:
    assert vet(address, private_ok=False) is None


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "10.0.0.1", "::1", "fd12::1", "fe80::1", "100.64.0.1", "0.0.0.0"]
)
def test_private_address_may_be_dialled_only_where_allowed(address: str) -> None:
    assert vet(address, private_ok=False) is not None
    assert vet(address, private_ok=True) is None


@pytest.mark.parametrize("address", METADATA)
@pytest.mark.parametrize("private_ok", [True, False])
def test_metadata_address_is_always_refused(address: str, private_ok: bool) -> None:
    assert "metadata" in (vet(address, private_ok=private_ok) or "")


@pytest.mark.parametrize("address", forms("169.254.169.254"))
def test_metadata_address_inside_an_ipv6_form_is_always_refused(address: str) -> None:
    assert "metadata" in (vet(address, private_ok=True) or "")


@given(st.ip_addresses(v=4, network="10.0.0.0/8") | st.ip_addresses(v=4, network="127.0.0.0/8"))
def test_private_address_inside_an_ipv6_form_is_refused(address: object) -> None:
    assert [one for one in forms(str(address)) if vet(one, private_ok=False) is None] == []


@pytest.mark.parametrize(
    "text", ["", "x", "127.1", "1.2.3.4.5", "::1%lo", "fe80::1%eth0", "1.1.1.1%1", "[::1]", "0x7f.1"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    assert vet(text, private_ok=True) is not None


@pytest.mark.slow
@given(st.ip_addresses())
def test_python_never_calls_private_what_may_be_dialled(address: IPv4Address | IPv6Address) -> None:
    if vet(str(address), private_ok=False) is None:
        assert address.is_global


@pytest.mark.slow
@given(st.text())
def test_any_text_is_judged(text: str) -> None:
    vet(text, private_ok=False)
    vet_name(text, private_ok=False)


def test_one_bad_answer_refuses_the_name() -> None:
    assert vet_answers(["93.184.215.14", "2606:4700:4700::1111"], private_ok=False) is None
    assert "10.0.0.1" in (vet_answers(["93.184.215.14", "10.0.0.1"], private_ok=False) or "")


@pytest.mark.parametrize(
    "name", ["site.test", "a.example.org", "localhost.example.org", "internal.example.org", "x.local.org"]
)
def test_public_name_may_be_looked_up(name: str) -> None:
    assert vet_name(name, private_ok=False) is None


@pytest.mark.parametrize(
    "name", ["localhost", "a.localhost.", "db.internal", "printer.LOCAL", "intranet", "", "nas.home.arpa"]
)
def test_private_name_may_be_looked_up_only_where_allowed(name: str) -> None:
    assert vet_name(name, private_ok=False) is not None
    assert vet_name(name, private_ok=True) is None


def test_metadata_name_is_always_refused() -> None:
    assert vet_name("metadata.google.internal.", private_ok=True) is not None
