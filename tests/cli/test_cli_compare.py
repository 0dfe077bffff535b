import json
import re
import subprocess
import sys

import pytest

from fairtk.cli.group import cli
from fairtk.errors import WARNINGS

QRELS = "".join(f"q{i} 0 {d} {int(d == 'abc'[i % 3])}\n" for i in range(9) for d in "abc")
RUNS = {
    "x.run": "".join(f"q{i} Q0 {d} {r} {9 - r} t\n" for i in range(9) for r, d in enumerate("abc")),
    "y.run": "".join(
        f"q{i} Q0 {d} {r} {9 - r} t\n"
        for i in range(9)
        for r, d in enumerate("bca" if i else "abc")
    ),
}
WORDS = ("compare", "qrels.txt", "x.run", "y.run", "-m", "E(RR)")


@pytest.fixture
def runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "qrels.txt").write_text(QRELS)
    for name, text in RUNS.items():
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "form"),
    [
        *((WORDS, form) for form in ("table", "csv", "json", "latex", "markdown")),
        (("evaluate", *WORDS[1:]), "csv"),
    ],
)
def test_output_has_what_the_terminal_would(runs, fairtk, form, words):
    stdout = fairtk(*words, "--format", form).stdout
    result = fairtk(*words, "--format", form, "--output", "out/put.txt")
    assert result.exit_code != 0  # no such folder
    result = fairtk(*words, "--format", form, "--output", "out.txt")
    assert (result.exit_code, result.stdout) == (0, "")
    assert (runs / "out.txt").read_text() == stdout


def test_standard_input(runs, fairtk):
    words = ["evaluate", "qrels.txt", "-", "-m", "RR", "--format", "json"]
    call = [sys.executable, "-m", "fairtk", *words]
    done = subprocess.run(call, input=RUNS["x.run"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, fairtk(*words, stdin=RUNS["x.run"]).stdout)
    wrong = fairtk(*words, stdin="q1 Q0 a\n")
    assert wrong.exit_code == 2 and wrong.stderr.startswith("Error: standard input:1:")
    twice = fairtk(*words, "-", stdin="")
    assert twice.exit_code == 2 and "can be given only once" in twice.stderr


def test_a_baseline_beside_the_runs(runs, fairtk):
    words = ("compare", "qrels.txt", "y.run", "-m", "RR", "--baseline", "x.run", "--format", "json")
    assert [row["run"] for row in json.loads(fairtk(*words).stdout)] == ["x", "y"]


def test_a_baseline_by_the_name_that_is_shown(runs, fairtk):
    by_name, by_file = (
        fairtk(*WORDS, "--baseline", text, "--format", "csv") for text in ("y", "y.run")
    )
    assert by_name.exit_code == 0 and by_name.stdout == by_file.stdout


def test_the_page_has_the_test_that_was_asked_for(runs, fairtk):
    pytest.importorskip("jinja2")
    done = fairtk(*WORDS, "--test", "randomization", "--baseline", "y", "--page", "page.html")
    assert done.exit_code == 0 and done.stderr.endswith("Page: page.html\n")
    text = (runs / "page.html").read_text(encoding="utf-8")
    assert "randomization test" in text and "Differences from <bdi>y</bdi>" in text


def test_a_line_names_the_runs_that_differ(runs, fairtk):
    assert "Significantly different from x (p < 0.05): no run." in fairtk(*WORDS).stdout
    (runs / "z.run").write_text("".join(f"q{i} Q0 z 0 9 t\n" for i in range(9)))
    found = fairtk("compare", "qrels.txt", "x.run", "z.run", "-m", "E(RR)")
    assert "Significantly different from x (p < 0.05): z in E(RR)." in found.stdout


@pytest.mark.parametrize("form", ["table", "latex", "markdown"])
def test_digits_behind_the_point(runs, fairtk, form):
    text = fairtk(*WORDS, "--format", form, "--digits", "2").stdout
    assert re.search(r"\b0\.61\b", text) and "0.6111" not in text
    assert fairtk(*WORDS, "--format", form, "--digits", "0").exit_code == 2
    both = [fairtk(*WORDS, "--format", "csv", "--digits", n).stdout for n in "25"]
    assert both[0] == both[1]  # data keep all


COMMANDS = [point.command for point in cli.entry_points if point.name == "fairtk"]


class TestEveryCommand:
    @pytest.mark.parametrize("name", COMMANDS)
    def test_a_mistyped_option_is_wrong_input(self, fairtk, name):
        result = fairtk(name, "--strct")
        assert result.exit_code == 2 and "No such option" in result.stderr
        assert len(result.stderr.splitlines()) == 1 and "--strict" in result.stderr

    def test_warnings_are_listed_by_name(self, fairtk):
        stdout = fairtk("--help").stdout
        assert all(f"\n  {name} " in stdout for name in WARNINGS)


class TestTerminal:
    def test_control_characters_are_escaped(self, runs, fairtk):
        (runs / "e\x1b[2Jvil.run").write_text("q0 Q0 a 1\n")
        result = fairtk("evaluate", "qrels.txt", "e\x1b[2Jvil.run", "-m", "RR")
        assert result.exit_code == 2 and "\x1b" not in result.stderr
        assert r"e\x1b[2Jvil.run:1:" in result.stderr
        result = fairtk("evaluate", "qrels.txt", "no\x1b[2J.run", "-m", "RR")
        assert result.exit_code == 2 and "\x1b" not in result.stderr

    def test_ids_in_tables_are_escaped(self, runs, fairtk):
        (runs / "qrels.txt").write_text("q\u202e1 0 a 1\n")
        (runs / "x.run").write_text("q\u202e1 Q0 a 1 2.0 t\n")
        words = ("evaluate", "qrels.txt", "x.run", "-m", "RR", "--per-query")
        assert r"q\u202e1" in fairtk(*words).stdout
        assert json.loads(fairtk(*words, "--format", "json").stdout)[0]["qid"] == "q\u202e1"

    def test_the_end_of_a_pipe_is_no_error(self):
        code = f"{sys.executable} -m fairtk measures --all --format json | head -c 1"
        done = subprocess.run(["bash", "-c", code], capture_output=True, text=True)
        assert done.stderr == ""


def test_the_caption_reports_rankings_that_are_cut_off(runs, fairtk):
    (runs / "cut.run").write_text("".join(f"q{i} Q0 a 0 9 t\n" for i in range(9)))
    result = fairtk("compare", "qrels.txt", "x.run", "cut.run", "-m", "EE_D@3")
    assert "9 queries of cut" in result.stdout and "9 queries of cut" in result.stderr
