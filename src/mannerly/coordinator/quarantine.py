"""Quarantine: URLs that were out with a worker when it died, until it is known which of them it died of.

Each is asked for again alone, in a worker that performs nothing else meanwhile, and it counts as no attempt: all but one
had no part in the death. The one that the worker dies of twice while alone there ends `kills-worker`.

    out when its worker died -> alone -> any outcome: it is out of quarantine
                                      -> the worker died again -> alone -> it died again: `kills-worker`

For a robots.txt that means: it cannot be read; when it is asked for again it is alone at once. Kept in memory alone: to the
store such a URL is waiting, so after a restart it is one like any.
"""

from __future__ import annotations

from typing import Final

from mannerly.model.result import Failed, Failure, Outcome, Unknown

# so often a worker may die of a URL while alone with it: once may be the machine's doing
DEATHS: Final = 2
# more than are ever out at once; a URL that is forgotten is asked for beside others again
MOST: Final = 10_000


class Quarantine:
    """The suspects, and how often a worker died while alone with each."""

    def __init__(self) -> None:
        self._deaths: dict[str, int] = {}

    def __contains__(self, url: str) -> bool:
        """Tell whether the URL is to be asked for alone."""
        return url in self._deaths

    def judge(self, url: str, outcome: Outcome, *, alone: bool) -> Outcome:
        """Take the outcome of the URL's task in; return what it is to be taken for. alone: how it was asked for."""
        if not isinstance(outcome, Unknown):
            self._deaths.pop(url, None)
            return outcome
        if not outcome.died:
            return outcome
        deaths = self._deaths.pop(url, 0) + alone
        killed = deaths >= DEATHS
        if len(self._deaths) >= MOST:
            del self._deaths[next(iter(self._deaths))]
        self._deaths[url] = 0 if killed else deaths
        if not killed:
            return outcome
        return Failed(Failure.KILLS_WORKER, detail=f"{outcome.detail}, {deaths} times while alone with it")

    def __repr__(self) -> str:
        return f"<Quarantine {len(self._deaths)} URLs>"
