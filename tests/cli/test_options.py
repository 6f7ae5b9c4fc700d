"""What is typed, and what of it is refused before anything begins."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mannerly.cli.log import start_log
from mannerly.cli.main import main
from mannerly.model.errors import ConfigRefused

SEED = ("http://127.0.0.1/", "--allow-private-addresses")


def dry_run(*typed: str) -> dict[str, Any]:
    """Return the configuration that a crawl would have; raise what it raises."""
    done = CliRunner().invoke(main, ["crawl", *SEED, "--dry-run", *typed], standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    configuration: dict[str, Any] = json.loads(done.stdout.splitlines()[0])
    return configuration


@pytest.mark.parametrize(
    ("typed", "section", "name"),
    [
        ("--max-pages", "budget", "max_pages"),
        ("--max-time", "budget", "max_time_s"),
        ("--max-depth", "budget", "max_depth"),
        ("--patience", "politeness", "patience_s"),
        ("--workers", "workers", "workers"),
    ],
)
def test_a_nought_that_is_typed_overrides_the_file(
    typed: str, section: str, name: str, tmp_path: Path
) -> None:
    file = tmp_path / "crawl.toml"
    file.write_text(f"[{section}]\n{name} = 7\n")
    assert dry_run("--config", str(file))[section][name] == 7
    assert dry_run("--config", str(file), typed, "0")[section][name] == 0


@pytest.mark.parametrize(
    "typed",
    [
        ("--timeout", "0"),
        ("--timeout", "100000"),
        ("--per-host", "0"),
        ("--concurrency", "0"),
        ("--concurrency", "100000"),
        ("--workers", "1000"),
        ("--max-body", "4GiB"),
        tuple(word for n in range(33) for word in ("--header", f"X-{n}: x")),
        tuple(word for n in range(257) for word in ("--select", f"f{n}=h1")),
    ],
    ids=lambda typed: " ".join(typed)[:30],
)
def test_what_no_worker_could_be_told_is_refused(typed: tuple[str, ...]) -> None:
    with pytest.raises(ConfigRefused) as refused:
        dry_run(*typed)
    assert refused.value.hint


def test_a_log_file_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name in (tmp_path, tmp_path / "file" / "below"):
        with pytest.raises(ConfigRefused, match="cannot be written"):
            start_log(verbose=False, quiet=True, file=str(name))
