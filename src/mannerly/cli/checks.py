"""What `doctor` looks at. Judging is pure: facts in, a `Check` out; `doctor` gathers the facts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, assert_never

from mannerly.cli.tables import size
from mannerly.model.result import Failed, Outcome, Resolved
from mannerly.policy.retries import name_of

Version = tuple[int, ...]

PYTHON_FLOOR: Final = (3, 11)
CURL_FLOOR: Final = (7, 80)
"""CURLOPT_PREREQFUNCTION, by which a request is never sent twice, came with 7.80."""

SQLITE_FLOOR: Final = (3, 35)
"""RETURNING."""

# name of the distribution: module, oldest version; a test holds it against pyproject.toml
LIBRARIES: Final[Mapping[str, tuple[str, Version]]] = {
    "aiodns": ("aiodns", (4, 0)),
    "brotli": ("brotli", (1, 2)),
    "certifi": ("certifi", (2025, 1)),
    "click": ("click", (8, 2)),
    "google-re2": ("re2", (1, 1, 20240702)),
    "msgspec": ("msgspec", (0, 20)),
    "numpy": ("numpy", (2, 1)),
    "pslr": ("pslr", (1, 0)),
    "pycares": ("pycares", (5, 0)),
    "pycurl": ("pycurl", (7, 46)),
    "rich": ("rich", (14,)),
    "turbohtml": ("turbohtml", (1, 15)),
    "upa-url": ("upa_url", (2, 1)),
    "xxhash": ("xxhash", (3, 5)),
    "zstandard": ("zstandard", (0, 25)),
}

FILES_A_FETCH: Final = 4
"""Connections kept open a place, journal and state apart."""

CLOCK_AT_LEAST: Final = 1_767_225_600.0
"""2026-01-01: a clock before that was never set."""


class Grade(StrEnum):
    """How a check came out."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Check:
    """One line of `doctor`: what was looked at, how it came out, what to do."""

    name: str
    grade: Grade
    text: str
    hint: str = ""


def python_check(version: Version, name: str) -> Check:
    """Judge the Python that runs."""
    text = f"{name} {_dotted(version)}"
    if version[:2] < PYTHON_FLOOR:
        return Check("python", Grade.FAIL, text, f"mannerly needs Python {_dotted(PYTHON_FLOOR)} or newer")
    return Check("python", Grade.OK, text)


def libraries_check(found: Mapping[str, str | Exception]) -> Check:
    """Judge the libraries: the version of each, or what importing it raised."""
    broken = [f"{name}: {why}" for name, why in found.items() if isinstance(why, Exception)]
    if broken:
        return Check(
            "libraries", Grade.FAIL, "; ".join(broken), "install mannerly anew: pip install --force-reinstall"
        )
    old = [
        f"{name} {version} (needs {_dotted(LIBRARIES[name][1])})"
        for name, version in found.items()
        if isinstance(version, str) and numbers(version) < LIBRARIES[name][1]
    ]
    if old:
        return Check("libraries", Grade.FAIL, ", ".join(old), "pip install --upgrade mannerly")
    return Check("libraries", Grade.OK, ", ".join(f"{name} {version}" for name, version in found.items()))


def curl_check(version: str, tls: str, features: Mapping[str, bool]) -> Check:
    """Judge libcurl: its version, its TLS library, and what it was built with."""
    having = ", ".join(name for name, there in features.items() if there)
    text = f"{version}, {tls or 'no TLS'}, {having or 'no features'}"
    if numbers(version) < CURL_FLOOR:
        return Check("libcurl", Grade.FAIL, text, f"libcurl {_dotted(CURL_FLOOR)} or newer is needed")
    if not tls:
        return Check("libcurl", Grade.FAIL, text, "https cannot be fetched: install pycurl from its wheel")
    missing = [name for name in ("IPv6", "AsynchDNS") if not features.get(name)]
    if missing:
        return Check(
            "libcurl", Grade.WARN, f"{text}; without {', '.join(missing)}", "pycurl's wheel has them"
        )
    return Check("libcurl", Grade.OK, text)


def sqlite_check(version: str, *, threadsafe: bool) -> Check:
    """Judge the SQLite library that Python was built with."""
    if numbers(version) < SQLITE_FLOOR:
        return Check("sqlite", Grade.FAIL, version, f"SQLite {_dotted(SQLITE_FLOOR)} or newer is needed")
    if not threadsafe:
        return Check(
            "sqlite", Grade.FAIL, f"{version}, not for threads", "use a Python with threads in SQLite"
        )
    return Check("sqlite", Grade.OK, version)


def contact_check(contact: str) -> Check:
    """Judge whether it is said who crawls."""
    if contact:
        return Check("contact", Grade.OK, contact)
    return Check(
        "contact",
        Grade.WARN,
        "none: public hosts are not fetched",
        "--contact you@example.org, MANNERLY_CONTACT, or [identity] contact",
    )


def folder_check(folder: str, error: str) -> Check:
    """Judge whether files can be made where the state is or will be; error: what trying came to."""
    if error:
        return Check("folder", Grade.FAIL, f"{folder}: {error}", "choose a --state folder of yours")
    return Check("folder", Grade.OK, f"{folder} is writable")


