"""``fairtk evaluate``: measure run files."""

from __future__ import annotations

from typing import Any

import click

from fairtk.cli.options import FILE, page_option, printing_options
from fairtk.cli.output import command_line, show
from fairtk.cli.signature import signature_command
from fairtk.plugins.streams import to_stderr


@signature_command(
    "Measure run files against qrels.",
    {"fairtk:evaluate": "qrels runs measures answers gold groups target order"},
)
@click.argument("runs", type=FILE, nargs=-1, metavar="RUNS...")
@click.option(
    "--no-qrels",
    is_flag=True,
    help="All files are RUNS; for measures that need no labels (EE_D, AWRF).",
)
@click.option("--per-query", is_flag=True, help="Print the value of each query.")
@page_option
@printing_options
def command(
    qrels: str,
    runs: tuple[str, ...],
    no_qrels: bool,
    per_query: bool,
    page: str | None,
    form: str,
    output: str | None,
    **options: Any,
) -> None:
    """Measure RUNS against QRELS.

    QRELS is a TREC file (qid, iteration, docno, label), a TSV, JSON lines or Parquet file with the
    named columns qid, docno, label (and gold_answer), or the id of a dataset. A run is a TREC file
    (qid, sample, docno, rank, score, tag), a TSV, JSON lines or Parquet file with named columns, or
    a TREC Fair Ranking 2022 file (id and page_id, or id, seq_no and page_id). In a TREC run, an
    integer (or Q0, Q1, ...) in the second column is the number of the sampled ranking; a constant
    Q0 means that the run is not sampled. Files may be gzipped; - is standard input.

    A measure that needs groups but names none uses the attributes of all --groups files, crossed.
    groups='gender' in a measure is the file gender.tsv alone, groups='gender*region' crosses two.
    EE_D, EE_R and EE_L use groups only if they name them. A measure that needs a target but names
    none uses --target.

    Means are over the queries for which a measure is defined; if it is undefined for some, the
    number of defined queries follows the mean. `fairtk.evaluate` does the same in Python.

    EE_D, and AWRF with a target that needs no labels, work with --no-qrels. The number n of
    documents per query is then that of each run, so normalized values are not comparable with
    values measured with labels.

    \b
    Examples:
      fairtk evaluate qrels.txt fair.run.gz bm25.run -m EE_D@5 -m EE_R@5 -m "E(nDCG@5)"
      fairtk evaluate qrels.tsv fair.run -m "EU(utility='rougeL')" --answers answers.jsonl
      fairtk evaluate qrels.txt bm25.run -g gender.tsv --target relevance -m AWRF@20
      fairtk evaluate qrels.txt bm25.run --groups gender.tsv --groups region.tsv --target uniform \\
        -m AWRF@20 -m "AWRF(groups='gender')@20" -m "EE_L(groups='gender')@20"
      fairtk evaluate --no-qrels fair.run bm25.run -m EE_D@5
      fairtk evaluate qrels.txt fair.run bm25.run -m EE_D@5 -m EE_R@5 --page page.html
    """  # noqa: D301 - click reads the backslash
    from fairtk.experiment.compare_runs import evaluate, evaluate_runs
    from fairtk.experiment.evaluation_tables import means_table, means_text, queries_text

    if not (runs or no_qrels):
        raise click.UsageError("Missing argument 'RUNS...'.", click.get_current_context())
    labels, files = (None, (qrels, *runs)) if no_qrels else (qrels, runs)
    with to_stderr():
        # a page shows the rankings, which nothing else here needs
        results = (evaluate_runs if page is None else evaluate)(labels, files, **options)
    text = means_text(results)
    if per_query:
        text = f"{queries_text(results)}\n\n{text}"
        table: Any = results.per_query.rename(columns={"system": "run"})
    elif form in ("csv", "json"):
        counts = results.counts.assign(queries=lambda counts: counts["n"] + counts["undefined"])
        counts = counts.rename(columns={"system": "run", "n": "defined"})
        table = counts[["run", "measure", "mean", "defined", "queries"]]
    else:
        table = means_table(results)
    show(text, table, form, output)
    if page is not None:
        results.report(page, command=command_line())
        click.echo(f"Page: {page}", err=True)
