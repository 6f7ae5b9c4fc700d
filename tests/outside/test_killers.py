"""Pages that end whoever parses them, and pages that take long, beside hosts that do neither."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from mannerly.model.task import UrlState
from mannerly.model.verdict import Reason
from mannerly.testing import Site
from mannerly.testing.record import Seen

if TYPE_CHECKING:
    from tests.outside.conftest import Crawl

ROOT: Final = Path(__file__).resolve().parents[2]
DELAY_S: Final = 0.1
pytestmark = [pytest.mark.outside, pytest.mark.slow]

# Read by every Python that finds it on its path: workers and their parsers die of a page whose URL says so.
HOOK: Final = """
import os, signal, sys

if {"_worker", "_parser"} & set(sys.orig_argv):
    from mannerly.extract import page

    def extract_page(body, content_type, url, *others, **named):
        if "/kill" in url:
            os.kill(os.getpid(), signal.SIGSEGV)
        return extract(body, content_type, url, *others, **named)

    extract, page.extract_page = page.extract_page, extract_page

    from mannerly.policy import robots

    def read_robots(body, *others, **named):
        if b"kill" in body:
            os.kill(os.getpid(), signal.SIGSEGV)
        return read(body, *others, **named)

    read, robots.parse = robots.parse, read_robots
"""


@pytest.fixture
def deadly(tmp_path: Path) -> dict[str, str]:
    """The environment of a crawl in which pages may kill."""
    folder = tmp_path / "hook"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(HOOK)
    return {"PYTHONPATH": os.pathsep.join((str(folder), str(ROOT / "src")))}


def test_i5_a_page_that_kills_its_worker_costs_nobody_else_anything(
    site: Site, crawl: Crawl, deadly: dict[str, str]
) -> None:
    seeds = site.grow(hosts=6, pages=120, delay_s=0.1)
    site.page("k.test", "/", "<a href=/kill>x</a> <a href=/kill-heavy>y</a> <a href=/fine>z</a>")
    site.page("k.test", "/kill", "light")
    site.page("k.test", "/kill-heavy", "<p>heavy" * 200_000)
    site.page("k.test", "/fine", "fine")
    ran = crawl(
        site, *seeds, site.url("k.test"), "--delay", str(DELAY_S), "--workers", "1", environment=deadly
    )
    assert ran.code == 0, ran.stderr
    survivors = site.urls() - {site.url("k.test", "/kill"), site.url("k.test", "/kill-heavy")}
    assert sorted(ran.urls) == sorted(survivors)

    light, heavy = crawl.stored(site.url("k.test", "/kill")), crawl.stored(site.url("k.test", "/kill-heavy"))
    assert (light.state, light.reason) == (UrlState.FAILED, Reason.KILLS_WORKER)
    assert "2 times while alone with it" in light.detail
    assert (heavy.state, heavy.reason) == (UrlState.FAILED, Reason.KILLS_WORKER)
    assert "SIGSEGV, twice" in heavy.detail
    # once beside others and twice alone; the heavy one costs a parser twice, and is asked for once
    assert site.paths("k.test").count("/kill") == 3
    assert site.paths("k.test").count("/kill-heavy") == 1
    assert ran.stderr.count("worker-died") == 3
    # its neighbours were asked for again at most once, alone, and that did not count
    assert (
        max(site.paths(f"h{n}.test").count(path) for n in range(6) for path in site.paths(f"h{n}.test")) <= 2
    )
    assert {crawl.stored(url).attempts for url in survivors} == {1}
    assert site.violations(DELAY_S) == []

    _, report = crawl.ask("report")
    assert "kills-worker" in str(report)


def test_i4_a_robots_txt_that_kills_its_worker_cannot_be_read(
    site: Site, crawl: Crawl, deadly: dict[str, str]
) -> None:
    seeds = site.grow(hosts=3, pages=60, delay_s=0.1)
    site.page("k.test", "/", "never asked for")
    site.robots("k.test", "User-agent: *\nAllow: /\n# kill")
    ran = crawl(
        site,
        *seeds,
        site.url("k.test"),
        *("--delay", str(DELAY_S), "--workers", "1", "--patience", "4"),
        environment=deadly,
    )
    assert ran.code == 0, ran.stderr
    assert sorted(ran.urls) == sorted(site.urls() - {site.url("k.test")})
    assert set(site.paths("k.test")) == {"/robots.txt"}
    # once beside others, then twice alone each time that its host's back-off lets it be asked for
    deaths = ran.stderr.count("worker-died")
    assert deaths >= 3
    assert deaths % 2 == 1
    _, why = crawl.ask("why", site.url("k.test"))
    assert "kills-worker" in str(why)
    assert site.violations(DELAY_S) == []


def test_pages_that_are_parsed_aside_hold_up_no_other_host(
    site: Site, crawl: Crawl, record_property: Callable[[str, object], None]
) -> None:
    """The one worker has both hosts. Good requests between a heavy answer and the next heavy request are counted."""
    seeds = site.grow(hosts=1, pages=150)
    site.page("heavy.test", "/", "".join(f"<a href=/{n}>x</a>" for n in range(4)))
    for number in range(4):
        site.page("heavy.test", f"/{number}", "<b><p>" * 500_000)
    ran = crawl(site, *seeds, site.url("heavy.test"), "--delay", str(DELAY_S), "--workers", "1")
    assert ran.code == 0, ran.stderr
    assert sorted(ran.urls) == sorted(site.urls())
    good = [seen for seen in site.requests if seen.host == "h0.test"]
    heavy = [
        seen
        for seen in site.requests
        if seen.host == "heavy.test" and seen.target not in ("/", "/robots.txt")
    ]
    assert len(heavy) == 4
    meanwhile = [
        sum(end_of(before) < seen.began_at < after.began_at for seen in good)
        for before, after in pairwise(heavy)
    ]
    gaps = sorted(after.began_at - end_of(before) for before, after in pairwise(good))
    record_property("good requests while a heavy page is parsed", meanwhile)
    record_property("largest gap of the good host, s", round(gaps[-1], 3))
    assert min(meanwhile) >= 3
    assert site.violations(DELAY_S) == []


def end_of(seen: Seen) -> float:
    assert seen.ended_at is not None
    return seen.ended_at
