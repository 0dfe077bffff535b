"""``fairtk prompts``: a study's prompts in files for others to answer, and their answers."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from fairtk.batch.study_options import COMMAND_FILE, LEDGER, SERVER, paying_options
from fairtk.cli.options import format_option
from fairtk.cli.output import COMMAND, TABLE, echo_frame
from fairtk.errors import FormatError, InputError, MissingPluginError
from fairtk.plugins import registry

if TYPE_CHECKING:
    from fairtk.batch import Batches, ReadReport
    from fairtk.batch.files import Written

PAPERS = "fairtk-papers"
"""The distribution of the project's own studies."""
_SHOWN = 10  # problems of a kind

folder_argument = click.argument("folder", metavar="DIR")
ledger_option = click.option(
    "--ledger",
    metavar="FILE",
    help="The study's ledger, if it is elsewhere than when DIR was made.",
)


@click.group("prompts", short_help="Write a study's prompts for batch APIs, and read answers.")
def command() -> None:
    """Write a study's prompts to files, for a batch API or a cluster, and read the answers.

    What is written is claimed in the study's ledger: nobody asks for it again while it is out. When
    all answers are in, the study goes on with --offline, and gives what it gives online.

    \b
    Examples:
      fairtk prompts write study.toml -o prompts
      vllm run-batch -i prompts/batch-0001.jsonl -o answers.jsonl --model my/model
      fairtk prompts read prompts answers.jsonl
      fairtk rag study.toml --offline
    """  # noqa: D301 - click reads the backslash


@command.command("write")
@click.argument("study", metavar="STUDY")
@click.option("-o", "--output", "folder", metavar="DIR", required=True, help="Where files go.")
@click.option("--rate", type=click.FloatRange(min=0), default=0.5, show_default=True,
              help="What a call costs in a batch, as a share of --prices.")  # fmt: skip
@paying_options
def write(study: str, folder: str, rate: float, **more: Any) -> None:
    """Write the prompts of STUDY that have no answer, as JSON lines of OpenAI's batch API.

    STUDY is the TOML file of `fairtk rag` or `fairtk qr`, or the output folder of one that was
    begun by its command. It runs as far as recorded answers go, and servers are not asked; models
    of this machine are. What depends on answers is written by the next call, when they were read,
    also to the same DIR: labels first, then rankings; of a loop such as FAIR-QR's one round each.

    --max-calls and --max-cost count what is out as it is written, and what is paid as it is read.
    """
    from fairtk.batch.files import write_prompts

    if more["offline"]:
        raise InputError("--offline: no server is asked here in any case; leave it out")
    words, place = _study(study)
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
            contextlib.chdir(place),
            runs.make_context(name, list(arguments), parent=context) as below,
        ):
            runs.invoke(below)
        return True

    written = write_prompts(work, target, rate=rate, command=line)
    _say_written(written, folder)


def _say_written(written: Written, folder: str) -> None:
    price = "" if written.price != written.price else f", at most about {written.price:.4f}"
    if written.prompts:
        click.echo(
            f"Round {written.round}: {written.prompts:,} prompts in {folder} "
            f"(files: {len(written.files)}){price}"
        )
    elif written.results is not None:
        click.echo("Nothing is missing: the study is done.")
    if written.elsewhere:
        click.echo(f"{written.elsewhere:,} prompts are out already, in a batch or a running study.")
    if written.left_out:
        click.echo(f"{written.left_out:,} prompts are left out: {written.reason}")
    elif written.prompts:
        click.echo(f"Then: {written.reason}")


@command.command("read")
@folder_argument
@click.argument("files", metavar="FILES...", nargs=-1, required=True)
@click.option("--model", "models", metavar="NAME", multiple=True,
              help="Another name of the model, to be taken as well. Repeatable.")  # fmt: skip
@ledger_option
def read(folder: str, files: tuple[str, ...], models: tuple[str, ...], ledger: str | None) -> None:
    """Take answers from output and error files of OpenAI's batch API, or of `vllm run-batch`.

    The order is free, and files may be read again. What cannot be taken is counted and named, and
    the rest goes in: errors, duplicates, unknown ids, other models, prompts that were edited, and
    lines that were cut off. A file in which nothing answers a prompt of DIR is an error.
    """
    with _batches(folder, ledger) as batches:
        reading = batches.read(folder, files, models)
        _say_read(reading)
        _say_next(batches, folder)
    if reading.foreign:
        raise InputError(
            f"{', '.join(map(str, reading.foreign))}: nothing in it answers a prompt of {folder}; "
            "expected JSON lines as OpenAI's batch API or vllm run-batch writes them, with the "
            f"custom_id of a line of the files {folder}/batch-*.jsonl"
        )


