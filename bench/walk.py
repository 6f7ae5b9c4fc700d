"""An independent walker: which pages can be reached on a host, worked out without a line of mannerly.

    python -m bench.walk --resolve 127.0.0.1:PORT -o OUT.txt [--graph GRAPH.jsonl] SEED...

HTML is parsed by html5lib (a plain implementation of the HTML standard), URLs are split by urllib, HTTP is the
standard library's. It is slow on purpose: it is the ruler, not the crawler. `bench/complete.py` compares.

What it follows: `href` of a and area (SVG's a too), `src` of iframe and frame, the URL of a meta refresh, redirects;
the first base element counts. Not followed: rel=nofollow, ugc, sponsored; anything on a page whose robots meta or
X-Robots-Tag (for all agents or for `mannerly`) says nofollow or none; other hosts (scope is the seeds' scheme, host
and port, and that of the address a seed redirects to).
robots.txt is not read: the corpus has none.

URLs are compared and printed in the normal form of `bench.normal_form`.

OUT has one URL a line, sorted: status 200 and Content-Type text/html. GRAPH has one JSON object a URL met in
scope: id, url, status, type, out (ids of what it links or redirects to), how it was first found.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import http.client
import json
import re
import sys
import time
import warnings
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import html5lib
from bench.normal_form import normal_form, resolved, target_of

AGENT = "mannerly-bench-walk/1 (independent check on loopback)"
UNFOLLOWED_RELATIONS = frozenset({"nofollow", "ugc", "sponsored"})
XLINK_HREF = "{http://www.w3.org/1999/xlink}href"
BATCH = 4


# --- pages ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Found:
    """A link: where it leads (as found, resolved), how it was written, the page's encoding."""

    url: str
    kind: str
    encoding: str


def forbids_following(values: Iterable[str]) -> bool:
    tokens = {token.strip().lower() for value in values for token in value.split(",")}
    return bool(tokens & {"nofollow", "none"})


def header_values(header: str) -> Iterator[str]:
    """The part of an X-Robots-Tag value that concerns everyone or mannerly: `agent: a, b` or `a, b`."""
    agent, colon, rest = header.partition(":")
    if not colon or agent.strip().lower() in ("max-snippet", "max-image-preview", "unavailable_after"):
        yield header
    elif agent.strip().lower() == "mannerly":
        yield rest


def references(root: Any) -> Iterator[tuple[str, str]]:
    """(kind, reference) of all that is followed in the tree, in document order."""
    for element in root.iter():
        tag = element.tag
        if not isinstance(tag, str):
            continue
        name = tag.rpartition("}")[2]
        if name in ("a", "area"):
            reference = element.get("href")
            if reference is None and tag.startswith("{http://www.w3.org/2000/svg}"):
                reference = element.get(XLINK_HREF)
            relations = set((element.get("rel") or "").lower().split())
            if reference is not None and not relations & UNFOLLOWED_RELATIONS:
                yield name, reference
        elif name in ("iframe", "frame") and (element.get("src") or "").strip():
            yield name, element.get("src")
        elif name == "meta" and (element.get("http-equiv") or "").lower() == "refresh":
            match = re.match(
                r"\s*\d[\d.]*\s*[;,]\s*(?:url\s*=\s*)?(.*)",
                element.get("content") or "",
                re.IGNORECASE | re.DOTALL,
            )
            if match:
                yield "refresh", match[1].strip().strip("'\"")


