"""The page that PyTerrier's site collects from its extensions: the folder ``pt_docs``."""

import re
import textwrap
from importlib.resources import files

import pandas as pd
import pyterrier as pt
import pytest

PAGES = [page for page in files("fairtk").joinpath("pt_docs").iterdir()]
BLOCK = re.compile(
    r"^\.\. (schematic|code-block)::(.*)\n((?: +:.*\n)*)\n((?:(?: .*)?\n)+)", re.MULTILINE
)


def test_pyterrier_finds_a_first_page():
    assert "index.rst" in [page.name for page in PAGES]


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # of PyTerrier
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_code_of_a_page_runs(page):
    kinds = set()
    for kind, language, _, block in BLOCK.findall(page.read_text(encoding="utf-8")):
        code, names = textwrap.dedent(block).strip(), {}
        if kind == "schematic":  # its last line, as PyTerrier's directive draws it
            *lines, last = code.splitlines()
            exec("\n".join(lines), names)
            assert "FairSampler" in pt.schematic.draw(eval(last, names))
        elif language.strip() == "python":
            exec(code, names)
            table = names["table"]
            assert isinstance(table, pd.DataFrame) and len(table)
            assert not table.select_dtypes("number").isna().any(axis=None)
        kinds.add(kind)
    assert kinds == {"schematic", "code-block"}
