"""What `crawl.toml` cannot mean is told in words of ours, with what to write instead."""

from __future__ import annotations

import tomllib

import pytest

from mannerly.model.config import Config, from_mapping, known_keys, nearest
from mannerly.model.errors import ConfigRefused


def refusal(toml: str) -> tuple[str, str]:
    with pytest.raises(ConfigRefused) as refused:
        from_mapping(tomllib.loads(toml))
    return str(refused.value), refused.value.hint


@pytest.mark.parametrize(
    ("toml", "said", "hint"),
    [
        (
            '[fetch]\ntimeout_s = "60"',
            "fetch.timeout_s is text, and a number is due",
            "under [fetch], for example: timeout_s = 2.5",
        ),
        (
            "[fetch]\ntimeout_s = true",
            "fetch.timeout_s is true or false, and a number is due",
            "under [fetch], for example: timeout_s = 2.5",
        ),
        (
            "[budget]\nmax_pages = 1.5",
            "budget.max_pages is a number with a point, and a whole number is due",
            "under [budget], for example: max_pages = 10",
        ),
        (
            "[output]\noverwrite = 1",
            "output.overwrite is a whole number, and true or false is due",
            "under [output], for example: overwrite = true",
        ),
        (
            'seeds = "http://a.test/"',
            "seeds is text, and a list of texts is due",
            'above the first section, for example: seeds = ["..."]',
        ),
        (
            '[fetch]\nports = ["x"]',
            "fetch.ports is a list, and a list of whole numbers is due",
            "under [fetch], for example: ports = [8080]",
        ),
        (
            '[scope]\nkind = "hots"',
            'scope.kind is "hots", and one of host, domain, prefix, any is due',
            'under [scope], for example: kind = "host"',
        ),
        (
            "[scope]\nkind = 2026-01-01",
            "scope.kind is a date, and one of host, domain, prefix, any is due",
            'under [scope], for example: kind = "host"',
        ),
        ("fetch = 3", "fetch is a whole number, and a section is due", "write [fetch] and its keys below"),
        (
            "[select.fields]\ntitle = 1",
            "select.fields is a section, and a section of texts is due",
            'under [select], for example: fields = { name = "..." }',
        ),
    ],
)
def test_a_value_of_the_wrong_type_is_told_in_plain_words(toml: str, said: str, hint: str) -> None:
    assert refusal(toml) == (said, hint)


def test_a_secret_of_the_wrong_type_is_not_shown() -> None:
    assert "word" not in "".join(refusal('[fetch]\nheaders = "Authorization: word"'))


@pytest.mark.parametrize(
    ("toml", "unknown", "hint"),
    [
        ("[politness]\nmin_delay_s = 1", "politness", "did you mean the section [politeness]?"),
        ("sead = []", "sead", "did you mean seeds?"),
        ("stat = ''", "stat", "did you mean state?"),
        ("maxpages = 1", "maxpages", "did you mean budget.max_pages?"),
        ("min_delay = 1", "min_delay", "did you mean politeness.min_delay_s?"),
        ("[politeness]\nmin_delay = 1", "politeness.min_delay", "did you mean politeness.min_delay_s?"),
        ("[fetch]\nmax_pages = 1", "fetch.max_pages", "did you mean budget.max_pages?"),
        ("[fetch]\ntimeout = 1", "fetch.timeout", "did you mean fetch.timeout_s?"),
    ],
)
def test_an_unknown_key_names_the_nearest(toml: str, unknown: str, hint: str) -> None:
    assert refusal(toml) == (f"unknown key {unknown}", hint)


@pytest.mark.parametrize("key", ["unknwon", "fetch.qqq", "x.y"])
def test_where_no_key_is_near_the_hint_says_where_keys_are_listed(key: str) -> None:
    assert "`mannerly init`" in nearest(key)
    assert "docs/reference/configuration.md" in nearest(key)


def test_every_key_takes_its_own_default() -> None:
    assert from_mapping({}) == Config()
    assert "politeness.min_delay_s" in known_keys()
