"""robots.txt: what parse keeps, which rule decides, and the faults others reported."""

from __future__ import annotations

import gzip
import itertools
import time
from typing import TYPE_CHECKING

import pytest

from mannerly.model.origin import (
    MAX_BODY_BYTES,
    MAX_CRAWL_DELAY_S,
    MAX_SITEMAPS,
    MAX_STARS_PER_RULE,
    MAX_WILDCARD_RULES,
)
from mannerly.policy.robots import Matcher, parse

if TYPE_CHECKING:
    from collections.abc import Callable


def allowed(text: str, path: str, token: str = "mannerly") -> bool:
    return Matcher(parse(text.encode(), token)).allows(path)


def everyone(*lines: str) -> str:
    return "\n".join(("User-agent: *", *lines, ""))


# Bug reports


@pytest.mark.parametrize("own_first", [True, False])
def test_b08_own_group_beats_star_in_rules_and_delay(own_first: bool) -> None:
    own = "User-agent: mannerlybot\nAllow: /\nCrawl-delay: 1\n\n"
    star = "User-agent: *\nDisallow: /\nCrawl-delay: 60\n\n"
    ruleset = parse((own + star if own_first else star + own).encode(), "mannerlybot")
    assert Matcher(ruleset).allows("/x")
    assert ruleset.crawl_delay_s == 1.0


def test_b09_crawl_delay_is_kept_as_asked() -> None:
    assert parse(b"User-agent: *\nCrawl-delay: 120\n").crawl_delay_s == 120.0


@pytest.mark.parametrize(
    ("asked", "delay_s"),
    [
        ("10 seconds please", None),
        ("-5", None),
        ("1e9", None),
        ("NaN", None),
        ("inf", None),
        ("0,5", None),
        ("", None),
        ("٣", None),
        (" 2.5 ", 2.5),
        (".5", 0.5),
        ("0", 0.0),
        ("9" * 400, MAX_CRAWL_DELAY_S),
    ],
)
def test_b10_malformed_crawl_delay_costs_no_rule(asked: str, delay_s: float | None) -> None:
    ruleset = parse(f"User-agent: *\nCrawl-delay: {asked}\nDisallow: /a\n".encode(), "mannerlybot")
    assert ruleset.crawl_delay_s == delay_s
    assert not Matcher(ruleset).allows("/a")


def test_b13_group_that_lists_star_first_is_kept() -> None:
    text = "User-agent: *\nUser-agent: Googlebot\nDisallow: /private\nDisallow: /*.json$\n"
    assert not allowed(text, "/private", "mannerlybot")
    assert not allowed(text, "/data.json", "mannerlybot")
    assert allowed(text, "/data.json?x", "mannerlybot")


def test_b66_sitemap_lines_are_collected_whatever_they_name() -> None:
    text = b"User-agent: *\nDisallow:\nSitemap: http://a.test/robots.txt\nSitemap: http://a.test/s.xml\n"
    assert parse(text).sitemaps == ("http://a.test/robots.txt", "http://a.test/s.xml")


# Parsing


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_line_ends_and_byte_order_mark_make_no_difference(end: str, mark: bytes) -> None:
    body = mark + end.join(["User-agent: *", "Disallow: /a", "Allow: /a/b"]).encode()
    assert parse(body).rules == ((False, "/a"), (True, "/a/b"))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-16-le"])
def test_utf_16_with_a_mark_is_read(encoding: str) -> None:
    mark = "" if encoding == "utf-16" else "\N{ZERO WIDTH NO-BREAK SPACE}"
    assert parse((mark + everyone("Disallow: /käse")).encode(encoding)).rules == ((False, "/k%C3%A4se"),)


def test_unannounced_gzip_is_read_and_suspicious() -> None:
    ruleset = parse(gzip.compress(everyone("Disallow: /a").encode()))
    assert ruleset.rules == ((False, "/a"),)
    assert ruleset.suspicious


@pytest.mark.slow
def test_gzip_bomb_is_cut_at_the_limit() -> None:
    bomb = gzip.compress(everyone("Disallow: /a").encode() + b"#" * 50_000_000, compresslevel=1)
    ruleset = parse(bomb)
    assert ruleset.cut
    assert ruleset.rules == ((False, "/a"),)


@pytest.mark.parametrize(
    ("body", "content_type", "suspicious"),
    [
        (b"User-agent: *\nDisallow: /a\n", "text/plain", False),
        (b"User-agent: *\nDisallow: /a\n", "", False),
        (b"User-agent: *\nDisallow: /a\n", "Text/HTML; charset=utf-8", True),
        (b"\n <!DOCTYPE html><title>x</title>\nUser-agent: *\nDisallow: /a\n", "text/plain", True),
        (b"User-agent: *\nDisallow: /a\n\0\x01\x02", "text/plain", True),
    ],
)
def test_html_and_binary_are_read_by_the_same_rules_and_recorded(
    body: bytes, content_type: str, suspicious: bool
) -> None:
    ruleset = parse(body, content_type=content_type)
    assert ruleset.suspicious is suspicious
    assert ruleset.rules == ((False, "/a"),)


