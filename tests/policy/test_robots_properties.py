"""robots.txt: properties against a slow reference, random bytes, and another parser as an oracle."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from protego import Protego

from mannerly.model.origin import MAX_RULES
from mannerly.policy.pattern import canonical_path
from mannerly.policy.robots import Decision, Matcher, parse

# Few letters, so that patterns meet paths; escapes, reserved and non-ASCII octets, so that spellings differ.
PIECES = [
    "a",
    "b",
    "/",
    "*",
    "$",
    "?",
    "%61",
    "%2F",
    "%2f",
    "%24",
    "%2A",
    "%",
    "é",
    "%C3%A9",
    "~",
    "%7E",
    "|",
]
patterns = st.lists(st.sampled_from(PIECES), max_size=8).map(lambda pieces: "/" + "".join(pieces))
starred = patterns.map(lambda pattern: "*" + pattern[1:])
rules = st.lists(st.tuples(st.booleans(), patterns | starred), max_size=12)
paths = st.lists(st.sampled_from(PIECES), max_size=12).map(lambda pieces: "/" + "".join(pieces))


def octets(text: str, *, pattern: bool) -> list[str]:
    """Cut text into compared units, one an octet; in a pattern `*` and a last `$` are units of their own."""
    data = text.encode()
    units: list[str] = []
    at = 0
    while at < len(data):
        escape = re.match(rb"%[0-9A-Fa-f]{2}", data[at:])
        octet = int(escape[0][1:], 16) if escape else data[at]
        plain = chr(octet)
        unreserved = re.fullmatch(r"[A-Za-z0-9\-._~]", plain) is not None
        reserved = not escape and plain in ":/?[]@!&'()+,;="
        special = pattern and not escape and (plain == "*" or (plain == "$" and at == len(data) - 1))
        if unreserved or reserved or special:
            units.append(plain)
        else:
            units.append(f"%{octet:02X}")
        at += 3 if escape else 1
    return units


def reference(text_rules: list[tuple[bool, str]], path: str) -> tuple[bool, str] | None:
    """RFC 9309, 2.2.2, word by word: every rule by a backtracking expression, most octets first, allow first."""
    target = "".join(octets(path, pattern=False))
    found = []
    for allow, text in text_rules:
        units = octets(text, pattern=True)
        expression = "".join({"*": ".*", "$": r"\Z"}.get(unit, re.escape(unit)) for unit in units)
        if re.match(expression, target):
            found.append((len("".join(units)), allow, "".join(units)))
    if not found:
        return None
    best = max((length, allow) for length, allow, _ in found)
    return best[1], next(text for length, allow, text in found if (length, allow) == best)


def file_of(text_rules: list[tuple[bool, str]]) -> bytes:
    lines = [f"{'Allow' if allow else 'Disallow'}: {text}" for allow, text in text_rules]
    return "\n".join(["User-agent: *", *lines]).encode()


@pytest.mark.slow
@given(rules, paths)
def test_decision_equals_the_reference(text_rules: list[tuple[bool, str]], path: str) -> None:
    expected = reference(text_rules, path)
    decision = Matcher(parse(file_of(text_rules))).decide(path)
    assert decision.allowed == (expected is None or expected[0])
    assert (decision.pattern is None) == (expected is None)
    if expected is not None and decision.pattern is not None:
        assert len(decision.pattern) == len(expected[1])


@pytest.mark.slow
@given(rules, paths)
def test_many_other_rules_do_not_change_a_decision(text_rules: list[tuple[bool, str]], path: str) -> None:
    # Past a number of wildcards the matcher filters by grams: the same answers must come out.
    others = [(False, f"/*zz{number}*q") for number in range(80)]
    few = Matcher(parse(file_of(text_rules))).decide(path)
    assert Matcher(parse(file_of([*others, *text_rules]))).decide(path)[:1] == few[:1]


@pytest.mark.slow
@given(st.binary(max_size=400), st.sampled_from(["", "text/html", "text/plain; charset=\x00"]))
def test_no_bytes_make_parse_or_match_raise(body: bytes, content_type: str) -> None:
    for prefix in (b"", b"User-agent: *\nDisallow: /", b"\xff\xfe", b"\x1f\x8b\x08"):
        ruleset = parse(prefix + body, content_type=content_type)
        assert len(ruleset.rules) <= MAX_RULES
        assert all(pattern.isascii() and pattern.isprintable() for _, pattern in ruleset.rules)
        assert ruleset.crawl_delay_s is None or ruleset.crawl_delay_s >= 0
        assert isinstance(Matcher(ruleset).decide("/x?y"), Decision)


@pytest.mark.slow
@given(st.text(max_size=60))
def test_canonical_path_never_raises_and_is_idempotent_without_literal_stars(path: str) -> None:
    once = canonical_path(path)
    assert once.startswith("/")
    assert once.isascii()
    assert "*" not in once
    assert "$" not in once
    assert canonical_path(once) == once


@pytest.mark.slow
@given(rules, st.sampled_from(["\n", "\r", "\r\n"]))
def test_line_ends_do_not_change_the_rules(text_rules: list[tuple[bool, str]], end: str) -> None:
    body = file_of(text_rules)
    assert parse(body.replace(b"\n", end.encode())) == parse(body)


simple = st.lists(st.sampled_from(["a", "b", "/", "*"]), max_size=6).map(lambda pieces: "/" + "".join(pieces))
names = st.sampled_from(["*", "mannerly", "Mannerly", "other"])
groups = st.lists(
    st.tuples(names, st.lists(st.tuples(st.booleans(), simple), min_size=1, max_size=5)), max_size=4
)
simple_paths = st.lists(st.sampled_from(["a", "b", "/", "?"]), max_size=8).map(
    lambda pieces: "/" + "".join(pieces)
)


@pytest.mark.slow
@given(groups, simple_paths)
def test_protego_agrees_on_simple_files(blocks: list[tuple[str, list[tuple[bool, str]]]], path: str) -> None:
    lines = []
    for name, block in blocks:
        lines.append(f"User-agent: {name}")
        lines += [f"{'Allow' if allow else 'Disallow'}: {text}" for allow, text in block]
    text = "\n".join(lines)
    oracle = Protego.parse(text).can_fetch(f"http://h.test{path}", "mannerly")
    assert Matcher(parse(text.encode())).allows(path) == oracle
