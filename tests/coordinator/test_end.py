"""When a crawl ends: never while something is on its way that will give it work."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mannerly.cli.assemble import crawl as assemble
from mannerly.cli.job import job_of
from mannerly.coordinator.service import Ending, Summary
from mannerly.model.config import Config, FetchConfig, PolitenessConfig, WorkerConfig
from mannerly.model.origin import OriginRecord
from mannerly.store.sqlite import SqliteStore
from mannerly.testing import Site

SOURCE = Path(__file__).resolve().parents[2] / "src"
# several looks at whether the crawl has ended
SLOW_S = 0.9


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers find the package, host locks are of this test alone."""
    monkeypatch.setenv("PYTHONPATH", str(SOURCE))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))


async def crawled(site: Site, folder: Path) -> Summary:
    """Crawl a.test of the site with one worker, the pages thrown away."""
    folder.mkdir()
    config = Config(
        fetch=FetchConfig(allow_private_addresses=True, resolve=("*.test=127.0.0.1",)),
        politeness=PolitenessConfig(min_delay_s=0.0, factor=0.0),
        workers=WorkerConfig(workers=1),
    )
    job = job_of(config, [site.url("a.test", "/")], now=0.0)
    async with assemble.embedded(
        job,
        folder=folder,
        sinks=lambda _record: [],
        progress=lambda _status: None,
        event=lambda _name, _fields: None,
    ) as parts:
        return await parts.crawl.run()


@pytest.mark.slow
async def test_a_crawl_does_not_end_while_a_ruleset_is_read_from_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = SqliteStore.origin

    async def slowly(store: SqliteStore, origin: str) -> OriginRecord | None:
        await asyncio.sleep(SLOW_S)
        return await read(store, origin)

    monkeypatch.setattr(SqliteStore, "origin", slowly)
    with Site() as site:
        site.page("a.test", "/", "<a href=/b>b</a>")
        site.page("a.test", "/b", "b")
        summary = await crawled(site, tmp_path / "state")
        assert set(site.paths("a.test")) == {"/robots.txt", "/", "/b"}
    assert (summary.ending, summary.counts.pages) == (Ending.DONE, 2)


@pytest.mark.slow
async def test_a_crawl_does_not_end_between_a_result_and_what_it_leads_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # robots.txt moved to a host that the store is asked for first: nothing is in flight meanwhile
    make = SqliteStore.ensure_host

    async def slowly(store: SqliteStore, name: str, *, seed: bool = False) -> object:
        await asyncio.sleep(SLOW_S)
        return await make(store, name, seed=seed)

    monkeypatch.setattr(SqliteStore, "ensure_host", slowly)
    with Site() as site:
        site.page("a.test", "/", "a")
        site.redirect("a.test", "/robots.txt", site.url("b.test", "/rules"))
        site.page("b.test", "/rules", "User-agent: *\nAllow: /\n", content_type="text/plain")
        summary = await crawled(site, tmp_path / "state")
        assert site.paths("b.test") == ["/rules"]
    assert (summary.ending, summary.counts.pages) == (Ending.DONE, 1)
