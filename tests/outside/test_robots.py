"""Every row of the table of robots.txt answers, played by a site and judged by what else the site was asked for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from mannerly.model.host import QueueState
from mannerly.model.task import UrlState
from mannerly.model.verdict import Reason
from mannerly.testing.site import Reply, Site, in_turn

if TYPE_CHECKING:
    from tests.outside.conftest import Crawl, Ran

pytestmark = [pytest.mark.outside, pytest.mark.slow]

RULES = "User-agent: *\nDisallow: /private\n"
PLAIN = "text/plain; charset=utf-8"
PATIENCE_S = 3.0

# what is answered to /robots.txt, by what it comes to
RULED = {
    "ok": Reply(body=RULES, content_type=PLAIN),
    "created": Reply(status=201, body=RULES, content_type=PLAIN),
    "as-html": Reply(body=RULES),
    "bad-bytes": Reply(body=b"\xef\xbb\xbf# \xff\xfe\n" + RULES.encode(), content_type=PLAIN),
    "chunked": Reply(body=RULES, content_type=PLAIN, chunked=True),
}
NO_RULES = {
    "html": Reply(body="<!doctype html><html><body><h1>Welcome</h1>"),
    "empty": Reply(body="", content_type=PLAIN),
    "s204": Reply(status=204),
    "s400": Reply(status=400, body=RULES),
    "s401": Reply(status=401, body=RULES),
    "s403": Reply(status=403, body=RULES),
    "s404": Reply(status=404, body=RULES),
    "s410": Reply(status=410, body=RULES),
    "no-location": Reply(status=301),
    "bad-location": Reply(status=302, headers=(("Location", "https://:443/"),)),
    "other-scheme": Reply(status=301, headers=(("Location", "ftp://ok.test/robots.txt"),)),
}
UNREADABLE = {
    "s206": Reply(status=206, body=RULES, content_type=PLAIN),
    "s429": Reply(status=429, body=RULES),
    "s500": Reply(status=500, body=RULES),
    "s503": Reply(status=503, body="<h1>Service unavailable</h1>"),
    "s304": Reply(status=304),
    "closed": Reply(silent=True),
    "reset": Reply(silent=True, reset=True),
    "cut-head": Reply(raw=b"HTTP/1.1 200 OK\r\nContent-Ty"),
    "cut-body": Reply(body=RULES + "#" * 2_000, content_type=PLAIN, close_after_bytes=len(RULES)),
    "cut-chunks": Reply(body=RULES + "#" * 2_000, content_type=PLAIN, chunked=True, close_after_bytes=100),
    "no-http": Reply(raw=b"what is it?\r\n\r\n"),
    "hangs": Reply(body=RULES, delay_s=60.0),
    "to-10": Reply(status=301, headers=(("Location", "http://10.0.0.7/robots.txt"),)),
    "to-metadata": Reply(status=301, headers=(("Location", "http://169.254.169.254/robots.txt"),)),
}


def name_of(row: str) -> str:
    return f"{row}.test"


@dataclass(frozen=True, slots=True)
class Played:
    """One crawl of a site that plays every row."""

    site: Site
    crawl: Crawl
    ran: Ran

    def pages(self, host: str) -> list[str]:
        """Return the targets asked of a host, but robots.txt."""
        return [target for target in self.site.paths(host) if target != "/robots.txt"]


def furnish(site: Site, host: str) -> str:
    """Give a host a seed and a page that the rules forbid; return the seed."""
    site.page(host, "/", '<!doctype html><a href="/private/x">x</a><a href="/open">y</a>')
    site.page(host, "/private/x", "x")
    site.page(host, "/open", "y")
    return site.url(host)


def chain(site: Site, first: str, hops: int) -> None:
    """Let `first`'s robots.txt redirect `hops` times over as many hosts, to one that forbids /private."""
    names = [first, *(f"{number}.{first}" for number in range(1, hops + 1))]
    for here, there in pairwise(names):
        site.redirect(here, "/robots.txt", site.url(there, "/robots.txt"))
    site.robots(names[-1], RULES)


