"""What was typed, checked and put together: the job, before anything is opened or asked.

Pure but for reading the authorization file. Refusals are ConfigRefused with the line to copy.
"""

from __future__ import annotations

import hashlib
import ipaddress
import json
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Final

from mannerly.coordinator.addresses import AddressBook
from mannerly.model import url as urls
from mannerly.model.config import Config
from mannerly.model.errors import ConfigRefused
from mannerly.model.seed import seed_candidates, seed_verdict
from mannerly.model.task import Identity, Limits, Wanted
from mannerly.model.url import Url
from mannerly.model.verdict import Reason
from mannerly.policy.scope import Scope, ScopeKind, host_matches

_MAILBOX: Final = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+")
_CONTACT_URL: Final = re.compile(r"https?://[!-~]+")
_PROXY: Final = re.compile(r"(?:https?|socks[45]|socks4a|socks5h)://[!-~]+")
_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# the port of a text that is no URL: digits behind the last colon before the path
_PORT: Final = re.compile(r"(?:[a-z]+:)?[/\\]{0,2}[^/\\?#]*:([0-9]+)(?:[/\\?#]|$)", re.IGNORECASE)
MAX_PORT: Final = 65_535
_SEED_HINTS: Final = {
    Reason.UNSUPPORTED_SCHEME: "give a URL that begins with http:// or https://",
    Reason.HAS_CREDENTIALS: "leave them out; --header 'Authorization: ...' goes to the seeds' origins alone",
}
# set by the crawler itself, never by --header
_OWN_HEADERS: Final = frozenset(
    {"user-agent", "host", "from", "connection", "content-length", "transfer-encoding"}
)


@dataclass(frozen=True, slots=True)
class Seed:
    """A seed as typed, and the URL it begins with. schemeless: https was supposed, http is tried if that fails."""

    text: str
    url: Url
    schemeless: bool


@dataclass(frozen=True, slots=True)
class SeedFault:
    """Why a text is no seed. shown: the text fit for a message; hint: what to do, '' for the usual."""

    shown: str
    why: str
    hint: str


@dataclass(frozen=True, slots=True)
class Authorization:
    """A written leave to ignore robots.txt for `hosts`. digest: SHA-256 of the file, kept with the crawl and each page."""

    who: str
    hosts: tuple[str, ...]
    until: str
    signed_by: str
    digest: str


@dataclass(frozen=True, slots=True)
class Job:
    """A run, decided. bad_seeds: texts that are no seed, with the reason; they are reported, the others go on.

    keep_body: pages come with their markup, for `mannerly shell`.
    """

    config: Config
    seeds: tuple[Seed, ...]
    bad_seeds: tuple[tuple[str, str], ...]
    scope: Scope
    mapped: dict[str, str]
    private_hosts: frozenset[str]
    headers: tuple[tuple[str, str], ...]
    authorization: Authorization | None
    keep_body: bool = False

    @property
    def identity(self) -> Identity:
        """Which of the two user agents tasks go out under."""
        return Identity.AUTHORIZED if self.authorization is not None else Identity.MANNERLY

    @property
    def limits(self) -> Limits:
        """Bounds of each exchange."""
        fetch = self.config.fetch
        return Limits(
            connect_s=min(fetch.connect_timeout_s, fetch.timeout_s),
            first_byte_s=min(fetch.first_byte_timeout_s, fetch.timeout_s),
            exchange_s=fetch.timeout_s,
            headers_bytes=fetch.max_header_bytes,
            body_bytes=fetch.max_body_bytes,
            ratio=fetch.max_ratio,
        )

    @property
    def wanted(self) -> Wanted:
        """What workers take from a page."""
        select = self.config.select
        return Wanted(
            fields=tuple(select.fields.items()),
            each=select.each,
            text=select.text,
            links=select.links,
            strip_parameters=self.config.scope.strip_parameters,
            body=self.keep_body,
        )

    def needs_contact(self, host: str) -> bool:
        """Tell whether `host` is public and there is no contact to be named to it (invariant I10)."""
        return not self.config.identity.contact and is_public(host, self.mapped)

    @property
    def folder(self) -> Path:
        """The state folder: as named, or `./crawl-<host>` of the first seed, port added if not the default."""
        if self.config.state:
            return Path(self.config.state)
        return Path(default_folder(self.seeds[0].url))


def default_folder(url: Url) -> str:
    """Return the name of the state folder for a seed; safe for any host."""
    host = re.sub(r"[^A-Za-z0-9._-]", "_", url.host.strip("[]"))[:120]
    default = {"http": 80, "https": 443}[url.scheme]
    return f"crawl-{host}" + (f"-{url.port}" if url.port != default else "")


