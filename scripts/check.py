"""Pass every check of the project, or say what fails: format, lint, types, imports, tests by suite.

    ./check           everything; what CI runs
    ./check --fast    for developers: no tests marked `slow` or `outside`, all suites in one process

A suite is a folder of tests/. Each runs in a process of its own and a session of its own, so that a crash, a hang or
a process left behind is that suite's failure alone. Everything runs on throw-away folders: a crawl of the user's, its
locks and its settings are neither seen nor touched. What a step printed is in .check/STEP.log.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
BIN: Final = Path(sys.executable).parent
LOGS: Final = ROOT / ".check"
LIMIT_S: Final = 25 * 60.0
FAST_GOAL_S: Final = 60.0
NO_TESTS: Final = 5
"""pytest's exit code when nothing was collected, or all of it deselected."""

STATIC: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    ("format", ("ruff", "format", "--check")),
    ("lint", ("ruff", "check")),
    ("types", ("mypy",)),
    ("imports", ("lint-imports",)),
)
LAST: Final = ("cli", "wire", "outside")
"""Suites that run whole crawls come after those that say more precisely what is wrong."""


@dataclass(slots=True)
class Count:
    """Tests of one suite by how they ended, why some were skipped, and the figures that some recorded."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0
    reasons: Counter[str] = field(default_factory=Counter)
    measured: list[str] = field(default_factory=list)

    @property
    def ran(self) -> int:
        """Tests that were begun or skipped."""
        return self.passed + self.failed + self.skipped


@dataclass(frozen=True, slots=True)
class Step:
    """One command that ended. trouble: what went wrong, '' if nothing did. suites: tests by folder, if it ran any."""

    name: str
    seconds: float
    trouble: str = ""
    suites: Mapping[str, Count] = field(default_factory=dict)


class Runner:
    """Runs commands one after another within the time that is left, each in its own session and environment."""

    def __init__(self, *, deadline: float, scratch: Path, marks: str, profile: str) -> None:
        self._deadline = deadline
        self._scratch = scratch
        self._marks = marks
        self._profile = profile

    def static(self) -> list[Step]:
        """Run what reads the code without running it."""
        return [self._told(self._step(name, (str(BIN / words[0]), *words[1:]))) for name, words in STATIC]

    def suite(self, name: str, folders: Sequence[Path]) -> Step:
        """Run the tests of the folders in one pytest process."""
        report = self._scratch / f"{name}.xml"
        command = (
            *(sys.executable, "-m", "pytest", "-p", "no:cacheprovider"),
            *("--hypothesis-profile", self._profile, f"--junit-xml={report}", "-m", self._marks),
            *(str(folder.relative_to(ROOT)) for folder in folders),
        )
        return self._told(self._with_counts(self._step(name, command, ok=(0, NO_TESTS)), report))

    def _with_counts(self, step: Step, report: Path) -> Step:
        suites = read_report(report) if report.exists() else {}
        trouble = step.trouble
        failed = sum(count.failed for count in suites.values())
        if failed:
            trouble = f"{failed} failed"
        elif not trouble and not self._marks and not suites:
            trouble = "holds no test"
        if trouble and not failed:
            # it ended without saying which test was at fault: that counts as one
            suites = {**suites, step.name: suites.get(step.name, Count())}
            suites[step.name].failed += 1
        return Step(step.name, step.seconds, trouble, suites)

    def _step(self, name: str, command: Sequence[str], ok: tuple[int, ...] = (0,)) -> Step:
        began = time.monotonic()
        if began >= self._deadline:
            (LOGS / f"{name}.log").write_bytes(b"")
            return Step(name, 0.0, "not run: the time is up")
        with (LOGS / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=environment(self._scratch),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                code = process.wait(self._deadline - began)
                trouble = "" if code in ok else f"exit {code}"
            except subprocess.TimeoutExpired:
                trouble = f"stopped: over {LIMIT_S / 60:.0f} minutes in all"
            finally:
                end_session(process)
        return Step(name, time.monotonic() - began, trouble)

    def _told(self, step: Step) -> Step:
        if step.trouble:
            log = (LOGS / f"{step.name}.log").read_text(encoding="utf-8", errors="replace")
            print(f"\n{log.rstrip()}\n", flush=True)
        print(
            f"{'FAILED' if step.trouble else 'ok':7}{step.name:14}{step.seconds:7.1f} s  {step.trouble}",
            flush=True,
        )
        return step


def end_session(process: subprocess.Popen[bytes]) -> None:
    """End what is left of the process's session: nothing of a suite outlives it."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    except PermissionError:
        # macOS answers so for a group of zombies
        pass
    process.wait()


