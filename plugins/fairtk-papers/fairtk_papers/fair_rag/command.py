"""``fairtk rag``: the study of Towards Fair RAG."""

from __future__ import annotations

import contextlib
import shlex
from functools import partial
from pathlib import Path
from typing import Any

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
from fairtk.cli.output import command_line, echo_frame
from fairtk.cli.signature import given_options, signature_command
from fairtk_papers.plan_table import echo_plan

_SETTINGS = "alphas n_samples cutoff seed limit labels truncation credit"


@signature_command(
    "Compare fair rankings by what a generator answers from them.",
    {"fairtk_papers.fair_rag:RagSettings": _SETTINGS},
)
@click.argument("source", metavar="FOLDER|DATASET|CONFIG")
@click.option("-o", "--output", metavar="DIR", help="Where results go.  [default: fair-rag-study]")
@click.option("-t", "--task", "tasks", type=int, multiple=True,
              help="A LaMP task of FOLDER, 1 to 7. Repeatable.")  # fmt: skip
@click.option("-r", "--retriever", "retrievers", multiple=True,
              help="bm25, contriever[:MODEL], splade[:MODEL] (a hub name or a folder), or a run "
              "of your own: NAME=RUNFILE. Repeatable.  [default: bm25]")  # fmt: skip
@click.option("-g", "--generator", "generators", multiple=True, cls=ModelOption, use="answers",
              default_text="t5:google/flan-t5-small")  # fmt: skip
@study_options
@click.option("--rankings/--no-rankings", default=True, show_default=True,
              help="Save rankings and answers for reports.")  # fmt: skip
@paying_options
@format_option
def command(
    source: str,
    output: str | None,
    tasks: tuple[int, ...],
    retrievers: tuple[str, ...],
    generators: tuple[str, ...],
    dry_run: bool,
    status: bool,
    rankings: bool,
    form: str,
    **more: Any,
) -> None:
    """Measure what fair rankings do to a generator's answers, as Towards Fair RAG does.

    Each document is labeled by what it gains the generator; rankings of each user's documents are
    sampled at each alpha, by an oracle, and taken as they are; the generator answers from each.
    Tables 1 and 3 to 15 of the paper go to the output folder, beside its own numbers. What was
    done is kept there in experiment.sqlite: run the same command again to go on after a stop.

    FOLDER has LaMP's files (dev_questions.json and dev_outputs.json; with several tasks, in
    LaMP_1 to LaMP_7), or the published utility labels; DATASET is an id such as lamp/4/dev.
    CONFIG is a TOML file; all keys but the first are optional, and options given here win:

    \b
      folder = "lamp"                       # or datasets = ["lamp/4/dev"]
      tasks = [4]                           # of the folder
      retrievers = ["bm25", "contriever:models/contriever", "mine=runs/mine.run"]
      generators = ["t5:google/flan-t5-small"]
      output = "study"
      alphas = [1, 2, 4, 8]
      n_samples = 100
      cutoff = 5
      seed = 42
      limit = 1000                          # queries of a task
      labels = "published"                  # or own
      label_utility = "paper"               # or code: LaMP-3 is labeled by accuracy
      grades = "binary"                     # or gain
      min_useful = 2                        # queries with fewer useful documents are left out
      eu_over = "retriever"                 # whose best ranking EU is divided by; or generator
      eu_deterministic = false              # whether the deterministic ranking is among them
      truncation = "keep-question"          # or published: prompts cut as the published code does
      credit = "none"                       # or one-out, shapley, citations
      [options."contriever:models/contriever"]
      allow_pickled_weights = true
      [engine]                              # executor, workers, scheduler, threads, batch_size
      [ledger]                              # of a server's answers: path, offline, max_calls,
                                            # max_cost, prices, retry_unusable

    \b
    Examples:
      fairtk rag my/lamp4 --task 4 --limit 20 --samples 10
      fairtk rag study.toml --dry-run
      fairtk rag my/lamp4 --task 4 --limit 20 --samples 10 --credit shapley
      fairtk rag my/lamp4 --task 4 -r bm25 -r mine=runs/mine.run
      fairtk rag my/lamp4 --task 4 --generator openai:gpt-4o --max-calls 5000
    """  # noqa: D301 - click reads the backslash
    from fairtk.display import new_figure
    from fairtk_papers.fair_rag import RagConfiguration, RagStudy, save_model_sections
    from fairtk_papers.fair_rag.results import saved_settings, write_figures
    from fairtk_papers.studies import STORE

    configuration = RagConfiguration.of(source)
    configuration = configuration.changed(
        given_options(_SETTINGS),
        data={"tasks": tasks},
        output=output,
        retrievers=retrievers,
        models=generators,
        engine=engine_options(configuration.engine, more),
    ).with_server(server_settings(more))
    if status:
        echo_frame(form, RagStudy.of(configuration).status())
        return
    with contextlib.ExitStack() as stack:
        # in the store, where answers are that were paid for without a budget
        path = Path(configuration.output) / STORE
        ledger = open_ledger(configuration.ledger, more, path, dry_run, stack)
        configuration.served({} if ledger is None else {"a ledger": ledger})
        study = RagStudy.of(configuration, ledger)
        if dry_run:
            echo_plan(study.plan(), form)
            return
        new_figure((1, 1), "fairtk rag")  # that matplotlib is missing is not found out after hours
        results = study.run(partial(say_beginning, study.folder), rankings, command_line())
    place = results.save(study.folder)
    write_figures(results, place)
    pages = save_model_sections(results, study.folder) if rankings else []
    for note in results.notes:
        click.echo(f"Note: {note}", err=True)
    echo_frame(form, results.means_with_intervals() if form == "table" else results.means)
    if form == "table":
        click.echo(
            "\n+-: half of the 95 % interval over queries. EE_D: lower is more even exposure; the "
            "others: higher is better. EU: expected utility of the answers; normalized EU: divided "
            "by the best single ranking's."
        )
        if results.has_credit:
            click.echo(
                "AE_D, AE_R: disparity and relevance of credit, how much answers depend on "
                "documents. CreditGap: squared distance of credit and exposure. AE_D and CreditGap "
                "are unbiased estimates. AE_D has another scale than EE_D: table credit compares "
                "it with AE_D of exposure, with intervals."
            )
        click.echo(f"Tables and figures: {place}")
        if pages:
            asked = [str(study.folder)]
            if len(saved_settings(study.folder)) > 1:
                asked += ["--setting", results.settings.name]
            click.echo(f"A page of it: fairtk report {shlex.join(asked)}")
