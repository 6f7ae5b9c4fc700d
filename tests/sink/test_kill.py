"""kill -9 of a process that delivers to a file, at random moments: each line once, none torn (invariant I5)."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mannerly.model.blob import PagePart, seal
from mannerly.model.frame import PageFrame
from mannerly.ports import Position
from mannerly.store.journal import FileJournal

PAGES = 3_000

CHILD = """
import asyncio, sys
from mannerly.coordinator.deliver import Delivery
from mannerly.model.config import OutputConfig
from mannerly.ports import Position
from mannerly.sink.choice import choose_sink
from mannerly.store.journal import FileJournal
from mannerly.store.sqlite import SqliteStore

async def main(folder, *ends):
    store = SqliteStore(folder + "/state.db")
    journal = FileJournal(folder + "/journal")
    sink = choose_sink(OutputConfig(file=folder + "/out.jsonl"), crawl="c")
    async with Delivery(journal, store, [sink], reader_gone=print) as service:
        print("open", flush=True)
        running = asyncio.create_task(service.run())
        for end in ends:
            service.committed(Position(*map(int, end.split(":"))))
            await asyncio.sleep(0.002)
        running.cancel()
        await asyncio.wait([running])
        await service.drain()
    await store.close()

asyncio.run(main(*sys.argv[1:]))
"""


def page(n: int) -> PageFrame:
    url = f"https://a.test/{n}"
    head = (url, url, 200, 1.5, 0, "", (), 10, 5, "", "", None)
    part = PagePart(text=f"page {n} " * 50, wants_text=True)
    return PageFrame(*head, True, "", "", "mannerly", "", "c", 1, n, seal(part))


def fill(folder: Path) -> list[Position]:
    journal = FileJournal(folder, segment_bytes=100_000)
    ends = []
    for start in range(0, PAGES, 20):
        journal.append([page(n) for n in range(start, start + 20)])
        ends.append(journal.end)
    journal.close()
    return ends


@pytest.mark.slow
def test_i5_a_file_survives_kill_9_at_random_moments(tmp_path: Path) -> None:
    ends = fill(tmp_path / "journal")
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    command = [sys.executable, "-c", CHILD, str(tmp_path), *(f"{e.segment}:{e.offset}" for e in ends)]
    killed, seen = 0, 0
    for _ in range(8):
        with subprocess.Popen(command, stdout=subprocess.PIPE, env={"PYTHONPATH": "src"}) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == b"open\n", f"seed {seed}"
            time.sleep(chance.uniform(0, 0.15))
            child.kill()
        killed += child.returncode == -9
        whole = (tmp_path / "out.jsonl").read_bytes().count(b"\n")
        seen = max(seen, whole)
    assert killed > 0
    subprocess.run(command, check=True, env={"PYTHONPATH": "src"}, stdout=subprocess.DEVNULL)
    urls = [json.loads(line)["url"] for line in (tmp_path / "out.jsonl").read_bytes().splitlines()]
    assert urls == [f"https://a.test/{n}" for n in range(PAGES)], f"seed {seed}"
    assert seen > 0
