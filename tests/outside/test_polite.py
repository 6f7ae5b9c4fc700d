"""Politeness, judged from the site's record."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mannerly.testing.site import Site

if TYPE_CHECKING:
    from tests.outside.conftest import Crawl

pytestmark = [pytest.mark.outside, pytest.mark.slow]


def test_robots_txt_is_asked_first_and_once(site: Site, crawl: Crawl) -> None:
    site.page("a.test", "/", '<a href="/b">b</a>')
    site.page("a.test", "/b", "b")
    ran = crawl(site, site.url("a.test"))
    assert ran.code == 0, ran.stderr
    assert site.paths("a.test") == ["/robots.txt", "/", "/b"]
    assert ran.urls == [site.url("a.test"), site.url("a.test", "/b")]
