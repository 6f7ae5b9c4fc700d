"""robots.txt as RFC 9309 reads it: bytes to the rules that bind our product token.

`parse` never raises, whatever the bytes are: a line that cannot be read spoils itself alone (2.3.1.5). Where the
standard is silent the reading that forbids more, or waits longer, is taken. Patterns are kept in the spelling of
`policy.pattern`; `Matcher` finds the longest that matches, in time that no hostile file can stretch.
"""

from __future__ import annotations

import re
import zlib
from typing import NamedTuple

from mannerly.model.origin import (
    MAX_BODY_BYTES,
    MAX_CLEAN_PARAM_CHARS,
    MAX_CLEAN_PARAMS,
    MAX_CRAWL_DELAY_S,
    MAX_SITEMAP_CHARS,
    MAX_SITEMAPS,
    MAX_STARS,
    MAX_STARS_PER_RULE,
    MAX_WILDCARD_RULES,
    Ruleset,
)
from mannerly.policy.pattern import canonical_path, canonical_pattern, grams_of, is_wildcard, wildcard_of

PRODUCT_TOKEN = "mannerly"  # noqa: S105 - a name, no secret

_ALIASES = {
    b"useragent": b"user-agent",
    b"user agent": b"user-agent",
    b"dissallow": b"disallow",
    b"dissalow": b"disallow",
    b"disalow": b"disallow",
    b"diasllow": b"disallow",
    b"disallaw": b"disallow",
    b"site-map": b"sitemap",
}
"""Slips of the pen that Google's parser forgives: what the site meant is plain, so it is obeyed."""

# Longer names than RFC 9309's identifier in one respect: digits belong to them, so `mannerly2` is another product.
_AGENT = re.compile(rb"\*(?![A-Za-z0-9_-])|[A-Za-z0-9_-]+")
_DELAY = re.compile(r"[0-9]+(?:\.[0-9]*)?|\.[0-9]+", re.ASCII)

_HTML_START = re.compile(rb"\s*<(?:!doctype|!--|\?xml|html|head|body|script|title)", re.IGNORECASE)
_HTML_TYPES = frozenset({"text/html", "application/xhtml+xml"})
_GZIP_MAGIC = b"\x1f\x8b\x08"
_UTF8_BOM = b"\xef\xbb\xbf"
_UTF16_BOMS = (b"\xff\xfe", b"\xfe\xff")


def parse(body: bytes, token: str = PRODUCT_TOKEN, *, content_type: str = "") -> Ruleset:
    """Return the rules of the robots.txt `body` that bind the product `token`; never raises.

    `body` has its content coding removed and may be of any length; what lies past `MAX_BODY_BYTES` is not read, so
    the caller may stop one byte after it. `content_type` serves only to mark the ruleset as suspicious.
    """
    text, binary = _text_of(body)
    text, cut = _cut_at_line(text)
    reduction = _Reduction(token)
    for line in text.splitlines():
        reduction.take(line)
    media_type = content_type.partition(";")[0].strip().lower()
    html = media_type in _HTML_TYPES or _HTML_START.match(text) is not None
    return reduction.ruleset(suspicious=html or binary or b"\0" in text, cut=cut)


def _text_of(body: bytes) -> tuple[bytes, bool]:
    """Return the body as ASCII-compatible bytes without a byte order mark, and whether it came as binary data."""
    binary = body.startswith(_GZIP_MAGIC)
    if binary:
        body = _inflate(body)
    if body.startswith(_UTF16_BOMS):
        # Notepad's "Unicode". Two bytes a character: one more than the limit still shows that the file is cut.
        body = body[: 2 * MAX_BODY_BYTES + 2].decode("utf-16", "replace").encode("utf-8", "replace")
    return body.removeprefix(_UTF8_BOM), binary


def _inflate(body: bytes) -> bytes:
    """Undo gzip that no Content-Encoding announced (`robots.txt.gz` served as is); broken data stays as it is."""
    try:
        return zlib.decompressobj(wbits=31).decompress(body, MAX_BODY_BYTES + 1)
    except zlib.error:
        return body


def _cut_at_line(text: bytes) -> tuple[bytes, bool]:
    """Cut what is too long after its last whole line: half a path would be another rule."""
    if len(text) <= MAX_BODY_BYTES:
        return text, False
    text = text[:MAX_BODY_BYTES]
    return text[: max(text.rfind(b"\n"), text.rfind(b"\r")) + 1], True


class _Group:
    """What is gathered for one product token, or for `*`, from all its groups."""

    __slots__ = ("crawl_delay_s", "reads_delay", "reads_rules", "rules", "seen")

    def __init__(self) -> None:
        self.seen = False
        self.reads_rules = False
        self.reads_delay = False
        self.rules: dict[str, bool] = {}
        self.crawl_delay_s: float | None = None


