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
"""As in `fairtk.io`, whose import would slow down ``--help``."""


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

_TARGET: dict[str, Any] = {
    "type": FILE_OR_NAME,
    "metavar": "FILE|uniform|qrels",
    "help": "What exposure is compared with: a target file (columns weight and group, or a column "
    "per crossed attribute; qid if it differs by query), `uniform` (equal shares of all levels), "
    "or `qrels` (the groups of each query's relevant documents).",
}
_SEVERAL_TARGETS = " With several, each measure takes the first over its attributes."
SHARED: dict[str, dict[str, Any]] = {
    "answers": {
        "type": FILE,
        "metavar": "FILE",
        "help": "Generated answers (columns qid, sample, qanswer) for EU; one file per run, in "
        "order.",
    },
    "folder": {"type": str},
    "gold": {
        "type": FILE,
        "metavar": "FILE",
        "help": "Gold answers (columns qid, gold_answer) for EU, if the qrels have none.",
    },
    "groups": {
        "type": FILE,
        "metavar": "FILE",
        "help": "Groups of documents (columns docno, group, weight), for AWRF and other measures "
        "that need groups; an attribute per file, named after it.",
    },
    "measures": {
        "metavar": "MEASURE",
        "help": 'A measure, e.g. -m EE_D@5 -m "E(nDCG@5)"; `fairtk measures` lists them.',
    },
    "qrels": {"type": FILE_OR_NAME, "metavar": "FILE|DATASET"},
    "run": {"type": FILE},
    "runs": {"type": FILE},
    "target": _TARGET,
    "targets": _TARGET | {"help": _TARGET["help"] + _SEVERAL_TARGETS},
}
"""Settings of the arguments and options for some parameters, in all commands."""


def plot_option(help: str) -> Decorator:
    """Return the option ``--plot``: the file of a picture."""
    kind = click.Path(dir_okay=False)
    return click.option("--plot", type=kind, metavar="FILE", help=f"{help} (.svg, .pdf or .png).")


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
STRICT = "--strict"
STRICT_OPTION = click.Option(
    [STRICT],
    is_flag=True,
    expose_value=False,
    help="Warnings are errors (`fairtk --help` lists them).",
)
"""Of all commands, for their help: `fairtk.cli.group` takes it out of the arguments."""


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
