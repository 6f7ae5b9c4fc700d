"""What went wrong in other crawlers, played to ours: one crawl of hosts that each hold one such case.

Tests are named after the report. The cases that are about robots.txt, pace and names stand in `test_robots`,
`test_polite` and `test_names`.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from mannerly.model.task import UrlState
from mannerly.model.verdict import Reason
from mannerly.testing.site import Reply, Request, Site

if TYPE_CHECKING:
    from tests.outside.conftest import Crawl, Ran

pytestmark = [pytest.mark.outside, pytest.mark.slow]

MAX_BODY = 2 << 20
BAD_LOCATIONS = ("https://:443/", "http://", "http:///x", "://x", "")
LONG_LABEL = "a" * 64


def html(*paths: str, more: str = "") -> str:
    """Return a page that links to `paths`."""
    return "<!doctype html><title>t</title>" + more + "".join(f'<a href="{path}">x</a>' for path in paths)


def redirect_to(location: str, *, status: int = 302, **more: Any) -> Reply:
    """Return a redirect; `location` is sent as it is."""
    return Reply(status=status, headers=(("Location", location),), **more)


def furnish(site: Site) -> list[str]:
    """Put up all hosts; return the seeds."""
    site.page("b18.test", "/", f'<a href="{site.url("b18.test", "/x")} ">1</a><a href="/x">2</a>')
    site.page("b18.test", "/x", "x")
    site.page("b19.test", "/", html("/?s=ni%u011fde"))
    site.page("b19.test", "/?s=ni%u011fde", "x")
    site.page("b20.test", "/", html(f"http://{LONG_LABEL}.test/", "http://a..test/", "/ok", "/moved"))
    site.page("b20.test", "/ok", "x")
    site.route("b20.test", "/moved", redirect_to(f"http://{LONG_LABEL}.test/"))
    site.route("b26.test", "/", redirect_to("/r/", status=303))
    site.page("b26.test", "/r/", html("x"))
    site.page("b26.test", "/r/x", "x")
    partner = Reply(body=html("www.partner.test/p/"))
    site.fallback("b29.test", lambda request: Reply(status=404) if "robots" in request.path else partner)
    site.page("b32.test", "/", html("/a", "/a#top", "/a#caf%C3%A9", "/a?", "/a#"))
    site.page("b32.test", "/a", "a")
    site.page("b33.test", "/", html("/go"))
    site.route("b33.test", "/go", redirect_to("/€/x".encode().decode("latin-1")))
    site.page("b33.test", "/%E2%82%AC/x", "there")
    site.page("b35.test", "/", html("/ok", *(f"/{number}" for number in range(len(BAD_LOCATIONS)))))
    site.page("b35.test", "/ok", "ok")
    for number, location in enumerate(BAD_LOCATIONS):
        site.route("b35.test", f"/{number}", redirect_to(location))
    site.route("b36.test", "/a", redirect_to("/b"))
    site.route("b36.test", "/b", Reply(status=302, headers=(("Set-Cookie", "s=1"), ("Location", "/a"))))
    site.robots("b39.test", "User-agent: *\nDisallow: /private\n")
    site.page("b39.test", "/", html("/r", "/off", "/inner"))
    site.route("b39.test", "/r", redirect_to("/private/x"))
    site.route("b39.test", "/off", redirect_to(site.url("offscope.test", "/x")))
    site.listen("127.0.0.2")
    site.route("b39.test", "/inner", redirect_to(f"http://127.0.0.2:{site.port}/x"))
    site.page("b39.test", "/private/x", "x")
    site.page("offscope.test", "/x", "x")
    site.page("b40.test", "/", html("/old1", "/old2", "/new"))
    site.redirect("b40.test", "/old1", "/new")
    site.redirect("b40.test", "/old2", "/new")
    site.page("b40.test", "/new", "new")
    site.page("b41.test", "/", html("/old"))
    site.redirect("b41.test", "/old", "/new")
    site.page("b41.test", "/new", "new")
    site.redirect("b43.test", "/", site.url("www.b43.test"))
    site.page("www.b43.test", "/", html("/in", site.url("other.b43.test", "/out")))
    site.page("www.b43.test", "/in", "in")
    site.page("other.b43.test", "/out", "out")
    refresh = '<noscript><meta http-equiv="refresh" content="0;url=/nojs"></noscript><p>real text</p>'
    site.page("b44.test", "/", f"<!doctype html><title>t</title><body>{refresh}")
    site.page("b44.test", "/nojs", "no script")
    site.page("b47.test", "/", html("/go"))
    site.route(
        "b47.test",
        "/go",
        Reply(status=302, body="moved", headers=(("Location", "/n"), ("Content-Encoding", "gzip"))),
    )
    site.page("b47.test", "/n", "n")
    text = b"<!doctype html><title>t</title><body><p>hello there, this is the text of the page</p>"
    raw = zlib.compressobj(wbits=-15)
    deflated = {"/raw": raw.compress(text) + raw.flush(), "/wrapped": zlib.compress(text)}
    site.page("b50.test", "/", html(*deflated))
    for path, body in deflated.items():
        site.route("b50.test", path, Reply(body=body, headers=(("Content-Encoding", "deflate"),)))
    site.page("b52.test", "/", html("/short", "/whole"))
    site.page("b52.test", "/whole", "whole")
    site.route("b52.test", "/short", Reply(body="<p>fourteen by" + " " * 9_986, close_after_bytes=14))
    site.page("b55.test", "/", html("/big", "/drip", "/after"))
    site.route("b55.test", "/big", Reply(body=b"a" * (8 << 20), chunked=True))
    site.route("b55.test", "/drip", Reply(body=b"a" * 1_000, chunked=True, pause_s=60, pause_after_bytes=99))
    site.page("b55.test", "/after", "after")
    site.page("b56.test", "/", html("/csp", "/flood"))
    site.page("b56.test", "/csp", "<p>ok", headers={"Content-Security-Policy": "x" * 8_500})
    site.page("b56.test", "/flood", "<p>no", headers={f"X-{number}": "x" * 8_000 for number in range(200)})
    site.page("b63.test", "/", html("/x", "/quiet", more='<meta name=robots content="noindex,follow">'))
    site.page("b63.test", "/x", "x")
    site.page("b63.test", "/quiet", html("/y", more='<meta name=robots content="nofollow">'))
    site.page("b63.test", "/y", "y")
    site.page("b74.test", "/", html("http://", "http://b74.test:99999/", "nonsense:", "/ok"))
    site.page("b74.test", "/ok", "ok")
    # spellings: what is fetched is the URL as it was found, and a redirect may insist on another
    site.page("order.test", "/", html("/as-found?a=2&b=1", "/sorted?b=1&a=2"))
    site.page("order.test", "/as-found?a=2&b=1", "found")
    site.route("order.test", "/as-found?b=1&a=2", Reply(status=500))
    site.route("order.test", "/sorted?b=1&a=2", redirect_to("/sorted?a=2&b=1"))
    site.page("order.test", "/sorted?a=2&b=1", "sorted")
    site.page("spelt.test", "/", html("/p?b=1&a=2"))
    turn = {"/p?b=1&a=2": "/p?a=2&b=1", "/p?a=2&b=1": "/p?b=1&a=2"}
    site.route("spelt.test", "/p", lambda request: redirect_to(turn[request.target]))
    numbers = (18, 19, 20, 26, 32, 33, 35, 39, 40, 41, 43, 44, 47, 50, 52, 55, 56, 63, 74)
    names = [f"b{number}.test" for number in numbers] + ["order.test", "spelt.test"]
    return [*map(site.url, names), site.url("b29.test", "/d/"), site.url("b36.test", "/a")]


@dataclass(frozen=True, slots=True)
class Played:
    """One crawl of all hosts."""

    site: Site
    crawl: Crawl
    ran: Ran

    def pages(self, host: str) -> list[str]:
        """Return the targets asked of a host, but robots.txt, sorted."""
        return sorted(target for target in self.site.paths(host) if target != "/robots.txt")

    def reason(self, host: str, path: str) -> Reason | None:
        """Return why a URL ended as it did."""
        return self.crawl.stored(self.site.url(host, path)).reason

    def record(self, host: str, path: str = "/") -> dict[str, Any]:
        """Return the record of a page."""
        return self.ran.record(self.site.url(host, path))

    def paths_of_records(self, host: str) -> list[str]:
        """Return the paths of a host's records, sorted."""
        start = self.site.url(host, "")
        return sorted(url.removeprefix(start) for url in self.ran.urls if url.startswith(start + "/"))


