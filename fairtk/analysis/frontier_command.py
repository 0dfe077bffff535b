"""``fairtk frontier``: exact trade-off curves over alpha."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from fairtk.cli.options import page_option, plot_option, printing_options
from fairtk.cli.output import command_line, show, wrapped_below
from fairtk.cli.signature import signature_command
from fairtk.errors import InputError
from fairtk.wording import format_list


@signature_command(
    "Compute trade-off curves over alpha, areas and differences.",
    {
        "fairtk:frontier": "qrels runs x y alphas answers cutoff levels resamples seed",
        "fairtk:evaluate": "gold groups target",
    },
)
@click.option("-x", default="EE_D@5", show_default=True, metavar="MEASURE",
              help="EE_D, EE_R, EE_L, GroupEE_L, AWRF, E(nDCG@k) or EU.")  # fmt: skip
@click.option("-y", default="EE_R@5", show_default=True, metavar="MEASURE", help="As for -x.")
@click.option("--answers", multiple=True, metavar="[NAME:]ALPHA=FILE",
              help="For EU: answers generated with ALPHA from the run NAME (the file name without "
              "suffix), a run (.parquet, .tsv, .jsonl) with the columns sample and qanswer. "
              "Repeatable.")  # fmt: skip
@plot_option("Also write a figure of the curves")
@page_option
@printing_options
def command(
    runs: tuple[str, ...],
    answers: tuple[str, ...],
    levels: tuple[float, ...],
    plot: str | None,
    page: str | None,
    form: str,
    output: str | None,
    **options: Any,
) -> None:
    """Compute the trade-off of two measures for RUNS of retrievers, over the alpha of the sampler.

    QRELS and RUNS are as in `fairtk evaluate`. Values are exact, so no samples are needed. EU is
    estimated from existing answers. A sampled run is a single point.

    The output has the curve of each retriever, with intervals over queries and marks of dominated
    points, and the area under each curve. For EE_D and EE_R it also has the largest EE_R of any
    policy with the same EE_D in each query (bound), and the EE_R of the best policy for the scores.
    Pairs of retrievers are compared by their areas, and by x at equal y. `fairtk.frontier` does the
    same in Python.

    \b
    Examples:
      fairtk frontier qrels.txt bm25.run dense.run --page frontier.html
      fairtk frontier qrels.tsv bm25.run -y "EU(utility='rougeL')" --answers 1=a1.parquet
    """  # noqa: D301 - click reads the backslash
    from fairtk.analysis.alpha_sweep import frontier

    by_alpha = _answers(answers, runs)
    curves = frontier(runs=runs, answers=by_alpha, levels=levels or None, **options)
    show(wrapped_below(str(curves)), curves.curve, form, output)
    if plot is not None:
        curves.plot(Path(plot))
        click.echo(f"Figure: {plot}", err=True)
    if page is not None:
        curves.report(page, command=command_line())
        click.echo(f"Page: {page}", err=True)


def _answers(texts: tuple[str, ...], runs: tuple[str, ...]) -> dict[str, dict[float, Any]] | None:
    from fairtk.experiment.inputs import unique_names
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
                f"`answers` must be [NAME:]ALPHA=FILE with NAME one of {format_list(names)}, got "
                f"{text!r}"
            )
        answers.setdefault(name, {})[alpha] = read_run(file)
    return answers or None
