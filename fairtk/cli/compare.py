"""``fairtk compare``: runs against a baseline."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from fairtk.cli.options import FILE_OR_NAME, page_option, printing_options
from fairtk.cli.output import echo, said_command, show
from fairtk.cli.signature import signature_command
from fairtk.errors import InputError, NotFoundError
from fairtk.plugins.streams import to_stderr


@signature_command(
    "Compare run files with a baseline: paired tests, intervals.",
    {
        "fairtk:evaluate": "qrels runs measures answers gold groups target order",
        "fairtk:compare": "baseline test correction queries confidence resamples seed margin "
        "levels",
        "fairtk.experiment:Comparison.queries_needed": "difference power",
    },
)
@click.option("--baseline", type=FILE_OR_NAME, metavar="RUN",
              help="What the others are compared with: a file, or the name that a run has in "
              "tables.  [default: the first run]")  # fmt: skip
@click.option("--margin", multiple=True, metavar="[MEASURE=]NUMBER",
              help="Also test whether a run is worse by this or more, and whether it differs by it "
              "or more. Repeatable, by measure.")  # fmt: skip
@click.option("--difference", type=float,
              help="Instead: how many queries would find a difference of this size, with 1, 10, "
              "100 and 1000 samples.")  # fmt: skip
@click.option("--digits", type=click.IntRange(min=1), default=4, show_default=True,
              help="Behind the point, in tables that people read.")  # fmt: skip
@page_option
@printing_options
def command(
    qrels: str,
    runs: tuple[str, ...],
    baseline: str | None,
    margin: tuple[str, ...],
    difference: float | None,
    power: float,
    digits: int,
    page: str | None,
    form: str,
    output: str | None,
    **options: Any,
) -> None:
    """Compare RUNS with a baseline: differences, intervals and paired tests.

    QRELS, RUNS and the measures are those of `fairtk evaluate`. Means and tests are over the
    queries for which a measure is defined in every run; n is their number. A difference is that of
    a run from the baseline, with its confidence interval. The tests are two-sided: Student's t and
    randomization (sign flips, exact for up to 20 queries) of the mean, and Wilcoxon's signed ranks
    of the pseudomedian, whose interval is printed then. `fairtk.compare` does the same in Python.

    As LaTeX and Markdown it is a table for a paper, runs by measures: the best is bold, the second
    underlined; daggers say what is significantly better or worse than --baseline, and without one
    letters name the runs that a run is better than.

    With --margin, p_not_worse and p_equivalent are those of non-inferiority and equivalence (one
    and two one-sided t-tests). With --levels, error_queries is what would be left of the error
    with endless samples, error_samples that for these very queries, with the interval low_samples
    to high_samples; samples of two runs are paired by their numbers, as one seed draws them.

    \b
    Examples:
      fairtk compare qrels.txt bm25.run fair.run -m "E(nDCG@5)" -m EE_D@5 --baseline bm25.run
      fairtk compare qrels.txt *.run -m EE_R@5 --test randomization --format latex --output t.tex
      fairtk compare qrels.txt *.run -m EE_R@5 -m EE_D@5 --margin EE_R@5=0.02 --levels
      fairtk compare qrels.txt *.run -m EE_R@5 --difference 0.01
      fairtk compare qrels.txt *.run -m EE_R@5 -m EE_D@5 --page page.html
    """  # noqa: D301 - click reads the backslash
    from fairtk.experiment import compare
    from fairtk.experiment.evaluation_tables import (
        comparison_table,
        plan_table,
        significant_text,
        table_text,
    )

    if baseline is not None and _is_beside(baseline, runs):
        if options["answers"]:
            raise InputError("`baseline` must be one of the runs where `answers` are given")
        runs = (baseline, *runs)
    with to_stderr():
        comparison = compare(qrels, runs, baseline=baseline, margin=_margin(margin), **options)
        frame = comparison.table
        if difference is not None:
            frame = comparison.queries_needed(difference, power=power)
    if page is not None:
        test = {name: comparison.settings[name] for name in ("test", "correction")}
        comparison.report(page, baseline=comparison.baseline, command=said_command(), **test)
        click.echo(f"Page: {page}", err=True)
    text = ""
    if difference is not None:
        if margin:
            click.echo("Note: --margin changes nothing with --difference.", err=True)
        caption = (
            f"Queries with which a paired t-test finds a difference of {difference:g} from "
            f"{comparison.baseline} with a chance of {power:.0%}; deviation: of the true "
            "differences over queries."
        )
        table = plan_table(frame, caption, digits)
    elif form in ("latex", "markdown") and not margin and not options["levels"]:
        paper = {"latex": comparison.to_latex, "markdown": comparison.to_markdown}
        echo(paper[form](digits=digits), output)
        return
    else:
        table, text = comparison_table(comparison, digits), significant_text(comparison)
    show(table_text(table, text), frame if form in ("csv", "json") else table, form, output)


def _is_beside(baseline: str, runs: tuple[str, ...]) -> bool:
    """Return whether a baseline is a file beside the runs, and not one of them."""
    from fairtk.experiment.evaluate_runs import unique_names

    if baseline in runs:
        return False
    if Path(baseline).is_file():
        return True
    names = unique_names(runs)
    if baseline in names:
        return False
    raise NotFoundError("baseline (neither a file nor the name of a run)", baseline, names)


def _margin(texts: tuple[str, ...]) -> float | dict[str, float] | None:
    """Return what `fairtk.compare` takes: a margin for all, or some by measure."""
    parts = [text.rpartition("=") for text in texts]
    for text, (_, _, number) in zip(texts, parts, strict=True):
        try:
            float(number)
        except ValueError:
            raise InputError(
                f"`margin` must be a number, or MEASURE=number, e.g. EE_D@5=0.02; found {text!r}"
            ) from None
    if [measure for measure, *_ in parts] == [""]:
        return float(parts[0][2])
    if any(not measure for measure, *_ in parts):
        raise InputError("`margin` is given for all measures and for one: name the measure of each")
    return {measure: float(number) for measure, _, number in parts} or None
