"""``fairtk qr``: the study of FAIR-QR."""

from __future__ import annotations

import contextlib
import shlex
import sys
import warnings
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from fairtk.batch import paying_options
from fairtk.cli import echo_frame, format_option, given_options, signature_command
from fairtk.errors import DataWarning, InputError
from fairtk_papers.options import (
    ModelOption,
    command_line,
    engine_options,
    open_ledger,
    say_beginning,
    server_settings,
    study_options,
)
from fairtk_papers.terminal import echo_plan, echo_table, echo_text

if TYPE_CHECKING:
    from fairtk_papers.fair_qr import QrResults

NO_MODEL = (
    "Note: no language model is used: KeywordRefiner adds terms from a table. To use a model, pass "
    "--llm KIND:MODEL, e.g. --llm openai:gpt-4o, or set [llm] in the TOML file."
)


@signature_command(
    "Compare FAIR-QR, which refines queries, with its baselines.",
    {"fairtk_papers.fair_qr:QrSettings": "seed"},
)
@click.argument("source", metavar="CONFIG|FOLDER|DATASET")
@click.option(
    "-o", "--output", metavar="DIR", help="The folder for the results.  [default: fair-qr-study]"
)
@study_options
@click.option("--attribute", "attributes", multiple=True,
              help="gender, geography, another dimension of the track, or dimensions crossed by "
              "'*'. Repeatable.  [default: gender, geography]")  # fmt: skip
@click.option("-s", "--system", "systems", multiple=True,
              help="A system to compare with BM25, e.g. mmr. Repeatable.  "
              "[default: all]")  # fmt: skip
@click.option("-r", "--retriever", "runs", multiple=True, metavar="NAME=RUNFILE",
              help="Your own run, as one more system. Repeatable.")  # fmt: skip
@click.option("--llm", "model", cls=ModelOption, use="refinement", default_text="keyword")
@paying_options
@click.option("--split", type=click.Choice(["train", "eval"]), help="The topics of FOLDER.")
@click.option("--limit", type=click.IntRange(min=1),
              help="The largest number of topics, from the start of the file.")  # fmt: skip
@click.option("--variations/--no-variations", default=True, show_default=True,
              help="Also run FAIR-QR with other settings.")  # fmt: skip
@click.option("--tuning/--no-tuning", default=True, show_default=True,
              help="Also run each system with settings tuned on other topics.")  # fmt: skip
