"""Pieces of the formats that are fuzzed: what a mutation puts in, so that it gets past the first look."""

from __future__ import annotations

from typing import Final

HTTP: Final = (
    b"HTTP/1.1 200 OK\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\n",
    b"\r\n\r\n",
    b"\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Content-Length: 5\r\n",
    b"Content-Encoding: gzip\r\n",
    b"Location: //\r\n",
    b"0\r\n\r\n",
    b"ffffffff\r\n",
    b"HTTP/0.9",
    b"HTTP/2 ",
)
HTML: Final = tuple(
    b"<div>|<p>|<a href=|<base href=|<meta charset=|<meta http-equiv=refresh content=|;url=|<title>|<svg>|<math>|<table>"
    b"|<template>|<noscript>|<script>|</script>|<!--|-->|<![CDATA[|<select>|<option>|<form>|<plaintext>|<frameset>|</p>|<b>|</div>"
    b"|&|&#x|&NotEqualTilde;|charset=|utf-16le|iso-2022-jp|gb18030|\xff\xfe|\xfe\xff|<link rel=canonical href=|\n\n|noindex"
    b"|<?xml encoding='|1|.| |;|,|x-robots-tag: |unavailable_after: ".split(b"|")
)
ROBOTS: Final = tuple(
    b"User-agent: *\n|User-agent: mannerly\n|Disallow: /|Allow: /|Crawl-delay: |Sitemap: |*|$|%|%2f|\r|\n|#|:|\xef\xbb\xbf"
    b"|\xff\xfe|\x1f\x8b\x08|Clean-param: |*a".split(b"|")
)
FIELDS: Final = tuple(
    b'max-age=|no-store|Wed, 21 Oct 2026 07:28:00 GMT|noindex|mannerly:|,|;|:|unavailable_after: |charset=|text/html|gzip|"|\\'
    b"|+0000|-2400|2026-10-21T07:28:00Z|99999999999999999999| |\t|max-snippet:0".split(b"|")
)
URL: Final = tuple(
    b"http://|https://|//|/../|%2e|%|?|&|=|#|@|:|[::1]|[|]|;jsessionid=|utm_source=|xn--|\xc3\xa9|\xed\xa0\x80|\xe2\x80\xae|0x7f.1|.|\\|\t|\n"
    b"| |:0|:65536|..|ref=1|data:|javascript:".split(b"|")
)
PACK: Final = (
    *(
        bytes([byte])
        for byte in (0x80, 0x81, 0x90, 0x91, 0xA0, 0xA1, 0xC0, 0xC1, 0xC2, 0xC3, 0xCA, 0xCB, 0xFF)
    ),
    b"\xdd\xff\xff\xff\xff",
    b"\xdc\xff\xff",
    b"\xdf\xff\xff\xff\xff",
    b"\xdb\xff\xff\xff\xff",
    b"\xc6\xff\xff\xff\xff",
    b"\xd4\x05\x00",
    b"\xd6\xff\x00\x00\x00\x00",
    b"\xd7\xff\xff\xff\xff\xff\xff\xff\xff\xff",
    b"\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00",
    b"\xcf\xff\xff\xff\xff\xff\xff\xff\xff",
    b"\xd3\x80\x00\x00\x00\x00\x00\x00\x00",
    b"\xa1\xff",
    b"\xa3\xed\xa0\x80",
    b"\x01\x03",
    b"\x01\x02",
)
STATE: Final = tuple(
    b'{"|":|,|-1|1e400|null|"crawl":"c1"|"size":3|"size":-3|"size":9223372036854775808|"tail":""|}|[|\\u0000|\\ud800'.split(
        b"|"
    )
)
