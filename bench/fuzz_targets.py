"""What is fuzzed: each place where bytes of others come in, as a function of bytes.

A target raises nothing but for a fault: the exceptions that its subject documents are caught here, one by one, and
what the subject promises is asserted. It returns a shape, some hashable words on what happened: an input with a new
shape is kept to start from, which leads the fuzzer on without looking into the code.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import zstandard
from bench.fuzz_server import HOST, Speaker

from bench import fuzz_words as words
from mannerly.extract.directives import directives
from mannerly.extract.html import MAX_HREF_CHARS
from mannerly.extract.types import media_type
from mannerly.model import url as urls
from mannerly.model.blob import unseal
from mannerly.model.errors import ConfigRefused, InvalidUrl, StateDamaged, WireError
from mannerly.model.frame import PageFrame
from mannerly.model.record import record_json, record_of
from mannerly.model.result import Fetched, Outcome, Page, Result
from mannerly.model.task import Limits, Task, TaskKind, Wanted
from mannerly.net.decode import Decoder, codings
from mannerly.net.exchange import Exchange
from mannerly.net.head import Head
from mannerly.policy.politeness import MAX_RETRY_AFTER_S, retry_after_s
from mannerly.policy.robots import Matcher, crawl_delay_of
from mannerly.ports import Position
from mannerly.sink.csv import CsvSink
from mannerly.sink.output_file import Layout, OutputFile
from mannerly.store import frames
from mannerly.store.journal import FileJournal
from mannerly.transport import codec
from mannerly.worker import perform
from mannerly.worker.read import read_page

LIMIT_BYTES: Final = 1 << 20
NOW_AT: Final = 1_790_000_000.0
PAGE_URL: Final = "http://site.test/folder/page.html?q=1"
FIELDS: Final = (
    ("texts[]", "div::text"),
    ("first", "h1, p.lead::text"),
    ("links[]", "a::attr(href)"),
    ("markup", "body::html"),
)
CODINGS: Final = ("gzip", "deflate", "br", "zstd", "gzip, br", "zstd, gzip", "deflate, deflate", "gzip, gzip")
LIMITS: Final = Limits(connect_s=2.0, first_byte_s=2.0, exchange_s=4.0, body_bytes=LIMIT_BYTES)


@dataclass(frozen=True, slots=True)
class Target:
    """`check` is called with an input; `words` are pieces of its format. `cost`: share of a run's time, 1 is usual."""

    check: Callable[[bytes], Hashable]
    words: tuple[bytes, ...] = ()
    cost: float = 1.0


def head(data: bytes) -> Hashable:
    """Read a response head as libcurl hands it over, by lines."""
    read = Head(64 << 10)
    taken = [read.take(line) for line in data.splitlines(keepends=True)]
    assert 0 <= read.status <= 999
    assert all(name == name.strip().lower() for name, _ in read.fields)
    return all(taken), read.complete, read.status // 100, min(9, len(read.fields)), read.version[:3]


def decoded(data: bytes) -> Hashable:
    """Undo content codings: the first byte chooses them and how the body comes in pieces."""
    if not data:
        return None
    names = codings([CODINGS[data[0] & 7]])
    piece = (1, 7, 1_000, 1 << 16)[data[0] >> 3 & 3] if len(data) < 10_000 else 1 << 14
    body = data[1:]
    decoder = Decoder(names, limit_bytes=LIMIT_BYTES, ratio=100)
    total = sum(len(decoder.feed(body[at : at + piece])) for at in range(0, len(body), piece))
    total += len(decoder.finish())
    assert total <= LIMIT_BYTES
    return names, decoder.stopped, total.bit_length()


def page(data: bytes) -> Hashable:
    """Read a page as a worker does, up to the message: header lines, an empty line, the body."""
    exchange = answer(data)
    each = "div" if exchange.status % 2 else ""
    wanted = Wanted(fields=FIELDS, each=each, text=True, links=True, body=True, strip_parameters=("ref*",))
    task = Task(id=1, kind=TaskKind.PAGE, url=PAGE_URL, host="site.test", wanted=wanted)
    outcome = read_page(perform.answer_of(task, urls.parse(PAGE_URL), exchange, "", now_at=NOW_AT))
    assert isinstance(outcome, Fetched)
    part = unseal(_sent(outcome).blob)
    record_json(record_of(frame(outcome.blob)))
    return (
        part.sniffed_type,
        part.charset,
        outcome.page.truncated,
        outcome.page.follow,
        bool(outcome.page.canonical),
        bool(part.title),
        part.language[:2],
        len(outcome.links).bit_length(),
        len(part.text).bit_length() // 2,
    )


