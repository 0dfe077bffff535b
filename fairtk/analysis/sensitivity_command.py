"""``fairtk sensitivity``: the order of runs under other settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from fairtk.cli.options import page_option, plot_option, printing_options
from fairtk.cli.output import command_line, show, wrapped_below
from fairtk.cli.signature import signature_command


@signature_command(
    "Check whether other settings change the order of runs.",
    {
        "fairtk:evaluate": "qrels runs measures answers gold groups target order",
        "fairtk:sensitivity": "vary cutoffs",
    },
)
@plot_option("Also write a heat map of tau")
@page_option
@printing_options
def command(
    plot: str | None, page: str | None, form: str, output: str | None, **options: Any
) -> None:
    """Check whether the order of RUNS changes with other settings of the measures.

    QRELS, RUNS and the measures are as in `fairtk evaluate`. One setting is changed at a time: the
    browsing model, its patience, the cutoff, the target, the handling of documents without a group,
    the bounds, the base of the logarithm, or the labels of unjudged documents. For each setting,
    the output has the winner (the run with the best mean), whether it changes, and Kendall's tau
    with the original order of runs. `fairtk.sensitivity` does the same in Python.

    \b
    Examples:
      fairtk sensitivity qrels.txt bm25.run fair.run -m EE_R@5 -m EE_D@5 --page order.html
      fairtk sensitivity qrels.txt *.run -m AWRF@20 --groups gender.tsv --target uniform
    """  # noqa: D301 - click reads the backslash
    from fairtk.analysis.choices import sensitivity

    outcome = sensitivity(**options)
    show(wrapped_below(str(outcome)), outcome.table, form, output)
    if plot is not None:
        outcome.plot(Path(plot))
        click.echo(f"Figure: {plot}", err=True)
    if page is not None:
        outcome.report(page, command=command_line())
        click.echo(f"Page: {page}", err=True)
