"""What `why` finds in a state made by hand: each state, and the verdict worked out again for what is not stored."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mannerly.cli.assemble import reading
from mannerly.cli.finding import Finding, Found, find_out, robots_view
from mannerly.cli.job import scope_text
from mannerly.cli.meaning import meant, schemeless
from mannerly.cli.reader import Stored, stored_job
from mannerly.cli.why import facts_of, notes_on
from mannerly.model import url as urls
from mannerly.model.config import BudgetConfig, Config, FetchConfig, IdentityConfig
from mannerly.model.host import Addresses, Pace, QueueState, WaitCause
from mannerly.model.origin import Access, OriginRecord, Ruleset
from mannerly.model.task import UrlState
from mannerly.model.verdict import Reason
from mannerly.policy.scope import Scope, ScopeKind
from mannerly.policy.templates import template_of
from mannerly.ports import Admission, Batch, CrawlRecord, HostChange, PageRow, Refusal, UrlChange, UrlId
from mannerly.store.sqlite import SqliteStore

NOW = 2_000_000_000.0
SECRET = 7
ORIGIN = "http://a.test"
CONFIG = Config(identity=IdentityConfig(contact="me@x.test"))
RULES = Ruleset(rules=((False, "/private"), (True, "/private/open")))


@dataclass(slots=True)
class Made:
    """A crawl of http://a.test/ that a test fills."""

    store: SqliteStore
    record: CrawlRecord

    def stored(self) -> Stored:
        job = stored_job(self.record)
        return Stored(
            folder=Path("crawl-a.test"),
            record=self.record,
            job=job,
            intake=reading.intake(job, self.record, self.store),
            store=self.store,
            pid=None,
        )

    async def find(self, text: str) -> Finding:
        return await find_out(self.stored(), text, NOW)

    async def admit(self, href: str, *, chain: tuple[str, ...] = ()) -> UrlId:
        url = urls.parse(href)
        hash_ = urls.key_hash(url.key, SECRET)
        admission = Admission(
            host=url.host,
            hash=hash_,
            key=url.key,
            href=url.href,
            template=template_of(url.key),
            band=1,
            depth=1,
            budget=1_000,
            chain=chain,
        )
        await self.store.commit(Batch(admissions=[admission]))
        host = await self.store.host(url.host)
        assert host is not None
        return UrlId(host.id, hash_)

    async def settle(self, href: str, state: UrlState, *, chain: tuple[str, ...] = (), **change: Any) -> None:
        id_ = await self.admit(href, chain=chain)
        await self.store.commit(Batch(urls=[UrlChange(id=id_, state=state, attempts=1, **change)]))

    async def host(self, **change: Any) -> None:
        plain = HostChange(
            name="a.test",
            state=QueueState.READY,
            next_ok_at=0.0,
            cause=WaitCause.DELAY,
            pace=Pace(),
            addresses=Addresses(),
            contacted_at=0.0,
        )
        await self.store.commit(Batch(hosts=[replace(plain, **change)]))

    async def robots(self, **change: Any) -> None:
        plain = OriginRecord(
            ORIGIN,
            access=Access.AVAILABLE,
            ruleset=RULES,
            fetched_at=NOW - 60,
            rules_expire_at=NOW + 3_600,
            expires_at=NOW + 3_600,
            detail="status 200",
        )
        await self.store.commit(Batch(origins=[msgspec.structs.replace(plain, **change)]))


async def make(config: Config = CONFIG, kind: ScopeKind = ScopeKind.HOST, **scope: Any) -> Made:
    store = SqliteStore(":memory:")
    wanted = CrawlRecord(
        id="c1",
        secret=SECRET,
        seeds=("http://a.test/",),
        scope=scope_text(Scope.of(kind, [urls.parse("http://a.test/")], **scope)),
        configuration=json.dumps(msgspec.to_builtins(config)),
    )
    return Made(store, await store.open_crawl(wanted))


