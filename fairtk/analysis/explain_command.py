"""``fairtk explain``: break a measure down by group, rank and query."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from fairtk.cli.options import page_option, plot_option, printing_options
from fairtk.cli.output import command_line, echo_frame, show
from fairtk.cli.signature import in_options, signature_command

_PARTS = ("group", "attribute", "rank", "query", "document")


@signature_command(
    "Break a measure down by document, group, rank and query.",
    {
        "fairtk:explain": "qrels run measures qid baseline bands parent",
        "fairtk:evaluate": "groups target order",
    },
)
@click.option("-m", "--measure", "measures", required=True, multiple=True, metavar="MEASURE",
              help="AWRF, GroupEE_L, EE_L or EE_R with a cutoff, e.g. AWRF@20.")  # fmt: skip
@click.option("--by", type=click.Choice(_PARTS),
              help="Print only this table, with all rows and columns; document needs --qid.  "
              "[default: the first rows of all tables; in csv and json one row per query, group "
              "and band]")  # fmt: skip
@plot_option("Also write a figure")
@page_option
@printing_options
def command(
    qrels: str,
    run: str,
    measures: tuple[str, ...],
    qid: str | None,
    baseline: str | None,
    bands: tuple[int, ...],
    parent: str | None,
    groups: tuple[str, ...],
    target: tuple[str, ...],
    order: Any,
    by: str | None,
    plot: str | None,
    page: str | None,
    form: str,
    output: str | None,
) -> None:
    """Show how much each group, rank and query adds to the measure's value for RUN.

    The output has tables of costs by group, rank and query. The cost is 1 - AWRF, 1 - EE_R, or the
    loss itself, and the costs in each table add up to it. EE_L and EE_R are broken down by
    usefulness: useful, other and unjudged documents. With --qid, documents that lack exposure are
    listed first. The site's page on `explain` defines the costs and says
    what they do not show. `fairtk.explain` does the same in Python.

    \b
    Examples:
      fairtk explain qrels.txt bm25.run -m AWRF@20 --groups gender.tsv --target relevance
      fairtk explain qrels.txt fair.run -m AWRF@20 --groups gender.tsv --target uniform \\
        --baseline bm25.run --plot explain.svg
      fairtk explain qrels.txt bm25.run -m EE_L@5 --by query --format csv
      fairtk explain qrels.txt bm25.run -m EE_R@10 --qid 12 --page explain.html
    """  # noqa: D301 - click reads the backslash
    from fairtk.analysis.explanation import explain
    from fairtk.experiment.inputs import (
        GivenGroups,
        complete_measure,
        parse_with,
        prepare_labels,
    )
    from fairtk.io.runs import as_run
    from fairtk.measures.ee import EE_L, EE_R

    measure, *more = measures
    if more:
        text = f"expected one -m/--measure, got {len(measures)}"
        raise click.UsageError(text, click.get_current_context())
    options = GivenGroups.read(groups, target)
    parsed = parse_with(options, measure)
    labels = options.labels = prepare_labels(qrels, None, [parsed])
    parsed = complete_measure(options, parsed)
    by_document = isinstance(parsed, (type(EE_L), type(EE_R)))
    explanation = explain(
        labels,
        as_run(run, "explain", order),
        parsed,
        qid=qid,
        baseline=None if baseline is None else as_run(baseline, "explain", order),
        groups=options.crossed if groups and by_document else None,
        bands=bands or None,
        parent=parent,
    )
    if plot is not None:
        explanation.plot(Path(plot))
        click.echo(f"Figure: {plot}", err=True)
    if page is not None:
        explanation.report(page, command=command_line())
        click.echo(f"Page: {page}", err=True)
    if by is not None:
        echo_frame(form, getattr(explanation, f"by_{by}"), output)
    else:
        text = in_options(str(explanation), click.get_current_context().command)
        show(text, explanation.to_frame(), form, output)
