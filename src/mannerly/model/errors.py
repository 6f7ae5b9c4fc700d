"""The exceptions of mannerly: our own failures. The web's failures are values (see `result`).

    MannerlyError
      ConfigRefused      a configuration or command line that is not carried out; exit 78
      StateInUse         another process holds the state or a seed host; exit 1
      StateDamaged       the state folder cannot be read as ours; exit 1
      DiskFull           no space left, or the journal's limit; exit 1
      InvalidUrl         text that is no URL (a value error of a caller, never of a page)
      WireError          bytes that are no message of ours, or break a bound
      SelectorInvalid    a selector that does not parse; exit 78

Each message says what happened, with the value; `hint` says what to do.
"""

from __future__ import annotations


class MannerlyError(Exception):
    """Root of our exceptions. `hint` is printed on a line of its own as `hint: ...`."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class ConfigRefused(MannerlyError):
    """A configuration or command line that is not carried out."""

    exit_code = 78


class SelectorInvalid(ConfigRefused):
    """A selector that does not parse."""


class StateInUse(MannerlyError):
    """Another process holds the state folder or a seed host."""


class StateDamaged(MannerlyError):
    """A state folder that cannot be read as ours."""


class DiskFull(MannerlyError):
    """No space is left, or the journal's limit is reached."""


class InvalidUrl(MannerlyError):
    """Text that is no http or https URL."""


class WireError(MannerlyError):
    """Bytes that are no message of ours, or break a bound."""


def first_of(group: BaseExceptionGroup[MannerlyError]) -> MannerlyError:
    """Return the error that a group of ours is about: a full disk before what follows from it."""
    flat: list[MannerlyError] = []
    pending: list[BaseException] = list(group.exceptions)
    while pending:
        error = pending.pop(0)
        if isinstance(error, BaseExceptionGroup):
            pending.extend(error.exceptions)
        elif isinstance(error, MannerlyError):
            flat.append(error)
    return next((error for error in flat if isinstance(error, DiskFull)), flat[0])
