"""A full disk stops a crawl with exit 1 and the reason; once there is room, the same command goes on, nothing lost."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from mannerly.testing import Site

if TYPE_CHECKING:
    from tests.outside.conftest import Crawl, Ran

pytestmark = [pytest.mark.outside, pytest.mark.slow]

MIB: Final = 1 << 20
# a page's text does not compress: 400 pages of it come to more than what is left on the small disk
PAGES: Final = 400
WORDS: Final = 1_500


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 40 MiB, mounted if we may."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=40m", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"a small file system cannot be mounted here: {mounted.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.fixture
def seeds(site: Site) -> list[str]:
    return site.grow(hosts=10, pages=PAGES, words=WORDS)


# without this reserve dispatch would stop long before the disk is full
NO_RESERVE: Final = "[journal]\nmin_free_bytes = 0\n"


def assert_whole(output: Path, site: Site) -> None:
    found = Counter(json.loads(line)["url"] for line in output.read_text().splitlines())
    assert set(found) == site.urls()
    assert set(found.values()) == {1}


def assert_told(ran: Ran, what: str) -> None:
    assert ran.code == 1, ran.stderr
    (error,) = [line for line in ran.stderr.splitlines() if line.startswith("error: ")]
    assert what in error
    assert "hint: make" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_i5_a_full_disk_under_the_state_loses_nothing(
    site: Site, seeds: list[str], crawl: Crawl, small_disk: Path
) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(36 * MIB))
    output = crawl.folder / "pages.jsonl"
    typed = (*seeds, "-o", str(output), "--text", "--state", str(small_disk / "state"))
    typed = (*typed, "--delay", "0.02", *crawl.configuration(NO_RESERVE))
    ran = crawl(site, *typed)
    assert_told(ran, "no space is left for")
    assert 0 < len(output.read_text().splitlines()) < PAGES
    # and again while it is still full: no harm, the same reason
    assert_told(crawl(site, *typed), "no space is left for")
    ballast.unlink()
    ran = crawl(site, *typed)
    assert ran.code == 0, ran.stderr
    assert_whole(output, site)
    assert site.violations(0.02) == []


def test_i5_a_full_disk_under_the_output_loses_nothing(
    site: Site, seeds: list[str], crawl: Crawl, small_disk: Path
) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(39 * MIB))
    output = small_disk / "pages.jsonl"
    typed = (*seeds, "-o", str(output), "--text", "--delay", "0.02", *crawl.configuration(NO_RESERVE))
    ran = crawl(site, *typed)
    assert_told(ran, f"no space is left for {output}")
    raw = output.read_bytes()
    assert raw.endswith(b"\n") or not raw  # no torn line, even before the resume
    ballast.unlink()
    ran = crawl(site, *typed)
    assert ran.code == 0, ran.stderr
    assert_whole(output, site)


def test_a_disk_that_is_full_from_the_start_is_told(site: Site, crawl: Crawl, small_disk: Path) -> None:
    site.page("a.test", "/", "a")
    ballast = small_disk / "ballast"
    with ballast.open("wb") as file, pytest.raises(OSError, match="No space"):
        while True:
            file.write(bytes(MIB))
            file.flush()
    typed = (site.url("a.test"), "--state", str(small_disk / "state"), *crawl.configuration(NO_RESERVE))
    assert_told(crawl(site, *typed), "no space is left for")
    assert not site.requests
    ballast.unlink()
    assert crawl(site, *typed).code == 0


def test_i5_dispatch_stops_at_the_reserve_of_the_disk(site: Site, crawl: Crawl) -> None:
    site.page("a.test", "/", "a")
    typed = (site.url("a.test"), *crawl.configuration(f"[journal]\nmin_free_bytes = {1 << 60}\n"))
    for quiet in ((), ("-q",)):
        ran = crawl(site, *typed, *quiet)
        assert_told(ran, f"are free on the disk of {crawl.state}, less than the reserve of")
        assert not site.requests
    ran = crawl(site, site.url("a.test"))
    assert ran.code == 0, ran.stderr
    assert ran.urls == [site.url("a.test")]


def test_i5_at_the_journals_limit_what_is_in_flight_is_settled(
    site: Site, seeds: list[str], crawl: Crawl
) -> None:
    output = crawl.folder / "pages.jsonl"
    typed = (*seeds, "-o", str(output), "--text", "--delay", "0.02")
    ran = crawl(site, *typed, *crawl.configuration(NO_RESERVE + f"max_bytes = {MIB}\n"))
    assert ran.code == 1, ran.stderr
    assert f"the journal in {crawl.state / 'journal'} has reached its limit of 1.0 MiB" in ran.stderr
    assert "hint: raise [journal] max_bytes" in ran.stderr
    asked = [seen for seen in site.requests if seen.target != "/robots.txt"]
    assert all(seen.over and not seen.aborted for seen in asked)
    assert len(output.read_text().splitlines()) == len(asked)
    ran = crawl(site, *typed, *crawl.configuration(NO_RESERVE))
    assert ran.code == 0, ran.stderr
    assert_whole(output, site)
    assert len([seen for seen in site.requests if seen.target != "/robots.txt"]) == PAGES
