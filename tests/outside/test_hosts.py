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