def _say_read(reading: ReadReport) -> None:
    for kind, texts in reading.problems.items():
        for text in texts[:_SHOWN]:
            click.echo(f"{kind}: {text}", err=True)
        if reading.counts[kind] > _SHOWN:
            click.echo(f"{kind}: and {reading.counts[kind] - _SHOWN:,} more", err=True)
    counts = [f"{kind} {count:,}" for kind, count in reading.counts.items() if count]
    click.echo(f"Answers: {', '.join(counts) or 'none'}")


def _say_next(batches: Batches, folder: str) -> None:
    from fairtk.batch.files import read_manifest

    rows = batches.status(folder)
    answered, failed, out = (int(rows[name].sum()) for name in ("answered", "failed", "out"))
    total, number = int(rows["prompts"].sum()), max(rows["round"], default=0)
    click.echo(
        f"Round {number}: {answered:,} of {total:,} prompts are answered, {failed:,} failed, "
        f"{out:,} are out"
    )
    study = read_manifest(Path(folder)).get("command") or "the same work"
    if not out:
        click.echo(
            "Next: fairtk prompts write, which writes the next round, or what failed, if there is "
            f"any; else: {study} --offline"
        )


@command.command("status")
@folder_argument
@ledger_option
@format_option
def status(folder: str, ledger: str | None, form: str) -> None:
    """Say what became of the prompts in DIR, file by file, and what comes next."""
    with _batches(folder, ledger) as batches:
        echo_frame(form, batches.status(folder))
        if form == TABLE:
            _say_next(batches, folder)


@command.command("drop")
@folder_argument
@ledger_option
def drop(folder: str, ledger: str | None) -> None:
    """Give up what is out in DIR: it may be asked, or written, again.

    What a server still answers is paid for; cancel it there. DIR may be gone: give --ledger.
    """
    with _batches(folder, ledger) as batches:
        click.echo(f"{batches.drop(folder):,} prompts are given up")


@contextlib.contextmanager
def _batches(folder: str, ledger: str | None) -> Iterator[Batches]:
    """Give the batches of a folder's ledger."""
    from fairtk.batch import Batches
    from fairtk.batch.files import ledger_of
    from fairtk.llm import Ledger

    path = Path(ledger) if ledger else ledger_of(folder)
    if not path.exists():
        raise InputError(f"{path}: the ledger of {folder} is not there; name it with --ledger")
    with Ledger(path) as opened:
        yield Batches(opened)


def _study(source: str) -> tuple[list[str], str]:
    """Return the command of a study, without ``fairtk``, and the folder that it runs in.

    Raises:
        InputError: there is no such study, or none with a server's model.
    """
    path = Path(source).expanduser()
    file = path / COMMAND_FILE if path.is_dir() else path
    if not file.is_file():
        if path.is_dir():
            raise InputError(
                f"{source}: no study was run into this folder by its command ({COMMAND_FILE} is "
                "not there); give its TOML file"
            )
        raise InputError(f"there is no TOML file or output folder of a study at {source!r}")
    if not registry.studies.names():
        raise MissingPluginError(f"{file}: the command that reads this study", PAPERS)
    if path.is_dir():
        return _kept(file)
    return [_kind(path), str(path.absolute())], os.getcwd()


def _kept(path: Path) -> tuple[list[str], str]:
    """Return what a study's folder says of its command."""
    from fairtk.io.lines import read_json

    kept = read_json(path)
    with contextlib.suppress(TypeError, KeyError, ValueError, AttributeError):
        words, folder = shlex.split(kept["command"].strip()), kept["folder"]
        if os.path.isdir(folder) and words[0] in registry.studies.names():
            return words, folder
    raise FormatError(
        "this does not say by which command, rag or qr, the study was run, and in which folder "
        "that is there: give the study's TOML file",
        path,
    )


def _kind(path: Path) -> str:
    """Return the command that a TOML file is for: the one that knows its keys."""
    errors: dict[str, str] = {}
    names = registry.studies.names()
    for name in names:
        try:
            registry.studies.load(name).read(path)
        except FormatError as error:
            errors[name] = error.reason
    good = [name for name in names if name not in errors]
    if len(good) == 1:
        return good[0]
    if good:
        commands = " or of ".join(f"fairtk {name}" for name in good)
        raise FormatError(
            f"this may be a study of {commands}: name its model by 'generators', or by a table "
            "[llm]",
            path,
        )
    if len(set(errors.values())) == 1:
        raise FormatError(next(iter(errors.values())), path)
    told = "; ".join(f"fairtk {name}: {reason}" for name, reason in errors.items())
    raise FormatError(f"this is no study ({told})", path)


def _options(more: dict[str, Any]) -> list[str]:
    """Return the options of a study that were given here, as its command takes them."""
    words = [f"--set={text}" for text in more["server_settings"]]
    for name in (*SERVER, *LEDGER):
        value = more[name]
        option = f"--{name.replace('_', '-')}"
        if value is True:
            words.append(option)
        elif value is not None and value is not False:
            words.append(f"{option}={os.path.abspath(value) if name == 'prices' else value}")
    return words