@pytest.fixture
async def made() -> AsyncIterator[Made]:
    crawl = await make()
    yield crawl
    await crawl.store.close()


# ------------------------------------------------------------------------------------------------- what is stored


async def test_a_fetched_url_tells_when_and_how(made: Made) -> None:
    id_ = await made.admit("http://a.test/x?b=2&a=1")
    page = PageRow(id_, 200, NOW - 5, "", "", None, "", "", frame=-1)
    await made.store.commit(Batch(urls=[UrlChange(id_, UrlState.FETCHED, attempts=1)], pages=[page]))
    found = await made.find("http://a.test/x?b=2&a=1")
    assert (found.verdict, found.exit_code, found.allowed) == (Found.FETCHED, 0, True)
    assert (found.status, found.fetched_at, found.attempts) == (200, "2033-05-18T03:33:15.000Z", 1)
    assert (found.depth, found.template, found.spelled) == (1, "/{}?a={n}&b={n}", None)


async def test_another_spelling_is_the_same_url_and_the_one_fetched_is_named(made: Made) -> None:
    await made.settle("http://a.test/x?b=2&a=1", UrlState.FETCHED)
    found = await made.find("HTTP://A.test:80/./x?utm_source=z&a=1&b=2#top")
    assert found.verdict is Found.FETCHED
    assert found.url == "http://a.test/x?b=2&a=1"
    assert found.spelled == "http://a.test/x?utm_source=z&a=1&b=2"
    assert ("asked as", found.spelled) in facts_of(found)


async def test_a_waiting_url_tells_until_when_its_host_is_left_alone(made: Made) -> None:
    await made.admit("http://a.test/x")
    await made.host(next_ok_at=NOW + 90, cause=WaitCause.RETRY_AFTER)
    found = await made.find("http://a.test/x")
    assert (found.verdict, found.exit_code, found.due_at) == (Found.WAITING, 0, "2033-05-18T03:34:50.000Z")
    assert found.host is not None
    assert found.host.cause == "retry-after"
    assert "no crawl is running" in notes_on(found, made.stored(), await made.store.counts())[0]


async def test_a_delayed_url_tells_what_its_last_attempt_came_to(made: Made) -> None:
    await made.settle("http://a.test/x", UrlState.DELAYED, detail="HTTP 503", due_at=NOW + 30)
    found = await made.find("http://a.test/x")
    assert (found.verdict, found.state, found.evidence) == (Found.WAITING, "delayed", "HTTP 503")
    assert found.due_at == "2033-05-18T03:33:50.000Z"


@pytest.mark.parametrize("state", [QueueState.PARKED, QueueState.RETIRED])
async def test_a_url_of_a_host_laid_off_waits_for_the_next_run_with_the_hosts_reason(
    made: Made, state: QueueState
) -> None:
    await made.admit("http://a.test/x")
    await made.host(state=state, reason=Reason.CRAWL_DELAY_TOO_LONG, detail="Crawl-delay: 9999")
    found = await made.find("http://a.test/x")
    assert (found.verdict, found.exit_code) == (Found.WAITING, 0)
    assert (found.reason, found.evidence) == ("crawl-delay-too-long", "Crawl-delay: 9999")
    assert found.host is not None
    assert found.host.state == state.name.lower()


@pytest.mark.parametrize("state", [UrlState.REFUSED, UrlState.FAILED])
async def test_a_url_that_ended_without_a_page_tells_its_reason(made: Made, state: UrlState) -> None:
    await made.settle("http://a.test/x", state, reason=Reason.TLS_FAILED, detail="expired")
    found = await made.find("http://a.test/x")
    assert (found.verdict, found.exit_code, found.allowed) == (Found(state.name.lower()), 1, False)
    assert (found.reason, found.evidence) == ("tls-failed", "expired")
    assert found.sentence == Reason.TLS_FAILED.sentence


