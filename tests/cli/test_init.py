from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mannerly.cli.annotated import COMMENTS, SECTIONS, annotated, toml_value
from mannerly.cli.init import command, write_new
from mannerly.model.config import Config, IdentityConfig, SelectConfig, from_mapping, known_keys
from mannerly.model.errors import ConfigRefused


def test_the_written_file_loads_to_the_defaults() -> None:
    assert from_mapping(tomllib.loads(annotated())) == Config()


def test_every_key_is_written_and_explained() -> None:
    raw = tomllib.loads(annotated())
    written = {
        f"{name}.{inner}" if isinstance(value, dict) else name
        for name, value in raw.items()
        for inner in (value if isinstance(value, dict) else [""])
    }
    assert written == set(known_keys()) == set(COMMENTS)
    assert set(SECTIONS) == {key.partition(".")[0] for key in known_keys() if "." in key}


def test_each_key_has_its_comment_right_above_it() -> None:
    lines = annotated().splitlines()
    keys = [at for at, line in enumerate(lines) if " = " in line and not line.startswith("#")]
    assert len(keys) == len(known_keys())
    assert all(lines[at - 1].startswith("# ") for at in keys)
    assert all(len(line) <= 120 for line in lines)


def test_other_values_than_the_defaults_survive_the_file() -> None:
    config = replace(
        Config(seeds=("https://a.test/",)),
        identity=IdentityConfig(contact='a"b\\c@x.test'),
        select=SelectConfig(fields={"title": "h1::text", "tags[]": 'a[rel="tag"]::text'}),
    )
    assert from_mapping(tomllib.loads(annotated(config))) == config


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (True, "true"),
        (0.5, "0.5"),
        (-1, "-1"),
        (268_435_456, "268_435_456"),
        ("a\nb", '"a\\U0000000ab"'),
        ((), "[]"),
        ((1, 2), "[1, 2]"),
        ({}, "{}"),
        ({"tags[]": "a"}, '{ "tags[]" = "a" }'),
    ],
)
def test_values_are_written_as_toml_reads_them(value: Any, written: str) -> None:
    assert toml_value(value) == written
    read = tomllib.loads(f"x = {written}")["x"]
    assert read == (list(value) if isinstance(value, tuple) else value)


def test_a_file_that_is_there_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "crawl.toml"
    path.write_text("mine")
    with pytest.raises(ConfigRefused, match="is there already") as refused:
        write_new(path, "theirs")
    assert refused.value.exit_code == 78
    assert "crawl-2.toml" in refused.value.hint
    assert path.read_text() == "mine"


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigRefused, match="cannot be written"):
        write_new(tmp_path / "no" / "crawl.toml", "x")


def test_init_writes_crawl_toml_here_and_a_dash_prints_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(command, []).exit_code == 0
    assert (tmp_path / "crawl.toml").read_text() == annotated()
    assert CliRunner().invoke(command, ["-"]).stdout == annotated()
