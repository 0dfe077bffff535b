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
