"""``fairtk compare``: compare runs with a baseline."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from fairtk.cli.options import FILE_OR_NAME, page_option, printing_options
from fairtk.cli.output import command_line, echo, show
from fairtk.cli.signature import signature_command
from fairtk.errors import InputError


@signature_command(
    "Compare run files with a baseline: tests and intervals.",
    {
        "fairtk:evaluate": "qrels runs measures answers gold groups target order parent "
        "ignore_identical_ids cluster checked",
        "fairtk:compare": "baseline test correction queries confidence resamples seed margin "
        "levels",
        "fairtk.experiment:Comparison.queries_needed": "difference power",
    },
)
@click.option("--baseline", type=FILE_OR_NAME, metavar="RUN",
              help="The run to compare with: its file, or its name in the output.  [default: the "
              "first run]")  # fmt: skip
@click.option("--margin", multiple=True, metavar="[MEASURE=]NUMBER",
              help="Also test for non-inferiority and equivalence within this margin. Repeatable: "
              "one per measure.")  # fmt: skip
@click.option("--difference", type=float,
              help="Instead of comparing, print how many queries are needed to detect a difference "
              "of this size with 1, 10, 100 and 1000 samples.")  # fmt: skip
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
    """Compare RUNS with a baseline: differences, confidence intervals and paired tests.

    QRELS, RUNS and the measures are as in `fairtk evaluate`. The output has one row per measure and
    run, with the mean, the difference from the baseline, its confidence interval and a p-value.
    All are over the n queries for which the measure is defined in every run. `fairtk.compare`
    does the same in Python.

    All tests are two-sided. t (Student's t-test) and randomization (sign flips; exact for up to 20
    queries) test the mean difference. wilcoxon (signed ranks) tests the pseudomedian, and the
    interval is then that of the pseudomedian.

    The formats latex and markdown are a table for a paper, with one row per run. The best mean is
    bold, the second best is underlined. Daggers mark runs that are significantly better or worse
    than --baseline. Without --baseline, all pairs are compared, and letters name the runs that a
    run is significantly better than.

    --margin adds p-values: p_not_worse for non-inferiority (a one-sided t-test), p_equivalent for
    equivalence (two one-sided t-tests).

    --cluster is for queries that are not independent: questions of one user, variants or
    translations of a question, turns of a conversation. Intervals and tests are then over the
    clusters. There is no Wilcoxon test.

    --checked is for QRELS that are labels by a model: differences, intervals and p-values are
    corrected by labels of people for some queries, drawn at random.

    For sampled runs, --levels splits the standard error of a difference. error_queries is the part
    from the choice of queries, which remains with infinitely many samples. error_samples is the
    part from sampling, and low_samples to high_samples is the interval for these queries alone.
    Samples with the same number are paired between runs.

    \b
    Examples:
      fairtk compare qrels.txt bm25.run fair.run -m "E(nDCG@5)" -m EE_D@5 --baseline bm25.run
      fairtk compare qrels.txt *.run -m EE_R@5 --test randomization --format latex --output t.tex
      fairtk compare qrels.txt *.run -m EE_R@5 -m EE_D@5 --margin EE_R@5=0.02 --levels
      fairtk compare qrels.txt *.run -m EE_R@5 --cluster user=topics.tsv
      fairtk compare qrels.txt *.run -m EE_R@5 --difference 0.01
      fairtk compare qrels.txt *.run -m EE_R@5 -m EE_D@5 --page page.html
    """  # noqa: D301 - click reads the backslash
    from fairtk.experiment import compare
    from fairtk.report.evaluation_tables import (
        comparison_table,
        plan_table,
        significant_text,
        table_text,
    )

    if baseline is not None and baseline not in runs and Path(baseline).is_file():
        if options["answers"]:
            raise InputError("`baseline` must be one of the runs with `answers`")
        runs = (baseline, *runs)
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


def _margin(texts: tuple[str, ...]) -> float | dict[str, float] | None:
    """Return one margin for all measures, or margins by measure."""
    margins: dict[str, float] = {}
    for text in texts:
        measure, _, number = text.rpartition("=")
        try:
            margins[measure] = float(number)
        except ValueError:
            raise InputError(
                f"`margin` must be a number or MEASURE=number, e.g. EE_D@5=0.02, got {text!r}"
            ) from None
    if "" in margins and len(texts) > 1:
        raise InputError("several `margin` require a measure each, `margin=MEASURE=number`")
    return margins.get("", margins or None)
