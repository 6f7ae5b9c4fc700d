"""What is typed, and what of it is refused before anything begins."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mannerly.cli.crawl import until_text
from mannerly.cli.log import start_log
from mannerly.cli.main import main
from mannerly.cli.progress import wait_text
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
        ("--delay", "1e308"),
        ("--delay", "nan"),
        ("--delay", "86401"),
        ("--patience", "1e308"),
        ("--max-time", "1e10"),
        ("--max-time", "inf"),
        ("--max-pages", "9" * 30),
        ("--per-host", "9" * 30),
        ("--select", "a=h1", "--select", "a=h2"),
        ("--select", "a=h1", "--select", "a[]=h2"),
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
    for name in (tmp_path, tmp_path / "file" / "below", tmp_path / "none" / "below"):
        with pytest.raises(ConfigRefused, match="cannot be written"):
            start_log(verbose=False, quiet=True, file=str(name))
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("at", [1e12, 1e300, float("inf")])
def test_an_instant_that_no_calendar_holds_is_told_all_the_same(at: float) -> None:
    assert until_text(at) == " for years"
    assert len(wait_text(at)) < 20


def test_an_instant_is_told_in_utc_and_none_for_what_is_due() -> None:
    assert until_text(0.0) == ""
    assert until_text(1_800_000_000.0) == " until 2027-01-15 08:00:00Z"
