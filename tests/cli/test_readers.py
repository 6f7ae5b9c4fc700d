"""`why`, `report`, `fetch`, `shell` and `doctor` as they are run: in processes of their own, against a loopback site."""

from __future__ import annotations

import json
import resource
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest

from mannerly.testing.site import Site

pytestmark = [pytest.mark.slow, pytest.mark.outside]

Done = subprocess.CompletedProcess[str]

HOME = """<title>A \u202e\x1b[31m</title><h1>Red <b>apples</b></h1><img src="a.png">
<a href="/b?x=2&amp;y=1">b</a> <a href="/private/x">p</a> <a href="http://o.test/">o</a> <a href="/old">r</a>
<a href="/a/a/a/">t</a> <a href="/gone">g</a> <a href="/n" rel="nofollow">n</a>"""


class Command(Protocol):
    """What the fixture `mannerly` is."""

    def __call__(self, *arguments: str, cwd: Path | None = None, stdin: str = "") -> Done: ...

    def start(self, *arguments: str, cwd: Path | None = None) -> subprocess.Popen[str]: ...


def furnish(site: Site) -> None:
    """Put up a site that gives one URL of each fate."""
    site.robots("a.test", "User-agent: *\nDisallow: /private\nSitemap: http://a.test/map.xml\n")
    site.page("a.test", "/", HOME)
    site.page("a.test", "/b", "<p>b")
    site.redirect("a.test", "/old", "/new")
    site.redirect("a.test", "/old-private", "/private/y")
    site.page("a.test", "/new", "<p>new")
    site.page("a.test", "/503", "<p>busy", status=503)
    site.page("c.test", "/robots.txt", "<p>busy", status=503)


@dataclass(frozen=True, slots=True)
class Crawled:
    """A crawl that has ended."""

    site: Site
    folder: Path
    mannerly: Command

    def why(self, path: str, *options: str) -> Done:
        url = path if "://" in path else self.site.url("a.test", path)
        return self.mannerly("why", url, *options, cwd=self.folder)

    def json_of(self, path: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.why(path, "--json").stdout)
        return found

    def once(self, command: str, path: str, *options: str, host: str = "a.test", stdin: str = "") -> Done:
        """Run `fetch` or `shell` without a delay."""
        site = self.site
        return self.mannerly(
            command, site.url(host, path), "--delay", "0", *site.resolve_args(), *options, stdin=stdin
        )


@pytest.fixture(scope="module")
def crawled(mannerly: Command, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crawled]:
    folder = tmp_path_factory.mktemp("readers")
    with Site() as site:
        furnish(site)
        done = mannerly(
            "crawl",
            site.url("a.test"),
            "--delay",
            "0",
            "-o",
            "p.jsonl",
            "-q",
            *site.resolve_args(),
            cwd=folder,
        )
        assert done.returncode == 0, done.stderr
        yield Crawled(site, folder, mannerly)


# ------------------------------------------------------------------------------------------------------------- why


def test_why_answers_for_each_fate_with_its_exit_code(crawled: Crawled) -> None:
    for path, verdict, code, reason in [
        ("/", "fetched", 0, None),
        ("/private/x", "refused", 1, "robots-disallowed"),
        ("http://o.test/", "refused", 1, "out-of-scope"),
        ("/a/a/a/", "refused", 1, "repeated-segments"),
        ("/n", "refused", 1, "nofollow"),
        ("/gone", "failed", 1, "http-error"),
        ("/never", "never-seen", 3, None),
    ]:
        done = crawled.why(path, "--json")
        found = json.loads(done.stdout)
        assert (found["verdict"], done.returncode, found["reason"]) == (verdict, code, reason), done.stdout


def unread(crawled: Crawled, *arguments: str) -> tuple[int, str]:
    """Run a command whose stdout nobody reads; return the exit code and what it said on stderr."""
    with crawled.mannerly.start(*arguments, cwd=crawled.folder) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        complaint = process.stderr.read()
    return process.returncode, complaint


@pytest.mark.parametrize(("path", "code"), [("/", 0), ("/private/x", 1), ("/never", 3)])
def test_a_reader_that_leaves_early_changes_no_verdict(crawled: Crawled, path: str, code: int) -> None:
    assert unread(crawled, "why", crawled.site.url("a.test", path)) == (code, "")


@pytest.mark.parametrize("command", ["report", "doctor"])
def test_a_report_that_nobody_reads_ends_in_peace(crawled: Crawled, command: str) -> None:
    assert unread(crawled, command) == (0, "")


