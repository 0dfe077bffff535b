"""``fairtk plugins``: who gave what."""

from __future__ import annotations

import click

from fairtk.cli.output import echo_rows, echo_table, format_option


@click.command("plugins")
@format_option
def command(form: str) -> None:
    """List plugins: distribution, version, hooks, what each gave, and what is wrong with it."""
    from fairtk import plugins

    found = plugins.loaded()
    columns = ["distribution", "version", "hook", "gave", "problem"]
    rows = [
        [plugin.name, plugin.version, hook, ", ".join(plugin.gave.get(hook, [])), plugin.problem]
        for plugin in found
        for hook in plugin.hooks or [""]
    ]
    if form != "table":
        echo_rows(form, columns, rows)
        return
    shown = [row[:4] for row in rows]
    for previous, row in reversed(list(zip(rows, shown[1:], strict=False))):
        if row[:2] == previous[:2]:
            row[:2] = ["", ""]
    echo_table(columns[:4], shown)
    for plugin in found:
        if plugin.problem:
            click.echo(f"\n{plugin} is left out: {plugin.problem}")
