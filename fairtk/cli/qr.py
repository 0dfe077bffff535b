"""``fairtk qr``: the study of FAIR-QR."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import click

from fairtk.cli.options import ModelOption, format_option, paying_options, study_options


@click.command("qr")
@click.argument("source", metavar="CONFIG|FOLDER|DATASET")
@click.option("-o", "--output", metavar="DIR", help="Where results go.  [default: fair-qr-study]")
@study_options
@click.option("-a", "--attribute", "attributes", multiple=True,
              help="gender, geography, another dimension of the track, or dimensions crossed by "
              "'*'. Repeatable.  [default: gender, geography]")  # fmt: skip
@click.option("-s", "--system", "systems", multiple=True,
              help="A system to compare; BM25 always is. Repeatable.  [default: all]")  # fmt: skip
@click.option("--llm", "model", cls=ModelOption, use="refinement", default_text="keyword")
@paying_options
@click.option("--split", type=click.Choice(["train", "eval"]), help="The topics of a FOLDER.")
@click.option("--variations/--no-variations", default=True, show_default=True,
              help="Vary settings of FAIR-QR, too.")  # fmt: skip
@click.option("--tuning/--no-tuning", default=True, show_default=True,
              help="Show each system with settings chosen on other topics, too.")  # fmt: skip
@click.option("--seed", type=int, help="Of folds, training and bootstrap.  [default: 42]")
@format_option
def command(dry_run: bool, status: bool, form: str, **given: Any) -> None:
    """Compare FAIR-QR with BM25, vector search, DLF, DELTR, FA*IR and MMR.

    The baselines other than BM25 come with the plugin fairtk-baselines. FOLDER has the files of
    TREC Fair Ranking 2022 (corpus, metadata, topics); DATASET is an id of theirs, such as
    trec-fair/2022/train/keywords. What was done is kept in the output folder, each query's ranking
    in experiment.sqlite and answers in ledger.sqlite: run the same command again to go on after a
    stop.

    CONFIG is a TOML file; all keys but the first are optional, and options given here win:

    \b
      folder = "wiki"                    # or dataset = "trec-fair/2022/train/keywords"
      output = "study"
      split = "train"                    # of a folder
      attributes = ["gender", "geography"]
      query = "query"                    # or title, title_keywords
      systems = ["bm25", "mmr", "fair-qr", "fair-qr (no re-ranking)"]
      cutoff = 20                        # ranks that are measured
      candidates = 100                   # that rerankers reorder
      folds = 4                          # of the topics, for what is trained or tuned
      seed = 42
      ndcg = "TREC"                      # or trec_eval
      correction = "holm"                # bonferroni, fdr_bh, none
      [bm25]                             # k1, b, num_results
      [fair-qr]                          # settings of FairQR: depth, k, threshold, pool, ...
      prompt = "refine-few-shot"         # or a plugin's; {name = "refine", max_keywords = 10}
      [variations]                       # settings of FairQR to vary, each a list
      max_iterations = [1, 3, 5, 10]
      [tuning.mmr]                       # values of settings to choose from by the product, on
      lambda = [0.3, 0.5, 0.7]           # the folds without a topic; without: all systems
      [options.mmr]                      # settings of the other systems, and those that
                                         # [options."fair-qr + exposure re-ranking"] has alone
      [targets]                          # fixed ones, beside those from judgments: uniform,
      gender = "uniform"                 # shares by group, or a file with group and weight
      [[retriever]]                      # several, the first BM25: kind = bm25, vector or
      kind = "bm25"                      # module:factory; a name, threads, other settings
      [llm]                              # or several [[llm]], each with a name
      backend = "openai"                 # or another kind of --llm
      model = "gpt-4o"                   # and base_url, temperature, concurrency, timeout, ...
      [ledger]                           # path, offline, max_calls, max_cost, prices,
                                         # retry_unusable
      [engine]                           # executor, workers, threads, batch_size

    \b
    Examples:
      fairtk qr my/folder -o study
      fairtk qr study.toml --dry-run
      fairtk qr my/folder --llm openai:gpt-4o --max-calls 500
    """  # noqa: D301 - click reads the backslash
    from fairtk.cli.qr_run import run

    run(SimpleNamespace(**given), dry_run, status, form)
