"""Messages between coordinator and workers: what goes in comes out, and nothing else comes through."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mannerly.model.errors import WireError
from mannerly.model.orders import WorkerOrders
from mannerly.model.origin import MAX_RULES, Ruleset
from mannerly.model.result import (
    MAX_ADDRESSES,
    MAX_BLOB_BYTES,
    MAX_LINKS,
    AddressChanged,
    Expired,
    Failed,
    Failure,
    Fetched,
    LinkGroup,
    NotModified,
    Outcome,
    Page,
    Redirected,
    Refused,
    Resolved,
    Result,
    Timing,
    Unknown,
)
from mannerly.model.task import (
    MAX_HEADERS,
    MAX_SELECTORS,
    Identity,
    Limits,
    Task,
    TaskKind,
    Validators,
    Wanted,
)
from mannerly.transport import codec

ORDERS, TASK, RESULT = (bytes((codec.VERSION, kind)) for kind in (1, 2, 3))

# ---------------------------------------------------------------------------------------------------- strategies

text = st.text(st.characters(codec="utf-8"), max_size=20)
number = st.integers(min_value=0, max_value=(1 << 63) - 1)
seconds = st.floats(min_value=0, max_value=3_600)
links: st.SearchStrategy[tuple[tuple[str, str], ...]] = st.lists(st.tuples(text, text), max_size=4).map(tuple)
outcomes: st.SearchStrategy[Outcome] = st.one_of(
    st.builds(
        Fetched,
        page=st.builds(
            Page,
            status=st.integers(100, 999),
            bytes=number,
            body_digest=text,
            fingerprint=st.none() | st.integers(0, (1 << 64) - 1),
            canonical=text,
            validators=st.builds(Validators, etag=text, last_modified=text),
        ),
        links=st.lists(st.builds(LinkGroup, host=text, links=links, nofollow=st.booleans()), max_size=3).map(
            tuple
        ),
        blob=st.binary(max_size=64),
        ruleset=st.none()
        | st.builds(
            Ruleset,
            rules=st.lists(st.tuples(st.booleans(), text), max_size=3).map(tuple),
            crawl_delay_s=st.none() | seconds,
            sitemaps=st.lists(text, max_size=3).map(tuple),
        ),
        max_age_s=st.none() | seconds,
        retry_after=text,
    ),
    st.builds(NotModified, max_age_s=st.none() | seconds),
    st.builds(Redirected, status=st.integers(300, 399), location=text, raw=text),
    st.builds(Resolved, addresses=st.lists(text, max_size=4).map(tuple), ttl_s=seconds),
    st.builds(Failed, failure=st.sampled_from(Failure), detail=text, sent=st.booleans()),
    st.builds(Refused, detail=text),
    st.builds(Unknown, detail=text),
    st.builds(Expired),
    st.builds(AddressChanged, detail=text),
)
results = st.builds(
    Result,
    task_id=number,
    outcome=outcomes,
    timing=st.builds(Timing, elapsed_s=seconds, first_byte_s=seconds),
    worker=text,
    epoch=number,
)
tasks = st.builds(
    Task,
    id=number,
    kind=st.sampled_from(TaskKind),
    url=text,
    host=text,
    address=text,
    identity=st.sampled_from(Identity),
    wanted=st.builds(Wanted, fields=st.lists(st.tuples(text, text), max_size=3).map(tuple), each=text),
    headers=st.lists(st.tuples(text, text), max_size=3).map(tuple),
    attempt=st.integers(1, 1_000),
)
orders = st.builds(
    WorkerOrders,
    name=text,
    contact=text,
    ports=st.lists(st.integers(1, 65_535), max_size=3).map(tuple),
    private_hosts=st.lists(text, max_size=3).map(tuple),
)
messages: st.SearchStrategy[codec.Message] = st.one_of(results, tasks, orders)

# ---------------------------------------------------------------------------------------------------- there and back


@given(messages)
def test_a_message_comes_back_as_it_was(message: codec.Message) -> None:
    assert codec.decode(codec.encode(message)) == message


@given(st.lists(messages, max_size=5), st.lists(st.integers(1, 400), max_size=40))
def test_frames_come_out_whole_wherever_the_stream_is_cut(
    sent: list[codec.Message], sizes: list[int]
) -> None:
    stream = b"".join(codec.frame(message) for message in sent)
    reader, got, at = codec.FrameReader(), [], 0
    for size in [*sizes, len(stream)]:
        got += list(reader.feed(stream[at : at + size]))
        at += size
    assert got == sent


# ---------------------------------------------------------------------------------------------------- hostile bytes


def refused_or_read(raw: bytes) -> None:
    """Decode; anything but a message or a WireError fails the test."""
    try:
        message = codec.decode(raw)
    except WireError:
        return
    assert isinstance(message, Task | Result | WorkerOrders)


@given(st.binary(max_size=200))
def test_no_bytes_make_decoding_raise_anything_else(raw: bytes) -> None:
    refused_or_read(raw)


@given(st.sampled_from((ORDERS, TASK, RESULT)), st.binary(max_size=200))
def test_no_bytes_behind_a_right_head_do_either(head: bytes, raw: bytes) -> None:
    refused_or_read(head + raw)


@given(messages, st.data())
def test_no_flipped_or_missing_bytes_do_either(message: codec.Message, data: st.DataObject) -> None:
    raw = bytearray(codec.encode(message))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(2, len(raw) - 1))] = data.draw(st.integers(0, 255))
    refused_or_read(bytes(raw))
    refused_or_read(bytes(raw[: data.draw(st.integers(0, len(raw)))]))


@given(st.sampled_from((TASK, RESULT)), st.recursive(st.none() | st.integers() | st.text(), st.lists))
def test_no_other_structure_does_either(head: bytes, value: Any) -> None:
    try:
        raw = msgspec.msgpack.encode(value)
    except OverflowError:  # an integer that MessagePack has no room for
        return
    refused_or_read(head + raw)


@given(st.lists(st.binary(max_size=60), max_size=10))
def test_no_stream_makes_the_reader_raise_anything_else(chunks: list[bytes]) -> None:
    reader = codec.FrameReader()
    try:
        for chunk in chunks:
            list(reader.feed(chunk))
    except WireError:
        return


NESTED: Final = b"\x91" * 1_000_000
HUGE: Final = b"\xdd\xff\xff\xff\xff"  # an array that says it has 2^32 - 1 elements

HOSTILE: Final = {
    "nothing": b"",
    "a head alone": RESULT,
    "another version": bytes((codec.VERSION + 1, 3)) + msgspec.msgpack.encode([1, ["unknown"]]),
    "an unknown kind": bytes((codec.VERSION, 9)) + msgspec.msgpack.encode([1, ["unknown"]]),
    "a million arrays in each other": RESULT + NESTED,
    "a million arrays in a field of a later version": RESULT
    + b"\x96\x01"
    + b"".join(msgspec.msgpack.encode(value) for value in (["unknown"], [0.0, 0.0], "w", 0))
    + NESTED
    + b"\xc0",
    "four billion links, so it says": RESULT + b"\x92\x01\x93\xa7fetched\x91\xcc\xc8" + HUGE,
    "four billion fields, so it says": RESULT + HUGE + b"\x01",
    "a string that is no UTF-8": RESULT + b"\x92\x01\x92\xa7unknown\xa3\xed\xa0\x80",
    "bytes left over": RESULT + msgspec.msgpack.encode([1, ["unknown"]]) + b"junk",
    "an outcome there is not": RESULT + msgspec.msgpack.encode([1, ["admitted"]]),
    "a status there is not": RESULT + msgspec.msgpack.encode([1, ["fetched", [99]]]),
    "a task for nothing": TASK + msgspec.msgpack.encode([1]),
    "more than a message may have": RESULT + bytes(codec.MAX_MESSAGE_BYTES),
}


@pytest.mark.parametrize("raw", HOSTILE.values(), ids=HOSTILE.keys())
def test_what_is_no_message_of_ours_is_refused(raw: bytes) -> None:
    with pytest.raises(WireError):
        codec.decode(raw)


# ---------------------------------------------------------------------------------------------------- bounds


def result(outcome: Outcome, **fields: Any) -> Result:
    return Result(task_id=1, outcome=outcome, **fields)


def task(**fields: Any) -> Task:
    return Task(id=1, kind=TaskKind.PAGE, url="http://a.test/", host="a.test", **fields)


def many(n: int, element: Any) -> tuple[Any, ...]:
    return (element,) * n


OK: Final = Page(status=200)
URL: Final = "u" * 8_193
NAME: Final = "n" * 256
SHORT: Final = "s" * 4_097

OVER: Final[dict[str, Callable[[], codec.Message]]] = {
    "url": lambda: Task(id=1, kind=TaskKind.PAGE, url=URL, host="a.test"),
    "host": lambda: Task(id=1, kind=TaskKind.PAGE, url="", host=NAME),
    "headers": lambda: task(headers=many(MAX_HEADERS + 1, ("a", "b"))),
    "header value": lambda: task(headers=(("a", SHORT),)),
    "fields": lambda: task(wanted=Wanted(fields=many(MAX_SELECTORS + 1, ("a", "b")))),
    "selector": lambda: task(wanted=Wanted(each=SHORT)),
    "validator": lambda: task(validators=Validators(etag=SHORT)),
    "exchange time": lambda: task(limits=Limits(exchange_s=3_601)),
    "no exchange time": lambda: task(limits=Limits(exchange_s=0)),
    "exchange time nan": lambda: task(limits=Limits(exchange_s=math.nan)),
    "body": lambda: task(limits=Limits(body_bytes=(1 << 30) + 1)),
    "send within": lambda: task(send_within_s=math.inf),
    "attempt": lambda: task(attempt=0),
    "id": lambda: Task(id=-1, kind=TaskKind.PAGE, url="", host=""),
    "orders' ports": lambda: WorkerOrders("w", ports=many(1_001, 80)),
    "orders' hosts": lambda: WorkerOrders("w", private_hosts=many(10_001, "a")),
    "orders' slots": lambda: WorkerOrders("w", slots=0),
    "status": lambda: result(Fetched(Page(status=1_000))),
    "bytes": lambda: result(Fetched(Page(status=200, bytes=-1))),
    "digest": lambda: result(Fetched(Page(status=200, body_digest="d" * 65))),
    "canonical": lambda: result(Fetched(Page(status=200, canonical=URL))),
    "blob": lambda: result(Fetched(OK, blob=bytes(MAX_BLOB_BYTES + 1))),
    "groups": lambda: result(Fetched(OK, links=many(MAX_LINKS + 1, LinkGroup("a", ())))),
    "link": lambda: result(Fetched(OK, links=(LinkGroup("a", ((URL, ""),)),))),
    "rules": lambda: result(Fetched(OK, ruleset=Ruleset(rules=many(MAX_RULES + 1, (True, "/"))))),
    "sitemaps": lambda: result(Fetched(OK, ruleset=Ruleset(sitemaps=many(1_001, "s")))),
    "sitemap": lambda: result(Fetched(OK, ruleset=Ruleset(sitemaps=("s" * 2_049,)))),
    "crawl delay": lambda: result(Fetched(OK, ruleset=Ruleset(crawl_delay_s=-1.0))),
    "crawl delay nan": lambda: result(Fetched(OK, ruleset=Ruleset(crawl_delay_s=math.nan))),
    "max age": lambda: result(Fetched(OK, max_age_s=math.nan)),
    "max age of 304": lambda: result(NotModified(max_age_s=math.inf)),
    "retry after": lambda: result(Fetched(OK, retry_after=NAME)),
    "location": lambda: result(Redirected(status=301, location=URL)),
    "status of a redirect": lambda: result(Redirected(status=200)),
    "addresses": lambda: result(Resolved(addresses=many(MAX_ADDRESSES + 1, "1.2.3.4"))),
    "ttl": lambda: result(Resolved(ttl_s=math.inf)),
    "detail": lambda: result(Failed(Failure.RESET, detail=SHORT)),
    "elapsed nan": lambda: result(Unknown(), timing=Timing(elapsed_s=math.nan)),
    "elapsed below 0": lambda: result(Unknown(), timing=Timing(elapsed_s=-1e-9)),
    "elapsed": lambda: result(Unknown(), timing=Timing(elapsed_s=86_401)),
    "worker": lambda: result(Unknown(), worker=NAME),
    "task id": lambda: Result(task_id=-1, outcome=Unknown()),
}


@pytest.mark.parametrize("make", OVER.values(), ids=OVER.keys())
def test_i9_a_field_over_its_bound_is_refused(make: Callable[[], codec.Message]) -> None:
    raw = codec.encode(make())
    with pytest.raises(WireError, match="is refused"):
        codec.decode(raw)


def test_i9_the_links_of_all_groups_are_bounded_together() -> None:
    pairs = many(MAX_LINKS, ("", ""))
    most = result(Fetched(OK, links=(LinkGroup("a", pairs),)))
    assert codec.decode(codec.encode(most)) == most
    two = [["a", pairs[:60_000]], ["b", pairs[:60_000]]]
    raw = msgspec.msgpack.encode([1, ["fetched", OK, two]])
    with pytest.raises(WireError, match="more than 100000 links"):
        codec.decode(RESULT + raw)


def test_a_message_over_the_bound_is_not_sent() -> None:
    with pytest.raises(WireError, match="over the bound"):
        codec.encode(result(Fetched(OK, blob=bytes(codec.MAX_MESSAGE_BYTES))))


@pytest.mark.parametrize("length", [0, 1, codec.MAX_MESSAGE_BYTES + 1, (1 << 32) - 1])
def test_i9_a_frame_that_says_too_much_is_refused_before_its_bytes_come(length: int) -> None:
    reader = codec.FrameReader()
    with pytest.raises(WireError, match=f"{length} bytes"):
        list(reader.feed(length.to_bytes(codec.LENGTH_BYTES, "big")))


def test_i9_a_reader_holds_one_unfinished_frame_at_most() -> None:
    reader = codec.FrameReader()
    whole = codec.frame(task())
    for _ in range(100):
        assert len(list(reader.feed(whole * 3 + whole[:5]))) == 3
        assert repr(reader) == "<FrameReader 5 bytes unfinished>"
        assert len(list(reader.feed(whole[5:]))) == 1
        assert repr(reader) == "<FrameReader 0 bytes unfinished>"
