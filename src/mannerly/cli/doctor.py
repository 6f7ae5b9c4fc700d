"""`mannerly doctor`: whether this machine can crawl. Each line is ok, warn or fail; exit 1 if one failed.

No request goes out; names are resolved by a worker, as in a crawl.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.metadata
import os
import platform
import resource
import shutil
import sqlite3
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import click

from mannerly import __version__
from mannerly.cli import checks
from mannerly.cli.assemble import diagnose, reading
from mannerly.cli.checks import Check, Grade
from mannerly.cli.options import read_config
from mannerly.cli.pipe import while_read
from mannerly.model.config import Config
from mannerly.model.errors import ConfigRefused, MannerlyError
from mannerly.model.printable import printable
from mannerly.model.result import Outcome

WORKER_S: Final = 30.0
"""A worker that has not answered by then does not work; its start alone takes a second or three."""

_FEATURES: Final = ("IPv6", "AsynchDNS", "HTTP2", "HTTP3", "BROTLI", "ZSTD")


@click.command("doctor", short_help="check whether this machine can crawl")
@click.option("--config", "config_file", type=click.Path(dir_okay=False), metavar="FILE", help="a crawl.toml")
@click.option("--state", metavar="DIR", help="the state folder, as it is or will be [.]")
@click.option("--name", "names", multiple=True, metavar="NAME", help="a name to resolve, besides localhost")
@click.pass_context
def command(
    ctx: click.Context, /, *, config_file: str | None, state: str | None, names: tuple[str, ...]
) -> None:
    """Check whether this machine can crawl: Python, libraries, folder, disk, clock, locks, worker, resolver.

    Exit 1 if a check failed; a warning is no failure.
    """
    config, config_check = configuration(config_file)
    done = [
        Check("mannerly", Grade.OK, __version__),
        *machine_checks(),
        config_check,
        checks.contact_check(config.identity.contact or os.environ.get("MANNERLY_CONTACT", "").strip()),
        *folder_checks(Path(state or config.state or "."), config),
        clock_check(),
        checks.files_check(_file_limit(), config.workers.concurrency),
    ]
    for check in done:
        show(check)
    last = worker_checks(("localhost", *names), config)
    for check in last:
        show(check)
    ctx.exit(checks.exit_code([*done, *last]))


def show(check: Check) -> None:
    """Print one line, and its hint."""
    grade = click.style(check.grade.ljust(4), fg=checks.colour(check.grade), bold=True)
    with while_read():
        click.echo(f"{grade}  {check.name.ljust(11)}  {printable(check.text, limit=1_000)}")
        if check.hint and check.grade is not Grade.OK:
            click.echo(f"{' ' * 19}hint: {printable(check.hint, limit=1_000)}")


def configuration(file: str | None) -> tuple[Config, Check]:
    """Return the configuration in a file, and whether it can be taken; the defaults if not."""
    if file is None:
        return Config(), Check("config", Grade.OK, "the defaults")
    try:
        return read_config(file), Check("config", Grade.OK, file)
    except ConfigRefused as error:
        return Config(), Check("config", Grade.FAIL, str(error), error.hint)


def machine_checks() -> list[Check]:
    """Look at Python and the libraries."""
    found = {name: _version(name, module) for name, (module, _) in checks.LIBRARIES.items()}
    version = tuple(sys.version_info[:3])
    return [
        checks.python_check(version, platform.python_implementation()),
        checks.libraries_check(found),
        curl_check(),
        checks.sqlite_check(sqlite3.sqlite_version, threadsafe=sqlite3.threadsafety == 3),
    ]


def _version(name: str, module: str) -> str | Exception:
    """Return the version of a library that can be imported, or what went wrong."""
    try:
        importlib.import_module(module)
        return importlib.metadata.version(name)
    except (ImportError, OSError) as error:  # OSError: a shared library that does not load
        return error


def curl_check() -> Check:
    """Look at libcurl."""
    try:
        pycurl: Any = importlib.import_module("pycurl")
    except (ImportError, OSError) as error:
        return Check("libcurl", Grade.FAIL, str(error), "install pycurl from its wheel")
    _, version, _, _, bits, tls, *_ = pycurl.version_info()
    features = {name: bool(bits & getattr(pycurl, f"VERSION_{name.upper()}", 0)) for name in _FEATURES}
    return checks.curl_check(version, tls or "", features)


def folder_checks(folder: Path, config: Config) -> list[Check]:
    """Look at the folder, or at the one that it will be made in: writable, local, roomy, not in use."""
    there = folder
    while not there.exists() and there != there.parent:
        there = there.parent
    free_bytes = shutil.disk_usage(there).free
    journal = config.journal
    return [
        checks.folder_check(str(folder), _writing_fails(there)),
        checks.local_check(str(folder), reading.folder_is_local(there)),
        checks.disk_check(free_bytes, min_free_bytes=journal.min_free_bytes, max_bytes=journal.max_bytes),
        checks.lock_check(reading.holder(folder)),
        _host_locks_check(),
    ]


def _writing_fails(folder: Path) -> str:
    """Return why no file can be made in the folder, '' if one can."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"mannerly")
            file.flush()
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _host_locks_check() -> Check:
    try:
        return checks.host_locks_check(str(reading.user_folder(os.environ)), "")
    except ConfigRefused as error:
        return checks.host_locks_check("", str(error))


def clock_check() -> Check:
    """Look at the clocks over a short stretch."""
    now, began_s = time.time(), time.monotonic()
    time.sleep(0.02)
    return checks.clock_check(
        now,
        elapsed_s=time.time() - now,
        monotonic_s=time.monotonic() - began_s,
        resolution_s=time.get_clock_info("monotonic").resolution,
    )


def _file_limit() -> int:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 20 if hard == resource.RLIM_INFINITY else hard


def worker_checks(names: tuple[str, ...], config: Config) -> list[Check]:
    """Start a worker and let it resolve the names."""
    wanted = tuple(dict.fromkeys(name.lower().rstrip(".") for name in names))
    answers: dict[str, Outcome] = {}
    error = ""
    try:
        answers = asyncio.run(
            diagnose.resolve_in_worker(wanted, nameservers=config.fetch.nameservers, within_s=WORKER_S)
        )
    except TimeoutError:
        error = f"no answer within {WORKER_S:g} s"
    except (MannerlyError, OSError) as failed:
        error = str(failed)
    return checks.resolver_checks(answers, wanted, error=error)
