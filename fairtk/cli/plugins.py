"""``fairtk plugins``: list plugins."""

from __future__ import annotations

from typing import cast

import click

from fairtk.cli.options import printing_options
from fairtk.cli.output import show, wrapped_lines
from fairtk.cli.signature import signature_command


@signature_command("List plugins, what they register, and their problems.")
@printing_options
def command(form: str, output: str | None) -> None:
    """List plugins, what they register, and their problems.

    The table has one row per distribution and hook, with the names that the distribution registers.
    A plugin that cannot be loaded is left out, and the reason is printed.
    """
    import pandas as pd

    from fairtk import plugins
    from fairtk.cli.group import FairtkGroup
    from fairtk.plugins.entry_points import COMMAND_GROUP

    entries = plugins.loaded_plugins()
    columns = ["distribution", "version", "hook", "gave", "problem"]
    gave: dict[tuple[str, str, str, str], list[str]] = {}
    for plugin in entries:  # a distribution may have several
        for hook in plugin.hooks or [""]:
            key = (plugin.name, plugin.version, hook, plugin.problem)
            gave.setdefault(key, []).extend(plugin.gave.get(hook, []))
    root = click.get_current_context().find_root()
    group = cast(FairtkGroup, root.command)
    for point in group.entry_points:
        group.get_command(root, point.command)  # records problems
        key = (point.name, point.version, COMMAND_GROUP, point.problem)
        gave.setdefault(key, []).append(point.command)
        entries.append(point)
    rows = [
        [name, version, hook, ", ".join(names), problem]
        for (name, version, hook, problem), names in gave.items()
    ]
    cells = [row[:4] for row in rows]
    for previous, row in reversed(list(zip(rows, cells[1:], strict=False))):
        if row[:2] == previous[:2]:
            row[:2] = ["", ""]
    problems = [f"\n{p.label} is left out: {p.problem}" for p in entries if p.problem]
    lines = [*wrapped_lines(columns[:4], cells), *problems]
    show(lines, pd.DataFrame(rows, columns=columns), form, output)
