"""``fairtk demo``: the full pipeline without setup."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from fairtk.cli.options import printing_options
from fairtk.cli.output import command_line, frame_lines, show
from fairtk.cli.signature import signature_command
from fairtk.errors import MissingExtraError
from fairtk.wording import count_text

FOLDER = Path("fairtk-demo")


@signature_command(
    "Run a full pipeline on packaged data, without setup.",
    {"fairtk.demo.study:run": "n_samples queries"},
)
@click.option("--write/--no-write", default=True, show_default=True,
              help=f"Write a figure and a page to the folder {FOLDER}.")  # fmt: skip
@printing_options
def command(
    n_samples: int, queries: int | None, write: bool, form: str, output: str | None
) -> None:
    """Run BM25, fair sampling and a tiny T5 on a collection that comes with fairtk.

    The collection and the model are part of the package. Rankings are sampled for several values of
    alpha: 0 is uniform (all orders are equally likely), and a larger alpha is closer to BM25. The
    model answers each query from the first five documents of each ranking.

    The table has the disparity of exposure (EE_D), the exposure of useful documents (EE_R), nDCG
    and the accuracy of the answers (EU). The figure plots EE_D against EU. The page has all
    rankings and answers.

    \b
    Examples:
      fairtk demo
      fairtk demo --queries 10 --samples 4
    """  # noqa: D301 - click reads the backslash
    from fairtk.demo import study

    started = time.monotonic()
    scope = "query" if queries is None else f"of at most {count_text(queries, 'query', 'queries')}"
    click.echo(
        f"Demo: 6 policies, {count_text(n_samples, 'ranking')} for each {scope}, one answer per "
        "ranking.\n"
        "Ten rankings for all queries take about half a minute on two cores.",
        err=True,
    )
    results = study.run(n_samples, queries)
    table = study.table_of(results)
    lines = frame_lines(table.set_axis(["alpha", *study.HEADS], axis="columns"))
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
