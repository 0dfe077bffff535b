"""``fairtk evaluate``: measure run files."""

from __future__ import annotations

from typing import Any

import click

from fairtk.cli.options import FILE, page_option, printing_options
from fairtk.cli.output import command_line, show
from fairtk.cli.signature import signature_command


@signature_command(
    "Evaluate run files against qrels.",
    {
        "fairtk:evaluate": "qrels runs measures answers gold groups target order parent "
        "ignore_identical_ids cluster checked"
    },
)
@click.argument("runs", type=FILE, nargs=-1, metavar="RUNS...")
@click.option(
    "--no-qrels",
    is_flag=True,
    help="There is no QRELS: all files are RUNS. For measures that need no labels (EE_D, AWRF).",
)
@click.option("--per-query", is_flag=True, help="Also print the value of each query.")
@page_option
@printing_options
def command(
    qrels: str,
    runs: tuple[str, ...],
    no_qrels: bool,
    per_query: bool,
    page: str | None,
    cluster: str | None,
    form: str,
    output: str | None,
    **options: Any,
) -> None:
    """Measure RUNS against QRELS, and print the mean of each measure.

    QRELS has the relevance labels. It is a TREC file (qid, iteration, docno, label), a file with
    the named columns qid, docno and label (TSV, JSON lines or Parquet), or the id of a dataset. For
    EU, it may have a column gold_answer.

    A run is a TREC file (qid, Q0, docno, rank, score, tag), a file with named columns, or a file of
    TREC Fair Ranking 2022 with its header (id and page_id, or id, seq_no and page_id). Name the
    format of others, such as runs of MS MARCO, with --run-format. In a TREC file of sampled
    rankings, the second column has the number of the sample (0, 1, ... or Q0, Q1, ...). If it is Q0
    in all rows, the run is not sampled. Files may be gzipped, and - is standard input.

    Groups: measures that need groups use the attributes of all --groups files, crossed, unless they
    name groups: groups='gender' is the file gender.tsv alone, and groups='gender*region' crosses
    two. CreditGap uses groups only if it names them. Measures that need a target use --target,
    unless they name one: target='uniform' or target='population'.

    Undefined values: a mean is over the queries for which the measure is defined. If it is
    undefined for some, the number of defined queries follows the mean.

    Without labels: --no-qrels works for EE_D, and for AWRF with a target that needs no labels. n,
    the number of documents per query, then counts only the documents of each run, so normalized
    values are not comparable with values computed with labels.

    Labels by a model: QRELS may be labels by a model for all queries, and --checked labels by
    people for some of them, drawn at random. The output then has the means with both labels, and
    the corrected mean with its interval.

    `fairtk.evaluate` does the same in Python.

    \b
    Examples:
      fairtk evaluate qrels.txt bm25.run fair.run.gz -m EE_D@5 -m EE_R@5 -m "E(nDCG@5)"
      fairtk evaluate qrels.tsv fair.run -m "EU(utility='rougeL')" --answers answers.jsonl
      fairtk evaluate qrels.txt bm25.run -g gender.tsv --target relevance -m AWRF@20
      fairtk evaluate qrels.txt bm25.run --groups gender.tsv --groups region.tsv --target uniform \\
        -m AWRF@20 -m "AWRF(groups='gender')@20" -m GroupEE_L@20
      fairtk evaluate --no-qrels fair.run bm25.run -m EE_D@5
      fairtk evaluate qrels.txt fair.run bm25.run -m EE_D@5 -m EE_R@5 --page page.html
    """  # noqa: D301 - click reads the backslash
    from fairtk.experiment.compare_runs import evaluate, evaluate_runs
    from fairtk.remarks import emit
    from fairtk.report.evaluation_tables import means_table, means_text, queries_text

    if not (runs or no_qrels):
        raise click.UsageError("Missing argument 'RUNS...'.", click.get_current_context())
    labels, files = (None, (qrels, *runs)) if no_qrels else (qrels, runs)
    # a page shows the rankings, and their columns may have clusters; nothing else needs them
    if page is None and cluster is None:
        results = evaluate_runs(labels, files, **options)
        emit(results.remarks)
    else:
        results = evaluate(labels, files, cluster=cluster, **options)
    text = means_text(results)
    if per_query:
        text = f"{queries_text(results)}\n\n{text}"
        table: Any = results.per_query.rename(columns={"system": "run"})
    elif form in ("csv", "json") and results.checked is not None:
        table = results.corrected.rename(columns={"system": "run"})
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
