import json
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import click
import pytest

from fairtk.cli import options
from fairtk.cli.group import FairtkGroup, cli, main
from fairtk.cli.output import TABLE
from fairtk.display.tables import RENDERED
from fairtk.errors import DataWarning, InputError, ModelError
from fairtk.plugins import registry

COMMANDS = [point.command for point in cli.entry_points if point.name == "fairtk"]


def group_with(action):
    """A group like the real one, with one command that does something."""

    @click.group(cls=FairtkGroup)
    @click.option("--debug", is_flag=True)
    def cli(debug):
        pass

    @cli.command("act")
    def act():
        action()

    return cli


def run(action, *words):
    return click.testing.CliRunner().invoke(group_with(action), words or ["act"])


def raising(error):
    def action():
        raise error

    return action


class TestErrors:
    @pytest.mark.parametrize(
        ("error", "code", "line"),
        [
            (InputError("the score is\n  NaN"), 2, "Error: the score is NaN"),
            (ModelError("no weights"), 1, "Error: no weights"),
            (FileNotFoundError(2, "No such file", "x.txt"), 1, "Error: x.txt: No such file"),
            (KeyError("x"), 1, "Error: KeyError: 'x'; --debug shows the traceback"),
            (
                MemoryError("unable to allocate"),
                1,
                "Error: out of memory (unable to allocate); free some, or use fewer queries or "
                "samples at a time",
            ),
            (RuntimeError(), 1, "Error: RuntimeError: no message; --debug shows the traceback"),
            (click.ClickException("said"), 1, "Error: said"),
            (click.UsageError("wrong use."), 2, "Error: wrong use (see "),
            (click.Abort(), 1, "Aborted."),
        ],
    )
    def test_one_line_and_a_code(self, error, code, line):
        result = run(raising(error))
        assert result.exit_code == code
        assert result.stdout == ""
        assert result.stderr.startswith(line)
        assert len(result.stderr.splitlines()) == 1

    def test_ctrl_c_has_the_code_that_shells_give_it(self):
        result = run(raising(KeyboardInterrupt()))
        assert (result.exit_code, result.stdout, result.stderr) == (130, "", "\nAborted.\n")

    @pytest.mark.parametrize("words", [("--debug", "act"), ("act", "--debug")])
    def test_debug_shows_the_traceback(self, words):
        result = run(raising(InputError("bad")), *words)
        assert result.exit_code == 2
        assert result.stderr.startswith("Traceback (most recent call last):")
        assert result.stderr.endswith("Error: bad\n")

    def test_exit_codes_of_commands_are_kept(self):
        assert run(lambda: sys.exit(5)).exit_code == 5
        assert run(lambda: click.get_current_context().exit(3)).exit_code == 3
        assert run(lambda: None).exit_code == 0

    def test_warnings_are_one_line_each_and_given_once(self):
        import warnings

        def action():
            for text in ("first\nwarning", "second", "first\nwarning"):
                warnings.warn(text, DataWarning, stacklevel=1)
            warnings.warn("for developers", DeprecationWarning, stacklevel=1)

        result = run(action)
        assert result.exit_code == 0
        assert result.stderr == "warning: data: first warning\nwarning: data: second\n"


class TestGroup:
    def test_help_lists_all_commands(self, fairtk):
        assert len(COMMANDS) > 10
        result = fairtk("--help")
        assert result.exit_code == 0
        for name in COMMANDS:
            assert f"  {name} " in result.stdout
            assert cli.get_command(click.Context(cli), name).short_help in result.stdout

    @pytest.mark.parametrize("name", COMMANDS)
    def test_each_command_has_help(self, fairtk, name):
        result = fairtk(name, "--help")
        assert result.exit_code == 0
        assert result.stdout.startswith(f"Usage: cli {name}") or "Usage:" in result.stdout

    @pytest.mark.parametrize("name", [name for name in COMMANDS if name != "prompts"])
    def test_each_command_says_where_its_result_goes_and_how(self, fairtk, name):
        stdout = fairtk(name, "--help").stdout
        assert "-o, --output " in stdout
        assert ("--format [table|csv|json|latex|markdown]" in stdout) == (
            name not in ("export", "report", "sample")
        )

    def test_formats_are_those_of_the_library(self):
        assert (TABLE, *RENDERED) == options.FORMATS

    def test_a_command_like_no_other(self, fairtk):
        result = fairtk("zzzz")
        assert result.exit_code == 2
        names = result.stderr.partition("; known: ")[2].removesuffix(" (see fairtk --help)\n")
        assert set(COMMANDS) <= set(names.split(", "))

    def test_main(self, capsys):
        with pytest.raises(SystemExit) as caught:
            main(["plugins", "--format", "json"])
        assert caught.value.code == 0
        assert json.loads(capsys.readouterr().out)


