"""Frozen configuration, one dataclass a concern; the unit stands in the name, the reason beside the default.

`Config` is what `crawl.toml` holds and the command line overrides; `from_mapping` checks it once. Each part of the
crawler gets only its own section.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import date, time
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

import msgspec

from mannerly.model import orders, task
from mannerly.model.errors import ConfigRefused

# a worker takes about 60 MB, and more of them than cores fetch no faster: past this it is a slip of the hand
MAX_WORKERS: Final = 256
# a request a day; a crawl slower than that is a slip of the hand as well
MAX_DELAY_S: Final = 86_400
# ten years: longer runs are those without a limit, and an instant so far off can still be written as a date
MAX_TIME_S: Final = 10 * 366 * 86_400
# what counts and sizes may be: whole numbers that JSON and SQLite keep exactly
MAX_COUNT: Final = 1 << 53

# types of TOML in words, bool before int, which it is a kind of
_GIVEN: Final[tuple[tuple[type, str], ...]] = (
    (bool, "true or false"),
    (str, "text"),
    (int, "a whole number"),
    (float, "a number with a point"),
    (list, "a list"),
    (Mapping, "a section"),
    (date, "a date"),
    (time, "a time of day"),
)
# what a key takes, and an example
_DUE: Final[dict[Any, tuple[str, str]]] = {
    bool: ("true or false", "true"),
    str: ("text", '"..."'),
    int: ("a whole number", "10"),
    float: ("a number", "2.5"),
    tuple[str, ...]: ("a list of texts", '["..."]'),
    tuple[int, ...]: ("a list of whole numbers", "[8080]"),
    dict[str, str]: ("a section of texts", '{ name = "..." }'),
}

ScopeKind = Literal["host", "domain", "prefix", "any"]


@dataclass(frozen=True, slots=True)
class ScopeConfig:
    """Which URLs belong to the crawl."""

    kind: ScopeKind = "host"
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    strip_parameters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BudgetConfig:
    """Most of this and that. max_pages, max_time_s: 0 means no limit; max_depth: -1, for 0 is the seeds alone."""

    max_pages: int = 0
    max_depth: int = -1
    max_time_s: float = 0.0
    # a seed's host may be large on purpose, a host found on the way is not what the user asked for
    urls_per_seed_host: int = 1_000_000
    urls_per_found_host: int = 10_000
    redirect_chain: int = 10


@dataclass(frozen=True, slots=True)
class PolitenessConfig:
    """The pace. Each host's own wishes (Crawl-delay, Retry-After) come on top and are never lowered."""

    min_delay_s: float = 1.0
    factor: float = 2.0
    per_host: int = 1
    group_private: bool = False
    # how long to wait for hosts that are in back-off before the crawl ends without them
    patience_s: float = 60.0
    # 401 and 403 for robots.txt: RFC 9309 calls them unavailable (no rules); some sites mean "keep out"
    robots_denied: Literal["no-rules", "disallow"] = "no-rules"


@dataclass(frozen=True, slots=True)
class FetchConfig:
    """Bounds of one exchange and how it is made."""

    timeout_s: float = 60.0
    connect_timeout_s: float = 10.0
    first_byte_timeout_s: float = 20.0
    max_body_bytes: int = 10 << 20
    max_header_bytes: int = 256 << 10
    max_ratio: int = 100
    headers: tuple[str, ...] = ()
    proxy: str = ""
    ports: tuple[int, ...] = ()
    resolve: tuple[str, ...] = ()
    # host:port each; empty for the system's own
    nameservers: tuple[str, ...] = ()
    allow_private_addresses: bool = False


@dataclass(frozen=True, slots=True)
class IdentityConfig:
    """Who we say we are: a mailbox or an http(s) URL in plain ASCII; and a written leave to ignore robots.txt."""

    contact: str = ""
    ignore_robots: bool = False
    authorization: str = ""


@dataclass(frozen=True, slots=True)
class SelectConfig:
    """What to take from a page: fields by name, `each` for repeated records, text and links on wish."""

    fields: dict[str, str] = field(default_factory=dict)
    each: str = ""
    text: bool = False
    links: bool = False


@dataclass(frozen=True, slots=True)
class OutputConfig:
    """Where pages go. `file` is a path, '-' for stdout."""

    file: str = "-"
    overwrite: bool = False
    errors: bool = False


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """How much is done at once. workers 0: one a core."""

    workers: int = 0
    concurrency: int = 64


@dataclass(frozen=True, slots=True)
class FrontierConfig:
    """Bounds of what the frontier holds in memory (invariant I9)."""

    active_hosts: int = 10_000
    window_urls: int = 256
    seen_cache_keys: int = 200_000
    ruleset_cache_bytes: int = 64 << 20


@dataclass(frozen=True, slots=True)
class JournalConfig:
    """The page log. keep: `all` keeps read segments, so a sink added later starts at the first page."""

    keep: Literal["all", "passed"] = "all"
    max_bytes: int = 50 << 30
    min_free_bytes: int = 2 << 30
    segment_bytes: int = 256 << 20