@pytest.fixture(scope="module")
def played(new_crawl: Callable[[str], Crawl]) -> Iterator[Played]:
    with Site() as site:
        seeds = []
        for row, reply in (RULED | NO_RULES | UNREADABLE).items():
            site.route(name_of(row), "/robots.txt", reply)
            seeds.append(furnish(site, name_of(row)))
        site.listen("127.0.0.2")
        site.redirect("b03.test", "/robots.txt", f"http://127.0.0.2:{site.port}/robots.txt")
        chain(site, "five.test", 5)
        chain(site, "six.test", 6)
        site.redirect("b05.test", "/robots.txt", site.url("www.b05.test", "/robots.txt"))
        site.redirect("www.b05.test", "/robots.txt", site.url("b05.test", "/robots.txt"))
        site.redirect("self.test", "/robots.txt", site.url("self.test", "/robots.txt"))
        # two seeds whose rules lead to each other
        site.redirect("left.test", "/robots.txt", site.url("right.test", "/robots.txt"))
        site.redirect("right.test", "/robots.txt", site.url("left.test", "/robots.txt"))
        # a bad moment, and then rules that forbid all
        site.route(
            "b02.test",
            "/robots.txt",
            in_turn(
                Reply(silent=True, reset=True), Reply(body="User-agent: *\nDisallow: /", content_type=PLAIN)
            ),
        )
        site.robots("b10.test", "User-agent: *\nCrawl-delay: 10 seconds please\nDisallow: /private\n")
        site.route("b07.test", "/robots.txt", Reply(body=RULES, content_type=PLAIN, delay_s=0.3))
        for number in range(20):
            site.page("b07.test", f"/{number}", str(number))
            seeds.append(site.url("b07.test", f"/{number}"))
        names = ("five", "six", "b05", "self", "left", "right", "b02", "b03", "b10")
        seeds += [furnish(site, name_of(name)) for name in names]
        crawl = new_crawl("robots")
        ran = crawl(site, *seeds, "--patience", str(PATIENCE_S), "--timeout", "2", "--delay", "0.02")
        yield Played(site, crawl, ran)


def test_b06_a_crawl_ends_well_though_some_rules_are_unreadable(played: Played) -> None:
    assert played.ran.code == 0, played.ran.stderr
    assert "Traceback" not in played.ran.stderr
    assert played.site.violations(0.02) == []


@pytest.mark.parametrize("row", RULED)
def test_rules_are_obeyed(played: Played, row: str) -> None:
    assert played.pages(name_of(row)) == ["/", "/open"]
    assert played.site.paths(name_of(row))[0] == "/robots.txt"


@pytest.mark.parametrize("row", NO_RULES)
def test_what_is_unavailable_forbids_nothing(played: Played, row: str) -> None:
    assert sorted(played.pages(name_of(row))) == ["/", "/open", "/private/x"]
    assert played.site.paths(name_of(row)).count("/robots.txt") == 1


@pytest.mark.parametrize("row", UNREADABLE)
def test_i4_unreadable_rules_forbid_all(played: Played, row: str) -> None:
    assert played.pages(name_of(row)) == []
    stored = played.crawl.stored(played.site.url(name_of(row)))
    assert stored.state is UrlState.WAITING


@pytest.mark.parametrize("row", sorted(set(UNREADABLE) - {"hangs"}))
def test_unreadable_rules_are_asked_for_again_after_a_back_off(played: Played, row: str) -> None:
    # 2 s, then 4 s: longer than the patience, but others may keep the crawl going
    targets = played.site.paths(name_of(row))
    assert targets in (["/robots.txt"] * 2, ["/robots.txt"] * 3)
    assert all(
        gap >= least_s - 0.001
        for gap, least_s in zip(played.site.gaps(name_of(row)), (2.0, 4.0), strict=False)
    )


def test_b02_a_bad_moment_gives_no_lasting_leave(played: Played) -> None:
    assert played.site.paths("b02.test") == ["/robots.txt"] * 2
    assert played.crawl.stored(played.site.url("b02.test")).reason is Reason.ROBOTS_DISALLOWED


def test_b03_an_address_that_nobody_named_is_not_dialled_and_allows_nothing(played: Played) -> None:
    assert played.pages("b03.test") == []
    assert len(played.site.paths("b03.test")) in (2, 3)
    # the site listens there: a request would have been seen
    assert {seen.address for seen in played.site.requests} == {"127.0.0.1"}


def test_five_hops_over_hosts_are_followed_to_the_rules(played: Played) -> None:
    assert played.pages("five.test") == ["/", "/open"]
    assert all(played.site.paths(f"{hop}.five.test") == ["/robots.txt"] for hop in range(1, 6))


def test_the_sixth_hop_is_not_followed_and_means_no_rules(played: Played) -> None:
    assert sorted(played.pages("six.test")) == ["/", "/open", "/private/x"]
    assert played.site.paths("5.six.test") == ["/robots.txt"]
    assert played.site.paths("6.six.test") == []


def test_b05_a_circle_ends_after_six_requests_and_means_no_rules(played: Played) -> None:
    assert sorted(played.pages("b05.test")) == ["/", "/open", "/private/x"]
    asked = played.site.paths("b05.test").count("/robots.txt") + len(played.site.paths("www.b05.test"))
    assert asked == 6
    assert sorted(played.pages("self.test")) == ["/", "/open", "/private/x"]
    assert played.site.paths("self.test").count("/robots.txt") == 6


