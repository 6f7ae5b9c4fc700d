"""Kill a crawl at random moments, resume it by the same command, and compare with one that nobody disturbed.

    python -m bench.kill                     # 2,000 pages on 10 hosts, 30 kills, the figures as JSON on stdout
    python -m bench.kill --kills 5 --seed 7

A victim is the coordinator, one worker, or all of them at once, always by SIGKILL: while requests are out (the moments
are spread over the crawl's requests), or while the processes are still starting. What is judged: the pages of the
output file (none lost, twice or torn), what the site saw (never two in flight, never too early, over all runs as if
they were one), what is left behind (workers that live on, a damaged database), and what a restart costs.
Exits 1 if anything is amiss, the cost of a restart aside: that depends on the machine. Linux only (/proc).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from mannerly.testing import Site

ROOT: Final = Path(__file__).resolve().parent.parent
VICTIMS: Final = ("coordinator", "worker", "all")
# one kill in five falls into the start of the processes
STARTS_HIT: Final = 0.2
START_S: Final = 2.0
STALL_S: Final = 120.0
ORPHAN_S: Final = 5.0
STEP_S: Final = 0.002


class Stalled(Exception):
    """The crawl made no way for STALL_S seconds."""


@dataclass(slots=True)
class Verdict:
    """What came of it. restart_s: seconds from the start of a process to its first request, the delay taken off."""

    kills: dict[str, int] = field(default_factory=dict)
    runs: int = 0
    pages: int = 0
    lost: int = 0
    twice: int = 0
    torn: int = 0
    changed: int = 0
    violations: int = 0
    requests_again: int = 0
    orphans: int = 0
    orphan_s: float = 0.0
    database: str = "ok"
    first_start_s: float = 0.0
    restart_s: list[float] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether nothing was lost, nothing came twice, and the site was treated well."""
        wrong = self.lost, self.twice, self.torn, self.changed, self.violations, self.orphans
        return not any(wrong) and self.database == "ok"


class Disturbed:
    """One crawl over many runs. folder: where state, output and log are; a run has a process group of its own."""

    def __init__(self, site: Site, seeds: list[str], folder: Path, *, delay_s: float, workers: int) -> None:
        self.output = folder / "pages.jsonl"
        self.state = folder / "state"
        self._site = site
        self._log = folder / "log"
        self._delay_s = delay_s
        self._command = [
            *(sys.executable, "-m", "mannerly", "crawl", *seeds, "-o", str(self.output)),
            *("--state", str(self.state), "--delay", str(delay_s), "--workers", str(workers)),
            *("--quiet", *site.resolve_args()),
        ]
        runtime = folder / "runtime"
        runtime.mkdir(mode=0o700)
        self._environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT / "src"),
            "XDG_RUNTIME_DIR": str(runtime),
        }
        self.process: subprocess.Popen[bytes] | None = None
        self.started_at = 0.0
        self.seen_before = 0

    def start(self) -> None:
        """Run the command, the same each time."""
        self.seen_before = len(self._site.requests)
        self.started_at = time.monotonic()
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment,
                start_new_session=True,
            )

    def wait(self, reached: Callable[[], bool]) -> bool:
        """Wait until `reached`; False if the run ended before."""
        assert self.process is not None
        seen, moved_at = -1, time.monotonic()
        while not reached():
            if self.process.poll() is not None:
                return False
            now = len(self._site.requests)
            if now != seen:
                seen, moved_at = now, time.monotonic()
            elif time.monotonic() - moved_at > STALL_S:
                raise Stalled(self.log())
            time.sleep(STEP_S)
        return True

    def kill(self, victim: str, chance: random.Random) -> list[int]:
        """Kill the victim; return the workers that lived when the coordinator was killed, [] if it lives on."""
        assert self.process is not None
        workers = children(self.process.pid)
        if victim == "worker":
            if workers:
                kill(chance.choice(workers))
            return []
        pids = [self.process.pid] if victim == "coordinator" else [self.process.pid, *workers]
        chance.shuffle(pids)
        for pid in pids:
            kill(pid)
        self.process.wait()
        return workers

    def restart_s(self) -> float | None:
        """Return what the start of this run cost, None if it made no request."""
        mine = self._site.requests[self.seen_before :]
        return mine[0].began_at - self.started_at - self._delay_s if mine else None

    def log(self) -> str:
        """Return the end of what the runs said."""
        return self._log.read_text(errors="replace")[-4_000:] if self._log.exists() else ""


def kill(pid: int) -> None:
    """Kill a process, if it is still there."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def children(pid: int) -> list[int]:
    """Return the processes that `pid` started and that still run."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            found += [int(child) for child in task.read_text().split() if lives(int(child))]
    return found


