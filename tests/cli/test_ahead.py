"""What is refused before anything is made or moved, in a dry run as in a real one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

from mannerly.cli.ahead import anew
from mannerly.cli.job import job_of
from mannerly.cli.main import main
from mannerly.model.config import Config, FetchConfig, OutputConfig
from mannerly.model.errors import ConfigRefused

if TYPE_CHECKING:
    from tests.cli.conftest import Command

SEED = ("http://127.0.0.1/", "--allow-private-addresses")
BOTH = pytest.mark.parametrize("dry", [("--dry-run",), ()], ids=["dry", "real"])


def crawl(*typed: str, stdin: bytes = b"") -> Result:
    """Run the command in this process; what it raises stands in `exception`."""
    return CliRunner().invoke(main, ["crawl", *typed], input=stdin, standalone_mode=False)


def refusal(*typed: str, stdin: bytes = b"") -> ConfigRefused:
    """Return the refusal of a command that would have had to crawl otherwise."""
    done = crawl(*typed, stdin=stdin)
    assert isinstance(done.exception, ConfigRefused), (done.exception, done.output)
    assert done.exception.exit_code == 78
    assert done.exception.hint
    return done.exception


def used(*typed: str, stdin: bytes = b"") -> dict[str, object]:
    """Return the configuration that a dry run prints."""
    done = crawl(*typed, "--dry-run", stdin=stdin)
    assert done.exception is None, done.exception
    configuration: dict[str, object] = json.loads(done.stdout.splitlines()[0])
    return configuration


@BOTH
@pytest.mark.parametrize(
    ("option", "name", "says"),
    [
        ("-o", "folder", "is a folder"),
        ("-o", "missing/pages.jsonl", "there is no folder"),
        ("-o", "file/pages.jsonl", "there is no folder"),
        ("-o", "file", "did not write"),
        ("-o", "/dev/fd/987654", "is closed"),
        ("--state", "file", "it is no folder"),
        ("--state", "file/below/it", "is no folder"),
        ("--log-file", "folder", "it is a folder"),
        ("--log-file", "missing/log", "there is no folder"),
    ],
)
def test_where_nothing_can_be_written_nothing_is_made(
    option: str, name: str, says: str, dry: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("mine")
    assert says in str(refusal(*SEED, option, name, *dry))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]


@BOTH
def test_fresh_moves_no_state_while_its_output_file_stands_in_the_way(
    dry: tuple[str, ...], tmp_path: Path
) -> None:
    state, pages = tmp_path / "state", tmp_path / "pages.jsonl"
    state.mkdir()
    (state / "state.sqlite").touch()
    pages.write_text("{}\n")
    refused = refusal(*SEED, "--fresh", "--state", str(state), "-o", str(pages), *dry)
    assert "--overwrite" in refused.hint
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pages.jsonl", "state"]


def test_fresh_moves_no_folder_that_holds_no_crawl(tmp_path: Path) -> None:
    (tmp_path / "letter").touch()
    assert "holds no crawl" in str(refusal(*SEED, "--fresh", "--state", str(tmp_path)))
    assert [path.name for path in tmp_path.iterdir()] == ["letter"]


def test_a_dry_run_prints_the_seeds_it_would_use_and_no_password() -> None:
    configuration = used(*SEED, "--proxy", "http://me:secret@127.0.0.1:3128")
    assert configuration["seeds"] == ["http://127.0.0.1/"]
    assert "secret" not in json.dumps(configuration)
    fetch = configuration["fetch"]
    assert isinstance(fetch, dict)
    assert "127.0.0.1:3128" in fetch["proxy"]


@pytest.mark.parametrize("on_stdin", [True, False], ids=["stdin", "file"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["plain", "byte order mark"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"], ids=["LF", "CRLF"])
def test_seeds_are_read_as_editors_write_them(
    mark: bytes, end: bytes, on_stdin: bool, tmp_path: Path
) -> None:
    content = mark + end.join([b"http://127.0.0.1/", b"# none", b"", b"http://127.0.0.2/", b""])
    file = tmp_path / "seeds.txt"
    file.write_bytes(content)
    typed = ("-i", "-" if on_stdin else str(file), "--allow-private-addresses")
    seeds = used(*typed, stdin=content if on_stdin else b"")["seeds"]
    assert seeds == ["http://127.0.0.1/", "http://127.0.0.2/"]


def test_a_configuration_is_read_as_editors_write_it(tmp_path: Path) -> None:
    file = tmp_path / "crawl.toml"
    file.write_bytes(b"\xef\xbb\xbf[budget]\r\nmax_pages = 7\r\n")
    budget = used(*SEED, "--config", str(file))["budget"]
    assert isinstance(budget, dict)
    assert budget["max_pages"] == 7


@pytest.mark.parametrize("content", [b"http://a.test/\0\n", b"\xff\xfe", b"\x7fELF\x02\xf0("])
def test_a_seed_file_that_is_no_text_is_refused(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "seeds"
    file.write_bytes(content)
    for typed, stdin in ((str(file), b""), ("-", content)):
        assert "it is no text" in str(refusal("-i", typed, stdin=stdin))


def test_seeds_that_are_nowhere_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "No such file" in str(refusal("-i", str(tmp_path / "none")))
    from mannerly.cli.crawl import read_seed_file

    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(ConfigRefused, match="stdin cannot be read: it is closed"):
        read_seed_file("-")


def test_how_to_begin_anew_names_what_the_output_file_needs() -> None:
    for file, options in (("-", "--fresh"), ("pages.jsonl", "--fresh --overwrite")):
        config = Config(output=OutputConfig(file=file), fetch=FetchConfig(allow_private_addresses=True))
        assert anew(job_of(config, [SEED[0]], now=0.0)) == options


@pytest.mark.slow
def test_a_stdout_that_is_closed_is_refused_before_anything_is_made(
    mannerly: Command, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    command = [sys.executable, "-m", "mannerly", "crawl", *SEED, "--state", str(state)]
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", *command],
        stderr=subprocess.PIPE,
        text=True,
        env=mannerly.environment,
        timeout=60,
        check=False,
    )
    assert done.returncode == 78
    assert "error: stdout is closed\nhint: " in done.stderr
    assert not state.exists()
