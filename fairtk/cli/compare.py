"""``fairtk compare``: compare runs with a baseline."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from fairtk.cli.options import FILE_OR_NAME, page_option, printing_options
from fairtk.cli.output import command_line, echo, show
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
              help="Compare with this run: a file, or the name of a run in tables.  [default: the "
              "first run]")  # fmt: skip
@click.option("--margin", multiple=True, metavar="[MEASURE=]NUMBER",
              help="Also test for non-inferiority and equivalence within this margin. Repeatable, "
              "one per measure.")  # fmt: skip
@click.option("--difference", type=float,
              help="Instead of comparing, print the number of queries needed to detect a "
              "difference of this size with 1, 10, 100 and 1000 samples.")  # fmt: skip
@click.option("--digits", type=click.IntRange(min=1), default=4, show_default=True,
              help="Decimals in tables (not in csv and json).")  # fmt: skip
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

    QRELS, RUNS and the measures are as in `fairtk evaluate`. Means and tests use the n queries for
    which a measure is defined in every run. Each difference from the baseline has a confidence
    interval. The tests are two-sided: Student's t and randomization (sign flips, exact for up to
    20 queries) test the mean, Wilcoxon's signed ranks the pseudomedian, whose interval is then
    printed. `fairtk.compare` does the same in Python.

    LaTeX and Markdown are a table for a paper, runs by measures. The best value is bold, the second
    underlined. Daggers mark runs that are significantly better or worse than --baseline; without
    --baseline, letters name the runs that a run is significantly better than.

    With --margin, p_not_worse and p_equivalent are the p-values of non-inferiority and equivalence
    (one and two one-sided t-tests). With --levels, error_queries is the standard error with
    infinitely many samples, and error_samples the standard error for these queries alone, with the
    interval low_samples to high_samples. Samples with the same number are paired between runs.

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
            raise InputError("`baseline` must be one of the runs with `answers`")
        runs = (baseline, *runs)
    with to_stderr():
        comparison = compare(qrels, runs, baseline=baseline, margin=_margin(margin), **options)
        frame = comparison.table
        if difference is not None:
            frame = comparison.queries_needed(difference, power=power)
    if page is not None:
        test = {name: comparison.settings[name] for name in ("test", "correction")}
        comparison.report(page, baseline=comparison.baseline, command=command_line(), **test)
        click.echo(f"Page: {page}", err=True)
    text = ""
    if difference is not None:
        if margin:
            click.echo("Note: --margin has no effect with --difference.", err=True)
        caption = (
            f"Queries for a paired t-test to detect a difference of {difference:g} from "
            f"{comparison.baseline} with power {power:.0%}; deviation: standard deviation of the "
            "true differences over queries."
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
    """Return whether a baseline is a file that is not among the runs."""
    from fairtk.experiment.evaluate_runs import unique_names

    if baseline in runs:
        return False
    if Path(baseline).is_file():
        return True
    names = unique_names(runs)
    if baseline in names:
        return False
    raise NotFoundError("baseline", baseline, names)


def _margin(texts: tuple[str, ...]) -> float | dict[str, float] | None:
    """Return one margin for all measures, or margins by measure."""
    parts = [text.rpartition("=") for text in texts]
    for text, (_, _, number) in zip(texts, parts, strict=True):
        try:
            float(number)
        except ValueError:
            raise InputError(
                f"`margin` must be a number or MEASURE=number, e.g. EE_D@5=0.02, got {text!r}"
            ) from None
    if [measure for measure, *_ in parts] == [""]:
        return float(parts[0][2])
    if any(not measure for measure, *_ in parts):
        raise InputError("several `margin` require a measure each, `margin=MEASURE=number`")
    return {measure: float(number) for measure, _, number in parts} or None
