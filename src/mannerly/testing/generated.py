"""A site of many pages on many hosts, the same for the same seed number."""

from __future__ import annotations

import random
from dataclasses import dataclass

ONSETS = (
    "ba",
    "cor",
    "del",
    "fen",
    "gar",
    "hol",
    "jun",
    "lin",
    "mar",
    "nor",
    "pel",
    "ras",
    "sol",
    "tur",
    "vel",
)
ENDINGS = ("a", "ben", "dan", "est", "ick", "ine", "low", "mer", "or", "ten", "um", "wick")
WORDS = tuple(onset + ending for onset in ONSETS for ending in ENDINGS)


@dataclass(frozen=True, slots=True)
class GeneratedPage:
    """One page: where it lies, its HTML, and where it leads (paths of the host, then URLs of other hosts)."""

    host: str
    path: str
    html: str
    local_links: tuple[str, ...]
    foreign_links: tuple[tuple[str, str], ...]


def path_of(number: int) -> str:
    """Page 0 is the host's seed; the others lie in folders of a hundred."""
    return "/" if number == 0 else f"/part-{number // 100}/page-{number}.html"


def generate(
    *, hosts: list[str], pages: int, links: int, foreign_links: int, words: int, port: int, seed: int
) -> list[GeneratedPage]:
    """`pages` pages spread evenly over `hosts`; every page of a host can be reached from the host's `/`.

    Each page but the seed is linked from one page before it (so the links hold a tree); then each gets up to
    `links` links to pages of its host in all and `foreign_links` to pages of other hosts. The text of a page is
    `words` random words under a title that no other page has, so that no two pages are near-duplicates.
    """
    chance = random.Random(seed)
    sizes = {host: pages // len(hosts) + (place < pages % len(hosts)) for place, host in enumerate(hosts)}
    generated: list[GeneratedPage] = []
    for host in hosts:
        size = sizes[host]
        children: list[list[int]] = [[] for _ in range(size)]
        for number in range(1, size):
            children[chance.randrange(max(0, number - 3 * links), number)].append(number)
        for number in range(size):
            extra = [chance.randrange(size) for _ in range(max(0, links - len(children[number])))]
            local = tuple(dict.fromkeys(path_of(target) for target in (*children[number], *extra)))
            others = [other for other in hosts if other != host and sizes[other]] if foreign_links else []
            foreign = tuple(
                (other, path_of(chance.randrange(sizes[other])))
                for other in (chance.choice(others) for _ in range(foreign_links if others else 0))
            )
            html = _html(
                f"{host} page {number}", local, foreign, port=port, text=chance.choices(WORDS, k=words)
            )
            generated.append(GeneratedPage(host, path_of(number), html, local, foreign))
    return generated


def _html(
    title: str, local: tuple[str, ...], foreign: tuple[tuple[str, str], ...], *, port: int, text: list[str]
) -> str:
    urls = [*local, *(f"http://{host}:{port}{path}" for host, path in foreign)]
    items = "".join(f'<li><a href="{url}">{url}</a></li>' for url in urls)
    return (
        f"<!doctype html><html lang=en><title>{title}</title><h1>{title}</h1>"
        f"<main><p>{' '.join(text)}</p></main><ul>{items}</ul></html>"
    )
