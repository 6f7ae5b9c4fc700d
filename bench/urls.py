"""Nanoseconds a link: resolving, keys, shape, templates, on a generated set of links.

    python bench/urls.py [--links N] [--rounds N]

The links are as a documentation site and a shop have them: 70 % plain paths, 10 % with a query, 5 % with tracking
parameters, 5 % with escapes, 10 % to other hosts. Times are the best of the rounds, to leave out what else runs.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable

import upa_url

from mannerly.model.url import Base, canonical_key, host_of, key_hash, parse, registered_domain
from mannerly.policy.scope import Scope, ScopeKind
from mannerly.policy.templates import template_of
from mannerly.policy.traps import shape_verdict

PAGE = "https://docs.a.test/std/collections/index.html"


def links(count: int, chance: random.Random) -> list[str]:
    """Return `count` hrefs as pages hold them."""
    forms = [
        (35, "../vec/struct.Vec{n}.html"),
        (20, "/std/module-{n}/trait.Iterator.html"),
        (15, "page{n}.html"),
        (10, "?page={n}&sort=name"),
        (5, "/shop/item?id={n}&utm_source=mail&utm_medium=x"),
        (5, "/wiki/Caf%C3%A9_{n}"),
        (10, "https://www.b{n}.test/some/where/else.html"),
    ]
    weights, texts = [weight for weight, _ in forms], [text for _, text in forms]
    return [chance.choices(texts, weights)[0].format(n=chance.randrange(500)) for _ in range(count)]


def nanoseconds(work: Callable[[], object], count: int, rounds: int) -> float:
    """Return the time of one of `count` pieces of `work`, best of `rounds`."""
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter_ns()
        work()
        best = min(best, time.perf_counter_ns() - start)
    return best / count


def main() -> None:
    """Print one line a step."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--links", type=int, default=180)
    parser.add_argument("--rounds", type=int, default=300)
    options = parser.parse_args()
    hrefs = links(options.links, random.Random(7))
    plain = [href for href in hrefs if href.endswith(".html") and not href.startswith("https")]
    bare, page = upa_url.URL(PAGE), Base(PAGE)
    found = [pair for href in hrefs if (pair := page.resolve(href))]
    urls = [parse(href) for href, _ in found]
    hosts = [url.host for url in urls]
    host, domain = (Scope.of(kind, [parse(PAGE)]) for kind in (ScopeKind.HOST, ScopeKind.DOMAIN))
    narrow = Scope.of(ScopeKind.HOST, [parse(PAGE)], excludes=["/shop/", r"page=\d{4}"])
    steps: list[tuple[str, Callable[[], object], int]] = [
        (
            "parser alone, plain links",
            lambda: [upa_url.URL.parse(href, bare).href for href in plain],
            len(plain),
        ),
        ("resolve (href and key), plain links", lambda: [page.resolve(href) for href in plain], len(plain)),
        (
            "parser alone, all links",
            lambda: [upa_url.URL.parse(href, bare).href for href in hrefs],
            len(hrefs),
        ),
        ("resolve (href and key), all links", lambda: [page.resolve(href) for href in hrefs], len(hrefs)),
        ("canonical_key", lambda: [canonical_key(href) for href, _ in found], len(found)),
        ("parse", lambda: [parse(href) for href, _ in found], len(found)),
        ("key_hash", lambda: [key_hash(key, 1) for _, key in found], len(found)),
        ("host_of", lambda: [host_of(key) for _, key in found], len(found)),
        ("registered_domain", lambda: [registered_domain(name) for name in hosts], len(hosts)),
        ("scope host", lambda: [host.verdict(url) for url in urls], len(urls)),
        ("scope domain", lambda: [domain.verdict(url) for url in urls], len(urls)),
        ("scope host, two excludes", lambda: [narrow.verdict(url) for url in urls], len(urls)),
        ("shape", lambda: [shape_verdict(key) for _, key in found], len(found)),
        ("template", lambda: [template_of(key) for _, key in found], len(found)),
    ]
    for name, work, count in steps:
        print(f"{name:40}{nanoseconds(work, count, options.rounds):8.0f} ns")


if __name__ == "__main__":
    main()
