"""Other people's robots.txt vectors: Google's parser, crawler-commons, RFC 9309 edges, real files, fetch outcomes."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest

from mannerly.model.origin import Access, OriginRecord
from mannerly.policy.access import (
    Arrival,
    FollowRedirect,
    RobotsAnswer,
    Standing,
    in_force,
    judge,
    settle,
    verdict,
)
from mannerly.policy.robots import Matcher, parse

if TYPE_CHECKING:
    from pathlib import Path

Row = dict[str, Any]

JUDGED_WRONG = {
    # RFC 9309, 2.2.2: "the match that has the most octets" decides: `Disallow: /*` has two, `Allow: /` one. The
    # row expects Google's private habit of reading `Allow: /index.html` as `Allow: /$` too (as in g079, google_only).
    "c357",
}


def rows(shared: Path, name: str) -> list[Row]:
    # Not splitlines(): U+2028 inside a string is no end of line in JSONL.
    text = (shared / "conformance" / "robots" / name).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.split("\n") if line]


def body_of(row: Row) -> bytes:
    if "robots_txt_base64" in row:
        return base64.b64decode(row["robots_txt_base64"])
    parts = row.get("robots_txt_parts") or [{"text": row["robots_txt"]}]
    return "".join(part["text"] * part.get("repeat", 1) for part in parts).encode("utf-8", "surrogatepass")


def path_query(url: str) -> str:
    after_host = re.search(r"[/?#].*|$", url.partition("://")[2], re.DOTALL)
    assert after_host is not None
    return after_host[0]


def token_of(row: Row) -> str:
    agent: str | list[str] = row["user_agent"]
    return agent if isinstance(agent, str) else (agent or ["nobody"])[0]


def wrong(row: Row, body: bytes) -> str | None:
    """Return how our reading differs from the row's, None if it does not."""
    ruleset = parse(body, token_of(row))
    got: object
    expected: object
    if "url" in row:
        got, expected = Matcher(ruleset).allows(path_query(row["url"])), row["allowed"]
    elif "sitemaps" in row:
        got, expected = list(ruleset.sitemaps), row["sitemaps"]
    elif "sitemap_count" in row:
        got, expected = len(ruleset.sitemaps), row["sitemap_count"]
    else:
        asked_ms = row["crawl_delay_ms"]
        got, expected = ruleset.crawl_delay_s, None if asked_ms is None else asked_ms / 1000
    return None if got == expected else f"{row.get('id', row.get('file'))}: {got}, expected {expected}"


def assert_all_right(selected: list[Row], at_least: int) -> None:
    assert len(selected) >= at_least, "the selection lost rows"
    kept = [row for row in selected if row["id"] not in JUDGED_WRONG]
    assert [fault for row in kept if (fault := wrong(row, body_of(row)))] == []


def test_google_rows_that_agree_with_the_rfc(shared: Path) -> None:
    table = rows(shared, "google_robotstxt.jsonl")
    assert_all_right([row for row in table if row["rfc9309"] not in {"google_only", "differs"}], 125)


def test_crawler_commons_core_rows(shared: Path) -> None:
    table = rows(shared, "crawler_commons_robots.jsonl")
    assert_all_right([row for row in table if row["kind"] == "core"], 312)


def test_rows_judged_wrong_still_differ(shared: Path) -> None:
    table = rows(shared, "crawler_commons_robots.jsonl")
    judged = [row for row in table if row["id"] in JUDGED_WRONG]
    assert len(judged) == len(JUDGED_WRONG)
    assert all(wrong(row, body_of(row)) for row in judged), "a row that agrees needs no exception"


def test_rfc_9309_edges(shared: Path) -> None:
    table = rows(shared, "rfc9309_edge.jsonl")
    assert_all_right([row for row in table if row.get("strength") != "contested"], 102)


@pytest.mark.slow
def test_decisions_on_real_files(shared: Path) -> None:
    by_file: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows(shared, "real_expected.jsonl"):
        by_file[row["file"]].append(row)
    assert len(by_file) > 150
    faults = []
    for name, cases in by_file.items():
        body = (shared / "conformance" / "robots" / "real" / name).read_bytes()
        faults += [fault for row in cases if (fault := wrong(row, body))]
    assert faults == []


