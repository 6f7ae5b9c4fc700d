"""Unpack real documentation sites from Debian's documentation packages.

    python -m bench.corpus.setup --dir DIR [--sites python,rust]

Packages are fetched with `apt-get download` and unpacked under DIR/<site>; nothing is installed and nothing
outside DIR is written. Symbolic links that leave the site's own tree are dropped: they would point into this
machine. DIR/sites.json then says for each site its folder and seeds; `serve.py` reads it.
A site whose package this Debian release does not have is named and left out. Written for Debian 12.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

HTML_SUFFIXES = (".html", ".htm", ".xhtml")


@dataclass(frozen=True, slots=True)
class Source:
    """Where a site comes from: its package and the folder in it that becomes the root of the site.

    `seeds` is a glob below that folder, for sites that have no index.html near their root.
    """

    name: str
    package: str
    folder: str
    seeds: str = ""


SOURCES = (
    Source("apache", "apache2-doc", "usr/share/doc/apache2-doc/manual"),
    Source("boost", "libboost1.81-doc", "usr/share/doc/libboost1.81-doc", "doc/html/index.html"),
    Source("cppreference", "cppreference-doc-en-html", "usr/share/cppreference/doc/html"),
    Source("django", "python-django-doc", "usr/share/doc/python-django-doc/html"),
    Source("eigen", "libeigen3-doc", "usr/share/doc/libeigen3-dev/html"),
    Source("erlang", "erlang-doc", "usr/share/doc/erlang-doc"),
    Source("ghc", "ghc-doc", "usr/share/doc/ghc-doc/html"),
    Source("git", "git-doc", "usr/share/doc/git-doc"),
    Source("glib", "libglib2.0-doc", "usr/share/gtk-doc/html"),
    Source("gtk3", "libgtk-3-doc", "usr/share/gtk-doc/html"),
    Source("gtk4", "libgtk-4-doc", "usr/share/doc/libgtk-4-doc"),
    Source("handbook", "debian-handbook", "usr/share/doc/debian-handbook/html"),
    Source("installguide", "installation-guide-amd64", "usr/share/doc/installation-guide-amd64"),
    Source("kicad", "kicad-doc-en", "usr/share/doc/kicad/help/en"),
    Source("libstdcxx", "libstdc++-12-doc", "usr/share/doc/gcc-12-base/libstdc++"),
    Source("llvm", "llvm-14-doc", "usr/share/doc/llvm-14-doc/html"),
    Source("nodejs", "nodejs-doc", "usr/share/doc/nodejs/api"),
    Source("octave", "octave-doc", "usr/share/doc/octave"),
    Source("openjdk", "openjdk-17-doc", "usr/share/doc/openjdk-17-jre-headless/api"),
    Source("pandas", "python-pandas-doc", "usr/share/doc/python-pandas-doc/html"),
    Source("postgresql", "postgresql-doc-15", "usr/share/doc/postgresql-doc-15/html"),
    Source("python", "python3.11-doc", "usr/share/doc/python3.11/html"),
    Source("qt", "qtbase5-doc-html", "usr/share/qt5/doc", "*/*-index.html"),
    Source("rust", "rust-doc", "usr/share/doc/rust-doc/html"),
    Source("scipy", "python-scipy-doc", "usr/share/doc/python-scipy-doc/html"),
    Source("sqlalchemy", "python-sqlalchemy-doc", "usr/share/doc/python-sqlalchemy-doc/html"),
    Source("sqlite", "sqlite3-doc", "usr/share/doc/sqlite3"),
    Source("sympy", "python-sympy-doc", "usr/share/doc/python-sympy-doc/html"),
    Source("wxwidgets", "wx3.2-doc", "usr/share/doc/wx3.2-doc/html"),
)


@dataclass(frozen=True, slots=True)
class Site:
    """One unpacked site: `seeds` are paths that begin with /, `folder` is relative to the corpus folder."""

    name: str
    package: str
    folder: str
    seeds: list[str]
    files: int
    html_files: int
    total_bytes: int


class CorpusError(Exception):
    """A package cannot be had, or does not hold what the table says."""


def unpack(source: Source, corpus: Path) -> Path:
    """Fetch and unpack the package of `source`; what stood in its folder before is replaced."""
    tree = corpus / source.name
    with tempfile.TemporaryDirectory(prefix="corpus-deb-") as name:
        # apt drops to the user _apt for the download; where it may not write it says so and goes on as root.
        fetched = subprocess.run(
            ["apt-get", "download", "-qq", source.package], cwd=name, capture_output=True, text=True
        )
        debs = sorted(Path(name).glob("*.deb"))
        if fetched.returncode != 0 or not debs:
            raise CorpusError(f"{source.package}: {fetched.stderr.strip() or 'no such package'}")
        if tree.exists():
            shutil.rmtree(tree)
        tree.mkdir(parents=True)
        subprocess.run(["dpkg-deb", "-x", str(debs[0]), str(tree)], check=True)
    return tree


def cut_links_that_leave(tree: Path) -> int:
    """Remove symbolic links whose target is not inside `tree` (or nowhere); returns how many."""
    inside = tree.resolve()
    cut = 0
    for folder, folders, files in os.walk(tree):
        for name in (*folders, *files):
            path = Path(folder, name)
            if path.is_symlink() and not (path.exists() and path.resolve().is_relative_to(inside)):
                path.unlink()
                cut += 1
    return cut


def seeds_of(root: Path, pattern: str) -> list[str]:
    """Paths a walk of `root` starts from: the glob's hits, else the index files nearest to the root."""
    if pattern:
        return sorted("/" + path.relative_to(root).as_posix() for path in root.glob(pattern))
    level = "index.html"
    for _ in range(4):
        found = sorted(path.parent.relative_to(root).as_posix() for path in root.glob(level))
        if found:
            return ["/" if path == "." else f"/{path}/" for path in found]
        level = f"*/{level}"
    return sorted(f"/{path.name}" for path in root.glob("*.html"))