class _Reduction:
    """Takes the lines of a file in order and keeps what binds us.

    A run of user-agent lines names the agents of the rules below it; only a rule ends the run (2.1, 2.2.4).
    A Crawl-delay binds the agents named since the last rule *or* Crawl-delay: files list agents with a delay each
    above the rules that all share, and the delay is no part of RFC 9309 that could say otherwise.
    """

    def __init__(self, token: str) -> None:
        self._token = token.lower().encode()
        self._own = _Group()
        self._everyone = _Group()
        self._rules_run_ended = False
        self._delay_run_ended = False
        self._sitemaps: dict[str, None] = {}
        self._clean_params: dict[str, None] = {}

    def take(self, line: bytes) -> None:
        line = line.partition(b"#")[0].strip()
        key, colon, value = line.partition(b":")
        if not colon:
            words = line.split()
            if len(words) != 2:
                return
            key, value = words
        key = key.strip().lower()
        value = value.strip()
        match _ALIASES.get(key, key):
            case b"user-agent":
                self._name_agent(value)
            case b"allow":
                self._add_rule(value, allow=True)
            case b"disallow":
                self._add_rule(value, allow=False)
            case b"crawl-delay":
                self._set_delay(value)
            case b"sitemap":
                _gather(self._sitemaps, value, MAX_SITEMAPS, MAX_SITEMAP_CHARS)
            case b"clean-param":
                _gather(self._clean_params, value, MAX_CLEAN_PARAMS, MAX_CLEAN_PARAM_CHARS)
            case b"http" | b"https" if b"sitemap" in value.lower():
                _gather(self._sitemaps, line, MAX_SITEMAPS, MAX_SITEMAP_CHARS)  # the key was forgotten
            case _:
                pass  # other records must not interfere (2.2.4)

    def _name_agent(self, value: bytes) -> None:
        for group in (self._own, self._everyone):
            group.reads_rules = group.reads_rules and not self._rules_run_ended
            group.reads_delay = group.reads_delay and not (self._rules_run_ended or self._delay_run_ended)
        self._rules_run_ended = self._delay_run_ended = False
        name = _AGENT.match(value)
        if name is None:
            return
        if name[0] == b"*":
            group = self._everyone
        elif name[0].lower() == self._token:
            group = self._own
        else:
            return
        group.seen = group.reads_rules = group.reads_delay = True

    def _add_rule(self, value: bytes, *, allow: bool) -> None:
        self._rules_run_ended = True
        pattern = canonical_pattern(value)
        if not pattern:
            return
        for group in (self._own, self._everyone):
            if group.reads_rules:
                group.rules[pattern] = allow or group.rules.get(pattern, False)

    def _set_delay(self, value: bytes) -> None:
        self._delay_run_ended = True
        delay_s = crawl_delay_of(value)
        if delay_s is None:
            return
        for group in (self._own, self._everyone):
            if group.reads_delay:
                group.crawl_delay_s = max(delay_s, group.crawl_delay_s or 0.0)

    def ruleset(self, *, suspicious: bool, cut: bool) -> Ruleset:
        group = self._own if self._own.seen else self._everyone
        too_complex = _too_complex(group.rules)
        return Ruleset(
            rules=() if too_complex else tuple((allow, pattern) for pattern, allow in group.rules.items()),
            crawl_delay_s=group.crawl_delay_s,
            sitemaps=tuple(self._sitemaps),
            clean_params=tuple(self._clean_params),
            suspicious=suspicious,
            too_complex=too_complex,
            cut=cut,
        )


def crawl_delay_of(value: bytes) -> float | None:
    """Return the seconds a Crawl-delay asks for, at most `MAX_CRAWL_DELAY_S`; None if it is no plain decimal number."""
    text = value.decode("latin-1")
    if _DELAY.fullmatch(text) is None:
        return None
    return min(float(text), MAX_CRAWL_DELAY_S)  # inf when it has more digits than a float holds


def _gather(lines: dict[str, None], value: bytes, most: int, longest: int) -> None:
    text = value.decode("utf-8", "replace")
    if text and len(text) <= longest and len(lines) < most:
        lines[text] = None


def _too_complex(patterns: dict[str, bool]) -> bool:
    stars = [pattern.count("*") for pattern in patterns if is_wildcard(pattern)]
    return (
        len(stars) > MAX_WILDCARD_RULES
        or max(stars, default=0) > MAX_STARS_PER_RULE
        or sum(stars) > MAX_STARS
    )


class Decision(NamedTuple):
    """What a ruleset says of one path: the longest rule that matches decides, None if none does.

    `too_complex`: the matcher gave up, so the path is refused without a rule.
    """

    allowed: bool
    pattern: str | None = None
    too_complex: bool = False


_ALLOWED = Decision(True)
_GAVE_UP = Decision(False, None, True)

MATCH_STEPS = 12_000_000
"""What the wildcards may cost for one path, in steps of about a tenth of a nanosecond at worst.

No honest file comes near. Past it the path is refused as too complex: to fail closed hurts the hostile site alone.
"""