def environment(scratch: Path) -> dict[str, str]:
    """Return the environment of a step: our own locks and temporary folder, none of the user's settings.

    Tests start processes by the hundred: each would compile every module if the user wants no compiled ones kept.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if name == "MANNERLY_SHARED"
        or not (name.startswith(("MANNERLY_", "PYTEST_")) or name == "PYTHONDONTWRITEBYTECODE")
    }
    paths = (str(BIN), os.environ.get("PATH", ""))
    return {
        **kept,
        "PATH": os.pathsep.join(path for path in paths if path),
        "TMPDIR": str(scratch),
        "XDG_RUNTIME_DIR": str(scratch / "run"),
    }


def read_report(path: Path) -> dict[str, Count]:
    """Return the tests of a JUnit report by suite: the folder under tests/ in which they lie."""
    suites: dict[str, Count] = {}
    for case in ET.parse(path).getroot().iter("testcase"):
        words = case.get("classname", "").split(".")
        name = words[1] if len(words) > 1 else words[0] or case.get("name", "?").split(".")[1]
        count = suites.setdefault(name, Count())
        count.seconds += float(case.get("time", "0"))
        skipped = case.find("skipped")
        count.measured += [
            f"{case.get('name')}: {measured.get('name')} = {measured.get('value')}"
            for measured in case.iterfind("properties/property")
        ]
        if case.find("failure") is not None or case.find("error") is not None:
            count.failed += 1
        elif skipped is not None:
            count.skipped += 1
            count.reasons[skipped.get("message", "").removeprefix("Skipped: ")] += 1
        else:
            count.passed += 1
    return suites


def test_folders() -> Iterator[Path]:
    """Yield the folders of tests/ that hold tests; those of whole crawls last."""
    folders = {path for path in (ROOT / "tests").iterdir() if any(path.glob("**/test_*.py"))}
    yield from sorted(
        folders, key=lambda path: (LAST.index(path.name) + 1 if path.name in LAST else 0, path.name)
    )


def run_all(runner: Runner) -> list[Step]:
    """Run everything, one thing at a time: tests of pace want the machine for themselves."""
    return [*runner.static(), *(runner.suite(folder.name, [folder]) for folder in test_folders())]


def run_fast(runner: Runner) -> list[Step]:
    """Run the quick tests in one process, and beside them what only reads the code."""
    with ThreadPoolExecutor(1) as beside:
        static = beside.submit(runner.static)
        tests = runner.suite("tests", list(test_folders()))
        return [*static.result(), tests]


def summary(steps: Sequence[Step]) -> None:
    """Print seconds by step and suite, why tests were skipped, and the closing line alone on its line."""
    print(f"\n{'suite':14}{'seconds':>9}{'passed':>9}{'failed':>9}{'skipped':>9}")
    total = Count()
    for step in steps:
        if not step.suites:
            print(f"{step.name:14}{step.seconds:9.1f}{'':>27}{'  ' + step.trouble if step.trouble else ''}")
        for name, count in step.suites.items():
            seconds = step.seconds if len(step.suites) == 1 else count.seconds
            print(f"{name:14}{seconds:9.1f}{count.passed:9}{count.failed:9}{count.skipped:9}")
            total.passed += count.passed
            total.failed += count.failed
            total.skipped += count.skipped
            total.reasons += count.reasons
            total.measured += count.measured
    for figure in total.measured:
        print(f"MEASURED {figure}")
    for reason, number in total.reasons.most_common():
        print(f"SKIPPED {number}: {reason}")
    troubles = [f"{step.name} ({step.trouble})" for step in steps if step.trouble]
    if troubles:
        print("FAILED: " + ", ".join(troubles))
    print(f"{total.passed} passed, {total.failed} failed, {total.skipped} skipped", flush=True)


def main() -> int:
    """Run what the command line asks for; return 0 if all of it passed."""
    parser = argparse.ArgumentParser(prog="./check", description="Pass every check of the project.")
    parser.add_argument("--fast", action="store_true", help="leave out tests marked slow or outside")
    options = parser.parse_args()
    # ended from outside, end what we started, too
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    installed_s = float(os.environ.get("MANNERLY_CHECK_INSTALL_S", "0"))
    began = time.monotonic() - installed_s
    LOGS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="mannerly-check-", ignore_cleanup_errors=True) as name:
        scratch = Path(name)
        (scratch / "run").mkdir(mode=0o700)
        runner = Runner(
            deadline=began + LIMIT_S,
            scratch=scratch,
            marks="not slow and not outside" if options.fast else "",
            profile="dev" if options.fast else "ci",
        )
        steps = [Step("install", installed_s), *(run_fast(runner) if options.fast else run_all(runner))]
    elapsed_s = time.monotonic() - began
    tests = sum(count.ran for step in steps for count in step.suites.values())
    if not tests:
        steps.append(Step("tests", 0.0, "no test ran"))
    if elapsed_s > LIMIT_S:
        steps.append(Step("time", elapsed_s, f"over {LIMIT_S / 60:.0f} minutes"))
    summary(steps)
    print(f"{elapsed_s:.1f} s in all", file=sys.stderr)
    if options.fast and elapsed_s - installed_s > FAST_GOAL_S:
        print(f"note: --fast is meant to take under {FAST_GOAL_S:.0f} s", file=sys.stderr)
    return 1 if any(step.trouble for step in steps) else 0


if __name__ == "__main__":
    sys.exit(main())