def robots(data: bytes) -> Hashable:
    """Read a robots.txt as a worker does, and ask it for its own lines and some paths."""
    exchange = answer(data)
    outcome = perform.robots_read(exchange, "")
    assert isinstance(outcome, Fetched)
    ruleset = _sent(outcome).ruleset
    if ruleset is None:
        return None
    matcher = Matcher(ruleset)
    assert matcher.allows("/robots.txt")
    patterns = [pattern for _, pattern in ruleset.rules[:8]]
    paths = ["/", "/a?b=c", "/" + "a" * 8_000, *(pattern.replace("*", "x/")[:8_192] for pattern in patterns)]
    decisions = [matcher.decide(path) for path in paths]
    return (
        ruleset.suspicious,
        ruleset.too_complex,
        ruleset.cut,
        ruleset.crawl_delay_s is None,
        min(4, len(ruleset.sitemaps)),
        len(ruleset.rules).bit_length(),
        tuple(decision.allowed for decision in decisions[:3]),
    )


def fields(data: bytes) -> Hashable:
    """Read a value as every header field and record line that is parsed: the first byte is of no matter."""
    text = data.decode("latin-1")
    wait_s = retry_after_s(text, NOW_AT)
    assert wait_s is None or 0 < wait_s <= MAX_RETRY_AFTER_S
    names = ("cache-control", "location", "etag", "last-modified", "content-type")
    exchange = Exchange(status=302, headers=tuple((name, text) for name in names))
    age_s = perform.max_age_s(exchange)
    _sent(perform.redirected(exchange, urls.parse(PAGE_URL), text[:255]))
    _sent(Fetched(page=Page(status=200, validators=perform.validators_of(exchange)), max_age_s=age_s))
    said = directives([("robots", text)], [("x-robots-tag", text)], "mannerly")
    delay_s = crawl_delay_of(data)
    kind = media_type(text)
    return (
        wait_s is None,
        age_s is None or age_s > 0,
        said.index,
        said.follow,
        said.unavailable_after_at is None,
        delay_s is None,
        kind.essence[:6],
        bool(kind.charset),
        codings([text])[:3],
    )


def url(data: bytes) -> Hashable:
    """Read a URL, and what is derived from it; a key is its own key. Callers give no longer ones."""
    data = data[:MAX_HREF_CHARS]
    text = data.decode("utf-8", "surrogatepass") if _is_wtf8(data) else data.decode("latin-1")
    urls.redacted(text)
    link = urls.Base(PAGE_URL).resolve(text)
    try:
        found = urls.parse(text)
    except InvalidUrl:
        return link is None
    assert urls.canonical_key(found.key) == found.key
    assert urls.parse(found.href).href == found.href
    assert found.path_query.startswith("/")
    assert urls.host_of(found.key) == found.host
    urls.key_hash(found.key, 7)
    assert found.host.endswith(urls.registered_domain(found.host))
    return (
        found.scheme,
        found.port in (80, 443),
        urls.is_ip_literal(found.host),
        urls.is_private_name(found.host),
        found.href == found.key,
        bool(found.query),
        found.path.count("/").bit_length(),
    )


def wire(data: bytes) -> Hashable:
    """Read frames from a pipe; what is read can be said again."""
    reader, kinds = codec.FrameReader(), []
    try:
        for at in range(0, len(data), 4_096):
            for message in reader.feed(data[at : at + 4_096]):
                kinds.append(type(message).__name__)
                codec.decode(codec.encode(message))
    except WireError as error:
        return tuple(kinds[:3]), "".join(char for char in str(error) if not char.isdigit())
    return tuple(kinds[:3])


def message(data: bytes) -> Hashable:
    """Read the body of a message: the frame around it is sound."""
    body = data[:LIMIT_BYTES]
    return wire(len(body).to_bytes(4, "big") + body)


def blob(data: bytes) -> Hashable:
    """Open a page blob and write what it says: as it came, and as the content of a sound zstd frame."""
    return _written(data), _written(zstandard.compress(data))


def journal(data: bytes) -> Hashable:
    """Read a segment of the journal: as it came, and as the body of a frame whose checks are right."""
    start = frames.segment_head(1, 0)
    sound = start + frames.frame_head(data, 1, len(start)) + data
    return _segment(data), _segment(sound)