@format_option
def command(
    source: str,
    output: str | None,
    attributes: tuple[str, ...],
    systems: tuple[str, ...],
    runs: tuple[str, ...],
    model: str | None,
    split: str | None,
    limit: int | None,
    variations: bool,
    tuning: bool,
    dry_run: bool,
    status: bool,
    form: str,
    **more: Any,
) -> None:
    """Compare FAIR-QR with BM25, vector search, DLF, DELTR, FA*IR and MMR.

    FAIR-QR asks a language model to refine queries towards groups with too little exposure. All
    baselines other than BM25 need the plugin fairtk-baselines. The output folder gets tables,
    figures and a report. It also has all rankings and answers, in experiment.sqlite: run the same
    command again to continue after a stop.

    FOLDER has the files of TREC Fair Ranking 2022 (corpus, metadata, topics). DATASET is an id such
    as trec-fair/2022/train/keywords.

    CONFIG is a TOML file. Options override it. Only the first of these keys is required:

    \b
      folder = "wiki"                    # or dataset = "trec-fair/2022/train/keywords"
      output = "study"
      split = "train"                    # of a folder
      attributes = ["gender", "geography"]
      query = "query"                    # or title, title_keywords
      limit = 10                         # topics, from the start of the file
      systems = ["bm25", "mmr", "fair-qr", "fair-qr (no re-ranking)"]
      cutoff = 20                        # the ranks to measure
      candidates = 100                   # documents to rerank
      folds = 4                          # of the topics, for training and tuning
      seed = 42
      ndcg = "TREC"                      # or trec_eval
      correction = "holm"                # bonferroni, fdr_bh, none
      [bm25]                             # k1, b, num_results
      [fair-qr]                          # settings of FairQR: depth, k, threshold, pool, ...
      prompt = "refine-few-shot"         # or a plugin's; {name = "refine", max_keywords = 10}
      [variations]                       # settings of FairQR to vary, as lists
      max_iterations = [1, 3, 5, 10]
      [tuning.mmr]                       # values to try; the best by the product on the other
      lambda = [0.3, 0.5, 0.7]           # folds are used (no [tuning]: all systems are tuned)
      [options.mmr]                      # settings of the other systems, and further settings
                                         # of "fair-qr + exposure re-ranking"
      [targets]                          # further targets, one or a list: relevance, uniform,
      gender = ["relevance", "uniform"]  # shares by group, or a file with group and weight. The
                                         # default is relevance+population with a background
                                         # (gender, regions), else relevance
      [[retriever]]                      # one or several, the first BM25: kind = bm25 or
      kind = "bm25"                      # vector; a name, threads, other settings
      [[retriever]]
      name = "mine"                      # your own run (-r mine=runs/mine.run), without FAIR-QR
      run = "runs/mine.run"              # systems or tuning on it
      [llm]                              # or several [[llm]], each with a name
      backend = "openai"                 # or another kind of --llm
      model = "gpt-4o"                   # and base_url, temperature, concurrency, timeout, ...
      [ledger]                           # path, offline, max_calls, max_cost, max_tokens, prices,
                                         # retry_unusable, retry_failed
      [engine]                           # executor, workers, scheduler, threads, batch_size

    \b
    Examples:
      fairtk qr my/folder -o study
      fairtk qr study.toml --dry-run
      fairtk qr my/folder --llm openai:gpt-4o --max-calls 500
      fairtk qr my/folder -r mine=runs/mine.run
    """  # noqa: D301 - click reads the backslash
    from fairtk.display import new_figure
    from fairtk.llm import KeywordRefiner
    from fairtk.plugins import registry
    from fairtk_papers.fair_qr import QrConfiguration, QrStudy
    from fairtk_papers.fair_qr.systems import with_model
    from fairtk_papers.studies import STORE

    configuration = QrConfiguration.from_source(source)
    retrievers = configuration.retrievers or ([{"kind": "bm25"}] if runs else [])
    configuration = configuration.with_changes(
        {
            **given_options("seed"),
            "systems": systems or None,
            "variations": None if variations else {},
            "tuning": None if tuning else {},
        },
        data={"attributes": attributes, "split": split, "limit": limit},
        output=output,
        retrievers=[*retrievers, *map(_run_table, runs)],
        engine=engine_options(configuration.engine, more),
    )
    study = QrStudy.from_configuration(with_model(configuration, model, server_settings(more)))
    if all(isinstance(llm, KeywordRefiner) for llm in study.models.values()):
        click.echo(NO_MODEL, err=True)
    with contextlib.ExitStack() as stack:
        path = study.folder / STORE
        study.ledger = open_ledger(configuration.ledger, more, path, dry_run or status, stack)
        if status:
            echo_frame(form, study.status())
            return
        if dry_run:
            echo_plan(study.plan(), form)
            return
        new_figure((1, 1), "fairtk qr")  # fails now if matplotlib is missing, not after hours
        if not study.settings.systems and not registry.study_systems.names():
            click.echo(
                "Note: BM25 is the only baseline; for others, run pip install "
                "./plugins/fairtk-baselines in a checkout of fairtk.",
                err=True,
            )
        results = study.run(partial(say_beginning, study.folder))
        for text in results.warnings:  # also those of earlier runs and of measures
            if text not in study.issued_warnings:
                warnings.warn(text, DataWarning, stacklevel=2)
        _echo_results(results, form)  # figures take longer than all tables
        page = results.save(study.folder, command=command_line())
    if form == "table":
        click.echo(
            f"Report: {page}\nPage: fairtk report {shlex.quote(str(study.folder))}",
            err=not sys.stdout.isatty(),
        )


def _run_table(text: str) -> dict[str, str]:
    name, _, path = text.partition("=")
    if not (name and path):
        raise InputError(
            f"--retriever must be NAME=RUNFILE, got {text!r}; for vector search, use "
            "[[retriever]] in the TOML file"
        )
    return {"name": name, "run": path}


def _echo_results(results: QrResults, form: str) -> None:
    if form != "table":
        echo_frame(form, results.table)
        return
    from fairtk_papers.fair_qr.report import change_table, comparison, paper_table

    for table, keys in ((comparison(results), 1), (paper_table(results), 4)):
        if table.rows:
            echo_table(table, keys)
            click.echo()
    for attribute in results.attributes_with_fair_qr:
        echo_text(change_table(results, attribute).caption.partition(" Rows:")[0])
    if len(results.missing):
        first = results.missing.iloc[0]
        click.echo(
            f"Warning: {len(results.missing)} results are missing (the first: {first['system']} "
            f"for topic {first['qid']}: {first['reason']}); run the same command again to retry "
            "failed calls, with --retry-unusable also unusable answers, with --retry-failed also "
            "refused prompts",
            err=True,
        )
