"""URLs: spellings, keys, links, host names."""

from __future__ import annotations

import pytest
import upa_url
from hypothesis import given
from hypothesis import strategies as st

from mannerly.model.errors import InvalidUrl
from mannerly.model.url import (
    Base,
    canonical_key,
    host_of,
    is_ip_literal,
    is_private_name,
    key_hash,
    origin_of,
    parse,
    redacted,
    registered_domain,
    registrable_domain,
)

# Text as hostile pages write it: pieces that mean something to a URL parser, mixed with anything at all.
PIECES = st.sampled_from(
    [
        *"/?#&=;:@.%|[]{}^`\\'\"<>+ \t\n~",
        *(
            "..",
            "./",
            "%2e",
            "%2F",
            "%23",
            "%41",
            "%7E",
            "%u01",
            "%zz",
            "%",
            "utm_source=x",
            "a=1",
            "b",
            "c=",
        ),
        *(
            ";jsessionid=1",
            ";JSESSIONID=%41",
            "..;jsessionid=x",
            "PHPSESSID=1",
            "é",
            "日本",
            "\ud800",
            "//",
            "&&",
        ),
    ]
)
TAILS = st.lists(PIECES | st.text(max_size=4), max_size=12).map("".join)
HOSTS = st.sampled_from(
    [
        "a.test",
        "A.Test.",
        "my_shop.a.test:8080",
        "bücher.test",
        "127.1",
        "[::1]:81",
        "u:p@a.test",
        "a.test:443",
        "x",
    ]
)
URLS = st.builds("{}://{}/{}".format, st.sampled_from(["http", "HTTPS"]), HOSTS, TAILS) | TAILS


@pytest.mark.parametrize(
    ("text", "href", "key"),
    [
        ("http://A.test", "http://a.test/", "http://a.test/"),
        ("https://a.test:443/", "https://a.test/", "https://a.test/"),
        ("http://a.test:443/", "http://a.test:443/", "http://a.test:443/"),
        ("http://u:p@a.test/x#f", "http://a.test/x", "http://a.test/x"),
        ("http://a.test./x", "http://a.test./x", "http://a.test/x"),
        ("http://a.test.:8080/x", "http://a.test.:8080/x", "http://a.test:8080/x"),
        ("http://bücher.test/", "http://xn--bcher-kva.test/", "http://xn--bcher-kva.test/"),
        ("http://a.test/a/./b/../c", "http://a.test/a/c", "http://a.test/a/c"),
        (
            "http://a.test/%7euser/%2f%c3%a9",
            "http://a.test/%7euser/%2f%c3%a9",
            "http://a.test/~user/%2F%C3%A9",
        ),
        ("http://a.test/x?", "http://a.test/x?", "http://a.test/x"),
        ("http://a.test/x?&&", "http://a.test/x?&&", "http://a.test/x"),
        ("http://a.test/?a=2&b=1&a=1", "http://a.test/?a=2&b=1&a=1", "http://a.test/?a=2&a=1&b=1"),
        ("http://a.test/?b&a", "http://a.test/?b&a", "http://a.test/?a&b"),
        ("http://a.test/?x[]=1", "http://a.test/?x[]=1", "http://a.test/?x%5B%5D=1"),
        ("http://a.test/100%", "http://a.test/100%", "http://a.test/100%25"),
        ("http://a.test/%%34%31", "http://a.test/%%34%31", "http://a.test/%2541"),
        ("http://a.test/?%55TM_x=1&y=2", "http://a.test/?%55TM_x=1&y=2", "http://a.test/?y=2"),
        ("http://a.test/?PHPSESSID=1&p=2", "http://a.test/?PHPSESSID=1&p=2", "http://a.test/?p=2"),
        ("http://a.test/?ASPSESSIONIDAAAA=1", "http://a.test/?ASPSESSIONIDAAAA=1", "http://a.test/"),
        (
            "http://a.test/?CFID=1&CFTOKEN=2&sid=3",
            "http://a.test/?CFID=1&CFTOKEN=2&sid=3",
            "http://a.test/?sid=3",
        ),
        ("http://a.test/x;jsessionid=1A.b?y=1", "http://a.test/x;jsessionid=1A.b?y=1", "http://a.test/x?y=1"),
        ("http://a.test/x;v=1;JSESSIONID=2/y", "http://a.test/x;v=1;JSESSIONID=2/y", "http://a.test/x;v=1/y"),
        ("http://a.test/%3Bjsessionid=1", "http://a.test/%3Bjsessionid=1", "http://a.test/%3Bjsessionid=1"),
        (
            "http://a.test/..;jsessionid=1/",
            "http://a.test/..;jsessionid=1/",
            "http://a.test/..;jsessionid=1/",
        ),
    ],
)
def test_spellings(text: str, href: str, key: str) -> None:
    url = parse(text)
    assert (url.href, url.key) == (href, key)