@dataclass(frozen=True, slots=True)
class SettleConfig:
    """When a settle batch is closed: whichever comes first."""

    batch_s: float = 0.25
    batch_results: int = 1_000
    batch_bytes: int = 32 << 20


@dataclass(frozen=True, slots=True)
class Config:
    """All that a crawl is told."""

    seeds: tuple[str, ...] = ()
    state: str = ""
    scope: ScopeConfig = field(default_factory=ScopeConfig)
    budget: BudgetConfig = field(default_factory=BudgetConfig)
    politeness: PolitenessConfig = field(default_factory=PolitenessConfig)
    fetch: FetchConfig = field(default_factory=FetchConfig)
    identity: IdentityConfig = field(default_factory=IdentityConfig)
    select: SelectConfig = field(default_factory=SelectConfig)
    output: OutputConfig = field(default_factory=OutputConfig)
    workers: WorkerConfig = field(default_factory=WorkerConfig)
    frontier: FrontierConfig = field(default_factory=FrontierConfig)
    journal: JournalConfig = field(default_factory=JournalConfig)
    settle: SettleConfig = field(default_factory=SettleConfig)


def from_mapping(raw: Mapping[str, Any]) -> Config:
    """Return the configuration that a parsed TOML file holds; raise ConfigRefused for what it cannot mean."""
    _refuse_unknown_keys(raw, Config, "")
    _refuse_wrong_type(raw, Config, "")
    config = msgspec.convert(dict(raw), Config, strict=True)
    check(config)
    return config


def check(config: Config) -> None:
    """Raise ConfigRefused where a value lies outside its range."""
    for name, value, low in (
        ("budget.max_pages", config.budget.max_pages, 0),
        ("budget.max_depth", config.budget.max_depth, -1),
        ("budget.max_time_s", config.budget.max_time_s, 0),
        ("budget.urls_per_seed_host", config.budget.urls_per_seed_host, 1),
        ("budget.urls_per_found_host", config.budget.urls_per_found_host, 1),
        ("budget.redirect_chain", config.budget.redirect_chain, 0),
        ("politeness.min_delay_s", config.politeness.min_delay_s, 0),
        ("politeness.factor", config.politeness.factor, 0),
        ("politeness.per_host", config.politeness.per_host, 1),
        ("politeness.patience_s", config.politeness.patience_s, 0),
        ("fetch.timeout_s", config.fetch.timeout_s, 0.1),
        ("fetch.connect_timeout_s", config.fetch.connect_timeout_s, 0.1),
        ("fetch.first_byte_timeout_s", config.fetch.first_byte_timeout_s, 0.1),
        ("fetch.max_body_bytes", config.fetch.max_body_bytes, 1),
        ("fetch.max_header_bytes", config.fetch.max_header_bytes, 1_024),
        ("fetch.max_ratio", config.fetch.max_ratio, 1),
        ("workers.workers", config.workers.workers, 0),
        ("workers.concurrency", config.workers.concurrency, 1),
        ("frontier.active_hosts", config.frontier.active_hosts, 1),
        ("frontier.window_urls", config.frontier.window_urls, 1),
        ("journal.max_bytes", config.journal.max_bytes, 1 << 20),
        ("journal.segment_bytes", config.journal.segment_bytes, 1 << 20),
        ("settle.batch_s", config.settle.batch_s, 0),
        ("settle.batch_results", config.settle.batch_results, 1),
        ("settle.batch_bytes", config.settle.batch_bytes, 1),
    ):
        if not low <= value < float("inf"):
            raise ConfigRefused(f"{name} = {value} is out of range", hint=f"give a number of {low} or more")
    _check_bounds(config)
    _check_messages(config)
    for port in config.fetch.ports:
        if not 0 < port < 65_536:
            raise ConfigRefused(
                f"fetch.ports holds {port}, which is no port", hint="ports run from 1 to 65535"
            )


def _check_bounds(config: Config) -> None:
    """Refuse what is no pace and no budget, but a slip of the hand: sums and dates stay within what can be written."""
    for name, value, most in (
        ("budget.max_pages", config.budget.max_pages, MAX_COUNT),
        ("budget.max_depth", config.budget.max_depth, MAX_COUNT),
        ("budget.max_time_s", config.budget.max_time_s, MAX_TIME_S),
        ("budget.urls_per_seed_host", config.budget.urls_per_seed_host, MAX_COUNT),
        ("budget.urls_per_found_host", config.budget.urls_per_found_host, MAX_COUNT),
        ("politeness.min_delay_s", config.politeness.min_delay_s, MAX_DELAY_S),
        ("politeness.factor", config.politeness.factor, 1_000),
        ("politeness.per_host", config.politeness.per_host, orders.MAX_SLOTS),
        ("politeness.patience_s", config.politeness.patience_s, MAX_TIME_S),
        ("journal.max_bytes", config.journal.max_bytes, MAX_COUNT),
        ("journal.segment_bytes", config.journal.segment_bytes, MAX_COUNT),
        ("settle.batch_s", config.settle.batch_s, 60),
    ):
        if value > most:
            raise ConfigRefused(f"{name} = {value} is out of range", hint=f"give a number of {most} or less")


