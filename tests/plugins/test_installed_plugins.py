"""Distributions as users install them, good and bad, seen by a new process."""

import json
import sys

import pytest
from distributions import BROKEN, HELLO, copied, environment, fairtk, pip, python, run, write

from fairtk import __version__ as fairtk_version
from fairtk.plugins import registry

pytestmark = pytest.mark.slow

# their plugins are called as those of the project, which developers may have installed
without_hello = pytest.mark.skipif(
    "ExposureGini" in registry.measures, reason="fairtk-hello is installed"
)

EXPERIMENT = """
import fairtk, ir_measures, pyterrier as pt
from fairtk.testing import toy_qrels, toy_run, toy_samples, toy_topics
measure = ir_measures.parse_measure("ExposureGini@2")
print(repr(measure), fairtk.plugins.registry.measures.get("ExposureGini") @ 2 == measure)
systems = [pt.Transformer.from_df(frame) for frame in (toy_run(), toy_samples())]
table = pt.Experiment(systems, toy_topics(), toy_qrels(), [measure, fairtk.EE_D @ 2])
print(table[["ExposureGini@2", "EE_D@2"]].round(4).to_numpy().tolist())
"""

NAMES = "import fairtk; print(fairtk.plugins.registry.measures.names())"


@pytest.fixture
def runs(tmp_path):
    """Write a qrels file and a run file with two samples."""
    qrels, run = tmp_path / "qrels.txt", tmp_path / "run.txt"
    qrels.write_text("q1 0 a 1\nq1 0 b 1\nq1 0 c 0\n")
    run.write_text("q1 0 a 1 2 x\nq1 0 b 2 1 x\nq1 1 a 1 2 x\nq1 1 c 2 1 x\n")
    return [str(qrels), str(run)]


def test_hello_from_installation_to_removal(tmp_path, runs):
    pytest.importorskip("setuptools")
    venv = environment(tmp_path / "venv")
    pip(["install", copied(HELLO, tmp_path)], venv)
    out = python(EXPERIMENT, interpreter=venv)[0]
    # plain run, first two ranks. q1: useful d1 and d3 are both shown: 0. q2: d2, d4 shown, d6 not:
    # counts 0, 1, 1, G = 2 / (3 * 2) = 1/3. q3: d6 of d3, d5, d6: 1 - 1/3. q4: 0. Mean 1/4.
    assert out.splitlines()[0] == "ExposureGini@2 True"
    assert json.loads(out.splitlines()[1])[0][0] == 0.25
    assert "ExposureGini" in fairtk(["measures"], interpreter=venv)[0]
    assert "fairtk-hello" in fairtk(["plugins"], interpreter=venv)[0]
    evaluate = ["evaluate", *runs, "-m", "ExposureGini@2", "-m", "EE_D@2", "--format", "json"]
    # a is shown twice, b once: G = (-1 * 1 + 1 * 2) / (2 * 3) = 1/6
    assert "0.1666" in fairtk(evaluate, interpreter=venv)[0]

    pip(["uninstall", "--yes", "fairtk-hello"], venv)
    assert "ExposureGini" not in fairtk(["measures"], interpreter=venv)[0]
    assert "fairtk-hello" not in fairtk(["plugins"], interpreter=venv)[0]
    assert "unknown measure 'ExposureGini'" in fairtk(evaluate, interpreter=venv, exits=2)[1]


def test_a_broken_distribution_is_named_and_all_else_works(tmp_path, runs):
    pytest.importorskip("setuptools")
    venv = environment(tmp_path / "venv")
    pip(["install", copied(BROKEN, tmp_path)], venv)
    good = write(tmp_path / "good", "fairtk-hello", (HELLO / "fairtk_hello.py").read_text())
    out, err = python(EXPERIMENT, good, interpreter=venv)
    assert out.startswith("ExposureGini@2 True")
    assert err.count("PluginWarning") == 1
    assert "plugin fairtk-broken 0.2 is left out: ModuleNotFoundError: No module named" in err
    # a list of commands imports no plugin that has none
    assert fairtk(["--help"], good, interpreter=venv)[1] == ""
    for command in (["measures"], ["datasets"]):
        out, err = fairtk(command, good, interpreter=venv)
        assert "fairtk-broken 0.2 is left out" in err
        assert "Traceback" not in err
    listed = fairtk(["plugins"], good, interpreter=venv)[0]
    assert "fairtk-broken" in listed
    assert "a_package_that_nobody_has" in listed
    out = fairtk(["evaluate", *runs, "-m", "ExposureGini@2"], good, interpreter=venv)[0]
    assert "ExposureGini@2" in out


