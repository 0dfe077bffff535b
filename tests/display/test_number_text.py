"""A number has the same digits, and NaN the same word, in all tables and sentences."""

import ast
import math
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_architecture import parsed

import fairtk
from fairtk.display import tables
from fairtk.report import tables as of_report

ROOT = Path(fairtk.__file__).parent
PLUGINS = ROOT.parent / "plugins"

WRITERS = {
    "number_text": lambda value: tables.number_text(value, 3),
    "rounded_text": lambda value: tables.rounded_text(value, 3),
    "interval_text": lambda value: tables.interval_text(value, value + 1, 3).split(",")[0][1:],
    "format_rows": lambda value: tables.format_rows(["a"], [[value]], digits=3).rows[0][0],
    "as_texts": lambda value: tables.as_texts(pd.DataFrame({"a": [value]}), digits=3).rows[0][0],
    "frame_lines": lambda value: tables.frame_lines(pd.DataFrame({"a": [value]}), 3)[-1].strip(),
    "a cell of a comparison": lambda value: of_report._cell("difference", value, 3).strip("+"),
}


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
@pytest.mark.parametrize("value", [0.3375, 0.0625, 0.5005, 0.9995, 0.1])
def test_sums_in_another_order_have_the_same_digits(write, value):
    # the exact decimal, rounded, of both neighbors of the value
    near = [np.nextafter(value, 0), value, np.nextafter(value, 1)]
    assert len({write(float(v)) for v in near}) == 1


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_half_is_rounded_alike_and_nan_has_one_word(write):
    assert write(0.3375) == write(0.33749999999999997) == "0.338"
    assert write(-1e-9).lstrip(">-<") in ("0.000", "0.001")  # no minus before 0
    if write is not WRITERS["interval_text"]:
        assert write(math.nan) == tables.UNDEFINED
    assert tables.interval_text(math.nan, math.nan) == tables.UNDEFINED


@given(st.floats(-1e3, 1e3), st.integers(0, 9))
def test_digits_are_those_of_the_value(value, digits):
    text = tables.number_text(value, digits)
    assert float(text) == pytest.approx(value, abs=0.501 * 10.0**-digits)
    assert len(text.partition(".")[2]) == digits
    assert float(text) != 0 or not text.startswith("-")


def own_formats(path):
    """Yield the lines of a module with a number format, or a word for NaN, of its own."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.FormattedValue) and node.format_spec is not None:
            spec = ast.unparse(node.format_spec)
            # whole numbers, seconds and positions in a picture may have 0 or 1 decimals
            if re.search(r"\.(?:[2-9]|\{\w+\})f", spec) and "price" not in ast.unparse(node.value):
                yield node.lineno
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            words = [*node.args, *(k.value for k in node.keywords if k.arg == "na_rep")]
            texts = {w.value for w in words if isinstance(w, ast.Constant)}
            if node.func.attr == "to_string" or (
                node.func.attr in ("fillna", "to_markdown") and texts & {"-", "nan", "NaN", "n/a"}
            ):
                yield node.lineno


SOURCES = [*ROOT.rglob("*.py"), *PLUGINS.glob("*/fairtk_*/**/*.py")]


def test_modules_have_no_formats_of_their_own():
    own = {
        f"{path.relative_to(ROOT.parent)}:{line}"
        for path in SOURCES
        if path != ROOT / "display" / "tables.py"
        for line in own_formats(path)
    }
    assert own == set()


def test_the_check_of_modules_sees_a_format(tmp_path):
    path = tmp_path / "module.py"
    path.write_text('a = f"{x:.3f}"\nb = f"{x:+.{n}f}"\nc = frame.fillna("-")\nd = f"{s:.0f}"\n')
    assert sorted(own_formats(path)) == [1, 2, 3]
