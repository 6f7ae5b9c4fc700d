"""What is carried out and what is refused, before anything is opened or asked."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mannerly.cli.job import Job, default_folder, is_public, job_of
from mannerly.model import url as urls
from mannerly.model.config import Config, FetchConfig, IdentityConfig
from mannerly.model.errors import ConfigRefused

NOW = 1_800_000_000.0
CONTACT = IdentityConfig(contact="me@example.org")


def job(*seeds: str, contact: str = "me@example.org", **fetch: object) -> Job:
    """Return the job for seeds under a contact and fetch settings."""
    config = Config(identity=IdentityConfig(contact=contact), fetch=replace(FetchConfig(), **fetch))  # type: ignore[arg-type]
    return job_of(config, seeds, now=NOW)


def test_i10_a_public_seed_without_a_contact_is_refused_with_the_line_to_copy() -> None:
    with pytest.raises(ConfigRefused) as refused:
        job("https://example.org/", contact="")
    assert refused.value.exit_code == 78
    assert "mannerly crawl https://example.org/ --contact" in refused.value.hint


@pytest.mark.parametrize(
    "host", ["localhost", "a.localhost", "127.0.0.1", "[::1]", "10.1.2.3", "mapped.test"]
)
def test_a_host_that_is_not_public_needs_no_contact(host: str) -> None:
    assert not is_public(host, {"mapped.test": "127.0.0.1"})
    made = job(
        f"http://{host}/", contact="", allow_private_addresses=True, resolve=("mapped.test=127.0.0.1",)
    )
    assert not made.needs_contact(host)


def test_a_name_mapped_to_a_public_address_is_public() -> None:
    assert is_public("a.test", {"a.test": "93.184.216.34"})


@pytest.mark.parametrize(
    "contact", ["me", "me@", "http://", "Zoë@example.org", "https://exämple.org/", "a b@c.de"]
)
def test_a_contact_that_nobody_can_use_is_refused(contact: str) -> None:
    with pytest.raises(ConfigRefused, match="contact"):
        job("https://example.org/", contact=contact)


@pytest.mark.parametrize("proxy", ["nonsense", "127.0.0.1:3128", "ftp://p:1", "http://"])
def test_a_proxy_that_is_no_url_is_refused_at_once(proxy: str) -> None:
    with pytest.raises(ConfigRefused, match="proxy"):
        job("https://example.org/", proxy=proxy)


@pytest.mark.parametrize("proxy", ["http://127.0.0.1:3128", "https://p.test", "socks5h://u:p@127.0.0.1:1080"])
def test_a_proxy_of_a_kind_that_tunnels_is_taken(proxy: str) -> None:
    assert job("https://example.org/", proxy=proxy).config.fetch.proxy == proxy


@pytest.mark.parametrize(
    "header", ["User-Agent: x", "Host: b.test", "From: a@b.de", "no colon", "Bad Name: x", "X: \x01"]
)
def test_a_header_that_is_ours_or_none_is_refused(header: str) -> None:
    with pytest.raises(ConfigRefused, match="header"):
        job("https://example.org/", headers=(header,))


@pytest.mark.parametrize(
    "mapping", ["a.test", "a.test=", "=127.0.0.1", "a.test=nowhere", "a*.test=127.0.0.1"]
)
def test_a_mapping_that_maps_nothing_is_refused(mapping: str) -> None:
    with pytest.raises(ConfigRefused, match="resolve"):
        job("https://example.org/", resolve=(mapping,))


def test_a_private_seed_needs_the_loud_switch() -> None:
    with pytest.raises(ConfigRefused) as refused:
        job("http://127.0.0.1:8000/")
    assert "--allow-private-addresses" in refused.value.hint


def test_bad_seeds_among_good_ones_are_told_and_cost_nothing() -> None:
    made = job("https://example.org/", "mailto:a@b.de", "http://me:secret@example.org/", "http://a..test/")
    assert [seed.url.href for seed in made.seeds] == ["https://example.org/"]
    assert len(made.bad_seeds) == 3
    assert not any("secret" in text for text, _ in made.bad_seeds)


@pytest.mark.parametrize(
    ("seed", "folder"),
    [
        ("https://example.org/x", "crawl-example.org"),
        ("http://example.org:8080/", "crawl-example.org-8080"),
        ("http://[::1]/", "crawl-__1"),
        ("https://example.org./", "crawl-example.org"),
    ],
)
def test_the_state_folder_is_named_after_the_first_seed_and_safe(seed: str, folder: str) -> None:
    assert default_folder(urls.parse(seed)) == folder


@pytest.mark.parametrize(
    ("seed", "says", "hint"),
    [
        ("http://h0.test:99999/", "no port 99999", "1 to 65535"),
        ("h0.test:65536", "no port 65536", "1 to 65535"),
        ("http://h0.test:" + "9" * 5_000, "no port", "1 to 65535"),
        ("http://[::1]:99999/", "no port 99999", "1 to 65535"),
        ("http://h0.test:80a/", "not valid", "give a URL"),
        ("http://", "not valid", "give a URL"),
        ("-", "a dash is no URL", "-i -"),
        ("mailto:a@b.test", "only http and https", "http://"),
        ("http://me:secret@a.test/", "user name or password", "--header"),
    ],
)
def test_what_is_wrong_with_a_seed_is_said(seed: str, says: str, hint: str) -> None:
    with pytest.raises(ConfigRefused, match=says) as refused:
        job(seed)
    assert hint in refused.value.hint
    assert "secret" not in str(refused.value)
    good = job("https://example.org/", seed)
    assert says in good.bad_seeds[0][1]
