"""The head of a response, line by line as libcurl hands it over. Pure.

libcurl has unfolded the lines and checked that they look like HTTP. Interim responses (RFC 9110, 15.2) bring blocks of
their own: only the last block counts. Lines after the final block are trailers: counted, not kept.
"""

from __future__ import annotations

# Fields that hold URLs, where servers put raw UTF-8 (see `_url_text`).
_URL_FIELDS = frozenset({"location", "refresh", "link", "content-location"})
_BLANK = (b"\r\n", b"\n")


class Head:
    """Collects one response head, at most `limit_bytes` over all blocks."""

    __slots__ = ("_lines", "complete", "fields", "limit_bytes", "seen_bytes", "status", "version")

    def __init__(self, limit_bytes: int) -> None:
        self.status = 0
        self.version = ""
        self.fields: list[tuple[str, str]] = []
        self.complete = False
        self.seen_bytes = 0
        self.limit_bytes = limit_bytes
        self._lines: list[bytes] = []

    def take(self, line: bytes) -> bool:
        """Take the next line with its line end; return False if the limit is passed."""
        self.seen_bytes += len(line)
        if self.seen_bytes > self.limit_bytes:
            return False
        if line not in _BLANK:
            self._lines.append(line)
        elif not self.complete:
            self._end_block()
        return True

    def _end_block(self) -> None:
        lines, self._lines = self._lines, []
        self._start(lines[0] if lines else b"")
        self.fields = [_field(line) for line in lines[1:] if b":" in line]
        self.complete = self.status >= 200

    def _start(self, line: bytes) -> None:
        version, _, rest = line.partition(b" ")
        code = rest.lstrip()[:3]
        self.version = version.removeprefix(b"HTTP/").decode("latin-1")
        self.status = int(code) if code.isdigit() else 0

    def values(self, name: str) -> list[str]:
        """Return every value of the field `name` (in lower case), in order."""
        return [value for field, value in self.fields if field == name]


def _field(line: bytes) -> tuple[str, str]:
    raw_name, _, raw = line.partition(b":")
    name = raw_name.decode("latin-1").strip().lower()
    value = raw.strip(b" \t\r\n")
    return name, _url_text(value) if name in _URL_FIELDS else value.decode("latin-1")


def _url_text(value: bytes) -> str:
    """Read a value that holds a URL: bytes beyond ASCII are UTF-8, as browsers take them; others are escaped."""
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return "".join(chr(byte) if byte < 0x80 else f"%{byte:02X}" for byte in value)
