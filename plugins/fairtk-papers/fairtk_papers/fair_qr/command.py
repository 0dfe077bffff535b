"""``fairtk qr``: the study of FAIR-QR."""

from __future__ import annotations

import contextlib
import shlex
import sys
import warnings
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from fairtk.batch.study_options import (
    ModelOption,
    engine_options,
    open_ledger,
    paying_options,
    say_beginning,
    server_settings,
    study_options,
)
from fairtk.cli.options import format_option
from fairtk.cli.output import command_line, echo_frame, echo_table
from fairtk.cli.signature import given_options, signature_command
from fairtk.errors import DataWarning, InputError
from fairtk_papers.plan_table import echo_plan

if TYPE_CHECKING:
    from fairtk_papers.fair_qr import QrResults

NO_MODEL = (
    "Note: no language model is used: KeywordRefiner adds terms from a table. Name a model by "
    "--llm KIND:MODEL, e.g. --llm openai:gpt-4o, or by [llm] in the TOML file."
)


@signature_command(
    "Compare FAIR-QR with its baselines: tables, figures, costs.",
    {"fairtk_papers.fair_qr:QrSettings": "seed"},
)
@click.argument("source", metavar="CONFIG|FOLDER|DATASET")
@click.option("-o", "--output", metavar="DIR", help="Where results go.  [default: fair-qr-study]")
@study_options
@click.option("--attribute", "attributes", multiple=True,
              help="gender, geography, another dimension of the track, or dimensions crossed by "
              "'*'. Repeatable.  [default: gender, geography]")  # fmt: skip
@click.option("-s", "--system", "systems", multiple=True,
              help="A system to compare; BM25 always is. Repeatable.  [default: all]")  # fmt: skip
@click.option("-r", "--retriever", "runs", multiple=True, metavar="NAME=RUNFILE",
              help="A run of your own, compared as it is. Repeatable.")  # fmt: skip
@click.option("--llm", "model", cls=ModelOption, use="refinement", default_text="keyword")
@paying_options
@click.option("--split", type=click.Choice(["train", "eval"]), help="The topics of a FOLDER.")
@click.option("--variations/--no-variations", default=True, show_default=True,
              help="Vary settings of FAIR-QR, too.")  # fmt: skip
@click.option("--tuning/--no-tuning", default=True, show_default=True,
              help="Show each system with settings chosen on other topics, too.")  # fmt: skip
@format_option
def command(
    source: str,
    output: str | None,
    attributes: tuple[str, ...],
    systems: tuple[str, ...],
    runs: tuple[str, ...],
    model: str | None,
    split: str | None,
    variations: bool,
    tuning: bool,
    dry_run: bool,
    status: bool,
    form: str,
    **more: Any,
) -> None:
    """Compare FAIR-QR with BM25, vector search, DLF, DELTR, FA*IR and MMR.

    The baselines other than BM25 come with the plugin fairtk-baselines. FOLDER has the files of
    TREC Fair Ranking 2022 (corpus, metadata, topics); DATASET is an id of theirs, such as
    trec-fair/2022/train/keywords. What was done is kept in the output folder, rankings
    and answers in experiment.sqlite: run the same command again to continue after a stop.

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
      [targets]                          # further ones, one or a list: relevance, uniform,
      gender = ["relevance", "uniform"]  # shares by group, or a file with group and weight;
                                         # the default is relevance+population where there is
                                         # a background (gender, regions), else relevance
      [[retriever]]                      # several, the first BM25: kind = bm25 or vector;
      kind = "bm25"                      # a name, threads, other settings
      [[retriever]]
      name = "mine"                      # a run of your own (-r mine=runs/mine.run): compared as
      run = "runs/mine.run"              # it is; no FAIR-QR system or tuning is built on it
      [llm]                              # or several [[llm]], each with a name
      backend = "openai"                 # or another kind of --llm
      model = "gpt-4o"                   # and base_url, temperature, concurrency, timeout, ...
      [ledger]                           # path, offline, max_calls, max_cost, prices,
                                         # retry_unusable
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
    from fairtk_papers.studies import STORE, collect_warnings

    configuration = QrConfiguration.of(source)
    retrievers = configuration.retrievers or ([{"kind": "bm25"}] if runs else [])
    configuration = configuration.changed(
        {
            **given_options("seed"),
            "systems": systems or None,
            "variations": None if variations else {},
            "tuning": None if tuning else {},
        },
        data={"attributes": attributes, "split": split},
        output=output,
        retrievers=[*retrievers, *map(_run_table, runs)],
        engine=engine_options(configuration.engine, more),
    )
    with collect_warnings():  # what reading the data warns of comes after the note
        study = QrStudy.of(with_model(configuration, model, server_settings(more)))
        if all(isinstance(side.llm, KeywordRefiner) for side in (study, *study.sides.values())):
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
        new_figure(
            (1, 1), "the figures of a study"
        )  # that it cannot be is not found out at the end
        if not study.settings.systems and not registry.study_systems.names():
            click.echo(
                "Note: comparing with BM25 alone: the baselines are in the plugin "
                "fairtk-baselines, which is not installed: run pip install "
                "./plugins/fairtk-baselines in a checkout of fairtk.",
                err=True,
            )
        results = study.run(partial(say_beginning, study.folder))
        for text in results.warnings:  # of earlier runs and of measures: in the report, too
            if text not in study.told:
                warnings.warn(text, DataWarning, stacklevel=2)
        _echo_results(results, form)  # figures take longer than all tables
        page = results.save(study.folder, command=command_line())
    if form == "table":
        click.echo(
            f"\nReport: {page}\nA page of it: fairtk report {shlex.quote(str(study.folder))}",
            err=not sys.stdout.isatty(),
        )


def _run_table(text: str) -> dict[str, str]:
    name, _, path = text.partition("=")
    if not (name and path):
        raise InputError(
            f"--retriever must be NAME=RUNFILE, got {text!r}; BM25 is always there, and vector "
            "search is a [[retriever]] of the TOML file"
        )
    return {"name": name, "run": path}


def _echo_results(results: QrResults, form: str) -> None:
    if form != "table":
        echo_frame(form, results.table)
        return
    from fairtk_papers.fair_qr.report import change_table, comparison, paper_table

    for table in (comparison(results), paper_table(results)):
        if table.rows:
            echo_table([*table.columns, ""], [[*row, ""] for row in table.rows])
            click.echo(table.caption)
    for attribute in results.explained:
        click.echo(change_table(results, attribute).caption.partition(" Shown:")[0])
    if len(results.missing):
        lost = results.missing
        click.echo(
            f"Warning: {len(lost)} results are missing, e.g. {lost['system'].iloc[0]} for topic "
            f"{lost['qid'].iloc[0]}: {lost['reason'].iloc[0]}; run the same command to try "
            "calls that failed again; what was refused, cut off or unreadable is in the ledger, "
            "and asked for again with --retry-unusable",
            err=True,
        )
