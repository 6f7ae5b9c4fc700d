"""Nothing is lost: kill -9 of any process at any moment, and what a restart may and may not do (invariant I5)."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from mannerly.testing import Site

if TYPE_CHECKING:
    from tests.outside.conftest import Crawl

ROOT: Final = Path(__file__).resolve().parents[2]
LOCK_WAIT_S: Final = 10.0
pytestmark = [pytest.mark.outside, pytest.mark.slow]


def until(reached: Callable[[], bool], *, within_s: float = 60.0) -> None:
    """Wait until `reached`."""
    deadline = time.monotonic() + within_s
    while not reached():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.005)


def asked_so_often(site: Site, path: str, times: int) -> bool:
    return site.paths("a.test").count(path) == times


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


# --------------------------------------------------------------------------------------------------------- kills


@pytest.mark.timeout(600)
def test_i5_kill_9_at_random_moments_loses_nothing() -> None:
    """2,000 pages, 5 kills; `python -m bench.kill` makes 30. The time of a restart is the machine's, so not asserted."""
    ran = subprocess.run(
        [sys.executable, "-m", "bench.kill", "--kills", "5", "--seed", str(int.from_bytes(os.urandom(4)))],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=590,
        check=False,
    )
    assert ran.stdout, ran.stderr
    verdict = json.loads(ran.stdout)
    assert verdict["ok"], f"{verdict}\n{ran.stderr}"
    assert verdict["pages"] == 2_000
    assert verdict["kills"]


@pytest.mark.parametrize("victim", ["coordinator", "worker"])
def test_i5_the_host_is_left_alone_for_its_delay_after_a_kill_in_the_middle_of_a_request(
    victim: str, site: Site, crawl: Crawl
) -> None:
    """The request was out when the process died: its end is when the site saw the connection go."""
    site.page("a.test", "/", '<a href="/slow">x</a>')
    site.page("a.test", "/slow", "slow", delay_s=1.5)
    typed = (site.url("a.test"), "--delay", "1", "--workers", "1")
    process = crawl.start(site, *typed)
    until(lambda: "/slow" in site.paths("a.test"))
    if victim == "coordinator":
        process.kill()
        process.communicate()
        ran = crawl(site, *typed)
    else:
        (worker,) = workers_of(process.pid)
        os.kill(worker, signal.SIGKILL)
        ran = crawl.finish(process)
    assert ran.code == 0, ran.stderr
    assert ran.urls[-1] == site.url("a.test", "/slow")
    asked = [seen for seen in site.requests if seen.target == "/slow"]
    assert [seen.aborted for seen in asked] == [True, False]
    assert site.violations(1.0) == []


def test_what_was_in_flight_at_a_kill_counts_as_no_attempt(site: Site, crawl: Crawl) -> None:
    """Three attempts a page: a page whose every request is killed four times is still asked for again."""
    site.page("a.test", "/", '<a href="/slow">x</a>')
    site.page("a.test", "/slow", "slow", delay_s=0.7)
    seed = site.url("a.test")
    for times in range(1, 5):
        process = crawl.start(site, seed)
        until(partial(asked_so_often, site, "/slow", times))
        process.kill()
        process.communicate()
    ran = crawl(site, seed)
    assert ran.code == 0, ran.stderr
    assert ran.urls[-1] == site.url("a.test", "/slow")
    code, answer = crawl.ask("why", site.url("a.test", "/slow"))
    assert code == 0, answer


def workers_of(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in found]


# --------------------------------------------------------------------------------------------------------- the lock


