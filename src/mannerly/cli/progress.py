"""How the crawl stands, on stderr: a bar on a terminal, a line every 10 s elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from mannerly.coordinator.service import Status

if TYPE_CHECKING:  # a tenth of a second to import: only where there is a terminal to draw on
    from rich.live import Live

LINE_EVERY_S: Final = 10.0
SPEED_OVER_S: Final = 10.0
DAY_S: Final = 86_400.0


class Progress:
    """Shows a `Status` now and then. `around` clears the bar while stdout is written to."""

    def __init__(self, *, quiet: bool) -> None:
        # without a stderr (`2>&-`) print() would write to stdout, among the pages
        self._quiet = quiet or sys.stderr is None
        self._terminal = sys.stderr is not None and sys.stderr.isatty()
        self._live: Live | None = None
        self._line_at = time.monotonic() + LINE_EVERY_S
        self._marks: list[tuple[float, int]] = [(time.monotonic(), 0)]

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show progress while the block runs."""
        if self._quiet or not self._terminal:
            yield
            return
        from rich.console import Console
        from rich.live import Live

        console = Console(stderr=True)
        with Live("", console=console, transient=True, refresh_per_second=4) as self._live:
            yield
        self._live = None

    @contextmanager
    def around(self) -> Iterator[None]:
        """Write to stdout above the bar: on a terminal both share the screen."""
        live = self._live
        if live is None or not sys.stdout.isatty():
            yield
            return
        live.stop()
        try:
            yield
        finally:
            live.start()

    def clear(self) -> None:
        """Take the bar away for good and show the cursor again: the process is about to end."""
        if self._live is not None:
            self._live.stop()

    def __call__(self, status: Status) -> None:
        """Take a status in."""
        if self._quiet:
            return
        if self._live is not None:
            from rich.text import Text

            self._live.update(Text(self._text(status)))
        elif not self._terminal and time.monotonic() >= self._line_at:
            self._line_at = time.monotonic() + LINE_EVERY_S
            with suppress(OSError):  # nobody reads it any more: no reason to end a crawl
                print(self._text(status), file=sys.stderr)

    def _text(self, status: Status) -> str:
        due = "" if status.next_due_s is None else f", next due in {wait_text(status.next_due_s)}"
        paused = f", {status.paused}" if status.paused else ""
        return (
            f"{status.pages:,} pages, {self._speed(status):.1f}/s, {status.queued:,} queued, "
            f"{status.in_flight} in flight, {status.waiting} hosts waiting{due}{paused}"
        )

    def _speed(self, status: Status) -> float:
        """Pages a second over the last ten seconds."""
        now = time.monotonic()
        self._marks.append((now, status.run_pages))
        while len(self._marks) > 2 and self._marks[1][0] < now - SPEED_OVER_S:
            self._marks.pop(0)
        began_at, before = self._marks[0]
        elapsed = now - began_at
        return (status.run_pages - before) / elapsed if elapsed > 0 else 0.0


def wait_text(wait_s: float) -> str:
    """Return a wait as text, short however long it is."""
    return f"{wait_s:.1f} s" if wait_s < DAY_S else f"{min(wait_s / DAY_S, 9_999):,.0f} d"
