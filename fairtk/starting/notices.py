"""Warnings on the command line: one line with a name, from the import of the package on."""

from __future__ import annotations

import sys
import warnings
from typing import Any

from fairtk.errors import UndefinedWarning, printable, warning_name
from fairtk.starting.interrupts import is_command_line

FOR_DEVELOPERS = (DeprecationWarning, PendingDeprecationWarning, FutureWarning, ResourceWarning)


class Notices:
    """Shows warnings as one line each on stderr: ``warning: undefined: ...``, and each only once.

    Args:
        debug: show warnings for developers, too.
    """

    def __init__(self, debug: bool = False) -> None:
        self.debug = debug
        self.said: list[str] = []

    def show(self, message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        """Show a warning; to be put in the place of ``warnings.showwarning``."""
        if issubclass(category, FOR_DEVELOPERS) and not self.debug:
            return
        text = notice(message, category)
        if text not in self.said:
            self.said.append(text)
            print(f"warning: {text}", file=sys.stderr)


AT_START = Notices()
"""What was shown while fairtk was imported."""


def notice(message: Warning | str, category: type[Warning]) -> str:
    """Return a warning as a line that begins with its name."""
    text = " ".join(str(message).split())
    about, plain, _ = text.partition(". Plain means")
    if plain and issubclass(category, UndefinedWarning):
        text = f"{about}. Means are over the others."  # the command line takes no plain ones
    return printable(f"{warning_name(category)}: {text}")


def prepare() -> None:
    """Show warnings so, if this process is the command line; else nothing happens."""
    if is_command_line() and not sys.warnoptions:
        warnings.showwarning = AT_START.show
