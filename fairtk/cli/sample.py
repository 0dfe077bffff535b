"""``fairtk sample``: sample fair rankings from a run."""

from __future__ import annotations

from typing import Any

import click

from fairtk.cli.options import FILE, FILE_OR_NAME
from fairtk.cli.output import STDOUT, echo_file
from fairtk.cli.signature import signature_command
from fairtk.wording import count_text

_SCORES = "scores"


@signature_command(
    "Sample fair rankings from the run of any retriever.",
    {
        "fairtk:FairSampler": "alpha target_disparity max_relevance_loss relevance n_samples "
        "cutoff seed method",
        "fairtk:evaluate": "order",
    },
)
@click.argument("run", type=FILE)
@click.option("-o", "--output", metavar="FILE", required=True,
              type=click.Path(dir_okay=False, allow_dash=True),
              help="The file of sampled rankings: a TREC run, or .parquet with all columns; .gz "
              "compresses.")  # fmt: skip
@click.option("--qrels", "relevance", type=FILE_OR_NAME, metavar="FILE|DATASET|scores",
              help="Relevance labels for --max-relevance-loss, or `scores` for the scores of "
              "RUN.")  # fmt: skip
def command(
    run: str,
    output: str,
    relevance: str | None,
    order: Any,
    **options: Any,
) -> None:
    """Sample rankings from RUN, so that documents with similar scores get similar exposure.

    RUN has one ranking per query, from BM25, a dense retriever or a reranker. Only its documents
    can be drawn, so it should have all documents that users may see. `fairtk.FairSampler` does the
    same in Python.

    Rankings are drawn from a Plackett-Luce policy. The scores of each query are scaled to [1, 2],
    raised to the power of alpha, and used as log-weights, so they may have any scale or sign.
    Instead of alpha, give a goal: --target-disparity or --max-relevance-loss. Alpha is then
    computed for each query, from exact values.

    \b
    Examples:
      fairtk sample bm25.run -o fair.run --alpha 2 -n 100 -k 5 --seed 42
      fairtk sample dense.run -o fair.run.gz --target-disparity 0.5 -k 5
      fairtk sample dense.run -o fair.run --max-relevance-loss 0.05 --qrels qrels.txt -k 5
    """  # noqa: D301 - click reads the backslash
    from fairtk.experiment.inputs import prepare_labels
    from fairtk.io import read_run, write_run
    from fairtk.transformers import FairSampler

    labels: Any = relevance
    if relevance not in (None, _SCORES):
        labels = prepare_labels(relevance, None, []).frame
    sampler = FairSampler(relevance=labels, **options)
    drawn = sampler(read_run(run, order=order))
    echo_file(lambda path: write_run(drawn, path), output)
    if output != STDOUT:
        rankings = count_text(sampler.n_samples, "ranking")
        queries = count_text(drawn["qid"].nunique(), "query", "queries")
        click.echo(f"{output}: {rankings} for each of {queries}", err=True)
