"""Address groups."""

from __future__ import annotations

import pytest

from mannerly.policy.groups import group_key, group_spacing_s, most_in_group


@pytest.mark.parametrize(
    ("address", "key"),
    [
        ("93.184.215.14", "93.184.215.14"),
        ("2606:2800:21f:cb07:6820:80da:af6b:8b2c", "2606:2800:21f:cb07::/64"),
        ("2606:2800:21f:cb07::1", "2606:2800:21f:cb07::/64"),
        ("2606:2800:21f:cb08::1", "2606:2800:21f:cb08::/64"),
        ("::ffff:93.184.215.14", "93.184.215.14"),
        ("64:ff9b::5db8:d70e", "93.184.215.14"),
    ],
)
def test_public_address_is_grouped_by_machine(address: str, key: str) -> None:
    assert group_key(address) == key


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "10.1.2.3", "192.168.1.9", "100.64.0.1", "::1", "fe80::1", "fd12::1", "::ffff:10.0.0.1"],
)
def test_private_address_is_grouped_only_on_demand(address: str) -> None:
    assert group_key(address) == ""
    assert group_key(address, group_private=True) != ""


def test_loopback_addresses_are_groups_of_their_own() -> None:
    assert group_key("127.0.0.1", group_private=True) != group_key("127.0.0.2", group_private=True)


def test_a_name_is_no_address() -> None:
    with pytest.raises(ValueError, match=r"a\.test"):
        group_key("a.test")


def test_group_takes_two_or_as_many_as_one_host_may() -> None:
    assert [most_in_group(n) for n in (1, 2, 3, 8)] == [2, 2, 3, 8]


def test_starts_in_a_group_are_apart_half_a_second_or_the_delay() -> None:
    assert [group_spacing_s(s) for s in (0.0, 0.2, 1.0)] == [0.0, 0.2, 0.5]
