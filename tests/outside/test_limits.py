"""Whole crawls under tight limits: few places, small windows, budgets, and several origins of one host."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

import pytest

from mannerly.model.task import UrlState
from mannerly.model.verdict import Reason
from mannerly.testing import record
from mannerly.testing.site import Reply, Request, Site

if TYPE_CHECKING:
    from pathlib import Path

    from tests.outside.conftest import Crawl

pytestmark = [pytest.mark.outside, pytest.mark.slow]


def links(*paths: str) -> str:
    """Return a page that links to `paths`."""
    return "<!doctype html><title>t</title>" + "".join(f'<a href="{path}">x</a>' for path in paths)


def test_i3_a_host_that_leaves_memory_and_comes_back_keeps_its_delay(site: Site, crawl: Crawl) -> None:
    seeds = site.grow(hosts=12, pages=96, foreign_links=2)
    options = crawl.configuration("[frontier]\nactive_hosts = 3\nwindow_urls = 2\n")
    ran = crawl(site, *seeds, *options, "--delay", "0.2")
    assert ran.code == 0, ran.stderr
    assert sorted(ran.urls) == sorted(site.urls())
    assert site.violations(0.2) == []
    assert site.robots_faults() == []


def test_one_place_in_all_is_enough(site: Site, crawl: Crawl) -> None:
    seeds = site.grow(hosts=4, pages=20, foreign_links=1)
    site.redirect("h0.test", "/robots.txt", site.url("h1.test", "/robots.txt"))
    site.redirect("h1.test", "/robots.txt", site.url("elsewhere.test", "/robots.txt"))
    site.robots("elsewhere.test", "User-agent: *\nDisallow: /none\n")
    ran = crawl(site, *seeds, "--concurrency", "1", "--workers", "1")
    assert ran.code == 0, ran.stderr
    assert sorted(ran.urls) == sorted(site.urls())
    assert site.max_in_flight() == 1


def test_two_origins_of_a_host_share_its_delay_and_have_rules_each(site: Site, crawl: Crawl) -> None:
    with Site() as other:
        for each in (site, other):
            each.page("a.test", "/", links("/1", "/2"), delay_s=0.05)
            each.page("a.test", "/1", "1", delay_s=0.05)
            each.page("a.test", "/2", "2", delay_s=0.05)
        other.robots("a.test", "User-agent: *\nDisallow: /2\n")
        ran = crawl(site, site.url("a.test"), other.url("a.test"), "--delay", "0.3")
        assert ran.code == 0, ran.stderr
        assert sorted(site.paths("a.test")) == ["/", "/1", "/2", "/robots.txt"]
        assert sorted(other.paths("a.test")) == ["/", "/1", "/robots.txt"]
        assert record.violations([*site.requests, *other.requests], 0.3) == []


def test_the_page_budget_is_met_exactly_though_many_urls_give_no_page(site: Site, crawl: Crawl) -> None:
    names = [f"{letter}.test" for letter in "abcdef"]
    for name in names:
        paths = [f"/{number}" for number in range(12)]
        site.page(name, "/", links(*paths))
        for number, path in enumerate(paths):
            site.page(name, path, path, status=404 if number % 2 else 200)
    ran = crawl(site, *map(site.url, names), "--max-pages", "29")
    assert ran.code == 0, ran.stderr
    assert len(ran.records) == 29
    assert sum(seen.status == 200 for seen in site.requests) == 29
    again = crawl(site, *map(site.url, names), "--max-pages", "42")
    assert again.code == 0, again.stderr
    assert len(again.records) == 13
    assert "--max-pages" in again.stderr or "done" in again.stderr


def test_a_redirect_chain_ends_after_ten(site: Site, crawl: Crawl) -> None:
    def onward(request: Request) -> Reply:
        number = int(request.query or 0)
        return Reply(status=302, headers=(("Location", f"/hop?{number + 1}"),))

    site.page("a.test", "/", links("/hop"))
    site.route("a.test", "/hop", onward)
    ran = crawl(site, site.url("a.test"))
    assert ran.code == 0, ran.stderr
    assert len(site.paths("a.test")) == 2 + 11
    assert crawl.stored(site.url("a.test", "/hop?10")).reason is Reason.REDIRECT_CHAIN_TOO_LONG


def test_a_host_that_fails_twenty_times_in_a_row_is_retired(site: Site, crawl: Crawl) -> None:
    # no route to it: nothing that asking more slowly mends, so there is no back-off to wait for
    paths = [f"/{number}" for number in range(30)]
    site.page("a.test", "/", links(*paths))
    site.fallback(
        "a.test",
        lambda request: (
            Reply(raw=b"what is it?\r\n\r\n") if request.path != "/robots.txt" else Reply(status=404)
        ),
    )
    site.page("b.test", "/", "b")
    ran = crawl(site, site.url("a.test"), site.url("b.test"))
    assert ran.code == 0, ran.stderr
    assert len(site.paths("a.test")) == 2 + 20
    stored = crawl.host("a.test")
    assert stored.reason is Reason.HOST_RETIRED
    assert stored.waiting == 10


def test_max_time_ends_a_run_in_order_and_the_next_goes_on(site: Site, crawl: Crawl) -> None:
    # the time counts from the start of the run: on a busy machine workers take seconds of it to come up
    site.grow(hosts=1, pages=80)
    first = crawl(site, site.url("h0.test"), "--max-time", "8", "--delay", "0.25")
    assert first.code == 0, first.stderr
    assert 0 < len(first.records) < 80
    second = crawl(site, site.url("h0.test"))
    assert second.code == 0, second.stderr
    assert sorted(first.urls + second.urls) == sorted(site.urls())
    assert len(site.requests) == 81


def test_an_interrupt_waits_for_what_is_in_flight_and_loses_nothing(site: Site, crawl: Crawl) -> None:
    seeds = site.grow(hosts=5, pages=60, delay_s=0.3)
    process = crawl.start(site, *seeds)
    while len(site.requests) < 20:
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    first = crawl.finish(process)
    assert first.code == 130
    assert not any(seen.aborted for seen in site.requests)
    asked = len(site.requests)
    assert asked - 5 == len(first.records)  # all but robots.txt of five hosts
    second = crawl(site, *seeds)
    assert second.code == 0, second.stderr
    assert sorted(first.urls + second.urls) == sorted(site.urls())
    assert len(site.requests) == 65


def test_i10_a_public_host_found_without_a_contact_is_refused(site: Site, crawl: Crawl) -> None:
    site.page("a.test", "/", links("http://www.example.com/found", site.url("b.test")))
    site.page("b.test", "/", "b")
    site.redirect("c.test", "/", "http://www.example.com/moved")
    ran = crawl(site, site.url("a.test"), site.url("c.test"), "--scope", "any")
    assert ran.code == 0, ran.stderr
    assert "no-contact" in ran.stderr
    stored = crawl.stored(site.url("c.test"))
    assert stored.state is UrlState.REFUSED
    assert stored.reason is Reason.REDIRECT_TARGET_REFUSED


def test_a_page_that_failed_once_is_fetched_at_its_second_attempt_half_a_minute_later(
    site: Site, crawl: Crawl
) -> None:
    answers = iter([Reply(status=503)])
    site.page("a.test", "/", links("/once", "/other"))
    site.route("a.test", "/once", lambda _: next(answers, Reply(body="well again")))
    site.page("a.test", "/other", "other")
    ran = crawl(site, site.url("a.test"), "--patience", "40")
    assert ran.code == 0, ran.stderr
    assert site.url("a.test", "/once") in ran.urls
    first, second = (seen for seen in site.requests if seen.target == "/once")
    assert first.ended_at is not None
    assert second.began_at - first.ended_at >= 30.0
    assert site.paths("a.test").index("/other") < site.paths("a.test").index("/once", 3)


def test_urls_that_are_due_are_told_without_an_instant(site: Site, crawl: Crawl) -> None:
    site.page("a.test", "/", links("/1", "/2", "/3"))
    for path in ("/1", "/2", "/3"):
        site.page("a.test", path, "x")
    ran = crawl(site, site.url("a.test"), "--max-pages", "2")
    assert ran.code == 0, ran.stderr
    (left,) = (line for line in ran.stderr.splitlines() if "URLs wait " in line)
    assert "until" not in left


def test_a_finished_crawl_says_how_to_begin_anew_into_its_file(
    site: Site, crawl: Crawl, tmp_path: Path
) -> None:
    site.page("a.test", "/", "a")
    typed = (site.url("a.test"), "-o", str(tmp_path / "pages.jsonl"))
    first = crawl(site, *typed)
    assert first.code == 0, first.stderr
    assert "--fresh --overwrite starts anew" in crawl(site, *typed).stderr
    refused = crawl(site, *typed, "--fresh")
    assert refused.code == 78
    assert "--overwrite" in refused.stderr
    assert "the state so far" not in refused.stderr
    anew = crawl(site, *typed, "--fresh", "--overwrite")
    assert anew.code == 0, anew.stderr
    assert len((tmp_path / "pages.jsonl").read_text().splitlines()) == 1
    assert site.paths("a.test").count("/") == 2
