"""Whole crawls: the command in a process of its own against a loopback site, judged by what the site saw."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from mannerly.model.host import HostRecord
from mannerly.model.task import UrlState
from mannerly.ports import UrlRecord
from mannerly.store.sqlite import SqliteStore
from mannerly.testing.site import Site

ROOT: Final = Path(__file__).resolve().parents[2]
RUN_TIMEOUT_S: Final = 120.0


@dataclass(frozen=True, slots=True)
class Ran:
    """One run of the command, ended. records: the JSON objects of stdout, in order."""

    code: int
    records: list[dict[str, Any]]
    stdout: str
    stderr: str
    elapsed_s: float

    @property
    def urls(self) -> list[str]:
        """URLs of the records, in order."""
        return [record["url"] for record in self.records]

    def record(self, url: str) -> dict[str, Any]:
        """Return the only record of `url`."""
        (found,) = (record for record in self.records if record["url"] == url)
        return found


class Crawl:
    """Runs `mannerly` with a state folder, home and runtime folder of its own, so that crawls do not meet.

        ran = crawl(site, site.url("a.test"), "--delay", "0")
        assert ran.code == 0, ran.stderr

    Called again it resumes: the state folder stays. Options typed by the test come last and so win.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = folder / "state"
        self.started: list[subprocess.Popen[str]] = []
        for name in ("home", "run"):
            (folder / name).mkdir(mode=0o700)

    def environment(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the command's environment: ours without what would steer the crawl."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.lower().endswith("_proxy") and not name.startswith("MANNERLY_")
        }
        own = {
            "PYTHONPATH": str(ROOT / "src"),
            "HOME": str(self.folder / "home"),
            "XDG_RUNTIME_DIR": str(self.folder / "run"),
        }
        return kept | own | dict(extra or {})

    def arguments(self, site: Site, *typed: str) -> list[str]:
        """Return the whole command of a crawl of `site`: two workers, no delay, unless `typed` says otherwise."""
        return [
            *(sys.executable, "-m", "mannerly", "crawl", "--state", str(self.state)),
            *("--delay", "0", "--workers", "2", "--no-index"),
            *site.resolve_args(),
            *typed,
        ]

    def start(
        self, site: Site, *typed: str, environment: Mapping[str, str] | None = None
    ) -> subprocess.Popen[str]:
        """Start a crawl and return its process, in a session of its own; it is killed at the end of the test."""
        process = subprocess.Popen(
            self.arguments(site, *typed),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            cwd=self.folder,
            env=self.environment(environment),
            start_new_session=True,
        )
        self.started.append(process)
        return process

    def finish(self, process: subprocess.Popen[str], *, timeout_s: float = RUN_TIMEOUT_S) -> Ran:
        """Wait for a started crawl and return what came of it."""
        began_at = time.monotonic()
        try:
            stdout, stderr = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            stdout, stderr = process.communicate()
            pytest.fail(f"the crawl did not end within {timeout_s} s; it said:\n{stderr[-4_000:]}")
        records = [json.loads(line) for line in stdout.splitlines()]
        return Ran(process.returncode, records, stdout, stderr, time.monotonic() - began_at)

    def __call__(
        self,
        site: Site,
        *typed: str,
        timeout_s: float = RUN_TIMEOUT_S,
        environment: Mapping[str, str] | None = None,
    ) -> Ran:
        """Run a crawl to its end."""
        return self.finish(self.start(site, *typed, environment=environment), timeout_s=timeout_s)

    def ask(self, command: str, *typed: str) -> tuple[int, Any]:
        """Run a reader (`why`, `report`) on the state folder; return its exit code and its JSON."""
        process = subprocess.run(
            [sys.executable, "-m", "mannerly", command, "--state", str(self.state), "--json", *typed],
            capture_output=True,
            text=True,
            env=self.environment(),
            timeout=RUN_TIMEOUT_S,
            check=False,
        )
        assert process.returncode in (0, 1, 3), process.stderr
        return process.returncode, json.loads(process.stdout)

    def stored(self, url: str) -> UrlRecord:
        """Return what is stored of the only URL with that href, once the crawl has ended."""
        records, _ = asyncio.run(_read_state(self.state / "state.sqlite"))
        (found,) = (record for record in records if record.href == url)
        return found

    def host(self, name: str) -> HostRecord:
        """Return what is stored of a host, once the crawl has ended."""
        _, hosts = asyncio.run(_read_state(self.state / "state.sqlite"))
        (found,) = (host for host in hosts if host.name == name)
        return found

    def configuration(self, text: str) -> list[str]:
        """Write a crawl.toml and return the option that names it."""
        path = self.folder / "crawl.toml"
        path.write_text(text)
        return ["--config", str(path)]

    def close(self) -> None:
        """Kill what the test left running."""
        for process in self.started:
            if process.poll() is None:
                with suppress(ProcessLookupError):
                    process.kill()
                process.communicate()