def test_file_past_the_limit_is_cut_after_a_whole_line() -> None:
    line = b"Disallow: /" + b"a" * 88 + b"\n"
    body = b"User-agent: *\n" + line * (MAX_BODY_BYTES // len(line)) + b"Disallow: /late\n"
    ruleset = parse(body)
    assert ruleset.cut
    assert ruleset.rules == ((False, "/" + "a" * 88),)
    assert not parse(body[: MAX_BODY_BYTES // 2]).cut


def test_crawl_delay_binds_the_agents_named_since_the_last_one() -> None:
    text = (
        b"User-agent: one\nCrawl-delay: 1\nUser-agent: two\nCrawl-delay: 2\nUser-agent: three\nDisallow: /x\n"
    )
    delays = {token: parse(text, token).crawl_delay_s for token in ("one", "two", "three")}
    assert delays == {"one": 1.0, "two": 2.0, "three": None}
    assert {parse(text, token).rules for token in delays} == {((False, "/x"),)}


def test_the_longest_of_several_crawl_delays_holds() -> None:
    assert (
        parse(b"User-agent: *\nCrawl-delay: 5\nCrawl-delay: 1\nUser-agent: *\nCrawl-delay: 3\n").crawl_delay_s
        == 5.0
    )


def test_own_group_without_rules_replaces_star() -> None:
    text = "User-agent: *\nDisallow: /\n\nUser-agent: mannerly\n"
    assert allowed(text, "/x")


@pytest.mark.parametrize(
    "name", ["mannerly", "MANNERLY", "mannerly/1.2", "mannerly (the crawler)", "mannerly*"]
)
def test_token_is_read_to_its_end_and_without_case(name: str) -> None:
    assert not allowed(f"User-agent: {name}\nDisallow: /\n", "/x")


@pytest.mark.parametrize(
    "name", ["manner", "mannerly2", "mannerly-news", "xmannerly", "*mannerly", "", "/mannerly"]
)
def test_other_names_are_other_products(name: str) -> None:
    assert allowed(f"User-agent: {name}\nDisallow: /\n", "/x")


def test_identical_patterns_are_kept_once_and_allow_wins() -> None:
    assert parse(everyone("Disallow: /%61", "Allow: /a", "Disallow: /a").encode()).rules == ((True, "/a"),)


def test_sitemaps_and_clean_params_come_from_any_group_and_are_bounded() -> None:
    lines = [f"Sitemap: /s{number}.xml" for number in range(MAX_SITEMAPS + 50)]
    text = "\n".join(["User-agent: other", "Clean-param: sid /forum/", "Clean-param: sid /forum/", *lines])
    ruleset = parse(text.encode())
    assert len(ruleset.sitemaps) == MAX_SITEMAPS
    assert ruleset.clean_params == ("sid /forum/",)
    assert parse(b"Sitemap: /" + b"s" * 5_000).sitemaps == ()


def test_rules_written_with_a_slip_are_obeyed() -> None:
    assert not allowed("user agent: *\nDissallow /a\n", "/a")


# Matching


@pytest.mark.parametrize(
    ("pattern", "path", "match"),
    [
        ("/fish", "/fish.html", True),
        ("/fish*", "/fish", True),
        ("/fish**", "/fish", True),
        ("/fish$", "/fish", True),
        ("/fish$", "/fish/", False),
        ("/*$", "/anything?x", True),
        ("*", "/", True),
        ("*$", "/a", True),
        ("*a*$", "/bab", True),
        ("/a*a$", "/a", False),
        ("/a*a$", "/aa", True),
        ("/a*bc*bc$", "/abc", False),
        ("/a*bc*bc$", "/abcbc", True),
        ("/*ab*ab", "/xab", False),
        ("/$$", "/$", True),
        ("/a$b", "/a$b", True),
        ("/a%24", "/a$", True),
        ("/a%2Ab", "/a*b", True),
        ("/a%2Ab", "/axb", False),
        ("/a%2fb", "/a/b", False),
        ("/%7ejoe", "/~joe", True),
        ("/a|b", "/a%7cb", True),
        ("/100%", "/100%25", True),
        ("/é", "/%c3%a9", True),
        ("/?", "?q", True),
        ("https://h.test/", "/", False),
    ],
)
def test_pattern_against_path(pattern: str, path: str, match: bool) -> None:
    assert allowed(everyone(f"Disallow: {pattern}"), path) is not match


def test_the_most_octets_win_a_star_at_the_end_included() -> None:
    matcher = Matcher(
        parse(everyone("Allow: /p", "Disallow: /p*", "Allow: /page$", "Disallow: /*e").encode())
    )
    assert matcher.deciding_rule("/px") == (False, "/p*")
    assert matcher.deciding_rule("/page") == (True, "/page$")
    assert matcher.deciding_rule("/other") == (False, "/*e")
    assert matcher.deciding_rule("/x") is None


def test_robots_txt_itself_is_always_allowed() -> None:
    text = everyone("Disallow: /")
    assert allowed(text, "/robots.txt")
    assert not allowed(text, "/robots.txt?x")


# Cost


@pytest.mark.parametrize(
    "rules",
    [
        [f"/*x{number}" for number in range(MAX_WILDCARD_RULES + 1)],
        ["/" + "*a" * (MAX_STARS_PER_RULE + 1)],
        [f"/{number}" + "*a" * 60 for number in range(170)],
    ],
    ids=["rules", "stars in one", "stars in all"],
)
def test_too_many_wildcards_forbid_all_but_robots_txt(rules: list[str]) -> None:
    ruleset = parse(everyone(*(f"Disallow: {rule}" for rule in rules)).encode())
    assert ruleset.too_complex
    assert ruleset.rules == ()
    matcher = Matcher(ruleset)
    assert matcher.decide("/x").too_complex
    assert not matcher.allows("/x")
    assert matcher.allows("/robots.txt")


def test_rules_with_a_star_only_at_the_end_are_plain_prefixes() -> None:
    ruleset = parse(everyone(*(f"Disallow: /{number}/*" for number in range(20_000))).encode())
    assert not ruleset.too_complex
    assert not Matcher(ruleset).allows("/19999/x")


def test_a_path_that_costs_too_much_is_refused_as_too_complex() -> None:
    rules = [f"/*{'a' * (100 + number // 20)}b{'a' * (20 + number % 20)}" for number in range(1_600)]
    matcher = Matcher(parse(everyone(*(f"Disallow: {rule}" for rule in rules)).encode()))
    path = "/" + ("a" * 90 + "b") * 21
    assert matcher.decide(path).too_complex
    assert not matcher.allows(path)
    assert matcher.deciding_rule(path) is None
    assert matcher.allows("/" + "a" * 90), "an ordinary path of the same site is decided"


HOSTILE = {
    "five stars, a segment never there": [f"/*a*a*a*a*b{number}" for number in range(2_000)],
    "every segment there, in the wrong order": [
        "/*" + "*".join(letters) for letters in itertools.islice(itertools.product("abcde", repeat=5), 2_000)
    ],
    "sixty-four stars": ["/" + "*a" * 63 + f"*b{number}" for number in range(156)],
    "long needles of one letter": [f"/*{'a' * (100 + n // 20)}b{'a' * (20 + n % 20)}" for n in range(1_600)],
    "medium needles": [f"/*aaa*{'a' * (2 + n % 40)}b{'a' * (2 + n // 40)}" for n in range(2_000)],
    "plain, a thousand lengths": ["/" + "a" * length + "b" for length in range(980)],
}


def costs_s(*works: Callable[[], object]) -> list[float]:
    """The least of many runs of each, in processor time and in turn: what else the machine does slows all alike."""
    least_s = [float("inf")] * len(works)
    for _ in range(25):
        for number, work in enumerate(works):
            begun = time.thread_time()
            work()
            least_s[number] = min(least_s[number], time.thread_time() - begun)
    return least_s


@pytest.mark.slow
@pytest.mark.parametrize("rules", HOSTILE.values(), ids=list(HOSTILE))
def test_no_hostile_file_makes_a_match_slow(rules: list[str]) -> None:
    matcher = Matcher(parse(everyone(*(f"Disallow: {rule}" for rule in rules)).encode()))
    assert not matcher.ruleset.too_complex
    for path in (
        "/" + "a" * 1_999,
        "/" + "edcba" * 399,
        "/" + "a" * 900 + "b" + "a" * 1_000,
        "/" + "|" * 1_999,
    ):
        # A yardstick of about 5 ms on the machine that the limit was set on, so that a busy one proves nothing.
        match_s, yardstick_s = costs_s(
            lambda path=path: matcher.decide(path),  # type: ignore[misc]
            lambda: [number * number for number in range(100_000)],
        )
        assert match_s < max(0.005, yardstick_s)


def test_nbytes_grows_with_the_file() -> None:
    small = Matcher(parse(everyone("Disallow: /a").encode()))
    large = Matcher(parse(everyone(*(f"Disallow: /{number}" for number in range(20_000))).encode()))
    assert small.nbytes < 3_000
    assert 2_000_000 < large.nbytes < 8_000_000
