"""Utility by level of exposure: by hand, the options, and the paper's numbers."""

from __future__ import annotations

import fairtk_papers.fair_rag.tables
import numpy as np
import pandas as pd
import pytest
from fairtk_papers.fair_rag.tables import (
    fitted_latex,
    paper_numbers,
    paper_tables,
    trade_offs,
)
from values_of_models import sizes_of, study

from fairtk.display import markdown_text
from fairtk.errors import DuplicateError, InputError
from fairtk.statistics import paired_test

COLUMNS = ["task", "retriever", "generator", "alpha", "qid", "measure", "value"]
MODEL = ("LaMP-4", "BM25", "flan-t5-small")


def values(points):
    """Return values from (alpha, qid, EE_D, EU)."""
    return pd.DataFrame(
        [
            (*MODEL, alpha, qid, measure, value)
            for alpha, qid, disparity, utility in points
            for measure, value in (("EE_D", disparity), ("normalized EU", utility))
        ],
        columns=COLUMNS,
    )


def fairness_intervals(values, cutoff, sizes=None):
    return fairtk_papers.fair_rag.tables.fairness_intervals(
        values, sizes_of(values) if sizes is None else sizes, cutoff=cutoff
    )


FIXED = [("deterministic", "a", 1.0, 0.5), ("deterministic", "b", 1.0, 0.3)]


def sizes(**documents):
    task, _, generator = MODEL
    rows = [(task, generator, qid, n, 1) for qid, n in documents.items()]
    return pd.DataFrame(rows, columns=["task", "generator", "qid", "documents", "useful"])


def test_by_hand():
    points = [(1, "a", 0.3, 0.8), (2, "a", 0.35, 0.4), (1, "b", 0.2, 0.3), (2, "b", 0.9, 0.1)]
    table = fairness_intervals(values(points + FIXED), cutoff=5).set_index("interval")
    row = table.loc["[0.2, 0.4)"]  # three points: 0.8, 0.4 and 0.3; its lower end belongs to it
    assert row["baseline"] == pytest.approx(0.4)
    assert row["value"] == pytest.approx(0.5 - 0.4)
    assert (row["points"], row["queries"]) == (3, 2)
    # by query: a 0.6 - 0.5 = 0.1, b 0.3 - 0.3 = 0: mean 0.05
    assert row["paired"] == pytest.approx(0.05)
    last = table.loc["[0.8, 1.0)"]  # b alone: 0.1 - 0.4 as printed, 0.1 - 0.3 paired
    assert last["value"] == pytest.approx(-0.3) and last["paired"] == pytest.approx(-0.2)
    assert last["note"] == "only one pair is defined" and np.isnan(last["p"])
    empty = table.loc["[0.4, 0.6)"]
    assert empty["points"] == 0 and np.isnan(empty["value"])
    assert empty["note"] == "no points in this interval"


def test_values_of_exactly_one():
    """The last interval is open: it leaves them out and counts them."""
    points = [(8, "a", 1.0, 0.9), (8, "b", 0.95, 0.3), (4, "a", 1.0 - 1e-12, 0.7)]
    open_end = fairness_intervals(values(points + FIXED), cutoff=5).iloc[-1]
    assert (open_end["interval"], open_end["points"], open_end["at the end"]) == (
        "[0.8, 1.0)",
        1,
        2,
    )
    assert open_end["value"] == pytest.approx(0.3 - 0.4)
    assert open_end["paper"] == 0.0  # Table 9 prints 0.00


def test_rounding_moves_no_point():
    points = [(1, "a", 0.1 + 0.5, 0.9), (2, "a", 3 * 0.2, 0.9), (4, "a", 0.6 - 1e-12, 0.9)]
    table = fairness_intervals(values(points + FIXED), cutoff=5).set_index("interval")
    assert table.loc["[0.6, 0.8)", "points"] == 3


def test_what_is_out_of_reach_is_marked():
    points = [(1, "a", 0.3, 0.8), (1, "b", 0.5, 0.8)]
    # k = 5: floors 5/20 = 0.25 and 5/10 = 0.5
    table = fairness_intervals(values(points + FIXED), cutoff=5, sizes=sizes(a=20, b=10))
    assert table["reachable"].tolist() == [0, 1, 2, 2, 2]
    assert table["note"].iloc[0].startswith("unreachable")
    assert not table["note"].iloc[1:].str.startswith("unreachable").any()
    # a floor of exactly 0.2 is not in [0, 0.2); a profile shorter than k allows 1 alone
    edge = fairness_intervals(values(points + FIXED), cutoff=5, sizes=sizes(a=25, b=3))
    assert edge["reachable"].tolist() == [0, 1, 1, 1, 1]


def test_the_test_has_one_pair_per_query():
    found = study()
    table = fairness_intervals(found, cutoff=5)
    one = found[(found["retriever"] == "BM25") & (found["alpha"] != "deterministic")]
    wide = one.pivot(index=["alpha", "qid"], columns="measure", values="value")
    inside = (
        wide[(wide["EE_D"] >= 0.6) & (wide["EE_D"] < 0.8)]["normalized EU"].groupby("qid").mean()
    )
    fixed = found[(found["retriever"] == "BM25") & (found["alpha"] == "deterministic")]
    fixed = fixed[fixed["measure"] == "normalized EU"].set_index("qid")["value"][inside.index]
    wanted = paired_test(inside, fixed)
    row = table[(table["retriever"] == "BM25") & (table["interval"] == "[0.6, 0.8)")].iloc[0]
    assert row["p"] == pytest.approx(wanted.p) and row["queries"] == wanted.n
    assert (row["low"], row["high"]) == pytest.approx((wanted.low, wanted.high))
    # points that repeat a query's value add no certainty
    copies = [found] + [one.assign(alpha=one["alpha"] + shift / 1000) for shift in range(1, 4)]
    more = fairness_intervals(pd.concat(copies), cutoff=5)
    again = more[(more["retriever"] == "BM25") & (more["interval"] == "[0.6, 0.8)")].iloc[0]
    assert again["points"] == 4 * row["points"] and again["p"] == pytest.approx(row["p"])
    # corrected within a model, for its intervals
    assert (table["p_corrected"].dropna() >= table["p"].dropna()).all()
    assert (table["p_corrected"] > table["p"]).any()


