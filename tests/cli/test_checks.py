from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from mannerly.cli import checks
from mannerly.cli.checks import Check, Grade
from mannerly.model.result import Failed, Failure, Outcome, Resolved, Unknown

GIB = 1 << 30
ROOT = Path(__file__).resolve().parents[2]


def curl(version: str = "8.5.0", tls: str = "OpenSSL/3.0", **features: bool) -> Check:
    return checks.curl_check(version, tls, {"IPv6": True, "AsynchDNS": True} | features)


ROWS: list[tuple[Check, Grade, str]] = [
    (checks.python_check((3, 11, 0), "CPython"), Grade.OK, "CPython 3.11.0"),
    (checks.python_check((3, 10, 9), "CPython"), Grade.FAIL, "3.10.9"),
    (checks.libraries_check({"click": "8.2"}), Grade.OK, "click 8.2"),
    (checks.libraries_check({"click": "8.1.9"}), Grade.FAIL, "needs 8.2"),
    (checks.libraries_check({"pycurl": ImportError("libcurl.so.4")}), Grade.FAIL, "libcurl.so.4"),
    (curl(), Grade.OK, "8.5.0, OpenSSL/3.0, IPv6, AsynchDNS"),
    (curl("7.74.0"), Grade.FAIL, "7.74.0"),
    (curl(tls=""), Grade.FAIL, "no TLS"),
    (curl(IPv6=False), Grade.WARN, "without IPv6"),
    (checks.sqlite_check("3.40.1", threadsafe=True), Grade.OK, "3.40.1"),
    (checks.sqlite_check("3.31.0", threadsafe=True), Grade.FAIL, "3.31.0"),
    (checks.sqlite_check("3.40.1", threadsafe=False), Grade.FAIL, "threads"),
    (checks.contact_check("me@a.test"), Grade.OK, "me@a.test"),
    (checks.contact_check(""), Grade.WARN, "public hosts are not fetched"),
    (checks.folder_check("/x", ""), Grade.OK, "writable"),
    (checks.folder_check("/x", "Permission denied"), Grade.FAIL, "/x: Permission denied"),
    (checks.local_check("/x", local=True), Grade.OK, "local"),
    (checks.local_check("/x", local=False), Grade.FAIL, "network file system"),
    (checks.local_check("/x", local=None), Grade.WARN, "does not say"),
    (checks.disk_check(9 * GIB, min_free_bytes=2 * GIB, max_bytes=50 * GIB), Grade.OK, "9.0 GiB free"),
    (checks.disk_check(3 * GIB, min_free_bytes=2 * GIB, max_bytes=50 * GIB), Grade.WARN, "3.0 GiB"),
    (checks.disk_check(GIB, min_free_bytes=2 * GIB, max_bytes=50 * GIB), Grade.FAIL, "1.0 GiB"),
    (checks.lock_check(None), Grade.OK, "nobody"),
    (checks.lock_check(42), Grade.WARN, "process 42"),
    (checks.lock_check(0), Grade.WARN, "process unknown"),
    (checks.host_locks_check("/run/x", ""), Grade.OK, "/run/x"),
    (checks.host_locks_check("", "not yours"), Grade.FAIL, "not yours"),
    (checks.clock_check(2e9, elapsed_s=0.1, monotonic_s=0.1, resolution_s=1e-9), Grade.OK, "1e-09"),
    (checks.clock_check(0.0, elapsed_s=0.1, monotonic_s=0.1, resolution_s=1e-9), Grade.FAIL, "2026"),
    (checks.clock_check(2e9, elapsed_s=0.1, monotonic_s=0.0, resolution_s=1e-9), Grade.FAIL, "not move"),
    (checks.clock_check(2e9, elapsed_s=-60.0, monotonic_s=0.1, resolution_s=1e-9), Grade.WARN, "was set"),
    (checks.files_check(20_000, 64), Grade.OK, "20,000"),
    (checks.files_check(256, 64), Grade.WARN, "256"),
]


@pytest.mark.parametrize(("check", "grade", "text"), ROWS)
def test_each_fact_gets_its_grade(check: Check, grade: Grade, text: str) -> None:
    assert check.grade is grade
    assert text in check.text


@pytest.mark.parametrize("check", [check for check, grade, _ in ROWS if grade is Grade.FAIL])
def test_each_failure_says_what_to_do(check: Check) -> None:
    assert check.hint


@pytest.mark.parametrize(
    ("outcome", "grade", "text"),
    [
        (Resolved(addresses=("127.0.0.1", "::1")), Grade.OK, "localhost: 127.0.0.1, ::1"),
        (Resolved(refused=(("10.0.0.1", "private"),)), Grade.FAIL, "10.0.0.1 (private)"),
        (Resolved(), Grade.FAIL, "no address"),
        (Failed(failure=Failure.NAME_NOT_FOUND, detail="NXDOMAIN"), Grade.FAIL, "name-not-found: NXDOMAIN"),
        (Unknown(detail="died"), Grade.FAIL, "unknown: died"),
    ],
)
def test_a_workers_answer_gets_its_grade(outcome: Outcome, grade: Grade, text: str) -> None:
    worker, name = checks.resolver_checks({"localhost": outcome}, ["localhost"])
    assert worker.grade is Grade.OK
    assert name.grade is grade
    assert text in name.text


def test_a_worker_that_does_not_answer_fails() -> None:
    (check,) = checks.resolver_checks({}, ["localhost"], error="no answer within 30 s")
    assert (check.name, check.grade) == ("worker", Grade.FAIL)


def test_a_warning_is_no_failure() -> None:
    warned = Check("a", Grade.WARN, "")
    assert checks.exit_code([Check("b", Grade.OK, ""), warned]) == 0
    assert checks.exit_code([warned, Check("c", Grade.FAIL, "")]) == 1


@pytest.mark.parametrize(
    ("version", "numbers"),
    [
        ("8.2", (8, 2)),
        ("1.1.20240702", (1, 1, 20240702)),
        ("2026.10.19.post1", (2026, 10, 19)),
        ("3.0rc1", (3, 0)),
    ],
)
def test_a_version_is_read_up_to_its_first_word(version: str, numbers: tuple[int, ...]) -> None:
    assert checks.numbers(version) == numbers


def test_the_libraries_are_those_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = {}
    for text in project["dependencies"]:
        found = re.fullmatch(r"([\w-]+).*?>=([\d.]+)", text)
        assert found is not None, text
        asked[found[1]] = checks.numbers(found[2])
    assert asked == {name: floor for name, (_, floor) in checks.LIBRARIES.items()}
