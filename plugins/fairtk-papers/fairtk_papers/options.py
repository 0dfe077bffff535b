"""Options of the studies' commands, and what they mean."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fairtk import checks
from fairtk.errors import InputError

if TYPE_CHECKING:
    from fairtk.llm import Ledger


def say_beginning(folder: Path, text: str) -> None:
    """Print what a study begins, and store its command line for ``fairtk prompts write``."""
    from fairtk_papers.studies import write_text

    words = [word for word in shlex.split(command_line())[1:] if word != "--offline"]
    content = {"command": shlex.join(words), "folder": os.getcwd()}
    write_text(folder / "command.json", json.dumps(content, indent=1))
    click.echo(text, err=True)


def command_line() -> str:
    """Return the running command line, quoted for a shell."""
    return str(click.get_current_context().meta["fairtk.command"])


_STUDY = (
    click.option("--executor", type=click.Choice(["serial", "processes", "dask"]),
                 help="How systems run and answers are generated.  [default: serial]"),
    click.option("--workers", type=int,
                 help="The number of worker processes.  [default: one per GPU, or per core]"),
    click.option("--scheduler", metavar="ADDRESS",
                 help="The Dask scheduler, required by --executor dask: `tcp://HOST:PORT`, or its "
                 "scheduler file."),
    click.option("--dry-run", is_flag=True,
                 help="Print what is missing and what it costs, and stop."),
    click.option("--status", is_flag=True,
                 help="Print the progress of the study, and stop."),
    click.option("--offline", is_flag=True,
                 help="Use only recorded answers; a missing answer is an error."),
)  # fmt: skip


def study_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for running a study."""
    for option in reversed(_STUDY):
        command = option(command)
    return command


def engine_options(configured: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configured settings of the executor, updated by the given options."""
    names = ("executor", "workers", "scheduler")
    given = {name: options[name] for name in names if options[name] is not None}
    if "workers" in given:
        checks.integer("workers", given["workers"], "the study")
    return {**configured, **given}


def server_settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the given options for models as settings."""
    servers = ("base_url", "api_key_env")
    settings = {name: options[name] for name in servers if options[name] is not None}
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

    @property
    def help(self) -> str:
        """The help, with the kinds of models."""
        from fairtk import plugins
        from fairtk.llm import list_model_kinds

        plugins.loaded_plugins()
        kinds = [f"{name} ({spec.summary})" for name, spec in list_model_kinds(self.use).items()]
        repeated = " Repeatable." * self.multiple
        return f"KIND is {', '.join(kinds)}.{repeated}  [default: {self.default_text}]"

    @help.setter
    def help(self, text: str | None) -> None:
        """Ignore the help that click sets."""


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
    from fairtk_papers.studies import LEDGER

    given = {key: options.get(key) for key in LEDGER}
    given = {key: value for key, value in given.items() if value is not None and value is not False}
    settings = {**configured, **given}
    if not settings:
        return None
    path = Path(settings.pop("path", path))
    if dry_run and not path.exists() and not settings.get("offline"):
        # a temporary file, only for the prices
        path = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "answers.sqlite"
    if not settings.get("offline"):
        path.parent.mkdir(parents=True, exist_ok=True)
    return stack.enter_context(Ledger(path, **settings))
