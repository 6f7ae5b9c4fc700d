"""Media types: headers, and what bytes look like."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mannerly.extract.types import MediaType, Reading, media_type, reading, sniff


@pytest.mark.parametrize(
    ("header", "essence", "charset"),
    [
        ("text/html", "text/html", ""),
        (" Text/HTML ; Charset=UTF-8 ", "text/html", "UTF-8"),
        ('text/html; a="x;charset=no"; charset="koi8-r"; charset=utf-8', "text/html", "koi8-r"),
        ("text/html; charset=; charset=utf-8", "text/html", "utf-8"),
        ("text/html; charset='utf-8'", "text/html", "utf-8"),
        ("html", "", ""),
        ("text/html/x", "", ""),
        ("", "", ""),
    ],
)
def test_content_type_headers(header: str, essence: str, charset: str) -> None:
    assert media_type(header) == MediaType(essence, charset)


@pytest.mark.parametrize(
    ("body", "declared", "sniffed"),
    [
        (b"<!DOCTYPE html><p>", "", "text/html"),
        (b" \n<P>x", "", "text/html"),
        (b"\xef\xbb\xbf<html>", "", "text/html"),
        (b"<!-- x -->", "", "text/html"),
        (b"<abbr>", "", "text/plain"),
        (b"<p>x", "text/plain", "text/plain"),
        (b"<?xml version='1.0'?><rss>", "", "text/xml"),
        (b"<?xml version='1.0'?><html xmlns='x'>", "application/xml", "application/xhtml+xml"),
        (b"<rss>", "application/rss+xml", "application/rss+xml"),
        (b"words", "", "text/plain"),
        (b"\x00\x01", "", "application/octet-stream"),
        (b"\x00\x01", "text/plain", "application/octet-stream"),
        (b"\xff\xfex\x00", "text/plain", "text/plain"),
        (b"%PDF-1.4", "text/html", "application/pdf"),
        (b"\x89PNG\r\n\x1a\n", "text/html", "image/png"),
        (b"GIF89a\x01\x00", "", "image/gif"),
        (b"BMW is a maker of cars", "text/html", "text/html"),
        (b"\x1f\x8b\x08\x00", "text/html", "application/gzip"),
        (b"PK\x03\x04", "application/epub+zip", "application/epub+zip"),
        (b"\x89PNG\r\n\x1a\n", "image/jpeg", "image/png"),
        (b"", "", "text/plain"),
        (b"", "text/html", "text/html"),
    ],
)
def test_what_bytes_look_like(body: bytes, declared: str, sniffed: str) -> None:
    assert sniff(body, declared) == sniffed


def test_only_html_and_plain_text_are_read() -> None:
    assert reading("application/xhtml+xml") is Reading.HTML
    assert reading("text/plain") is Reading.TEXT
    assert reading("application/pdf") is Reading.NONE


@given(st.text(), st.binary())
def test_no_header_and_no_body_make_it_raise(header: str, body: bytes) -> None:
    sniff(body, media_type(header).essence)
