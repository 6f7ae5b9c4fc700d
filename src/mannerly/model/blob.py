"""The page part of a result: one zstd blob, made by the worker and opened by sinks alone.

Coordinator and journal pass it on unopened, so a page's text costs them nothing but bytes.
"""

from __future__ import annotations

from typing import Final

import msgspec
import zstandard

from mannerly.model.errors import WireError

LEVEL: Final = 3
MAX_OPEN_BYTES: Final = 64 << 20

FieldValue = str | list[str] | None


class PagePart(msgspec.Struct, frozen=True, array_like=True):
    """What a page says, as sinks need it. body: decoded markup, only where it was wanted."""

    content_type: str = ""
    sniffed_type: str = ""
    charset: str = ""
    title: str = ""
    description: str = ""
    language: str = ""
    canonical: str = ""
    robots: dict[str, bool] = {}
    fields: dict[str, FieldValue] = {}
    items: list[dict[str, FieldValue]] | None = None
    text: str = ""
    links: list[str] | None = None
    wants_text: bool = False
    body: str = ""


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(PagePart)


def seal(part: PagePart) -> bytes:
    """Return `part` as one zstd frame of MessagePack."""
    return zstandard.ZstdCompressor(level=LEVEL).compress(_encoder.encode(part))


def unseal(blob: bytes) -> PagePart:
    """Return what `seal` was given; raise WireError if the bytes are no blob of ours or open to over 64 MiB."""
    try:
        # a frame that declares its size is opened in one go, whatever bound is given: the declaration is looked at first
        if zstandard.frame_content_size(blob) > MAX_OPEN_BYTES:
            raise WireError(
                f"a page blob of {len(blob)} bytes says that it opens to more than {MAX_OPEN_BYTES}"
            )
        opened = zstandard.ZstdDecompressor().decompress(blob, max_output_size=MAX_OPEN_BYTES)
        return _decoder.decode(opened)
    except (zstandard.ZstdError, msgspec.MsgspecError, RecursionError) as error:
        raise WireError(f"a page blob of {len(blob)} bytes cannot be opened: {error}") from error