def test_beside_the_paper():
    table = fairness_intervals(study(), cutoff=5)
    assert set(table["table"]) == {9}
    printed = (
        paper_numbers()
        .query("table == 9 and retriever == 'BM25'")
        .query("generator == 'flan-t5-small'")
    )
    own = table[table["retriever"] == "BM25"]
    assert own["paper"].tolist() == printed["value"].tolist()[1:]
    np.testing.assert_allclose(own["from paper"], own["value"] - own["paper"])
    other = study().replace({"task": {"LaMP-4": "my task"}})
    assert fairness_intervals(other, cutoff=5)["paper"].isna().all()


def test_the_order_of_rows_does_not_matter():
    found = study()
    table = fairness_intervals(found, cutoff=5)
    mixed = found.sample(frac=1, random_state=1)
    again = fairness_intervals(mixed, cutoff=5)
    keys = ["retriever", "interval"]
    pd.testing.assert_frame_equal(
        table.sort_values(keys, ignore_index=True), again.sort_values(keys, ignore_index=True)
    )


def test_bad_input():
    found = values([(1, "a", 0.3, 0.8), *FIXED])
    with pytest.raises(DuplicateError, match="'qid'.*'a'"):
        fairness_intervals(pd.concat([found, found]), cutoff=5)
    with pytest.raises(InputError):
        fairness_intervals(found.assign(alpha="oracle"), cutoff=5)


def utility_slopes(values):
    """Return the rows of Table 5; the values have no EE_R."""
    quality = values[values["measure"] == "EE_D"].assign(measure="EE_R")
    slopes = trade_offs(pd.concat([values, quality]), resamples=10)
    return slopes[slopes["table"] == 5]


def test_laid_out_as_the_papers_tables():
    """Models in rows by retriever, intervals in columns; what is not negative is bold."""
    found = {}
    for task in ("LaMP-4", "my task", "LaMP-1"):
        for generator in ("small", "base"):
            for retriever in ("BM25", "SPLADE"):
                # means: 0.8 - 0.4 = +0.40; 0.398 - 0.4 = -0.002; 0.4 - 0.4 = 0
                points = [(1, "a", 0.1, 0.8), (2, "a", 0.3, 0.398), (4, "a", 0.5, 0.4)]
                points += [(8, "a", 0.9, 0.1 if retriever == "BM25" else 0.4025)]
                own = values(points + FIXED)
                own[["task", "retriever", "generator"]] = task, retriever, generator
                found[task, generator, retriever] = own
    del found["LaMP-4", "base", "SPLADE"]  # nothing useful: there is no such model
    every = pd.concat(found.values())
    tables = paper_tables(fairness_intervals(every, cutoff=5), utility_slopes(every))
    assert list(tables) == ["table_1", "table_5", "table_9", "table_of_my task", "table_6"]
    lines = markdown_text(tables["table_9"]).splitlines()
    assert lines[:5] == [
        r"| Model (baseline utility) | \[0.0, 0.2) | \[0.2, 0.4) | \[0.4, 0.6) | \[0.6, 0.8) "
        r"| \[0.8, 1.0) |",
        "| --- | --- | --- | --- | --- | --- |",
        r"| BM25+small (0.400) | **+0.40** | \>-0.01 | **0.00** |  | -0.30 |",
        r"| BM25+base (0.400) | **+0.40** | \>-0.01 | **0.00** |  | -0.30 |",
        r"| SPLADE+small (0.400) | **+0.40** | \>-0.01 | **0.00** |  | **\<0.01** |",
    ]
    assert lines[6].startswith("*LaMP-4 (Table 9 of Towards Fair RAG): mean normalized EU ")
    assert tables["table_of_my task"].caption.startswith("my task: mean ")
    beside = tables["table_1"]
    assert beside.columns[0] == "LaMP-1: model (baseline utility)" and len(beside.columns) == 12
    assert [row[0] for row in beside.rows] == [
        *("BM25+small (0.400)", "BM25+base (0.400)", "SPLADE+small (0.400)"),
        "SPLADE+base (0.400)",
    ]
    assert [row[6] for row in beside.rows][-1] == "" and beside.rows[0][:6] == beside.rows[0][6:]
    lone = every[every["task"] != "LaMP-1"]
    laid_out = paper_tables(fairness_intervals(lone, cutoff=5), utility_slopes(lone))
    assert "table_1" not in laid_out
    text = fitted_latex(tables["table_9"])
    assert r"BM25+small (0.400) & \textbf{+0.40} & $>$-0.01 & \textbf{0.00} &  & -0.30 \\" in text
    assert text.index(r"\resizebox{") < text.index(r"\begin{tabular}")
    assert r"\end{tabular}}" in text
