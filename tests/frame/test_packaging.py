"""What is installed is whole, and the versions in the lock are ones that the project accepts."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def locked() -> dict[str, str]:
    lines = (ROOT / "requirements-dev.lock").read_text(encoding="utf-8").splitlines()
    pairs = [re.fullmatch(r"([\w.-]+)==([\w.]+)", line) for line in lines if not line.startswith("#")]
    assert all(pairs), "the lock holds exact versions alone"
    return {canonicalize_name(pair[1]): pair[2] for pair in pairs if pair}


def test_lock_holds_an_accepted_version_of_every_dependency() -> None:
    versions = locked()
    for text in (*PROJECT["project"]["dependencies"], *PROJECT["dependency-groups"]["dev"]):
        wanted = Requirement(text)
        version = versions[canonicalize_name(wanted.name)]
        assert wanted.specifier.contains(version), f"{wanted} is locked at {version}"


def test_every_outside_import_is_a_dependency() -> None:
    names = {canonicalize_name(Requirement(text).name) for text in PROJECT["project"]["dependencies"]}
    provides = {"re2": "google-re2"}
    found = {
        name
        for path in (ROOT / "src").rglob("*.py")
        for name in re.findall(r"^\s*(?:from|import) (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
        if name not in sys.stdlib_module_names and name != "mannerly"
    }
    # a docstring's line may begin with these words, too: what cannot be imported is none
    missing = {name for name in found if canonicalize_name(provides.get(name, name)) not in names}
    assert not {name for name in missing if importable(name)}
    assert not names - {canonicalize_name(provides.get(name, name)) for name in found}


def importable(name: str) -> bool:
    return find_spec(name) is not None


@pytest.mark.slow
def test_wheel_holds_every_file_of_the_package(tmp_path: Path) -> None:
    pytest.importorskip("hatchling", reason="hatchling is not installed; ./check installs it")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=120)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    source = ROOT / "src"
    ours = {
        path.relative_to(source).as_posix()
        for path in (source / "mannerly").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert ours <= names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert {"mannerly/py.typed"} <= names
