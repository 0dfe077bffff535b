"""Tables as text: nothing in a cell becomes markup, and every format has the same rows."""

import csv
import io
import json
import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairtk.display import Table, latex_text, markdown_text
from fairtk.display.tables import RENDERED, aligned_lines, fitted_lines, number_text, text_width

COLUMNS = ["run", "n", "p"]
ROWS = [["a|b", 3, 0.1], ["c_d", 12, math.nan], ["é", 1, math.inf]]


def test_csv_has_all_digits():
    rows = list(csv.reader(io.StringIO(RENDERED["csv"](COLUMNS, [["a,b", 1, 1 / 3]]))))
    assert rows == [COLUMNS, ["a,b", "1", repr(1 / 3)]]
    assert RENDERED["csv"](COLUMNS, ROWS).splitlines()[2] == "c_d,12,nan"


def test_json_is_a_list_of_objects():
    found = json.loads(RENDERED["json"](COLUMNS, ROWS))
    assert found[0] == {"run": "a|b", "n": 3, "p": 0.1}
    assert found[1]["p"] is None and found[2] == {"run": "é", "n": 1, "p": "inf"}
    assert json.loads(RENDERED["json"](COLUMNS, [])) == []


def test_papers_get_four_digits():
    assert r"c\_d & 12 & undefined \\" in RENDERED["latex"](COLUMNS, ROWS).splitlines()
    assert r"\begin{tabular}{lrl}" in RENDERED["latex"](COLUMNS, ROWS)  # infinity is a word
    assert RENDERED["markdown"](COLUMNS, ROWS).splitlines()[2] == r"| a\|b | 3 | 0.1000 |"


@pytest.mark.parametrize("value", [-1e-9, -0.0, 0.0])
def test_zero_has_no_sign(value):
    assert number_text(value, 2) == "0.00"


def test_aligned():
    table = Table(COLUMNS, [["a", "3", "some words"], ["bcde", "12", "x"]])
    assert aligned_lines(table, numbers=[1]) == [
        "run    n  p",
        "----  --  ----------",
        "a      3  some words",
        "bcde  12  x",
    ]


def test_latex_escapes_everything():
    rows = [
        ["fa*ir", "0.5000+", "-0.0100-", "50%"],
        ["[x] & ~^\\", "0.5000 ", "+0.0100+", "a_b {c} #1 $2 <3> |"],
        ["bm25+", "0.4000-", "undefined", "nDCG x AWRF"],
    ]
    text = latex_text(
        Table(["name", "AWRF", "change", "a & b"], rows, "100% of_it\nin {two} lines")
    )
    lines = text.splitlines()
    assert r"\caption{100\% of\_it in \{two\} lines}" in lines
    assert r"\begin{tabular}{lrrl}" in lines
    assert r"name & AWRF & change & a \& b \\" in lines
    assert r"fa*ir & 0.5000$^{+}$ & -0.0100$^{-}$ & 50\% \\" in lines
    assert (
        r"{[}x] \& \textasciitilde{}\textasciicircum{}\textbackslash{} & 0.5000 & +0.0100$^{+}$ & "
        r"a\_b \{c\} \#1 \$2 $<$3$>$ \textbar{} \\"
    ) in lines  # the bracket would be an argument of the line break before it
    assert r"bm25+ & 0.4000$^{-}$ & undefined & nDCG x AWRF \\" in lines
    assert text.count(r"\toprule") == text.count(r"\bottomrule") == 1


@given(
    st.lists(st.lists(st.text(max_size=9), min_size=3, max_size=3), max_size=4), st.text(min_size=1)
)
def test_tables_keep_their_shape(rows, caption):
    text = latex_text(Table(["a", "b", "c"], rows, caption))
    body = text.split("\\midrule\n")[1].split("\\bottomrule")[0].splitlines()
    assert len(body) == len(rows)
    for line in body:
        # nothing but the table's own signs is left when what is escaped is gone
        bare = re.sub(r"\\(?:text\w+\{\}|[&%$#_{}])|\$(?:<|>|\^\{[+-]\})\$|\{[\[*]\}", "", line)
        assert bare.endswith("\\\\") and bare.count(" & ") == 2
        assert not re.search(r"[\\%$#_{}~^<>]", bare[:-2]) and bare.count("&") == 2
        assert not line.startswith(("[", "*"))
    page = markdown_text(Table(["a", "b", "c"], rows, caption)).splitlines()
    assert page[1] == "| --- | --- | --- |"
    for line in [page[0], *page[2 : 2 + len(rows)]]:
        assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) == 4
        assert not re.search(r"(?<!\\)(?:\\\\)*[<>&`$]", line)
    assert page[2 + len(rows)] == "" and page[3 + len(rows)].startswith("*")
    assert len(page) == 4 + len(rows)


@pytest.mark.parametrize(
    "name", ["w" * 300, "שלום" * 80, "🐟" * 300, "日本語" * 20, "\u202eevil" * 9]
)
def test_tables_fit_a_terminal_whatever_the_names(name):
    heads = ["run", *(f"{name}{i}" for i in range(5))]
    rows = [[name, *["0.1234"] * 5], [f"{name}x", *["0.5678"] * 5]]
    lines = fitted_lines(Table(heads, rows), range(1, 6))
    assert max(map(text_width, lines)) <= 80
    assert sum(line.count("0.1234") for line in lines) == 5
    runs = [line.split("  ")[0] for line in lines if "0.1234" in line or "0.5678" in line]
    assert len(set(runs)) == 2  # two runs stay two


def test_columns_of_wide_letters_are_aligned():
    lines = aligned_lines(Table(["run", "n"], [["日本", "1"], ["abcd", "2"]]), (1,))
    assert {text_width(line) for line in lines} == {7}
