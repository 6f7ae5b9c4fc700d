"""The table of bad manners that `hostile` serves: name, what the server does, what a good crawler makes of it.

The targets of bad redirects lie outside: not to dial them is what the crawler is tested for.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from mannerly.testing import bodies
from mannerly.testing.answers import (
    CONFLICT,
    FAR_OFF,
    FILLER_LINE,
    NEVER_S,
    NINE_TIMES,
    NO_LINKS_FOLLOWED,
    OK,
    PAGE,
    PNG,
    UTF_16,
    bomb,
    coded,
    here_again,
    later,
    maze,
    page_with,
    raw,
    robots_bounced,
    robots_text,
    second_is_closed,
    stream,
    to,
    typed,
)
from mannerly.testing.bodies import MIB
from mannerly.testing.exchange import Reply
from mannerly.testing.site import Handler

Answer = Reply | Handler

AS_ANY: Final = Reply(body=PAGE)


@dataclass(frozen=True, slots=True)
class Behaviour:
    """One bad manner. does: what the server does; good: what a good crawler makes of it.

    answer: to every request but for robots.txt. robots: to that one, None: 404.
    """

    name: str
    does: str
    good: str
    answer: Answer = AS_ANY
    robots: Answer | None = None

    @property
    def host(self) -> str:
        """The host name that behaves so."""
        return f"{self.name}.test"


# ------------------------------------------------------------------------------------------------ what a good crawler does

_CUT: Final = "cuts the body at its limit and says so in the record"
_FAILS: Final = "ends the exchange at its time limit, tries later, a few times"
_COPES: Final = "gives the page"
_FLAGS: Final = "gives what came, and says so in the record"
_REFUSES: Final = "does not follow it, and says why"
_NO_PAGE: Final = "ends the exchange, and says why there is no page"
_FLAGS_OR_FAILS: Final = "gives what came and says so, or says why there is no page"
_BOUNDED: Final = "reads it in bounded time and memory, cut or whole"
_WAITS: Final = "asks again no sooner, whatever its own back-off is"
_BACKS_OFF: Final = "reads no wish into it, and backs off by its own rule"

# ------------------------------------------------------------------------------------------------ the table

_ROWS: Final = (
    # --- too much, too slow
    Behaviour("body-1gib", "a page of 1 GiB", _CUT, stream(lambda: bodies.filler(1 << 30))),
    Behaviour(
        "body-endless",
        "a page in chunks that never ends",
        _CUT,
        stream(lambda: itertools.repeat(PAGE * 600), chunked=True),
    ),
    Behaviour("gzip-bomb", "500 MiB of zeros in 500 KiB of gzip", _CUT, bomb("gzip")),
    Behaviour("br-bomb", "500 MiB of zeros in 1 KiB of br", _CUT, bomb("br")),
    Behaviour("zstd-bomb", "500 MiB of zeros in 16 KiB of zstd", _CUT, bomb("zstd")),
    Behaviour("double-bomb", "500 MiB of zeros in 1 KiB of gzip in gzip", _CUT, bomb("gzip", "gzip")),
    Behaviour("coded-twice", "a page under gzip, then br", _COPES, coded("gzip", "br")),
    Behaviour("coded-thrice", "a page under gzip, then br, then zstd", _COPES, coded("gzip", "br", "zstd")),
    Behaviour("coded-nine-times", "a page under gzip nine times", _FLAGS, coded(*NINE_TIMES)),
    Behaviour(
        "headers-10mb",
        "10 MB of header lines",
        _NO_PAGE,
        Reply(raw=OK, pieces=lambda: bodies.numbered(FILLER_LINE, 50_000, tail=b"\r\n" + PAGE)),
    ),
    Behaviour(
        "header-line-1mb",
        "one header line of 1 MB",
        _NO_PAGE,
        Reply(raw=OK + b"X-Long: ", pieces=lambda: bodies.repeated(b"f", 1_000_000, tail=b"\r\n\r\n" + PAGE)),
    ),
    Behaviour(
        "headers-endless",
        "header lines without end, ten a second",
        _FAILS,
        Reply(raw=OK, pieces=lambda: itertools.repeat(b"X-More: to come\r\n"), every_s=0.1),
    ),
    Behaviour(
        "drip",
        "a page of one byte every five seconds",
        _FAILS,
        Reply(pieces=lambda: itertools.repeat(b"x"), every_s=5.0),
    ),
    Behaviour(
        "drip-head",
        "a status line of one byte every five seconds",
        _FAILS,
        Reply(raw=b"H", pieces=lambda: (bytes([byte]) for byte in OK[1:]), every_s=5.0),
    ),
    Behaviour("no-answer", "reads the request, and says nothing", _FAILS, Reply(delay_s=NEVER_S)),
    # --- markup
    Behaviour(
        "nested",
        "200,000 nested elements",
        _BOUNDED,
        stream(lambda: bodies.repeated(b"<div>", 200_000, head=PAGE)),
    ),
    Behaviour(
        "b-p",
        "1.7 million <b><p>, none closed",
        _BOUNDED,
        stream(lambda: bodies.repeated(b"<b><p>", 1_700_000, head=PAGE)),
    ),
    Behaviour(
        "anchors",
        "3.5 million <a>, none closed",
        _BOUNDED,
        stream(lambda: bodies.repeated(b"<a>", 3_500_000, head=PAGE)),
    ),
    Behaviour(
        "attributes",
        "one element with a million attributes",
        _BOUNDED,
        stream(lambda: bodies.numbered(" a{}", 1_000_000, head=PAGE + b"<p", tail=b">")),
    ),
    Behaviour(
        "links",
        "a million links; robots.txt forbids their targets",
        "follows so many that its memory stays bounded, and says that there were more",
        stream(lambda: bodies.numbered('<a href="/link/{}">x</a>', 1_000_000, head=PAGE)),
        robots=NO_LINKS_FOLLOWED,
    ),
    Behaviour(
        "options",
        "a list of 500,000 options",
        _BOUNDED,
        stream(lambda: bodies.repeated(b"<option>", 500_000, head=PAGE + b"<select>")),
    ),
    Behaviour(
        "noise", "1 MiB of random bytes as HTML", _COPES, Reply(pieces=lambda: iter([bodies.noise(MIB)]))
    ),
    Behaviour(
        "nulls",
        "null bytes in the title, and a million more",
        _COPES,
        stream(lambda: bodies.repeated(b"\0", MIB, head=b"<!doctype html><title>a\0b</title>")),
    ),
    Behaviour(
        "utf-16", "UTF-16 without byte order mark, nowhere declared", _COPES, typed("text/html", UTF_16)
    ),
    Behaviour(
        "charset-conflict",
        "UTF-8 as the header says, Shift_JIS as the page says",
        "gives the page, read as the header says",
        typed("text/html; charset=utf-8", CONFLICT),
    ),
    Behaviour(
        "wrong-type",
        "a picture, declared as HTML",
        "gives a record that names both types",
        typed("text/html", PNG),
    ),
    Behaviour(
        "no-type",
        "a page without Content-Type",
        "looks at its first bytes, as browsers do, and gives the page",
        typed(None, PAGE),
    ),
    Behaviour("empty", "no body at all", "gives an empty page", Reply(body=b"")),
    # --- lies, and what is no HTTP
    Behaviour(
        "length-short",
        "Content-Length: 20 before a page that is longer",
        "gives the 20 bytes, and takes no more answers from that connection",
        page_with(("Content-Length", "20")),
    ),
    Behaviour(
        "length-long",
        "Content-Length: 1000000, then a short page, then the end",
        _FLAGS,
        Reply(body=PAGE, headers=(("Content-Length", "1000000"),), close=True),
    ),
    Behaviour(
        "length-twice",
        "two Content-Length fields that differ",
        "refuses the answer, or lets the end of the connection decide",
        Reply(body=PAGE, headers=(("Content-Length", "20"), ("Content-Length", "21")), close=True),
    ),
    Behaviour(
        "length-negative",
        "Content-Length: -1",
        "refuses the answer, or lets the end of the connection decide",
        Reply(body=PAGE, headers=(("Content-Length", "-1"),), close=True),
    ),
    Behaviour(
        "length-huge",
        "Content-Length: 99999999999999999999",
        "reserves nothing for it",
        Reply(body=PAGE, headers=(("Content-Length", "9" * 20),), close=True),
    ),
    Behaviour(
        "not-gzip",
        "Content-Encoding: gzip before a page that is not coded",
        _FLAGS,
        page_with(("Content-Encoding", "gzip")),
    ),
    Behaviour(
        "torn-gzip",
        "gzip that ends in the middle",
        _FLAGS,
        page_with(
            ("Content-Encoding", "gzip"), body=b"".join(bodies.coded("gzip", bodies.filler(MIB)))[:2_000]
        ),
    ),
    Behaviour(
        "unknown-coding",
        "Content-Encoding: x-none-such",
        _FLAGS,
        page_with(("Content-Encoding", "x-none-such")),
    ),
    Behaviour(
        "not-chunked",
        "Transfer-Encoding: chunked before a page that is not",
        _FLAGS_OR_FAILS,
        raw(OK + b"Transfer-Encoding: chunked\r\n"),
    ),
    Behaviour(
        "torn-chunk",
        "a chunk of 65,536 bytes that ends after a few",
        _FLAGS_OR_FAILS,
        raw(OK + b"Transfer-Encoding: chunked\r\n", b"10000\r\n" + PAGE),
    ),
    Behaviour(
        "length-and-chunks",
        "Content-Length: 20 and chunks",
        "goes by the chunks (RFC 9112, 6.3), and takes no more answers from that connection",
        Reply(body=PAGE, chunked=True, headers=(("Content-Length", "20"),)),
    ),
    Behaviour("garbage-status", "a status line of garbage", _NO_PAGE, raw(b"HTTP/9.9 what 200\r\n")),
    Behaviour("garbage", "random bytes in place of an answer", _NO_PAGE, Reply(raw=bodies.noise(20_000))),
    Behaviour("http-0.9", "a page without status line or headers", _NO_PAGE, Reply(raw=PAGE)),
    Behaviour("status-only", "a status line, then the end", _FAILS, Reply(raw=b"HTTP/1.1 200 OK\r\n")),
    Behaviour(
        "continues",
        "100 Continue without end",
        _FAILS,
        Reply(raw=b"", pieces=lambda: itertools.repeat(b"HTTP/1.1 100 Continue\r\n\r\n"), every_s=0.1),
    ),
    Behaviour("reset", "resets the connection when asked", _FAILS, Reply(silent=True, reset=True)),
    Behaviour("closes", "closes the connection when asked", _FAILS, Reply(silent=True)),
    Behaviour(
        "closes-second",
        "closes a kept connection at its second request",
        "asks once more, on a new connection, and counts no failure",
        second_is_closed,
    ),
    # --- redirects
    Behaviour("maze", "1,000 redirects before the page", "stops after a few, and says so", maze),
    Behaviour("to-itself", "a redirect to itself", _REFUSES, here_again),
    Behaviour("to-nowhere", "a redirect without Location", _REFUSES, Reply(status=302)),
    Behaviour("to-private", "a redirect to 10.0.0.1", _REFUSES, to("http://10.0.0.1/")),
    Behaviour("to-loopback", "a redirect to ::1, written as 0:0::1", _REFUSES, to("http://[0:0::1]/")),
    Behaviour(
        "to-decimal", "a redirect to 127.0.0.1, written as 2130706433", _REFUSES, to("http://2130706433/")
    ),
    Behaviour(
        "to-metadata",
        "a redirect to a cloud's metadata",
        _REFUSES,
        to("http://169.254.169.254/latest/meta-data/"),
    ),
    Behaviour("to-file", "a redirect to file:///etc/passwd", _REFUSES, to("file:///etc/passwd")),
    Behaviour("to-script", "a redirect to javascript:", _REFUSES, to("javascript:alert(1)")),
    Behaviour(
        "to-credentials",
        "a redirect to a URL with user name and password",
        "sends none of them",
        to("http://user:secret@to-credentials.invalid/"),
    ),
    Behaviour("to-port", "a redirect to port 25 of another host", _REFUSES, to("http://to-port.invalid:25/")),
    # --- robots.txt
    Behaviour(
        "robots-wildcards",
        "robots.txt of 500 KiB of wildcards",
        "matches in bounded time, or leaves the host alone",
        robots=robots_text(
            lambda: bodies.numbered("Disallow: /*a*b*c*d*{}*e*f*g*$\n", 17_000, head=b"User-agent: *\n")
        ),
    ),
    Behaviour(
        "robots-loop",
        "robots.txt redirects to where it came from",
        "reads it as none there is (RFC 9309, 2.3.1.2), after a few",
        robots_bounced,
        robots=to("/robots-2.txt"),
    ),
    Behaviour(
        "robots-endless",
        "robots.txt without end",
        "reads 500 KiB of it (RFC 9309, 2.5)",
        robots=robots_text(lambda: itertools.repeat(b"User-agent: *\nDisallow: /none\n" * 2_000)),
    ),
    Behaviour(
        "robots-noise",
        "robots.txt of random bytes",
        "finds no rule in it",
        robots=robots_text(lambda: iter([bodies.noise(MIB // 4)])),
    ),
    Behaviour(
        "robots-unanswered",
        "robots.txt is never answered",
        "fetches nothing (RFC 9309, 2.3.1.4)",
        robots=Reply(delay_s=NEVER_S),
    ),
    # --- Retry-After
    Behaviour("later-seconds", "503 with Retry-After: 7200", _WAITS, later("7200")),
    Behaviour(
        "later-date", "503 with Retry-After of a date in 2096", "leaves the host alone", later(FAR_OFF)
    ),
    Behaviour(
        "later-huge", "503 with Retry-After: 99999999999999999999", "leaves the host alone", later("9" * 20)
    ),
    Behaviour(
        "later-past",
        "503 with Retry-After of a date in 1994",
        _BACKS_OFF,
        later("Sun, 06 Nov 1994 08:49:37 GMT"),
    ),
    Behaviour("later-negative", "503 with Retry-After: -5", _BACKS_OFF, later("-5")),
    Behaviour("later-words", "503 with Retry-After: tomorrow", _BACKS_OFF, later("tomorrow")),
)

BEHAVIOURS: Final = MappingProxyType({row.name: row for row in _ROWS})
