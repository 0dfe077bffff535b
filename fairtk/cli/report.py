"""``fairtk report``: results as one page of HTML."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import click

from fairtk.cli.output import STDOUT, echo_file, said_command
from fairtk.cli.signature import signature_command
from fairtk.errors import InputError


@signature_command(
    "Show results as one HTML page with tables and figures.",
    {
        "fairtk.experiment:open_results": "folder qrels gold measures groups target",
        "fairtk.experiment:export": "setting",
        "fairtk.report.page:page_text": "title baseline test correction cutoff license",
    },
)
@click.option("-o", "--output", default="report.html", show_default=True, metavar="FILE",
              type=click.Path(dir_okay=False, allow_dash=True),
              help="The page; its folder must exist.")  # fmt: skip
def command(
    folder: str,
    output: str,
    setting: str | None,
    qrels: str | None,
    gold: str | None,
    measures: tuple[str, ...],
    groups: tuple[str, ...],
    target: tuple[str, ...],
    **options: Any,
) -> None:
    """Show the results in FOLDER as a page: one file of HTML, which asks the network for nothing.

    FOLDER is what `Results.save` wrote, the output folder of a study, or the save_dir of an
    experiment. Of a study with several attributes or models each has a page: the first is FILE,
    the others lie beside it, and all link to each other. A save_dir holds what systems gave, and
    not what was measured: give --qrels and measures, or the page has rankings and answers only.

    The page begins with the trade-off figure and the means. Tests, single queries with their
    rankings and answers, definitions, warnings and settings are folded below. Highlighting,
    sorting and single queries need JavaScript. `Results.report` does the same in Python.

    \b
    Examples:
      fairtk report results -o report.html
      fairtk report fair-qr-study
      fairtk report study --qrels qrels.txt -m EE_D@5 -m "E(nDCG@5)" --baseline bm25
      fairtk report study --qrels qrels.txt -m AWRF@20 -g gender.tsv --target uniform
    """  # noqa: D301 - click reads the backslash
    from fairtk.experiment.run import folder_names, open_results, results_folders
    from fairtk.report import load_sections

    places = results_folders(folder, setting)
    if output == STDOUT and len(places) > 1:
        raise InputError(
            f"{folder}: there are results in {len(places)} folders, each of which has a page; give "
            f"a file for `output`, or one of the folders: {', '.join(map(str, places))}"
        )
    names = folder_names(places, folder)
    first = Path(output)
    files = [output, *(f"{first.with_suffix('')}-{name}{first.suffix}" for name in names[1:])]
    for place, file in zip(places, files, strict=True):
        results = open_results(place, qrels, measures, gold=gold, groups=groups, target=target)
        pages = {
            unquote(name): "" if other == file else quote(Path(other).name)
            for name, other in zip(names, files, strict=True)
        }
        write = functools.partial(
            results.report,
            command=said_command(),
            sections=load_sections(place),
            pages=pages if len(pages) > 1 else {},
            **options,
        )
        echo_file(write, file)
        if file != STDOUT:
            click.echo(f"Report: {file}")
