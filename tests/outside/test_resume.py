"""The same command again goes on: what may change and what may not, how a run is stopped, whose the output is."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from mannerly.testing import Site

if TYPE_CHECKING:
    from tests.outside.conftest import Crawl, Ran

CONFIG_REFUSED: Final = 78
INTERRUPTED: Final = 130
pytestmark = [pytest.mark.outside, pytest.mark.slow]


def until(reached: Callable[[], bool], *, within_s: float = 60.0) -> None:
    """Wait until `reached`."""
    deadline = time.monotonic() + within_s
    while not reached():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.005)


def chain(site: Site, host: str, pages: int, *, delay_s: float = 0.0) -> str:
    """Serve pages that each link to the next; return the seed's URL."""
    for number in range(pages):
        path = "/" if number == 0 else f"/{number}"
        site.page(host, path, f'<h1>page {number}</h1><a href="/{number + 1}">next</a>', delay_s=delay_s)
    site.page(host, f"/{pages}", "the last")
    return site.url(host)


def output_urls(path: Path) -> list[str]:
    return [json.loads(line)["url"] for line in path.read_text().splitlines()]


def assert_once(urls: list[str], site: Site) -> None:
    assert set(urls) == site.urls()
    assert set(Counter(urls).values()) == {1}


def assert_refused(ran: Ran, *named: str) -> None:
    assert ran.code == CONFIG_REFUSED, ran.stderr
    (error,) = [line for line in ran.stderr.splitlines() if line.startswith("error: ")]
    for name in named:
        assert name in error
    assert "hint: " in ran.stderr


# --------------------------------------------------------------------------------------------- what may change


def test_other_seeds_or_scope_in_the_folder_are_refused_naming_both(site: Site, crawl: Crawl) -> None:
    seed = chain(site, "a.test", 3)
    other = chain(site, "b.test", 1)
    assert crawl(site, seed, "--max-pages", "1").code == 0
    asked = len(site.requests)
    assert_refused(crawl(site, other), seed, other)
    assert_refused(crawl(site, seed, other), seed, other)
    assert_refused(crawl(site, seed, "--scope", "domain"), '"kind": "host"', '"kind": "domain"')
    assert_refused(crawl(site, seed, "--exclude", "/2"), "/2")
    assert len(site.requests) == asked
    assert crawl(site, seed).code == 0  # the refusals left the crawl as it was
    assert_once(
        [site.url("a.test", path) for path in site.paths("a.test") if path != "/robots.txt"]
        + [site.url("b.test", path) for path in ("/", "/1")],
        site,
    )


def test_limits_pace_workers_contact_and_fields_may_change(site: Site, crawl: Crawl) -> None:
    seed = chain(site, "a.test", 5)
    assert crawl(site, seed, "--max-pages", "2", "--workers", "1", "--delay", "0").code == 0
    ran = crawl(
        site,
        *(
            seed,
            "--delay",
            "0.4",
            "--workers",
            "2",
            "--concurrency",
            "3",
            "--max-depth",
            "9",
            "--timeout",
            "9",
        ),
        *("--contact", "x@example.org", "--select", "title=h1::text"),
    )
    assert ran.code == 0, ran.stderr
    later = [seen for seen in site.requests if (seen.header("user-agent") or "").endswith("(+x@example.org)")]
    assert [seen.target for seen in later] == ["/2", "/3", "/4", "/5"]
    # what came at the pace of the first run: "/" after robots.txt, and "/1"
    assert site.violations(0.4)[2:] == []
    assert [record["fields"] for record in ran.records if record["url"] == site.url("a.test", "/3")] == [
        {"title": "page 3"}
    ]


def test_i3_a_slower_pace_counts_from_the_last_answer_of_the_run_before(site: Site, crawl: Crawl) -> None:
    seed = chain(site, "a.test", 1)
    assert crawl(site, seed, "--delay", "0", "--max-pages", "1").code == 0
    ran = crawl(site, seed, "--delay", "12")
    assert ran.code == 0, ran.stderr
    assert site.paths("a.test") == ["/robots.txt", "/", "/1"], ran.stderr
    assert site.gaps("a.test")[-1] >= 12


