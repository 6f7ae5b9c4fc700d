"""Names: resolved by workers through a name server on loopback, and what becomes of those that do not resolve."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mannerly.model.task import UrlState
from mannerly.model.verdict import Reason
from mannerly.testing.site import Site

if TYPE_CHECKING:
    from tests.outside.conftest import Crawl, NameServer

pytestmark = [pytest.mark.outside, pytest.mark.slow]

CONTACT = ("--contact", "crawl@example.org")


def options(crawl: Crawl, server: NameServer) -> list[str]:
    """Return the options of a crawl that asks this name server."""
    return [*crawl.configuration(f'[fetch]\nnameservers = ["127.0.0.1:{server.port}"]\n'), *CONTACT]


def test_b82_a_name_that_does_not_exist_is_final_in_seconds(
    site: Site, crawl: Crawl, name_server: NameServer
) -> None:
    site.page("a.test", "/", "a")
    gone = [f"http://nosuch.example.com:{site.port}/{path}" for path in ("", "x", "y")]
    ran = crawl(site, *gone, site.url("a.test"), *options(crawl, name_server))
    assert ran.code == 0, ran.stderr
    assert ran.urls == [site.url("a.test")]
    assert ran.elapsed_s < 30
    for url in gone:
        stored = crawl.stored(url)
        assert stored.state is UrlState.FAILED
        assert stored.reason is Reason.NAME_NOT_FOUND
    # counted for the host: two tries, each of A and AAAA, for three URLs
    assert name_server.asked.count("nosuch.example.com") <= 4


def test_b82_no_page_of_a_name_that_does_not_exist_is_exit_1(
    site: Site, crawl: Crawl, name_server: NameServer
) -> None:
    ran = crawl(site, "http://nosuch.example.com/", *options(crawl, name_server))
    assert ran.code == 1
    assert ran.elapsed_s < 30
    assert "name-not-found" in ran.stderr


def test_b82_a_name_server_that_fails_is_asked_again_later_for_the_host(
    site: Site, crawl: Crawl, name_server: NameServer
) -> None:
    name_server.names["ill.example.com"] = name_server.SERVFAIL
    site.page("a.test", "/", "a")
    ill = [f"http://ill.example.com:{site.port}/{path}" for path in ("", "x", "y")]
    ran = crawl(site, *ill, site.url("a.test"), *options(crawl, name_server), "--patience", "5")
    assert ran.code == 0, ran.stderr
    assert all(crawl.stored(url).state is UrlState.WAITING for url in ill)
    assert "ill.example.com" in ran.stderr
    # one round of tries of the resolver, not one for each URL
    assert name_server.asked.count("ill.example.com") <= 8


def test_a_name_is_resolved_once_and_its_address_dialled(
    site: Site, crawl: Crawl, name_server: NameServer
) -> None:
    name_server.names["real.example.com"] = "127.0.0.1"
    site.page("real.example.com", "/", '<a href="/b">b</a>')
    site.page("real.example.com", "/b", "b")
    resolve = "--allow-private-addresses"
    seed = f"http://real.example.com:{site.port}/"
    # the site would map the name itself: its other names only
    typed = [*options(crawl, name_server), resolve]
    with Site() as other:
        ran = crawl(other, seed, *typed)
    assert ran.code == 0, ran.stderr
    assert site.paths("real.example.com") == ["/robots.txt", "/", "/b"]
    assert name_server.asked.count("real.example.com") <= 2


def test_i11_a_public_name_with_a_private_address_is_refused(
    site: Site, crawl: Crawl, name_server: NameServer
) -> None:
    name_server.names["rebound.example.com"] = "127.0.0.1"
    site.page("a.test", "/", f'<a href="http://rebound.example.com:{site.port}/">x</a>')
    typed = [*options(crawl, name_server), "--scope", "any", "--port", str(site.port)]
    ran = crawl(site, site.url("a.test"), *typed)
    assert ran.code == 0, ran.stderr
    assert site.paths("rebound.example.com") == []
    stored = crawl.stored(f"http://rebound.example.com:{site.port}/")
    assert stored.reason is Reason.ADDRESS_REFUSED


def test_an_address_that_does_not_answer_is_followed_by_the_next(
    site: Site, crawl: Crawl, name_server: NameServer
) -> None:
    # nobody listens on the second; which of the two comes first is the resolver's to say
    name_server.names["two.example.com"] = ("127.0.0.9", "127.0.0.1")
    name_server.names["owt.example.com"] = ("127.0.0.1", "127.0.0.9")
    for name in ("two.example.com", "owt.example.com"):
        site.page(name, "/", "there")
    seeds = [f"http://{name}:{site.port}/" for name in ("two.example.com", "owt.example.com")]
    typed = [*options(crawl, name_server), "--allow-private-addresses", "--patience", "10"]
    with Site() as other:
        ran = crawl(other, *seeds, *typed)
    assert ran.code == 0, ran.stderr
    assert sorted(ran.urls) == sorted(seeds)
