"""``fairtk prompts``: write a study's prompts to batch files, and read the answers."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from fairtk.batch.options import paying_options
from fairtk.cli.options import format_option
from fairtk.cli.output import COMMAND, TABLE, echo_frame
from fairtk.errors import FormatError, InputError, MissingPluginError
from fairtk.plugins import registry

if TYPE_CHECKING:
    from fairtk.batch import Batches, ReadReport
    from fairtk.batch.files import Written

PAPERS = "fairtk-papers"
"""The distribution with the project's studies."""
COMMAND_FILE = "command.json"
"""The file in a study's folder with its last command and working directory."""
_MAX_PRINTED = 10  # problems of a kind

folder_argument = click.argument("folder", metavar="DIR")
ledger_option = click.option(
    "--ledger",
    metavar="FILE",
    help="The study's ledger, if it was moved after DIR was created.",
)


@click.group("prompts", short_help="Write a study's prompts for batch APIs, and read answers.")
def command() -> None:
    """Write a study's prompts to files, for a batch API or a cluster, and read the answers.

    A prompt that was written to a file is not requested again. When all answers are read, run the
    study with --offline: the results are those of a study that calls a server.

    \b
    Examples:
      fairtk prompts write study.toml -o prompts
      vllm run-batch -i prompts/batch-0001.jsonl -o answers.jsonl --model my/model
      fairtk prompts read prompts answers.jsonl
      fairtk rag study.toml --offline
    """  # noqa: D301 - click reads the backslash


@command.command("write")
@click.argument("study", metavar="STUDY")
@click.option("-o", "--output", "folder", metavar="DIR", required=True,
              help="The folder for the prompts.")  # fmt: skip
@click.option("--rate", type=click.FloatRange(min=0), default=0.5, show_default=True,
              help="The price of a call in a batch, as a share of that in --prices.")  # fmt: skip
@paying_options
def write(study: str, folder: str, rate: float, **more: Any) -> None:
    """Write the prompts of STUDY that have no answer, as JSON lines of OpenAI's batch API.

    STUDY is a TOML file for `fairtk rag` or `fairtk qr`, or the output folder of one of these
    commands. The study runs as far as recorded answers allow: local models are called, servers are
    not.

    Some prompts depend on the answers to others, so a study may need several rounds: two for labels
    and rankings, one per iteration of FAIR-QR. Read the answers of a round, then call this command
    again, with the same or another DIR.

    --max-calls and --max-cost also count written prompts until their answers are read.
    """
    from fairtk.batch.files import write_prompts

    words, working_folder = _study(study)
    target = os.path.abspath(folder)
    words += _options(more)
    line = shlex.join(["fairtk", *words])
    context = click.get_current_context()
    name, *arguments = words
    root = context.find_root()
    runs = cast(click.Group, root.command).get_command(root, name)
    if runs is None:
        raise MissingPluginError(f"{study}: the command fairtk {name}", PAPERS)

    def work() -> bool:
        context.meta[COMMAND] = line
        with (
            contextlib.chdir(working_folder),
            runs.make_context(name, list(arguments), parent=context) as below,
        ):
            runs.invoke(below)
        return True

    written = write_prompts(work, target, rate=rate, command=line)
    _print_written(written, folder)


def _print_written(written: Written, folder: str) -> None:
    price = "" if written.price != written.price else f", at most {written.price:.4f}"
    if written.prompts:
        click.echo(
            f"Round {written.round}: {written.prompts:,} prompts written to {folder} "
            f"(files: {len(written.files)}){price}"
        )
    elif written.results is not None:
        click.echo("No prompts are missing: the study is complete.")
    if written.elsewhere:
        click.echo(f"Already in a batch or a running study: {written.elsewhere:,} prompts")
    if written.left_out:
        click.echo(f"Left out: {written.left_out:,} prompts, because {written.reason}")
    elif written.prompts:
        click.echo(f"Stopped: {written.reason}")


@command.command("read")
@folder_argument
@click.argument("files", metavar="FILES...", nargs=-1, required=True)
@click.option("--model", "models", metavar="NAME", multiple=True,
              help="Also accept answers of a model with this name. Repeatable.")  # fmt: skip
@ledger_option
def read(folder: str, files: tuple[str, ...], models: tuple[str, ...], ledger: str | None) -> None:
    """Read answers from output and error files of OpenAI's batch API or of `vllm run-batch`.

    Files may be in any order, and may be read again. Invalid lines are reported and skipped:
    errors, duplicates, unknown ids, other models, edited prompts, and incomplete lines. A file
    without any answer to a prompt in DIR is an error.
    """
    with _batches(folder, ledger) as batches:
        reading = batches.read(folder, files, models)
        _print_report(reading)
        _print_next(batches, folder)
    if reading.foreign:
        raise InputError(
            f"{', '.join(map(str, reading.foreign))}: no answers to prompts of {folder}; expected "
            "JSON lines of OpenAI's batch API or vllm run-batch with the custom_id values of "
            f"{folder}/batch-*.jsonl"
        )