@pytest.fixture(scope="module")
def played(new_crawl: Callable[[str], Crawl]) -> Iterator[Played]:
    with Site() as site:
        seeds = furnish(site)
        crawl = new_crawl("reports")
        ran = crawl(
            site,
            *seeds,
            *("--delay", "0.02", "--patience", "4", "--timeout", "5", "--max-body", str(MAX_BODY)),
            *("--text", "--links"),
        )
        yield Played(site, crawl, ran)


def test_a_crawl_of_all_these_hosts_ends_well(played: Played) -> None:
    assert played.ran.code == 0, played.ran.stderr
    assert "Traceback" not in played.ran.stderr
    assert played.site.violations(0.02) == []
    assert played.site.robots_faults() == []


def test_b18_a_blank_at_the_end_makes_no_second_url(played: Played) -> None:
    assert played.pages("b18.test") == ["/", "/x"]
    assert played.crawl.host("b18.test").waiting == 0


def test_b19_a_strange_escape_is_fetched_one_way_and_is_done(played: Played) -> None:
    assert len(played.pages("b19.test")) == 2
    assert played.pages("b19.test")[1] in ("/?s=ni%u011fde", "/?s=ni%25u011fde")
    assert played.crawl.host("b19.test").waiting == 0


def test_b20_a_label_too_long_costs_that_link_alone(played: Played) -> None:
    assert played.pages("b20.test") == ["/", "/moved", "/ok"]
    assert played.reason("b20.test", "/moved") in (Reason.REDIRECT_INVALID, Reason.REDIRECT_TARGET_REFUSED)


