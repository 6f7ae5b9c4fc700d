"""The pipe between a worker and its parser: what goes in comes out, and nothing else comes through."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mannerly.model.answer import MAX_FIELDS, Answer, ParserReady
from mannerly.model.errors import WireError
from mannerly.model.result import MAX_BLOB_BYTES, Failed, Failure, Fetched, Page, Refused, Result, Unknown
from mannerly.model.task import Wanted
from mannerly.transport import aside, codec

text = st.text(st.characters(codec="utf-8"), max_size=20)
words: st.SearchStrategy[aside.Word] = st.one_of(
    st.builds(
        Answer,
        url=text,
        status=st.integers(100, 999),
        body=st.binary(max_size=200),
        content_type=text,
        headers=st.lists(st.tuples(text, text), max_size=3).map(tuple),
        wanted=st.builds(Wanted, each=text),
        now_at=st.floats(0, 1e10),
    ),
    st.just(ParserReady()),
    st.builds(Fetched, page=st.builds(Page, status=st.integers(100, 999)), blob=st.binary(max_size=50)),
    st.builds(Refused, detail=text),
    st.builds(Failed, failure=st.sampled_from(Failure), detail=text),
)


@given(st.lists(words, max_size=5), st.lists(st.integers(1, 80), min_size=1))
def test_words_come_back_as_they_were_however_the_stream_is_cut(
    sent: list[aside.Word], sizes: list[int]
) -> None:
    stream = b"".join(map(aside.frame, sent))
    reader, at, step = aside.WordReader(), 0, 0
    got: list[aside.Word] = []
    while at < len(stream):
        size = sizes[step % len(sizes)]
        got += reader.feed(stream[at : at + size])
        at, step = at + size, step + 1
    assert got == sent


@given(st.binary(max_size=200))
def test_no_bytes_do_more_than_be_refused(raw: bytes) -> None:
    with suppress(WireError):
        aside.decode(raw)


@given(words, st.data())
def test_no_flipped_or_missing_bytes_do_either(word: aside.Word, data: st.DataObject) -> None:
    raw = bytearray(aside.frame(word)[4:])
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    with suppress(WireError):
        aside.decode(bytes(raw[: data.draw(st.integers(0, len(raw)))]))


REFUSED: Final = {
    "no word": b"",
    "another version": bytes((9, aside.Kind.READY)) + b"\x90",
    "an unknown kind": bytes((codec.VERSION, 99)) + b"\x90",
    "a message of the other pipe": codec.encode(Result(1, Unknown())),
    "too many headers": bytes((codec.VERSION, aside.Kind.ANSWER))
    + msgspec.msgpack.encode(["u", 200, b"", "", [["a", "b"]] * (MAX_FIELDS + 1)]),
    "a blob over its bound": bytes((codec.VERSION, aside.Kind.FETCHED))
    + msgspec.msgpack.encode(Fetched(Page(200), blob=bytes(MAX_BLOB_BYTES + 1))),
}


@pytest.mark.parametrize("raw", REFUSED.values(), ids=REFUSED.keys())
def test_i9_what_is_no_word_within_its_bounds_is_refused(raw: bytes) -> None:
    with pytest.raises(WireError):
        aside.decode(raw)


def test_a_word_of_this_pipe_is_no_message_of_the_other() -> None:
    with pytest.raises(WireError):
        codec.decode(aside.frame(Refused("x"))[4:])


@pytest.mark.parametrize(
    ("reader", "most"),
    [
        (aside.WordReader(), codec.MAX_MESSAGE_BYTES),
        (aside.WordReader(aside.MAX_ANSWER_BYTES), aside.MAX_ANSWER_BYTES),
    ],
    ids=["worker", "parser"],
)
def test_i9_a_frame_that_says_it_is_larger_is_refused_before_it_is_read(
    reader: aside.WordReader, most: int
) -> None:
    assert list(reader.feed(most.to_bytes(4, "big"))) == []
    other = type(reader)(most)
    with pytest.raises(WireError, match="frame"):
        list(other.feed((most + 1).to_bytes(4, "big")))


def test_what_no_utf_8_holds_cannot_be_sent() -> None:
    with pytest.raises(WireError, match="cannot be sent"):
        aside.frame(Answer(url="http://a.test/", status=200, body=b"", content_type="\udce5"))
