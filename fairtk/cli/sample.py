"""``fairtk sample``: fair rankings drawn from a run of any retriever."""

from __future__ import annotations

from typing import Any

import click

from fairtk.cli.options import (
    FILE,
    FILE_OR_NAME,
    alpha_option,
    cutoff_option,
    order_option,
    samples_option,
)
from fairtk.cli.output import STDOUT, echo_file
from fairtk.errors import InputError
from fairtk.plugins import to_stderr

_SCORES = "scores"


@click.command("sample", short_help="Draw fair rankings from the run of any retriever.")
@click.argument("run", type=FILE)
@click.option("-o", "--output", metavar="FILE", required=True,
              type=click.Path(dir_okay=False, allow_dash=True),
              help="The sampled run: TREC's six columns, or .parquet with all columns; .gz "
              "packs.")  # fmt: skip
@alpha_option("Exponent on the scores: 0 is uniform, larger is closer to RUN.  [default: 1]")
@click.option("--target-disparity", type=float, metavar="D",
              help="Instead of alpha: EE_D at the cutoff, above 0 and up to 1 "
              "(RUN itself).")  # fmt: skip
@click.option("--max-relevance-loss", type=float, metavar="SHARE",
              help="Instead of alpha: how much of RUN's nDCG at the cutoff may be lost, e.g. 0.05; "
              "needs --qrels.")  # fmt: skip
@click.option("--qrels", type=FILE_OR_NAME, metavar="FILE|DATASET|scores",
              help="What is relevant, for --max-relevance-loss; `scores` trusts those of "
              "RUN.")  # fmt: skip
@samples_option("Rankings per query.", default=100)
@cutoff_option("Documents per ranking.", default=None)
@click.option("--seed", type=int, default=42, show_default=True,
              help="Of the draws; those of a query depend on it and on the query's id "
              "alone.")  # fmt: skip
@click.option("--method", type=click.Choice(["independent", "stratified"]), default="independent",
              show_default=True, help="stratified: means over samples vary less.")  # fmt: skip
@order_option
def command(
    run: str,
    output: str,
    qrels: str | None,
    samples: int,
    order: Any,
    max_relevance_loss: float | None,
    **options: Any,
) -> None:
    """Draw fair rankings from RUN, the run file of any retriever, by a Plackett-Luce policy.

    Scores of each query are scaled to [1, 2], raised to alpha, and used as log-weights: scores may
    be negative, cosines, or of any scale. A run file of BM25, a dense retriever or a reranker will
    do, with one ranking per query; give it as many documents as may be shown to a reader, as what
    RUN lacks is never drawn. With --target-disparity or --max-relevance-loss alpha is found for
    each query, from exact values. `fairtk.FairSampler` does the same in Python.

    \b
    Examples:
      fairtk sample bm25.run -o fair.run --alpha 2 -n 100 -k 5 --seed 42
      fairtk sample dense.run -o fair.run.gz --target-disparity 0.5 -k 5
      fairtk sample dense.run -o fair.run --max-relevance-loss 0.05 --qrels qrels.txt -k 5
    """  # noqa: D301 - click reads the backslash
    from fairtk.analysis import as_labels
    from fairtk.io import read_run, write_run
    from fairtk.transformers import FairSampler

    if (qrels is None) != (max_relevance_loss is None):
        raise InputError(
            "--max-relevance-loss and --qrels go together: --qrels names labels, or is `scores` to "
            "trust the scores of the run"
        )
    with to_stderr():
        relevance = qrels if qrels in (None, _SCORES) else as_labels(qrels, None, []).frame
        sampler = FairSampler(
            n_samples=samples,
            max_relevance_loss=max_relevance_loss,
            relevance=relevance,
            **options,
        )
        drawn = sampler(read_run(run, order=order))
    echo_file(lambda path: write_run(drawn, path), output)
    if output != STDOUT:
        queries = drawn["qid"].nunique()
        click.echo(f"{output}: {samples} rankings per query, queries: {queries}", err=True)
