"""The annotated `crawl.toml`: every key with its default, its unit and the reason. A test holds it against the keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from textwrap import wrap
from typing import Any, Final

from mannerly.model.config import Config

WIDTH: Final = 100

HEAD: Final = """\
# A crawl, as `mannerly crawl --config crawl.toml` reads it; `mannerly crawl` without a URL takes ./crawl.toml.
# What is typed on the command line overrides it. Each value is the default: delete the lines that you do not change.
# _s is seconds, _bytes is bytes. An unknown key is an error.
"""

SECTIONS: Final[Mapping[str, str]] = {
    "scope": "Which URLs belong to the crawl.",
    "budget": "The most of this and that. When a budget bites, the summary says so.",
    "politeness": "The pace. What a site asks for (Crawl-delay, Retry-After) comes on top and is never lowered.",
    "fetch": "Bounds of one exchange, and how it is made.",
    "identity": "Who we say we are: `mannerly/VERSION (+CONTACT)`.",
    "select": "What is taken from each page.",
    "output": "Where pages go.",
    "workers": "How much is done at once.",
    "frontier": "What the frontier holds in memory; the rest is on disk.",
    "journal": "The page log in the state folder, which every sink reads from.",
    "settle": "When results are made durable: whichever comes first.",
}

COMMENTS: Final[Mapping[str, str]] = {
    "seeds": 'URLs to begin with, e.g. ["https://example.org/docs/"]; those of the command line replace them.',
    "state": "The state folder; empty: ./crawl-HOST of the first seed. The same folder again resumes.",
    "scope.kind": (
        "host: the seeds' host names. domain: all hosts under their registered domains. prefix: below the seeds' "
        "directories. any: everything."
    ),
    "scope.include": "RE2 patterns; if there are any, a URL must match one. Linear time, whatever the URL.",
    "scope.exclude": "RE2 patterns; no URL that matches one is fetched.",
    "scope.strip_parameters": (
        "Query parameters that select nothing on these sites, besides the known tracking ones; `name*` for all that "
        "begin so. URLs that differ in them alone are one page."
    ),
    "budget.max_pages": "Pages over all runs; 0: no limit.",
    "budget.max_depth": "Links from a seed; 0: the seeds alone, -1: no limit.",
    "budget.max_time_s": "Seconds of one run; 0: no limit.",
    "budget.urls_per_seed_host": "URLs stored for a seed's host, which may be large on purpose.",
    "budget.urls_per_found_host": "URLs stored for a host found on the way: it is not what you asked for.",
    "budget.redirect_chain": "Redirects in a row. Browsers stop at 20, sites in order need 2 or 3.",
    "politeness.min_delay_s": "Seconds from the end of a response to the host's next request.",
    "politeness.factor": (
        "The delay is at least this times the response time (30 s at most): a host that slows down is asked less."
    ),
    "politeness.per_host": "Requests at once to a host. One is what a site owner expects of a robot.",
    "politeness.group_private": (
        "Let private hosts that share an address share its places, as public ones do: a shared server counts once."
    ),
    "politeness.patience_s": (
        "Seconds to wait at most for hosts in back-off before the crawl ends without them; the next run goes on."
    ),
    "politeness.robots_denied": (
        "401 or 403 for robots.txt. no-rules: as RFC 9309 says. disallow: some sites mean 'keep out'."
    ),
    "fetch.timeout_s": "Seconds of a whole exchange.",
    "fetch.connect_timeout_s": "Seconds to connect.",
    "fetch.first_byte_timeout_s": "Seconds to the first byte of the answer.",
    "fetch.max_body_bytes": "Bytes of a body after decoding (10 MiB); a longer one is cut, and the record says so.",
    "fetch.max_header_bytes": "Bytes of all headers of an answer (256 KiB); over it the URL fails.",
    "fetch.max_ratio": "Decoded to received bytes; past it the body is cut: a decompression bomb.",
    "fetch.headers": 'Headers for the seeds\' origins alone, e.g. ["X-Key: secret"]. Never User-Agent, Host, From.',
    "fetch.proxy": "A proxy to tunnel through, e.g. http://127.0.0.1:3128; it gets the vetted address.",
    "fetch.ports": "Ports that may be dialled besides 80, 443, 8080, 8443: links must not scan ports.",
    "fetch.resolve": 'Addresses of names, e.g. ["*.example.test=127.0.0.1"]; no name server is asked for them.',
    "fetch.nameservers": 'Name servers, e.g. ["127.0.0.1:53"]; empty: those of the system.',
    "fetch.allow_private_addresses": (
        "Dial private addresses, for the hosts of seeds and of `resolve` alone: your own machine and network."
    ),
    "identity.contact": (
        "A mailbox or http(s) URL in plain ASCII. Public hosts are fetched only with it: a site owner must be able "
        "to reach who crawls. MANNERLY_CONTACT fills it if it is empty."
    ),
    "identity.ignore_robots": "Ignore robots.txt; only with an authorization, and only on the hosts that it names.",
    "identity.authorization": "The TOML file of the written leave: who, hosts, until, signed_by.",
    "select.fields": (
        'Fields by name: { title = "h1::text", "tags[]" = "a.tag::text" }. ::text, ::attr(NAME), ::html; [] takes all '
        "matches."
    ),
    "select.each": "CSS of repeated records: fields are looked for inside each match, `items` holds them.",
    "select.text": "Put the main text into the records.",
    "select.links": "Put the links into the records.",
    "output.file": "A file, - for stdout. x.csv is written as CSV of the fields, all else as JSON lines.",
    "output.overwrite": "Take a file that this crawl did not write.",
    "output.errors": "Records for 4xx and 5xx too.",
    "workers.workers": "Worker processes; 0: one a core. They parse, which is what takes the time.",
    "workers.concurrency": "Requests at once over all hosts.",
    "frontier.active_hosts": "Hosts in memory at once.",
    "frontier.window_urls": "URLs of a host in memory at once.",
    "frontier.seen_cache_keys": "URLs met lately that are remembered: a site's navigation repeats on every page.",
    "frontier.ruleset_cache_bytes": "Bytes of robots.txt rules in memory (64 MiB).",
    "journal.keep": (
        "all: a sink added later gets every page. passed: segments that all sinks have read are deleted."
    ),
    "journal.max_bytes": "Bytes of the journal (50 GiB); there the crawl stops, and nothing is lost.",
    "journal.min_free_bytes": "Bytes that stay free on the disk (2 GiB); there the crawl stops, and nothing is lost.",
    "journal.segment_bytes": "Bytes of a segment (256 MiB): the unit that is deleted.",
    "settle.batch_s": "Seconds that a result waits at most. A crash takes back no more than one batch.",
    "settle.batch_results": "Results of a batch.",
    "settle.batch_bytes": "Bytes of a batch (32 MiB).",
}


def annotated(config: Config | None = None) -> str:
    """Return the text of an annotated `crawl.toml` with the values of `config`, by default the defaults."""
    config = config or Config()
    lines = [HEAD]
    names = [f.name for f in fields(config)]
    plain = [name for name in names if not is_dataclass(getattr(config, name))]
    lines.extend(_entry(name, name, getattr(config, name)) for name in plain)
    for name in names:
        section = getattr(config, name)
        if is_dataclass(section):
            lines.append(f"\n{_comment(SECTIONS[name])}\n[{name}]\n")
            lines.extend(
                _entry(f"{name}.{f.name}", f.name, getattr(section, f.name)) for f in fields(section)
            )
    return "\n".join(lines)


def _entry(key: str, name: str, value: object) -> str:
    return f"{_comment(COMMENTS[key])}\n{name} = {toml_value(value)}\n"


def _comment(text: str) -> str:
    return "\n".join(f"# {line}" for line in wrap(text, WIDTH - 2))


def toml_value(value: Any) -> str:
    """Return a value of a configuration as TOML writes it."""
    match value:
        case bool():
            return "true" if value else "false"
        case int() if abs(value) >= 10_000:
            return f"{value:_}"
        case int() | float():
            return repr(value)
        case str():
            return _string(value)
        case tuple():
            return f"[{', '.join(toml_value(item) for item in value)}]"
        case dict():
            pairs = ", ".join(f"{_string(name)} = {toml_value(item)}" for name, item in value.items())
            return f"{{ {pairs} }}" if pairs else "{}"
        case _:
            raise TypeError(f"a {type(value).__name__} has no place in a configuration")


def _string(text: str) -> str:
    escaped = "".join(
        _ESCAPES.get(char) or (char if char.isprintable() else f"\\U{ord(char):08x}") for char in text
    )
    return f'"{escaped}"'


_ESCAPES: Final = {'"': '\\"', "\\": "\\\\"}
