"""`--separator` and `--unknown-value` of each command with files of groups or providers."""

import click
import pandas as pd
import pyterrier as pt
import pytest

from fairtk import Experiment
from fairtk.cli.group import cli
from fairtk.cli.signature import is_file_of_groups

TEXTS = "docno\tgroup\na\tx|y\nb\tx\nc\tN/A\n"
LONG = "docno\tgroup\na\tx\na\ty\nb\tx\nc\t\n"
OPTIONS = ("--separator", "|", "--unknown-value", "n/a")

FILES = ("qrels.txt", "plain.run", "fair.run")
RESAMPLES = ("--resamples", "9")
MEASURE = ("-m", "AWRF@2", "--target", "uniform")
COMMANDS = {
    "compare": (*FILES, *MEASURE, "-g"),
    "doctor": (*FILES[:2], "--target", "uniform", "-k", "2", "-g"),
    "evaluate": (*FILES, *MEASURE, "--per-query", "-g"),
    "explain": (*FILES[:2], *MEASURE, "-g"),
    "export": ("store", "-o", "output", "--qrels", "qrels.txt", *MEASURE, "-g"),
    "frontier": (*FILES[:2], "-x", "AWRF@2", "-a", "1", *RESAMPLES, "--target", "uniform", "-g"),
    "groups": ("--target", "uniform"),
    "providers": (*FILES[:2], "-k", "2", "--providers"),
    "report": ("store", "-o", "output", "--qrels", "qrels.txt", *MEASURE, "-g"),
    "sensitivity": (*FILES, *MEASURE, "-g"),
}
"""The arguments of each command, before the file of groups."""


def test_each_command_with_groups_is_tested():
    context = click.Context(cli)
    commands = {name: cli.get_command(context, name) for name in cli.list_commands(context)}
    of_groups = [n for n, one in commands.items() if any(map(is_file_of_groups, one.params))]
    assert {*of_groups} == {*COMMANDS}


@pytest.fixture
def outputs(folder, fairtk, monkeypatch):
    """Return the output of a command with two files of the same name."""

    def run(command, text, *options):
        (folder / "group.tsv").write_text(text)
        result = fairtk(command, *COMMANDS[command], "group.tsv", *options)
        assert result.exit_code == 0, result.stderr
        if command == "export":
            return pd.read_parquet(folder / "output" / "values.parquet").to_csv(), result.stderr
        return result.stdout, result.stderr

    return run


@pytest.mark.parametrize("command", COMMANDS)
def test_options_of_cells(command, folder, outputs):
    if "store" in COMMANDS[command]:
        frame = pd.DataFrame({"qid": ["q1"] * 3, "docno": ["a", "b", "c"], "score": [3.0, 2, 1]})
        topics = pd.DataFrame({"qid": ["q1"], "query": ["x"]})
        Experiment({"a": pt.Transformer.from_df(frame)}, topics, save_dir=folder / "store")
    expected = outputs(command, LONG)
    if command == "export":
        (folder / "output").rename(folder / "earlier")
    assert outputs(command, TEXTS, *OPTIONS) == expected


@pytest.mark.parametrize("command", ["evaluate", "providers", "groups"])
def test_remarks_name_options(command, outputs):
    _, text = outputs(command, "docno\tgroup\na\tx|y\nb\tx\nc\ty\n")
    assert "--separator" in text and "x|y" in text
    _, text = outputs(command, "docno\tgroup\na\tx\nb\tNone\nc\ty\n")
    assert "--unknown-value" in text and "None" in text
    _, text = outputs(command, "docno\tgroup\na\tx\nb\tNone\nc\ty\n", "--unknown-value", "")
    assert "'None'" not in text


def test_strict_refuses_labels_that_may_be_wrong(folder, fairtk):
    (folder / "group.tsv").write_text("docno\tgroup\na\tx|y\nb\tx\nc\ty\n")
    result = fairtk("groups", "group.tsv", "--strict")
    assert result.exit_code != 0
