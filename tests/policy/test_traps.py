"""Shapes of URLs that honest sites do not have."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mannerly.model.url import Base
from mannerly.model.verdict import Reason
from mannerly.policy.traps import DEFAULT_SHAPE, ShapeLimits, depth_verdict, repeated_run, shape_verdict

HOST = "http://a.test"


@pytest.mark.parametrize(
    ("rest", "reason"),
    [
        ("/", None),
        ("/2020/2020/", None),
        ("/a/a/b/b/c/c/", None),
        ("/a/b/a/b/", None),
        ("/a/b/a/c/a/d", None),
        ("/a/b/a/b/c/a/b/", None),
        ("/a/a/a", Reason.REPEATED_SEGMENTS),
        ("/x/a/a/a/y", Reason.REPEATED_SEGMENTS),
        ("/a/b/a/b/a/b", Reason.REPEATED_SEGMENTS),
        ("/x/a/b/a/b/a/b/y", Reason.REPEATED_SEGMENTS),
        ("/a/b/c/a/b/c/a/b/c/", Reason.REPEATED_SEGMENTS),
        ("/a////b", Reason.REPEATED_SEGMENTS),
        ("/a//b//", None),
        ("/?q=a/a/a/a", None),
        ("/" + "/".join(map(str, range(20))), None),
        ("/" + "/".join(map(str, range(20))) + "/", None),
        ("/" + "/".join(map(str, range(21))), Reason.PATH_TOO_DEEP),
        ("/?" + "&".join(f"a{n}=1" for n in range(20)), None),
        ("/?" + "&".join(f"a{n}=1" for n in range(21)), Reason.TOO_MANY_PARAMETERS),
        ("/" + "x" * (2000 - len(HOST) - 1), None),
        ("/" + "x" * (2000 - len(HOST)), Reason.URL_TOO_LONG),
    ],
)
def test_shapes(rest: str, reason: Reason | None) -> None:
    verdict = shape_verdict(HOST + rest)
    assert verdict.reason is reason
    assert bool(verdict.evidence) is (reason is not None)


def test_evidence_shows_what_decided() -> None:
    assert shape_verdict(f"{HOST}/x/a/b/a/b/a/b/").evidence == "/a/b 3 times in a row"
    assert shape_verdict(HOST + "/d" * 1 + "".join(f"/{n}" for n in range(30))).evidence == "31 segments"


def test_limits_can_be_moved() -> None:
    strict = ShapeLimits(length=30, depth=2, parameters=1, repeats=2)
    assert shape_verdict(f"{HOST}/a/b", strict).allowed
    assert shape_verdict(f"{HOST}/a/a", strict).reason is Reason.REPEATED_SEGMENTS
    assert shape_verdict(f"{HOST}/?a&b", strict).reason is Reason.TOO_MANY_PARAMETERS
    assert shape_verdict(f"{HOST}/a/b/c", strict).reason is Reason.PATH_TOO_DEEP
    assert shape_verdict(f"{HOST}/{'a' * 30}", strict).reason is Reason.URL_TOO_LONG


@pytest.mark.parametrize(
    ("depth", "limit", "allowed"),
    [(0, 0, True), (1, 0, False), (3, 3, True), (4, 3, False), (99, None, True)],
)
def test_depth(depth: int, limit: int | None, allowed: bool) -> None:
    verdict = depth_verdict(depth, limit)
    assert verdict.allowed is allowed
    assert allowed or (verdict.reason is Reason.MAX_DEPTH and f"--max-depth {limit}" in verdict.evidence)


@given(st.lists(st.sampled_from("abc"), max_size=20), st.integers(2, 4))
def test_a_run_is_found_exactly_if_it_is_there(segments: list[str], times: int) -> None:
    runs = [
        segments[at : at + size]
        for size in range(1, len(segments) // times + 1)
        for at in range(len(segments) - size * times + 1)
        if segments[at : at + size] * times == segments[at : at + size * times]
    ]
    run = repeated_run(segments, times)
    assert bool(run) is bool(runs)
    assert not run or (run in runs and len(run) == min(map(len, runs)))
    text = HOST + "".join(f"/{segment}" for segment in segments)
    assert (shape_verdict(text, ShapeLimits(repeats=times)).reason is Reason.REPEATED_SEGMENTS) is bool(runs)


@given(st.text())
def test_shape_verdict_never_raises(text: str) -> None:
    shape_verdict(text)
    shape_verdict(f"http://a.test/{text}")


def test_b29_a_path_that_grows_by_itself_ends() -> None:
    url = f"{HOST}/d/"
    fetched: list[str] = []
    while shape_verdict(url).allowed and len(fetched) < 100:
        fetched.append(url)
        found = Base(url).resolve("www.partner.test/p/")
        assert found
        url = found[0]
    assert len(fetched) == 3
    assert shape_verdict(url).reason is Reason.REPEATED_SEGMENTS


def test_b62_a_link_that_ate_half_the_page_is_refused_or_encoded() -> None:
    base = Base(f"{HOST}/")
    short = base.resolve("/x?m=1”>one</a> <p>long text</p> <a href=")
    assert short
    assert not set(short[0] + short[1]) & set('<>" ')
    long = base.resolve("/x?m=1”>one</a>" + " <p>long text</p>" * 200)
    assert long
    assert shape_verdict(long[0]).reason is Reason.URL_TOO_LONG
    assert len(long[0]) > DEFAULT_SHAPE.length
