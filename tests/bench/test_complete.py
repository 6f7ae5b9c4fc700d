"""The ruler measured: the walker and the comparison, on a site whose right answer is known."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mannerly.testing import Reply, Site

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow


def run(module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def links(*references: str, more: str = "") -> str:
    return more + "".join(f'<a href="{reference}">x</a>' for reference in references)


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as site:
        yield site


def walk(site: Site, folder: Path) -> list[str]:
    """Walk a.test; leaves walk.txt and graph.jsonl in `folder`, returns the paths found."""
    done = run(
        "bench.walk",
        *("--resolve", f"127.0.0.1:{site.port}", "-o", str(folder / "walk.txt")),
        *("--graph", str(folder / "graph.jsonl"), "--processes", "1", site.url("a.test")),
    )
    assert done.returncode == 0, done.stderr
    base = site.url("a.test", "")
    return [url.removeprefix(base) for url in (folder / "walk.txt").read_text().split()]


def crawl_file(site: Site, folder: Path, paths: list[str], *, cut: tuple[str, ...] = ()) -> Path:
    """What a crawl that fetched `paths` would have written, as far as the comparison reads it."""
    pages = folder / "pages.jsonl"
    pages.write_text(
        "".join(
            json.dumps(
                {
                    "url": site.url("a.test", path),
                    "status": 200,
                    "content_type": "text/html; charset=utf-8",
                    "via": None,
                    "truncated": "links" if path in cut else None,
                }
            )
            + "\n"
            for path in paths
        )
    )
    return pages


def compare(pages: Path) -> tuple[int, str]:
    folder = pages.parent
    done = run(
        "bench.complete",
        *("--walk", str(folder / "walk.txt"), "--graph", str(folder / "graph.jsonl"), str(pages)),
    )
    assert not done.stderr
    return done.returncode, done.stdout


def test_the_walker_follows_what_it_should_and_nothing_else(site: Site, tmp_path: Path) -> None:
    wild = links(
        "b", "b#x", "%62", "/c?y=1&x=2", "/c?x=2&y=1", "/moved", "/notes.txt", "/gone", "http://b.test/"
    )
    wild += '<a rel="nofollow" href="/shy">s</a><iframe src="/frame"></iframe><map><area href="/area"></map>'
    wild += '<meta http-equiv="refresh" content="9;url=/later">'
    site.page("a.test", "/", wild)
    for path in ("/b", "/c", "/target", "/frame", "/area", "/later", "/shy", "/past-nofollow"):
        site.page("a.test", path, "leaf")
    site.redirect("a.test", "/moved", "/target")
    site.page(
        "a.test", "/b", links("/past-nofollow", more='<meta name="robots" content="noindex, NoFollow">')
    )
    site.page("a.test", "/notes.txt", links("/shy"), content_type="text/plain")
    assert walk(site, tmp_path) == ["/", "/area", "/b", "/c?x=2&y=1", "/frame", "/later", "/target"]


def test_a_whole_grown_web_is_found_and_equals_a_whole_crawl(site: Site, tmp_path: Path) -> None:
    site.grow(hosts=1, pages=40)
    site.page("a.test", "/", links("/x"))
    site.page("a.test", "/x", links("/", "/y"))
    site.page("a.test", "/y", "end")
    assert walk(site, tmp_path) == ["/", "/x", "/y"]
    assert compare(crawl_file(site, tmp_path, ["/", "/x", "/y"]))[0] == 0


def test_each_difference_is_told_by_its_reason(site: Site, tmp_path: Path) -> None:
    site.fallback("a.test", lambda request: Reply(body="leaf"))
    site.page("a.test", "/", links("/x", "/y?utm_source=z", "/y", "/r/r/r/", "/long", "/lost", "/cut"))
    site.page("a.test", "/r/r/r/", links("/behind"))
    site.page("a.test", "/cut", links("/cut-off"))
    assert len(walk(site, tmp_path)) == 10
    status, told = compare(
        crawl_file(site, tmp_path, ["/", "/x", "/y", "/long", "/cut", "/lost"], cut=("/cut",))
    )
    assert status == 0, told
    for reason in (
        "tracking-parameters",
        "repeated-segments",
        "only past one of these",
        "only from pages cut short",
    ):
        assert f"1 not crawled: {reason}" in told


@pytest.mark.parametrize(
    ("paths", "told"),
    [
        (["/"], "1 not crawled, UNEXPLAINED"),
        (["/", "/x", "/other"], "1 crawled but not walked, UNEXPLAINED"),
        (["/", "/x", "/x"], "1 more than once"),
    ],
)
def test_what_cannot_be_explained_fails(site: Site, tmp_path: Path, paths: list[str], told: str) -> None:
    site.page("a.test", "/", links("/x"))
    site.page("a.test", "/x", "end")
    walk(site, tmp_path)
    status, text = compare(crawl_file(site, tmp_path, paths))
    assert status == 1
    assert told in text
