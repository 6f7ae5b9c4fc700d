"""What a site saw, and the checks on it. All instants are `time.monotonic()` of the site's process."""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

Headers = tuple[tuple[str, str], ...]


@dataclass(slots=True)
class Seen:
    """One request as the site saw it. Filled in when it begins; `ended_at`, `status`, `aborted` when it ends.

    `began_at`: the last byte of the request's head had been read.
    `ended_at`: just before the last byte of the response was handed to the kernel. Stamped after it, a correct
    crawler would look a millisecond too early. None while the response is under way. If the client went away
    first, the instant at which that was seen, and `aborted` is true.
    `host` is the Host header in lower case without port and trailing dot; `headers` are as sent, in order.
    `target` is the request target, byte for byte (as Latin-1). `nth` counts requests on one connection from 1.
    `in_flight` and `in_flight_host` count requests under way at the beginning, this one included.
    """

    host: str
    target: str
    method: str
    headers: Headers
    address: str
    connection: int
    nth: int
    began_at: float
    in_flight: int
    in_flight_host: int
    ended_at: float | None = None
    status: int = 0
    aborted: bool = False

    @property
    def path(self) -> str:
        """The request target: path and query as they were sent."""
        return self.target

    @property
    def over(self) -> bool:
        """Whether the response has ended, one way or the other."""
        return self.ended_at is not None

    def header(self, name: str) -> str | None:
        """Value of the first header of that name (any case), or None."""
        wanted = name.lower()
        return next((value for key, value in self.headers if key.lower() == wanted), None)


@dataclass(frozen=True, slots=True)
class Violation:
    """Two requests to one host too close together: `gap_s` is negative when they were in flight at once."""

    host: str
    earlier: str
    later: str
    gap_s: float
    wanted_s: float

    def __str__(self) -> str:
        return (
            f"{self.host}: {self.later} began {self.gap_s:.4f} s after the end of {self.earlier}, "
            f"not {self.wanted_s:.4f} s"
        )


@dataclass(slots=True)
class Record:
    """Takes down requests as they begin and end. Written by the server's thread, read from any."""

    _seen: list[Seen] = field(default_factory=list)
    _under_way: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(
        self,
        *,
        host: str,
        target: str,
        method: str,
        headers: Headers,
        address: str,
        connection: int,
        nth: int,
        began_at: float,
    ) -> Seen:
        with self._lock:
            self._under_way[host] += 1
            seen = Seen(
                host=host,
                target=target,
                method=method,
                headers=headers,
                address=address,
                connection=connection,
                nth=nth,
                began_at=began_at,
                in_flight=self._under_way.total(),
                in_flight_host=self._under_way[host],
            )
            self._seen.append(seen)
        return seen

    def end(self, seen: Seen, *, status: int, aborted: bool = False) -> None:
        """Stamp the end. The second end of one request is ignored: the first was the true one."""
        with self._lock:
            if seen.ended_at is not None:
                return
            seen.status, seen.aborted = status, aborted
            self._under_way[seen.host] -= 1
            if not self._under_way[seen.host]:
                del self._under_way[seen.host]
            seen.ended_at = time.monotonic()

    def snapshot(self) -> list[Seen]:
        with self._lock:
            return list(self._seen)

    def clear(self) -> None:
        """Forget what has ended; what is under way stays, so that counts stay true."""
        with self._lock:
            self._seen[:] = [seen for seen in self._seen if not seen.over]


def of_host(requests: Iterable[Seen], host: str) -> list[Seen]:
    """The requests to `host`, by beginning."""
    return sorted((seen for seen in requests if seen.host == host), key=lambda seen: seen.began_at)


def _ended(seen: Seen) -> float:
    return float("inf") if seen.ended_at is None else seen.ended_at


def gaps(requests: Iterable[Seen], host: str) -> list[float]:
    """For each request to `host` but the first: its start minus the latest end of all before it, in seconds.

    Negative when it began while another was in flight (minus infinity while that one still is).
    """
    found: list[float] = []
    latest: float | None = None
    for seen in of_host(requests, host):
        if latest is not None:
            found.append(seen.began_at - latest)
        latest = _ended(seen) if latest is None else max(latest, _ended(seen))
    return found


def overlaps(requests: Iterable[Seen], host: str) -> int:
    """How many pairs of requests to `host` were in flight at once."""
    pairs = 0
    under_way: list[float] = []
    for seen in of_host(requests, host):
        under_way = [end for end in under_way if end > seen.began_at]
        pairs += len(under_way)
        under_way.append(_ended(seen))
    return pairs


def max_in_flight(requests: Iterable[Seen], hosts: Collection[str] | None = None) -> int:
    """Most requests in flight at once over `hosts` together (None: all hosts)."""
    edges: list[tuple[float, int]] = []
    for seen in requests:
        if hosts is None or seen.host in hosts:
            edges += [(seen.began_at, 1), (_ended(seen), -1)]
    most = now = 0
    for _, step in sorted(edges):  # at one instant ends (-1) sort before beginnings
        now += step
        most = max(most, now)
    return most


def violations(
    requests: Iterable[Seen],
    delay_s: float,
    *,
    tolerance_s: float = 0.001,
    hosts: Collection[str] | None = None,
) -> list[Violation]:
    """Every request that began less than `delay_s` (minus the tolerance) after the end of one before it.

    Judged host by host; with `hosts` only those. No answer means: never two in flight, never too early.
    """
    per_host: defaultdict[str, list[Seen]] = defaultdict(list)
    for seen in sorted(requests, key=lambda seen: seen.began_at):
        if hosts is None or seen.host in hosts:
            per_host[seen.host].append(seen)
    found: list[Violation] = []
    for host, row in per_host.items():
        last = row[0]
        for seen in row[1:]:
            gap = seen.began_at - _ended(last)
            if gap < delay_s - tolerance_s:
                found.append(Violation(host, last.target, seen.target, gap, delay_s))
            if _ended(seen) >= _ended(last):
                last = seen
    return found


def robots_faults(requests: Iterable[Seen]) -> list[str]:
    """Hosts whose first request was not /robots.txt, or that were asked for it more than once, in words.

    For crawls that run once: a crawl that is killed may rightly ask again.
    """
    faults: list[str] = []
    per_host: defaultdict[str, list[str]] = defaultdict(list)
    for seen in sorted(requests, key=lambda seen: seen.began_at):
        per_host[seen.host].append(seen.target)
    for host, targets in per_host.items():
        times = targets.count("/robots.txt")
        if targets[0] != "/robots.txt":
            faults.append(f"{host}: the first request was {targets[0]}, not /robots.txt")
        if times > 1:
            faults.append(f"{host}: /robots.txt was fetched {times} times")
    return faults
