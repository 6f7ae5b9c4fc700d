"""What users can type, set or read is documented, and what the pages say exists."""

from __future__ import annotations

import ast
import importlib.util
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import click
import pytest

from mannerly.cli import log
from mannerly.cli.main import COMMANDS, EXIT_INTERRUPTED
from mannerly.cli.main import main as group
from mannerly.model import errors, result
from mannerly.model.config import known_keys
from mannerly.model.host import QueueState
from mannerly.model.origin import Access
from mannerly.model.task import TRANSITIONS, Identity, UrlState
from mannerly.model.verdict import Reason

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), *ROOT.glob("*.md")])
GUIDES = [page for page in PAGES if page.name != "CHANGELOG.md"]

# the dictionary: every word that code, tables, logs and messages use for a thing of the field
WORDS = """
crawl; run; key; origin; gate key; address group; registered domain; seed; via; depth; band; scope; candidate; admit;
seen set; frontier; host queue; window; ready; in_process; snoozed; exhausted; parked; retired; priority; due time;
budget; host gate; permit; delay; back-off; patience; product token; ruleset; access result; prerequisite; verdict;
reason; evidence; task; attempt; lease; coordinator; worker; parser; quarantine; fetch; outcome; result; settle; disposition; validator;
page; link; directive; body_digest; text_digest; fingerprint; template; trap; state store; transport; sink; identity;
authorization; field; selector; journal; segment; position
"""


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def read(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def rows(path: str) -> list[list[str]]:
    """The cells of all tables of a page, backticks taken off."""
    lines = [line for line in read(path).splitlines() if line.startswith("| ")]
    split = [re.split(r"(?<!\\)\|", line.strip("|")) for line in lines]
    return [[cell.strip().replace("\\|", "|").strip("`") for cell in cells] for cells in split]


def commands_in(page: Path) -> Iterator[list[str]]:
    """The command lines of a page's shell blocks, each as words."""
    for block in re.findall(r"```sh\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
        for line in block.splitlines():
            if line.strip():
                yield shlex.split(line)


def command_of(name: str) -> click.Command:
    command = group.get_command(click.Context(group), name)
    assert command is not None, f"there is no command {name}"
    return command


def reference_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reference", ROOT / "scripts" / "reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["commands.md", "configuration.md"])
def test_reference_says_what_the_code_says(name: str) -> None:
    page = (DOCS / "reference" / name).read_text(encoding="utf-8")
    assert reference_script().written(page) == page, "run: python scripts/reference.py"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_documented(name: str) -> None:
    page = read("docs/reference/commands.md")
    assert f"\n## mannerly {name}\n" in page
    assert f"<!-- options: {name} -->" in page
    assert command_of(name).help


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_documented(name: str) -> None:
    section = read("docs/reference/commands.md").partition(f"\n## mannerly {name}\n")[2].partition("\n## ")[0]
    for parameter in command_of(name).params:
        for text in parameter.opts if isinstance(parameter, click.Option) else ():
            assert re.search(rf"{re.escape(text)}(?![\w-])", section), f"{name} {text} is not documented"


def test_every_key_of_the_configuration_is_documented() -> None:
    sections = re.split(r"^## ", read("docs/reference/configuration.md"), flags=re.MULTILINE)
    named = {text.partition("\n")[0].strip("[]"): text for text in sections}
    for key in known_keys():
        section, _, name = key.rpartition(".")
        assert f"| `{name}` |" in named[section or "Top level"], f"{key} is not documented"


def test_every_reason_is_documented_in_its_own_words() -> None:
    documented = {cells[0]: cells[1] for cells in rows("docs/reference/reasons.md") if cells[0] != "reason"}
    assert documented == {str(reason): reason.sentence for reason in Reason}


def test_every_exit_code_is_documented() -> None:
    documented = {cells[0] for cells in rows("docs/reference/exit-codes.md")} - {"code"}
    ours = {
        kind.exit_code
        for kind in vars(errors).values()
        if isinstance(kind, type) and hasattr(kind, "exit_code")
    }
    assert documented == {str(code) for code in {0, click.UsageError.exit_code, 3, EXIT_INTERRUPTED, *ours}}


def events_of_the_code() -> dict[str, set[str]]:
    """Every event with its fields: calls of `event` or `_event` with a name and a dictionary."""
    found: dict[str, set[str]] = {}
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(
                    func=ast.Attribute(attr="_event" | "event") | ast.Name(id="_event" | "event"),
                    args=[ast.Constant(value=str(name)), ast.Dict(keys=keys)],
                ):
                    fields = {key.value for key in keys if isinstance(key, ast.Constant)}
                    found.setdefault(name, set()).update(str(field) for field in fields)
    return found


def test_every_event_is_documented_with_its_level_and_fields() -> None:
    table = [cells for cells in rows("docs/reference/events.md") if cells[0] != "event"]
    assert {cells[0]: set(re.findall(r"\w+", cells[2])) for cells in table} == events_of_the_code()
    assert {cells[0] for cells in table if cells[1] == "warning"} == log.WARNINGS


def test_every_word_is_documented() -> None:
    documented = {cells[0] for cells in rows("docs/reference/words.md")} - {"word"}
    wanted = {word.strip() for word in WORDS.split(";")}
    assert documented == wanted


def test_states_and_outcomes_of_the_code_are_words() -> None:
    table = {cells[0]: cells[1] for cells in rows("docs/reference/words.md")}
    assert {state.name.lower() for state in QueueState} <= set(table)
    outcomes = re.findall(r"[A-Z]\w+", table["outcome"].partition(":")[2])
    assert set(outcomes) == {kind.__name__ for kind in result.Outcome.__args__}
    for access in Access:
        assert str(access) in table["access result"]
    for identity in Identity:
        assert f"`{identity}`" in read("docs/concepts/invariants.md")


def test_picture_of_url_states_is_the_table_of_the_code() -> None:
    table = {cells[0]: cells[2] for cells in rows("docs/concepts/urls-way.md") if cells[0] != "state"}
    assert set(table) == {state.name.lower() for state in UrlState}
    for state, following in TRANSITIONS.items():
        assert (table[state.name.lower()] == "any") == (following == frozenset(UrlState))


def test_every_invariant_has_its_line() -> None:
    assert [cells[0] for cells in rows("docs/concepts/invariants.md")][1:] == [f"I{n}" for n in range(1, 12)]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_that_a_page_shows_parse(page: Path) -> None:
    for words in commands_in(page):
        program, arguments = words[0].removeprefix("./"), words[1:]
        if program != "mannerly":
            continue
        assert arguments[0] in COMMANDS or arguments[0].startswith("--"), words
        if arguments[0] in COMMANDS:
            command_of(arguments[0]).make_context(arguments[0], arguments[1:], resilient_parsing=False)


def test_first_screen_of_the_readme_holds_two_commands() -> None:
    first_screen = "\n".join(read("README.md").splitlines()[:24])
    blocks = re.findall(r"```sh\n(.*?)```", first_screen, re.DOTALL)
    crawl, check = (block.strip() for block in blocks)
    assert crawl.startswith("./mannerly crawl ")
    assert check == "./check"
    assert "\n" not in crawl
    for name in ("mannerly", "check", ".ci/run"):
        assert (ROOT / name).stat().st_mode & 0o111, f"{name} is not executable"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.exists(), f"{target} does not exist"
        if anchor:
            headings = re.findall(r"^#+ (.*)$", linked.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w -]", "", h).lower().replace(" ", "-") for h in headings}, target


def test_every_page_is_linked() -> None:
    index = {
        DOCS / "README.md": read("docs/README.md"),
        DOCS / "decisions" / "README.md": read("docs/decisions/README.md"),
    }
    linked = {
        (page.parent / target.partition("#")[0]).resolve()
        for page, text in index.items()
        for target in re.findall(r"\]\(([^)\s]+)\)", text)
    }
    assert set(DOCS.rglob("*.md")) - {DOCS / "README.md"} <= linked


@pytest.mark.parametrize("page", GUIDES, ids=name_of)
def test_pages_do_not_belittle(page: Path) -> None:
    text = re.sub(r"`[^`]*`", "", page.read_text(encoding="utf-8"))
    assert not re.findall(r"\b(?:simply|just|easily|obviously|of course)\b", text, re.IGNORECASE)


def shipped() -> list[Path]:
    """What a clone holds: no folder of a tool, no environment."""
    folders = [ROOT / name for name in ("src", "docs", "tests", "bench", "scripts", ".ci")]
    inner = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    outer = [path for path in ROOT.iterdir() if path.is_file()]
    return [
        path for path in (*inner, *outer) if "__pycache__" not in path.parts and ".work" not in path.parts
    ]


def test_no_machine_path_and_no_registry_host() -> None:
    # put together here, so that this file does not hold what it looks for
    texts = [
        "/" + "root/",
        "/" + "work/",
        "py" + "pi.org",
        "python" + "hosted.org",
        "--index" + "-url",
    ]
    found = [
        (str(path.relative_to(ROOT)), text)
        for path in shipped()
        for content in [path.read_bytes()]
        for text in texts
        if text.encode() in content
    ]
    assert not found