def test_max_pages_counts_all_runs(site: Site, crawl: Crawl) -> None:
    seed = chain(site, "a.test", 9)
    output = crawl.folder / "pages.jsonl"
    for most in (3, 3, 5):
        ran = crawl(site, seed, "--max-pages", str(most), "-o", str(output))
        assert ran.code == 0, ran.stderr
        assert f"--max-pages {most} was reached" in ran.stderr
        assert len(output_urls(output)) == most
        assert len(site.paths("a.test")) == 1 + most
    assert crawl(site, seed, "-o", str(output)).code == 0
    assert_once(output_urls(output), site)


def test_a_finished_crawl_has_nothing_due_and_fresh_begins_anew(site: Site, crawl: Crawl) -> None:
    seed = chain(site, "a.test", 2)
    assert crawl(site, seed).code == 0
    asked = len(site.requests)
    for _ in range(2):
        ran = crawl(site, seed)
        assert (ran.code, ran.records) == (0, [])
        assert "nothing due; --fresh starts anew" in ran.stderr
    assert len(site.requests) == asked
    with closing(sqlite3.connect(crawl.state / "state.sqlite")) as state:
        assert state.execute("SELECT running, finished FROM crawl").fetchone() == (0, 1)
    ran = crawl(site, seed, "--fresh")
    assert ran.code == 0, ran.stderr
    assert len(ran.records) == 3
    (old,) = crawl.folder.glob("state.old-*")
    assert str(old) in ran.stderr
    with closing(sqlite3.connect(old / "state.sqlite")) as state:
        assert state.execute("SELECT count(*) FROM page").fetchone() == (3,)


def test_fresh_moves_no_folder_that_is_no_crawls(site: Site, crawl: Crawl) -> None:
    site.page("a.test", "/", "a")
    crawl.state.mkdir()
    (crawl.state / "letter.txt").write_text("dear")
    assert_refused(crawl(site, site.url("a.test"), "--fresh"), str(crawl.state))
    assert (crawl.state / "letter.txt").read_text() == "dear"
    assert not site.requests


def test_a_state_folder_that_cannot_be_made_is_named(site: Site, crawl: Crawl) -> None:
    site.page("a.test", "/", "a")
    (crawl.folder / "file").write_text("")
    state = crawl.folder / "file" / "state"
    assert_refused(crawl(site, site.url("a.test"), "--state", str(state)), str(state))


# --------------------------------------------------------------------------------------------- how a run is stopped


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])
def test_one_signal_stops_cleanly(number: signal.Signals, site: Site, crawl: Crawl) -> None:
    seed = chain(site, "a.test", 30, delay_s=0.5)
    output = crawl.folder / "pages.jsonl"
    process = crawl.start(site, seed, "--delay", "0.3", "-o", str(output))
    until(lambda: len(site.requests) >= 3)
    os.killpg(process.pid, number)  # as a terminal does: to every process of its group
    ran = crawl.finish(process)
    assert ran.code == INTERRUPTED, ran.stderr
    assert "Traceback" not in ran.stderr
    asked = [seen for seen in site.requests if seen.target != "/robots.txt"]
    assert all(seen.over and not seen.aborted for seen in asked)
    assert output_urls(output) == [site.url("a.test", seen.target) for seen in asked]
    with closing(sqlite3.connect(crawl.state / "state.sqlite")) as state:
        assert state.execute("SELECT running, finished FROM crawl").fetchone() == (0, 0)
    # a clean stop counts no request twice, and the pace is kept across it
    assert crawl(site, seed, "--delay", "0.3", "--max-pages", "6", "-o", str(output)).code == 0
    assert len(output_urls(output)) == len(set(output_urls(output))) == 6
    assert len(site.requests) == 7
    assert site.violations(0.3) == []


def test_ctrl_c_twice_stops_at_once(site: Site, crawl: Crawl) -> None:
    seed = chain(site, "a.test", 5, delay_s=30.0)
    output = crawl.folder / "pages.jsonl"
    process = crawl.start(site, seed, "-o", str(output))
    until(lambda: "/" in site.paths("a.test"))
    os.killpg(process.pid, signal.SIGINT)
    time.sleep(1.0)
    assert process.poll() is None  # the request is waited for
    began_at = time.monotonic()
    os.killpg(process.pid, signal.SIGINT)
    ran = crawl.finish(process)
    assert time.monotonic() - began_at < 5.0
    assert ran.code == INTERRUPTED, ran.stderr
    assert "Traceback" not in ran.stderr
    until(lambda: all(seen.over for seen in site.requests), within_s=2.0)


