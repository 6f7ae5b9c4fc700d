"""The server of bad manners must be as bad as its table says, and the page in the docs must say the same."""

from __future__ import annotations

import gzip
import http.client
import os
import re
import signal
import socket
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

import brotli
import pytest
import zstandard

from mannerly.testing import bodies
from mannerly.testing.behaviours import BEHAVIOURS
from mannerly.testing.hostile import seeds_of, serve_hostile
from mannerly.testing.site import Site

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs" / "reference" / "hostile.md"


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with Site() as site:
        serve_hostile(site)
        yield site


def begins(site: Site, host: str, path: str = "/", *, most: int = 4_096) -> bytes:
    """What comes first, up to `most` bytes or the end, within two seconds; then the client is gone."""
    with socket.create_connection((site.address, site.port), timeout=2) as used:
        used.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        came = b""
        while len(came) < most:
            try:
                data = used.recv(most - len(came))
            except (TimeoutError, ConnectionResetError):
                break
            if not data:
                break
            came += data
        return came


def test_the_docs_hold_the_table() -> None:
    lines = [line for line in DOCS.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert cells[0] == ["name", "what the server does", "what a good crawler does"]
    assert cells[1:] == [
        [f"`{row.name}`", escaped(row.does), escaped(row.good)] for row in BEHAVIOURS.values()
    ]


def escaped(text: str) -> str:
    return re.sub(r"(<[^ ]+>)", r"`\1`", text)


def test_names_are_hosts() -> None:
    assert all(re.fullmatch(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?", name) for name in BEHAVIOURS)
    assert len({row.does for row in BEHAVIOURS.values()}) == len(BEHAVIOURS)


SILENT = {"no-answer", "reset", "closes"}
NO_STATUS_LINE = SILENT | {"garbage", "http-0.9", "drip-head", "garbage-status"}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(BEHAVIOURS) - {"no-answer"}))
def test_each_behaves_at_its_host_and_at_its_path(site: Site, name: str) -> None:
    for host, path in ((BEHAVIOURS[name].host, "/"), ("127.0.0.1", f"/{name}/")):
        came = begins(
            site, host, path, most=12 if name in {"headers-endless", "drip", "continues"} else 4_096
        )
        assert bool(came) == (name not in SILENT)
        assert came.startswith(b"HTTP/1.1 ") == (name not in NO_STATUS_LINE)


def test_the_address_lists_all(site: Site) -> None:
    listed = begins(site, "127.0.0.1", most=100_000).decode()
    assert re.findall(r'href="/([^"]+)/"', listed) == list(BEHAVIOURS)
    assert b" 404 " in begins(site, "127.0.0.1", "/none/")
    assert len(seeds_of(site)) == len(BEHAVIOURS)


@pytest.mark.slow
def test_a_body_of_a_gibibyte_is_not_held(site: Site) -> None:
    def resident_mib() -> int:
        return int(re.findall(r"VmRSS:\s+(\d+)", Path("/proc/self/status").read_text())[0]) // 1_024

    if not Path("/proc/self/status").exists():
        pytest.skip("the memory of a process is read from /proc")
    before = resident_mib()
    used = http.client.HTTPConnection(site.address, site.port, timeout=10)
    used.request("GET", "/", headers={"Host": "body-1gib.test"})
    response = used.getresponse()
    for _ in range(1_000):
        assert response.read(1 << 16)
    assert resident_mib() - before < 32
    response.close()
    used.close()


def test_codings_are_undone_by_others() -> None:
    page = [b"a" * 1_000, b"b" * 1_000]
    whole = b"".join(page)
    assert gzip.decompress(b"".join(bodies.coded("gzip", page))) == whole
    assert brotli.decompress(b"".join(bodies.coded("br", page))) == whole
    assert (
        zstandard.ZstdDecompressor().decompressobj().decompress(b"".join(bodies.coded("zstd", page))) == whole
    )


@pytest.mark.slow
def test_a_bomb_is_as_large_as_it_says() -> None:
    packed = b"".join(bodies.bomb("zstd"))
    assert len(packed) < 20_000
    reader = zstandard.ZstdDecompressor().stream_reader(packed)
    assert sum(iter(lambda: len(reader.read(1 << 20)), 0)) == bodies.BOMB_BYTES
    once = zlib.decompressobj(16 + zlib.MAX_WBITS).decompress(
        b"".join(bodies.bomb("gzip", "gzip", size_bytes=8 << 20))
    )
    assert zlib.decompress(once, 16 + zlib.MAX_WBITS) == bytes(8 << 20)


@pytest.mark.slow
def test_the_command_prints_the_table_and_serves() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "mannerly.testing", "hostile"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )
    assert process.stdout is not None
    try:
        lines: list[str] = []
        while not (lines and lines[-1].startswith("  curl ")):
            lines.append(process.stdout.readline())
            assert lines[-1], "it ended"
        text = "".join(lines)
        assert all(f"http://{row.host}:" in text and row.does in text for row in BEHAVIOURS.values())
        assert "mannerly crawl http://gzip-bomb.test:" in text
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 0
