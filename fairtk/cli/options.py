"""Arguments and options that commands share: each is declared here, once."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fairtk.cli.output import STDIN, TABLE
from fairtk.errors import InputError

if TYPE_CHECKING:
    from fairtk.llm import Ledger

FORMATS = (TABLE, "csv", "json", "latex", "markdown")
TESTS = ("t", "wilcoxon", "randomization")
CORRECTIONS = ("holm", "bonferroni", "fdr_bh", "none")
"""These are as in `fairtk.io` and `fairtk.report`, whose import would slow down ``--help``."""


class InputFile(click.Path):
    """A file to read; ``-`` is standard input.

    Args:
        exists: whether it must be there; else it may be something else, such as a data set.
    """

    def __init__(self, exists: bool = True) -> None:
        super().__init__(exists=exists, dir_okay=not exists, allow_dash=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path."""
        if value == STDIN and ctx is not None:
            if STDIN in ctx.meta:
                raise InputError("'-' (standard input) can be given once only")
            ctx.meta[STDIN] = True
        return super().convert(value, param, ctx)


FILE = InputFile()
FILE_OR_NAME = InputFile(exists=False)
Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

qrels_argument = click.argument("qrels", type=FILE_OR_NAME)
run_argument = click.argument("run", type=FILE)
runs_argument = click.argument("runs", type=FILE, nargs=-1, required=True)
gold_option = click.option(
    "--gold",
    type=FILE,
    metavar="FILE",
    help="Gold answers (columns qid, gold_answer) for EU, if the qrels have none.",
)
groups_option = click.option(
    "--groups",
    type=FILE,
    metavar="FILE",
    multiple=True,
    help="Groups of documents (columns docno, group, weight), for AWRF and other measures that "
    "need groups. Repeatable: an attribute per file, named after it.",
)
_TARGET = (
    "What exposure is compared with: a target file (columns weight and group, or a column per "
    "crossed attribute; qid if it differs by query), `uniform` (equal shares of all levels), or "
    "`qrels` (the groups of each query's relevant documents)."
)
_target: dict[str, Any] = {"type": FILE_OR_NAME, "metavar": "FILE|uniform|qrels"}
target_option = click.option("--target", help=_TARGET, **_target)
targets_option = click.option(
    "--target",
    "targets",
    multiple=True,
    help=_TARGET + " Repeatable: each measure takes the first over its attributes.",
    **_target,
)


def measures_option(help: str, required: bool = False) -> Decorator:
    """Return the option ``-m``, which may be repeated."""
    names = ("-m", "--measure", "measures")
    text = f"{help} Repeatable."
    return click.option(*names, multiple=True, required=required, metavar="MEASURE", help=text)


def cutoff_option(help: str, default: int | None = 5) -> Decorator:
    """Return the option ``-k``: a number of ranks."""
    return _option("-k", "--cutoff", click.IntRange(min=1), default, help)


def samples_option(help: str, default: int | None = None) -> Decorator:
    """Return the option ``-n``: a number of sampled rankings."""
    return _option("-n", "--samples", click.IntRange(min=1), default, help)


def alpha_option(help: str, name: str = "alpha") -> Decorator:
    """Return the option ``-a``: an exponent of `fairtk.FairSampler`; of ``alphas``, repeatable."""
    return click.option("-a", "--alpha", name, type=float, multiple=name == "alphas", help=help)


def _option(short: str, name: str, kind: Any, default: Any, help: str) -> Decorator:
    show = default is not None
    return click.option(short, name, type=kind, default=default, show_default=show, help=help)


def plot_option(help: str) -> Decorator:
    """Return the option ``--plot``: the file of a picture."""
    kind = click.Path(dir_okay=False)
    return click.option("--plot", type=kind, metavar="FILE", help=f"{help} (.svg, .pdf or .png).")


def draws_options(of: str, default: int) -> Decorator:
    """Return ``--resamples`` and ``--seed`` of what draws."""
    count, seed = click.IntRange(min=1), click.IntRange(min=0)
    return all_of(
        click.option("--resamples", type=count, default=default, show_default=True, help=of),
        click.option("--seed", type=seed, default=42, show_default=True, help="Of these draws."),
    )


def test_options(of: str) -> Decorator:
    """Return ``--test`` and ``--correction`` of comparisons with a baseline."""
    tests, corrections = click.Choice(TESTS), click.Choice(CORRECTIONS)
    text = f"Of the p-values of a measure, for the number of {of}."
    return all_of(
        click.option("--test", type=tests, default="t", show_default=True, help="The paired test."),
        click.option(
            "--correction", type=corrections, default="holm", show_default=True, help=text
        ),
    )