@pytest.mark.parametrize(
    ("end", "code"),
    [(UrlState.FETCHED, 0), (UrlState.WAITING, 0), (UrlState.FAILED, 1), (UrlState.REFUSED, 1)],
)
async def test_a_redirect_counts_as_where_it_leads(made: Made, end: UrlState, code: int) -> None:
    await made.settle("http://a.test/1", UrlState.REDIRECTED, detail="http://a.test/2")
    await made.settle(
        "http://a.test/2", UrlState.REDIRECTED, detail="http://a.test/3", chain=("http://a.test/1",)
    )
    if end is UrlState.WAITING:
        await made.admit("http://a.test/3")
    else:
        await made.settle("http://a.test/3", end, reason=None if end is UrlState.FETCHED else Reason.GAVE_UP)
    found = await made.find("http://a.test/1")
    assert (found.verdict, found.exit_code) == (Found.REDIRECTED, code)
    assert found.redirect is not None
    assert found.redirect.redirected_from == ("http://a.test/1",)
    assert found.redirect.redirect is not None
    assert found.redirect.redirect.url == "http://a.test/3"


async def test_a_ring_of_redirects_ends(made: Made) -> None:
    await made.settle("http://a.test/1", UrlState.REDIRECTED, detail="http://a.test/2")
    await made.settle("http://a.test/2", UrlState.REDIRECTED, detail="http://a.test/1")
    assert (await made.find("http://a.test/1")).exit_code == 1


async def test_without_a_scheme_https_is_tried_and_then_http(made: Made) -> None:
    await made.settle("http://a.test/x", UrlState.FETCHED)
    assert (await made.find("a.test/x")).url == "http://a.test/x"
    await made.settle("https://a.test/x", UrlState.FAILED, reason=Reason.TLS_FAILED)
    assert (await made.find("a.test/x")).url == "http://a.test/x"
    await made.settle("https://a.test/y", UrlState.FETCHED)
    assert (await made.find("a.test/y")).url == "https://a.test/y"
    assert (await made.find("a.test/never")).url == "http://a.test/never"


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("a.test", "http://a.test:8123/"),
        ("A.test/x", "http://a.test:8123/x"),
        ("a.test:8123/x", "http://a.test:8123/x"),
        ("a.test:99/x", "https://a.test:99/x"),
        ("other.test/x", "https://other.test/x"),
        ("localhost/x", "https://localhost/x"),
        ("part-0/page-7.html", "http://a.test:8123/part-0/page-7.html"),
        ("/part-0/", "http://a.test:8123/part-0/"),
        ("page.html", "http://a.test:8123/page.html"),
        ("a b", "http://a.test:8123/a%20b"),
        ("?x=1", "http://a.test:8123/docs/?x=1"),
        ("http://a.test/x", "http://a.test/x"),
        ("//a.test/x", "http://a.test:8123/x"),
    ],
)
def test_a_host_or_a_path_is_looked_for_at_the_seeds(text: str, url: str) -> None:
    seeds = (urls.parse("http://a.test:8123/docs/"),)
    assert meant(text, seeds)[0].href == url


@pytest.mark.parametrize("text", ["", " ", "mailto:me@a.test", "me:word@a.test", "http://"])
def test_what_is_no_url_is_no_path_either(text: str) -> None:
    assert not meant(text, (urls.parse("http://a.test/"),))
    assert not schemeless(text)


async def test_of_what_a_text_may_mean_the_url_of_the_crawl_is_told(made: Made) -> None:
    await made.settle("http://a.test/b.test", UrlState.FETCHED)
    found = await made.find("b.test")
    assert (found.url, found.verdict) == ("http://a.test/b.test", Found.FETCHED)
    notes = notes_on(found, made.stored(), await made.store.counts())
    assert notes[0] == "b.test names no scheme: taken as http://a.test/b.test"
    never = await made.find("part-0/page-7.html")
    assert (never.url, never.verdict) == ("http://a.test/part-0/page-7.html", Found.NEVER_SEEN)


