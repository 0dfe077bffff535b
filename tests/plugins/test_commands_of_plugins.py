"""Commands: entry points of the group ``fairtk.commands``."""

import json
import sys

import click.testing
import pytest
from distributions import ROOT, run, write

from fairtk import __version__ as fairtk_version
from fairtk.cli import group
from fairtk.cli.group import FairtkGroup, cli
from fairtk.plugins.entry_points import RESTRICT, STRICT

HELLO = """
import click

@click.command()
@click.argument("file", required=False)
@click.option("-o", "--output")
def command(file, output):
    \"\"\"Say hello.\"\"\"
    import ir_measures

    click.echo(f"hello {ir_measures.parse_measure('EE_D@5')}")
"""
FAILING = "import a_module_that_nobody_has\n"
EXITING = "print('bye')\nraise SystemExit(3)\n"
OF_ANOTHER_TYPE = "def command():\n    pass\n"


@pytest.fixture
def fairtk(tmp_path, monkeypatch):
    """Run a new command line in this process, with commands that ``fairtk.install`` adds."""
    for variable in (RESTRICT, STRICT):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.syspath_prepend(tmp_path)

    def call(*words):
        @click.group(cls=FairtkGroup)
        @click.option("--debug", is_flag=True)
        def group(debug):
            pass

        return click.testing.CliRunner().invoke(group, words)

    def install(name, command, code=HELLO, **more):
        monkeypatch.delitem(sys.modules, name.replace("-", "_"), raising=False)
        write(tmp_path, name, code, command=command, **more)

    call.install = install
    return call


def test_a_command_of_a_plugin(fairtk):
    fairtk.install("lab-one", "hello")
    assert fairtk("hello").stdout == "hello EE_D@5\n"
    assert "Say hello." in fairtk("--help").stdout
    assert "--strict" in fairtk("hello", "--help").stdout
    assert "'hello'" in fairtk("helo").stderr
    rows = json.loads(fairtk("plugins", "--format", "json").stdout)
    [row] = [row for row in rows if row["distribution"] == "lab-one"]
    assert (row["version"], row["hook"], row["gave"]) == ("1.0", "fairtk.commands", "hello")
    assert row["problem"] == ""


def test_it_does_not_overwrite_what_it_reads(fairtk, tmp_path):
    fairtk.install("lab-two", "hello")
    file = tmp_path / "run.txt"
    file.write_text("")
    result = fairtk("hello", str(file), "-o", str(file))
    assert result.exit_code == 2 and str(file) in result.stderr
    assert fairtk("hello", str(file), "-o", str(tmp_path / "new.txt")).exit_code == 0


@pytest.mark.parametrize("code", [FAILING, EXITING, OF_ANOTHER_TYPE])
def test_a_broken_command_is_left_out_with_a_warning(fairtk, monkeypatch, code):
    fairtk.install("lab-broken", "odd", code)
    fairtk.install("lab-three", "hello")
    result = fairtk("--help")
    assert result.exit_code == 0
    [warning] = result.stderr.splitlines()[-1:]
    assert warning.startswith("warning: plugin: the command 'odd' of lab-broken 1.0 ")
    assert " hello " in result.stdout and " odd " not in result.stdout

    result = fairtk("hello")
    assert (result.exit_code, result.stderr) == (0, "")
    result = fairtk("odd")
    assert result.exit_code == 2
    assert "the command 'odd' of lab-broken 1.0 " in result.stderr
    assert "the command 'odd' of lab-broken 1.0 " in fairtk("plugins").stdout

    assert fairtk("--help", "--strict").exit_code == 1
    monkeypatch.setenv(STRICT, "1")
    result = fairtk("--help")
    assert result.exit_code == 1 and "the command 'odd' of lab-broken 1.0 " in result.stderr


def test_a_command_for_another_version_of_fairtk_is_not_imported(fairtk, monkeypatch):
    fairtk.install("lab-old", "hello", "raise AssertionError", requires=["fairtk>=0.1,<0.2"])
    monkeypatch.setitem(group.COMMANDS_OF_PLUGINS, "hello", "lab-old")
    result = fairtk("hello")
    assert result.exit_code == 2
    warning, error = result.stderr.splitlines()[0], result.stderr.splitlines()[-1]
    assert "the command 'hello' of lab-old 1.0 is left out: it requires fairtk<0.2,>=0.1" in warning
    assert f"got fairtk {fairtk_version}; update or uninstall it" in warning
    assert "unknown command 'hello'" in error and "not installed" not in error


@pytest.mark.parametrize(("name", "owner"), [("evaluate", "fairtk 0"), ("hello", "lab-four 1.0")])
def test_a_name_given_twice_names_both_owners(fairtk, monkeypatch, name, owner):
    fairtk.install("lab-four", "hello")
    fairtk.install("lab-thief", name, "raise AssertionError")
    result = fairtk(name, "--help")
    assert result.exit_code == 0 and "Error" not in result.output
    [line] = result.stderr.splitlines()
    assert f"the command '{name}' of lab-thief 1.0 " in line and f" {owner}" in line
    assert fairtk(name, "--help", "--strict").exit_code == 1
    monkeypatch.setenv(STRICT, "1")
    assert fairtk(name, "--help").exit_code == 1


def test_only_commands_of_chosen_distributions(fairtk, monkeypatch):
    fairtk.install("lab-five", "hello")
    fairtk.install("lab-six", "greet", FAILING)
    monkeypatch.setenv(RESTRICT, "lab-five")
    result = fairtk("--help")
    assert result.stderr == "" and " hello " in result.stdout
    assert fairtk("greet").exit_code == 2
    monkeypatch.setenv(RESTRICT, "")
    assert fairtk("hello").exit_code == 2
    assert " evaluate " in fairtk("--help").stdout


def test_the_packaged_commands_work():
    context = click.Context(cli)
    names = [point.command for point in cli.entry_points]
    assert all(isinstance(cli.get_command(context, name), click.Command) for name in names)
    assert [point.problem for point in cli.entry_points if point.problem] == []


SCRIPT = """
import sys
from fairtk_command import main
if __name__ == "__main__":
    sys.exit(main())
"""
SPAWNING = """
import multiprocessing

import click


def work():
    import fairtk, ir_measures

    return repr(ir_measures.parse_measure("EE_D@5"))


@click.command()
def command():
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        click.echo(pool.apply(work))
"""


@pytest.mark.slow
def test_a_worker_of_the_console_script_has_the_measures(tmp_path):
    """A new interpreter, which imports the script, and so `fairtk_command`."""
    folder = write(tmp_path, "lab-spawning", SPAWNING, command="spawn")
    script = tmp_path / "fairtk"
    script.write_text(SCRIPT)
    out, err = run([str(script), "spawn"], folder, ROOT)
    assert (out, err) == ("EE_D@5\n", "")
