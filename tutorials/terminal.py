"""Commands as a terminal would run them, for the tutorials."""

import shlex
import subprocess
import sys


def shell(command, folder, lines=None):
    """Show a command, run it in a folder, show what it prints, and return its exit code.

    Args:
        command: the command line, which begins with ``fairtk``.
        folder: the working folder.
        lines: how many lines of the output are shown; None: all.
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