def survey(source: Source, corpus: Path) -> Site:
    """Count what `source` has given and find its seeds."""
    root = corpus / source.name / source.folder
    seeds = seeds_of(root, source.seeds) if root.is_dir() else []
    if not seeds:
        raise CorpusError(f"{source.package}: {source.folder} has no page to start from")
    files = html_files = total_bytes = 0
    for path in root.rglob("*"):
        if path.is_file():
            files += 1
            total_bytes += path.stat().st_size
            html_files += path.suffix.lower() in HTML_SUFFIXES
    return Site(
        name=source.name,
        package=source.package,
        folder=f"{source.name}/{source.folder}",
        seeds=seeds,
        files=files,
        html_files=html_files,
        total_bytes=total_bytes,
    )


def print_table(sites: list[Site]) -> None:
    print(f"{'site':<14}{'package':<28}{'files':>9}{'html':>9}{'MB':>9}  seeds")
    for site in sites:
        first = site.seeds[0] + (f" and {len(site.seeds) - 1} more" if len(site.seeds) > 1 else "")
        print(
            f"{site.name:<14}{site.package:<28}{site.files:>9,}{site.html_files:>9,}"
            f"{site.total_bytes / 1e6:>9,.1f}  {first}"
        )
    files, html_files = sum(site.files for site in sites), sum(site.html_files for site in sites)
    total = sum(site.total_bytes for site in sites) / 1e6
    print(f"{f'{len(sites)} sites':<42}{files:>9,}{html_files:>9,}{total:>9,.1f}")


def known_sites(corpus: Path) -> dict[str, Site]:
    """What an earlier run has left in sites.json."""
    index = corpus / "sites.json"
    if not index.exists():
        return {}
    return {row["name"]: Site(**row) for row in json.loads(index.read_text(encoding="utf-8"))}


def main() -> int:
    parser = argparse.ArgumentParser(description="Unpack real documentation sites from Debian packages.")
    parser.add_argument("--dir", type=Path, required=True, help="where the sites go (about 3.5 GB for all)")
    parser.add_argument("--sites", default="", help="comma-separated names; default: all")
    parser.add_argument("--refresh", action="store_true", help="unpack again what is there already")
    options = parser.parse_args()

    names = {source.name for source in SOURCES}
    wanted = set(filter(None, options.sites.split(","))) or names
    if unknown := wanted - names:
        parser.error(f"no such site: {', '.join(sorted(unknown))} (there are {', '.join(sorted(names))})")
    corpus: Path = options.dir.resolve()
    corpus.mkdir(parents=True, exist_ok=True)
    sites = {} if options.refresh else known_sites(corpus)
    failed = 0
    for source in SOURCES:
        if source.name not in wanted or source.name in sites:
            continue
        try:
            cut = cut_links_that_leave(unpack(source, corpus))
            sites[source.name] = survey(source, corpus)
        except CorpusError as error:
            print(f"left out: {error}", file=sys.stderr)
            failed += 1
            continue
        print(f"{source.name}: unpacked, {cut} links that leave the tree removed", file=sys.stderr)
    ordered = sorted(sites.values(), key=lambda site: site.name)
    (corpus / "sites.json").write_text(
        json.dumps([asdict(site) for site in ordered], indent=1) + "\n", encoding="utf-8"
    )
    print_table(ordered)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
