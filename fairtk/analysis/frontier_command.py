"""``fairtk frontier``: what a retriever can be made to give, for every alpha."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from fairtk.cli.options import plot_option, printing_options
from fairtk.cli.output import show, wrapped_below
from fairtk.cli.signature import signature_command
from fairtk.errors import InputError
from fairtk.plugins.streams import to_stderr


@signature_command(
    "Sweep alpha over runs: exact curves, areas, equal utility.",
    {
        "fairtk:frontier": "qrels runs x y alphas answers cutoff levels resamples seed",
        "fairtk:evaluate": "gold groups target",
    },
)
@click.option("-x", default="EE_D@5", show_default=True, metavar="MEASURE",
              help="EE_D, EE_R, EE_L, AWRF, E(nDCG@k) or EU.")  # fmt: skip
@click.option("-y", default="EE_R@5", show_default=True, metavar="MEASURE", help="Likewise.")
@click.option("--answers", multiple=True, metavar="[NAME:]ALPHA=FILE",
              help="For EU: a run (.parquet, .tsv, .jsonl) with the columns sample and qanswer, "
              "generated at ALPHA from the run NAME (its file without suffix). "
              "Repeatable.")  # fmt: skip
@plot_option("The curves")
@printing_options
def command(
    runs: tuple[str, ...],
    answers: tuple[str, ...],
    levels: tuple[float, ...],
    plot: str | None,
    form: str,
    output: str | None,
    **options: Any,
) -> None:
    """Sweep alpha over the RUNS of retrievers: one measure against another, with bands.

    Values are exact (no sampling), EU is estimated from answers that are there already. RUNS with
    samples are single points. Printed: the curve with bootstrap intervals over queries, what is
    dominated, the area under each curve, their differences, and the retrievers at equal heights of
    y. Areas and retrievers are compared in pairs, on the same draws of queries.
    `fairtk.frontier` does the same in Python.

    \b
    Examples:
      fairtk frontier qrels.txt bm25.run dense.run --plot frontier.svg
      fairtk frontier qrels.tsv bm25.run -y "EU(utility='rougeL')" --answers 1=a1.parquet
    """  # noqa: D301 - click reads the backslash
    from fairtk.analysis.alpha_sweep import frontier

    with to_stderr():
        by_alpha = _answers(answers, runs)
        curves = frontier(runs=runs, answers=by_alpha, levels=levels or None, **options)
    show(wrapped_below(str(curves)), curves.curve, form, output)
    if plot is not None:
        curves.plot(Path(plot))
        click.echo(f"Figure: {plot}", err=True)


def _answers(texts: tuple[str, ...], runs: tuple[str, ...]) -> dict[str, dict[float, Any]] | None:
    from fairtk.experiment.evaluate_runs import unique_names
    from fairtk.io import read_run

    names = unique_names(list(runs))
    answers: dict[str, dict[float, Any]] = {}
    for text in texts:
        head, sign, file = text.partition("=")
        name, _, number = head.rpartition(":")
        name = name or (names[0] if len(names) == 1 else "")
        try:
            alpha = float(number)
        except ValueError:
            name = ""
        if not sign or name not in names:
            raise InputError(
                f"`answers` must be [NAME:]ALPHA=FILE with NAME one of {names}, got {text!r}"
            )
        answers.setdefault(name, {})[alpha] = read_run(file)
    return answers or None
