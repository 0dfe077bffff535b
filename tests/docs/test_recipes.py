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
COMPLETE = "tests/plugins/test_each_has_a_contract"
PROMISES = """
import pathlib
import fairtk
from fairtk.exposure import Linear
from fairtk.groups import TotalVariation
from fairtk.llm import LastLine, list_model_kinds
from fairtk.measures import TopShare, parse
from fairtk.plugins import registry
from fairtk.plugins.registry import as_divergence
from fairtk.testing import toy_qrels, toy_run
from fairtk.transformers import Rotation, WordOverlapScorer
assert pathlib.Path(fairtk.__file__).is_relative_to(pathlib.Path.cwd())
assert parse("TopShare@5") == TopShare @ 5
assert parse("EE_D(browsing='Linear(depth=5)')@5")["browsing"] == Linear(5)
runs = {"a": toy_run(), "b": toy_run()}
varied = fairtk.sensitivity(toy_qrels(), runs, ["EE_D@1"], vary=["browsing"]).table
assert "Linear(depth=10)" in set(varied["setting"])
assert as_divergence("tv", "") == TotalVariation()
assert fairtk.utilities.get("shared-words")(["a b"], ["a c"]) == [0.5]
assert parse("EU(utility='shared-words')")["utility"] == fairtk.utilities.get("shared-words")
assert registry.transformers.load("Rotation") is Rotation
assert registry.transformers.load("WordOverlapScorer") is WordOverlapScorer
assert registry.load_target(list_model_kinds("answers")["last-line"].target) is LastLine
"""
OFFERED = {
    "measures": ["TopShare", "shared-words", "Linear"],
    "plugins": ["TopShare", "Linear", "tv", "shared-words", "WordOverlapScorer", "last-line"],
}
"""Commands that list what is registered, and names of the recipes that they have."""


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


def carry_out(tree, blocks):
    """Copy the package and its tests, and add blocks of recipes; return the folder."""
    no_caches = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "fairtk", tree / "fairtk", ignore=no_caches)
    for path in [*ROOT.glob("tests/**/*.py"), ROOT / "docs/api.txt"]:
        (tree / path.relative_to(ROOT)).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, tree / path.relative_to(ROOT))
    for name in ("setup.cfg", "pyproject.toml"):
        shutil.copy(ROOT / name, tree)
    for name, where, lines in blocks:
        path = tree / name
        assert path.exists() == bool(where), name
        path.write_text(insert(path.read_text(encoding="utf-8"), where, lines) if where else lines)
    return tree


@pytest.fixture(scope="module")
def tree(tmp_path_factory, recipes):
    """A copy of the tree with what all recipes add."""
    return carry_out(tmp_path_factory.mktemp("tree"), BLOCK.findall(recipes))


def run(tree, *arguments):
    """Run Python in the copy, which comes first on its path; return the process."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
    )


def check(tree, *arguments):
    """Run Python in the copy without an error; return what it prints."""
    process = run(tree, *arguments)
    assert process.returncode == 0, process.stdout + process.stderr
    return process.stdout


def test_each_recipe_is_one_file_and_a_line_per_list(recipes):
    sections = re.split(r"^### ", recipes.partition("### Others")[0], flags=re.MULTILINE)[1:]
    assert len(sections) == 7
    for section in sections:
        code = [(n, where) for n, where, _ in BLOCK.findall(section) if n.startswith("fairtk/")]
        lists = [name for name, where in code if where not in ("", "at the end")]
        assert len(code) == len(lists) + 1, section
        assert len(lists) == len(set(lists)) <= 2, section
        assert {name.split("/")[-1] for name in lists} <= {"builtin.py", "__init__.pyi"}, section
        assert re.search(r"^Check: `pytest tests/\S+`", section, re.MULTILINE), section


@pytest.mark.slow
def test_the_checks_of_the_recipes_pass(tree, recipes):
    tests = re.findall(r"^Check: `pytest (\S+)`", recipes, re.MULTILINE)
    tests += [f"{COMPLETE}.py"]
    tests += ["tests/docs/test_api.py::test_each_exported_name_has_a_decision"]
    check(tree, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests)


@pytest.mark.slow
def test_what_the_recipes_add_is_found_and_offered(tree):
    check(tree, "-c", PROMISES)
    for command, names in OFFERED.items():
        listed = re.findall(r"[\w-]+", check(tree, "-m", "fairtk", command))
        assert set(names) <= set(listed), command


@pytest.mark.slow
def test_what_is_not_tested_or_not_exported_fails(tmp_path, recipes):
    code = [b for b in BLOCK.findall(recipes) if re.fullmatch(r"fairtk/.*\.py", b[0])]
    tree = carry_out(tmp_path / "tree", code)
    process = run(tree, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"{COMPLETE}.py")
    failed = set(re.findall(r"^FAILED .*::(\w+)\[fairtk_(\w+)\]", process.stdout, re.MULTILINE))
    tested, exported = (
        {kind for name, kind in failed if re.search(what, name)} for what in ("test$", "export")
    )
    assert tested == {"measures", "transformers", "chat_models"}, process.stdout
    assert exported == tested | {"browsing_models", "divergences"}, process.stdout


def test_the_code_of_the_recipes_is_clean(tree, recipes):
    pytest.importorskip("ruff")
    files = [name for name, _, _ in BLOCK.findall(recipes) if name.endswith((".py", ".pyi"))]
    check(tree, "-m", "ruff", "check", "--no-cache", *files)
    check(tree, "-m", "ruff", "format", "--no-cache", "--check", *files)
