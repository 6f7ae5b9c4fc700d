"""Settling: the permit is given back at receipt; what a result changes becomes durable in a batch.

What is due at once for each result (release, the host's new pace, what prerequisites said) is in `receipt`. Here the rest
is gathered into batches (250 ms, 1,000 results or 32 MiB, whichever is first): disposition, intake of links, journal append and
fsync, then one store transaction that holds every change and the journal's end, then the ack. What a crash takes from
a batch is asked for again after the restart; politeness is kept by the restart rule.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace

from mannerly.clock import Clock
from mannerly.coordinator.hosts import ActiveHost
from mannerly.coordinator.intake import Candidate, Intake
from mannerly.model.config import SettleConfig
from mannerly.model.entry import Admission, Admitted, Refusal, UrlChange, UrlId, Waiting
from mannerly.model.frame import PageFrame
from mannerly.model.origin import OriginRecord
from mannerly.model.result import Fetched, Outcome, Result
from mannerly.model.task import UrlState
from mannerly.model.verdict import Reason, Verdict
from mannerly.policy.disposition import disposition
from mannerly.ports import Batch, Journal, PageRow, Position, Redirection, StateStore, Transport


@dataclass(frozen=True, slots=True)
class Settled:
    """A page's result on its way into a batch. at: UTC seconds of the receipt."""

    host: ActiveHost
    entry: Waiting
    outcome: Outcome
    result: Result
    at: float


@dataclass(frozen=True, slots=True)
class Dropped:
    """A URL that is settled without a request: robots.txt disallows it, or its host cannot be asked."""

    host: ActiveHost
    entry: Waiting
    state: UrlState
    verdict: Verdict
    fallback: str = ""


@dataclass(frozen=True, slots=True)
class Seeds:
    """The candidates of the seeds; `done` is set once they are durable."""

    candidates: tuple[Candidate, ...]
    done: asyncio.Event


Item = Settled | Dropped | OriginRecord | ActiveHost | Seeds


@dataclass(frozen=True, slots=True)
class FrameFacts:
    """What every frame of a run holds."""

    crawl: str
    identity: str
    authorization: str = ""


@dataclass(slots=True)
class Told:
    """What a commit tells the others: host names with URLs waiting now, and the journal's committed end."""

    wakened: list[str]
    journal_end: Position
    settled: list[tuple[ActiveHost, UrlId, UrlState]]
    hosts: list[ActiveHost]
    pages: int
    admitted: int


@dataclass(slots=True)
class _Draft:
    """A batch in the making. `redirects` are sources whose state depends on their target's verdict."""

    batch: Batch = field(default_factory=Batch)
    frames: list[PageFrame] = field(default_factory=list)
    candidates: dict[int, Candidate] = field(default_factory=dict)
    redirects: dict[UrlId, tuple[int, UrlChange]] = field(default_factory=dict)
    results: list[Result] = field(default_factory=list)
    settled: list[tuple[ActiveHost, UrlId, UrlState]] = field(default_factory=list)
    hosts: dict[str, ActiveHost] = field(default_factory=dict)
    done: list[asyncio.Event] = field(default_factory=list)