def all_of(*options: Decorator) -> Decorator:
    """Return what adds several options, in their order."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return add


format_option = click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default=TABLE,
    show_default=True,
    help="csv and json have all digits.",
)
output_option = click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(dir_okay=False, allow_dash=True),
    help="Write to this file, not the terminal.",
)
printing_options = all_of(format_option, output_option)
"""How the result is printed, and where."""
order_option = click.option(
    "--order",
    type=click.Choice(["auto", "rank", "score"]),
    default="auto",
    show_default=True,
    help="What orders a run: auto refuses runs whose ranks and scores disagree.",
)
_measuring_options = (
    measures_option(
        'A measure, e.g. -m EE_D@5 -m "E(nDCG@5)"; `fairtk measures` lists them.', required=True
    ),
    click.option(
        "--answers",
        type=FILE,
        metavar="FILE",
        multiple=True,
        help="Generated answers (columns qid, sample, qanswer) for EU; one file per run, in order.",
    ),
    gold_option,
    groups_option,
    targets_option,
    order_option,
)
measuring_options = all_of(qrels_argument, runs_argument, *_measuring_options)
"""The arguments QRELS and RUNS, and the options of measuring."""
measuring_options_without_qrels = all_of(
    qrels_argument,
    click.argument("runs", type=FILE, nargs=-1, metavar="RUNS..."),
    click.option(
        "--no-qrels",
        is_flag=True,
        help="All files are RUNS: for measures that need no labels (EE_D, AWRF).",
    ),
    *_measuring_options,
)
"""The same for a command that does without QRELS, where the first file is a run."""


SERVER = ("base_url", "api_key_env")
LEDGER = ("max_calls", "max_cost", "prices", "offline", "retry_unusable")

paying_options = all_of(
    click.option(
        "--base-url",
        help="The OpenAI-compatible server, e.g. http://127.0.0.1:8000/v1; several with commas.",
    ),
    click.option(
        "--api-key-env",
        metavar="VARIABLE",
        help="The environment variable with its key; '' for a server without keys.  "
        "[default: OPENAI_API_KEY]",
    ),
    click.option(
        "--set",
        "server_settings",
        metavar="NAME=VALUE",
        multiple=True,
        help="Another setting of its models, e.g. max_tokens=64; temperature=none sends none.",
    ),
    click.option("--max-calls", type=int, help="The most calls to pay for in this run."),
    click.option("--max-cost", type=float, help="The most to pay in this run; needs --prices."),
    click.option(
        "--prices",
        metavar="FILE",
        help="Prices per million tokens: TSV with model, prompt, completion.",
    ),
    click.option("--offline", is_flag=True, help="Only recorded answers; others are an error."),
    click.option(
        "--retry-unusable",
        is_flag=True,
        help="Ask again for answers that were refused, cut off or unreadable.",
    ),
)
"""The options of `SERVER` and `LEDGER`, the same for all commands."""


study_options = all_of(
    click.option("--executor", type=click.Choice(["serial", "processes", "dask"]),
                 help="Where systems run and answers are generated.  [default: serial]"),
    click.option("--workers", type=int,
                 help="Worker processes.  [default: one per GPU, or core]"),
    click.option("--scheduler", metavar="ADDRESS",
                 help="Of the running cluster that --executor dask uses: tcp://HOST:PORT, or its "
                 "scheduler file.  [default: a cluster of this machine]"),
    click.option("--dry-run", is_flag=True, help="Say what it takes; generate and write nothing."),
    click.option("--status", is_flag=True, help="Say what is done; generate and write nothing."),
)  # fmt: skip
"""How a study is run."""


def engine_options(configured: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return where a study runs: what is configured, and the options that were given."""
    names = ("executor", "workers", "scheduler")
    return {**configured, **{name: options[name] for name in names if options[name] is not None}}


def server_settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a server's models that were given as options."""
    settings = {name: options[name] for name in SERVER if options[name] is not None}
    for text in options["server_settings"]:
        name, sign, value = text.partition("=")
        if not (name and sign):
            raise InputError(f"--set takes NAME=VALUE, e.g. temperature=none; found {text!r}")
        try:
            settings[name] = json.loads(value)
        except ValueError:
            settings[name] = value
    return settings


class ModelOption(click.Option):
    """An option ``KIND:MODEL``; its help lists the kinds that plugins give, when it is shown."""

    def __init__(self, *names: Any, use: str, default_text: str, **settings: Any) -> None:
        super().__init__(*names, metavar="KIND:MODEL", **settings)
        self.use, self.default_text = use, default_text

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Return the option and its help."""
        from fairtk import plugins
        from fairtk.llm import kinds_of_models

        plugins.loaded()
        kinds = [f"{name} ({spec.summary})" for name, spec in kinds_of_models(self.use).items()]
        repeated = " Repeatable." * self.multiple
        self.help = f"KIND is {', '.join(kinds)}.{repeated}  [default: {self.default_text}]"
        return super().get_help_record(ctx)


def open_ledger(
    configured: Mapping[str, Any],
    options: Mapping[str, Any],
    path: Path,
    dry_run: bool,
    stack: contextlib.ExitStack,
) -> Ledger | None:
    """Return the ledger of a study, open until the stack ends; None if nothing about it is set.

    Options that were given win over what is configured; a dry run writes nothing.
    """
    from fairtk.llm import Ledger

    settings = dict(configured)
    settings |= {
        key: options[key]
        for key in LEDGER
        if options[key] is not None and options[key] is not False
    }
    if not settings:
        return None
    path = Path(settings.pop("path", path))
    if dry_run and not path.exists() and not settings.get("offline"):
        # prices are needed, and a file that stays is not
        path = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "answers.sqlite"
    if not settings.get("offline"):
        path.parent.mkdir(parents=True, exist_ok=True)
    return stack.enter_context(Ledger(path, **settings))