def job_of(config: Config, seeds: Sequence[str], *, now: float, command: str = "crawl") -> Job:
    """Return the job; raise ConfigRefused for what is not carried out. now: UTC seconds; command: for hints."""
    good, bad = read_seeds(seeds)
    if not good:
        usual = f"give a URL: mannerly {command} https://example.org/"
        fault = seed_fault(seeds[0]) if seeds else None
        if fault is None:
            raise ConfigRefused("there is no seed", hint=usual)
        raise ConfigRefused(f"{fault.why}: {fault.shown}", hint=fault.hint or usual)
    check_contact(config.identity.contact)
    check_proxy(config.fetch.proxy)
    mapped = read_mapping(config.fetch.resolve)
    authorization = read_authorization(config, now)
    scope = Scope.of(
        ScopeKind(config.scope.kind),
        [seed.url for seed in good],
        includes=config.scope.include,
        excludes=config.scope.exclude,
        authorized=authorization.hosts if authorization is not None else None,
    )
    job = Job(
        config=config,
        seeds=good,
        bad_seeds=bad,
        scope=scope,
        mapped=mapped,
        private_hosts=private_hosts(config, good),
        headers=read_headers(config.fetch.headers),
        authorization=authorization,
    )
    for seed in good:
        check_seed(job, seed, command)
    return job


def read_seeds(texts: Sequence[str]) -> tuple[tuple[Seed, ...], tuple[tuple[str, str], ...]]:
    """Return the seeds, each once, and the texts that are none with the reason."""
    good: dict[str, Seed] = {}
    bad: list[tuple[str, str]] = []
    for text in texts:
        fault = seed_fault(text)
        if fault is not None:
            bad.append((fault.shown, fault.why))
            continue
        candidates = seed_candidates(text)
        url = urls.parse(candidates[0])
        good.setdefault(url.key, Seed(text, url, schemeless=len(candidates) > 1))
    return tuple(good.values()), tuple(bad)


def seed_fault(text: str) -> SeedFault | None:
    """Return what is wrong with a seed as typed, None if nothing is."""
    if text.strip() == "-":
        return SeedFault("-", "a dash is no URL", "-i - reads seeds from stdin")
    verdict = seed_verdict(text)
    if verdict.reason is None:
        return None
    why, hint = verdict.reason.sentence, _SEED_HINTS.get(verdict.reason, "")
    port = _PORT.match(urls.squeezed(text))
    if verdict.reason is Reason.INVALID_URL and port and int(port[1][:9]) > MAX_PORT:
        why, hint = f"there is no port {port[1][:9]}", "ports run from 1 to 65535; none means 80 or 443"
    return SeedFault(verdict.evidence or text, why, hint)


def check_seed(job: Job, seed: Seed, command: str) -> None:
    """Refuse a seed that could not be fetched anyway: no contact, a private address, an authorization for others."""
    host = seed.url.host
    if job.needs_contact(host):
        raise ConfigRefused(
            f"{host} is a public host, and it is not said who crawls",
            hint=f"mannerly {command} {seed.text} --contact you@example.org   (or set MANNERLY_CONTACT)",
        )
    authorized = job.scope.authorized
    if authorized is not None and not host_matches(host, authorized):
        raise ConfigRefused(
            f"the authorization is for {', '.join(sorted(authorized))}, not for {host}",
            hint="ask for one that names the host, or crawl without --ignore-robots",
        )
    if not is_public(host, job.mapped) and not job.config.fetch.allow_private_addresses:
        raise ConfigRefused(
            f"{host} is not a public host, and private addresses are refused",
            hint="--allow-private-addresses, if this is your own machine or network",
        )


def is_public(host: str, mapped: dict[str, str]) -> bool:
    """Tell whether a host is public: not localhost, no private literal, not mapped to a private address."""
    return not (urls.is_private_name(host) or urls.is_private_name(AddressBook(mapped).known(host)))


def private_hosts(config: Config, seeds: Sequence[Seed]) -> frozenset[str]:
    """Return the hosts whose private addresses may be dialled: those of seeds and of --resolve, if allowed at all."""
    if not config.fetch.allow_private_addresses:
        return frozenset()
    named = (text.partition("=")[0].strip().lower().rstrip(".") for text in config.fetch.resolve)
    return frozenset({*(seed.url.host for seed in seeds), *named})


