"""./check fails when it should: a failing test, a crash, a hang, a suite without tests, nothing run at all."""

from __future__ import annotations

import importlib.util
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PASSES = "def test_passes():\n    pass\n"
MEASURES = "def test_measures(record_property):\n    record_property('pace', 3)\n"
FAILS = "def test_fails():\n    assert False\n"
SKIPS = "import pytest\ndef test_skips():\n    pytest.skip('no data')\n"


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script, set on a project of its own."""
    spec = importlib.util.spec_from_file_location("check_script", ROOT / "scripts" / "check.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "check_script", module)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "LOGS", tmp_path / "logs")
    (tmp_path / "logs").mkdir()
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\njunit_family = xunit1\nmarkers =\n    slow: slow\naddopts = --import-mode=importlib\n"
    )
    return module


def suite(tmp_path: Path, name: str, text: str) -> Path:
    folder = tmp_path / "tests" / name
    folder.mkdir(parents=True)
    (folder / f"test_{name}.py").write_text(text)
    return folder


def run(check: ModuleType, tmp_path: Path, text: str, *, seconds: float = 60.0, marks: str = "") -> Any:
    """Run one suite that holds `text`; return its step."""
    folder = suite(tmp_path, "one", text)
    runner = check.Runner(
        deadline=time.monotonic() + seconds, scratch=tmp_path, marks=marks, profile="default"
    )
    return runner.suite("one", [folder])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "marks", "trouble", "counts"),
    [
        (MEASURES + FAILS + SKIPS, "", "1 failed", (1, 1, 1)),
        ("import nothing_of_this_name\n", "", "1 failed", (0, 1, 0)),
        ("import os\ndef test_crashes():\n    os._exit(7)\n", "", "exit 7", (0, 1, 0)),
        ("import os\ndef test_claims_success():\n    os._exit(0)\n", "", "holds no test", (0, 1, 0)),
        ("import pytest\n@pytest.mark.slow\n" + PASSES, "not slow", "", (0, 0, 0)),
    ],
    ids=["one of each", "broken", "crashes", "ends early", "all deselected"],
)
def test_suite_is_judged_by_what_its_tests_came_to(
    check: ModuleType, tmp_path: Path, text: str, marks: str, trouble: str, counts: tuple[int, int, int]
) -> None:
    step = run(check, tmp_path, text, marks=marks)
    total = [0, 0, 0]
    for count in step.suites.values():
        total = [total[0] + count.passed, total[1] + count.failed, total[2] + count.skipped]
    assert (step.trouble, tuple(total)) == (trouble, counts)
    measured = [figure for count in step.suites.values() for figure in count.measured]
    assert measured == (["test_measures: pace = 3"] if MEASURES in text else [])


@pytest.mark.slow
def test_suite_that_hangs_is_ended_when_the_time_is_up(check: ModuleType, tmp_path: Path) -> None:
    began = time.monotonic()
    step = run(check, tmp_path, "import time\ndef test_hangs():\n    time.sleep(60)\n", seconds=2.0)
    assert step.trouble.startswith("stopped")
    assert time.monotonic() - began < 30


def test_nothing_is_begun_when_the_time_is_up(check: ModuleType, tmp_path: Path) -> None:
    step = run(check, tmp_path, PASSES, seconds=-1.0)
    assert step.trouble == "not run: the time is up"


def test_closing_line_stands_alone_and_skips_and_figures_are_told(
    check: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    count = check.Count(
        passed=3,
        failed=1,
        skipped=2,
        reasons=check.Counter({"no data": 2}),
        measured=["test_pace: share = 0.97"],
    )
    check.summary(
        [check.Step("lint", 1.0, "exit 1"), check.Step("policy", 2.0, "1 failed", {"policy": count})]
    )
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "3 passed, 1 failed, 2 skipped"
    assert "SKIPPED 2: no data" in lines
    assert "MEASURED test_pace: share = 0.97" in lines
    assert "FAILED: lint (exit 1), policy (1 failed)" in lines


def test_environment_holds_none_of_the_users_settings(
    check: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MANNERLY_CONTACT", "somebody@example.org")
    monkeypatch.setenv("MANNERLY_SHARED", "data")
    monkeypatch.setenv("XDG_RUNTIME_DIR", "theirs")
    made = check.environment(tmp_path)
    assert "MANNERLY_CONTACT" not in made
    assert made["MANNERLY_SHARED"] == "data"
    assert made["XDG_RUNTIME_DIR"] == str(tmp_path / "run")
