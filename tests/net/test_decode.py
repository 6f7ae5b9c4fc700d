"""Content codings: undone, bounded, and what a lie about them comes to."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib
from typing import TYPE_CHECKING

import brotli
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from mannerly.net.decode import MAX_CODINGS, RATIO_FREE_BYTES, Decoder, codings

if TYPE_CHECKING:
    from collections.abc import Callable

MIB = 1024 * 1024
PAGE = b"<p>hello, reader</p>\n" * 500


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


PACK: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstandard.compress,
}
coding_names = st.sampled_from(sorted(PACK))


def decoded(decoder: Decoder, data: bytes, step: int = 16_384) -> bytes:
    pieces = [decoder.feed(data[at : at + step]) for at in range(0, len(data), step)]
    return b"".join([*pieces, decoder.finish()])


@pytest.mark.parametrize(
    ("values", "names"),
    [
        ([], ()),
        (["gzip"], ("gzip",)),
        (["X-GZIP"], ("gzip",)),
        (["identity"], ()),
        ([""], ()),
        (["deflate, gzip", " br "], ("deflate", "gzip", "br")),
        (["gzip,,identity"], ("gzip",)),
        (["utf-8"], ("utf-8",)),
    ],
)
def test_codings_are_read_from_all_fields_in_order(values: list[str], names: tuple[str, ...]) -> None:
    assert codings(values) == names


@pytest.mark.slow
@given(
    body=st.binary(max_size=20_000) | st.integers(0, 300_000).map(bytes),
    layers=st.lists(coding_names, min_size=0, max_size=MAX_CODINGS),
    step=st.integers(1, 5000),
)
def test_what_was_coded_comes_back_however_it_arrives(body: bytes, layers: list[str], step: int) -> None:
    packed = body
    for name in layers:
        packed = PACK[name](packed)
    decoder = Decoder(tuple(layers), limit_bytes=MIB)
    assert (decoded(decoder, packed, step), decoder.stopped) == (body, None)


@pytest.mark.slow
@given(
    layers=st.lists(coding_names | st.just("unknown"), max_size=5),
    pieces=st.lists(st.binary(max_size=300), max_size=8),
    limit_bytes=st.integers(1, 400),
)
def test_no_bytes_raise_or_pass_the_limit(layers: list[str], pieces: list[bytes], limit_bytes: int) -> None:
    decoder = Decoder(tuple(layers), limit_bytes=limit_bytes)
    out = b"".join([decoder.feed(piece) for piece in pieces] + [decoder.finish()])
    assert len(out) <= limit_bytes


@pytest.mark.slow
@given(name=coding_names, at=st.integers(0, 200), bit=st.integers(0, 7))
def test_damaged_body_is_marked_or_whole(name: str, at: int, bit: int) -> None:
    packed = bytearray(PACK[name](PAGE))
    packed[at % len(packed)] ^= 1 << bit
    decoder = Decoder((name,), limit_bytes=MIB)
    out = decoded(decoder, bytes(packed))
    # brotli and zstd carry no checksum here: damage that still decodes cannot be seen
    assert decoder.stopped == "coding" or out == PAGE or name in ("br", "zstd") or at < 10


@pytest.mark.parametrize("pack", [zlib.compress, raw_deflate])
def test_b50_deflate_with_and_without_its_wrapper(pack: Callable[[bytes], bytes]) -> None:
    for step in (1, 1000):
        decoder = Decoder(("deflate",), limit_bytes=MIB)
        assert (decoded(decoder, pack(b"<p>hello"), step), decoder.stopped) == (b"<p>hello", None)


def test_b48_gzip_is_undone_as_often_as_declared() -> None:
    once, twice = gzip.compress(PAGE), gzip.compress(gzip.compress(PAGE))
    for names, packed, out, stopped in (
        (("gzip",), once, PAGE, None),
        (("gzip",), twice, once, None),
        (("gzip", "gzip"), twice, PAGE, None),
        ((), once, once, None),
        (("gzip",), PAGE, PAGE, "coding"),
        (("gzip", "gzip"), once, PAGE, "coding"),
    ):
        decoder = Decoder(names, limit_bytes=MIB)
        got = decoded(decoder, packed)
        assert decoder.stopped == stopped
        assert got == out or gzip.decompress(got) == gzip.decompress(out)


def test_streams_one_after_the_other_are_one_body() -> None:
    for name in ("gzip", "zstd"):
        decoder = Decoder((name,), limit_bytes=MIB)
        assert decoded(decoder, PACK[name](b"one ") + PACK[name](b"two"), 7) == b"one two"
        assert decoder.stopped is None


@pytest.mark.parametrize("name", ["gzip", "deflate"])
def test_bytes_after_the_end_are_ignored(name: str) -> None:
    decoder = Decoder((name,), limit_bytes=MIB)
    assert (decoded(decoder, PACK[name](PAGE) + b"\0\0 trailing"), decoder.stopped) == (PAGE, None)


@pytest.mark.parametrize("name", sorted(PACK))
def test_stream_that_breaks_off_gives_what_came_and_is_marked(name: str) -> None:
    body = bytes(range(256)) * 4000
    decoder = Decoder((name,), limit_bytes=2 * MIB)
    out = decoded(decoder, PACK[name](body)[:-8])
    assert body.startswith(out)
    assert decoder.stopped == "coding"


@pytest.mark.parametrize("names", [("gzip",), ("deflate",), ("br",), ("zstd",), ("compress",), ("gzip",) * 4])
@pytest.mark.parametrize("step", [1, 50, 16_384])
def test_text_that_is_not_coded_comes_as_it_is(names: tuple[str, ...], step: int) -> None:
    decoder = Decoder(names, limit_bytes=MIB)
    assert (decoded(decoder, b"<!DOCTYPE html>" + PAGE, step), decoder.stopped) == (
        b"<!DOCTYPE html>" + PAGE,
        "coding",
    )


@pytest.mark.parametrize("name", sorted(PACK))
def test_empty_body_is_whole(name: str) -> None:
    decoder = Decoder((name,), limit_bytes=MIB)
    assert (decoder.feed(b"") + decoder.finish(), decoder.stopped) == (b"", None)


@pytest.mark.parametrize("name", sorted(PACK))
def test_limit_holds_to_the_byte(name: str) -> None:
    whole, cut = Decoder((name,), limit_bytes=len(PAGE)), Decoder((name,), limit_bytes=len(PAGE) - 1)
    assert (decoded(whole, PACK[name](PAGE)), whole.stopped) == (PAGE, None)
    assert (decoded(cut, PACK[name](PAGE)), cut.stopped) == (PAGE[:-1], "body")


def test_ratio_counts_above_the_free_bytes_only() -> None:
    free, over = Decoder(("gzip",), limit_bytes=10 * MIB), Decoder(("gzip",), limit_bytes=10 * MIB)
    assert len(decoded(free, gzip.compress(bytes(RATIO_FREE_BYTES)))) == RATIO_FREE_BYTES
    assert len(decoded(over, gzip.compress(bytes(8 * MIB)))) < 2 * MIB
    assert (free.stopped, over.stopped) == (None, "body")


def test_zstd_window_over_8_mib_is_refused() -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=27, compression_level=1)
    packer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    packed = packer.compress(PAGE) + packer.flush()
    decoder = Decoder(("zstd",), limit_bytes=MIB)
    assert (decoded(decoder, packed), decoder.stopped) == (packed, "coding")


@pytest.fixture(scope="module")
def bombs() -> dict[tuple[str, ...], bytes]:
    zeros = bytes(64 * MIB)
    once: dict[tuple[str, ...], bytes] = {
        ("gzip",): gzip.compress(zeros, 1),
        ("deflate",): zlib.compress(zeros, 1),
        ("br",): brotli.compress(zeros, quality=1),
        ("zstd",): zstandard.compress(zeros),
    }
    double = {(*names, "gzip"): gzip.compress(packed) for names, packed in once.items()}
    return once | double | {("gzip", "zstd"): zstandard.compress(gzip.compress(zeros, 1))}


@pytest.mark.slow
def test_b51_memory_stays_near_the_limit(bombs: dict[tuple[str, ...], bytes]) -> None:
    for names, packed in bombs.items():
        decoder = Decoder(names, limit_bytes=5 * MIB, ratio=10**9)
        tracemalloc.start()
        out = sum(len(decoder.feed(packed[at : at + 16_384])) for at in range(0, len(packed), 16_384))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert (out, decoder.stopped) == (5 * MIB, "body"), names
        assert peak < 12 * MIB, names  # the output once in pieces and once joined


@pytest.mark.slow
def test_zstd_that_starts_harmless_does_not_overshoot_far() -> None:
    """A stretch that does not shrink, then blocks that unpack a hundred thousand times."""
    packed = zstandard.compress(bytes(range(256)) * 3) + zstandard.compress(bytes(256 * MIB))[:16_000]
    decoder = Decoder(("zstd",), limit_bytes=MIB, ratio=10**9)
    tracemalloc.start()
    out = decoder.feed(packed)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (len(out), decoder.stopped) == (MIB, "body")
    assert peak < 24 * MIB
