"""Seeds as people give them, and how soon something comes of them."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest

from mannerly.testing.site import Site

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.outside.conftest import Crawl

pytestmark = [pytest.mark.outside, pytest.mark.slow]

# what the first line may take; a machine that others keep busy takes longer to start a process
FIRST_LINE_S = 3.0
BUSY_FIRST_LINE_S = 15.0


def test_a_seed_without_a_scheme_is_tried_over_https_and_then_http(site: Site, crawl: Crawl) -> None:
    site.page("a.test", "/", '<a href="/b">b</a>')
    site.page("a.test", "/b", "b")
    # the site answers nothing to a TLS greeting: the attempt ends by its time limit
    ran = crawl(site, f"a.test:{site.port}/", "--timeout", "2")
    assert ran.code == 0, ran.stderr
    assert ran.urls == [site.url("a.test"), site.url("a.test", "/b")]
    assert site.paths("a.test") == ["/robots.txt", "/", "/b"]


def test_bad_seeds_in_a_file_are_named_and_the_good_ones_crawled(
    site: Site, crawl: Crawl, tmp_path: Path
) -> None:
    site.page("a.test", "/", "a")
    site.page("b.test", "/", "b")
    bad = ["http://", "http://a.test:99999/", "ftp://a.test/", "mailto:x@a.test", "http://me:pw@a.test/"]
    good = [site.url("a.test"), site.url("b.test")]
    file = tmp_path / "seeds.txt"
    file.write_text("\n".join(["# seeds", "", good[0], *bad, f"  {good[1]}  ", good[0]]))
    ran = crawl(site, "-i", str(file))
    assert ran.code == 0, ran.stderr
    assert sorted(ran.urls) == sorted(good)
    assert ran.stderr.count("not a seed:") == len(bad)
    assert "pw" not in ran.stderr
    assert {seen.target for seen in site.requests} == {"/robots.txt", "/"}


def test_bad_seeds_alone_are_refused(site: Site, crawl: Crawl) -> None:
    ran = crawl(site, "http://")
    assert ran.code == 78
    assert "hint:" in ran.stderr
    assert not crawl.state.exists()


def test_the_first_line_comes_within_seconds(
    site: Site, crawl: Crawl, record_property: Callable[[str, object], None]
) -> None:
    site.grow(hosts=1, pages=20)
    began_at = time.monotonic()
    process = crawl.start(site, site.url("h0.test"), "--delay", "0.5")
    assert process.stdout is not None
    line = process.stdout.readline()
    took_s = time.monotonic() - began_at
    process.terminate()
    ran = crawl.finish(process)
    record_property("first line, s", took_s)
    print(f"first line after {took_s:.2f} s")
    assert json.loads(line)["url"] == site.url("h0.test")
    assert took_s < BUSY_FIRST_LINE_S
    assert ran.code == 130


def test_where_a_seed_ends_up_joins_the_scope_and_what_it_passes_on_the_way_does_not(
    site: Site, crawl: Crawl
) -> None:
    site.redirect("a.test", "/", site.url("login.test", "/ask"))
    site.redirect("login.test", "/ask", site.url("www.test", "/home"))
    site.page(
        "www.test", "/home", f'<a href="/next">x</a> <a href="{site.url("login.test", "/other")}">x</a>'
    )
    site.page("www.test", "/next", "next")
    site.page("login.test", "/other", "other")
    ran = crawl(site, site.url("a.test"))
    assert ran.code == 0, ran.stderr
    assert sorted(ran.urls) == [site.url("www.test", "/home"), site.url("www.test", "/next")]
    chain = [site.url("a.test"), site.url("login.test", "/ask")]
    assert ran.record(site.url("www.test", "/home"))["redirected_from"] == chain
    assert site.paths("login.test") == ["/robots.txt", "/ask"]
