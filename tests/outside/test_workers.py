"""Workers and connections that die in the middle of a crawl."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mannerly.testing.site import Reply, Site, close_on_nth

if TYPE_CHECKING:
    from tests.outside.conftest import Crawl

pytestmark = [pytest.mark.outside, pytest.mark.slow]

DELAY_S = 0.1


def children(pid: int) -> list[int]:
    """Return the processes that `pid` started."""
    lists = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(word) for file in lists for word in file.read_text().split()]


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="children are found in /proc")
def test_a_worker_that_is_killed_is_replaced_and_nothing_is_lost(site: Site, crawl: Crawl) -> None:
    seeds = site.grow(hosts=8, pages=160, delay_s=0.05)
    process = crawl.start(site, *seeds, "--delay", str(DELAY_S))
    for killed in range(2):
        while len(site.requests) < 40 * (killed + 1):
            assert process.poll() is None
            time.sleep(0.01)
        os.kill(children(process.pid)[0], signal.SIGKILL)
    ran = crawl.finish(process)
    assert ran.code == 0, ran.stderr
    assert sorted(ran.urls) == sorted(site.urls())
    assert ran.stderr.count("worker-died") == 2
    assert ran.stderr.count("code=-9") == 2
    assert site.violations(DELAY_S) == []


def test_a_kept_connection_that_closes_on_the_second_request_gets_it_once_a_task(
    site: Site, crawl: Crawl
) -> None:
    site.page("a.test", "/", '<a href="/x">x</a>')
    site.page("a.test", "/robots.txt", "", content_type="text/plain", headers={"Connection": "close"})
    site.route("a.test", "/x", close_on_nth(2, Reply(body="there")))
    ran = crawl(site, site.url("a.test"), "--delay", "0.3")
    assert ran.code == 0, ran.stderr
    seen = [request for request in site.requests if request.target == "/x"]
    # once on the connection that died, and once, as a task of its own after the host's delay, on a fresh one
    assert [request.nth for request in seen] == [2, 1]
    assert seen[0].connection != seen[1].connection
    assert site.violations(0.3) == []
    assert sorted(ran.urls) == [site.url("a.test"), site.url("a.test", "/x")]


def test_a_connection_that_always_closes_is_given_up_after_its_attempts(site: Site, crawl: Crawl) -> None:
    site.page("a.test", "/", '<a href="/x">x</a>')
    site.route("a.test", "/x", Reply(silent=True))
    ran = crawl(site, site.url("a.test"), "--patience", "3")
    assert ran.code == 0, ran.stderr
    # one that does not count if the connection was a kept one, one that does; the next is 30 s away
    assert 1 <= site.paths("a.test").count("/x") <= 2
