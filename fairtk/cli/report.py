"""``fairtk report``: results as an HTML page."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import click

from fairtk.cli.output import STDOUT, command_line, echo_file
from fairtk.cli.signature import signature_command
from fairtk.errors import InputError


@signature_command(
    "Write results as an HTML page with tables and figures.",
    {
        "fairtk.experiment:open_results": "folder qrels gold measures groups target chains",
        "fairtk.experiment:export": "setting",
        "fairtk.report.page:page_text": "title baseline test correction cutoff cluster license",
    },
)
@click.option("-o", "--output", default="report.html", show_default=True, metavar="FILE",
              type=click.Path(dir_okay=False, allow_dash=True),
              help="The page to write; an existing file is replaced.")  # fmt: skip
def command(
    folder: str,
    output: str,
    setting: str | None,
    qrels: str | None,
    gold: str | None,
    measures: tuple[str, ...],
    groups: tuple[str, ...],
    target: tuple[str, ...],
    chains: tuple[str, ...],
    **options: Any,
) -> None:
    """Write the results in FOLDER as one HTML page, which works offline.

    FOLDER was written by `Results.save`, or is the output folder of a study, or the save_dir of an
    experiment. A save_dir has rankings and answers, but no values of measures: to show values, give
    --qrels and measures. A study with several attributes or models has one page for each, all
    linked: the first is FILE, the others are next to it.

    The page starts with the trade-off figure and the means. Tests, single queries with rankings and
    answers, definitions, warnings and settings are folded below. Highlighting, sorting and single
    queries need JavaScript. `Results.report` does the same in Python.

    \b
    Examples:
      fairtk report results -o report.html
      fairtk report fair-qr-study
      fairtk report my-experiment --qrels qrels.txt -m EE_D@5 -m "E(nDCG@5)" --baseline bm25
      fairtk report my-experiment --qrels qrels.txt -m AWRF@20 -g gender.tsv --target uniform
    """  # noqa: D301 - click reads the backslash
    from fairtk.experiment.run import folder_names, open_results, results_folders
    from fairtk.report import load_sections

    folders = results_folders(folder, setting)
    if output == STDOUT and len(folders) > 1:
        raise InputError(
            f"{folder}: expected one folder of results, got {len(folders)}; give a file for "
            f"`output`, or one of {', '.join(map(str, folders))}"
        )
    names = folder_names(folders, folder)
    first = Path(output)
    files = [output, *(f"{first.with_suffix('')}-{name}{first.suffix}" for name in names[1:])]
    for path, file in zip(folders, files, strict=True):
        results = open_results(
            path, qrels, measures, gold=gold, groups=groups, target=target, chains=chains
        )
        pages = {
            unquote(name): "" if other == file else quote(Path(other).name)
            for name, other in zip(names, files, strict=True)
        }
        write = functools.partial(
            results.report,
            command=command_line(),
            sections=load_sections(path),
            pages=pages if len(pages) > 1 else {},
            **options,
        )
        echo_file(write, file)
        if file != STDOUT:
            click.echo(f"Report: {file}")
