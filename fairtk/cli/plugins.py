"""``fairtk plugins``: who gave what."""

from __future__ import annotations

from typing import cast

import click

from fairtk.cli.options import printing_options
from fairtk.cli.output import show, wrapped_lines
from fairtk.cli.signature import signature_command


@signature_command("List plugins, what each gave, and what is wrong with it.")
@printing_options
def command(form: str, output: str | None) -> None:
    """List plugins: distribution, version, hooks, what each gave, and what is wrong with it."""
    import pandas as pd

    from fairtk import plugins
    from fairtk.cli.group import FairtkGroup
    from fairtk.plugins.entry_points import COMMAND_GROUP

    entries = plugins.loaded()
    columns = ["distribution", "version", "hook", "gave", "problem"]
    rows = [
        [plugin.name, plugin.version, hook, ", ".join(plugin.gave.get(hook, [])), plugin.problem]
        for plugin in entries
        for hook in plugin.hooks or [""]
    ]
    root = click.get_current_context().find_root()
    group = cast(FairtkGroup, root.command)
    commands: dict[tuple[str, str, str], list[str]] = {}
    for point in group.entry_points:
        group.get_command(root, point.command)  # notes what is wrong
        key = (point.name, point.version, point.problem)
        commands.setdefault(key, []).append(point.command)
        entries.append(point)
    for (name, version, problem), names in commands.items():
        rows.append([name, version, COMMAND_GROUP, ", ".join(names), problem])
    cells = [row[:4] for row in rows]
    for previous, row in reversed(list(zip(rows, cells[1:], strict=False))):
        if row[:2] == previous[:2]:
            row[:2] = ["", ""]
    problems = [f"\n{p.label} is left out: {p.problem}" for p in entries if p.problem]
    lines = [*wrapped_lines(columns[:4], cells), *problems]
    show(lines, pd.DataFrame(rows, columns=columns), form, output)
