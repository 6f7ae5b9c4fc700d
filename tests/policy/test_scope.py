"""Scope: which URLs belong to the crawl."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mannerly.model.errors import ConfigRefused
from mannerly.model.url import parse
from mannerly.model.verdict import Reason
from mannerly.policy.scope import Patterns, Scope, ScopeKind, host_matches, port_verdict


def scope(kind: str, *seeds: str, **options: list[str]) -> Scope:
    return Scope.of(ScopeKind(kind), [parse(seed) for seed in seeds], **options)


@pytest.mark.parametrize(
    ("kind", "seed", "inside", "outside"),
    [
        (
            "host",
            "https://a.test/docs/",
            ["http://a.test/", "https://a.test:8443/x", "https://A.TEST./"],
            ["https://www.a.test/", "https://b.test/", "https://xa.test/", "https://a.test.b.test/"],
        ),
        (
            "domain",
            "https://www.a.test/",
            ["http://a.test/", "https://x.y.a.test/", "http://A.test./"],
            ["https://xa.test/", "https://a.test.b.test/", "https://test/"],
        ),
        (
            "domain",
            "https://one.github.io/",
            ["http://x.one.github.io/"],
            ["http://two.github.io/", "http://github.io/"],
        ),
        (
            "domain",
            "http://127.0.0.1/",
            ["http://127.0.0.1:8080/"],
            ["http://127.0.0.2/", "http://1.127.0.0.1.test/"],
        ),
        ("domain", "http://[::1]/", ["http://[::1]:8080/"], ["http://[::2]/"]),
        ("domain", "http://localhost/", ["http://localhost:8080/"], ["http://a.localhost.test/"]),
        (
            "prefix",
            "https://a.test/docs/intro.html",
            ["http://a.test/docs/", "https://a.test/docs/x/y?z", "http://a.test./d%6Fcs/b"],
            [
                "https://a.test/docs",
                "https://a.test/docs-old/",
                "https://a.test/",
                "https://b.test/docs/",
                "http://a.test/x/docs/",
            ],
        ),
        ("prefix", "https://a.test/docs", ["https://a.test/", "https://a.test/x/y"], ["https://b.test/"]),
        (
            "prefix",
            "https://a.test/~me/",
            ["https://a.test/%7Eme/x"],
            ["https://a.test/~you/", "https://a.test/?/~me/"],
        ),
        ("any", "https://a.test/", ["http://b.test:99/"], []),
    ],
)
def test_kinds(kind: str, seed: str, inside: list[str], outside: list[str]) -> None:
    crawl = scope(kind, seed)
    assert crawl.verdict(parse(seed)).allowed
    for text in inside:
        assert crawl.verdict(parse(text)).allowed, text
        assert crawl.admits_host(parse(text).host), text
    for text in outside:
        assert crawl.verdict(parse(text)).reason is Reason.OUT_OF_SCOPE, text


def test_several_seeds_each_bring_their_base() -> None:
    crawl = scope("prefix", "https://a.test/x/", "https://b.test/y/")
    assert [
        crawl.verdict(parse(f"https://{place}")).allowed
        for place in ("a.test/x/1", "b.test/y/1", "a.test/y/1")
    ] == [
        True,
        True,
        False,
    ]


def test_b27_a_domain_ends_at_a_dot() -> None:
    crawl = scope("domain", "http://example.test/")
    links = [
        "http://evilexample.test/",
        "http://example.test.evil.test/",
        "http://sub.example.test/",
        "http://EXAMPLE.test./",
    ]
    assert [crawl.verdict(parse(link)).allowed for link in links] == [False, False, True, True]
    assert [crawl.admits_host(parse(link).host) for link in links] == [False, False, True, True]


def test_excludes_take_out_and_includes_must_match() -> None:
    crawl = scope(
        "host", "https://a.test/", includes=["/docs/", r"\.html$"], excludes=[r"[?&]print=1", "/docs/old"]
    )
    verdicts = {
        "https://a.test/docs/x": None,
        "https://a.test/y.html": None,
        "https://a.test/y.html?print=1": Reason.EXCLUDED,
        "https://a.test/docs/old/x.html": Reason.EXCLUDED,
        "https://a.test/": Reason.NOT_INCLUDED,
        "https://b.test/docs/": Reason.OUT_OF_SCOPE,
    }
    assert {text: crawl.verdict(parse(text)).reason for text in verdicts} == verdicts
    assert crawl.verdict(parse("https://a.test/docs/old/")).evidence == "/docs/old"
    assert crawl.verdict(parse("https://a.test/"), seed=True).allowed
    assert crawl.verdict(parse("https://a.test/?print=1"), seed=True).reason is Reason.EXCLUDED


def test_patterns_see_the_url_as_it_is_shown() -> None:
    crawl = scope("host", "https://a.test/", excludes=["utm_source", "%7E"])
    assert not crawl.verdict(parse("https://a.test/?utm_source=x")).allowed
    assert not crawl.verdict(parse("https://a.test/%7Eme")).allowed
    assert crawl.verdict(parse("https://a.test/~me")).allowed


@pytest.mark.parametrize("pattern", ["(", "(a)\\1", "(?=a)b", "(?<!a)b", "a{9999}", "*", "\ud800"])
def test_patterns_that_cannot_run_in_linear_time_are_refused(pattern: str) -> None:
    with pytest.raises(ConfigRefused) as caught:
        scope("host", "https://a.test/", excludes=["fine", pattern])
    assert repr(pattern) in str(caught.value)
    assert "RE2" in caught.value.hint


def test_a_set_of_patterns_that_needs_too_much_memory_is_refused() -> None:
    with pytest.raises(ConfigRefused, match="MiB"):
        Patterns(tuple(f"(a{{100}}){{9}}{n}" for n in range(150)))


def test_a_pattern_made_to_backtrack_does_not() -> None:
    pattern = "(a+)+$"
    assert Patterns((pattern, "(a|a)*b$")).first_match("a" * 100_000 + "!") is None
    assert Patterns((pattern,)).first_match("a" * 100_000) == pattern


def test_patterns_of_an_empty_list_match_nothing_and_an_empty_pattern_everything() -> None:
    assert Patterns().first_match("x") is None
    assert Patterns(("",)).first_match("x") == ""
    assert Patterns(("x", "y")).first_match("yx") == "x"


def test_a_crawl_without_patterns_loads_no_pattern_library() -> None:
    code = (
        "import sys; from mannerly.model.url import parse; from mannerly.policy.scope import *;"
        "Scope.of(ScopeKind.HOST, [parse('http://a.test/')]); sys.exit('re2' in sys.modules)"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], check=False, env={"PYTHONPATH": ":".join(sys.path)}
        ).returncode
        == 0
    )


def test_a_redirected_seed_joins() -> None:
    crawl = scope("host", "http://a.test/", excludes=["/x"])
    wider = crawl.joined(parse("https://www.a.test/start"))
    assert not crawl.verdict(parse("https://www.a.test/")).allowed
    assert wider.verdict(parse("https://www.a.test/")).allowed
    assert wider.verdict(parse("http://a.test/")).allowed
    assert wider.verdict(parse("https://www.a.test/x")).reason is Reason.EXCLUDED
    assert wider.joined(parse("https://www.a.test/other")) == wider
    assert scope("any", "http://a.test/").joined(parse("http://b.test/")) == scope("any", "http://a.test/")


def test_an_authorization_cuts_the_scope_to_the_hosts_it_names() -> None:
    crawl = scope("domain", "http://a.test/", authorized=["A.test", "*.docs.a.test"])
    allowed = {"a.test": True, "x.docs.a.test": True, "docs.a.test": False, "b.a.test": False}
    for host, expected in allowed.items():
        verdict = crawl.verdict(parse(f"http://{host}/"))
        assert verdict.allowed is expected
        assert crawl.admits_host(host) is expected
        assert expected or verdict.reason is Reason.NOT_AUTHORIZED
    assert not crawl.joined(parse("http://b.test/")).verdict(parse("http://b.test/")).allowed


def test_a_scope_survives_its_record() -> None:
    crawl = scope("prefix", "https://a.test/d/", includes=["x"], excludes=["y", "z"], authorized=["*.a.test"])
    for one in (crawl, crawl.joined(parse("http://b.test/e/f")), scope("any", "http://a.test/")):
        assert Scope.from_record(json.loads(json.dumps(one.record()))) == one


@given(
    st.sampled_from(list(ScopeKind)),
    st.sampled_from(["a.test", "b.a.test", "c.test", "[::1]", "1.2.3.4"]),
    st.booleans(),
)
def test_a_host_that_is_not_admitted_has_no_url_in_scope(kind: ScopeKind, host: str, limited: bool) -> None:
    crawl = Scope.of(kind, [parse("http://a.test/d/")], authorized=["*.a.test"] if limited else None)
    for path in ("/", "/d/", "/d/e"):
        if crawl.verdict(parse(f"http://{host}{path}")).allowed:
            assert crawl.admits_host(host)


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("http://a.test/", True),
        ("https://a.test/", True),
        ("http://a.test:8080/", True),
        ("https://a.test:8443/", True),
        ("http://a.test:81/", True),
        ("http://a.test:22/", False),
        ("http://a.test:0/", False),
        ("http://private.test:22/", True),
        ("http://h1.corpus.test:9999/", True),
        ("http://corpus.test:9999/", False),
    ],
)
def test_ports(text: str, allowed: bool) -> None:
    verdict = port_verdict(parse(text), frozenset({81}), frozenset({"private.test", "*.corpus.test"}))
    assert verdict.allowed is allowed
    assert allowed or (verdict.reason is Reason.PORT_REFUSED and verdict.evidence == str(parse(text).port))


def test_wildcards_stop_at_label_boundaries() -> None:
    names = frozenset({"*.a.test", "b.test"})
    hosts = ["x.a.test", "x.y.a.test", "a.test", "xa.test", "b.test", "x.b.test", "test", ""]
    assert [host_matches(host, names) for host in hosts] == [
        True,
        True,
        False,
        False,
        True,
        False,
        False,
        False,
    ]
