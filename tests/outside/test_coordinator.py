"""The coordinator's process while it crawls: what it does not do itself."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mannerly.testing.site import Site

if TYPE_CHECKING:
    from tests.outside.conftest import Crawl, NameServer

pytestmark = [pytest.mark.outside, pytest.mark.slow]

# Runs what follows its first argument with every socket and look-up of this process written down there. A library in C
# can open a socket unseen by the hook, so those that do are named if they were loaded at all.
WATCH = """
import json, socket, sys
report, sys.argv = sys.argv[1], sys.argv[2:]
seen = []
internet = (socket.AF_INET, socket.AF_INET6)

def watch(event, arguments):
    if event == "socket.__new__" and arguments[1] in internet:
        seen.append(event)
    elif event in ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr", "socket.getnameinfo"):
        seen.append(event)
    elif event in ("socket.connect", "socket.bind", "socket.sendto") and arguments[0].family in internet:
        seen.append(event)

sys.addaudithook(watch)
try:
    {body}
finally:
    loaded = [name for name in ("pycurl", "aiodns", "pycares", "mannerly.net.fetch") if name in sys.modules]
    with open(report, "w") as file:
        json.dump({"seen": seen, "loaded": loaded}, file)
"""
CRAWL = "from mannerly.cli.main import run; run()"
PLANTED = "import pycurl; socket.create_connection(('127.0.0.1', int(sys.argv[1])))"


def watched(body: str, folder: Path, *arguments: str, **how: object) -> dict[str, list[str]]:
    """Run `body` in a process of its own; return what it did, once it ended well."""
    report = folder / "report.json"
    text = WATCH.replace("{body}", body)
    done = subprocess.run(
        [sys.executable, "-c", text, str(report), *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        **how,  # type: ignore[call-overload]
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, list[str]] = json.loads(report.read_text())
    return found


def test_i11_the_coordinator_opens_no_socket_and_looks_up_no_name(
    site: Site, crawl: Crawl, name_server: NameServer, tmp_path: Path
) -> None:
    site.page("a.test", "/", '<a href="/b">b</a>')
    site.page("a.test", "/b", "b")
    typed = [
        *(site.url("a.test"), f"http://nosuch.example.com:{site.port}/", "--contact", "crawl@example.org"),
        *crawl.configuration(f'[fetch]\nnameservers = ["127.0.0.1:{name_server.port}"]\n'),
    ]
    _, _, _, *arguments = crawl.arguments(site, *typed)
    did = watched(CRAWL, tmp_path, "mannerly", *arguments, env=crawl.environment(), cwd=crawl.folder)
    # all of it was done, by others
    assert set(site.paths("a.test")) == {"/robots.txt", "/", "/b"}
    assert "nosuch.example.com" in name_server.asked
    assert did == {"seen": [], "loaded": []}


def test_i11_a_socket_of_the_watched_process_would_be_seen(site: Site, tmp_path: Path) -> None:
    did = watched(PLANTED, tmp_path, "planted", str(site.port))
    assert did["loaded"] == ["pycurl"]
    assert {"socket.__new__", "socket.connect", "socket.getaddrinfo"} <= set(did["seen"])