def test_why_finds_a_host_and_a_path_of_the_crawl(crawled: Crawled) -> None:
    for text, path, code in [("a.test", "/", 0), ("gone", "/gone", 1), ("a.test/never", "/never", 3)]:
        done = crawled.mannerly("why", text, cwd=crawled.folder)
        assert done.returncode == code, done.stdout
        assert f"{text} names no scheme: taken as {crawled.site.url('a.test', path)}" in done.stdout


def test_why_tells_what_it_rests_on(crawled: Crawled) -> None:
    moved = crawled.json_of("/old")
    assert moved["redirect"]["url"].endswith("/new")
    assert moved["redirect"]["redirected_from"] == [crawled.site.url("a.test", "/old")]
    found = crawled.json_of("/b?y=1&x=2")
    assert found["url"].endswith("/b?x=2&y=1")
    assert found["spelled"].endswith("/b?y=1&x=2")
    assert (found["status"], found["depth"], found["via"]) == (200, 1, crawled.site.url("a.test"))
    assert found["crawl"]["running"] is None


def test_why_tells_a_person_the_same(crawled: Crawled) -> None:
    shown = crawled.why("/private/x").stdout
    assert shown.startswith("refused  http://a.test:")
    assert "robots-disallowed: robots.txt disallows the URL" in shown
    assert "by the line Disallow: /private" in shown


def test_why_takes_less_than_a_second_of_processor_time(crawled: Crawled) -> None:
    crawled.why("/")  # compiles the modules once
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    crawled.why("/")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 1.0


def test_a_waiting_url_waits_while_the_crawl_runs_and_after(mannerly: Command, tmp_path: Path) -> None:
    with Site() as site:
        site.page("a.test", "/", '<a href="/1">1</a><a href="/2">2</a><a href="/3">3</a>')
        for number in (1, 2, 3):
            site.page("a.test", f"/{number}", "<p>late")
        crawl = mannerly.start(
            *("crawl", site.url("a.test"), "--delay", "20", "-q", *site.resolve_args()), cwd=tmp_path
        )
        try:
            # the home page follows robots.txt by 20 s; until then it waits
            until = time.monotonic() + 60
            while not site.requests and time.monotonic() < until:
                time.sleep(0.05)
            during = mannerly("why", site.url("a.test"), "--json", cwd=tmp_path)
            standing = json.loads(mannerly("report", "--json", cwd=tmp_path).stdout)
        finally:
            crawl.terminate()
            crawl.communicate(timeout=60)
        found = json.loads(during.stdout)
        assert (found["verdict"], during.returncode) == ("waiting", 0)
        assert found["crawl"]["running"] == standing["running"] == crawl.pid
        after = mannerly("why", site.url("a.test"), cwd=tmp_path)
        assert after.returncode == 0
        assert "no crawl is running" in after.stdout


