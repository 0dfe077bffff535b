"""The recipes of CONTRIBUTING.md, carried out in a copy of the tree, keep what they promise."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```\w+\n# ([\w/.]+)(?:, ([^\n]+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PROMISES = """
import pathlib
import fairtk
from fairtk.analysis.choices import browsing_models
from fairtk.exposure import Linear
from fairtk.groups import TotalVariation
from fairtk.measures import parse
from fairtk.plugins.registry import as_divergence
assert pathlib.Path(fairtk.__file__).is_relative_to(pathlib.Path.cwd())
assert parse("EE_D(browsing='Linear(depth=5)')@5")["browsing"] == Linear(5)
assert "Linear(depth=10)" in browsing_models()
assert as_divergence("tv", "") == TotalVariation()
assert parse("EU(utility='shared-words')")["utility"](["a b"], ["a c"]) == [0.5]
"""


def insert(text, where, lines):
    """Return a file's text with the lines of a recipe at the place that its block names."""
    if where == "at the end":
        return f"{text}\n\n{lines}"
    kind, name = where.split(" ", 1)
    # in the list of this name, or that the function of this name returns; after a line
    end = r"[\[(]\n" if kind == "in" else r"\n"
    pattern = rf"^(?:def )?{re.escape(name)}\b.*?{end}"
    [place] = re.finditer(pattern, text, re.MULTILINE | re.DOTALL)
    return text[: place.end()] + lines + text[place.end() :]


@pytest.fixture(scope="module")
def recipes():
    return (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("## How to add")[2]


@pytest.fixture(scope="module")
def tree(tmp_path_factory, recipes):
    """A copy of the package and its tests, with what all recipes add."""
    tree = tmp_path_factory.mktemp("tree")
    no_caches = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "fairtk", tree / "fairtk", ignore=no_caches)
    for path in [*ROOT.glob("tests/**/*.py"), ROOT / "docs/api.txt"]:
        (tree / path.relative_to(ROOT)).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, tree / path.relative_to(ROOT))
    for name in ("setup.cfg", "pyproject.toml"):
        shutil.copy(ROOT / name, tree)
    for name, where, lines in BLOCK.findall(recipes):
        path = tree / name
        assert path.exists() == bool(where), name
        path.write_text(insert(path.read_text(encoding="utf-8"), where, lines) if where else lines)
    return tree


def check(tree, *arguments):
    """Run Python in the copy, which comes first on its path."""
    process = subprocess.run(
        [sys.executable, *arguments],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stdout + process.stderr


def test_each_recipe_is_one_file_and_one_line(recipes):
    sections = re.split(r"^### ", recipes.partition("### Others")[0], flags=re.MULTILINE)[1:]
    assert len(sections) == 7
    for section in sections:
        code = [(n, where) for n, where, _ in BLOCK.findall(section) if n.startswith("fairtk/")]
        assert len(code) == 2, section
        assert re.search(r"^Check: `pytest tests/\S+`", section, re.MULTILINE), section


@pytest.mark.slow
def test_the_checks_of_the_recipes_pass(tree, recipes):
    tests = re.findall(r"^Check: `pytest (\S+)`", recipes, re.MULTILINE)
    tests += ["tests/plugins/test_each_has_a_contract.py"]
    tests += ["tests/docs/test_api.py::test_each_exported_name_has_a_decision"]
    check(tree, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests)


@pytest.mark.slow
def test_what_the_recipes_add_is_found(tree):
    check(tree, "-c", PROMISES)


def test_the_code_of_the_recipes_is_clean(tree, recipes):
    pytest.importorskip("ruff")
    files = [name for name, _, _ in BLOCK.findall(recipes) if name.endswith((".py", ".pyi"))]
    check(tree, "-m", "ruff", "check", "--no-cache", *files)
    check(tree, "-m", "ruff", "format", "--no-cache", "--check", *files)