def links_of(url: str, body: bytes, *, charset: str | None, robots_headers: list[str]) -> list[Found]:
    """All links of a page, those it forbids to follow left out, doubles dropped."""
    parser = html5lib.HTMLParser(namespaceHTMLElements=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # html5lib warns of what etree cannot hold; links are not among it
        root = parser.parse(body, transport_encoding=charset)
    metas = [
        element.get("content") or ""
        for element in root.iter("meta")
        if (element.get("name") or "").strip().lower() in ("robots", "mannerly")
    ]
    if forbids_following(metas) or forbids_following(
        value for header in robots_headers for value in header_values(header)
    ):
        return []
    encoding = parser.documentEncoding or "utf-8"
    base = url
    for element in root.iter("base"):
        if element.get("href") is not None:
            base = resolved(url, element.get("href")) or url
            break
    found: dict[str, Found] = {}
    for kind, reference in references(root):
        target = resolved(base, reference)
        if target is not None and target not in found:
            found[target] = Found(target, kind, encoding)
    return list(found.values())


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back for one URL. `status` is 0 when nothing did; `trouble` then says what happened."""

    status: int
    media_type: str = ""
    links: list[Found] = field(default_factory=list)
    trouble: str = ""


class Fetcher:
    """One kept connection to one address; lives in a process of the pool."""

    def __init__(self, address: str, port: int) -> None:
        self._connection = http.client.HTTPConnection(address, port, timeout=60)

    def fetch(self, url: str, encoding: str) -> Answer:
        try:
            return self._exchange(url, encoding)
        except (OSError, http.client.HTTPException):
            self._connection.close()
        try:
            return self._exchange(url, encoding)
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            return Answer(0, trouble=repr(error))

    def _exchange(self, url: str, encoding: str) -> Answer:
        headers = {"Host": urlsplit(url).netloc, "User-Agent": AGENT, "Accept-Encoding": "identity"}
        self._connection.request("GET", target_of(url, encoding), headers=headers)
        with self._connection.getresponse() as response:
            body = response.read()
        media_type = response.headers.get_content_type() if response.headers.get("Content-Type") else ""
        if 300 <= response.status < 400 and response.headers.get("Location"):
            target = resolved(url, response.headers["Location"].encode("latin-1").decode("utf-8", "replace"))
            return Answer(response.status, media_type, [Found(target, "redirect", "utf-8")] if target else [])
        links: list[Found] = []
        if response.status == 200 and media_type in ("text/html", "application/xhtml+xml"):
            links = links_of(
                url,
                body,
                charset=response.headers.get_content_charset(),
                robots_headers=response.headers.get_all("X-Robots-Tag") or [],
            )
        return Answer(response.status, media_type, links)


_fetcher: Fetcher | None = None


def start_process(address: str, port: int) -> None:
    global _fetcher  # one connection a pool process; the pool offers no other place for it
    _fetcher = Fetcher(address, port)


def fetch_batch(batch: list[tuple[int, str, str]]) -> list[tuple[int, Answer]]:
    assert _fetcher is not None
    return [(number, _fetcher.fetch(url, encoding)) for number, url, encoding in batch]


# --- the walk -------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Node:
    """A URL in scope. `url` is its normal form; `spelling` what is fetched."""

    number: int
    url: str
    spelling: str
    encoding: str
    via: int | None
    kind: str
    status: int = -1
    media_type: str = ""
    trouble: str = ""
    out: list[int] = field(default_factory=list)


class Walk:
    """Everything met so far and what is still to be fetched; breadth first."""

    def __init__(self, seeds: list[str]) -> None:
        self.nodes: list[Node] = []
        self.waiting: deque[int] = deque()
        self.refused: dict[str, int] = {}
        self._by_url: dict[str, int] = {}
        self._origins = {urlsplit(normal_form(seed) or seed)[:2] for seed in seeds}
        for seed in seeds:
            self.admit(Found(seed, "seed", "utf-8"), via=None)

    def admit(self, found: Found, *, via: int | None) -> int | None:
        """The number of the node that `found` leads to; None when it is out of scope."""
        url = normal_form(found.url, found.encoding)
        if url is None:
            return None
        seed_redirect = found.kind == "redirect" and via is not None and self.nodes[via].kind == "seed"
        if seed_redirect:
            self._origins.add(urlsplit(url)[:2])
        if urlsplit(url)[:2] not in self._origins:
            self.refused["out of scope"] = self.refused.get("out of scope", 0) + 1
            return None
        known = self._by_url.get(url)
        if known is not None:
            return known
        number = len(self.nodes)
        kind = "seed" if seed_redirect else found.kind
        self.nodes.append(Node(number, url, found.url, found.encoding, via, kind))
        self._by_url[url] = number
        self.waiting.append(number)
        return number

    def settle(self, number: int, answer: Answer) -> None:
        node = self.nodes[number]
        node.status, node.media_type, node.trouble = answer.status, answer.media_type, answer.trouble
        targets = (self.admit(link, via=number) for link in answer.links)
        node.out = sorted({target for target in targets if target is not None})

    def batch(self) -> list[tuple[int, str, str]]:
        numbers = [self.waiting.popleft() for _ in range(min(BATCH, len(self.waiting)))]
        return [(number, self.nodes[number].spelling, self.nodes[number].encoding) for number in numbers]


def walk(seeds: list[str], *, address: str, port: int, processes: int) -> Walk:
    """Fetch all that can be reached from `seeds`; progress goes to stderr."""
    state = Walk(seeds)
    done, told_at = 0, time.monotonic()
    with concurrent.futures.ProcessPoolExecutor(
        processes, initializer=start_process, initargs=(address, port)
    ) as pool:
        running: set[concurrent.futures.Future[list[tuple[int, Answer]]]] = set()
        while state.waiting or running:
            while state.waiting and len(running) < processes * 3:
                running.add(pool.submit(fetch_batch, state.batch()))
            finished, running = concurrent.futures.wait(
                running, return_when=concurrent.futures.FIRST_COMPLETED
            )
            for future in finished:
                for number, answer in future.result():
                    state.settle(number, answer)
                    done += 1
            if time.monotonic() - told_at > 10:
                told_at = time.monotonic()
                print(f"{done:,} fetched, {len(state.nodes) - done:,} waiting", file=sys.stderr, flush=True)
    return state


def write_graph(state: Walk, path: Path) -> None:
    with path.open("w", encoding="utf-8") as out:
        for node in state.nodes:
            row = {
                "id": node.number,
                "url": node.url,
                "status": node.status,
                "type": node.media_type,
                "found": node.kind,
                "via": node.via,
                "out": node.out,
            }
            if node.trouble:
                row["trouble"] = node.trouble
            out.write(json.dumps(row, separators=(",", ":")) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description="Walk a host without mannerly; print its HTML pages.")
    parser.add_argument("seeds", nargs="+", metavar="SEED")
    parser.add_argument("--resolve", required=True, metavar="ADDRESS:PORT", help="dial this for every host")
    parser.add_argument("-o", dest="out", type=Path, help="default: stdout")
    parser.add_argument("--graph", type=Path, help="write the link graph too")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    address, _, port = options.resolve.rpartition(":")
    began = time.monotonic()
    state = walk(options.seeds, address=address.strip("[]"), port=int(port), processes=options.processes)
    pages = sorted(node.url for node in state.nodes if node.status == 200 and node.media_type == "text/html")
    text = "".join(f"{url}\n" for url in pages)
    if options.out:
        options.out.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
    if options.graph:
        write_graph(state, options.graph)
    # A server in trouble makes no ruler: its missing pages would pass for pages that are not there.
    failed = sum(node.status == 0 or node.status >= 500 for node in state.nodes)
    print(
        f"{len(pages):,} pages of {len(state.nodes):,} URLs in {time.monotonic() - began:.0f} s; "
        f"{failed} failed; {state.refused.get('out of scope', 0):,} links out of scope",
        file=sys.stderr,
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
