"""Is a crawl complete? Compares mannerly's JSONL with what the independent walker found.

    python -m bench.complete --walk OUT.txt [--graph GRAPH.jsonl] [--state DIR] PAGES.jsonl

Both sides are reduced to the set of URLs in `bench.normal_form`'s form with status 200 and type text/html. Each
difference is listed under a reason that is worked out here, without mannerly's code:

    url-too-long, too-many-parameters, path-too-deep, repeated-segments    the documented shape limits
    tracking-parameters    without them it is a page that was crawled
    only past one of these       (--graph) no way leads there but through URLs that the limits above refuse
    only from pages cut short    (--graph) no way leads there but from pages whose record says `truncated`

What has none of these is unexplained, and the exit status is 1. With --state, `mannerly why` is asked about the
first unexplained ones: evidence for whoever judges them, never an explanation here.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from bench.normal_form import normal_form

MAX_LENGTH = 2000
MAX_SEGMENTS = 20
MAX_PARAMETERS = 20
REPEATED = re.compile(r"(?:^|/)((?:[^/]+/)*?[^/]+)/\1/\1(?=/|$)")
TRACKING = re.compile(
    r"utm_\w+|[gd]clid|fbclid|msclkid|_ga|_gl|mc_[ce]id|phpsessid|jsessionid", re.IGNORECASE
)
SHOWN = 5
ASKED = 10


@dataclass(frozen=True, slots=True)
class Crawl:
    """The crawl's side: HTML pages by normal form, pages cut short, lines that stand there twice."""

    pages: set[str]
    cut: set[str]
    via: dict[str, str]
    twice: list[str]
    records: int


def read_crawl(path: Path) -> Crawl:
    pages: set[str] = set()
    cut: set[str] = set()
    via: dict[str, str] = {}
    lines: Counter[str] = Counter()
    with path.open(encoding="utf-8") as rows:
        for row in rows:
            record = json.loads(row)
            url = normal_form(record["url"]) or record["url"]
            lines[url] += 1
            media_type = (record["content_type"] or "").partition(";")[0].strip().lower()
            if record["status"] == 200 and media_type == "text/html":
                pages.add(url)
                via[url] = record["via"] or "(seed)"
            if record["truncated"]:
                cut.add(url)
    twice = sorted(url for url, times in lines.items() if times > 1)
    return Crawl(pages, cut, via, twice, lines.total())


@dataclass(frozen=True, slots=True)
class Graph:
    """The walker's link graph: who leads where, by normal form, and where the walk began."""

    out: dict[str, list[str]] = field(default_factory=dict)
    seeds: list[str] = field(default_factory=list)
    answers: dict[str, str] = field(default_factory=dict)

    def reached(self, *, without: Collection[str], ends: Collection[str]) -> set[str]:
        """URLs that can be reached without entering those of `without` and without leaving those of `ends`."""
        reached = {seed for seed in self.seeds if seed not in without}
        waiting = list(reached)
        while waiting:
            url = waiting.pop()
            if url in ends:
                continue
            fresh = {target for target in self.out[url] if target not in reached and target not in without}
            reached |= fresh
            waiting += fresh
        return reached


def read_graph(path: Path) -> Graph:
    with path.open(encoding="utf-8") as lines:
        rows: list[dict[str, Any]] = [json.loads(line) for line in lines]
    urls = [row["url"] for row in rows]
    return Graph(
        out={row["url"]: [urls[target] for target in row["out"]] for row in rows},
        seeds=[row["url"] for row in rows if row["via"] is None],
        answers={row["url"]: f"{row['status']} {row['type']}".strip() for row in rows},
    )


def shape_reason(url: str) -> str | None:
    """The documented shape limit that `url` breaks, if any."""
    parts = urlsplit(url)
    path = parts.path.strip("/")
    if len(url) > MAX_LENGTH:
        return "url-too-long"
    if parts.query.count("&") >= MAX_PARAMETERS:
        return "too-many-parameters"
    if path.count("/") >= MAX_SEGMENTS:
        return "path-too-deep"
    return "repeated-segments" if REPEATED.search(path) else None


