"""Find the command and run it; print errors, click's too, as `error: ...` and `hint: ...`; never a traceback.

Commands are imported when they are asked for: `mannerly --version` and `--help` load no crawler.

Exit codes: 0 done or stopped by a limit; 1 no seed gave a page, disk full, state in use; 2 usage; 78 configuration
refused; 130 interrupted. `why` has its own: 0 fetched or waiting, 1 refused or failed, 3 never seen; `fetch` ends with 1
for a status of 400 or more, `doctor` if a check failed.
"""

from __future__ import annotations

import importlib
import sys
from typing import Final

import click

from mannerly import __version__
from mannerly.model.errors import MannerlyError
from mannerly.model.printable import printable

COMMANDS: Final = {
    "crawl": "crawl a site, or many",
    "fetch": "fetch one page and print its record",
    "shell": "fetch one page and try selectors on it",
    "why": "tell why a URL was or was not fetched",
    "report": "tell how a crawl stands, and what was refused",
    "init": "write an annotated crawl.toml",
    "doctor": "check whether this machine can crawl",
}
EXIT_INTERRUPTED: Final = 130


class UsageRefused(click.UsageError):
    """A command line that says too little; exit 2. hint: what to type."""

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__(message)
        self.hint: Final = hint


class LazyGroup(click.Group):
    """A group whose commands are imported when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command's module and return its `command`."""
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(f"mannerly.cli.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table, without importing any of them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(
    cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="mannerly", message="%(prog)s %(version)s")
def main() -> None:
    """A polite web crawler. `mannerly crawl URL` crawls a site and prints one JSON object a page."""


def run() -> None:
    """Run what the command line says and exit."""
    try:
        code = main.main(prog_name="mannerly", standalone_mode=False)
    except click.exceptions.Exit as exit_:
        code = exit_.exit_code
    except click.Abort:
        code = EXIT_INTERRUPTED
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()  # a bare `mannerly`: the whole help, on stderr
        code = error.exit_code
    except click.ClickException as error:
        show(of_click(error))
        code = error.exit_code
    except MannerlyError as error:
        show(error)
        code = error.exit_code
    except KeyboardInterrupt:
        code = EXIT_INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the last line of defence: a person sees a line, a log file the traceback
        unforeseen(error)
        code = 1
    sys.exit(code if isinstance(code, int) else 0)


def of_click(error: click.ClickException) -> MannerlyError:
    """Return an error of the command line in our own form: what happened in one line, and what to do."""
    message = error.format_message().rstrip(".")
    hint = error.hint if isinstance(error, UsageRefused) else ""
    if not hint and isinstance(error, click.UsageError):
        hint = f"{error.ctx.command_path if error.ctx is not None else 'mannerly'} --help"
    return MannerlyError(message[:1].lower() + message[1:], hint=hint)


def unforeseen(error: Exception) -> None:
    """Tell of a fault of ours in one line; the traceback goes to the log, which `-v` and `--log-file` show in full."""
    import logging

    logging.getLogger("mannerly").debug("unforeseen", exc_info=error)
    parts: list[BaseException] = [error]
    while isinstance(parts[-1], BaseExceptionGroup):
        parts.append(parts[-1].exceptions[0])
    cause = parts[-1]
    show(
        MannerlyError(
            f"a fault of mannerly's own: {type(cause).__name__}: {cause}",
            hint="nothing that was settled is lost; --log-file FILE keeps the traceback, for a report of the fault",
        )
    )


def show(error: MannerlyError) -> None:
    """Print an error of ours on stderr, and its hint."""
    print(f"error: {printable(str(error), limit=2_000)}", file=sys.stderr)
    if error.hint:
        print(f"hint: {printable(error.hint, limit=2_000)}", file=sys.stderr)
