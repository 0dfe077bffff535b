"""``fairtk datasets``: the data sets that fairtk and its plugins add."""

from __future__ import annotations

import click

from fairtk.cli.output import echo_rows, echo_table, format_option


@click.command("datasets")
@format_option
def command(form: str) -> None:
    """List the data sets that fairtk and its plugins add to ir_datasets."""
    from fairtk.plugins import registry

    entries = registry.datasets.entries()
    if form != "table":
        columns = ["id", "summary", "warning", "citation", "from"]
        rows = [
            [e.name, e.value.summary, e.value.warning, e.value.citation, e.owner] for e in entries
        ]
        echo_rows(form, columns, rows)
        return
    echo_table(["id", "from", "summary"], [[e.name, e.owner, e.value.summary] for e in entries])
    warned = [e for e in entries if e.value.warning]
    if warned:
        click.echo("\nRead before use:")
        for text in dict.fromkeys(e.value.warning for e in warned):
            ids = ", ".join(e.name for e in warned if e.value.warning == text)
            click.echo(f"  {ids}: {text}")
    click.echo(
        '\nUse one: pt.get_dataset("irds:ID"), or ir_datasets.load("ID") after import fairtk.'
    )