def test_parts_are_those_of_the_href_and_the_host_is_the_gate_key() -> None:
    url = parse("https://Docs.a.test.:8443/x/%7e?b=1&a=2#f")
    assert (url.scheme, url.host, url.port) == ("https", "docs.a.test", 8443)
    assert (url.path, url.query, url.path_query) == ("/x/%7e", "b=1&a=2", "/x/%7e?b=1&a=2")
    assert url.origin == "https://docs.a.test:8443"


@pytest.mark.parametrize(
    ("text", "host", "port", "origin"),
    [
        ("http://[2001:DB8::1]/", "[2001:db8::1]", 80, "http://[2001:db8::1]"),
        ("http://[::1]:8080/", "[::1]", 8080, "http://[::1]:8080"),
        ("http://0x7f.1/", "127.0.0.1", 80, "http://127.0.0.1"),
        ("https://a.test/", "a.test", 443, "https://a.test"),
    ],
)
def test_host_port_origin(text: str, host: str, port: int, origin: str) -> None:
    url = parse(text)
    assert (url.host, url.port, url.origin) == (host, port, origin)
    assert (host_of(url.key), origin_of(url.key)) == (host, origin)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a.test",
        "/x",
        "ftp://a.test/",
        "mailto:a@b.test",
        "javascript:void(0)",
        "http://",
        "http://a b/",
        "http://[x/",
    ],
)
def test_what_is_no_web_url_is_invalid(text: str) -> None:
    with pytest.raises(InvalidUrl):
        parse(text)
    assert canonical_key(text) == text
    assert canonical_key(text, strip=frozenset({"a"})) == text


def test_a_crawl_adds_names_to_strip() -> None:
    strip = frozenset({"Ref", "x_*"})
    assert canonical_key("http://a.test/?REF=1&x_y=2&x=3", strip=strip) == "http://a.test/?x=3"
    base = Base("http://a.test/", strip=strip)
    assert base.resolve("?ref=1") == ("http://a.test/?ref=1", "http://a.test/")
    assert canonical_key("http://a.test/?a=1", strip=frozenset({"*", ""})) == "http://a.test/?a=1"


def test_a_link_may_hold_blanks_before_its_fragment() -> None:
    base = Base("http://a.test/d/p")
    assert base.resolve("x #f") == ("http://a.test/d/x%20", "http://a.test/d/x%20")
    assert base.resolve(" #f") == ("http://a.test/d/p", "http://a.test/d/p")
    assert base.resolve("x\n") == ("http://a.test/d/x", "http://a.test/d/x")


def test_a_base_without_a_host_gives_no_links() -> None:
    with pytest.raises(InvalidUrl):
        Base("no base")
    assert Base("data:text/html,x").resolve("/y") is None
    assert Base("data:text/html,x").resolve("http://a.test/") == ("http://a.test/", "http://a.test/")


def test_messages_show_no_password() -> None:
    with pytest.raises(InvalidUrl) as caught:
        parse("http://user:s3cret@a..test/")
    assert "s3cret" not in str(caught.value)
    assert redacted("http://u:s3c/ret@a.test/") == "http://***@a.test/"
    assert redacted("https://a.test/@me") == "https://***@me"  # better one blank too many
    assert redacted("\x1b[31mhi") == r"\x1b[31mhi"


# Properties


@pytest.mark.slow
@given(URLS)
def test_canonical_key_is_idempotent_and_never_raises(text: str) -> None:
    key = canonical_key(text)
    assert canonical_key(key) == key


@pytest.mark.slow
@given(URLS)
def test_a_key_is_a_serialised_url_itself(text: str) -> None:
    try:
        key = parse(text).key
    except InvalidUrl:
        return
    assert upa_url.URL(key).href == key


@pytest.mark.slow
@given(URLS)
def test_href_and_key_name_the_same_host(text: str) -> None:
    try:
        url = parse(text)
    except InvalidUrl:
        return
    again = parse(url.key)
    assert (again.scheme, again.host, again.port) == (url.scheme, url.host, url.port)
    assert parse(url.href) == url
    assert not set(url.href) & set('<> "\t\n#')
    assert url.path_query == url.path + ("?" + url.query if "?" in url.href else "")


@pytest.mark.slow
@given(URLS, URLS)
def test_resolve_agrees_with_parse(text: str, base: str) -> None:
    try:
        page = Base(base)
    except InvalidUrl:
        with pytest.raises(InvalidUrl):
            parse(text, base)
        return
    try:
        expected = parse(text, base)
    except InvalidUrl:
        assert page.resolve(text) is None
        assert page.resolve_url(text) is None
        return
    assert page.resolve(text) == (expected.href, expected.key)
    assert page.resolve_url(text) == expected


@given(st.text(), st.integers())
def test_key_hash_is_a_signed_64_bit_integer(key: str, secret: int) -> None:
    assert -(2**63) <= key_hash(key, secret) < 2**63
    assert key_hash(key, secret) == key_hash(key, secret)


