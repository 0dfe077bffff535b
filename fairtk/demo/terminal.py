"""Commands as a terminal would run them, for the tutorials."""

from __future__ import annotations

import shlex
import subprocess
import sys
from os import PathLike


def shell(command: str, folder: str | PathLike[str], lines: int | None = None) -> int:
    """Show a command, run it in a folder, show what it prints, and return its exit code.

    Of the output so many lines are shown; None: all.
    """
    print(f"$ {command}")
    _, *arguments = shlex.split(command)
    result = subprocess.run(
        [sys.executable, "-m", "fairtk", *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    print("\n".join(result.stdout.splitlines()[:lines]), "\n")
    return result.returncode