# ----------------------------------------------------------------------------------------------- what is not stored


@pytest.mark.parametrize(
    ("text", "reason", "evidence"),
    [
        ("http://a.test/ok", None, None),
        ("http://b.test/", "out-of-scope", "b.test (host scope)"),
        ("http://a.test/x/x/x/", "repeated-segments", "/x 3 times in a row"),
        (f"http://a.test/{'x' * 2_000}", "url-too-long", "2014 characters"),
        ("http://a.test:22/", "port-refused", "22"),
        ("http://a.test/private/x", "robots-disallowed", "Disallow: /private"),
        ("http://a.test/private/open/x", None, None),
        ("http://user:word@a.test/ok", None, None),
        ("mailto:me@a.test", "unsupported-scheme", "mailto:"),
        ("http://", "invalid-url", "http://"),
        ("", "invalid-url", None),
    ],
)
async def test_the_verdict_on_a_url_never_seen_is_worked_out_again(
    made: Made, text: str, reason: str | None, evidence: str | None
) -> None:
    await made.robots()
    found = await made.find(text)
    assert (found.verdict, found.exit_code) == (Found.NEVER_SEEN, 3)
    assert (found.reason, found.evidence) == (reason, evidence)
    assert found.allowed is (reason is None)
    assert "word" not in found.url


@pytest.mark.parametrize(
    ("config", "scope", "reason"),
    [
        (CONFIG, {"excludes": ["/no"]}, "excluded"),
        (CONFIG, {"includes": ["/yes"]}, "not-included"),
        (CONFIG, {"authorized": ["b.test"]}, "not-authorized"),
        (replace(CONFIG, identity=IdentityConfig()), {}, "no-contact"),
        (replace(CONFIG, budget=BudgetConfig(max_depth=0)), {}, "max-depth"),
    ],
)
async def test_the_configuration_of_the_crawl_decides(
    config: Config, scope: dict[str, Any], reason: str
) -> None:
    crawl = await make(config, **scope)
    assert (await crawl.find("http://a.test/no")).reason == reason
    await crawl.store.close()


async def test_a_host_that_joined_the_scope_belongs_to_it(made: Made) -> None:
    await made.store.commit(Batch(joined_scope=["http://b.test/"]))
    record = await made.store.stored_crawl()
    assert record is not None
    assert (await Made(made.store, record).find("http://b.test/x")).allowed


async def test_a_private_host_may_have_any_port() -> None:
    config = Config(fetch=FetchConfig(resolve=("*.test=127.0.0.1",), allow_private_addresses=True))
    crawl = await make(config)
    assert (await crawl.find("http://a.test:8123/")).allowed
    await crawl.store.close()


async def test_a_full_host_takes_no_more() -> None:
    crawl = await make(replace(CONFIG, budget=BudgetConfig(urls_per_seed_host=1)))
    await crawl.admit("http://a.test/x")
    assert (await crawl.find("http://a.test/y")).reason == "host-budget"
    await crawl.store.close()


async def test_a_refused_candidate_is_refused_not_unseen(made: Made) -> None:
    await made.store.commit(Batch(refusals=[Refusal(Reason.NOFOLLOW, "http://a.test/n?b=1&a=2", "rel")]))
    found = await made.find("http://a.test/n?b=1&a=2")
    assert (found.verdict, found.exit_code, found.reason, found.evidence) == (
        Found.REFUSED,
        1,
        "nofollow",
        "rel",
    )


async def refuse(made: Made, hosts: Sequence[str]) -> None:
    refusals = [Refusal(Reason.OUT_OF_SCOPE, f"http://{host}/", f"host {host}") for host in hosts]
    await made.store.commit(Batch(refusals=refusals))


