"""The options of `crawl` that `fetch` and `shell` share, and the configuration that is made of them.

A configuration file comes first, what is typed overrides it, `MANNERLY_CONTACT` fills a contact that neither names.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from mannerly.model.config import Config, SelectConfig, check, from_mapping
from mannerly.model.errors import ConfigRefused

F = TypeVar("F", bound=Callable[..., Any])
Section = TypeVar("Section")

_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?", re.IGNORECASE)
_POWERS: Final = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


class Size(click.ParamType[int]):
    """A size in bytes: 500000, 10MB, 32MiB."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return bytes."""
        if isinstance(value, int):
            return value
        found = _SIZE.fullmatch(str(value).strip())
        if found is None:
            self.fail(f"{value!r} is no size; write 10MB or 32MiB", param, ctx)
        number, unit, binary = found.groups()
        return int(float(number) * (1_024 if binary else 1_000) ** _POWERS[unit.lower()])


NETWORK: Final[tuple[Callable[[F], F], ...]] = (
    click.option(
        "--contact", metavar="MAIL-OR-URL", help="who crawls; public hosts are fetched only with it"
    ),
    click.option("--timeout", type=float, metavar="S", help="the whole exchange [60]"),
    click.option("--max-body", type=Size(), metavar="SIZE", help="most of a body, decoded [10MiB]"),
    click.option(
        "--header", multiple=True, metavar="NAME:VALUE", help="a header for the seeds' origins alone"
    ),
    click.option("--proxy", metavar="URL", help="tunnel through a proxy"),
    click.option(
        "--port", "ports", type=int, multiple=True, metavar="N", help="another port that may be dialled"
    ),
    click.option(
        "--allow-private-addresses",
        is_flag=True,
        help="for your own machine and network: hosts of seeds and --resolve",
    ),
    click.option("--resolve", multiple=True, metavar="NAME=ADDR", help="the address of a name, or of *.name"),
    click.option(
        "--delay",
        type=float,
        metavar="S",
        help="seconds from the end of a response to the next request of a host [1]",
    ),
    click.option("--ignore-robots", is_flag=True, help="needs --authorization"),
    click.option("--authorization", metavar="FILE", help="the written leave to ignore robots.txt"),
    click.option("--select", multiple=True, metavar="NAME=CSS", help="a field; NAME[] takes all matches"),
    click.option("--each", metavar="CSS", help="repeated records: a list of items a page"),
    click.option(
        "--config", "config_file", type=click.Path(dir_okay=False), metavar="FILE", help="a crawl.toml"
    ),
)


def network_options(command: F) -> F:
    """Give a command the options of NETWORK."""
    for option in reversed(NETWORK):
        command = option(command)
    return command


def read_config(path: str | None) -> Config:
    """Return the configuration in a file, or the defaults; raise ConfigRefused naming the file."""
    if path is None:
        return Config()
    try:
        raw = tomllib.loads(Path(path).read_text(encoding="utf-8-sig"))
    except (OSError, ValueError) as error:
        raise ConfigRefused(
            f"{path} cannot be read: {error}", hint="`mannerly init` writes an example"
        ) from error
    try:
        return from_mapping(raw)
    except ConfigRefused as error:
        raise ConfigRefused(f"{path}: {error}", hint=error.hint) from error


def changed(section: Section, **typed: Any) -> Section:
    """Return the section with the values that were typed: not None, nor a flag's False, nor an empty list's ()."""
    given = {
        name: value
        for name, value in typed.items()
        if value is not None and value is not False and value != ()
    }
    return replace(section, **given)  # type: ignore[type-var]


def _with_selectors(select: SelectConfig, typed: Mapping[str, Any]) -> SelectConfig:
    """Return the selectors of file and command line, all of them checked."""
    if not (typed.get("select") or typed.get("each") or select.fields or select.each):
        return select
    # loads the HTML library: not for every start
    from mannerly.extract.select import compile_selectors, split_option

    pairs = tuple(split_option(option) for option in typed.get("select", ()))
    pairs = pairs or tuple(select.fields.items())
    each = typed.get("each") or select.each
    # as typed: in a dict the second of two fields of a name would hide the first
    compile_selectors(pairs, each)
    return replace(select, fields=dict(pairs), each=each)


def with_network(config: Config, typed: Mapping[str, Any]) -> Config:
    """Return the configuration with the network options that were typed."""
    politeness = config.politeness
    if typed.get("delay") is not None:
        # --delay X says the pace in full: the response time adds nothing, back-off and Crawl-delay still do
        politeness = replace(politeness, min_delay_s=typed["delay"], factor=0.0)
    select = _with_selectors(config.select, typed)
    contact = typed.get("contact") or config.identity.contact or os.environ.get("MANNERLY_CONTACT", "")
    whole = replace(
        config,
        politeness=politeness,
        select=select,
        identity=changed(
            config.identity,
            contact=contact.strip(),
            ignore_robots=typed.get("ignore_robots"),
            authorization=typed.get("authorization"),
        ),
        fetch=changed(
            config.fetch,
            timeout_s=typed.get("timeout"),
            max_body_bytes=typed.get("max_body"),
            headers=tuple(typed.get("header") or ()),
            proxy=typed.get("proxy"),
            ports=tuple(typed.get("ports") or ()),
            allow_private_addresses=typed.get("allow_private_addresses"),
            resolve=tuple(typed.get("resolve") or ()),
        ),
    )
    check(whole)
    return whole
