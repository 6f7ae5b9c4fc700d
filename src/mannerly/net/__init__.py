"""The only code that touches the web; workers alone import it.

Things
    An **address** is judged before it is dialled (`address`, pure). A **name** is turned into addresses once, by a
    resolve task (`resolve`); a fetch never resolves. A **fetch** is one HTTP exchange with one address (`fetch`), run
    by libcurl on the event loop (`multi`). Content codings are undone by us, driven by output limits (`decode`).

Invariants
    - One call of `Fetcher.fetch` sends at most one request: no redirect is followed, nothing is sent again (I1).
    - Only the vetted address is dialled; it is compared again when the socket is made and when the request is about
      to go out on a kept connection (I7). The environment's proxies, netrc, cookies, HSTS, alt-svc have no effect.
    - Whatever a server does is a value (`Exchange.failure`, `Exchange.truncated`, `Resolution`), never an exception.
    - Memory is bounded by the request's limits, not by what a server sends (I9).
"""
