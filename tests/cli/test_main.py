"""The last line of defence: a fault of ours is one line and a hint, never a traceback."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mannerly.cli import main


def test_a_fault_of_ours_is_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(**_options: object) -> int:
        raise ExceptionGroup("tasks", [ExceptionGroup("inner", [ZeroDivisionError("division by zero")])])

    monkeypatch.setattr(main.main, "main", fail)
    monkeypatch.setattr(sys, "argv", ["mannerly", "crawl"])
    with pytest.raises(SystemExit) as left:
        main.run()
    told = capsys.readouterr().err
    assert left.value.code == 1
    assert told.startswith("error: a fault of mannerly's own: ZeroDivisionError: division by zero\nhint: ")
    assert "Traceback" not in told


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int | str | None:
    monkeypatch.setattr(sys, "argv", ["/somewhere/__main__.py", *arguments])
    with pytest.raises(SystemExit) as left:
        main.run()
    return left.value.code


@pytest.mark.parametrize(
    ("arguments", "said", "hint"),
    [
        (["report", "--jsn"], "no such option '--jsn'. Did you mean '--json'?", "mannerly report --help"),
        (["why"], "missing argument 'URL'", "mannerly why --help"),
        (["wyh"], "no such command 'wyh'", "mannerly --help"),
        (["why", "", "--state", "x"], "the URL is empty", "mannerly why URL"),
        (["why", "http://a.test/"], "there is no crawl-* folder here", "--state DIR"),
        (["report"], "there is no crawl-* folder here", "--state DIR"),
    ],
)
def test_a_wrong_command_line_is_told_as_every_other_error(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    arguments: list[str],
    said: str,
    hint: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(monkeypatch, *arguments) == 2
    out, err = capsys.readouterr()
    first, second = err.splitlines()
    assert out == ""
    assert first.startswith(f"error: {said}")
    assert second.startswith(f"hint: {hint}")


def test_the_command_is_called_mannerly_however_it_is_started(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "report", "--help") == 0
    assert capsys.readouterr().out.startswith("Usage: mannerly report ")


def test_the_bare_command_shows_its_help_and_ends_as_usage(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("Usage: mannerly ")
    assert "error:" not in err
    assert "tell why a URL was or was not fetched" in err
