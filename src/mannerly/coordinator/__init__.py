"""Coordinator: a URL's way, in order, and nothing that touches the web (invariant I11).

    intake    links and seeds -> scope, shape, rules in hand, seen set -> admissions
    dispatch  due host queues -> address, ruleset -> gate -> tasks
    settle    results: the permit is given back at once; then a batch -> disposition -> journal, store, ack
    deliver   sinks read the journal from their own positions
    service   the loops and their owner; when the crawl ends

All of it runs on one event loop; what one part hands another are values. A host that is worked on is an `ActiveHost`
(`hosts`), what is out with workers a `Flight` (`flights`).

Invariants: a URL leaves its window only into flight or into a settle batch; a host leaves memory only when nothing of
it is in flight or unsettled; the permit is released at receipt, the message acked after the commit.
"""
