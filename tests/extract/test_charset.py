"""What the bytes look like decides where nothing else does."""

from __future__ import annotations

import pytest

from mannerly.extract.charset import decode

PAGE = "<!doctype html><title>Fälle</title><p>日本語</p>"


@pytest.mark.parametrize(("codec", "name"), [("utf-16-le", "utf-16le"), ("utf-16-be", "utf-16be")])
def test_utf_16_without_a_mark_is_known_by_its_null_bytes(codec: str, name: str) -> None:
    assert decode(PAGE.encode(codec), "text/html") == (PAGE, name)


@pytest.mark.parametrize("body", [b"<\0!doctype html>", b"\0\0\0\0\0\0\0\0", b"a\0b\0c", b""])
def test_a_few_null_bytes_make_no_utf_16(body: bytes) -> None:
    assert decode(body, "text/html")[1] == "windows-1252"


def test_a_declared_charset_is_kept_whatever_the_bytes_look_like() -> None:
    assert decode(PAGE.encode("utf-16-le"), "text/html; charset=utf-8")[1] == "utf-8"
