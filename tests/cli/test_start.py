"""`--version` and `--help` are asked by scripts and by completion: they load no crawler."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SRC = Path(__file__).resolve().parents[2] / "src"

OURS = {
    "mannerly",
    "mannerly.cli",
    "mannerly.cli.main",
    "mannerly.model",
    "mannerly.model.errors",
    "mannerly.model.printable",
}
THEIRS = {"click"}
MOST = 110
"""Modules in all, the standard library's that click needs included (measured: 70 and 80)."""

SCRIPT = """
import sys
before = set(sys.modules)
sys.argv = ["mannerly", {option!r}]
from mannerly.cli.main import run
try:
    run()
except SystemExit as end:
    code = end.code
print(code, *sorted(set(sys.modules) - before), file=sys.stderr)
"""


@pytest.mark.slow
@pytest.mark.parametrize("option", ["--version", "--help"])
def test_version_and_help_import_no_more_than_a_listed_set(option: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(option=option)],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(SRC)},
        timeout=60,
        check=True,
    )
    code, *modules = done.stderr.split()
    outside = {name.partition(".")[0] for name in modules} - set(sys.stdlib_module_names)
    assert code == "0"
    assert done.stdout
    assert {name for name in modules if name.partition(".")[0] == "mannerly"} <= OURS
    assert outside - {"mannerly"} <= THEIRS
    assert not {"asyncio", "sqlite3", "ssl", "logging"} & set(modules)
    assert len(modules) <= MOST