def test_two_hosts_whose_rules_lead_to_each_other_do_not_wait_for_each_other(played: Played) -> None:
    for host in ("left.test", "right.test"):
        assert sorted(played.pages(host)) == ["/", "/open", "/private/x"]


def test_b07_twenty_urls_wait_for_one_request(played: Played) -> None:
    assert played.site.paths("b07.test")[0] == "/robots.txt"
    assert played.site.paths("b07.test").count("/robots.txt") == 1
    assert len(played.pages("b07.test")) == 20


def test_b10_a_pause_that_is_no_number_costs_no_rule(played: Played) -> None:
    assert played.pages("b10.test") == ["/", "/open"]


def test_b01_no_page_comes_and_the_exit_code_says_so_where_rules_answer_503(site: Site, crawl: Crawl) -> None:
    site.robots("a.test", "<h1>Service unavailable</h1>", status=503)
    furnish(site, "a.test")
    ran = crawl(site, site.url("a.test"), "--patience", "1")
    assert ran.code == 1
    assert ran.records == []
    assert site.paths("a.test") == ["/robots.txt"]
    assert crawl.host("a.test").waiting == 1
    assert re.search(r"a\.test:? .*until \d{4}-.*robots-unreachable", ran.stderr)


def test_a_resumed_crawl_asks_unreadable_rules_anew_and_goes_on(site: Site, crawl: Crawl) -> None:
    site.robots("a.test", "", status=503)
    furnish(site, "a.test")
    assert crawl(site, site.url("a.test"), "--patience", "1").code == 1
    site.robots("a.test", RULES)
    ran = crawl(site, site.url("a.test"), "--patience", "10")
    assert ran.code == 0, ran.stderr
    assert site.paths("a.test") == ["/robots.txt", "/robots.txt", "/", "/open"]
    # the pause that was in force when the first run ended holds for the second
    assert site.gaps("a.test")[0] >= 2.0 - 0.001


def test_a_copy_that_is_fresh_is_not_asked_for_again_on_resume(site: Site, crawl: Crawl) -> None:
    site.robots("a.test", RULES)
    furnish(site, "a.test")
    assert crawl(site, site.url("a.test"), "--max-pages", "1").code == 0
    ran = crawl(site, site.url("a.test"), "--max-pages", "9")
    assert ran.code == 0, ran.stderr
    assert site.paths("a.test") == ["/robots.txt", "/", "/open"]


def test_401_and_403_forbid_all_where_the_configuration_says_so(site: Site, crawl: Crawl) -> None:
    for status in (401, 403):
        site.robots(f"s{status}.test", "", status=status)
        furnish(site, f"s{status}.test")
    options = crawl.configuration('[politeness]\nrobots_denied = "disallow"\n')
    ran = crawl(site, site.url("s401.test"), site.url("s403.test"), *options)
    assert ran.code == 1
    assert {seen.target for seen in site.requests} == {"/robots.txt"}
    assert crawl.stored(site.url("s401.test")).reason is Reason.ROBOTS_DISALLOWED


def test_a_parked_host_stays_parked_when_the_rules_of_another_are_looked_for_there(
    site: Site, crawl: Crawl
) -> None:
    site.robots("parked.test", "User-agent: *\nCrawl-delay: 7200\n")
    site.page("parked.test", "/", "parked")
    to_parked = (("Location", site.url("parked.test", "/robots.txt")),)
    site.route("late.test", "/robots.txt", Reply(status=301, headers=to_parked, delay_s=1.5))
    site.page("late.test", "/", "late")
    site.page("b.test", "/", "b")
    seeds = map(site.url, ("parked.test", "late.test", "b.test"))
    ran = crawl(site, *seeds, "--patience", "1")
    assert ran.code == 0, ran.stderr
    assert site.paths("parked.test") == ["/robots.txt"]
    assert site.paths("late.test") == ["/robots.txt"]
    assert crawl.host("parked.test").state is QueueState.PARKED
    assert crawl.host("late.test").waiting == 1


def test_a_host_whose_rules_stay_unreadable_is_retired_after_five_times(site: Site, crawl: Crawl) -> None:
    site.robots("a.test", "", status=206)
    furnish(site, "a.test")
    site.page("b.test", "/", "b")
    ran = crawl(site, site.url("a.test"), site.url("b.test"), "--patience", "20")
    assert ran.code == 0, ran.stderr
    assert site.paths("a.test") == ["/robots.txt"] * 5
    assert [round(gap) for gap in site.gaps("a.test")] == [2, 4, 8, 16]
    stored = crawl.host("a.test")
    assert stored.state is QueueState.RETIRED
    assert stored.reason is Reason.ROBOTS_UNREACHABLE
    assert stored.waiting == 1
