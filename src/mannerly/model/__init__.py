"""The words everyone shares: frozen values, no behaviour that needs a clock, a socket or chance.

`url` a URL and its key; `task` the order to a worker; `result` what came of it; `blob` the page part of a result;
`record` the page as sinks get it; `host` what is known of a host; `origin` what robots.txt said; `verdict` why not;
`config` what the user asked for; `errors` our own failures.
"""
