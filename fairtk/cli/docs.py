"""``fairtk docs``: where something is explained."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from fairtk.cli.options import printing_options
from fairtk.cli.output import TABLE, echo, echo_rows, wrapped_lines
from fairtk.plugins import on_terminal


@click.command("docs", short_help="Open the page on a measure, a transformer or a topic.")
@click.argument("topic", required=False)
@click.option("--list", "everything", is_flag=True, help="List all topics and their pages.")
@click.option("--no-open", is_flag=True, help="Print the address only.")
@printing_options
def command(
    topic: str | None, everything: bool, no_open: bool, form: str, output: str | None
) -> None:
    """Open the page on TOPIC: a measure, a transformer, a room or a page of the site.

    Without TOPIC, the start page. The page is of a site that was built on this machine
    (FAIRTK_DOCS names its folder): its address is printed, and a browser is opened on a terminal
    only. The project has no site on the network yet; without one a measure's page is printed, as
    `fairtk measures NAME` does.
    """
    from fairtk.plugins import BUILD, FOLDER, address, known_topics, local_site, page_for

    if everything:
        rows = [
            [name, address(page), about] for name, (page, about) in sorted(known_topics().items())
        ]
        columns = ["topic", "page", "summary"]
        if form == TABLE:
            echo(wrapped_lines(columns[::2], [row[::2] for row in rows]), output)
        else:
            echo_rows(form, columns, rows, output)
        return
    name = topic or "start"
    page = page_for(name)
    here = local_site() is not None
    if not here and not no_open and page.startswith("measures/") and name != "measures":
        from fairtk.cli.measures import explain

        explain(Path(page).stem, form, output)
        return
    where = address(page)
    if form == TABLE:
        echo(where, output)
    else:
        echo_rows(form, ["topic", "page"], [[name, where]], output)
    if not here:
        message = f"the site is not on the network yet: {BUILD} and name its folder in {FOLDER}"
        click.echo(message, err=True)
    elif not no_open and output is None and on_terminal(sys.stdout):
        click.launch(where)