def test_i5_a_start_waits_while_a_request_of_the_last_run_may_be_in_flight(site: Site, crawl: Crawl) -> None:
    """The lock is held as a worker that lives on would hold it: by its inherited descriptor."""
    site.page("a.test", "/", "a")
    crawl.state.mkdir()
    descriptor = os.open(crawl.state / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    process = crawl.start(site, site.url("a.test"))
    time.sleep(4.0)
    assert process.poll() is None
    assert not site.requests
    let_go_at = time.monotonic()
    os.close(descriptor)
    ran = crawl.finish(process)
    assert ran.code == 0, ran.stderr
    assert site.requests[0].began_at > let_go_at


def test_a_second_crawl_of_the_folder_ends_naming_the_first(site: Site, crawl: Crawl) -> None:
    site.page("a.test", "/", "a", delay_s=LOCK_WAIT_S + 30)
    first = crawl.start(site, site.url("a.test"))
    until(lambda: "/" in site.paths("a.test"))
    began_at = time.monotonic()
    ran = crawl(site, site.url("a.test"))
    assert ran.code == 1
    assert f"process {first.pid} holds the state folder {crawl.state}" in ran.stderr
    assert "hint: " in ran.stderr
    assert time.monotonic() - began_at >= LOCK_WAIT_S
    assert len(site.requests) == 2  # robots.txt and the page, of the first


def test_a_second_crawl_of_the_host_ends_naming_the_first(site: Site, crawl: Crawl, tmp_path: Path) -> None:
    site.page("a.test", "/", "a", delay_s=LOCK_WAIT_S + 30)
    first = crawl.start(site, site.url("a.test"))
    until(lambda: "/" in site.paths("a.test"))
    other = tmp_path / "other"
    ran = crawl(site, site.url("a.test", "/elsewhere"), "--state", str(other))
    assert ran.code == 1
    assert (
        f"process {first.pid} is crawling a.test:{site.port} with the state folder {crawl.state}"
        in ran.stderr
    )
    assert len(site.requests) == 2
    # the first is not bothered, and the folder of the second can be used once the first is gone
    first.kill()
    first.communicate()
    site.page("a.test", "/elsewhere", "b")
    assert crawl(site, site.url("a.test", "/elsewhere"), "--state", str(other)).code == 0


# --------------------------------------------------------------------------------------------------------- the state


def test_i5_the_journal_is_cut_to_what_was_committed_and_the_database_is_whole(
    site: Site, crawl: Crawl
) -> None:
    """What a torn append leaves behind the committed end is no page, not even a part of one."""
    seeds = site.grow(hosts=2, pages=60)
    output = crawl.folder / "pages.jsonl"
    typed = (*seeds, "--delay", "0.05", "-o", str(output))
    process = crawl.start(site, *typed)
    until(lambda: len(site.requests) > 30)
    process.kill()
    process.communicate()
    with closing(sqlite3.connect(crawl.state / "state.sqlite")) as state:
        assert state.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        segment, offset = state.execute('SELECT segment, "offset" FROM crawl').fetchone()
    file = crawl.state / "journal" / f"{segment:06}.pages"
    assert file.stat().st_size >= offset
    whole = file.read_bytes()
    with file.open("ab") as journal:  # a frame that was written whole, and one that was not
        journal.write(whole[-2_000:] + whole[: offset // 2])
    with output.open("ab") as torn:
        torn.write(b'{"url":"http://h0.test/torn')
    ran = crawl(site, *typed)
    assert ran.code == 0, ran.stderr
    found = Counter(page["url"] for page in lines(output))
    assert set(found) == site.urls()
    assert set(found.values()) == {1}
    with closing(sqlite3.connect(crawl.state / "state.sqlite")) as state:
        assert state.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert state.execute("SELECT count(*) FROM page").fetchone() == (60,)


def test_i5_a_damaged_frame_costs_a_page_that_is_fetched_again(site: Site, crawl: Crawl) -> None:
    seeds = site.grow(hosts=1, pages=12)
    ran = crawl(site, *seeds, "--max-pages", "11")
    assert ran.code == 0, ran.stderr
    (file,) = (crawl.state / "journal").glob("*.pages")
    raw = bytearray(file.read_bytes())
    raw[len(raw) // 2] ^= 0xFF
    file.write_bytes(raw)
    output = crawl.folder / "pages.jsonl"
    ran = crawl(site, *seeds, "-o", str(output))  # another output: it begins with the first page
    assert ran.code == 0, ran.stderr
    found = Counter(page["url"] for page in lines(output))
    assert set(found) == site.urls()
    assert set(found.values()) == {1}
    assert len(site.requests) == 1 + 12 + 1
