"""For tests of mannerly, of plugins, and of any crawler: a web on loopback, and a clock that obeys.

`Site`          a loopback web of many host names that records what it saw, and judges the visitor's manners
`Reply`         one response of it, and how badly it is given
`ManualClock`   a `mannerly.clock.Clock` that moves only when told to

`hostile`       a module: a site of bad manners, each with a name, and what a good crawler makes of it

`python -m mannerly.testing site` serves a small demo web to try a crawl on without a network, `hostile` the bad one.
"""

from __future__ import annotations

from mannerly.testing.clock import ManualClock
from mannerly.testing.exchange import Reply, Request
from mannerly.testing.record import Seen, Violation
from mannerly.testing.site import Handler, Site, SiteFault, close_on_nth, in_turn

__all__ = [
    "Handler",
    "ManualClock",
    "Reply",
    "Request",
    "Seen",
    "Site",
    "SiteFault",
    "Violation",
    "close_on_nth",
    "in_turn",
]