def test_a_reader_without_a_state_folder_says_what_to_name(mannerly: Command, tmp_path: Path) -> None:
    for command in (["why", "http://a.test/"], ["report"]):
        done = mannerly(*command, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (2, "")
        assert "--state DIR" in done.stderr
        named = mannerly(*command, "--state", "nowhere", cwd=tmp_path)
        assert (named.returncode, named.stdout) == (78, "")
        assert "hint: " in named.stderr


# ---------------------------------------------------------------------------------------------------------- report


def test_report_tells_totals_reasons_samples_and_sinks(crawled: Crawled) -> None:
    done = crawled.mannerly("report", "--json", cwd=crawled.folder)
    found = json.loads(done.stdout)
    assert done.returncode == 0
    assert (found["pages"], found["waiting"], found["hosts"], found["runs"]) == (3, 0, 1, 1)
    assert (found["running"], found["clean"], found["finished"]) == (None, True, True)
    settled = {line["result"]: line for line in found["settled"]}
    assert {name: line["number"] for name, line in settled.items()} == {
        "fetched": 3,
        "redirected": 1,
        "http-error": 1,
    }
    assert settled["http-error"]["samples"] == [
        {"url": crawled.site.url("a.test", "/gone"), "evidence": "HTTP 404"}
    ]
    refused = {line["reason"]: line for line in found["refused"]}
    assert set(refused) == {"out-of-scope", "repeated-segments", "robots-disallowed", "nofollow"}
    assert refused["out-of-scope"]["samples"][0]["url"] == "http://o.test/"
    assert found["robots_by_access"] == {"available": 1}
    assert found["sitemaps"] == ["http://a.test/map.xml"]
    assert found["hosts_by_state"] == {"exhausted": 1}
    (sink,) = found["sinks"]
    assert sink["behind"] is False
    assert found["journal_bytes"] == sum(path.stat().st_size for path in crawled.folder.glob("*/journal/*"))


def test_report_is_plain_text_where_there_is_no_terminal(crawled: Crawled) -> None:
    shown = crawled.mannerly("report", cwd=crawled.folder).stdout
    assert "how URLs ended" in shown
    assert "robots-disallowed" in shown
    assert "\x1b" not in shown


# ----------------------------------------------------------------------------------------------------------- fetch


def test_fetch_prints_the_record_and_leaves_nothing(crawled: Crawled) -> None:
    before = set(crawled.folder.iterdir())
    crawled.site.forget()
    done = crawled.once("fetch", "/", "--links", "--select", "title=h1")
    record = json.loads(done.stdout)
    assert done.returncode == 0, done.stderr
    assert (record["status"], record["fields"]) == (200, {"title": "Red apples"})
    assert crawled.site.url("a.test", "/b?x=2&y=1") in record["links"]
    assert "\x1b" not in done.stdout
    assert "\u202e" not in done.stdout
    assert crawled.site.paths("a.test") == ["/robots.txt", "/"]
    assert set(crawled.folder.iterdir()) == before


def test_fetch_follows_a_redirect_as_a_url_of_its_own(crawled: Crawled) -> None:
    record = json.loads(crawled.once("fetch", "/old").stdout)
    assert record["url"].endswith("/new")
    assert record["redirected_from"] == [crawled.site.url("a.test", "/old")]


@pytest.mark.parametrize(
    ("host", "path", "said"),
    [
        ("a.test", "/private/x", "Disallow: /private"),
        ("a.test", "/old-private", "robots-disallowed"),
        ("a.test", "/503", "HTTP 503"),
        ("c.test", "/", "robots.txt cannot be read (status 503)"),
    ],
)
def test_fetch_says_why_there_is_no_page(crawled: Crawled, host: str, path: str, said: str) -> None:
    done = crawled.once("fetch", path, host=host)
    assert (done.returncode, done.stdout) == (1, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_fetch_prints_an_error_page_and_ends_with_1(crawled: Crawled) -> None:
    done = crawled.once("fetch", "/gone")
    assert (done.returncode, json.loads(done.stdout)["status"]) == (1, 404)
    assert "status 404" in done.stderr


def test_fetch_of_a_public_host_needs_a_contact(mannerly: Command) -> None:
    done = mannerly("fetch", "http://public.example/")
    assert done.returncode == 78
    assert "mannerly fetch http://public.example/ --contact" in done.stderr


# ----------------------------------------------------------------------------------------------------------- shell


def test_shell_answers_piped_lines_without_a_prompt(crawled: Crawled) -> None:
    crawled.site.forget()
    lines = "h1\nimg::attr(src)\nxpath //h1/b/text()\nh1[\n:links\n:quit\nh1\n"
    done = crawled.once("shell", "/", stdin=lines)
    assert done.returncode == 0, done.stderr
    shown = done.stdout.splitlines()
    assert shown[:3] == ["Red apples", "a.png", "apples"]
    assert crawled.site.url("a.test", "/n") in shown[3:]
    assert "Red apples" not in shown[3:]
    assert "error: no CSS selector" in done.stderr
    assert crawled.site.paths("a.test") == ["/robots.txt", "/"]


# ---------------------------------------------------------------------------------------------------------- doctor


def test_doctor_finds_this_machine_fit(mannerly: Command, tmp_path: Path) -> None:
    done = mannerly("doctor", "--state", str(tmp_path), cwd=tmp_path)
    lines = {line[6:17].strip(): line[:4].strip() for line in done.stdout.splitlines() if line[:4].strip()}
    for name in ("python", "libraries", "libcurl", "sqlite", "folder", "clock", "lock", "worker", "resolver"):
        assert lines[name] == "ok", done.stdout
    assert not list(tmp_path.iterdir())


def test_doctor_fails_with_a_hint(mannerly: Command, tmp_path: Path) -> None:
    (tmp_path / "crawl.toml").write_text("[politness]\nmin_delay_s = 1\n")
    done = mannerly("doctor", "--config", "crawl.toml", "--name", "nowhere.invalid", cwd=tmp_path)
    assert done.returncode == 1
    assert "fail  config" in done.stdout
    assert "hint: did you mean" in done.stdout
    assert "fail  resolver" in done.stdout