def local_check(folder: str, local: bool | None) -> Check:
    """Judge the file system: locks and the state's log hold on a local one alone."""
    match local:
        case True:
            return Check("file system", Grade.OK, "local")
        case False:
            return Check(
                "file system",
                Grade.FAIL,
                f"{folder} lies on a network file system: neither locks nor SQLite's log hold there",
                "choose a --state folder on a local disk",
            )
        case None:
            return Check("file system", Grade.WARN, "the system does not say whether it is local", "")


def disk_check(free_bytes: int, *, min_free_bytes: int, max_bytes: int) -> Check:
    """Judge the free space against the limits of [journal]."""
    limit = f"a crawl stops at {size(min_free_bytes)} free, or {size(max_bytes)} of journal"
    text = f"{size(free_bytes)} free; {limit}"
    if free_bytes < min_free_bytes:
        return Check("disk", Grade.FAIL, text, "make space, or lower [journal] min_free_bytes")
    if free_bytes < 2 * min_free_bytes:
        return Check("disk", Grade.WARN, text, "the crawl may soon stop for want of space")
    return Check("disk", Grade.OK, text)


def lock_check(pid: int | None) -> Check:
    """Judge the state folder's lock: who crawls there now."""
    if pid is None:
        return Check("lock", Grade.OK, "nobody crawls with this state folder")
    return Check(
        "lock",
        Grade.WARN,
        f"process {pid or 'unknown'} crawls with this state folder",
        "a second crawl would have to wait for it, or take another --state",
    )


def host_locks_check(folder: str, error: str) -> Check:
    """Judge the folder in which crawls of this user lock their hosts."""
    if error:
        return Check("host locks", Grade.FAIL, error, "set XDG_RUNTIME_DIR to a folder that is yours alone")
    return Check("host locks", Grade.OK, folder)


def clock_check(now: float, *, elapsed_s: float, monotonic_s: float, resolution_s: float) -> Check:
    """Judge the clocks: seconds that passed on each over the same stretch."""
    if now < CLOCK_AT_LEAST:
        return Check(
            "clock", Grade.FAIL, "it is set to before 2026", "set the clock; an NTP service keeps it"
        )
    if monotonic_s <= 0:
        return Check("clock", Grade.FAIL, "the monotonic clock does not move", "delays cannot be kept here")
    if abs(elapsed_s - monotonic_s) > 1.0:
        return Check(
            "clock", Grade.WARN, "it was set while we looked", "an NTP service keeps it without jumps"
        )
    return Check("clock", Grade.OK, f"monotonic, in steps of {resolution_s:.0e} s")


def files_check(limit: int, concurrency: int) -> Check:
    """Judge how many files this process may open at most (the hard limit: a crawl raises the soft one)."""
    needed = FILES_A_FETCH * concurrency + 100
    if limit < needed:
        return Check(
            "open files",
            Grade.WARN,
            f"at most {limit:,}; {concurrency} requests at once may need {needed:,}",
            "raise it (ulimit -Hn), or lower --concurrency",
        )
    return Check("open files", Grade.OK, f"at most {limit:,}")


def resolver_checks(
    answers: Mapping[str, Outcome], expected: Sequence[str], *, error: str = ""
) -> list[Check]:
    """Judge the worker and what it says of names; error: why there is no answer."""
    if error:
        return [Check("worker", Grade.FAIL, error, "`python -m mannerly _worker </dev/null` shows its error")]
    checks = [Check("worker", Grade.OK, "starts and answers")]
    checks.extend(_name_check(name, answers[name]) for name in expected)
    return checks


def _name_check(name: str, outcome: Outcome) -> Check:
    match outcome:
        case Resolved(addresses=addresses) if addresses:
            return Check("resolver", Grade.OK, f"{name}: {', '.join(addresses)}")
        case Resolved(refused=turned_down):
            why = ", ".join(f"{address} ({reason})" for address, reason in turned_down) or "no address"
            return Check(
                "resolver", Grade.FAIL, f"{name} may not be dialled: {why}", "check /etc/hosts and DNS"
            )
        case Failed():
            return Check(
                "resolver",
                Grade.FAIL,
                f"{name}: {name_of(outcome)}",
                "check /etc/resolv.conf, or name servers in [fetch] nameservers",
            )
        case _:
            return Check("resolver", Grade.FAIL, f"{name}: {name_of(outcome)}", "try again")


def exit_code(checks: Sequence[Check]) -> int:
    """Return 1 if a check failed, else 0: a warning is no failure."""
    return int(any(check.grade is Grade.FAIL for check in checks))


def colour(grade: Grade) -> str:
    """Return the colour of a grade."""
    match grade:
        case Grade.OK:
            return "green"
        case Grade.WARN:
            return "yellow"
        case Grade.FAIL:
            return "red"
        case _:
            assert_never(grade)


def numbers(version: str) -> Version:
    """Return the numbers that a version begins with: 1.2.3rc1 -> (1, 2, 3)."""
    found: list[int] = []
    for part in version.split("."):
        digits = ""
        for char in part:
            if not char.isdigit():
                break
            digits += char
        if not digits:
            break
        found.append(int(digits))
        if digits != part:
            break
    return tuple(found)


def _dotted(version: Version) -> str:
    return ".".join(map(str, version))
