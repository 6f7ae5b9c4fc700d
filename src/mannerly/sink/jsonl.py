"""JSON Lines: one page record a line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mannerly.model.frame import PageFrame
from mannerly.model.record import record_json, record_of
from mannerly.sink.output import Output
from mannerly.sink.output_file import Layout

LAYOUT: Final = Layout(name="jsonl", opening=b'{"url":')

# Lines are gathered up to this before they are written: few calls, and bounded whatever a page's text comes to.
GATHERED_BYTES: Final = 1 << 20


class JsonlSink:
    """Writes each page as a JSON object on a line of its own."""

    def __init__(self, output: Output) -> None:
        self._output = output

    def __repr__(self) -> str:
        return f"<JsonlSink {self._output!r}>"

    @property
    def name(self) -> str:
        """Name under which the position is stored: another output is another sink."""
        return f"jsonl:{self._output.label}"

    def open(self, state: str | None) -> bool:
        """Make ready to go on from `state`; False: begin anew."""
        return self._output.open(state, LAYOUT)

    def write(self, frames: Sequence[PageFrame]) -> None:
        """Write the frames' records in order."""
        lines = bytearray()
        for frame in frames:
            lines += record_json(record_of(frame))
            lines += b"\n"
            if len(lines) >= GATHERED_BYTES:
                self._output.write(bytes(lines))
                lines.clear()
        if lines:
            self._output.write(bytes(lines))

    def sync(self) -> str:
        """Make what was written durable; return the state to store with the position."""
        return self._output.sync()

    def close(self) -> None:
        """Close the output."""
        self._output.close()
