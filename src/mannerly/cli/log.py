"""Events -> log lines: a dictionary word and fields, one line each, every crawled text escaped."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import Final

from mannerly.model.errors import ConfigRefused
from mannerly.model.printable import printable

LOGGER: Final = logging.getLogger("mannerly")
# what goes wrong on our side; all else is what happens on any day
WARNINGS: Final = frozenset(
    {"worker-died", "worker-garbled", "worker-stuck", "result-unasked", "host-retired", "host-parked"}
)


def check_log_file(file: str | None) -> None:
    """Raise ConfigRefused where no log could be written; touch nothing."""
    if not file:
        return
    path, hint = Path(file), "name another --log-file"
    if not path.parent.is_dir():
        raise ConfigRefused(
            f"the log file {file} cannot be written: there is no folder {path.parent}",
            hint="make the folder first, or name another --log-file",
        )
    if path.is_dir():
        raise ConfigRefused(f"the log file {file} cannot be written: it is a folder", hint=hint)
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise ConfigRefused(f"the log file {file} cannot be written: permission denied", hint=hint)


def start_log(*, verbose: bool, quiet: bool, file: str | None) -> None:
    """Send log lines to stderr (warnings; with `verbose` everything), and all of them to `file` if there is one."""
    LOGGER.propagate = False
    level = logging.DEBUG if verbose else logging.ERROR if quiet else logging.WARNING
    handlers: list[logging.Handler] = [logging.StreamHandler(sys.stderr)]
    handlers[0].setLevel(level)
    if file:
        check_log_file(file)
        try:
            handlers.append(logging.FileHandler(file, encoding="utf-8"))
        except OSError as error:
            raise ConfigRefused(
                f"the log file {file} cannot be written: {error.strerror}", hint="name another --log-file"
            ) from error
        handlers[1].setLevel(logging.DEBUG)
    LOGGER.setLevel(min(handler.level for handler in handlers))  # what nobody reads is not written
    for handler in handlers:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    LOGGER.handlers[:] = handlers


def event(name: str, fields: dict[str, object]) -> None:
    """Write one event."""
    level = logging.WARNING if name in WARNINGS else logging.INFO
    if not LOGGER.isEnabledFor(level):
        return
    text = " ".join(f"{key}={printable(str(value), limit=300)}" for key, value in fields.items())
    LOGGER.log(level, "%s %s", name, text)