async def test_never_is_not_said_where_more_were_refused_than_are_remembered(made: Made) -> None:
    await refuse(made, [f"h{number}.test" for number in range(99)])
    assert (await made.find("http://b.test/")).exit_code == 3
    await refuse(made, [f"i{number}.test" for number in range(50)])
    found = await made.find("http://b.test/")
    assert (found.verdict, found.exit_code, found.reason, found.refused_alike) == (
        Found.REFUSED,
        1,
        "out-of-scope",
        149,
    )
    assert (await made.find("http://a.test/never")).exit_code == 3


# ------------------------------------------------------------------------------------------------------ robots.txt


@pytest.mark.parametrize(
    ("change", "path", "allowed", "rule", "expired"),
    [
        ({}, "/", True, None, False),
        ({}, "/private", False, "Disallow: /private", False),
        ({}, "/private/open", True, "Allow: /private/open", False),
        ({}, "/robots.txt", True, None, False),
        ({"expires_at": NOW - 1, "rules_expire_at": NOW - 1}, "/private", False, "Disallow: /private", True),
        (
            {"access": Access.UNAVAILABLE, "ruleset": None, "detail": "status 404"},
            "/private",
            True,
            None,
            False,
        ),
        ({"access": Access.UNREACHABLE, "ruleset": None, "detail": "status 503"}, "/", False, None, False),
        (
            {"access": Access.UNREACHABLE, "detail": "status 503"},
            "/private",
            False,
            "Disallow: /private",
            False,
        ),
        ({"ruleset": Ruleset(too_complex=True)}, "/", False, None, False),
    ],
)
def test_robots_txt_is_told_with_the_line_that_decides(
    change: dict[str, Any], path: str, allowed: bool, rule: str | None, expired: bool
) -> None:
    plain = OriginRecord(
        ORIGIN, access=Access.AVAILABLE, ruleset=RULES, rules_expire_at=NOW + 60, expires_at=NOW + 60
    )
    view = robots_view(msgspec.structs.replace(plain, **change), urls.parse(ORIGIN + path), NOW)
    assert (view.allowed, view.rule, view.expired) == (allowed, rule, expired)


def test_robots_txt_not_asked_for_says_so() -> None:
    view = robots_view(None, urls.parse(ORIGIN), NOW)
    assert (view.access, view.allowed, view.rule) == (None, None, None)
    assert ("robots.txt", f"{ORIGIN}/robots.txt was not asked for yet") in facts_of(
        Finding(asked="", url=ORIGIN, key=ORIGIN, verdict=Found.NEVER_SEEN, allowed=True, robots=view)
    )


async def test_under_an_authorization_robots_txt_does_not_decide() -> None:
    crawl = await make(replace(CONFIG, identity=IdentityConfig("me@x.test", True, "leave.toml")))
    await crawl.robots()
    found = await crawl.find("http://a.test/private")
    assert found.allowed
    assert found.robots is not None
    assert (found.robots.obeyed, found.robots.allowed) == (False, False)
    await crawl.store.close()


async def test_notes_tell_what_the_verdict_does_not(made: Made) -> None:
    await made.robots()
    await made.admit("http://a.test/private")
    counts = await made.store.counts()
    waiting = notes_on(await made.find("http://a.test/private"), made.stored(), counts)
    assert any("robots.txt, as it was read last, forbids it" in note for note in waiting)
    asked = notes_on(await made.find("http://a.test/robots.txt"), made.stored(), counts)
    assert any("asked for as the robots.txt" in note for note in asked)


async def test_a_spent_page_budget_is_why_urls_wait() -> None:
    crawl = await make(replace(CONFIG, budget=BudgetConfig(max_pages=1)))
    await crawl.admit("http://a.test/x")
    counts = replace(await crawl.store.counts(), pages=1)
    assert "the page budget is spent: --max-pages 1" in notes_on(
        await crawl.find("http://a.test/x"), crawl.stored(), counts
    )
    await crawl.store.close()
