"""Microseconds per page of each stage of extraction: `python bench/extract.py [FOLDER...]`.

Reads HTML files of 20 to 80 KB under the folders (default /usr/share/doc), at most 200, a few of each folder, or makes
pages of 40 KB with 180 links if there are none. Prints the median over rounds of CPU time per page.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

from mannerly.extract import digest, html, text
from mannerly.extract.charset import decode
from mannerly.extract.directives import directives
from mannerly.extract.document import Document
from mannerly.extract.page import extract_page

URL = "http://h0001.docs.test/a/page.html"
TYPE = "text/html; charset=utf-8"
ROUNDS = 7
PER_FOLDER = 40


def corpus(folders: list[str]) -> list[bytes]:
    """Return the bodies of real pages, or made ones if none are found."""
    bodies: list[bytes] = []
    taken: dict[Path, int] = {}
    for folder in folders:
        for path in sorted(Path(folder).rglob("*.html")):
            if len(bodies) < 200 and path.is_file() and 20_000 < path.stat().st_size < 80_000:
                taken[path.parent] = taken.get(path.parent, 0) + 1
                if taken[path.parent] <= PER_FOLDER:
                    bodies.append(path.read_bytes())
    return bodies or [made_page(n) for n in range(50)]


def made_page(number: int) -> bytes:
    """Return a page of 40 KB with 180 links."""
    part = "<div><h2>Part {0}</h2><p>{1} <a href='../p{2}/{0}.html#s'>see <code>{0}</code></a>.</p></div>\n"
    words = "some words of ordinary prose about the thing that this part is there to explain in full " * 2
    return (
        "<title>t</title><nav></nav><main>" + "".join(part.format(n, words, number) for n in range(180))
    ).encode()


def timed(name: str, pages: int, work: Callable[[], object]) -> None:
    """Run `work` some rounds and print its cost per page."""
    rounds = []
    for _ in range(ROUNDS):
        begin = time.process_time()
        work()
        rounds.append((time.process_time() - begin) / pages * 1e6)
    print(f"{name:12} {statistics.median(rounds):8.0f} us   [{min(rounds):.0f}-{max(rounds):.0f}]")


def main() -> None:
    """Time each stage on the corpus."""
    bodies = corpus(sys.argv[1:] or ["/usr/share/doc"])
    texts = [decode(body, TYPE)[0] for body in bodies]
    documents = [Document(markup) for markup in texts]
    heads = [html.head(document, URL) for document in documents]
    links = sum(
        len(html.links(document, head).follow) for document, head in zip(documents, heads, strict=True)
    )
    mains = [text.main_text(Document(markup))[0] for markup in texts]
    count = len(bodies)
    size = sum(map(len, bodies)) / count / 1024
    print(
        f"{count} pages, {size:.1f} KB, {links / count:.0f} distinct links, {sum(map(len, mains)) / count:.0f} chars"
    )
    timed("decode", count, lambda: [decode(body, TYPE) for body in bodies])
    timed("parse", count, lambda: [Document(markup) for markup in texts])
    timed("head", count, lambda: [html.head(document, URL) for document in documents])
    timed("links", count, lambda: [html.links(d, h) for d, h in zip(documents, heads, strict=True)])
    timed("directives", count, lambda: [directives(head.metas, (), "mannerly") for head in heads])
    timed("parse + text", count, lambda: [text.main_text(Document(markup)) for markup in texts])
    timed("body digest", count, lambda: [digest.body_digest(body) for body in bodies])
    timed("text digest", count, lambda: [digest.text_digest(main) for main in mains])
    timed("fingerprint", count, lambda: [digest.fingerprint(main) for main in mains])
    timed("all", count, lambda: [extract_page(body, TYPE, URL, token="mannerly") for body in bodies])


if __name__ == "__main__":
    main()
