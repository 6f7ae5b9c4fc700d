"""What the corpus scripts decide, on folders made here; no package is fetched and no server started."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def setup(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("bench.corpus.setup")


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("bench.corpus.serve")


def tree(folder: Path, *files: str) -> Path:
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")
    return folder


@pytest.mark.parametrize(
    ("files", "pattern", "seeds"),
    [
        (["index.html", "en/index.html"], "", ["/"]),
        (["en/index.html", "de/index.html", "de/deep/index.html"], "", ["/de/", "/en/"]),
        (["b.html", "a.html", "image.png"], "", ["/a.html", "/b.html"]),
        (
            ["core/core-index.html", "gui/gui-index.html"],
            "*/*-index.html",
            ["/core/core-index.html", "/gui/gui-index.html"],
        ),
        (["image.png"], "", []),
    ],
)
def test_a_site_is_entered_at_the_index_nearest_to_its_root(
    setup: ModuleType, tmp_path: Path, files: list[str], pattern: str, seeds: list[str]
) -> None:
    assert setup.seeds_of(tree(tmp_path, *files), pattern) == seeds


def test_links_that_leave_the_tree_are_cut_and_others_kept(setup: ModuleType, tmp_path: Path) -> None:
    inside = tree(tmp_path / "site", "page.html", "folder/other.html")
    tree(tmp_path, "secret.txt")
    (inside / "near").symlink_to("page.html")
    (inside / "near-folder").symlink_to("folder")
    (inside / "far").symlink_to(tmp_path / "secret.txt")
    (inside / "up").symlink_to("../secret.txt")
    (inside / "up-folder").symlink_to("..")
    (inside / "nowhere").symlink_to("/usr/share/javascript/no-such-script.js")
    assert setup.cut_links_that_leave(inside) == 4
    assert sorted(path.name for path in inside.iterdir()) == ["folder", "near", "near-folder", "page.html"]


def test_every_prefix_of_a_site_serves_it_and_no_other_name_does(serve: ModuleType, tmp_path: Path) -> None:
    text = serve.configuration(
        tmp_path, [{"name": "rust", "folder": "rust/html"}], address="127.0.0.1", port=8123, log=None
    )
    found = re.search(r"server_name ~(\S+);", text)
    assert found is not None
    for host, served in (
        ("rust.test", True),
        ("h0001.rust.test", True),
        ("trust.test", False),
        ("rust.test.x", False),
    ):
        assert bool(re.search(found[1], host)) is served
    assert f'root "{tmp_path}/rust/html";' in text
    assert text.count("{") == text.count("}")