def test_key_hash_depends_on_key_and_secret() -> None:
    keys = [f"http://a.test/{n}" for n in range(1000)]
    assert len({key_hash(key, secret) for key in keys for secret in (1, 2)}) == 2000


# Host names


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("www.example.co.uk", "example.co.uk"),
        ("one.two.github.io", "two.github.io"),
        ("A.B.Test.", "b.test"),
        ("github.io", "github.io"),
        ("localhost", "localhost"),
        ("127.0.0.1", "127.0.0.1"),
        ("[::1]", "[::1]"),
    ],
)
def test_registered_domain(host: str, expected: str) -> None:
    assert registered_domain(host) == expected


def test_registrable_domain_of_what_has_none() -> None:
    assert [
        registrable_domain(host) for host in ("com", "co.uk", "1.2.3.4", "[::1]", "::1", "localhost")
    ] == [None] * 6


def test_ip_literals() -> None:
    assert all(map(is_ip_literal, ("1.2.3.4", "[::1]", "::1", "[2001:db8::1]")))
    assert not any(map(is_ip_literal, ("a.test", "1.2.3.4.test", "", "[]", "1.2.3", "v1")))


@pytest.mark.parametrize(
    ("host", "private"),
    [
        ("localhost", True),
        ("LOCALHOST.", True),
        ("h1.docs.localhost", True),
        ("127.0.0.1", True),
        ("10.1.2.3", True),
        ("169.254.169.254", True),
        ("100.64.0.1", True),
        ("[::1]", True),
        ("[fe80::1]", True),
        ("[::ffff:10.0.0.1]", True),
        ("[::ffff:8.8.8.8]", False),
        ("8.8.8.8", False),
        ("[2606:4700::1]", False),
        ("notlocalhost", False),
        ("localhost.test", False),
        ("a.test", False),
    ],
)
def test_private_names(host: str, private: bool) -> None:
    assert is_private_name(host) is private


# Bug reports of other crawlers


def test_b15_an_escaped_hash_stays_escaped() -> None:
    key = canonical_key("http://a.test/foo%20%2376?x=%23y")
    assert key == "http://a.test/foo%20%2376?x=%23y"
    assert canonical_key(key) == key


def test_b17_user_info_is_dropped_and_does_not_grow() -> None:
    url = parse("http://%25u:%25p@a.test/")
    assert (url.href, url.key) == ("http://a.test/", "http://a.test/")


def test_b18_a_trailing_blank_makes_no_second_url() -> None:
    base = Base("http://a.test/")
    assert base.resolve("http://a.test/x ") == base.resolve("http://a.test/x") == ("http://a.test/x",) * 2


def test_b19_a_nonstandard_escape_is_sent_the_same_every_time() -> None:
    url = parse("http://a.test/?s=ni%u011fde")
    assert url.path_query == "/?s=ni%u011fde"
    assert url.key == "http://a.test/?s=ni%25u011fde"
    assert parse(url.href) == url


@pytest.mark.parametrize(
    "host", ["a" * 64 + ".test", "a..test", ".a.test", "a.test..", ".", "a." * 127 + "test"]
)
def test_b20_a_host_that_dns_cannot_hold_is_dropped(host: str) -> None:
    base = Base("http://a.test/")
    assert base.resolve(f"http://{host}/") is None
    assert base.resolve(f"//{host}/x") is None
    assert base.resolve("/ok") == ("http://a.test/ok",) * 2
    with pytest.raises(InvalidUrl):
        parse(f"http://{host}/")


def test_b20_the_longest_host_is_taken() -> None:
    name = ".".join(["a" * 63] * 3 + ["b" * 61])
    assert len(name) == 253
    assert parse(f"http://{name}./").host == name


def test_b21_a_host_with_an_underscore_is_taken() -> None:
    assert parse("http://my_shop.a.test/").host == "my_shop.a.test"


def test_b23_an_empty_path_is_a_slash() -> None:
    url = parse("http://a.test?x=1")
    assert (url.href, url.path_query) == ("http://a.test/?x=1", "/?x=1")


def test_b24_one_bad_link_costs_no_other() -> None:
    base = Base("http://a.test/")
    found = [base.resolve(href) for href in ("/1", "http://[x/", "http://a.test:port/", "/4")]
    assert found == [("http://a.test/1",) * 2, None, None, ("http://a.test/4",) * 2]


def test_b25_line_breaks_around_a_link_are_no_part_of_it() -> None:
    assert Base("http://a.test/n/").resolve("\n http://a.test/n/1\n ") == ("http://a.test/n/1",) * 2


def test_b26_links_are_relative_to_the_address_that_answered() -> None:
    assert Base("http://a.test/r/").resolve("x") == ("http://a.test/r/x",) * 2


def test_b32_fragments_and_an_empty_query_make_no_second_key() -> None:
    base = Base("http://a.test/")
    found = [base.resolve(href) for href in ("/a", "/a#top", "/a#caf%C3%A9", "/a?", "/a#")]
    assert {pair[1] for pair in found if pair} == {"http://a.test/a"}
    assert None not in found
