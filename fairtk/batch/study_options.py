"""Options of commands that run studies, which `fairtk prompts` passes on."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fairtk.cli.options import all_of
from fairtk.cli.output import command_line
from fairtk.errors import InputError
from fairtk.plugins.registry import SERVER

if TYPE_CHECKING:
    from fairtk.llm import Ledger

COMMAND_FILE = "command.json"
"""The file in a study's folder with its last command and working directory."""


def say_beginning(folder: Path, text: str) -> None:
    """Print what a study begins, and store its command line in its folder."""
    from fairtk.io.atomic import atomic_text

    words = [word for word in shlex.split(command_line())[1:] if word != "--offline"]
    folder.mkdir(parents=True, exist_ok=True)
    with atomic_text(folder / COMMAND_FILE) as stream:
        json.dump({"command": shlex.join(words), "folder": os.getcwd()}, stream, indent=1)
    click.echo(text, err=True)


LEDGER = (
    "max_calls",
    "max_cost",
    "max_tokens",
    "prices",
    "offline",
    "retry_unusable",
    "retry_failed",
)

paying_options = all_of(
    click.option(
        "--base-url",
        help="The address of an OpenAI-compatible server, e.g. http://127.0.0.1:8000/v1; "
        "several with commas.",
    ),
    click.option(
        "--api-key-env",
        metavar="VARIABLE",
        help="The environment variable with the server's key; '' if it needs none.  "
        "[default: OPENAI_API_KEY]",
    ),
    click.option(
        "--set",
        "server_settings",
        metavar="NAME=VALUE",
        multiple=True,
        help="Another setting of the models that have it, e.g. max_tokens=64 of a server, or "
        "max_new_tokens=20 of a local model; temperature=none leaves it out. Repeatable.",
    ),
    click.option(
        "--max-calls", type=int, help="The largest number of calls to pay for in this run."
    ),
    click.option("--max-cost", type=float, help="The highest price of this run; needs --prices."),
    click.option(
        "--max-tokens",
        type=int,
        help="The largest number of tokens of prompts and answers to pay for in this run.",
    ),
    click.option(
        "--prices",
        metavar="FILE",
        help="Prices per million tokens: TSV with model, prompt, completion.",
    ),
    click.option(
        "--retry-unusable",
        is_flag=True,
        help="Request answers again that were refused, cut off or unreadable.",
    ),
    click.option(
        "--retry-failed",
        is_flag=True,
        help="Request prompts again that the model refused, e.g. because they were too long.",
    ),
)
"""The options of `SERVER` and `LEDGER`, the same for all commands."""


study_options = all_of(
    click.option("--executor", type=click.Choice(["serial", "processes", "dask"]),
                 help="How systems run and answers are generated.  [default: serial]"),
    click.option("--workers", type=int,
                 help="The number of worker processes.  [default: one per GPU, or per core]"),
    click.option("--scheduler", metavar="ADDRESS",
                 help="The Dask scheduler for --executor dask: tcp://HOST:PORT, or its scheduler "
                 "file.  [default: a local cluster]"),
    click.option("--dry-run", is_flag=True,
                 help="Print what is missing and what it costs, and stop."),
    click.option("--status", is_flag=True,
                 help="Print the progress of the study, and stop."),
    click.option("--offline", is_flag=True,
                 help="Use only recorded answers; a missing answer is an error."),
)  # fmt: skip
"""The options for running a study."""


def engine_options(configured: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configured settings of the executor, updated by the given options."""
    names = ("executor", "workers", "scheduler")
    return {**configured, **{name: options[name] for name in names if options[name] is not None}}


def server_settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the given options for models as settings."""
    settings = {name: options[name] for name in SERVER if options[name] is not None}
    for text in options["server_settings"]:
        name, sign, value = text.partition("=")
        if not (name and sign):
            raise InputError(f"--set must be NAME=VALUE, e.g. temperature=none, got {text!r}")
        try:
            settings[name] = json.loads(value)
        except ValueError:
            settings[name] = value
    return settings


class ModelOption(click.Option):
    """An option ``KIND:MODEL`` whose help lists the kinds of models of plugins."""

    def __init__(self, *names: Any, use: str, default_text: str, **settings: Any) -> None:
        super().__init__(*names, metavar="KIND:MODEL", **settings)
        self.use, self.default_text = use, default_text

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Return the option and its help."""
        from fairtk import plugins
        from fairtk.llm import list_model_kinds

        plugins.loaded_plugins()
        kinds = [f"{name} ({spec.summary})" for name, spec in list_model_kinds(self.use).items()]
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
    """Return the ledger of a study, open until the stack ends, `None` if it is not configured.

    Given options override the configuration. A dry run writes nothing.
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
        # a temporary file, only for the prices
        path = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "answers.sqlite"
    if not settings.get("offline"):
        path.parent.mkdir(parents=True, exist_ok=True)
    return stack.enter_context(Ledger(path, **settings))
