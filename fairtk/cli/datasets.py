"""``fairtk datasets``: the data sets that fairtk and its plugins add."""

from __future__ import annotations

import click

from fairtk.cli.options import printing_options
from fairtk.cli.output import TABLE, echo, echo_rows, wrapped_lines


@click.command("datasets", short_help="List the data sets that fairtk adds to ir_datasets.")
@printing_options
def command(form: str, output: str | None) -> None:
    """List the data sets that fairtk and its plugins add to ir_datasets."""
    from fairtk.plugins import registry

    entries = registry.datasets.entries()
    if form != TABLE:
        columns = ["id", "summary", "warning", "citation", "from"]
        rows = [
            [e.name, e.value.summary, e.value.warning, e.value.citation, e.owner] for e in entries
        ]
        echo_rows(form, columns, rows, output)
        return
    cells = [[e.name, e.owner, e.value.summary] for e in entries]
    lines = wrapped_lines(["id", "from", "summary"], cells)
    warned = [e for e in entries if e.value.warning]
    if warned:
        lines += ["", "Read before use:"]
        for text in dict.fromkeys(e.value.warning for e in warned):
            ids = ", ".join(e.name for e in warned if e.value.warning == text)
            lines.append(f"  {ids}: {text}")
    use = 'Use one: pt.get_dataset("irds:ID"), or ir_datasets.load("ID") after import fairtk.'
    echo([*lines, "", use], output)
