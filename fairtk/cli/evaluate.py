"""``fairtk evaluate``: measures of run files."""

from __future__ import annotations

import click

from fairtk.cli.group_files import TARGET_HELP
from fairtk.cli.output import format_option

_FILE = click.Path(exists=True, dir_okay=False)


@click.command("evaluate")
@click.argument("qrels", type=_FILE)
@click.argument("runs", type=_FILE, nargs=-1, required=True)
@click.option(
    "-m",
    "--measure",
    "measures",
    multiple=True,
    required=True,
    help='A measure, e.g. -m EE_D@5 -m "E(nDCG@5)"; `fairtk measures` lists them. Repeatable.',
)
@click.option("--per-query", is_flag=True, help="Print the value of each query.")
@format_option
@click.option(
    "--answers",
    type=_FILE,
    multiple=True,
    help="Generated answers (columns qid, sample, qanswer) for EU; one file per run, in order.",
)
@click.option(
    "--gold",
    type=_FILE,
    help="Gold answers (columns qid, gold_answer) for EU, if the qrels have none.",
)
@click.option(
    "--groups",
    type=_FILE,
    multiple=True,
    help="Groups of documents (columns docno, group, weight), for AWRF and other measures that "
    "need groups. Repeatable: an attribute per file, named after it.",
)
@click.option(
    "--target",
    "targets",
    metavar="FILE|uniform|qrels",
    multiple=True,
    help=TARGET_HELP + " Repeatable: each measure takes the first over its attributes.",
)
@click.option(
    "--order",
    type=click.Choice(["auto", "rank", "score"]),
    default="auto",
    show_default=True,
    help="What orders a run: auto refuses runs whose ranks and scores disagree.",
)
def command(
    qrels: str,
    runs: tuple[str, ...],
    measures: tuple[str, ...],
    per_query: bool,
    form: str,
    answers: tuple[str, ...],
    gold: str | None,
    groups: tuple[str, ...],
    targets: tuple[str, ...],
    order: str,
) -> None:
    """Measure RUNS against QRELS.

    QRELS has TREC's columns qid, iteration, docno, label, or is a TSV, JSON lines or Parquet file
    with the named columns qid, docno, label (and gold_answer). A run has TREC's columns qid,
    sample, docno, rank, score, tag: an integer (or Q0, Q1, ...) in the second column is the number
    of the sampled ranking, a constant Q0 means that the run is not sampled. Or it is a TSV, JSON
    lines or Parquet file with named columns, or a list of TREC Fair Ranking 2022 (columns id and
    page_id, or id, seq_no and page_id). All may be gzipped.

    A measure that needs groups and names none gets the attributes of all --groups files, crossed.
    groups='gender' in a measure means the file gender.tsv alone, groups='gender*region' those two
    crossed. EE_D, EE_R and EE_L get groups only by name. A measure that needs a target and names
    none gets --target.

    Means are over the queries for which a measure is defined; where that is not all of them, their
    number stands behind the mean.

    \b
    Examples:
      fairtk evaluate qrels.txt fair.run.gz bm25.run -m EE_D@5 -m EE_R@5 -m "E(nDCG@5)"
      fairtk evaluate qrels.tsv fair.run -m "EU(utility='rougeL')" --answers answers.jsonl
      fairtk evaluate qrels.txt bm25.run --groups gender.tsv --target qrels -m AWRF@20
      fairtk evaluate qrels.txt bm25.run --groups gender.tsv --groups region.tsv --target uniform \\
        -m AWRF@20 -m "AWRF(groups='gender')@20" -m "EE_L(groups='gender')@20"
    """  # noqa: D301 - click reads the backslash
    from fairtk.cli.evaluation import evaluate
    from fairtk.cli.report import echo_means, echo_queries

    values = evaluate(qrels, runs, measures, answers, gold, order, groups, targets)
    if per_query:
        echo_queries(values, form)
        if form == "table":
            click.echo()
    if form == "table" or not per_query:
        echo_means(values, form)
