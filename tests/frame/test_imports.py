"""Each import contract breaks on a planted violation: a contract that nothing can break guards nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LINT = Path(sys.executable).with_name("lint-imports")

# contract -> (module that is changed or made, line that breaks the contract)
PLANTED = [
    ("imports go down", "model/url.py", "import mannerly.policy.scope"),
    ("imports go down", "policy/scope.py", "import mannerly.extract.page"),
    ("imports go down", "ports.py", "import mannerly.store.sqlite"),
    ("imports go down", "sink/jsonl.py", "import mannerly.store.sqlite"),
    ("imports go down", "worker/perform.py", "import mannerly.coordinator.intake"),
    ("imports go down", "cli/main.py", "import mannerly.testing.site"),
    ("imports go down", "utils.py", "import re"),
    ("adapters are known to assemble only", "coordinator/settle.py", "import mannerly.store.sqlite"),
    ("adapters are known to assemble only", "cli/crawl.py", "import mannerly.sink.jsonl"),
    ("adapters are known to assemble only", "worker/perform.py", "import mannerly.transport.local"),
    ("adapters are known to assemble only", "coordinator/dispatch.py", "import mannerly.gate.memory"),
    ("only workers touch the web", "coordinator/dispatch.py", "import mannerly.net.resolve"),
    ("only workers touch the web", "cli/assemble/crawl.py", "import mannerly.net.fetch"),
    ("no cycles", "coordinator/hosts.py", "import mannerly.coordinator.service"),
    ("network libraries live in net", "worker/perform.py", "import pycurl"),
    ("network libraries live in net", "coordinator/addresses.py", "import aiodns"),
    ("the HTML library lives in extract", "worker/perform.py", "import turbohtml"),
    ("the database lives in store", "coordinator/settle.py", "import sqlite3"),
    ("terminal libraries live in cli", "coordinator/service.py", "import rich.console"),
    ("URL libraries live in model.url", "policy/scope.py", "import pslr"),
]

# invariant I6: what a decision may not reach for, each planted where decisions are made
PLANTED_I6 = [
    ("decisions do no I/O", "policy/politeness.py", "import time"),
    ("decisions do no I/O", "policy/frontier.py", "import asyncio"),
    ("decisions do no I/O", "policy/scope.py", "import socket"),
    ("decisions do no I/O", "policy/robots.py", "import threading"),
    ("decisions do no I/O", "model/task.py", "import random"),
    ("decisions do no I/O", "model/url.py", "import subprocess"),
    ("decisions do no I/O", "extract/page.py", "import logging"),
]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources and their contracts, for a test to spoil."""
    if not LINT.exists():
        pytest.skip(f"no lint-imports beside {sys.executable}")
    folder = tmp_path_factory.mktemp("tree")
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


def lint(tree: Path) -> tuple[int, str]:
    done = subprocess.run(
        [LINT, "--no-logo", "--cache-dir", tree / "cache"],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree / "src")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def assert_breaks(tree: Path, contract: str, module: str, line: str) -> None:
    """Plant a line in a module and see the contract break."""
    path = tree / "src" / "mannerly" / module
    before = path.read_text(encoding="utf-8") if path.exists() else None
    try:
        path.write_text(f"{before or ''}\n{line}\n", encoding="utf-8")
        code, text = lint(tree)
    finally:
        if before is None:
            path.unlink()
        else:
            path.write_text(before, encoding="utf-8")
    assert code == 1, text
    assert f"{contract} BROKEN" in text, text


@pytest.mark.slow
@pytest.mark.parametrize(("contract", "module", "line"), PLANTED, ids=lambda value: str(value)[:40])
def test_planted_violation_breaks_its_contract(tree: Path, contract: str, module: str, line: str) -> None:
    assert_breaks(tree, contract, module, line)


@pytest.mark.slow
@pytest.mark.parametrize(("contract", "module", "line"), PLANTED_I6, ids=lambda value: str(value)[:40])
def test_i6_decisions_reach_for_no_clock_chance_socket_or_log(
    tree: Path, contract: str, module: str, line: str
) -> None:
    assert_breaks(tree, contract, module, line)


def test_every_contract_has_a_planted_violation() -> None:
    raw = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    names = {contract["name"] for contract in raw["tool"]["importlinter"]["contracts"]}
    assert names == {contract for contract, _, _ in (*PLANTED, *PLANTED_I6)}
