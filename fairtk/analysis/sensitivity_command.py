"""``fairtk sensitivity``: does the order of systems hold under other choices?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from fairtk.cli.options import plot_option, printing_options
from fairtk.cli.output import show, wrapped_below
from fairtk.cli.signature import signature_command
from fairtk.plugins.streams import to_stderr


@signature_command(
    "Check whether other choices change the order of runs.",
    {
        "fairtk:evaluate": "qrels runs measures answers gold groups target order",
        "fairtk:sensitivity": "vary cutoffs",
    },
)
@plot_option("A heat map of tau")
@printing_options
def command(plot: str | None, form: str, output: str | None, **options: Any) -> None:
    """Say whether the order of RUNS holds under other choices than those made in the measures.

    QRELS, RUNS and the measures are those of `fairtk evaluate`. Varied are the browsing model, its
    patience, the cutoff, the target, how documents without a group are handled, bounds, the base
    of the logarithm, and what documents without a label are taken for. For each: Kendall's tau of
    the systems' order with that of the measures as asked, who wins, and whether that is another
    system. `fairtk.sensitivity` does the same in Python.

    \b
    Examples:
      fairtk sensitivity qrels.txt bm25.run fair.run -m EE_R@5 -m EE_D@5 --plot heat.svg
      fairtk sensitivity qrels.txt *.run -m AWRF@20 --groups gender.tsv --target uniform
    """  # noqa: D301 - click reads the backslash
    from fairtk.analysis.choices import sensitivity

    with to_stderr():
        outcome = sensitivity(**options)
    show(wrapped_below(str(outcome)), outcome.table, form, output)
    if plot is not None:
        outcome.plot(Path(plot))
        click.echo(f"Figure: {plot}", err=True)
