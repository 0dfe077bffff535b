"""The measure of docs/own_measure.md works from its module to the command line."""

import importlib
import re
import sys
from pathlib import Path

import pytest

from fairtk import plugins

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tests" / "plugins"))
from distributions import fairtk, write  # noqa: E402
from failing import failing  # noqa: E402

BLOCK = re.compile(r"^```python\n# ([\w.]+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


FILES = dict(BLOCK.findall((ROOT / "docs" / "own_measure.md").read_text(encoding="utf-8")))


def test_the_tests_of_the_page_pass(tmp_path, monkeypatch):
    for name, code in FILES.items():
        (tmp_path / name).write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    plugin = importlib.import_module("lab_useful")
    plugins.register(plugin, "lab-useful")
    try:
        tests = importlib.import_module("test_lab_useful")
        assert failing(tests.TestContract) == {}
        tests.test_by_hand()
    finally:
        plugins.unregister(plugin)
        for name in FILES:
            del sys.modules[name.removesuffix(".py")]


@pytest.mark.slow
def test_the_command_line(tmp_path):
    """The page's module is an installed plugin."""
    lab = write(tmp_path / "site", "lab-useful", FILES["lab_useful.py"])
    (lab / "qrels.txt").write_text("q 0 a 1\nq 0 b 0\n")
    (lab / "toy.run").write_text("q Q0 a 1 2 t\nq Q0 b 2 1 t\nq Q0 c 3 0 t\n")
    words = [
        "evaluate",
        lab / "qrels.txt",
        lab / "toy.run",
        "-m",
        "UsefulShare@2",
        "-m",
        "UsefulShare@3",
    ]
    printed, warned = fairtk([*map(str, words), "--format", "csv"], lab)
    # a has 1 of 2 and 1 of 3; c has no label, and is on rank 3
    assert "UsefulShare@2,0.5" in printed and "UsefulShare@3,0.333333" in printed
    assert "UsefulShare@3: documents without a label" in warned
    assert "UsefulShare@2: documents" not in warned
