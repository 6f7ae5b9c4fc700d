"""Configuration -> parts joined. The only place that knows adapters; it builds, it decides nothing.

`crawl` joins an embedded crawl, `worker` a worker process: apart, so that a worker starts without what it never uses.
"""
