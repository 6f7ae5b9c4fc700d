"""The last line of defence: a fault of ours is one line and a hint, never a traceback."""

from __future__ import annotations

import sys

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
