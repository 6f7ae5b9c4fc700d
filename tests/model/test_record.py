"""Page records: what stands in them, and that they are what the documentation says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from mannerly.model.blob import PagePart, seal
from mannerly.model.frame import PageFrame
from mannerly.model.record import PageRecord, record_json, record_of, rfc3339

DOCS = Path(__file__).resolve().parents[2] / "docs" / "reference"
SCHEMA: dict[str, Any] = json.loads((DOCS / "page-record.schema.json").read_text())
VALIDATOR = Draft202012Validator(SCHEMA)

DESIGN_ORDER = [
    "url",
    "key",
    "status",
    "fetched_at",
    "depth",
    "via",
    "redirected_from",
    "content_type",
    "sniffed_type",
    "charset",
    "title",
    "description",
    "language",
    "canonical",
    "robots",
    "fields",
    "items",
    "text",
    "links",
    "bytes",
    "elapsed_ms",
    "body_digest",
    "text_digest",
    "fingerprint",
    "duplicate_of",
    "truncated",
    "identity",
    "crawl",
    "authorization",
]


def frame(part: PagePart | None = None, **changes: Any) -> PageFrame:
    plain = PageFrame(
        url="https://a.test/x?b=1",
        key="https://a.test/x?b=1",
        status=200,
        fetched_at=1_767_225_599.125,
        depth=0,
        via="",
        redirected_from=(),
        bytes=1_000,
        elapsed_ms=12,
        body_digest="a" * 64,
        text_digest="b" * 32,
        fingerprint=255,
        index=True,
        truncated="",
        duplicate_of="",
        identity="mannerly",
        authorization="",
        crawl="c-1",
        host_id=1,
        hash=2,
        blob=seal(part or PagePart()),
    )
    return msgspec.structs.replace(plain, **changes)


def written(frame: PageFrame) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(record_json(record_of(frame)))
    VALIDATOR.validate(record)
    return record


def test_schema_is_a_schema() -> None:
    Draft202012Validator.check_schema(SCHEMA)


def test_fields_stand_in_the_documented_order() -> None:
    names = [f.name for f in msgspec.structs.fields(PageRecord)]
    assert names == DESIGN_ORDER
    assert list(SCHEMA["properties"]) == names
    table = (DOCS / "page-record.md").read_text()
    assert [line.split("`")[1] for line in table.splitlines() if line.startswith("| `")] == names


def test_every_field_is_written_in_order_when_all_are_asked_for() -> None:
    part = PagePart(items=[{"n": "1"}], text="words", wants_text=True, links=["https://a.test/"])
    record = written(frame(part, identity="mannerly-authorized", authorization="d" * 64))
    assert list(record) == DESIGN_ORDER


def test_what_was_not_asked_for_is_left_out() -> None:
    record = written(frame(PagePart(text="kept for the index", wants_text=False)))
    assert not {"items", "text", "links", "authorization"} & record.keys()


def test_what_was_asked_for_and_is_empty_is_there() -> None:
    record = written(frame(PagePart(items=[], text="", wants_text=True, links=[])))
    assert (record["items"], record["text"], record["links"]) == ([], "", [])


def test_absent_values_are_null() -> None:
    record = written(frame(fingerprint=None, body_digest="", text_digest=""))
    absent = {name for name, value in record.items() if value is None}
    assert absent == {
        *("via", "content_type", "sniffed_type", "charset", "title", "description", "language", "canonical"),
        *("body_digest", "text_digest", "fingerprint", "duplicate_of", "truncated"),
    }


def test_robots_always_says_index_and_follow() -> None:
    assert written(frame())["robots"] == {"index": True, "follow": True}
    said = PagePart(robots={"index": False, "follow": False, "noarchive": True})
    assert written(frame(said, index=False))["robots"] == {"index": False, "follow": False, "noarchive": True}


def test_fingerprint_is_hex_so_that_no_reader_rounds_it() -> None:
    assert written(frame(fingerprint=2**64 - 2))["fingerprint"] == "fffffffffffffffe"
    assert written(frame(fingerprint=0))["fingerprint"] == "0" * 16


@pytest.mark.parametrize("blob", [b"", b"garbage", seal(PagePart())[:-3]])
def test_a_page_whose_blob_is_lost_keeps_its_record(blob: bytes) -> None:
    record = written(frame(blob=blob))
    assert record["url"] == "https://a.test/x?b=1"
    assert record["truncated"] == ("blob-unreadable" if blob else None)


@pytest.mark.parametrize(
    ("instant", "text"),
    [
        (0.0, "1970-01-01T00:00:00.000Z"),
        (1_767_225_599.125, "2025-12-31T23:59:59.125Z"),
        (1_767_225_599.9996, "2025-12-31T23:59:59.999Z"),
        (1_767_225_599.001, "2025-12-31T23:59:59.001Z"),
    ],
)
def test_instants_are_rfc3339_utc_milliseconds(instant: float, text: str) -> None:
    assert rfc3339(instant) == text


text = st.text(max_size=40)
value = st.none() | text | st.lists(text, max_size=3)
named = st.dictionaries(text, value, max_size=3)
parts = st.builds(
    PagePart,
    content_type=text,
    title=text,
    description=text,
    fields=named,
    items=st.none() | st.lists(named, max_size=3),
    text=text,
    links=st.none() | st.lists(text, max_size=3),
    wants_text=st.booleans(),
)


@pytest.mark.slow
@given(parts, st.none() | st.integers(0, 2**64 - 1), st.booleans())
def test_any_page_is_one_line_that_holds_what_was_read(
    part: PagePart, fingerprint: int | None, authorized: bool
) -> None:
    identity = "mannerly-authorized" if authorized else "mannerly"
    page = frame(part, fingerprint=fingerprint, identity=identity, authorization="d" if authorized else "")
    line = record_json(record_of(page)).decode()
    assert line.splitlines() == [line]
    record = json.loads(line)
    VALIDATOR.validate(record)
    assert record["title"] == (part.title or None)
    assert record["fields"] == part.fields
    assert record.get("items") == part.items
    assert record.get("links") == part.links


hidden = "\x7f\x80\x9b\u0085\u061c\u200e\u200f\u2028\u2029\u202a\u202e\u2066\u2069"


@pytest.mark.slow
@given(st.text(alphabet=hidden + 'aé–’漢😀\\"\n\x1b', min_size=1))
def test_no_line_holds_what_a_terminal_obeys(title: str) -> None:
    line = record_json(record_of(frame(PagePart(title=title)))).decode()
    assert not set(line) & set(hidden)
    assert "\x1b" not in line
    assert json.loads(line)["title"] == title
