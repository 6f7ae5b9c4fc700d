"""A whole crawl of every bad manner beside two good hosts: each URL ends its own way, and nothing else suffers."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from mannerly.model.task import UrlState
from mannerly.model.verdict import Reason
from mannerly.ports import UrlRecord
from mannerly.store.sqlite import SqliteStore
from mannerly.testing.behaviours import BEHAVIOURS
from mannerly.testing.hostile import seeds_of, serve_hostile
from mannerly.testing.site import Site

if TYPE_CHECKING:
    from tests.outside.conftest import Crawl, Ran

pytestmark = [pytest.mark.outside, pytest.mark.slow, pytest.mark.timeout(600)]

MOST_MIB: Final = {"_worker": 400, "_parser": 600}
# transfers share two workers with pages that take a second to parse, and the machine with other tests
TIMEOUT_S: Final = 20

# how each ends. Pages: what their record says was cut, and how large they are at most, in MiB
PAGES: Final[dict[str, tuple[str | None, float]]] = {
    "body-1gib": ("body,text", 10),
    "body-endless": ("body", 10),
    # a bomb is given up once it is past 1 MiB and a hundred times what came
    "gzip-bomb": ("body", 10),
    "br-bomb": ("body", 10),
    "zstd-bomb": ("body", 10),
    "double-bomb": ("body", 10),
    "coded-twice": (None, 0.001),
    "coded-thrice": (None, 0.001),
    "coded-nine-times": ("coding", 0.001),
    "nested": (None, 10),
    "b-p": ("tags", 10),
    "anchors": ("body,tags", 10),
    "attributes": (None, 10),
    "links": ("body,links", 10),
    "options": (None, 10),
    "noise": (None, 1),
    "nulls": (None, 1.001),
    "utf-16": (None, 0.001),
    "charset-conflict": (None, 0.001),
    "wrong-type": (None, 0.01),
    "no-type": (None, 0.001),
    "empty": (None, 0),
    "length-short": (None, 20 / (1 << 20)),
    "length-long": ("length", 0.001),
    "length-huge": (None, 0.001),
    "not-gzip": ("coding", 0.001),
    "torn-gzip": ("coding", 1),
    "unknown-coding": ("coding", 0.001),
    "not-chunked": ("length", 0.001),
    "torn-chunk": ("length", 0.001),
    "length-and-chunks": (None, 0.001),
    "closes-second": (None, 0.001),
    "robots-loop": (None, 0.001),
    "robots-endless": (None, 0.001),
    "robots-noise": (None, 0.001),
}
FAILED: Final[dict[str, tuple[UrlState, Reason, str]]] = {
    "headers-10mb": (UrlState.FAILED, Reason.HEADERS_TOO_LARGE, "more than 262,144 bytes"),
    "header-line-1mb": (UrlState.FAILED, Reason.HEADERS_TOO_LARGE, ""),
    "length-twice": (UrlState.FAILED, Reason.PROTOCOL_ERROR, "Content-Length"),
    "length-negative": (UrlState.FAILED, Reason.PROTOCOL_ERROR, "Content-Length"),
    "garbage-status": (UrlState.FAILED, Reason.PROTOCOL_ERROR, "HTTP version"),
    "garbage": (UrlState.FAILED, Reason.PROTOCOL_ERROR, "status line"),
    "http-0.9": (UrlState.FAILED, Reason.PROTOCOL_ERROR, "status line"),
    "to-itself": (UrlState.FAILED, Reason.REDIRECT_LOOP, "to its own spelling"),
    "to-nowhere": (UrlState.FAILED, Reason.REDIRECT_INVALID, "302 Location: ''"),
    "to-file": (UrlState.FAILED, Reason.REDIRECT_INVALID, "file:///etc/passwd"),
    "to-script": (UrlState.FAILED, Reason.REDIRECT_INVALID, "javascript:"),
    "to-credentials": (
        UrlState.REFUSED,
        Reason.REDIRECT_TARGET_REFUSED,
        "http://to-credentials.invalid/: no-contact",
    ),
    "to-port": (UrlState.REFUSED, Reason.REDIRECT_TARGET_REFUSED, "port-refused"),
}
# redirected, and what the target ends as
REDIRECTED: Final[dict[str, tuple[str, UrlState, Reason | None]]] = {
    "to-private": (r"http://10\.0\.0\.1/", UrlState.REFUSED, Reason.ADDRESS_REFUSED),
    "to-loopback": (r"http://\[::1\]/", UrlState.REFUSED, Reason.ADDRESS_REFUSED),
    "to-decimal": (r"http://127\.0\.0\.1/", UrlState.REFUSED, Reason.ADDRESS_REFUSED),
    "to-metadata": (r"http://169\.254\.169\.254/.*", UrlState.REFUSED, Reason.ADDRESS_REFUSED),
    "maze": (r"http://maze\.test:\d+/\?10", UrlState.FAILED, Reason.REDIRECT_CHAIN_TOO_LONG),
}
# tried again later than this crawl waits for: what is remembered of the last attempt
DELAYED: Final[dict[str, str]] = {
    "headers-endless": "timeout",
    "drip": "timeout",
    "drip-head": "timeout",
    "no-answer": "timeout",
    "continues": "timeout",
    "status-only": "truncated-head",
    "reset": "reset",
    "closes": "reset",
    "later-seconds": "HTTP 503",
    "later-date": "HTTP 503",
    "later-huge": "HTTP 503",
    "later-past": "HTTP 503",
    "later-negative": "HTTP 503",
    "later-words": "HTTP 503",
}
# never asked for, since their host is not: what `why` says of it
UNASKED: Final[dict[str, tuple[str, str]]] = {
    "robots-wildcards": ("parked", "robots-too-complex"),
    "robots-unanswered": ("ready", "robots-unreachable"),
}


@dataclass(frozen=True, slots=True)
class Crawled:
    """The crawl, ended. peaks_mib: the most memory that each worker, and each parser of a worker, held."""

    site: Site
    crawl: Crawl
    ran: Ran
    stored: dict[str, UrlRecord]
    peaks_mib: dict[tuple[str, int], int]
    good: frozenset[str]

    def seed(self, name: str) -> UrlRecord:
        return self.stored[self.site.url(BEHAVIOURS[name].host)]


def sample(process: subprocess.Popen[str], peaks_mib: dict[tuple[str, int], int]) -> None:
    """Note the high-water mark of each worker of the crawl, and of the parsers of those."""
    workers = children(process.pid)
    parsers = [pid for worker in workers for pid in children(worker)]
    for kind, pid in (*(("_worker", pid) for pid in workers), *(("_parser", pid) for pid in parsers)):
        folder = Path(f"/proc/{pid}")
        try:
            peak = re.search(r"VmHWM:\s+(\d+)", (folder / "status").read_text())
            command = (folder / "cmdline").read_text().split("\0")
        except OSError:
            continue  # it has ended
        if peak is not None and kind in command:  # until then it is a copy of its parent
            peaks_mib[kind, pid] = int(peak[1]) >> 10


def children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


async def all_stored(path: Path) -> dict[str, UrlRecord]:
    store = SqliteStore(path, read_only=True)
    try:
        return {
            record.href: record
            for state in UrlState
            for record in await store.urls(state=state, limit=10_000)
        }
    finally:
        await store.close()


@pytest.fixture(scope="module")
def crawled(new_crawl: Callable[[str], Crawl]) -> Crawled:
    if not Path("/proc/self/status").exists():
        pytest.skip("the memory of workers is read from /proc")
    crawl = new_crawl("hostile")
    with Site() as site:
        serve_hostile(site)
        seeds = site.grow(hosts=2, pages=40)
        peaks_mib: dict[tuple[str, int], int] = {}
        process = crawl.start(
            site,
            *(*seeds, *seeds_of(site), "--scope", "any", "--exclude", "/link/", "--delay", "0.1"),
            *("--timeout", str(TIMEOUT_S), "--patience", "2", "-o", "pages.jsonl"),
        )
        ends_at = time.monotonic() + 300
        while process.poll() is None and time.monotonic() < ends_at:
            sample(process, peaks_mib)
            time.sleep(0.1)
        ran = crawl.finish(process, timeout_s=1)
        good = frozenset(site.urls("h0.test") | site.urls("h1.test"))
    return Crawled(site, crawl, ran, asyncio.run(all_stored(crawl.state / "state.sqlite")), peaks_mib, good)


def pages_of(crawled: Crawled) -> dict[str, dict[str, Any]]:
    lines = (crawled.crawl.folder / "pages.jsonl").read_text(encoding="utf-8").splitlines()
    return {record["url"]: record for record in map(json.loads, lines)}


def test_every_behaviour_is_judged() -> None:
    judged = [*PAGES, *FAILED, *REDIRECTED, *DELAYED, *UNASKED]
    assert sorted(judged) == sorted(BEHAVIOURS)


def test_i9_no_worker_grows_past_its_bound(
    crawled: Crawled, record_property: Callable[[str, object], None]
) -> None:
    peaks = {
        kind: sorted(peak for (of, _), peak in crawled.peaks_mib.items() if of == kind) for kind in MOST_MIB
    }
    record_property("peaks, MiB", str(peaks))
    assert len(peaks["_worker"]) == 2, "a worker died, or was never seen"
    assert "worker-died" not in crawled.ran.stderr
    assert peaks["_parser"]
    assert {kind: max(found) < MOST_MIB[kind] for kind, found in peaks.items()} == dict.fromkeys(
        MOST_MIB, True
    )


def test_the_crawl_ends_well_and_good_hosts_are_complete(crawled: Crawled) -> None:
    assert crawled.ran.code == 0, crawled.ran.stderr
    assert crawled.good <= set(pages_of(crawled))


def test_pages_that_can_be_had_are_had_and_say_what_was_cut(crawled: Crawled) -> None:
    pages = pages_of(crawled)
    wrong = []
    for name, (truncated, most_mib) in PAGES.items():
        stored, page = crawled.seed(name), pages.get(crawled.site.url(BEHAVIOURS[name].host))
        if page is None:
            wrong.append((name, stored.state.name, stored.detail))
        elif page["truncated"] != truncated or page["bytes"] > most_mib * (1 << 20):
            wrong.append((name, page["truncated"], page["bytes"]))
    assert not wrong


def test_i8_each_of_the_others_ends_with_its_own_reason(crawled: Crawled) -> None:
    wrong = []
    for name, (state, reason, detail) in FAILED.items():
        stored = crawled.seed(name)
        if (stored.state, stored.reason) != (state, reason) or detail not in stored.detail:
            wrong.append((name, stored.state.name, stored.reason, stored.detail))
    for name, detail in DELAYED.items():
        stored = crawled.seed(name)
        if stored.state is not UrlState.DELAYED or not stored.detail.startswith(detail):
            wrong.append((name, stored.state.name, stored.reason, stored.detail))
    assert not wrong


def test_i7_redirects_to_what_may_not_be_dialled_end_there(crawled: Crawled) -> None:
    for name, (target, state, reason) in REDIRECTED.items():
        assert crawled.seed(name).state is UrlState.REDIRECTED, name
        (found,) = (record for href, record in crawled.stored.items() if re.fullmatch(target, href))
        assert (found.state, found.reason) == (state, reason), name
    assert len(crawled.site.paths("maze.test")) == 1 + 11
    assert crawled.site.paths("127.0.0.1") == []


def test_hosts_whose_rules_cannot_be_had_are_left_alone(crawled: Crawled) -> None:
    for name, (state, reason) in UNASKED.items():
        assert set(crawled.site.paths(BEHAVIOURS[name].host)) == {"/robots.txt"}
        _, why = crawled.crawl.ask("why", crawled.site.url(BEHAVIOURS[name].host))
        assert why["host"]["state"] == state
        assert reason in (why["reason"], why["host"]["reason"], why["host"]["cause"])


def test_no_bad_manner_makes_the_crawl_impolite(crawled: Crawled) -> None:
    assert crawled.site.violations(0.1) == []
    assert not any(crawled.site.overlaps(BEHAVIOURS[name].host) for name in BEHAVIOURS)
