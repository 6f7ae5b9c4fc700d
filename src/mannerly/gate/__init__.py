"""Adapters of the host gate, the only authority on whether a request may go now.

Things: a *permit* is the leave for one request to one host at one address; an *entry* stands for a gate key, a host
name or an address group, and holds who is out and when the next may start.

States of a gate key: open (no entry, or its instant has passed) -> taken (as many permits out as may be) -> closed
until an instant -> open. `claim` takes, `release` closes for the delay from then on, `hold` closes longer, a lease
that ends closes for the delay that the claim named.

Invariants: deciding and reserving are one atomic step; never more permits out than allowed under a host and under a
group; from the end of a response to the next start there is at least the delay; a permit never given back costs its
host the lease and the delay, not more; no wait is ever shortened; every key opens again by itself.
"""