class TestListings:
    def test_measures(self, fairtk):
        result = fairtk("measures")
        assert result.exit_code == 0
        for name in [*registry.measures.names(), *registry.utilities.names(), "RBP(p=0.5)"]:
            assert f"\n{name} " in result.stdout
        assert max(map(len, result.stdout.splitlines())) <= 100
        assert "\nnDCG " not in result.stdout
        assert "\nnDCG " in fairtk("measures", "--all").stdout

    @pytest.mark.parametrize("name", ["rougeL", "RBP", "EE_D", "nDCG"])
    def test_a_name_in_another_case_is_suggested(self, fairtk, name):
        result = fairtk("measures", name.lower())
        assert result.exit_code == 2
        assert result.stderr == (
            f"Error: unknown measure, utility or browsing model {name.lower()!r}; did you mean "
            f"{name!r}?\n"
        )

    def test_a_browsing_model_that_needs_a_setting(self, fairtk):
        assert "Fitted(weight=..., standard_error=())" in fairtk("measures").output

    def test_one_measure(self, fairtk):
        result = fairtk("measures", "EE_D")
        assert re.search(r"browsing +'MU'", result.stdout)
        assert "cutoff" in result.stdout
        assert ".. cite" not in fairtk("measures", "nDCG").stdout
        assert fairtk("measures", "rougeL").stdout.startswith("rougeL: string utility")
        assert fairtk("measures", "mae").stdout.startswith("mae(low=1.0, high=5.0): ")
        assert fairtk("measures", "RBP").stdout.startswith("RBP(p=0.5): ")
        assert "did you mean 'EE_D'" in fairtk("measures", "EED").stderr

    @pytest.mark.parametrize(
        "words",
        [["measures"], ["measures", "EE_D"], ["measures", "RBP"], ["datasets"], ["plugins"],
         ["cite", "AWRF"]],
    )  # fmt: skip
    def test_into_a_file_in_any_format(self, fairtk, folder, words):
        printed = fairtk(*words).stdout
        done = fairtk(*words, "-o", "out.txt")
        assert (done.exit_code, done.stdout) == (0, "")
        assert (folder / "out.txt").read_text().rstrip() == printed.rstrip()
        assert fairtk(*words, "--output", "-").stdout == printed
        rows = json.loads(fairtk(*words, "--format", "json").stdout)
        assert rows
        assert all(isinstance(row, dict) for row in rows)


ELSEWHERE = {
    "explain": "fairtk.analysis.explain_command",
    "frontier": "fairtk.analysis.frontier_command",
    "sensitivity": "fairtk.analysis.sensitivity_command",
    "prompts": "fairtk.batch.command",
    "providers": "fairtk.credit.command",
}
"""The modules of commands of optional parts."""


class TestInstalledScript:
    SCRIPT = Path(sysconfig.get_path("scripts")) / "fairtk"

    def test_it_runs(self, folder):
        if not self.SCRIPT.exists():
            pytest.skip("fairtk is not installed as a script here")
        words = ["evaluate", "qrels.txt", "fair.run", "-m", "EE_D@1", "--format", "csv"]
        done = subprocess.run([self.SCRIPT, *words], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.splitlines()[1] == "fair,EE_D@1,0.5,2,2"

    def test_an_unknown_command(self, fairtk):
        done = fairtk("evalute")
        assert done.exit_code == 2
        assert done.stderr.startswith("Error: unknown command 'evalute'; did you mean 'evaluate'?")
        assert "see fairtk --help" in done.stderr

    @pytest.mark.parametrize(
        ("words", "ours", "heavy"),
        [
            (["--help"], COMMANDS, {"numpy", "pandas", "ir_measures", "pluggy"}),
            (["cite", "--help"], ["cite"], {"numpy", "pandas", "ir_measures", "pluggy"}),
            (["evaluate", "--help"], ["evaluate"], {"matplotlib", "torch"}),
        ],
    )
    def test_help_loads_no_more_than_it_shows(self, words, ours, heavy):
        start = "from fairtk_command import main; main()"
        command = [sys.executable, "-v", "-c", start, *words]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        loaded = re.findall(r"^import '([\w.]+)'", done.stderr, re.MULTILINE)
        assert not heavy & {*loaded}
        ours = [ELSEWHERE.get(name, f"fairtk.cli.{name}") for name in ours]
        shared = ("group", "options", "output", "signature", "source")
        shared = [f"fairtk.cli.{name}" for name in shared]
        late = [name for name in loaded if name.startswith("fairtk.cli.") or "command" in name]
        late = [name for name in late if name.startswith("fairtk.")]
        assert sorted(late) == sorted([*ours, *shared])
        assert "Usage: fairtk" in done.stdout

    def test_a_program_of_this_name_has_the_measures(self):
        code = (
            "import sys; sys.argv = ['/usr/bin/fairtk', '--help']; import fairtk, ir_measures; "
            "print(repr(ir_measures.parse_measure('EE_D@5')))"
        )
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stdout == "EE_D@5\n"


@pytest.mark.parametrize(
    ("words", "target"),
    [
        (["evaluate", "qrels.txt", "plain.run", "-m", "EE_D@2", "-o", "plain.run"], "plain.run"),
        (["evaluate", "qrels.txt", "plain.run", "-m", "EE_D@2", "-o", "./qrels.txt"], "qrels.txt"),
        (["evaluate", "qrels.txt", "plain.run", "-m", "EE_D@2", "-o", "link"], "plain.run"),
        (["evaluate", "qrels.txt", "plain.run", "-m", "EE_D@2", "--page", "link"], "plain.run"),
        (["sample", "plain.run", "-o", "plain.run"], "plain.run"),
        (["doctor", "qrels.txt", "plain.run", "--output", "qrels.txt"], "qrels.txt"),
    ],
)
def test_no_command_overwrites_what_it_reads(folder, fairtk, words, target):
    (folder / "link").symlink_to("plain.run")
    before = (folder / target).read_bytes()
    result = fairtk(*words)
    assert result.exit_code == 2
    assert f"would overwrite the input {target};" in result.stderr
    assert (folder / target).read_bytes() == before


def test_standalone_mode_is_optional(capsys):
    # as with any click command: the result is returned, and errors are raised
    assert cli.main(["cite", "EE_D"], standalone_mode=False) is None
    assert "@" in capsys.readouterr().out
    with pytest.raises(click.UsageError):
        cli.main(["evaluate"], standalone_mode=False)