def test_ctrl_c_while_the_lock_is_waited_for_stops(site: Site, crawl: Crawl) -> None:
    seed = chain(site, "a.test", 1, delay_s=60.0)
    crawl.start(site, seed)
    until(lambda: "/" in site.paths("a.test"))
    second = crawl.start(site, seed)
    time.sleep(4.0)
    os.killpg(second.pid, signal.SIGINT)
    began_at = time.monotonic()
    ran = crawl.finish(second)
    assert time.monotonic() - began_at < 4.0
    assert ran.code == INTERRUPTED, ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_reader_that_hangs_up_ends_the_run_cleanly(site: Site, crawl: Crawl) -> None:
    """`mannerly crawl ... | head -1`"""
    seed = chain(site, "a.test", 40)
    process = crawl.start(site, seed, "--delay", "0.1")
    assert process.stdout is not None
    first = json.loads(process.stdout.readline())
    assert first["url"] == seed
    process.stdout.close()
    assert process.stderr is not None
    said = process.stderr.read()
    process.stderr.close()
    assert process.wait(timeout=60) == 0, said
    assert "Traceback" not in said
    assert "Broken pipe" not in said
    assert len(site.requests) < 35
    ran = crawl(site, seed)  # the rest comes, at least once
    assert ran.code == 0, ran.stderr
    assert {*ran.urls, seed} >= site.urls() - {site.url("a.test", "/1")}


# --------------------------------------------------------------------------------------------- whose the output is


def test_a_foreign_file_is_never_cut_but_on_wish(site: Site, crawl: Crawl) -> None:
    seed = chain(site, "a.test", 2)
    output = crawl.folder / "pages.jsonl"
    output.write_text("mine\n")
    assert_refused(crawl(site, seed, "-o", str(output)), str(output))
    assert output.read_text() == "mine\n"
    assert not site.requests
    ran = crawl(site, seed, "-o", str(output), "--overwrite")
    assert ran.code == 0, ran.stderr
    assert_once(output_urls(output), site)


def test_an_empty_file_may_be_taken(site: Site, crawl: Crawl) -> None:
    seed = chain(site, "a.test", 1)
    output = crawl.folder / "pages.jsonl"
    output.touch()
    assert crawl(site, seed, "-o", str(output)).code == 0
    assert_once(output_urls(output), site)


@pytest.mark.parametrize("finished", [False, True], ids=["half way", "finished"])
def test_a_deleted_file_or_another_name_is_written_from_the_first_page(
    finished: bool, site: Site, crawl: Crawl
) -> None:
    seed = chain(site, "a.test", 6)
    first, second = crawl.folder / "first.jsonl", crawl.folder / "second.jsonl"
    assert crawl(site, seed, "-o", str(first), *(() if finished else ("--max-pages", "4"))).code == 0
    first.unlink()
    for output in (first, second):
        ran = crawl(site, seed, "-o", str(output))
        assert ran.code == 0, ran.stderr
        assert_once(output_urls(output), site)
    assert len(site.requests) == 1 + 7
    table = crawl.folder / "pages.csv"
    assert crawl(site, seed, "-o", str(table)).code == 0
    assert len(table.read_text().splitlines()) == 1 + 7


def test_a_file_that_somebody_changed_is_refused(site: Site, crawl: Crawl) -> None:
    seed = chain(site, "a.test", 4)
    output = crawl.folder / "pages.jsonl"
    assert crawl(site, seed, "-o", str(output), "--max-pages", "3").code == 0
    output.write_text("\n".join(output.read_text().splitlines()[:1]) + "\n")
    assert_refused(crawl(site, seed, "-o", str(output)), str(output), "changed")
    ran = crawl(site, seed, "-o", str(output), "--overwrite")
    assert ran.code == 0, ran.stderr
    assert_once(output_urls(output), site)


