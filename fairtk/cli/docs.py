"""``fairtk docs``: where something is explained."""

from __future__ import annotations

import sys

import click

from fairtk.cli.output import echo_rows, echo_table, format_option


@click.command("docs")
@click.argument("topic", required=False)
@click.option("--list", "everything", is_flag=True, help="List all topics and their pages.")
@click.option("--no-open", is_flag=True, help="Print the address only.")
@format_option
def command(topic: str | None, everything: bool, no_open: bool, form: str) -> None:
    """Open the page on TOPIC: a measure, a transformer, a room or a page of the site.

    Without TOPIC, the start page. The address is printed; a browser is opened on a terminal only.
    A site built on this machine comes first (FAIRTK_DOCS names its folder), then the network's.
    """
    from fairtk.documentation.addresses import address
    from fairtk.documentation.topics import known_topics, page_for

    if everything:
        rows = [
            [name, address(page), about] for name, (page, about) in sorted(known_topics().items())
        ]
        columns = ["topic", "page", "summary"]
        if form == "table":
            echo_table(columns[::2], [row[::2] for row in rows])
        else:
            echo_rows(form, columns, rows)
        return
    where = address(page_for(topic or "start"))
    click.echo(where)
    if not no_open and sys.stdout.isatty():
        click.launch(where)
