"""Each tutorial is a notebook, too, that needs no file beside it."""

import ast
import sys
from pathlib import Path

import pytest

TUTORIALS = sorted((Path(__file__).parents[2] / "tutorials").glob("0*.py"))
BESIDE = {path.stem for path in TUTORIALS[0].parent.iterdir()}


def imported(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or "").partition(".")[0]


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
class TestTutorial:
    def test_it_imports_nothing_that_lies_beside_it(self, path):
        assert not set(imported(path)) & (BESIDE - sys.stdlib_module_names)
        assert "__file__" not in path.read_text(encoding="utf-8")

    def test_its_header_says_what_a_notebook_needs(self, path):
        header = path.read_text(encoding="utf-8").split("# ---\n")[1]
        for field in (
            "extension: .py",
            "format_name: percent",
            "language: python",
            "name: python3",
        ):
            assert f" {field}\n" in header

    def test_jupytext_makes_a_notebook(self, path):
        jupytext = pytest.importorskip("jupytext")
        notebook = jupytext.read(path)
        assert notebook.metadata["kernelspec"]["name"] == "python3"
        kinds = [cell.cell_type for cell in notebook.cells]
        assert kinds[0] == "markdown" and "code" in kinds
        assert notebook.cells[0].source.startswith("# ")