def without_tracking(url: str) -> str:
    parts = urlsplit(url)
    kept = [pair for pair in parts.query.split("&") if not TRACKING.fullmatch(pair.partition("=")[0])]
    return urlunsplit(parts._replace(query="&".join(kept)))


def missing_by_reason(
    missing: Iterable[str], *, walked: set[str], crawl: Crawl, graph: Graph | None
) -> dict[str, list[str]]:
    """Sort what the crawl lacks by reason; "" is the reason of the unexplained."""
    refused = {url for url in (graph.out if graph else walked) if shape_reason(url)}
    open_ways = graph.reached(without=refused, ends=()) if graph else walked
    whole_ways = graph.reached(without=refused, ends=crawl.cut) if graph else walked
    by_reason: defaultdict[str, list[str]] = defaultdict(list)
    for url in sorted(missing):
        reason = shape_reason(url)
        if reason is None and without_tracking(url) != url and without_tracking(url) in crawl.pages:
            reason = "tracking-parameters"
        if reason is None and url not in open_ways:
            reason = "only past one of these"
        if reason is None and url not in whole_ways:
            reason = "only from pages cut short"
        by_reason[reason or ""].append(url)
    return dict(by_reason)


def why(url: str, state: Path) -> str:
    """What `mannerly why` says of `url`, on one line."""
    asked = subprocess.run(
        [sys.executable, "-m", "mannerly", "why", url, "--json", "--state", str(state)],
        capture_output=True,
        text=True,
        check=False,
    )
    return " ".join((asked.stdout or asked.stderr).split())


def show(title: str, urls: list[str], note: dict[str, str]) -> None:
    print(f"  {len(urls):,} {title}")
    for url in urls[:SHOWN]:
        print(f"    {url}" + (f"  ({note[url]})" if url in note else ""))
    if len(urls) > SHOWN:
        print(f"    and {len(urls) - SHOWN:,} more")


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare a crawl with the independent walker.")
    parser.add_argument("pages", type=Path, metavar="PAGES.jsonl", help="what mannerly wrote with -o")
    parser.add_argument("--walk", type=Path, required=True, help="what the walker wrote with -o")
    parser.add_argument("--graph", type=Path, help="what the walker wrote with --graph")
    parser.add_argument("--state", type=Path, help="the crawl's state folder, to ask `mannerly why`")
    options = parser.parse_args()

    walked = set(options.walk.read_text(encoding="utf-8").split())
    graph = read_graph(options.graph) if options.graph else None
    crawl = read_crawl(options.pages)
    missing, extra = walked - crawl.pages, sorted(crawl.pages - walked)
    print(
        f"walker {len(walked):,} pages, crawl {len(crawl.pages):,} ({crawl.records:,} records), "
        f"both {len(walked & crawl.pages):,}"
    )
    by_reason = missing_by_reason(missing, walked=walked, crawl=crawl, graph=graph)
    unexplained = by_reason.pop("", [])
    for reason, urls in sorted(by_reason.items()):
        show(f"not crawled: {reason}", urls, {})
    if unexplained:
        asked = {url: why(url, options.state) for url in unexplained[:ASKED]} if options.state else {}
        show("not crawled, UNEXPLAINED", unexplained, asked)
    if extra:
        met = {url: f"via {crawl.via[url]}" for url in extra}
        for url in extra:
            if graph and url in graph.answers:
                met[url] += f"; the walker got {graph.answers[url]}"
        show("crawled but not walked, UNEXPLAINED", extra, met)
    if crawl.twice:
        show("more than once in the crawl's output", crawl.twice, {})
    return 1 if unexplained or extra or crawl.twice else 0


if __name__ == "__main__":
    sys.exit(main())