def test_a_redirected_stdout_takes_a_page_once_a_run(site: Site, crawl: Crawl) -> None:
    """`mannerly crawl ... > file`: stdout goes on where the last run ended."""
    seed = chain(site, "a.test", 4)
    urls: list[str] = []
    for more in (("--max-pages", "2"), ()):
        ran = crawl(site, seed, *more)
        assert ran.code == 0, ran.stderr
        urls += ran.urls
    assert_once(urls, site)


def test_a_crawl_without_a_stderr_goes_on(site: Site, crawl: Crawl) -> None:
    seed = chain(site, "a.test", 2)
    done = subprocess.run(
        ["/bin/sh", "-c", 'exec "$@" 2>&-', "sh", *crawl.arguments(site, seed)],
        stdout=subprocess.PIPE,
        env=crawl.environment(),
        cwd=crawl.folder,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 3


def test_a_crawl_goes_on_though_nobody_reads_what_it_says(site: Site, crawl: Crawl) -> None:
    """`mannerly crawl ... -o FILE 2>&1 | head -1`"""
    seed = chain(site, "a.test", 5)
    output = crawl.folder / "pages.jsonl"
    process = crawl.start(site, seed, "-o", str(output), "-v")
    assert process.stdout is not None
    assert process.stderr is not None
    process.stderr.readline()
    process.stderr.close()
    process.stdout.close()
    assert process.wait(timeout=60) == 0
    assert_once(output_urls(output), site)


# --------------------------------------------------------------------------------------------- what the disk has lost


@pytest.mark.parametrize(
    ("first", "then", "pages"),
    [
        (("--max-pages", "4"), (), 4),
        (("--max-pages", "4"), ("--max-pages", "4"), 4),
        ((), (), 7),
    ],
    ids=["half way", "the page budget spent", "finished"],
)
def test_pages_of_a_lost_journal_are_fetched_again_in_the_same_run(
    first: tuple[str, ...], then: tuple[str, ...], pages: int, site: Site, crawl: Crawl
) -> None:
    seed = chain(site, "a.test", 6)
    output = crawl.folder / "pages.jsonl"
    assert crawl(site, seed, "-o", str(output), *first).code == 0
    shutil.rmtree(crawl.state / "journal")
    output.unlink()
    ran = crawl(site, seed, "-o", str(output), *then)
    assert ran.code == 0, ran.stderr
    urls = output_urls(output)
    assert len(urls) == len(set(urls)) == (4 if then else 7)
    assert f"{pages} pages of the journal were damaged or lost: fetched again" in ran.stderr
    assert "nothing due" not in ran.stderr


def test_pages_of_a_lost_journal_that_are_in_the_output_are_not_fetched_again(
    site: Site, crawl: Crawl
) -> None:
    seed = chain(site, "a.test", 6)
    output, other = crawl.folder / "pages.jsonl", crawl.folder / "other.jsonl"
    assert crawl(site, seed, "-o", str(output), "--max-pages", "4").code == 0
    shutil.rmtree(crawl.state / "journal")
    ran = crawl(site, seed, "-o", str(output))
    assert ran.code == 0, ran.stderr
    assert_once(output_urls(output), site)
    assert len(site.requests) == 1 + 7
    ran = crawl(site, seed, "-o", str(other))  # here they are missing
    assert ran.code == 0, ran.stderr
    assert_once(output_urls(other), site)
    assert "4 pages of the journal" in ran.stderr


def test_a_damaged_page_of_a_finished_crawl_is_fetched_again_in_the_same_run(
    site: Site, crawl: Crawl
) -> None:
    seed = chain(site, "a.test", 4)
    output = crawl.folder / "pages.jsonl"
    assert crawl(site, seed, "-o", str(output)).code == 0
    with closing(sqlite3.connect(crawl.state / "state.sqlite")) as state:
        (place,) = state.execute('SELECT "offset" FROM page ORDER BY "offset" LIMIT 1 OFFSET 2').fetchone()
    with (crawl.state / "journal" / "000001.pages").open("r+b") as file:
        file.seek(place + 60)
        file.write(b"\xff\xff\xff\xff")
    output.unlink()
    ran = crawl(site, seed, "-o", str(output), "-q")
    assert ran.code == 0, ran.stderr
    assert_once(output_urls(output), site)
    assert "1 page of the journal was damaged or lost: fetched again" in ran.stderr