def _check_messages(config: Config) -> None:
    """Refuse what no message to a worker, and no machine of ours, can hold."""
    fetch = config.fetch
    for name, value, most in (
        ("fetch.timeout_s", fetch.timeout_s, task.MAX_EXCHANGE_S),
        ("fetch.connect_timeout_s", fetch.connect_timeout_s, task.MAX_CONNECT_S),
        ("fetch.first_byte_timeout_s", fetch.first_byte_timeout_s, task.MAX_EXCHANGE_S),
        ("fetch.max_body_bytes", fetch.max_body_bytes, task.MAX_BODY_BYTES),
        ("fetch.max_header_bytes", fetch.max_header_bytes, task.MAX_HEADERS_BYTES),
        ("fetch.max_ratio", fetch.max_ratio, task.MAX_RATIO),
        ("workers.concurrency", config.workers.concurrency, orders.MAX_SLOTS),
        ("workers.workers", config.workers.workers, MAX_WORKERS),
    ):
        if value > most:
            raise ConfigRefused(f"{name} = {value} is out of range", hint=f"give a number of {most} or less")
    for name, values, most in (
        ("fetch.headers", fetch.headers, task.MAX_HEADERS),
        ("fetch.ports", fetch.ports, orders.MAX_PORTS),
        ("fetch.nameservers", fetch.nameservers, orders.MAX_NAMESERVERS),
        ("select.fields", config.select.fields, task.MAX_SELECTORS),
        ("scope.strip_parameters", config.scope.strip_parameters, task.MAX_SELECTORS),
    ):
        if len(values) > most:
            raise ConfigRefused(f"{name} holds {len(values)} values", hint=f"give {most} of them or fewer")


def _refuse_unknown_keys(raw: Mapping[str, Any], kind: type, prefix: str) -> None:
    hints = get_type_hints(kind)
    known = [f.name for f in fields(kind)]
    for key, value in raw.items():
        if key not in known:
            raise ConfigRefused(f"unknown key {prefix}{key}", hint=nearest(f"{prefix}{key}"))
        if is_dataclass(hints[key]) and isinstance(value, Mapping):
            _refuse_unknown_keys(value, hints[key], f"{prefix}{key}.")


def known_keys() -> tuple[str, ...]:
    """Return every key of the configuration, dotted: `politeness.min_delay_s`."""
    keys: list[str] = []
    hints = get_type_hints(Config)
    for f in fields(Config):
        if is_dataclass(hints[f.name]):
            keys.extend(f"{f.name}.{inner.name}" for inner in fields(hints[f.name]))
        else:
            keys.append(f.name)
    return tuple(keys)


def nearest(key: str) -> str:
    """Return a hint that names the known key or section nearest to `key`, or says where all of them are listed."""
    section, _, name = key.rpartition(".")
    keys = known_keys()
    # beside the key first: sections and the keys outside any, or the keys of its section
    beside = [k.removeprefix(f"{section}.") for k in keys if k.startswith(f"{section}.")] if section else []
    beside = beside or [f.name for f in fields(Config)]
    close = difflib.get_close_matches(name, beside, n=1, cutoff=0.6)
    if close:
        found = f"{section}.{close[0]}" if section else close[0]
        return f"did you mean {found}?" if found in keys else f"did you mean the section [{found}]?"
    anywhere = {k.rpartition(".")[2]: k for k in keys}
    close = difflib.get_close_matches(name, anywhere, n=1, cutoff=0.6)
    if close:
        return f"did you mean {anywhere[close[0]]}?"
    return "`mannerly init` writes a file with every key; docs/reference/configuration.md lists them"


def _refuse_wrong_type(raw: Mapping[str, Any], kind: type, prefix: str) -> None:
    """Refuse the first value of another type than its key has."""
    hints = get_type_hints(kind)
    for key, value in raw.items():
        hint, name = hints[key], f"{prefix}{key}"
        if is_dataclass(hint) and isinstance(value, Mapping):
            assert isinstance(hint, type)
            _refuse_wrong_type(value, hint, f"{name}.")
            continue
        try:
            msgspec.convert(value, hint, strict=True)
        except msgspec.ValidationError as error:
            raise _wrong_type(name, value, hint) from error


def _wrong_type(name: str, value: object, hint: Any) -> ConfigRefused:
    """Return what is said of a value of the wrong type. It is not shown: headers and a proxy may hold secrets."""
    given = next((text for type_, text in _GIVEN if isinstance(value, type_)), "something else")
    if is_dataclass(hint):
        return ConfigRefused(
            f"{name} is {given}, and a section is due", hint=f"write [{name}] and its keys below"
        )
    section, _, key = name.rpartition(".")
    where = f"under [{section}]" if section else "above the first section"
    if get_origin(hint) is Literal:
        words = get_args(hint)
        due, example = f"one of {', '.join(words)}", f'"{words[0]}"'
        given = f'"{value}"' if isinstance(value, str) else given
    else:
        due, example = _DUE[hint]
    return ConfigRefused(
        f"{name} is {given}, and {due} is due", hint=f"{where}, for example: {key} = {example}"
    )
