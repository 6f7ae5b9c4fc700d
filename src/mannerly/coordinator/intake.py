"""Candidates -> scope, shape, contact, rules in hand, seen set -> admissions.

The worker canonicalised a page's links and grouped them by host; here keys are compared, and only what is to be
inserted is parsed again: a worker's word about a key is not trusted. Every refusal has a reason and is counted once
for each URL while memory remembers it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from mannerly.coordinator.rulesets import Rulesets
from mannerly.model import url as urls
from mannerly.model.config import BudgetConfig
from mannerly.model.entry import Admission, Refusal, UrlId, Waiting
from mannerly.model.errors import InvalidUrl
from mannerly.model.result import LinkGroup
from mannerly.model.url import Url
from mannerly.model.verdict import Reason, Verdict, refused
from mannerly.policy import templates, traps
from mannerly.policy.bands import band_of
from mannerly.policy.scope import Scope


@dataclass(frozen=True, slots=True)
class Candidate:
    """A URL that may be admitted. `source` is the URL that redirected here; where that was found, this was found, too."""

    host: str
    hash: int
    key: str
    href: str
    depth: int
    via: UrlId | None = None
    chain: tuple[str, ...] = ()
    seed: bool = False
    schemeless: bool = False
    source: UrlId | None = None


@dataclass(frozen=True, slots=True)
class Rules:
    """What intake decides by, besides scope and robots.txt; all of it fixed for a run.

    strip: parameters stripped from keys in this crawl. secret keys the hashes. needs_contact tells whether a host may
    be fetched only with a contact, and there is none. port_verdict refuses ports. seed_hosts have the large budget.
    """

    secret: int
    budget: BudgetConfig
    strip: frozenset[str]
    needs_contact: Callable[[str], bool]
    port_verdict: Callable[[Url], Verdict]
    seed_hosts: frozenset[str]
    shape: traps.ShapeLimits = field(default_factory=traps.ShapeLimits)


class Recent:
    """Hashes met lately, exact, in two generations of bounded size: a site's navigation repeats on every page."""

    def __init__(self, most: int) -> None:
        self._most = max(1, most // 2)
        self._new: set[int] = set()
        self._old: set[int] = set()

    def add(self, hash_: int) -> None:
        """Remember a hash; the older half is forgotten when the newer one is full."""
        if len(self._new) >= self._most:
            self._old, self._new = self._new, set()
        self._new.add(hash_)

    def __contains__(self, hash_: int) -> bool:
        return hash_ in self._new or hash_ in self._old

    def __len__(self) -> int:
        return len(self._new) + len(self._old)


class Intake:
    """Judges candidates. `scope` changes when a redirected seed joins it."""

    def __init__(self, scope: Scope, rules: Rules, rulesets: Rulesets, *, recent_keys: int) -> None:
        self.scope = scope
        self._rules = rules
        self._rulesets = rulesets
        self._recent = Recent(recent_keys)

    # ------------------------------------------------------------------------------------------------ gathering

    def of_links(
        self, entry: Waiting, groups: Iterable[LinkGroup], refusals: list[Refusal]
    ) -> Iterable[Candidate]:
        """Yield the candidates of a page's links that were not met lately; note what is refused by the group."""
        depth = entry.depth + 1
        secret = self._rules.secret
        recent = self._recent
        for group in groups:
            if group.nofollow:
                self._refuse_group(group, Reason.NOFOLLOW, entry.href, refusals)
            elif not self.scope.admits_host(group.host):
                self._refuse_group(group, Reason.OUT_OF_SCOPE, f"host {group.host}", refusals)
            else:
                for key, href in group.links:
                    hash_ = urls.key_hash(key, secret)
                    if hash_ not in recent:
                        yield Candidate(group.host, hash_, key, href or key, depth, entry.id)

    def of_redirect(self, entry: Waiting, href: str, chain: tuple[str, ...], *, seed: bool) -> Candidate:
        """Return the candidate of a redirect's target; a redirected seed's target has the seed's rank."""
        url = urls.parse(href, strip=self._rules.strip)
        hash_ = urls.key_hash(url.key, self._rules.secret)
        return Candidate(
            url.host, hash_, url.key, url.href, entry.depth, chain=chain, seed=seed, source=entry.id
        )

    def place_of(self, href: str) -> tuple[str, int]:
        """Return host and hash of a URL, by which the store finds it."""
        url = urls.parse(href, strip=self._rules.strip)
        return url.host, urls.key_hash(url.key, self._rules.secret)

    def of_seed(self, text: str, *, schemeless: bool) -> Candidate:
        """Return the candidate of a seed; raise InvalidUrl if it is no http(s) URL."""
        url = urls.parse(text, strip=self._rules.strip)
        hash_ = urls.key_hash(url.key, self._rules.secret)
        return Candidate(url.host, hash_, url.key, url.href, 0, seed=True, schemeless=schemeless)

    def join_scope(self, href: str) -> bool:
        """Let the final address of a redirected seed into the scope; False if it was in."""
        url = urls.parse(href)
        if self.scope.verdict(url).allowed:
            return False
        self.scope = self.scope.joined(url)
        return True

    def remember(self, hash_: int) -> None:
        """Note a URL as met: admitted, or refused for good."""
        self._recent.add(hash_)

    # -------------------------------------------------------------------------------------------------- judging

    def judge(self, candidate: Candidate, now: float) -> Admission | Refusal:
        """Return the admission of a candidate that the seen set does not know, or its refusal."""
        try:
            url = urls.parse(candidate.href, strip=self._rules.strip)
        except InvalidUrl as error:
            return Refusal(Reason.INVALID_URL, candidate.href, str(error))
        key = url.key
        verdict = self.verdict(url, candidate.depth, now, seed=candidate.seed)
        if not verdict.allowed:
            assert verdict.reason is not None
            # a URL too deep from here may be found nearer a seed
            if verdict.reason is not Reason.MAX_DEPTH:
                self.remember(candidate.hash)
            return Refusal(verdict.reason, url.href, verdict.evidence)
        budget = self._rules.budget
        is_seed_host = candidate.seed or url.host in self._rules.seed_hosts
        return Admission(
            host=url.host,
            hash=urls.key_hash(key, self._rules.secret),
            key=key,
            href=url.href,
            template=templates.template_of(key),
            band=band_of(candidate.depth, seed=candidate.seed),
            depth=candidate.depth,
            budget=budget.urls_per_seed_host if is_seed_host else budget.urls_per_found_host,
            via=candidate.via,
            chain=candidate.chain,
            source=candidate.source,
            seed=candidate.seed,
            schemeless=candidate.schemeless,
        )

    def verdict(self, url: Url, depth: int, now: float, *, seed: bool = False) -> Verdict:
        """Return what speaks against a URL never seen: the checks in the order of their cost, the first refusal wins.

        seed: a seed, or where one is redirected to, which is followed out of scope: its end joins it.
        """
        scope = self.scope.joined(url) if seed else self.scope
        verdict = scope.verdict(url, seed=seed)
        if not verdict.allowed:
            return verdict
        verdict = traps.shape_verdict(url.href, self._rules.shape)
        if not verdict.allowed:
            return verdict
        most = self._rules.budget.max_depth
        verdict = traps.depth_verdict(depth, None if most < 0 else most)
        if not verdict.allowed:
            return verdict
        verdict = self._rules.port_verdict(url)
        if not verdict.allowed:
            return verdict
        if self._rules.needs_contact(url.host):
            return refused(Reason.NO_CONTACT, url.host)
        return self._rulesets.verdict(url, now) or Verdict()

    def _refuse_group(self, group: LinkGroup, reason: Reason, evidence: str, refusals: list[Refusal]) -> None:
        for key, href in group.links:
            hash_ = urls.key_hash(key, self._rules.secret) ^ 1
            if hash_ in self._recent:
                continue
            self._recent.add(hash_)
            refusals.append(Refusal(reason, href or key, evidence))
