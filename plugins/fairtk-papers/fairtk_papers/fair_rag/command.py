"""``fairtk rag``: the study of Towards Fair RAG."""

from __future__ import annotations

import contextlib
import shlex
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fairtk.batch import paying_options
from fairtk.cli import echo_frame, format_option, given_options, signature_command
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
    from fairtk_papers.fair_rag import RagResults

_SETTINGS = "alphas n_samples cutoff seed limit labels truncation credit utility"


@signature_command(
    "Measure how fair rankings change a generator's answers.",
    {"fairtk_papers.fair_rag:RagSettings": _SETTINGS},
)
@click.argument("source", metavar="FOLDER|DATASET|CONFIG")
@click.option(
    "-o", "--output", metavar="DIR", help="The folder for the results.  [default: fair-rag-study]"
)
@click.option("-t", "--task", "tasks", type=int, multiple=True,
              help="A LaMP task of FOLDER, 1 to 7. Repeatable.")  # fmt: skip
@click.option("-r", "--retriever", "retrievers", multiple=True,
              help="bm25, contriever[:MODEL], splade[:MODEL] (MODEL: a folder or a hub name), or "
              "NAME=RUNFILE for your own run. Its docnos are qid/pid for LaMP: the query's id, a "
              "slash, and the profile entry's id. Repeatable.  [default: bm25]")  # fmt: skip
@click.option("-g", "--generator", "generators", multiple=True, cls=ModelOption, use="answers",
              default_text="t5:google/flan-t5-small")  # fmt: skip
@study_options
@click.option("--rankings/--no-rankings", default=True, show_default=True,
              help="Save rankings and answers, for `fairtk report`.")  # fmt: skip
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
    """Measure how fair rankings change a generator's answers, as in Towards Fair RAG.

    A document is useful if the generator answers the query better from it alone than without it.
    The generator answers each query from rankings sampled at each alpha, from the retriever's fixed
    ranking, and from an oracle that ranks the useful documents first. The output folder gets Tables
    1 and 3 to 15 of the paper, with the paper's numbers next to yours. It also has all answers, in
    experiment.sqlite: run the same command again to continue after a stop.

    FOLDER has the files of LaMP (dev_questions.json and dev_outputs.json; for several tasks, in
    LaMP_1 to LaMP_7), or the published utility labels. DATASET is an id such as lamp/4/dev.

    CONFIG is a TOML file. Options override it. Only the first of these keys is required:

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
      limit = 1000                          # queries per task
      labels = "published"                  # or own
      label_utility = "paper"               # or code: LaMP-3 is labeled by accuracy
      grades = "binary"                     # or gain
      min_useful = 2                        # excludes queries with fewer useful documents
      eu_over = "retriever"                 # the rankings to normalize EU by; or generator
      eu_deterministic = false              # whether the deterministic ranking is one of them
      truncation = "keep-question"          # or published: prompts cut as in the published code
      credit = "none"                       # or one-out, shapley, citations
      utility = "contains"                  # of all answers; by default that of each LaMP task
      [options."contriever:models/contriever"]
      allow_pickled_weights = true
      [engine]                              # executor, workers, scheduler, threads, batch_size
      [ledger]                              # for answers of servers: path, offline, max_calls,
                                            # max_cost, max_tokens, prices, retry_unusable,
                                            # retry_failed

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

    configuration = RagConfiguration.from_source(source)
    configuration = configuration.with_changes(
        given_options(_SETTINGS),
        data={"tasks": tasks},
        output=output,
        retrievers=retrievers,
        models=generators,
        engine=engine_options(configuration.engine, more),
    ).with_server(server_settings(more))
    if status:
        echo_frame(form, RagStudy.from_configuration(configuration).status())
        return
    with contextlib.ExitStack() as stack:
        # the store also has the answers of runs without a budget
        path = Path(configuration.output) / STORE
        ledger = open_ledger(configuration.ledger, more, path, dry_run, stack)
        if ledger is not None:
            configuration.require_server(["prices, budgets and recorded answers"])
        study = RagStudy.from_configuration(configuration, ledger)
        if dry_run:
            echo_plan(study.plan(), form)
            return
        new_figure((1, 1), "fairtk rag")  # fails now if matplotlib is missing, not after hours
        results = study.run(partial(say_beginning, study.folder), rankings, command_line())
    folder = results.save(study.folder)
    write_figures(results, folder)
    pages = save_model_sections(results, study.folder) if rankings else []
    for note in results.notes:
        click.echo(f"Note: {note}", err=True)
    if form != "table":
        echo_frame(form, results.means)
        return
    _echo_means(results)
    echo_text(
        "+-: half of the 95 % interval over queries. EE_D: unbiased estimate, lower is more even "
        "exposure; other measures: higher is better. EU: expected utility of the answers; "
        "normalized EU: divided by that of the best single ranking."
    )
    echo_text("Without +-: all queries have the same value, or only one query has a value.")
    if results.has_credit:
        echo_text(
            "Credit: how much an answer depends on a document. AE_D, AE_R: disparity and relevance "
            "of credit. CreditGap: squared distance between credit and exposure. AE_D and "
            "CreditGap are unbiased estimates. The oracle's rankings have no credit. AE_D and EE_D "
            "have different scales; the table 'credit' compares AE_D of credit and of exposure."
        )
    click.echo(f"Tables and figures: {folder}")
    if pages:
        arguments = [str(study.folder)]
        if len(saved_settings(study.folder)) > 1:
            arguments += ["--setting", results.settings.name]
        click.echo(f"Page: fairtk report {shlex.join(arguments)}")


def _echo_means(results: RagResults) -> None:
    """Print a table per model, and compare its most even with its deterministic rankings."""
    from fairtk.display import Table, number_text
    from fairtk_papers.fair_rag.tables import EE_D, MODEL, NORMALIZED_EU

    rows = {model: part for model, part in results.means.groupby(MODEL)}
    for model, part in results.means_with_intervals().groupby(MODEL, sort=False):
        cells = part.drop(columns=MODEL).astype(object).fillna("undefined")
        click.echo(", ".join(model))
        echo_table(Table(list(cells.columns), cells.astype(str).to_numpy().tolist()))
        even, fixed = rows[model].iloc[0], rows[model].iloc[-1]
        differences = ", ".join(
            f"{name} {number_text(even[name], 3)} (deterministic ranking: "
            f"{number_text(fixed[name], 3)})"
            for name in (EE_D, NORMALIZED_EU)
            if even[name] == even[name]
        )
        if differences:
            echo_text(f"{even['policy']}: {differences}.")
        click.echo()
