from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec
import pytest

from mannerly.cli.main import UsageRefused
from mannerly.cli.reader import opened, state_folder, stored_config
from mannerly.model.config import Config, FetchConfig, PolitenessConfig
from mannerly.model.errors import ConfigRefused


def state(folder: Path, name: str) -> Path:
    made = folder / name
    made.mkdir()
    (made / "state.sqlite").touch()
    return made


def test_the_only_crawl_folder_here_is_meant(tmp_path: Path) -> None:
    wanted = state(tmp_path, "crawl-a.test")
    (tmp_path / "crawl-notes").mkdir()
    (tmp_path / "crawl-b.toml").touch()
    state(tmp_path, "crawl-a.test.old-20260101T000000Z")
    state(tmp_path, "crawl-a.test.old-20260101T000000Z-2")
    state(tmp_path, "other")
    assert state_folder(None, here=tmp_path) == wanted


def test_several_folders_are_named_and_none_is_guessed(tmp_path: Path) -> None:
    state(tmp_path, "crawl-a.test")
    state(tmp_path, "crawl-b\x1b.test")
    with pytest.raises(click.UsageError) as raised:
        state_folder(None, here=tmp_path)
    assert raised.value.exit_code == 2
    assert "2 state folders" in raised.value.message
    assert "crawl-a.test, crawl-b\\x1b.test" in raised.value.message


def test_many_folders_are_not_all_named(tmp_path: Path) -> None:
    for number in range(13):
        state(tmp_path, f"crawl-{number:02}.test")
    with pytest.raises(click.UsageError, match=r"crawl-09\.test and 3 more"):
        state_folder(None, here=tmp_path)


def test_no_folder_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageRefused) as raised:
        state_folder(None, here=tmp_path)
    assert raised.value.exit_code == 2
    assert "--state DIR" in raised.value.hint


@pytest.fixture
def nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Stand in tmp_path without the rights of root, if we have them: root may read everything."""
    us = os.geteuid()
    # the folders above are ours alone: names are looked up from here
    monkeypatch.chdir(tmp_path)
    if us == 0:
        os.chown(tmp_path, 65_534, -1)
        os.seteuid(65_534)
    yield
    os.seteuid(us)


@pytest.mark.usefixtures("nobody")
@pytest.mark.parametrize("named", [True, False])
def test_a_folder_that_may_not_be_read_is_refused_with_its_name(
    named: bool,
) -> None:
    folder = state(Path(), "crawl-a.test")
    folder.chmod(0)
    try:
        with pytest.raises(
            ConfigRefused, match=r"the folder crawl-a\.test cannot be read: Permission"
        ) as refused:
            state_folder("crawl-a.test" if named else None)
    finally:
        folder.chmod(0o700)
    assert "--state DIR" in refused.value.hint


@pytest.mark.usefixtures("nobody")
async def test_a_database_that_may_not_be_read_is_refused() -> None:
    folder = state(Path(), "crawl-a.test")
    (folder / "state.sqlite").chmod(0)
    with pytest.raises(ConfigRefused) as refused:
        async with opened(folder):
            pass
    assert refused.value.hint


def test_a_named_folder_without_a_state_is_refused_and_not_taken_for_a_verdict(tmp_path: Path) -> None:
    with pytest.raises(ConfigRefused, match=r"holds no state\.sqlite") as refused:
        state_folder(str(tmp_path))
    assert refused.value.exit_code == 78
    assert state_folder(str(state(tmp_path, "x"))) == tmp_path / "x"


@pytest.mark.parametrize("content", [b"not a database at all, but long enough to be looked at" * 20, b""])
async def test_a_file_that_is_no_state_is_refused(tmp_path: Path, content: bytes) -> None:
    folder = state(tmp_path, "crawl-x")
    (folder / "state.sqlite").write_bytes(content)
    with pytest.raises(ConfigRefused) as refused:
        async with opened(folder):
            pass
    assert refused.value.exit_code == 78
    assert refused.value.hint


def test_a_stored_configuration_is_read_without_the_secrets_that_were_left_out() -> None:
    config = Config(
        fetch=FetchConfig(ports=(9_000,), resolve=("*.test=127.0.0.1",)),
        politeness=PolitenessConfig(min_delay_s=2.0),
    )
    raw = msgspec.to_builtins(config)
    raw["fetch"]["headers"] = ["X-Key"]
    raw["fetch"]["proxy"] = True
    raw["a_key_of_a_later_version"] = 1
    assert stored_config(json.dumps(raw)) == config
