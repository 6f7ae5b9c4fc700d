"""The page part of a result: sealed by workers, which nobody trusts, and opened by sinks."""

from __future__ import annotations

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from mannerly.model.blob import MAX_OPEN_BYTES, PagePart, seal, unseal
from mannerly.model.errors import WireError


def test_what_was_sealed_is_what_comes_out() -> None:
    part = PagePart(
        title="\u20ac", text="x" * 10_000, fields={"a": ["1", "2"], "b": None}, links=["http://a.test/"]
    )
    assert unseal(seal(part)) == part


def test_a_blob_that_declares_more_than_the_bound_is_refused_unopened() -> None:
    bomb = zstandard.ZstdCompressor().compress(bytes(MAX_OPEN_BYTES + 1))
    assert len(bomb) < 16_384
    with pytest.raises(WireError, match="opens to more"):
        unseal(bomb)


def test_a_blob_that_declares_nothing_is_bounded_while_it_is_opened() -> None:
    compressor = zstandard.ZstdCompressor(write_content_size=False).compressobj()
    bomb = compressor.compress(bytes(MAX_OPEN_BYTES + (1 << 20))) + compressor.flush()
    with pytest.raises(WireError):
        unseal(bomb)


@given(st.binary(max_size=400))
def test_bytes_that_are_no_blob_are_a_wire_error(noise: bytes) -> None:
    with pytest.raises(WireError):
        unseal(noise)