MISSPELT = """
from fairtk import hookimpl

@hookimpl
def fairtk_mesures():
    return []
"""


def test_a_misspelt_hook(tmp_path):
    folder = write(tmp_path / "p", "fairtk-typo", MISSPELT)
    text = "plugin fairtk-typo 1.0 is left out: unknown hook 'fairtk_mesures'; did you mean"
    out, err = fairtk(["measures"], folder)
    assert "EE_D" in out
    assert text in err
    assert "Traceback" not in err
    out = fairtk(["plugins"], folder)[0]
    assert "fairtk-typo" in out
    assert "fairtk_mesures" in out
    out, err = fairtk(["--strict", "measures"], folder, exits=1)
    assert text in err and "EE_D" not in out
    assert text in fairtk(["measures"], folder, exits=1, FAIRTK_STRICT_PLUGINS="1")[1]
    err = python("import fairtk", folder, exits=1, FAIRTK_STRICT_PLUGINS="1")[1]
    assert f"PluginError: {text}" in err


OTHER = "it requires fairtk<0.3,>=0.2, got fairtk {}"


@without_hello
def test_a_plugin_for_another_version_of_fairtk(tmp_path):
    code = (HELLO / "fairtk_hello.py").read_text()
    folder = write(tmp_path, "lab-gini", code, requires=["numpy>=2", "Fairtk[t5]>=0.2,<0.3"])
    out, err = python(NAMES, folder)
    assert "'EE_D'" in out and "ExposureGini" not in out
    assert f"plugin lab-gini 1.0 is left out: {OTHER.format(fairtk_version)}; " in err
    assert len(err.splitlines()) == 2  # with the line of code that Python shows
    [row] = [
        row
        for row in json.loads(fairtk(["plugins", "--format", "json"], folder)[0])
        if row["distribution"] == "lab-gini"
    ]
    assert row["problem"] == OTHER.format(fairtk_version)


@without_hello
@pytest.mark.parametrize("installed", ["0.2", "0.2.0.dev1", "0.2.9rc1+local"])
def test_a_plugin_for_this_version_of_fairtk(tmp_path, installed):
    code = (HELLO / "fairtk_hello.py").read_text()
    extra = 'fairtk>=7; extra == "next"'
    folder = write(tmp_path, "lab-gini", code, requires=["fairtk>=0.2,<0.3", extra])
    later = (
        "import fairtk_command; fairtk_command.is_running = True; "
        "from fairtk.plugins import entry_points, host"
    )
    change = f"entry_points.__version__ = {installed!r}"
    out, err = python(f"{later}; {change}; {NAMES}", folder, FAIRTK_PLUGINS="lab-gini")
    assert "ExposureGini" in out and err == ""


# Order of imports --------------------------------------------------------------------------------

PARSE = "import fairtk; print(repr(fairtk.measures.parse('ExposureGini@5')))"


@pytest.mark.parametrize("first", ["fairtk_hello", "fairtk"])
def test_importing_the_plugin_first(tmp_path, first):
    folder = write(tmp_path / "p", "fairtk-hello", (HELLO / "fairtk_hello.py").read_text())
    out, err = python(f"import {first}; {PARSE}; {NAMES}", folder)
    assert out.splitlines()[0] == "ExposureGini@5"
    assert out.count("'ExposureGini'") == 1
    assert err == ""


@without_hello
def test_a_package_that_imports_fairtk_before_its_plugin_module(tmp_path):
    folder = write(tmp_path / "p", "fairtk-lab", "", entry="lab.plugin")
    (folder / "lab").mkdir()
    (folder / "lab" / "__init__.py").write_text(
        "import fairtk\nfrom lab import plugin\nDEPTH = 5\n"
    )
    code = (HELLO / "fairtk_hello.py").read_text()
    (folder / "lab" / "plugin.py").write_text(code)
    for first in ("lab", "lab.plugin"):
        out, err = python(f"import {first}; {PARSE}", folder)
        assert out == "ExposureGini@5\n"
        assert err == ""


