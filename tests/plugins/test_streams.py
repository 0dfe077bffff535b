"""Standard output and error belong to the user: only the loading of plugins redirects them."""

import ast
import io
import re
import sys
import threading
from pathlib import Path

import pandas as pd
import pytest

from fairtk import AWRF, Groups, Target
from fairtk.measures import parse
from fairtk.plugins import registry

ROOT = Path(__file__).parents[2]
ALLOWED = {
    "fairtk/plugins/streams.py": "to_stderr, for loading plugins",
    "fairtk/interpreters.py": "a worker process redirects its own streams when it starts",
}


def sources():
    folders = (ROOT / "fairtk", *ROOT.glob("plugins/*"))
    for path in sorted(path for folder in folders for path in folder.rglob("*.py")):
        if "tests" not in path.relative_to(ROOT).parts:
            yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")


def names_of(node):
    """Return the dotted name of a node, e.g. ``"sys.stdout"``, or ``""``."""
    if isinstance(node, ast.Attribute):
        return f"{names_of(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def redirects(text):
    """Return whether code replaces a standard stream of its process."""
    streams = {"sys.stdout", "sys.stderr", "sys.stdin"}
    for node in ast.walk(ast.parse(text)):
        targets = getattr(node, "targets", None) or [getattr(node, "target", None)]
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.For):
            parts = [part for target in targets if target for part in ast.walk(target)]
            if streams & {names_of(part) for part in parts}:
                return True
        if isinstance(node, ast.Call):
            function = names_of(node.func).rpartition(".")[2]
            if function in ("redirect_stdout", "redirect_stderr", "dup2"):
                return True
            named = [getattr(argument, "value", "") for argument in node.args[1:2]]
            if function == "setattr" and named in (["stdout"], ["stderr"], ["stdin"]):
                return True
        if isinstance(node, ast.Constant) and "os.dup2(" in str(node.value):
            return True  # code for another process
    return False


@pytest.mark.parametrize(
    "code",
    [
        "import sys\nsys.stdout = open('x')",
        "import sys\nsys.stdin, sys.stderr = a, b",
        "import contextlib\nwith contextlib.redirect_stdout(x): pass",
        "from os import dup2\ndup2(a, 1)",
        "import sys\nsetattr(sys, 'stdout', x)",
    ],
)
def test_the_check_finds(code):
    assert redirects(code) and not redirects("print(sys.stdout)\nout = sys.stdout")


def test_places_that_replace_a_stream():
    mentions = re.compile(r"stdout|stderr|stdin|dup2")
    places = {name for name, text in sources() if mentions.search(text) and redirects(text)}
    assert places == ALLOWED.keys()


def test_places_that_print_to_stderr():
    users = {name for name, text in sources() if "to_stderr" in text} - ALLOWED.keys()
    assert users == {"fairtk/plugins/host.py", "fairtk/cli/group.py"}


def test_lines_that_another_thread_prints_stay(monkeypatch):
    groups = Groups.from_frame(
        pd.DataFrame({"docno": ["a", "b"], "group": ["x", "y"]}), name="of-threads"
    )
    target = Target.uniform(groups)
    registry.measures.names()  # the plugins are loaded
    out, err = io.StringIO(), io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)

    def work():
        for number in range(100):
            measure = AWRF(groups=groups, target=target, browsing=f"RBP(p=0.{number + 1})") @ 5
            parse(repr(measure))
            registry.transformers.load("FairSampler")

    thread = threading.Thread(target=work)
    thread.start()
    lines = 0
    while thread.is_alive():
        print("line")
        lines += 1
    assert err.getvalue() == "" and out.getvalue() == "line\n" * lines
