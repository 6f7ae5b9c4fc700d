"""URLs, against other projects' vectors (sources and licences: the README beside the data)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mannerly.model.errors import InvalidUrl
from mannerly.model.url import Base, canonical_key, is_ip_literal, parse

# The parser of the URL standard takes these, its definition of a valid domain does not ("domain to ASCII" with
# beStrict, hence VerifyDnsLength: no empty label), and RFC 1035 2.3.4 gives no way to ask for them.
NO_DNS_NAME = {"http://./", "http://../", "http://foo.09.."}

# The row is about stripping and keeps the order; keys are sorted by name, and the name here is `amp;utm_source`.
SORTED = {"q38": "https://h.test/p?amp;utm_source=y&x=1"}

# Crawler-commons' own habits, which the URL standard and our documented key do not share.
DIFFERS_FROM_CRAWLER_COMMONS = {
    # Empty path segments are segments (RFC 3986, 3.3); servers tell them apart.
    **{
        f"http://foo.com{path}": f"http://foo.com{path}"
        for path in (
            "//aa/bb/foo.html",
            "/aa//bb/foo.html",
            "/aa/bb//foo.html",
            "//aa//bb//foo.html",
            "////aa////bb//foo.html",
            "////aa////bb////foo.html",
        )
    },
    # An empty value is not the lack of one, and a pair without a name is still a pair.
    "http://foo.com/index?a=1&b=": "http://foo.com/index?a=1&b=",
    "http://foo.com/index?b=&a=1": "http://foo.com/index?a=1&b=",
    "http://foo.com/index?&=1&a=1": "http://foo.com/index?=1&a=1",
    "http://foo.com/index?=1&b=1&a=1": "http://foo.com/index?=1&a=1&b=1",
    # The standard's IPv6 serialiser writes no dotted part.
    "http://[::ffff:127.0.0.1]/": "http://[::ffff:7f00:1]/",
    # No host, no URL.
    "http:////": None,
    "http:///////": None,
}


def rows(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_bytes().splitlines()]


@pytest.fixture(scope="module")
def urls(shared: Path) -> Path:
    return shared / "conformance" / "urls"


def test_wpt(urls: Path) -> None:
    wrong: list[tuple[dict[str, Any], object]] = []
    for row in rows(urls / "wpt_crawler_subset.jsonl"):
        try:
            url = parse(row["input"], row["base"])
        except InvalidUrl:
            if not row.get("failure") and row["input"] not in NO_DNS_NAME:
                wrong.append((row, "refused"))
            continue
        if row.get("failure") or row["input"] in NO_DNS_NAME:
            wrong.append((row, url))
            continue
        user, at, rest = row["href"].partition("#")[0].partition("//")[2].rpartition("@")
        href = f"{url.scheme}://{rest if at and '/' not in user else user + at + rest}"
        # The search of a URL that ends in a lonely ? is empty; the href keeps the mark.
        got = (
            url.href,
            url.href[len(url.scheme) + 3 :].partition("/")[0],
            url.path,
            f"?{url.query}" if url.query else "",
        )
        if got != (href, row["host"], row["pathname"], row["search"]):
            wrong.append((row, got))
    assert not wrong


def test_wpt_links_resolve_as_they_parse(urls: Path) -> None:
    for row in rows(urls / "wpt_crawler_subset.jsonl"):
        if row["base"] is None:
            continue
        got = Base(row["base"]).resolve(row["input"])
        refused = row.get("failure") or row["input"] in NO_DNS_NAME
        assert got == (
            None if refused else (lambda url: (url.href, url.key))(parse(row["input"], row["base"]))
        )


@pytest.mark.slow
def test_keys_are_idempotent_on_every_input_and_expectation(urls: Path) -> None:
    count = 0
    for text in inputs(urls):
        key = canonical_key(text)
        assert canonical_key(key) == key, text
        for base in ("http://a.test/b/c?d", "https://u:p@[::1]:8080/"):
            found = Base(base).resolve(text)
            assert found is None or canonical_key(found[0]) == found[1] == canonical_key(found[1]), text
        count += 1
    assert count > 2000


def inputs(urls: Path) -> Iterator[str]:
    for file in sorted(urls.rglob("*.jsonl")):
        for row in rows(file):
            for text in (row.get("input"), row.get("expected")):
                if isinstance(text, str):
                    yield from (text, f"http://a.test/{text}", f"http://a.test/?{text}", f"http://{text}/")
    for name in ("wpt_urltestdata.json", "wpt_toascii.json", "wpt_percent-encoding.json"):
        for row in json.loads((urls / name).read_text()):
            if isinstance(row, dict):
                yield row["input"]
                yield f"http://{row['input']}/?{row['input']}"


def test_tracking_parameters(urls: Path) -> None:
    wrong = [
        (row, got)
        for row in rows(urls / "tracking/strip_cases.jsonl")
        if (got := canonical_key(row["input"])) != SORTED.get(row["id"], row["expected"])
    ]
    assert not wrong


def test_names_that_two_public_lists_agree_on_are_stripped(urls: Path) -> None:
    names = json.loads((urls / "tracking/global_params.json").read_text())["in_two_or_more"]
    assert [name for name in names if canonical_key(f"http://a.test/?{name}=1") != "http://a.test/"] == []


def test_dot_segments(urls: Path) -> None:
    special = [row for row in rows(urls / "path_dot_segments.jsonl") if row["scheme_kind"] == "special"]
    assert len(special) > 100
    wrong = [
        (row, got)
        for row in special
        if (got := parse(f"http://a.test{row['input']}").path)
        != row["expected"].replace("\\", "/")  # the standard: a backslash is a slash in http URLs
    ]
    assert not wrong


def test_ipv4_spellings(urls: Path) -> None:
    wrong: list[tuple[dict[str, Any], object]] = []
    for row in rows(urls / "ipv4_spellings.jsonl"):
        try:
            got = parse(f"http://{row['input']}/").host
        except InvalidUrl:
            got = None
        if got is not None and not is_ip_literal(got):
            got = None  # a name, no number: `0000xa`
        if got != row["expected"]:
            wrong.append((row, got))
    assert not wrong


def test_crawler_commons_normalisation(urls: Path) -> None:
    wrong: list[tuple[dict[str, Any], object]] = []
    for row in rows(urls / "crawler_commons_normalize.jsonl"):
        options = row.get("options", {})
        if "idn" in options or not row["input"].lower().startswith("http"):
            continue  # keys hold IDNA names only, and only http and https URLs have keys
        got: str | None = canonical_key(row["input"], strip=frozenset(options.get("remove_query_params", ())))
        if not valid(row["input"]):
            got = None
        if got != DIFFERS_FROM_CRAWLER_COMMONS.get(row["input"], row["expected"]):
            wrong.append((row, got))
    assert not wrong


def valid(text: str) -> bool:
    try:
        parse(text)
    except InvalidUrl:
        return False
    return True


def test_crawler_commons_resolving(urls: Path) -> None:
    for row in rows(urls / "crawler_commons_resolve.jsonl"):
        if not row["expected"].startswith("http"):
            continue
        expected = row["expected"].partition("#")[0].replace("user:pass@", "")
        assert parse(row["input"], row["base"]).href == expected
