"""Seeds as people type them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mannerly.model.errors import InvalidUrl
from mannerly.model.seed import has_credentials, seed_candidates, seed_verdict
from mannerly.model.url import parse
from mannerly.model.verdict import Reason


@pytest.mark.parametrize(
    ("text", "hrefs"),
    [
        ("a.test", ("https://a.test/", "http://a.test/")),
        ("  a.test/x?y#z\n", ("https://a.test/x?y", "http://a.test/x?y")),
        ("localhost:8080/x", ("https://localhost:8080/x", "http://localhost:8080/x")),
        ("a.test:443", ("https://a.test/", "http://a.test:443/")),
        ("127.0.0.1:8080", ("https://127.0.0.1:8080/", "http://127.0.0.1:8080/")),
        ("[::1]:8080", ("https://[::1]:8080/", "http://[::1]:8080/")),
        ("//a.test/x", ("https://a.test/x", "http://a.test/x")),
        ("http://a.test", ("http://a.test/",)),
        ("HTTPS://A.test/@me", ("https://a.test/@me",)),
        ("a.test/@me?x=b@c", ("https://a.test/@me?x=b@c", "http://a.test/@me?x=b@c")),
        ("bücher.test", ("https://xn--bcher-kva.test/", "http://xn--bcher-kva.test/")),
    ],
)
def test_candidates(text: str, hrefs: tuple[str, ...]) -> None:
    assert seed_verdict(text).allowed
    assert seed_candidates(text) == hrefs


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("http://me:pw@a.test/", Reason.HAS_CREDENTIALS),
        ("http://me@a.test/", Reason.HAS_CREDENTIALS),
        ("me:pw@a.test", Reason.HAS_CREDENTIALS),
        ("me@a.test", Reason.HAS_CREDENTIALS),
        ("http:me:pw@a.test", Reason.HAS_CREDENTIALS),
        ("ht\ntp://me:pw@a.test", Reason.HAS_CREDENTIALS),
        ("http://me:pw@a.test/\ud800", Reason.HAS_CREDENTIALS),
        ("mailto:me@a.test", Reason.UNSUPPORTED_SCHEME),
        ("ftp://a.test/", Reason.UNSUPPORTED_SCHEME),
        ("file:///etc/passwd", Reason.UNSUPPORTED_SCHEME),
        ("javascript:alert(1)", Reason.UNSUPPORTED_SCHEME),
        ("", Reason.INVALID_URL),
        ("/etc/passwd", Reason.INVALID_URL),
        ("?x", Reason.INVALID_URL),
        ("a b.test", Reason.INVALID_URL),
        ("a..test", Reason.INVALID_URL),
        ("http://a.test:99999/", Reason.INVALID_URL),
        ("http://", Reason.INVALID_URL),
    ],
)
def test_refused_seeds(text: str, reason: Reason) -> None:
    verdict = seed_verdict(text)
    assert verdict.reason is reason
    assert "pw" not in verdict.evidence or reason is Reason.INVALID_URL
    assert has_credentials(text) is (reason is Reason.HAS_CREDENTIALS)
    with pytest.raises(InvalidUrl):
        seed_candidates(text)


@given(st.text() | st.text(alphabet="htps:/@a.1?#[]\\ ", max_size=20))
def test_a_seed_is_taken_or_refused_for_a_reason(text: str) -> None:
    if not seed_verdict(text).allowed:
        return
    for href in seed_candidates(text):
        assert parse(href).href == href
