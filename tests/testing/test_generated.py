from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from mannerly.testing.generated import GeneratedPage, generate


def web(
    hosts: int, pages: int, *, links: int = 4, foreign_links: int = 0, seed: int = 1
) -> list[GeneratedPage]:
    return generate(
        hosts=[f"h{number}.test" for number in range(hosts)],
        pages=pages,
        links=links,
        foreign_links=foreign_links,
        words=5,
        port=80,
        seed=seed,
    )


@given(st.integers(1, 5), st.integers(5, 300), st.integers(1, 6), st.integers(0, 2), st.integers(0, 99))
def test_every_page_can_be_reached_from_its_hosts_seed(
    hosts: int, pages: int, links: int, foreign_links: int, seed: int
) -> None:
    generated = web(hosts, pages, links=links, foreign_links=foreign_links, seed=seed)
    by_address = {(page.host, page.path): page for page in generated}
    assert len(by_address) == pages
    reached = {(f"h{number}.test", "/") for number in range(hosts)}
    waiting = list(reached)
    while waiting:
        host, path = waiting.pop()
        for link in by_address[host, path].local_links:
            if (host, link) not in reached:
                reached.add((host, link))
                waiting.append((host, link))
    assert reached == set(by_address)
    assert all(target in by_address for page in generated for target in page.foreign_links)


def test_the_same_arguments_give_the_same_web() -> None:
    assert web(3, 200, foreign_links=1) == web(3, 200, foreign_links=1)
    assert web(3, 200) != web(3, 200, seed=2)


def test_the_html_says_what_the_links_are() -> None:
    page = next(page for page in web(2, 100, foreign_links=1) if page.path != "/")
    foreign = [f"http://{host}:80{path}" for host, path in page.foreign_links]
    assert re.findall(r'href="([^"]+)"', page.html) == [*page.local_links, *foreign]
