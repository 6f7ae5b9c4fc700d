"""Who we say we are, what we send to whom, and crawls under a written authorization."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from mannerly import __version__
from mannerly.testing.site import Reply, Site

if TYPE_CHECKING:
    from pathlib import Path

    from tests.outside.conftest import Crawl

pytestmark = [pytest.mark.outside, pytest.mark.slow]

TOMORROW = (datetime.now(UTC) + timedelta(days=1)).date().isoformat()
YESTERDAY = (datetime.now(UTC) - timedelta(days=2)).date().isoformat()


def authorization(folder: Path, **changed: str | None) -> Path:
    """Write an authorization for a.test; `changed` fields are other TOML values, or left out."""
    fields: dict[str, str | None] = {
        "who": '"Ann Archive"',
        "hosts": '["a.test"]',
        "until": TOMORROW,
        "signed_by": '"Sam Site"',
        **changed,
    }
    path = folder / "authorization.toml"
    path.write_text("".join(f"{name} = {value}\n" for name, value in fields.items() if value is not None))
    return path


def test_i10_every_request_names_us_and_the_contact(site: Site, crawl: Crawl) -> None:
    site.page("a.test", "/", '<a href="/b">b</a>')
    site.redirect("a.test", "/b", "/c")
    site.page("a.test", "/c", "c")
    assert crawl(site, site.url("a.test"), "--contact", "me@example.org").code == 0
    assert len(site.requests) == 4
    for seen in site.requests:
        assert seen.header("user-agent") == f"mannerly/{__version__} (+me@example.org)"
        assert seen.header("from") == "me@example.org"
        assert not any("mozilla" in value.lower() for _, value in seen.headers)
        assert seen.header("cookie") is None
        assert seen.header("referer") is None


def test_i10_a_contact_that_is_a_page_is_no_from(site: Site, crawl: Crawl) -> None:
    site.page("a.test", "/", "a")
    assert crawl(site, site.url("a.test"), "--contact", "https://example.org/bot").code == 0
    for seen in site.requests:
        assert seen.header("user-agent") == f"mannerly/{__version__} (+https://example.org/bot)"
        assert seen.header("from") is None


def test_i10_a_public_seed_without_a_contact_is_refused_with_the_line_to_copy(
    site: Site, crawl: Crawl
) -> None:
    ran = crawl(site, "http://www.example.com/")
    assert ran.code == 78
    assert "hint: mannerly crawl http://www.example.com/ --contact" in ran.stderr
    assert not crawl.state.exists()


def test_b38_own_headers_go_to_the_origin_of_the_seed_alone(site: Site, crawl: Crawl) -> None:
    other = site.url("b.test", "/other")
    site.page("a.test", "/", f'<a href="/in">1</a><a href="/away">2</a><a href="{other}">3</a>')
    site.page("a.test", "/in", "in")
    site.redirect("a.test", "/away", site.url("b.test", "/landed"))
    site.page("b.test", "/landed", "landed")
    site.page("b.test", "/other", "other")
    secrets = ("--header", "Authorization: A", "--header", "Authorization: B", "--header", "Cookie: c=1")
    ran = crawl(site, site.url("a.test"), "--scope", "any", *secrets)
    assert ran.code == 0, ran.stderr
    assert site.paths("b.test")[0] == "/robots.txt"
    assert sorted(site.paths("b.test")[1:]) == ["/landed", "/other"]
    for seen in site.requests:
        sent = [value for name, value in seen.headers if name.lower() in ("authorization", "cookie")]
        if seen.host == "b.test":
            assert sent == []
        elif seen.target != "/robots.txt":
            assert sent == ["A", "B", "c=1"]


@pytest.mark.parametrize("name", ["User-Agent", "host", "FROM"])
def test_i10_our_own_headers_cannot_be_set(site: Site, crawl: Crawl, name: str) -> None:
    ran = crawl(site, site.url("a.test"), "--header", f"{name}: Mozilla/5.0")
    assert ran.code == 78
    assert site.requests == []


def test_a_written_authorization_is_an_identity_of_its_own(site: Site, crawl: Crawl, tmp_path: Path) -> None:
    site.robots("a.test", "User-agent: *\nDisallow: /\n")
    site.page("a.test", "/", f'<a href="/b">b</a><a href="{site.url("b.test")}">x</a>')
    site.page("a.test", "/b", "b")
    site.page("b.test", "/", "b")
    file = authorization(tmp_path)
    typed = ("--ignore-robots", "--authorization", str(file), "--scope", "any", "--contact", "me@example.org")
    ran = crawl(site, site.url("a.test"), *typed)
    assert ran.code == 0, ran.stderr
    # the scope is cut to the hosts named, and no rules are asked for
    assert [(seen.host, seen.target) for seen in site.requests] == [("a.test", "/"), ("a.test", "/b")]
    for seen in site.requests:
        assert seen.header("user-agent") == f"mannerly-authorized/{__version__} (+me@example.org)"
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    for record in ran.records:
        assert record["identity"] == "mannerly-authorized"
        assert record["authorization"] == digest


@pytest.mark.parametrize(
    "changed",
    [
        {"until": YESTERDAY},
        {"hosts": '["b.test"]'},
        {"hosts": "[]"},
        {"hosts": None},
        {"who": None},
        {"until": None},
        {"signed_by": None},
        {"signed_by": '" "'},
        {"who": "not TOML at all ="},
    ],
    ids=str,
)
def test_an_authorization_that_does_not_hold_is_refused(
    site: Site, crawl: Crawl, tmp_path: Path, changed: dict[str, str | None]
) -> None:
    file = authorization(tmp_path, **changed)
    ran = crawl(site, site.url("a.test"), "--ignore-robots", "--authorization", str(file))
    assert ran.code == 78
    assert "hint:" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert site.requests == []
    assert not crawl.state.exists()


@pytest.mark.parametrize("typed", [("--ignore-robots",), ("--authorization", "authorization.toml")])
def test_ignoring_rules_takes_both_options(
    site: Site, crawl: Crawl, tmp_path: Path, typed: tuple[str, ...]
) -> None:
    authorization(tmp_path)
    assert crawl(site, site.url("a.test"), *typed).code == 78
    assert site.requests == []


def test_a_page_cannot_make_us_say_anything_else(site: Site, crawl: Crawl) -> None:
    site.route(
        "a.test",
        "/",
        Reply(
            body='<a href="/b">b</a>',
            headers=(("Accept-CH", "Sec-CH-UA"), ("Set-Cookie", "a=1"), ("Alt-Svc", 'h2=":1"')),
        ),
    )
    site.page("a.test", "/b", "b")
    assert crawl(site, site.url("a.test")).code == 0
    page, again = (seen for seen in site.requests if seen.target != "/robots.txt")
    assert page.headers == again.headers