def lives(pid: int) -> bool:
    """Tell whether a process runs: a zombie holds no file and no connection any more."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def orphans_after(pids: list[int], verdict: Verdict) -> None:
    """Wait for workers to end by themselves; count those that do not, and the longest that one took."""
    began_at = time.monotonic()
    while (left := [pid for pid in pids if lives(pid)]) and time.monotonic() - began_at < ORPHAN_S:
        time.sleep(STEP_S)
    verdict.orphan_s = max(verdict.orphan_s, time.monotonic() - began_at)
    verdict.orphans += len(left)
    for pid in left:
        kill(pid)


def disturb(crawl: Disturbed, site: Site, verdict: Verdict, *, kills: int, pages: int, seed: int) -> None:
    """Run the crawl to its end, killed `kills` times on the way."""
    chance = random.Random(seed)
    apart = pages / (kills + 1)
    crawl.start()
    verdict.runs += 1
    for _ in range(kills):
        if chance.random() < STARTS_HIT:
            at = time.monotonic() + chance.uniform(0, START_S)
            reached = lambda at=at: time.monotonic() >= at  # noqa: E731 - a moment, told by the clock
        else:
            most = len(site.requests) + chance.uniform(1, 2 * apart)
            reached = lambda most=most: len(site.requests) >= most  # noqa: E731 - or by the site's record
        if not crawl.wait(reached):
            break  # it had ended before
        time.sleep(chance.uniform(0, 0.05))
        victim = chance.choice(VICTIMS)
        workers = crawl.kill(victim, chance)
        verdict.kills[victim] = verdict.kills.get(victim, 0) + 1
        if victim == "worker":
            continue
        note_restart(crawl, verdict)
        # half of the restarts come while the old workers may still be ending: the lock is what makes them wait
        if chance.random() < 0.5:
            orphans_after(workers, verdict)
            workers = []
        crawl.start()
        verdict.runs += 1
        orphans_after(workers, verdict)
    crawl.wait(lambda: False)
    note_restart(crawl, verdict)


def note_restart(crawl: Disturbed, verdict: Verdict) -> None:
    """Note what the start of the run that ended cost."""
    cost_s = crawl.restart_s()
    if cost_s is None:
        return
    if not verdict.first_start_s:
        verdict.first_start_s = round(cost_s, 3)  # it has robots.txt to ask for, and no delay to wait
    else:
        verdict.restart_s.append(round(cost_s, 3))


def judge_output(output: Path, undisturbed: Path, verdict: Verdict) -> None:
    """Compare the two files, page by page."""
    wanted = {
        page["url"]: page["body_digest"] for page in map(json.loads, undisturbed.read_bytes().splitlines())
    }
    raw = output.read_bytes()
    verdict.torn += bool(raw) and not raw.endswith(b"\n")
    found: Counter[str] = Counter()
    for line in raw.splitlines():
        try:
            page = json.loads(line)
        except ValueError:
            verdict.torn += 1
            continue
        found[page["url"]] += 1
        verdict.changed += wanted.get(page["url"]) != page["body_digest"]
    verdict.pages = len(found)
    verdict.twice = sum(found.values()) - len(found)
    verdict.lost = len(wanted.keys() - found.keys())


def judge_state(state: Path, verdict: Verdict) -> None:
    """Check the database, and that the journal ends where the last transaction says."""
    with closing(sqlite3.connect(state / "state.sqlite")) as connection:
        (verdict.database,) = connection.execute("PRAGMA integrity_check").fetchone()
        segment, offset = connection.execute('SELECT segment, "offset" FROM crawl').fetchone()
    sizes = {int(file.stem): file.stat().st_size for file in (state / "journal").glob("*.pages")}
    last = max(sizes, default=0)
    if (last, sizes.get(last)) != (segment, offset):
        verdict.database = f"the journal ends at {last}:{sizes.get(last)}, committed is {segment}:{offset}"


def measure(
    folder: Path, *, kills: int, pages: int, hosts: int, delay_s: float, workers: int, seed: int
) -> Verdict:
    """Crawl a site undisturbed, then again with kills; return the verdict."""
    verdict = Verdict()
    with Site() as site:
        seeds = site.grow(hosts=hosts, pages=pages, foreign_links=1)
        calm = Disturbed(site, seeds, made(folder / "calm"), delay_s=delay_s, workers=workers)
        calm.start()
        calm.wait(lambda: False)
        if calm.process is None or calm.process.returncode:
            raise Stalled(f"the undisturbed crawl failed:\n{calm.log()}")
        site.forget()
        time.sleep(delay_s)  # to the site both crawls are one visitor
        crawl = Disturbed(site, seeds, made(folder / "disturbed"), delay_s=delay_s, workers=workers)
        try:
            disturb(crawl, site, verdict, kills=kills, pages=pages, seed=seed)
        finally:
            if crawl.process is not None and crawl.process.poll() is None:
                crawl.kill("all", random.Random(0))
        if crawl.process is None or crawl.process.returncode:
            raise Stalled(
                f"the last run ended with {crawl.process and crawl.process.returncode}:\n{crawl.log()}"
            )
        violations = site.violations(delay_s)
        for violation in violations[:20]:
            print(violation, file=sys.stderr)
        verdict.violations = len(violations)
        asked = Counter((seen.host, seen.target) for seen in site.requests)
        verdict.requests_again = asked.total() - len(asked)
    judge_output(crawl.output, calm.output, verdict)
    judge_state(crawl.state, verdict)
    return verdict


def made(folder: Path) -> Path:
    """Make the folder and return it."""
    folder.mkdir()
    return folder


def main() -> int:
    """Measure and print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--pages", type=int, default=2_000)
    parser.add_argument("--hosts", type=int, default=10)
    parser.add_argument("--delay", type=float, default=0.05)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="kept; by default one that is removed")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mannerly-kill-") as temporary:
        verdict = measure(
            arguments.folder or Path(temporary),
            kills=arguments.kills,
            pages=arguments.pages,
            hosts=arguments.hosts,
            delay_s=arguments.delay,
            workers=arguments.workers,
            seed=arguments.seed,
        )
    print(json.dumps({**asdict(verdict), "ok": verdict.ok}))
    return 0 if verdict.ok else 1


if __name__ == "__main__":
    sys.exit(main())