def test_b26_links_are_relative_to_the_address_that_answered(played: Played) -> None:
    assert played.pages("b26.test") == ["/", "/r/", "/r/x"]
    assert played.record("b26.test", "/r/")["redirected_from"] == [played.site.url("b26.test")]


def test_b29_a_link_without_scheme_ends_by_itself(played: Played) -> None:
    assert 1 < len(played.pages("b29.test")) <= 5
    assert "repeated-segments" in played.ran.stderr
    assert played.crawl.host("b29.test").waiting == 0


def test_b32_fragments_make_no_pages(played: Played) -> None:
    assert played.pages("b32.test") == ["/", "/a"]


def test_b33_raw_utf8_in_location_is_what_it_says(played: Played) -> None:
    assert "/%E2%82%AC/x" in played.pages("b33.test")
    assert played.record("b33.test", "/%E2%82%AC/x")["status"] == 200


@pytest.mark.parametrize("number", range(len(BAD_LOCATIONS)), ids=BAD_LOCATIONS)
def test_b35_a_location_without_host_is_a_recorded_failure(played: Played, number: int) -> None:
    stored = played.crawl.stored(played.site.url("b35.test", f"/{number}"))
    assert stored.state in (UrlState.FAILED, UrlState.REFUSED, UrlState.REDIRECTED)
    if stored.state is UrlState.REDIRECTED:
        # by the standard it is a path of this host
        assert BAD_LOCATIONS[number] == "://x"
    else:
        assert stored.reason in (Reason.REDIRECT_INVALID, Reason.REDIRECT_TARGET_REFUSED)
    assert "/ok" in played.pages("b35.test")
    assert played.pages("b35.test").count(f"/{number}") == 1


