"""``fairtk compare``: runs against a baseline."""

from __future__ import annotations

from typing import Any

import click

from fairtk.cli.options import (
    FILE,
    draws_options,
    measuring_options,
    only_results_on_stdout,
    printing_options,
    test_options,
)
from fairtk.cli.output import TABLE, echo
from fairtk.errors import InputError


@click.command("compare")
@measuring_options
@click.option("--baseline", type=FILE, metavar="RUN",
              help="What the others are compared with.  [default: the first run]")  # fmt: skip
@test_options("runs")
@click.option("--queries", type=click.Choice(["all", "common"]), default="all", show_default=True,
              help="all: a query that a run lacks counts with the worst value; common: those that "
              "all runs have.")  # fmt: skip
@click.option("--confidence", type=click.FloatRange(0, 1, min_open=True, max_open=True),
              default=0.95, show_default=True, help="Of the intervals.")  # fmt: skip
@draws_options("Of tests that draw.", default=10_000)
@printing_options
def command(
    qrels: str,
    runs: tuple[str, ...],
    measures: tuple[str, ...],
    baseline: str | None,
    form: str,
    output: str | None,
    **options: Any,
) -> None:
    """Compare RUNS with a baseline: differences, intervals and paired tests.

    QRELS, RUNS and the measures are those of `fairtk evaluate`. Means and tests are over the
    queries for which a measure is defined in every run; n is their number. A difference is that of
    a run from the baseline, with its confidence interval. The tests are two-sided: Student's t,
    Wilcoxon's signed ranks, randomization (sign flips, exact for up to 20 queries that differ) and
    the studentized bootstrap. `fairtk.compare` does the same in Python.

    \b
    Examples:
      fairtk compare qrels.txt bm25.run fair.run -m "E(nDCG@5)" -m EE_D@5 --baseline bm25.run
      fairtk compare qrels.txt *.run -m EE_R@5 --test randomization --format latex --output t.tex
    """  # noqa: D301 - click reads the backslash
    from fairtk.cli.values import comparison_table, comparison_text, rendered
    from fairtk.evaluation import compare
    from fairtk.files.renderings import TEXTS

    if baseline is not None and baseline not in runs:
        if options["answers"]:
            raise InputError("--baseline must be one of the runs where --answers are given")
        runs = (baseline, *runs)
    with only_results_on_stdout():
        found = compare(qrels, runs, measures, baseline=baseline, **options)
    if form in TEXTS:
        echo(TEXTS[form](comparison_table(found)), output)
    else:
        echo(comparison_text(found) if form == TABLE else rendered(found.table, form), output)
