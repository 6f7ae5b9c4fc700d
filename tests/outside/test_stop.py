"""Ctrl-C, however early and however often."""

from __future__ import annotations

import signal
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from mannerly.testing.site import Site

if TYPE_CHECKING:
    from tests.outside.conftest import Crawl

pytestmark = [pytest.mark.outside, pytest.mark.slow]

WORKERS = "24"
# two dozen workers take more than this to come up on a machine of two cores; the stop takes tenths of a second
AT_ONCE_S = 8.0


def starting(site: Site, crawl: Crawl) -> subprocess.Popen[str]:
    """Return a crawl that is starting its workers."""
    process = crawl.start(site, site.url("a.test"), "--workers", WORKERS)
    assert process.stderr is not None
    while "private addresses" not in process.stderr.readline():
        assert process.poll() is None
    time.sleep(0.5)
    return process


def test_a_start_that_is_interrupted_is_given_up_at_once_and_can_be_resumed(site: Site, crawl: Crawl) -> None:
    site.page("a.test", "/", "a")
    process = starting(site, crawl)
    process.send_signal(signal.SIGINT)
    ran = crawl.finish(process)
    assert ran.code == 130, ran.stderr
    assert ran.elapsed_s < AT_ONCE_S
    assert not site.requests
    resumed = crawl(site, site.url("a.test"))
    assert resumed.code == 0, resumed.stderr
    assert resumed.urls == [site.url("a.test")]


def test_a_second_signal_ends_at_once_and_costs_no_page(site: Site, crawl: Crawl) -> None:
    site.page("a.test", "/", "a")
    process = starting(site, crawl)
    process.send_signal(signal.SIGINT)
    time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    ran = crawl.finish(process)
    assert ran.code == 130, ran.stderr
    assert ran.elapsed_s < AT_ONCE_S
    resumed = crawl(site, site.url("a.test"))
    assert resumed.urls == [site.url("a.test")], resumed.stderr
