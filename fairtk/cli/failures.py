"""What a command says when something is wrong: one line on stderr, and an exit code."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Iterator

import click

from fairtk.cli.output import naming_stdin
from fairtk.errors import DataWarning, FairtkError, InputError, UndefinedWarning, printable
from fairtk.starting.notices import AT_START, FOR_DEVELOPERS, Notices, notice

STRICT = "--strict"
WRONG_INPUT = 2
FAILED_WORK = 1


class FailedWork(click.ClickException):
    """An error that the input is not to blame for."""

    exit_code = FAILED_WORK


class WrongInput(click.ClickException):
    """An error that the user can mend in what was given."""

    exit_code = WRONG_INPUT


def described(error: Exception, debug: bool) -> click.ClickException:
    """Return an error of one line, whatever the library below wrote, with its exit code."""
    text = " ".join(" ".join([str(error), *getattr(error, "__notes__", ())]).split())
    if isinstance(error, OSError) and not isinstance(error, FairtkError) and error.filename:
        text = f"{error.filename}: {error.strerror}"
    text = printable(naming_stdin(text))
    if isinstance(error, Warning):
        of_input = isinstance(error, DataWarning | UndefinedWarning)
        text = f"{notice(error, type(error))} ({STRICT})"
        return WrongInput(text) if of_input else FailedWork(text)
    if isinstance(error, InputError):
        return WrongInput(text)
    if isinstance(error, FairtkError | OSError):
        return FailedWork(text)
    if isinstance(error, MemoryError):
        left = "free some, or give fewer queries or samples at a time"
        return FailedWork(f"memory ran out ({text or 'no more is known'}); {left}")
    hint = "" if debug else "; the option --debug shows where"
    return FailedWork(f"{type(error).__name__}: {text or 'no message'}{hint}")


@contextlib.contextmanager
def plain_warnings(debug: bool, strict: bool) -> Iterator[None]:
    """Show warnings as one line on stderr, and each only once; or raise them."""
    if sys.warnoptions and not strict:
        yield
        return
    notices = Notices(debug)
    notices.said += AT_START.said
    with warnings.catch_warnings():
        warnings.simplefilter("error" if strict else "always")
        if strict:
            for category in FOR_DEVELOPERS:
                warnings.simplefilter("ignore", category)
        warnings.showwarning = lambda text, kind, *_: notices.show(naming_stdin(str(text)), kind)
        yield