async def _read_state(path: Path) -> tuple[list[UrlRecord], list[HostRecord]]:
    store = SqliteStore(path, read_only=True)
    try:
        records = [record for state in UrlState for record in await store.urls(state=state, limit=10_000)]
        return records, await store.hosts(limit=10_000)
    finally:
        await store.close()


class NameServer:
    """A DNS server on loopback: `names` to an IPv4 address, to several, or to a response code; what is not there is NXDOMAIN.

    `asked` are the names it was asked for, in order, each once a query (A and AAAA are two).
    """

    SERVFAIL = 2
    NXDOMAIN = 3
    SILENT = -1

    def __init__(self) -> None:
        self.names: dict[str, str | tuple[str, ...] | int] = {}
        self.asked: list[str] = []
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, name="name server", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End: an empty datagram tells the thread."""
        self._socket.sendto(b"", ("127.0.0.1", self.port))
        self._thread.join()
        self._socket.close()

    def _serve(self) -> None:
        while True:
            query, sender = self._socket.recvfrom(4_096)
            if not query:
                return
            answer = self._answer(query)
            if answer:
                self._socket.sendto(answer, sender)

    def _answer(self, query: bytes) -> bytes:
        labels, at = [], 12
        while query[at]:
            labels.append(query[at + 1 : at + 1 + query[at]].decode("ascii").lower())
            at += 1 + query[at]
        question = query[12 : at + 5]
        (kind,) = struct.unpack("!H", query[at + 1 : at + 3])
        name = ".".join(labels)
        self.asked.append(name)
        found = self.names.get(name, self.NXDOMAIN)
        if found == self.SILENT:
            return b""
        code = found if isinstance(found, int) else 0
        found = (found,) if isinstance(found, str) else found
        records: list[bytes] = []
        if isinstance(found, tuple) and kind == 1:
            head = b"\xc0\x0c" + struct.pack("!HHIH", 1, 1, 300, 4)
            records = [head + socket.inet_aton(address) for address in found]
        counts = struct.pack("!HHHHH", 0x8180 | code, 1, len(records), 0, 0)
        return query[:2] + counts + question + b"".join(records)


@pytest.fixture
def name_server() -> Iterator[NameServer]:
    """A DNS server that knows what the test tells it."""
    server = NameServer()
    yield server
    server.close()


@pytest.fixture
def site() -> Iterator[Site]:
    """A web on 127.0.0.1 that records what it saw."""
    with Site() as running:
        yield running


@pytest.fixture
def crawl(tmp_path: Path) -> Iterator[Crawl]:
    """The command, with folders of its own; see Crawl."""
    runner = Crawl(tmp_path)
    yield runner
    runner.close()


@pytest.fixture(scope="session")
def new_crawl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Crawl]]:
    """Make further crawls with folders of their own, by name; for fixtures that several tests share too."""
    made: list[Crawl] = []

    def make(name: str) -> Crawl:
        made.append(Crawl(tmp_path_factory.mktemp(name)))
        return made[-1]

    yield make
    for runner in made:
        runner.close()