_FILTER_FROM = 64
"""Rules below which looking for each segment is cheaper than gathering the path's grams."""


class _Index:
    """A ruleset laid out for matching.

    No canonical path holds a plain `*` or `$`, so one dictionary serves three questions without mixing them up:
    `path[:n]` finds plain prefixes, `path[:n] + "*"` those written with a star at the end (one octet longer, which
    counts), `path + "$"` a whole path. Only patterns with other stars are tried one by one, longest first.
    """

    __slots__ = ("gram_lengths", "literals", "plain_lengths", "starred_lengths", "wildcards")

    def __init__(self, ruleset: Ruleset) -> None:
        self.literals = {pattern: allow for allow, pattern in ruleset.rules}
        with_star = [pattern for pattern in self.literals if "*" in pattern]
        starred = {len(pattern) - 1 for pattern in with_star if not is_wildcard(pattern)}
        self.starred_lengths = sorted(starred, reverse=True)
        self.plain_lengths = sorted({*map(len, self.literals)}, reverse=True)
        wildcards = [
            wildcard_of(pattern, allow=self.literals[pattern])
            for pattern in with_star
            if is_wildcard(pattern)
        ]
        self.wildcards = sorted(wildcards, key=lambda rule: (len(rule.pattern), rule.allow), reverse=True)
        self.gram_lengths = frozenset(len(gram) for rule in wildcards for gram in rule.grams)

    def longest_literal(self, path: str) -> str | None:
        candidates = [path + "$"] if path + "$" in self.literals else []
        candidates += _first(self.literals, path, self.plain_lengths, "")
        candidates += _first(self.literals, path, self.starred_lengths, "*")
        return max(candidates, key=self._rank, default=None)

    def _rank(self, pattern: str) -> tuple[int, bool]:
        return len(pattern), self.literals[pattern]


def _first(literals: dict[str, bool], path: str, lengths: list[int], end: str) -> list[str]:
    """Return, as a list of at most one, the longest of these patterns that `path` begins with; `lengths` descend."""
    for length in lengths:
        if length <= len(path) and (pattern := path[:length] + end) in literals:
            return [pattern]
    return []


class Matcher:
    """Answers which rule of a ruleset decides a path. Immutable; laid out when made (the largest file: 15 ms)."""

    __slots__ = ("_index", "ruleset")

    def __init__(self, ruleset: Ruleset) -> None:
        self.ruleset = ruleset
        self._index = _Index(ruleset)

    def __repr__(self) -> str:
        return f"<Matcher of {len(self.ruleset.rules)} rules, about {self.nbytes} bytes>"

    @property
    def nbytes(self) -> int:
        """An estimate, on the high side, of the memory held: ruleset, dictionary and wildcards."""
        patterns = [pattern for _, pattern in self.ruleset.rules]
        octets, stars = sum(map(len, patterns)), sum(pattern.count("*") for pattern in patterns)
        lines = [*self.ruleset.sitemaps, *self.ruleset.clean_params]
        held = 1_000 + sum(map(len, lines)) + 80 * len(lines)
        return held + 170 * len(patterns) + 3 * octets + 400 * len(self._index.wildcards) + 60 * stars

    def allows(self, path_query: str) -> bool:
        """Tell whether the path and query of a URL may be fetched."""
        return self.decide(path_query).allowed

    def deciding_rule(self, path_query: str) -> tuple[bool, str] | None:
        """Return (allow, pattern) of the rule that decides, None if no rule does (or the matcher gave up)."""
        decision = self.decide(path_query)
        return None if decision.pattern is None else (decision.allowed, decision.pattern)

    def decide(self, path_query: str) -> Decision:
        """Return the decision on a path and query: most octets win, allow wins a tie, no match allows (2.2.2).

        /robots.txt itself is always allowed. A ruleset that is too complex forbids all else.
        """
        path = canonical_path(path_query)
        if path == "/robots.txt":
            return _ALLOWED
        if self.ruleset.too_complex:
            return _GAVE_UP
        literal = self._index.longest_literal(path)
        best = _ALLOWED if literal is None else Decision(self._index.literals[literal], literal)
        return _best_wildcard(self._index, path, best) if self._index.wildcards else best


def _best_wildcard(index: _Index, path: str, best: Decision) -> Decision:
    """Return the longest wildcard rule that matches if it beats `best`, else `best`."""
    rank = (len(best.pattern or ""), best.allowed)
    grams = grams_of(path, index.gram_lengths) if len(index.wildcards) >= _FILTER_FROM else None
    steps_left = MATCH_STEPS
    for rule in index.wildcards:
        if (len(rule.pattern), rule.allow) <= rank:
            break
        if (
            rule.octets > len(path)
            or not path.startswith(rule.prefix)
            or (grams is not None and not rule.grams <= grams)
        ):
            continue
        steps_left -= rule.steps(path)
        if steps_left < 0:
            return _GAVE_UP
        if rule.matches(path):
            return Decision(rule.allow, rule.pattern)
    return best