# fetch_outcomes: each step is one answer; the file it serves, where it does, forbids /a and nothing else.

B03_OVERRULES = {"f010"}
"""A redirect to a private address: the row says "allow all"; bug report B03 asks for a retry, and nothing allowed."""


def answer_of(step: Row, hops: int) -> RobotsAnswer:
    if "error" in step:
        blocked = step["error"] == "ssrf_blocked"
        return RobotsAnswer(
            arrival=Arrival.ADDRESS_REFUSED if blocked else Arrival.FAILED, failure=step["error"], hops=hops
        )
    headers = step.get("headers", {})
    location = headers.get("location", "")
    body = (
        gzip.compress(step["body_gzip_of"].encode())
        if "body_gzip_of" in step
        else step.get("body", "").encode()
    )
    if headers.get("content-encoding") == "gzip" and body.startswith(b"\x1f\x8b"):
        body = gzip.decompress(body)  # the worker's part: codings it is told of, and only if they are there
    max_age = re.search(r"max-age=(\d+)", headers.get("cache-control", ""))
    retry_after = headers.get("retry-after")
    return RobotsAnswer(
        status=step["status"],
        hops=hops,
        location_ok=location.startswith(("/", "http://", "https://")),
        target_refused="127.0.0.1" in location,
        ruleset=parse(body, content_type=headers.get("content-type", ""))
        if step["status"] // 100 == 2
        else None,
        max_age_s=float(max_age[1]) if max_age else None,
        retry_after_s=float(retry_after) if retry_after else None,
    )


def crawl_robots(row: Row) -> tuple[OriginRecord, float, int]:
    """Answer requests for robots.txt with the row's steps until no more are asked for; return record, instant, requests."""
    record = OriginRecord("http://h.test")
    if row["expect"] == "use_cached" and row["robots_fetch"][0].get("status") == 304:
        first = RobotsAnswer(status=200, ruleset=parse(b"User-agent: *\nDisallow: /a\n"))
        result = judge(first)
        assert not isinstance(result, FollowRedirect)
        record = settle(record, first, result, now=0.0)
    now, hops, requests = 0.0, 0, 0
    for step in row["robots_fetch"]:
        now += step.get("after_hours", 0) * 3600.0
        answer = answer_of(step, hops)
        judged = judge(answer)
        requests += 1
        if isinstance(judged, FollowRedirect):
            hops = judged.hops
            continue
        record, hops = settle(record, answer, judged, now=now), 0
        if not any("after_hours" in later for later in row["robots_fetch"]):
            break
    return record, now, requests


def outcome(record: OriginRecord, now: float) -> str:
    a = verdict(record, None, "/a", now).allowed
    b = verdict(record, None, "/b", now).allowed
    return {(True, True): "allow_all", (False, True): "obey", (False, False): "disallow_all"}[a, b]


def acceptable(expect: str) -> set[str]:
    if expect.startswith("disallow_all"):
        return {"disallow_all"}
    if expect == "use_cached":
        return {"obey"}
    names = {"use_cached": "obey", "obey": "obey", "allow_all": "allow_all"}
    return {names[word] for word in re.findall(r"use_cached|obey|allow_all", expect)}


def test_fetch_outcomes(shared: Path) -> None:
    table = rows(shared, "fetch_outcomes.jsonl")
    assert len(table) >= 49
    faults = []
    for row in table:
        record, now, requests = crawl_robots(row)
        expected = {"disallow_all"} if row["id"] in B03_OVERRULES else acceptable(row["expect"])
        if (got := outcome(record, now)) not in expected or requests > 6:
            faults.append(f"{row['id']}: {got} after {requests} requests, expected {expected}")
        standing = in_force(record, now)
        if row["expect"] == "obey_and_refetch_within_24h":
            assert not in_force(record, 24 * 3600.0 - 1).fetch_due
            assert in_force(record, 24 * 3600.0).fetch_due
        if row["expect"] == "disallow_all_and_back_off":
            asked_s = float(row["robots_fetch"][0].get("headers", {}).get("retry-after", 0))
            assert record.access is Access.UNREACHABLE
            assert standing.standing is Standing.FORBID_ALL
            assert record.expires_at >= now + asked_s
    assert faults == []
