"""What hosts do to the crawl's own books: in each of these a crawl broke off, or never ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mannerly.testing.site import Reply, Site

if TYPE_CHECKING:
    from tests.outside.conftest import Crawl

pytestmark = [pytest.mark.outside, pytest.mark.slow]


def test_a_host_that_fails_while_more_is_in_flight_is_retired_once(site: Site, crawl: Crawl) -> None:
    """The 20th failure in a row retires the host; those still out come back to a host that is retired already."""
    paths = [f"/{n}" for n in range(40)]
    site.page("a.test", "/", "".join(f'<a href="{path}">x</a>' for path in paths))
    for path in paths:
        site.route("a.test", path, Reply(raw=b"this is not HTTP\r\n\r\n", delay_s=0.1))
    ran = crawl(site, site.url("a.test"), "--per-host", "4", "--patience", "2")
    assert ran.code == 0, ran.stderr
    assert ran.stderr.count("reason=host-retired") == 1
    assert crawl.host("a.test").reason == "host-retired"
    # the page, robots.txt, 20 failures and what was out when the last of them came
    assert 22 <= len(site.requests) <= 25


def test_i9_hosts_whose_robots_lead_from_one_to_the_next_stay_within_the_bound(
    site: Site, crawl: Crawl
) -> None:
    """Each host asked brings in the one that its robots.txt moved to, whose own URLs have to wait for a place."""
    names = [f"h{n}.test" for n in range(8)]
    site.page(names[0], "/", "".join(f'<a href="{site.url(name)}">x</a>' for name in names))
    for name, following in zip(names[1:], [*names[2:], names[0]], strict=True):
        site.page(name, "/", name)
        site.redirect(name, "/robots.txt", site.url(following, "/robots.txt"))
    small = crawl.configuration("[frontier]\nactive_hosts = 1\n")
    ran = crawl(site, site.url(names[0]), "--scope", "any", "--patience", "2", *small)
    assert ran.code == 0, ran.stderr
    assert sorted(ran.urls) == sorted(site.url(name) for name in names)


def test_the_patience_ends_a_crawl_with_more_hosts_in_wait_than_memory_holds(
    site: Site, crawl: Crawl
) -> None:
    names = [f"h{n}.test" for n in range(5)]
    for name in names:
        site.route(name, "/", Reply(status=503, headers=[("Retry-After", "3600")]))
    small = crawl.configuration("[frontier]\nactive_hosts = 2\n")
    ran = crawl(site, *map(site.url, names), "--patience", "2", *small, timeout_s=60)
    assert ran.code == 1, ran.stderr
    assert "longer than the patience" in ran.stderr
    # all of them were asked all the same
    assert [site.paths(name) for name in names] == [["/robots.txt", "/"]] * 5


def test_a_host_parked_for_its_crawl_delay_is_not_asked_by_the_next_run_either(
    site: Site, crawl: Crawl
) -> None:
    """The rules of a run before are still good, and so is what they ask."""
    site.page("a.test", "/", "a")
    site.robots("a.test", "User-agent: *\nCrawl-delay: 7200\n")
    for _ in range(2):
        ran = crawl(site, site.url("a.test"), "--patience", "2")
        assert ran.code == 1, ran.stderr
        assert crawl.host("a.test").reason == "crawl-delay-too-long"
    assert site.paths("a.test") == ["/robots.txt"]


def test_i1_each_hop_of_a_redirect_is_a_task_of_its_own(site: Site, crawl: Crawl) -> None:
    """A worker that followed it would come at once, past the delay, and to the next host without its rules."""
    site.redirect("a.test", "/", "/second")
    site.redirect("a.test", "/second", site.url("b.test", "/third"))
    site.redirect("b.test", "/third", site.url("b.test", "/private"))
    site.page("b.test", "/private", "not for us")
    site.robots("b.test", "User-agent: *\nDisallow: /private\n")
    ran = crawl(site, site.url("a.test"), "--delay", "0.3")
    assert ran.code == 1, ran.stderr
    assert site.paths("a.test") == ["/robots.txt", "/", "/second"]
    assert site.paths("b.test") == ["/robots.txt", "/third"]
    assert site.violations(0.3) == []
