"""The command in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SRC = Path(__file__).resolve().parents[2] / "src"


class Command:
    """Runs `mannerly ARGUMENTS...` with a home, a runtime folder and compiled modules of its own."""

    def __init__(self, home: Path) -> None:
        home.chmod(0o700)
        self.home = home
        self.environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("MANNERLY_") and not name.lower().endswith("_proxy")
        } | {
            "HOME": str(home),
            "XDG_RUNTIME_DIR": str(home),
            "PYTHONPATH": str(SRC),
            "PYTHONPYCACHEPREFIX": str(home / "compiled"),
        }
        self.environment.pop("PYTHONDONTWRITEBYTECODE", None)

    def __call__(
        self, *arguments: str, cwd: Path | None = None, stdin: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Run to the end."""
        process = self.start(*arguments, cwd=cwd)
        try:
            out, err = process.communicate(stdin, timeout=120)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)

    def start(self, *arguments: str, cwd: Path | None = None) -> subprocess.Popen[str]:
        """Start, and do not wait."""
        return subprocess.Popen(
            [sys.executable, "-m", "mannerly", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            cwd=cwd or self.home,
            env=self.environment,
        )


@pytest.fixture(scope="session")
def mannerly(tmp_path_factory: pytest.TempPathFactory) -> Command:
    """Run the command; see Command."""
    return Command(tmp_path_factory.mktemp("home"))