def sink(data: bytes) -> Hashable:
    """Open an output file by a stored state that somebody changed."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        path = Path(folder, "pages.jsonl")
        path.write_bytes(b"{}\n")
        output = OutputFile(str(path), crawl="c1")
        try:
            output.open(data.decode("utf-8", "replace"), Layout("jsonl 1", b"{"))
            output.write(b"{}\n")
            output.sync()
        except (ConfigRefused, StateDamaged) as error:
            return type(error).__name__, str(error).replace(folder, "")[:60]
        finally:
            output.close()
    return "opened"


def exchange(data: bytes) -> Hashable:
    """Ask a server that says the input; whatever it is becomes an outcome that can be sent."""
    found = _speaker.exchange(data)
    assert len(found.body) <= LIMIT_BYTES
    if found.failure is not None:
        _sent(perform.failed(found))
        return str(found.failure), found.detail[:20]
    assert found.status >= 200
    if found.status in perform.REDIRECTS:
        _sent(perform.redirected(found, urls.parse(_speaker.url), ""))
    else:
        task = Task(id=1, kind=TaskKind.PAGE, url=_speaker.url, host=HOST)
        _sent(read_page(perform.answer_of(task, urls.parse(_speaker.url), found, "", now_at=NOW_AT)))
        _sent(perform.robots_read(found, ""))
    return found.status, found.truncated, found.http_version, min(6, len(found.headers))


def answer(data: bytes) -> Exchange:
    """Return `data` as an answer: header lines, an empty line, the body. `status` is a field of its own."""
    lines, _, body = data.partition(b"\n\n")
    read = Head(64 << 10)
    for line in (b"HTTP/1.1 200 OK", *lines.split(b"\n"), b""):
        read.take(line + b"\r\n")
    return Exchange(status=200 + len(lines) % 2, headers=tuple(read.fields), body=body)


def frame(sealed: bytes) -> PageFrame:
    """Return a frame of the journal with this blob."""
    return PageFrame(
        url=PAGE_URL,
        key=PAGE_URL,
        status=200,
        fetched_at=NOW_AT,
        depth=1,
        via="",
        redirected_from=(),
        bytes=1,
        elapsed_ms=1,
        body_digest="",
        text_digest="",
        fingerprint=None,
        index=True,
        truncated="",
        duplicate_of="",
        identity="mannerly",
        authorization="",
        crawl="c1",
        host_id=1,
        hash=1,
        blob=sealed,
    )


def _sent(outcome: Outcome) -> Fetched:
    """Say the outcome to a coordinator, which has to take it as it is."""
    result = Result(task_id=1, outcome=outcome)
    back = codec.decode(codec.encode(result))
    assert back == result
    return outcome if isinstance(outcome, Fetched) else Fetched(page=Page(status=200))


def _written(sealed: bytes) -> Hashable:
    try:
        part = unseal(sealed)
    except WireError as error:
        shape: Hashable = "".join(char for char in str(error) if not char.isdigit())[:90]
    else:
        shape = (len(part.fields).bit_length(), part.items is None, part.links is None, bool(part.robots))
    line = record_json(record_of(frame(sealed)))
    assert b"\n" not in line
    kept = _Kept()
    rows = CsvSink(kept, fields=["a", "texts[]"])
    rows.write([frame(sealed)])
    assert kept.size
    return shape


class _Kept:
    """An output that counts."""

    def __init__(self) -> None:
        self.label = "kept"
        self.size = 0

    @property
    def empty(self) -> bool:
        return not self.size

    def open(self, state: str | None, layout: Layout) -> bool:
        return state is None and bool(layout.name)

    def write(self, data: bytes) -> None:
        self.size += len(data)

    def sync(self) -> str:
        return ""

    def close(self) -> None:
        return None


def _segment(data: bytes) -> Hashable:
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        Path(folder, "000001.pages").write_bytes(data)
        log = FileJournal(folder)
        start, count, damage = Position(1, 0), 0, 0
        try:
            while start < log.end:
                found, behind = log.read(start, log.end)
                assert behind > start
                count, damage, start = count + len(found), damage + len(log.damaged()), behind
                for page_frame in found:
                    record_json(record_of(page_frame))
        except StateDamaged:
            return "format"
        finally:
            log.close()
    return min(5, count), min(5, damage)


def _is_wtf8(data: bytes) -> bool:
    try:
        data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return False
    return True


_speaker: Final = Speaker(LIMITS)
TARGETS: Final[dict[str, Target]] = {
    "head": Target(head, words.HTTP),
    "exchange": Target(exchange, words.HTTP, cost=2.0),
    "decode": Target(decoded),
    "page": Target(page, words.HTML, cost=4.0),
    "robots": Target(robots, words.ROBOTS),
    "fields": Target(fields, words.FIELDS),
    "url": Target(url, words.URL),
    "wire": Target(wire, words.PACK),
    "message": Target(message, words.PACK),
    "blob": Target(blob, words.PACK),
    "journal": Target(journal, words.PACK),
    "sink": Target(sink, words.STATE),
}
