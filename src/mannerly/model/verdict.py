"""Verdict and the closed list of reasons why a URL is not fetched, or gave no page.

Every refusal has one of these reasons (invariant I8): it is stored or counted, and shown by `mannerly why` and
`mannerly report`. A reason is never made up at run time; a new one is added here, with its sentence.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Reason(StrEnum):
    """Why a URL was refused or ended without a page."""

    # the URL itself
    INVALID_URL = "invalid-url"
    UNSUPPORTED_SCHEME = "unsupported-scheme"
    HAS_CREDENTIALS = "has-credentials"
    PORT_REFUSED = "port-refused"
    # scope
    OUT_OF_SCOPE = "out-of-scope"
    EXCLUDED = "excluded"
    NOT_INCLUDED = "not-included"
    NO_CONTACT = "no-contact"
    NOT_AUTHORIZED = "not-authorized"
    NOFOLLOW = "nofollow"
    # shape
    URL_TOO_LONG = "url-too-long"
    PATH_TOO_DEEP = "path-too-deep"
    TOO_MANY_PARAMETERS = "too-many-parameters"
    REPEATED_SEGMENTS = "repeated-segments"
    # budgets
    MAX_DEPTH = "max-depth"
    HOST_BUDGET = "host-budget"
    # robots.txt and its rules
    ROBOTS_DISALLOWED = "robots-disallowed"
    ROBOTS_UNREACHABLE = "robots-unreachable"
    ROBOTS_TOO_COMPLEX = "robots-too-complex"
    CRAWL_DELAY_TOO_LONG = "crawl-delay-too-long"
    # addresses and names
    ADDRESS_REFUSED = "address-refused"
    INVALID_HOST = "invalid-host"
    NAME_NOT_FOUND = "name-not-found"
    DNS_FAILED = "dns-failed"
    # redirects
    REDIRECT_INVALID = "redirect-invalid"
    REDIRECT_LOOP = "redirect-loop"
    REDIRECT_CHAIN_TOO_LONG = "redirect-chain-too-long"
    REDIRECT_TARGET_REFUSED = "redirect-target-refused"
    # the exchange
    HTTP_ERROR = "http-error"
    TLS_FAILED = "tls-failed"
    PROTOCOL_ERROR = "protocol-error"
    HEADERS_TOO_LARGE = "headers-too-large"
    TOO_COSTLY = "too-costly"
    KILLS_WORKER = "kills-worker"
    GAVE_UP = "gave-up"
    HOST_RETIRED = "host-retired"

    @property
    def sentence(self) -> str:
        """The reason in words, for people."""
        return SENTENCES[self]


SENTENCES: dict[Reason, str] = {
    Reason.INVALID_URL: "the URL is not valid by the WHATWG URL standard",
    Reason.UNSUPPORTED_SCHEME: "only http and https are fetched",
    Reason.HAS_CREDENTIALS: "the seed holds a user name or password",
    Reason.PORT_REFUSED: "the port is none of those that are dialled (80, 443, 8080, 8443, or --port)",
    Reason.OUT_OF_SCOPE: "the URL lies outside the scope of this crawl (--scope)",
    Reason.EXCLUDED: "an --exclude pattern matches the URL",
    Reason.NOT_INCLUDED: "no --include pattern matches the URL",
    Reason.NO_CONTACT: "a public host is fetched only with a contact (--contact)",
    Reason.NOT_AUTHORIZED: "the authorization does not name this host",
    Reason.NOFOLLOW: "the page asks not to follow its links, or this link",
    Reason.URL_TOO_LONG: "the URL is longer than 2,000 characters",
    Reason.PATH_TOO_DEEP: "the path has more than 20 segments",
    Reason.TOO_MANY_PARAMETERS: "the query has more than 20 parameters",
    Reason.REPEATED_SEGMENTS: "the same path segments follow each other three times: a sign of a trap",
    Reason.MAX_DEPTH: "the URL lies deeper than --max-depth links from a seed",
    Reason.HOST_BUDGET: "the host has as many URLs stored as its budget allows",
    Reason.ROBOTS_DISALLOWED: "robots.txt disallows the URL for our product token",
    Reason.ROBOTS_UNREACHABLE: "robots.txt cannot be read, so nothing is fetched (RFC 9309, 2.3.1.4)",
    Reason.ROBOTS_TOO_COMPLEX: "robots.txt holds more wildcards than are matched",
    Reason.CRAWL_DELAY_TOO_LONG: "robots.txt asks for more than an hour between requests",
    Reason.ADDRESS_REFUSED: "the host's addresses are not public",
    Reason.INVALID_HOST: "the host name cannot be dialled",
    Reason.NAME_NOT_FOUND: "the host name does not exist",
    Reason.DNS_FAILED: "the name server did not answer",
    Reason.REDIRECT_INVALID: "the redirect has no usable Location",
    Reason.REDIRECT_LOOP: "the redirect leads back to where it came from",
    Reason.REDIRECT_CHAIN_TOO_LONG: "more than 10 redirects in a row",
    Reason.REDIRECT_TARGET_REFUSED: "the target of the redirect is refused",
    Reason.HTTP_ERROR: "the server answered with an error status",
    Reason.TLS_FAILED: "the certificate or the TLS handshake was refused",
    Reason.PROTOCOL_ERROR: "the server's answer is not HTTP",
    Reason.HEADERS_TOO_LARGE: "the headers are larger than 256 KiB",
    Reason.TOO_COSTLY: "the page takes more memory or time than a page may",
    Reason.KILLS_WORKER: "the page ended a worker twice",
    Reason.GAVE_UP: "every attempt failed",
    Reason.HOST_RETIRED: "the host failed too often in this run",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """Allowed, or refused for a reason; `evidence` says what decided, in one line."""

    reason: Reason | None = None
    evidence: str = ""

    @property
    def allowed(self) -> bool:
        """True if nothing speaks against the URL."""
        return self.reason is None


ALLOWED = Verdict()


def refused(reason: Reason, evidence: str = "") -> Verdict:
    """Return the refusal for `reason`; `evidence` is the value that decided it."""
    return Verdict(reason, evidence)