def _print_report(reading: ReadReport) -> None:
    for kind, texts in reading.problems.items():
        for text in texts[:_MAX_PRINTED]:
            click.echo(f"{kind}: {text}", err=True)
        if reading.counts[kind] > _MAX_PRINTED:
            click.echo(f"{kind}: and {reading.counts[kind] - _MAX_PRINTED:,} more", err=True)
    counts = [f"{count:,} {kind}" for kind, count in reading.counts.items() if count]
    click.echo(f"Answers: {', '.join(counts) or 'none'}")


def _print_next(batches: Batches, folder: str) -> None:
    from fairtk.batch.files import read_manifest

    rows = batches.status(folder)
    answered, failed, out = (int(rows[name].sum()) for name in ("answered", "failed", "out"))
    total, number = int(rows["prompts"].sum()), max(rows["round"], default=0)
    click.echo(
        f"Round {number}: {answered:,} of {total:,} prompts answered, {failed:,} failed, "
        f"{out:,} pending"
    )
    study = read_manifest(Path(folder)).get("command") or "the same work"
    if not out:
        click.echo(
            f"Next: fairtk prompts write (the next round and failed prompts), or {study} --offline"
        )


@command.command("status")
@folder_argument
@ledger_option
@format_option
def status(folder: str, ledger: str | None, form: str) -> None:
    """Show the state of the prompts in DIR, file by file, and the next step."""
    with _batches(folder, ledger) as batches:
        echo_frame(form, batches.status(folder))
        if form == TABLE:
            _print_next(batches, folder)


@command.command("drop")
@folder_argument
@ledger_option
def drop(folder: str, ledger: str | None) -> None:
    """Drop the unanswered prompts in DIR, so that they can be requested or written again.

    First cancel the batch at the server, which otherwise charges for its answers. If DIR was
    deleted, give --ledger.
    """
    with _batches(folder, ledger) as batches:
        click.echo(f"Dropped prompts: {batches.drop(folder):,}")


@contextlib.contextmanager
def _batches(folder: str, ledger: str | None) -> Iterator[Batches]:
    from fairtk.batch import Batches
    from fairtk.batch.files import ledger_of
    from fairtk.llm import Ledger

    path = Path(ledger) if ledger else ledger_of(folder)
    if not path.exists():
        raise InputError(f"{path}: no such ledger (of {folder}); use --ledger")
    with Ledger(path) as opened:
        yield Batches(opened)


def _study(source: str) -> tuple[list[str], str]:
    """Return the command of a study, without ``fairtk``, and its working directory.

    Raises:
        InputError: the study does not exist.
    """
    path = Path(source).expanduser()
    file = path / COMMAND_FILE if path.is_dir() else path
    if not file.is_file():
        if path.is_dir():
            raise InputError(
                f"{source}: expected the output folder of a study, got a folder without "
                f"{COMMAND_FILE}; use the study's TOML file"
            )
        raise InputError(f"{source}: no such TOML file or output folder of a study")
    if not registry.studies.names():
        raise MissingPluginError(f"{file}: the command that reads this study", PAPERS)
    if path.is_dir():
        return _stored_command(file)
    return [_kind(path), str(path.absolute())], os.getcwd()


def _stored_command(path: Path) -> tuple[list[str], str]:
    """Return the command and the working directory in a study's folder."""
    from fairtk.io.lines import read_json

    content = read_json(path)
    with contextlib.suppress(TypeError, KeyError, ValueError, AttributeError):
        words, folder = shlex.split(content["command"].strip()), content["folder"]
        if os.path.isdir(folder) and words[0] in registry.studies.names():
            return words, folder
    raise FormatError(
        "expected the study's command (rag or qr) and an existing working directory; use the "
        "study's TOML file",
        path,
    )


def _kind(path: Path) -> str:
    errors: dict[str, str] = {}
    names = registry.studies.names()
    for name in names:
        try:
            registry.studies.load(name).read(path)
        except FormatError as error:
            errors[name] = error.reason
    matches = [name for name in names if name not in errors]
    if len(matches) == 1:
        return matches[0]
    if matches:
        commands = " or ".join(f"fairtk {name}" for name in matches)
        raise FormatError(
            f"ambiguous study of {commands}; set its model by 'generators' or a table [llm]", path
        )
    if len(set(errors.values())) == 1:
        raise FormatError(next(iter(errors.values())), path)
    reasons = "; ".join(f"fairtk {name}: {reason}" for name, reason in errors.items())
    raise FormatError(f"not a study ({reasons})", path)


def _options(more: dict[str, Any]) -> list[str]:
    """Return the given options of a study as command-line words."""
    words = [f"--set={text}" for text in more.pop("server_settings")]
    for name, value in more.items():
        option = f"--{name.replace('_', '-')}"
        if value is True:
            words.append(option)
        elif value is not None and value is not False:
            words.append(f"{option}={os.path.abspath(value) if name == 'prices' else value}")
    return words