def test_b36_a_circle_for_want_of_a_cookie_ends_as_a_loop(played: Played) -> None:
    assert played.pages("b36.test") == ["/a", "/b"]
    assert played.reason("b36.test", "/b") is Reason.REDIRECT_LOOP
    assert not any(seen.header("cookie") for seen in played.site.requests)


@pytest.mark.parametrize("path", ["/r", "/off", "/inner"])
def test_b39_where_a_redirect_leads_is_checked_like_a_link(played: Played, path: str) -> None:
    assert played.reason("b39.test", path) is Reason.REDIRECT_TARGET_REFUSED
    assert played.pages("b39.test") == ["/", "/inner", "/off", "/r"]
    assert played.site.paths("offscope.test") == []
    assert {seen.address for seen in played.site.requests} == {"127.0.0.1"}


def test_b40_a_target_is_fetched_once_however_it_is_reached(played: Played) -> None:
    assert played.pages("b40.test") == ["/", "/new", "/old1", "/old2"]
    assert played.paths_of_records("b40.test") == ["/", "/new"]
    for path in ("/old1", "/old2"):
        assert played.crawl.stored(played.site.url("b40.test", path)).state is UrlState.REDIRECTED


def test_b41_the_target_of_a_redirect_is_a_url_of_its_own(played: Played) -> None:
    assert played.pages("b41.test") == ["/", "/new", "/old"]
    assert played.record("b41.test", "/new")["redirected_from"] == [played.site.url("b41.test", "/old")]


def test_b43_where_a_seed_moved_to_joins_the_scope(played: Played) -> None:
    assert played.pages("b43.test") == ["/"]
    assert played.pages("www.b43.test") == ["/", "/in"]
    assert played.site.paths("other.b43.test") == []


def test_b44_a_refresh_in_noscript_replaces_no_page(played: Played) -> None:
    assert "real text" in played.record("b44.test")["text"]
    assert played.record("b44.test")["redirected_from"] == []


def test_b47_what_a_redirect_carries_does_not_matter(played: Played) -> None:
    assert played.paths_of_records("b47.test") == ["/", "/n"]


@pytest.mark.parametrize("path", ["/raw", "/wrapped"])
def test_b50_deflate_is_read_with_and_without_its_wrapper(played: Played, path: str) -> None:
    assert "hello there" in played.record("b50.test", path)["text"]


def test_b52_a_short_body_is_no_whole_page(played: Played) -> None:
    assert played.paths_of_records("b52.test") in (["/", "/whole"], ["/", "/short", "/whole"])
    if "/short" in played.paths_of_records("b52.test"):
        assert played.record("b52.test", "/short")["truncated"]


def test_b55_the_limit_ends_the_exchange(played: Played) -> None:
    record = played.record("b55.test", "/big")
    assert record["truncated"] == "body"
    assert record["bytes"] <= MAX_BODY
    assert "/after" in played.paths_of_records("b55.test")
    (drip,) = (seen for seen in played.site.requests if seen.target == "/drip")
    assert drip.aborted
    assert drip.ended_at is not None
    assert drip.ended_at - drip.began_at < 10


def test_b56_a_long_header_is_read_and_a_flood_refused(played: Played) -> None:
    assert played.paths_of_records("b56.test") == ["/", "/csp"]
    assert played.reason("b56.test", "/flood") is Reason.HEADERS_TOO_LARGE


def test_b63_noindex_stops_no_link_and_nofollow_does(played: Played) -> None:
    assert played.pages("b63.test") == ["/", "/quiet", "/x"]
    assert played.record("b63.test")["robots"]["index"] is False
    assert played.record("b63.test", "/quiet")["robots"]["index"] is True