def check_contact(contact: str) -> None:
    """Refuse a contact that is neither a mailbox nor an http(s) URL in plain ASCII."""
    if contact and not _MAILBOX.fullmatch(contact) and not _CONTACT_URL.fullmatch(contact):
        raise ConfigRefused(
            f"the contact {contact!r} is neither a mailbox nor an http(s) URL in plain ASCII",
            hint="--contact you@example.org or --contact https://example.org/bot",
        )


def check_proxy(proxy: str) -> None:
    """Refuse a proxy that is no URL of a kind that tunnels."""
    if proxy and not _PROXY.fullmatch(proxy):
        raise ConfigRefused(
            f"--proxy {proxy!r} is no proxy's URL",
            hint="--proxy http://127.0.0.1:3128 or socks5h://127.0.0.1:1080",
        )


def read_mapping(texts: Sequence[str]) -> dict[str, str]:
    """Return `--resolve NAME=ADDR` as a table; NAME may be `*.x`."""
    mapped: dict[str, str] = {}
    for text in texts:
        name, equals, address = text.partition("=")
        name = name.strip().lower().rstrip(".")
        try:
            mapped[name] = str(ipaddress.ip_address(address.strip().strip("[]")))
        except ValueError:
            equals = ""
        if not equals or not name or ("*" in name and not name.startswith("*.")):
            raise ConfigRefused(
                f"--resolve {text}: not NAME=ADDRESS", hint="--resolve '*.example.test=127.0.0.1'"
            )
    return mapped


def read_headers(texts: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return `--header NAME:VALUE` as pairs; they go to the seeds' origins alone."""
    headers: list[tuple[str, str]] = []
    for text in texts:
        name, colon, value = text.partition(":")
        name, value = name.strip(), value.strip()
        if not colon or not _HEADER_NAME.fullmatch(name) or not value.isascii() or not value.isprintable():
            raise ConfigRefused(
                f"--header {text!r}: not NAME:VALUE in plain ASCII", hint="--header 'X-Key: secret'"
            )
        if name.lower() in _OWN_HEADERS:
            raise ConfigRefused(
                f"--header {name}: that header is the crawler's own", hint="--contact says who you are"
            )
        headers.append((name, value))
    return tuple(headers)


def read_authorization(config: Config, now: float) -> Authorization | None:
    """Read the written authorization that --ignore-robots needs; raise ConfigRefused if it does not hold."""
    identity = config.identity
    if not identity.ignore_robots and not identity.authorization:
        return None
    if not (identity.ignore_robots and identity.authorization):
        missing = "--authorization FILE" if identity.ignore_robots else "--ignore-robots"
        raise ConfigRefused(
            f"{missing} is missing: robots.txt is ignored only under a written authorization", hint=missing
        )
    path = Path(identity.authorization)
    try:
        content = path.read_bytes()
        raw = tomllib.loads(content.decode())
    except (OSError, ValueError) as error:
        raise ConfigRefused(
            f"the authorization {path} cannot be read: {error}", hint=_AUTHORIZATION_HINT
        ) from error
    who, hosts, until, signed_by = (raw.get(name) for name in ("who", "hosts", "until", "signed_by"))
    texts_ok = all(isinstance(text, str) and text.strip() for text in (who, signed_by))
    hosts_ok = isinstance(hosts, list) and hosts and all(isinstance(host, str) and host for host in hosts)
    ends = _end_of(until)
    if not texts_ok or not hosts_ok or ends is None:
        raise ConfigRefused(
            f"the authorization {path} lacks who, hosts, until or signed_by", hint=_AUTHORIZATION_HINT
        )
    if ends.timestamp() <= now:
        raise ConfigRefused(f"the authorization {path} expired on {until}", hint="ask for a new one")
    return Authorization(
        who=str(who),
        hosts=tuple(str(host).lower().rstrip(".") for host in hosts or ()),
        until=ends.isoformat(),
        signed_by=str(signed_by),
        digest=hashlib.sha256(content).hexdigest(),
    )


_AUTHORIZATION_HINT: Final = (
    'a TOML file with who = "...", hosts = ["example.org"], until = 2030-12-31, signed_by = "..."'
)


def _end_of(until: object) -> datetime | None:
    """Return the instant until which a date or time of TOML holds: a date holds to its end."""
    if isinstance(until, str):
        try:
            until = datetime.fromisoformat(until)
        except ValueError:
            return None
    if isinstance(until, datetime):
        return until if until.tzinfo is not None else until.replace(tzinfo=UTC)
    if isinstance(until, date):
        return datetime(until.year, until.month, until.day, tzinfo=UTC) + timedelta(days=1)
    return None


def scope_text(scope: Scope) -> str:
    """Return the scope as it is stored with the crawl, seeds' joined hosts left out."""
    return json.dumps(scope.record(), sort_keys=True)
