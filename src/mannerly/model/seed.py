"""Seeds as people type them: with or without a scheme."""

from __future__ import annotations

import re
from typing import Final

from mannerly.model.errors import InvalidUrl
from mannerly.model.url import DEFAULT_PORTS, parse, redacted, squeezed, whatwg
from mannerly.model.verdict import ALLOWED, Reason, Verdict, refused

# A scheme, unless what follows its colon is a port (`localhost:8080/x`) or a password (`me:secret@a.test`).
_SCHEME: Final = re.compile(
    r"(mailto(?=:)|[a-z][a-z0-9+.-]*(?=:(?!\d+(?:[/\\?#]|$)|[^/\\?#]*@)))", re.IGNORECASE
)
_SLASHES: Final = ("//", "\\\\")


def seed_verdict(text: str) -> Verdict:
    """Tell whether a seed can be taken as typed: refused are user info, other schemes, and what is no URL."""
    if has_credentials(text):
        return refused(Reason.HAS_CREDENTIALS, redacted(text))
    scheme = _scheme(squeezed(text))
    if scheme and scheme not in DEFAULT_PORTS:
        return refused(Reason.UNSUPPORTED_SCHEME, f"{scheme}:")
    try:
        parse(_with_scheme(text))
    except InvalidUrl:
        return refused(Reason.INVALID_URL, redacted(text))
    return ALLOWED


def seed_candidates(text: str) -> tuple[str, ...]:
    """Return the hrefs to try for a seed, in order: itself, or without a scheme https and then http.

    `localhost:8080/x` has a host and a port, no scheme. Raise InvalidUrl where `seed_verdict` refuses.
    """
    verdict = seed_verdict(text)
    if verdict.reason is not None:
        raise InvalidUrl(f"{verdict.reason.sentence}: {verdict.evidence}")
    first = parse(_with_scheme(text)).href
    if _scheme(squeezed(text)):
        return (first,)
    # Parsed anew, not rewritten: port 443 is the default of the one scheme and port 80 that of the other.
    return first, parse("http" + _with_scheme(text).removeprefix("https")).href


def has_credentials(text: str) -> bool:
    """Tell whether `text`, read as a seed, holds a user name or a password."""
    url = whatwg(_with_scheme(text))
    return url is not None and bool(url.username or url.password) and url.protocol in {"http:", "https:"}


def _scheme(text: str) -> str:
    found = _SCHEME.match(text)
    return found[1].lower() if found else ""


def _with_scheme(text: str) -> str:
    text = squeezed(text)
    if _scheme(text):
        return text
    if text.startswith(_SLASHES):
        return "https:" + text
    # The parser would take `https:///etc` for a host named etc; left without a scheme it is no URL.
    return text if text.startswith(("/", "\\", "?", "#")) else "https://" + text
