"""mannerly: a polite web crawler.

One command crawls a site; the same code grows into a fleet. The chapters are the packages: `model` (the words everyone
shares), `policy` (the decisions, pure), `extract` (bytes to what they say, pure), `net` (the only code that touches the
web), `store`, `gate`, `transport`, `sink` (adapters of the contracts in `ports`), `coordinator` (decides), `worker`
(fetches), `cli` (joins them).
"""

__version__ = "0.1.0"
