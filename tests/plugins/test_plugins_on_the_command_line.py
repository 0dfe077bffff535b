"""Plugins that misbehave, through the command line in a process of its own."""

import json

import pytest
from distributions import HELLO, fairtk, write

pytestmark = pytest.mark.slow

MEASURE = """
import sys
from fairtk import FairMeasure, hookimpl

print("loading the plugin")

class Odd(FairMeasure):
    \"\"\"A measure that misbehaves.\"\"\"

    NAME = "Odd"
    PRETTY_NAME = "odd"
    BETTER = "higher"
    MISSING = 0.0

    def score_query(self, qrels, run):
        return VALUE

@hookimpl
def fairtk_measures():
    print("giving")
    return [Odd()]
"""
HOOK = """
from fairtk import hookimpl

@hookimpl
def fairtk_measures(register):
    register(None)
"""


@pytest.fixture
def words(tmp_path):
    (tmp_path / "qrels.txt").write_text("q1 0 a 1\nq1 0 b 0\n")
    (tmp_path / "run.txt").write_text("q1 Q0 a 1 2 x\nq1 Q0 b 2 1 x\n")
    files = [str(tmp_path / "qrels.txt"), str(tmp_path / "run.txt")]
    return ["evaluate", *files, "--format", "json", "-m"]


def plugin(tmp_path, code):
    return write(tmp_path / "plugin", "fairtk-odd", code)


def test_what_it_prints_when_it_is_loaded_is_not_on_stdout(tmp_path, words):
    folder = plugin(tmp_path, MEASURE.replace("VALUE", "0.25"))
    out, err = fairtk([*words, "Odd"], folder)
    assert json.loads(out)[0]["mean"] == 0.25
    assert err.split("\n")[:2] == ["loading the plugin", "giving"]


@pytest.mark.parametrize("value", ["'0.5'", "None", "float('inf')"])
def test_a_measure_that_gives_no_number_is_named(tmp_path, words, value):
    folder = plugin(tmp_path, MEASURE.replace("VALUE", value))
    out, err = fairtk([*words, "Odd"], folder, exits=1)
    assert out == ""
    assert "Error: measure Odd (plugin fairtk-odd 1.0), qid 'q1' " in err.splitlines()[-1]


def test_a_broken_hook_stops_nothing(tmp_path, words):
    folder = plugin(tmp_path, HOOK)
    out, err = fairtk([*words, "RR"], folder)
    assert json.loads(out)[0]["mean"] == 1
    assert "Commands:" in fairtk(["--help"], folder)[0]
    out, err = fairtk(["datasets"], folder)
    assert out
    [line] = err.splitlines()
    assert line.startswith("warning: plugin: plugin fairtk-odd 1.0 is left out")
    out, err = fairtk(["datasets", "--strict"], folder, exits=1)
    assert "\nError: plugin: plugin fairtk-odd 1.0 is left out" in f"\n{err}"


def test_a_plugin_that_works_warns_of_nothing(tmp_path, words):
    folder = write(tmp_path / "p", "fairtk-hello", (HELLO / "fairtk_hello.py").read_text())
    assert fairtk([*words, "ExposureGini@1", "--strict"], folder)[1] == ""