def test_b74_malformed_links_are_looked_at_once(played: Played) -> None:
    assert played.pages("b74.test") == ["/", "/ok"]
    assert played.crawl.host("b74.test").waiting == 0


def test_what_is_fetched_is_the_url_as_it_was_found(played: Played) -> None:
    assert "/as-found?a=2&b=1" in played.pages("order.test")
    assert played.record("order.test", "/as-found?a=2&b=1")["status"] == 200


def test_a_redirect_that_only_reorders_the_query_is_followed(played: Played) -> None:
    assert "/sorted?a=2&b=1" in played.paths_of_records("order.test")


def test_a_redirect_between_two_spellings_ends_as_a_loop(played: Played) -> None:
    assert len(played.pages("spelt.test")) == 4  # /, the URL, and two respellings
    assert "redirect-loop" in played.ran.stderr


# ------------------------------------------------------------------------------------------------ crawls of their own


def test_b30_a_calendar_without_end_leaves_the_other_pages_their_turn(site: Site, crawl: Crawl) -> None:
    others = [f"/p{number}/" for number in range(8)]

    def calendar(request: Request) -> Reply:
        year = int(request.query.partition("=")[2] or "2000")
        return Reply(body=html(f"/cal?year={year + 1}", more="the same text " * 15))

    site.page("a.test", "/", html("/cal?year=2001", *others))
    site.route("a.test", "/cal", calendar)
    for path in others:
        site.page("a.test", path, path)
    ran = crawl(site, site.url("a.test"), "--max-pages", "30")
    assert ran.code == 0, ran.stderr
    assert len(ran.records) == 30
    assert {site.url("a.test", path) for path in others} <= set(ran.urls)
    assert len(site.requests) == 31
    assert "--max-pages" in ran.stderr


def test_b30_the_budget_of_a_host_ends_a_calendar_and_says_so(site: Site, crawl: Crawl) -> None:
    def calendar(request: Request) -> Reply:
        year = int(request.query.partition("=")[2] or "2000")
        return Reply(body=html(f"/cal?year={year + 1}"))

    site.route("a.test", "/cal", calendar)
    options = crawl.configuration("[budget]\nurls_per_seed_host = 12\n")
    ran = crawl(site, site.url("a.test", "/cal?year=2000"), *options)
    assert ran.code == 0, ran.stderr
    assert len(ran.records) == 12
    assert "urls_per_seed_host" in ran.stderr


def test_b68_a_slow_host_is_asked_for_each_url_once(site: Site, crawl: Crawl) -> None:
    names = [f"{number}.test" for number in range(25)]
    for name in names:
        site.page(name, "/", "slow", delay_s=3.0)
    ran = crawl(site, *map(site.url, names), "--workers", "1")
    assert len(ran.records) == 25
    assert all(site.paths(name) == ["/robots.txt", "/"] for name in names)


def test_b71_a_finished_crawl_run_again_says_that_nothing_is_due(site: Site, crawl: Crawl) -> None:
    site.page("a.test", "/", "a")
    assert crawl(site, site.url("a.test")).code == 0
    again = crawl(site, site.url("a.test"))
    assert again.code == 0
    assert "nothing due" in again.stderr
    assert "--fresh" in again.stderr
    assert site.paths("a.test") == ["/robots.txt", "/"]
    anew = crawl(site, site.url("a.test"), "--fresh")
    assert anew.code == 0
    assert anew.urls == [site.url("a.test")]


def test_b72_a_resumed_crawl_asks_for_no_page_twice(site: Site, crawl: Crawl) -> None:
    for number in range(10):
        site.page("a.test", f"/{number}", html(f"/{(number + 1) % 10}"))
    first = crawl(site, site.url("a.test", "/0"), "--max-pages", "5")
    assert first.code == 0
    assert len(first.records) == 5
    second = crawl(site, site.url("a.test", "/0"), "--max-pages", "100")
    assert second.code == 0, second.stderr
    assert site.paths("a.test") == ["/robots.txt", *(f"/{number}" for number in range(10))]