def test_a_plugin_whose_own_library_imports_fairtk_first(tmp_path):
    code = "from lab_library import DEPTH\n" + (HELLO / "fairtk_hello.py").read_text().replace(
        "from __future__ import annotations\n", ""
    )
    folder = write(tmp_path / "p", "fairtk-hello", code)
    (folder / "lab_library.py").write_text("import fairtk\nDEPTH = 5\n")
    for first in ("lab_library", "fairtk_hello"):
        out, err = python(f"import {first}; {PARSE}", folder)
        assert out == "ExposureGini@5\n"
        assert err == ""


def test_a_half_imported_plugin_that_fails(tmp_path):
    code = (HELLO / "fairtk_hello.py").read_text() + "\nraise RuntimeError('half way')\n"
    folder = write(tmp_path / "p", "fairtk-hello", code)
    # the user's own import fails with the plugin's error, and fairtk works
    script = f"try:\n    import fairtk_hello\nexcept RuntimeError as e: print(e)\n{NAMES}"
    out, err = python(script, folder)
    assert out.startswith("half way\n")
    assert "'EE_D'" in out
    assert "plugin fairtk-hello 1.0 is left out: RuntimeError: half way" in err


# What happens while plugins are imported ----------------------------------------------------------

PRINTS = """
import ctypes, os, sys
print("by Python")
sys.__stdout__.write("past sys.stdout, held back\\n")
ctypes.CDLL(None).printf(b"by C, held back\\n")
os.write(1, b"to the descriptor\\n")
"""
HOOK = """
from fairtk import hookimpl

@hookimpl
def fairtk_measures():
    return []
"""
PRINTED = {"by Python", "past sys.stdout, held back", "by C, held back", "to the descriptor"}
CTRL_C = "import os, signal; os.kill(os.getpid(), signal.SIGINT)"


def test_what_a_plugin_prints_is_no_output_of_a_command(tmp_path, runs):
    folder = write(tmp_path / "p", "fairtk-chatty", "print('by Python')\n" + HOOK)
    out, err = fairtk(["evaluate", *runs, "-m", "EE_D@2", "--format", "json"], folder)
    assert [row["measure"] for row in json.loads(out)] == ["EE_D@2"]
    assert "by Python" in err.splitlines()


def test_a_program_that_imports_fairtk_keeps_its_descriptors(tmp_path):
    folder = write(tmp_path / "p", "fairtk-chatty", PRINTS + HOOK)
    out, err = python("import fairtk", folder)
    assert set(out.splitlines()) == PRINTED - {"by Python"}
    assert err == "by Python\n"


def test_a_command_without_stderr_works(tmp_path, runs):
    folder = write(tmp_path / "p", "fairtk-chatty", PRINTS.replace("os.write", "#") + HOOK)
    closed = ["-c", 'exec "$0" -m fairtk "$@" 2>&-', sys.executable]
    out = run([*closed, "evaluate", *runs, "-m", "EE_D@2"], folder, interpreter="/bin/sh")[0]
    assert "EE_D@2" in out


def test_ctrl_c_ends_a_command_while_plugins_are_imported(tmp_path):
    folder = write(tmp_path / "p", "fairtk-toy", CTRL_C)
    out, err = fairtk(["measures"], folder, exits=130)
    assert out == "" and err.strip() == "Aborted."


# Metadata that is not as it should be ------------------------------------------------------------


@without_hello
def test_strange_metadata(tmp_path):
    folder = tmp_path / "p"
    write(folder, "fairtk-value", "", entry="not a module!")
    write(folder, "fairtk-attribute", "x = 1", entry="fairtk_attribute:y")
    write(folder, "fairtk-exit", "raise SystemExit(3)")
    write(folder, "fairtk-leftover", (HELLO / "fairtk_hello.py").read_text())
    (folder / "fairtk_leftover-1.0.dist-info" / "METADATA").unlink()  # an interrupted uninstall
    out, err = python(NAMES, folder)
    assert "'EE_D'" in out
    for name in ("fairtk-value", "fairtk-attribute", "fairtk-exit"):
        assert f"plugin {name} 1.0 is left out: " in err


def test_without_its_entry_point_fairtk_says_so():
    hide = (
        "import importlib.metadata as m; m.entry_points = lambda **k: m.EntryPoints(); "
        "import fairtk"
    )
    err = python(hide)[1]
    assert "the built-in measures and commands are missing" in err
    assert "pip install -e ." in err