class Settle:
    """Gathers items and makes them durable in batches. `put` may be called from the loop at any time."""

    def __init__(
        self,
        *,
        store: StateStore,
        journal: Journal,
        transport: Transport,
        intake: Intake,
        clock: Clock,
        config: SettleConfig,
        facts: FrameFacts,
        told: Callable[[Told], None],
        chain_limit: int = 10,
        strip: frozenset[str] = frozenset(),
        error_pages: bool = False,
    ) -> None:
        self._store = store
        self._journal = journal
        self._transport = transport
        self._intake = intake
        self._clock = clock
        self._config = config
        self._facts = facts
        self._told = told
        self._chain_limit = chain_limit
        self._strip = strip
        self._error_pages = error_pages
        self._items: asyncio.Queue[Item] = asyncio.Queue()
        self._hurry = asyncio.Event()
        self._unsettled = 0

    def put(self, item: Item) -> None:
        """Add an item to the batch that is gathered."""
        self._unsettled += 1
        self._items.put_nowait(item)

    def hurry(self) -> None:
        """Close the batch that is gathered now: nothing more will come soon."""
        self._hurry.set()

    @property
    def unsettled(self) -> int:
        """How many items are not durable yet."""
        return self._unsettled

    async def run(self) -> None:
        """Settle batch after batch, until cancelled. Raises DiskFull; then what is in memory stays undone."""
        while True:
            items = await self._gather()
            await self.settle(items)

    async def settle(self, items: list[Item]) -> None:
        """Make the items durable: one journal append, one transaction, one ack."""
        draft = _Draft()
        for item in items:
            self._draft(item, draft)
        now = self._clock.now()
        await self._judge(draft, now)
        batch = draft.batch
        batch.hosts = [host.change() for host in draft.hosts.values()]
        for host in draft.hosts.values():
            host.dirty = False
        if draft.frames:
            batch.positions = await asyncio.to_thread(self._journal.append, draft.frames)
        batch.journal_end = self._journal.end
        committed = await self._store.commit(batch)
        for admission, became in zip(batch.admissions, committed.admitted, strict=True):
            if became is not Admitted.OVER_BUDGET:
                self._intake.remember(admission.hash)
        await self._transport.ack(draft.results)
        new = sum(became is Admitted.NEW for became in committed.admitted)
        self._unsettled -= len(items)
        for event in draft.done:
            event.set()
        end = batch.journal_end
        self._told(
            Told(committed.wakened, end, draft.settled, list(draft.hosts.values()), len(draft.frames), new)
        )

    async def _gather(self) -> list[Item]:
        """Return the items of one batch: the first, and what comes until the batch is full, late or hurried."""
        items = [await self._items.get()]
        nbytes = _nbytes(items[0])
        loop = asyncio.get_running_loop()
        closes_at = loop.time() + self._config.batch_s
        while len(items) < self._config.batch_results and nbytes < self._config.batch_bytes:
            if self._items.empty():
                left_s = closes_at - loop.time()
                if left_s <= 0 or self._hurry.is_set():
                    break
                await self._wait(left_s)
                continue
            items.append(self._items.get_nowait())
            nbytes += _nbytes(items[-1])
        self._hurry.clear()
        return items

    async def _wait(self, left_s: float) -> None:
        """Wait for the batch to be hurried, at most `left_s`; items gather meanwhile."""
        # not `wait_for`: cancelled in the instant in which the event is set it would forget the cancellation (CPython
        # gh-86296), and the crawl could not end
        with suppress(TimeoutError):
            async with asyncio.timeout(min(left_s, 0.02)):
                await self._hurry.wait()

    # ------------------------------------------------------------------------------------------------- drafting

    def _draft(self, item: Item, draft: _Draft) -> None:
        match item:
            case Settled():
                self._draft_result(item, draft)
            case Dropped():
                self._draft_dropped(item, draft)
            case OriginRecord():
                draft.batch.origins.append(item)
            case ActiveHost():
                draft.hosts[item.name] = item
            case Seeds():
                draft.done.append(item.done)
                for candidate in item.candidates:
                    self._add(candidate, draft)

    def _draft_result(self, item: Settled, draft: _Draft) -> None:
        entry, outcome = item.entry, item.outcome
        decided = disposition(
            entry,
            outcome,
            now=item.at,
            chain_limit=self._chain_limit,
            strip=self._strip,
            error_pages=self._error_pages,
        )
        change = decided.change
        draft.hosts[item.host.name] = item.host
        draft.results.append(item.result)
        if decided.redirect is not None:
            target = decided.redirect
            candidate = self._intake.of_redirect(entry, target.href, target.chain, seed=target.seed)
            draft.redirects[entry.id] = (candidate.hash, change)
            self._add(candidate, draft)
        else:
            draft.batch.urls.append(change)
        draft.settled.append((item.host, entry.id, change.state))
        # a redirected seed's own end joins the scope: not what it passed on the way, a login page elsewhere, say
        arrived = entry.seed and entry.chain and change.state is UrlState.FETCHED
        if arrived and self._intake.join_scope(entry.href):
            draft.batch.joined_scope.append(entry.href)
        if decided.fallback:
            self._add(self._intake.of_seed(decided.fallback, schemeless=False), draft)
        if isinstance(outcome, Fetched):
            if decided.page:
                self._draft_page(item, outcome, draft)
            if decided.follow:
                for candidate in self._intake.of_links(entry, outcome.links, draft.batch.refusals):
                    self._add(candidate, draft)

    def _draft_dropped(self, item: Dropped, draft: _Draft) -> None:
        change = UrlChange(
            id=item.entry.id,
            state=item.state,
            reason=item.verdict.reason,
            detail=item.verdict.evidence,
            attempts=item.entry.attempts,
        )
        draft.hosts[item.host.name] = item.host
        draft.batch.urls.append(change)
        draft.settled.append((item.host, item.entry.id, item.state))
        if item.fallback:
            self._add(self._intake.of_seed(item.fallback, schemeless=False), draft)

    def _draft_page(self, item: Settled, outcome: Fetched, draft: _Draft) -> None:
        page, entry = outcome.page, item.entry
        draft.batch.pages.append(
            PageRow(
                id=entry.id,
                status=page.status,
                fetched_at=item.at,
                body_digest=page.body_digest,
                text_digest=page.text_digest,
                fingerprint=page.fingerprint,
                etag=page.validators.etag,
                last_modified=page.validators.last_modified,
                frame=len(draft.frames),
            )
        )
        draft.frames.append(
            PageFrame(
                url=entry.href,
                key=entry.key,
                status=page.status,
                fetched_at=item.at,
                depth=entry.depth,
                via=entry.via,
                redirected_from=entry.chain,
                bytes=page.bytes,
                elapsed_ms=round(item.result.timing.elapsed_s * 1_000),
                body_digest=page.body_digest,
                text_digest=page.text_digest,
                fingerprint=page.fingerprint,
                index=page.index,
                truncated=page.truncated,
                duplicate_of="",
                identity=self._facts.identity,
                authorization=self._facts.authorization,
                crawl=self._facts.crawl,
                host_id=entry.id.host_id,
                hash=entry.id.hash,
                blob=outcome.blob,
            )
        )

    def _add(self, candidate: Candidate, draft: _Draft) -> None:
        """Keep the candidate with the best rank where several of a batch lead to the same key."""
        held = draft.candidates.get(candidate.hash)
        if held is None or (candidate.seed, -candidate.depth) > (held.seed, -held.depth):
            draft.candidates[candidate.hash] = candidate

    # -------------------------------------------------------------------------------------------------- judging

    async def _judge(self, draft: _Draft, now: float) -> None:
        """Turn candidates into admissions and refusals; end the redirects whose target is refused."""
        candidates = list(draft.candidates.values())
        known = await self._store.known([(c.host, c.hash) for c in candidates]) if candidates else []
        refused: dict[int, Refusal] = {}
        admitted: dict[int, int] = {}
        for candidate, is_known in zip(candidates, known, strict=True):
            if is_known:
                self._intake.remember(candidate.hash)
                continue
            judged = self._intake.judge(candidate, now)
            if isinstance(judged, Admission):
                admitted[candidate.hash] = len(draft.batch.admissions)
                draft.batch.admissions.append(judged)
            else:
                refused[candidate.hash] = judged
                draft.batch.refusals.append(judged)
        for target, change in draft.redirects.values():
            if target in refused:
                draft.batch.urls.append(_refused_redirect(change, refused[target]))
            elif target in admitted:
                at = admitted[target]
                over = _refused_redirect(change, _over_budget(draft.batch.admissions[at]))
                draft.batch.redirects.append(Redirection(at, change, over))
            else:
                draft.batch.urls.append(await self._to_known(draft, draft.candidates[target], change))

    async def _to_known(self, draft: _Draft, target: Candidate, change: UrlChange) -> UrlChange:
        """Return the end of a URL that redirects to one already known: it may be known for redirecting back."""
        place = target.host, target.hash
        for _ in range(self._chain_limit):
            found = await self._store.find(*place)
            if found is not None and found.id == change.id:
                detail = f"back from {target.href}"
                return replace(change, state=UrlState.FAILED, reason=Reason.REDIRECT_LOOP, detail=detail)
            if found is not None and found.id in draft.redirects:
                ahead = draft.candidates[draft.redirects[found.id][0]]
                place = ahead.host, ahead.hash
            elif found is not None and found.state is UrlState.REDIRECTED:
                place = self._intake.place_of(found.detail)
            else:
                return change
        detail = f"to {target.href}"
        return replace(change, state=UrlState.FAILED, reason=Reason.REDIRECT_CHAIN_TOO_LONG, detail=detail)

    def __repr__(self) -> str:
        return f"<Settle {self._unsettled} unsettled>"


def _over_budget(admission: Admission) -> Refusal:
    evidence = f"{admission.host} has {admission.budget} URLs stored"
    return Refusal(Reason.HOST_BUDGET, admission.href, evidence)


def _refused_redirect(change: UrlChange, refusal: Refusal) -> UrlChange:
    return replace(
        change,
        state=UrlState.REFUSED,
        reason=Reason.REDIRECT_TARGET_REFUSED,
        detail=f"{refusal.url}: {refusal.reason}" + (f" ({refusal.evidence})" if refusal.evidence else ""),
    )


def _nbytes(item: Item) -> int:
    if isinstance(item, Settled) and isinstance(item.outcome, Fetched):
        return len(item.outcome.blob) + 64 * sum(len(group.links) for group in item.outcome.links)
    return 256
