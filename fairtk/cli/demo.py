"""``fairtk demo``: the full pipeline without setup."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from fairtk.cli.options import printing_options
from fairtk.cli.output import command_line, show
from fairtk.cli.signature import signature_command
from fairtk.errors import MissingExtraError

FOLDER = Path("fairtk-demo")


@signature_command(
    "Run the full pipeline on the packaged collection and model.",
    {"fairtk.demo.study:run": "n_samples queries"},
)
@click.option("--write/--no-write", default=True, show_default=True,
              help=f"Write a figure and a page to {FOLDER}.")  # fmt: skip
@printing_options
def command(
    n_samples: int, queries: int | None, write: bool, form: str, output: str | None
) -> None:
    """Run BM25, fair sampling and a tiny T5 on the packaged collection.

    Rankings are sampled from a Plackett-Luce policy with several values of alpha (0 is uniform,
    larger is closer to BM25). The packaged model answers from the first five documents of each.
    The table has disparity of exposure (EE_D), exposure of useful documents (EE_R), nDCG and the
    accuracy of the answers (EU). The figure plots EE_D against EU; the page has all rankings and
    answers. No network is needed.
    """
    from fairtk.demo import study
    from fairtk.display import Table
    from fairtk.display.tables import aligned_lines, number_text

    started = time.monotonic()
    scope = "query" if queries is None else f"of at most {queries} queries"
    click.echo(
        f"Demo: 6 policies, {n_samples} rankings for each {scope}, one answer per ranking.\n"
        "Ten rankings for all queries take about half a minute on two cores.",
        err=True,
    )
    results = study.run(n_samples, queries)
    table = study.table_of(results)
    cells = [
        [str(first), *map(number_text, values)]
        for first, *values in table.to_numpy(dtype=object).tolist()
    ]
    heads = ["alpha", *study.HEADS]
    lines = aligned_lines(Table(heads, cells), range(1, len(heads)))
    show([*lines, "", study.NOTE, "", study.summary(table)], table, form, output)
    if write:
        _write(results, study.DESCRIPTION, study.LICENSE)
    click.echo(f"Demo finished in {time.monotonic() - started:.0f} s.\n\n{NEXT}", err=True)


NEXT = """Next, on your own files (TREC format):
  fairtk sample bm25.run -o fair.run --alpha 2 -k 5
  fairtk evaluate qrels.txt bm25.run fair.run -m EE_D@5 -m EE_R@5
  fairtk compare qrels.txt bm25.run fair.run -m EE_R@5 --page page.html"""


def _write(results: Any, description: str, license: str) -> None:
    """Write the figure and the page and print their paths, or the missing extra."""
    from fairtk.display import write_figure

    try:
        figure = results.plot_trade_off(results.measures[0], results.measures[-1])
        FOLDER.mkdir(exist_ok=True)
        write_figure(figure, FOLDER / "demo.svg")
        results.report(
            FOLDER / "demo.html",
            title="fairtk demo",
            description=description,
            license=license,
            command=command_line(),
        )
    except MissingExtraError as error:
        click.echo(f"No figure or page: {error}", err=True)
        return
    click.echo(f"Figure: {FOLDER / 'demo.svg'}\nPage: {FOLDER / 'demo.html'}", err=True)
