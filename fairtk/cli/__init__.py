"""The command line: ``fairtk COMMAND``.

Each command is a module of its own, imported when it is called. Plugins add commands with the hook
``fairtk_commands(cli)``.
"""

from __future__ import annotations

from fairtk.cli.group import FairtkGroup, main

__all__ = ["FairtkGroup", "main"]
