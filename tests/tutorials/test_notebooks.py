"""Each tutorial is a notebook of its own. The build of the site runs them and their assertions."""

from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "tutorials"
TUTORIALS = sorted(FOLDER.glob("0*.py"))


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_the_header_is_that_of_a_notebook(path):
    header = path.read_text(encoding="utf-8").split("# ---\n")[1]
    assert "format_name: percent\n" in header and "name: python3\n" in header


def test_no_module_lies_next_to_them():
    """A notebook that is downloaded has nothing to import from its folder."""
    assert sorted(FOLDER.glob("*.py")) == TUTORIALS


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_the_main_figure_is_in_the_repository(path):
    figure = f"../docs/_static/tutorials/{path.stem[:2]}.png"
    assert (FOLDER / figure).stat().st_size < 40_000
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert f"]({path.name})" in readme and f"]({figure})" in readme
    assert f"]({figure})" in path.read_text(encoding="utf-8")
