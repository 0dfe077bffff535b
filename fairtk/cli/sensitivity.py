"""``fairtk sensitivity``: does the order of systems hold under other choices?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from fairtk.cli.options import measuring_options, plot_option, printing_options
from fairtk.cli.output import TABLE, echo, echo_frame
from fairtk.plugins import to_stderr

CHOICES = (
    "browsing", "patience", "cutoff", "target", "unlabeled", "bounds", "base", "judgments",
)  # fmt: skip
"""`fairtk.analysis.CHOICES`, whose import would slow down ``fairtk --help``."""


@click.command("sensitivity", short_help="Check whether other choices change the order of runs.")
@measuring_options
@click.option("--vary", type=click.Choice(CHOICES), multiple=True,
              help="What is chosen otherwise. Repeatable.  [default: all]")  # fmt: skip
@click.option("-k", "--cutoff", "cutoffs", type=click.IntRange(min=1), multiple=True,
              help="A cutoff that is tried. Repeatable.  "
              "[default: 1, 3, 5, 10, 20, 50]")  # fmt: skip
@plot_option("A heat map of tau")
@printing_options
def command(
    qrels: str,
    runs: tuple[str, ...],
    measures: tuple[str, ...],
    vary: tuple[str, ...],
    cutoffs: tuple[int, ...],
    plot: str | None,
    form: str,
    output: str | None,
    **options: Any,
) -> None:
    """Say whether the order of RUNS holds under other choices than those made in the measures.

    QRELS, RUNS and the measures are those of `fairtk evaluate`. Varied are the browsing model, its
    patience, the cutoff, the target, what becomes of documents without a group, bounds, the base
    of the logarithm, and what documents without a label are taken for. For each: Kendall's tau of
    the systems' order with that of the measures as asked, who wins, and whether that is another
    system. `fairtk.sensitivity` does the same in Python.

    \b
    Examples:
      fairtk sensitivity qrels.txt bm25.run fair.run -m EE_R@5 -m EE_D@5 --plot heat.svg
      fairtk sensitivity qrels.txt *.run -m AWRF@20 --groups gender.tsv --target uniform
    """  # noqa: D301 - click reads the backslash
    from fairtk.analysis.sensitivity import sensitivity

    if vary:
        options["vary"] = vary
    if cutoffs:
        options["cutoffs"] = cutoffs
    with to_stderr():
        outcome = sensitivity(qrels, runs, measures, **options)
    if plot is not None:
        outcome.plot(Path(plot))
    if form != TABLE:
        echo_frame(form, outcome.table, output)
        return
    echo(str(outcome), output)
