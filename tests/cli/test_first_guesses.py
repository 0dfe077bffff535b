"""What people type first: each guess works, or its error says what to type."""

import io
import sys

import click
import pytest

from fairtk.cli.group import cli, main
from fairtk.cli.output import STDOUT, wrapped_on_terminal

CONTEXT = click.Context(cli)
COMMANDS = {name: cli.get_command(CONTEXT, name) for name in cli.list_commands(CONTEXT)}


def error_of(capsys, *words):
    with pytest.raises(SystemExit) as end:
        main([str(word) for word in words])
    assert end.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == ""  # before any work
    return captured.err


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_has_the_name_of_its_entry_point(name):
    assert COMMANDS[name].name == name  # pages and help show it


@pytest.mark.parametrize("name", COMMANDS)
def test_a_choice_as_an_option_is_suggested(name, capsys):
    params = COMMANDS[name].params
    options = {option for param in params for option in param.opts + param.secondary_opts}
    for param in params:
        for choice in getattr(param.type, "choices", ()):
            if f"--{choice}" not in options and isinstance(param, click.Option):
                error = error_of(capsys, name, f"--{choice}")
                assert f"--{choice}" in error
                of_any = [p.opts[-1] for p in params if choice in getattr(p.type, "choices", ())]
                assert any(f"'{option} {choice}'" in error for option in of_any)


def test_a_second_measure_needs_its_option(folder, capsys):
    error = error_of(capsys, "evaluate", "qrels.txt", "plain.run", "-m", "EE_D@1", "EE_R@1")
    assert "'EE_R@1'" in error and "write -m before it" in error
    for words in (["evaluate", "qrels.txt", "absent.run"], ["sample", "absent@1", "-o", "x.run"]):
        assert "-m" not in error_of(capsys, *words).partition("(see")[0]


@pytest.mark.parametrize(
    "words",
    [
        ["evaluate", "qrels.txt", "plain.run", "-m", "EE_D@1", "--page"],
        ["evaluate", "qrels.txt", "plain.run", "-m", "EE_D@1", "-o"],
        ["frontier", "qrels.txt", "plain.run", "--plot"],
        ["sample", "plain.run", "-o"],
    ],
)
def test_the_folder_of_an_output_is_checked_first(words, folder, capsys):
    assert "absent/x.svg: no such folder 'absent'" in error_of(capsys, *words, "absent/x.svg")


def test_the_folder_of_standard_output_is_not_checked(folder, capsys):
    with pytest.raises(SystemExit) as end:
        main(["evaluate", "qrels.txt", "plain.run", "-m", "EE_D@1", "-o", STDOUT])
    assert end.value.code == 0 and "EE_D@1" in capsys.readouterr().out


PLOTTING = [
    name for name, command in COMMANDS.items() if any(p.name == "plot" for p in command.params)
]


@pytest.mark.parametrize("name", PLOTTING)
def test_the_format_of_a_figure_is_checked_first(name, folder, capsys):
    assert "'x.jpg'" in error_of(capsys, name, "qrels.txt", "plain.run", "--plot", "x.jpg")


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("columns", [46, 80, 300])
def test_a_sentence_fits_a_terminal(columns, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(sys, "stdout", Terminal())
    lines = wrapped_on_terminal("warning: " + "a word and " * 30 + "the end", "  ")
    assert len(lines) > 1 and {line[:2] for line in lines[1:]} == {"  "}
    assert min(columns, 100) - 5 <= max(map(len, lines)) <= min(columns, 100)


def test_findings_fit_a_terminal(folder, monkeypatch):
    """A pipe gets each sentence in one line."""
    (folder / "ties.run").write_text("q1 Q0 a 1 3 t\nq1 Q0 b 2 3 t\nq3 Q0 c 1 1 t\n")
    texts = {}
    for kind in (Terminal, io.StringIO):
        monkeypatch.setenv("COLUMNS", "80")
        monkeypatch.setattr(sys, "stdout", kind())
        with pytest.raises(SystemExit):
            main(["doctor", "qrels.txt", "ties.run"])
        texts[kind] = sys.stdout.getvalue()
    plain, wrapped = texts[io.StringIO].splitlines(), texts[Terminal].splitlines()
    sentences = [line for line in plain if line.startswith(("warning", "note", "  -> "))]
    assert len(sentences) == len([line for line in plain[2:] if line]) >= 4
    assert max(map(len, sentences)) > 100
    assert max(map(len, wrapped[2:])) <= 80
    assert " ".join(texts[Terminal].split()) == " ".join(texts[io.StringIO].split())
