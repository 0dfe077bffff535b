"""Normalized utility: the published numbers, and the options where code and paper differ."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pandas as pd
import pytest
from fairtk_papers.fair_rag.tables import normalized_utility

from fairtk.errors import InputError, UndefinedWarning

GOLDEN = Path(__file__).parents[1] / "golden" / "eu_normalisation.json"
COLUMNS = ["task", "retriever", "generator", "alpha", "qid", "sample", "value"]


def frame(runs, qid="q", retriever="BM25", generator="g"):
    """Return utilities from alpha -> values of one query's samples."""
    return pd.DataFrame(
        [
            ("LaMP-1", "" if alpha == "oracle" else retriever, generator, alpha, qid, i, value)
            for alpha, values in runs.items()
            for i, value in enumerate(values)
        ],
        columns=COLUMNS,
    )


def value(table, alpha, qid="q", retriever="BM25"):
    row = table[(table["alpha"] == alpha) & (table["qid"] == qid)]
    return row.loc[row["retriever"] == retriever, "value"].item()


def test_published_numbers_in_one_call():
    cases = json.loads(GOLDEN.read_text(encoding="utf-8"))["cases"]
    assert len(cases) == 54
    parts = []
    for case in cases:
        runs = {int(alpha): values for alpha, values in case["utilities"].items()}
        runs["oracle"] = case["oracle_utilities"]
        part = frame(runs, qid=str(case["id"]))
        if case["upper_bound"] is not None:  # an error: turned around first
            part["value"] = case["upper_bound"] - part["value"]
        parts.append(part)
    found = normalized_utility(pd.concat(parts)).set_index(["qid", "alpha"])
    for case in cases:
        for alpha, wanted in case["normalised_EU"].items():
            row = found.loc[str(case["id"]), int(alpha)]
            assert row["value"] == pytest.approx(wanted, abs=1e-9), case["tag"]
            assert row["best"] == pytest.approx(case["u_max"], abs=1e-9)
            bound = case["upper_bound"]
            mean = case["EU"][alpha] if bound is None else bound - case["EU"][alpha]
            assert row["EU"] == pytest.approx(mean, abs=1e-9)


def test_the_deterministic_run_may_exceed_1_or_counts():
    runs = frame({1: [0.2, 0.4], "oracle": [0.5], "deterministic": [0.8]})
    found = normalized_utility(runs)
    assert value(found, "deterministic") == pytest.approx(0.8 / 0.5)
    assert value(found, 1) == pytest.approx(0.3 / 0.5)
    counted = normalized_utility(runs, deterministic=True)
    assert value(counted, "deterministic") == 1.0
    assert value(counted, 1) == pytest.approx(0.3 / 0.8)


def test_the_maximum_is_over_one_retriever_or_all_with_the_generator():
    runs = pd.concat(
        [
            frame({1: [0.2, 0.4], "oracle": [0.1]}),
            frame({1: [1.0, 0.0]}, retriever="SPLADE"),
            frame({1: [2.0], "oracle": [2.0]}, generator="another"),
        ]
    )
    runs = runs[runs["generator"] == "g"]
    assert value(normalized_utility(runs), 1) == pytest.approx(0.3 / 0.4)
    assert value(normalized_utility(runs, over="generator"), 1) == pytest.approx(0.3 / 1.0)
    assert value(normalized_utility(runs), 1, retriever="SPLADE") == 0.5
    assert value(normalized_utility(runs), "oracle", retriever="") == 1.0


def test_nothing_to_divide_by():
    runs = frame({1: [0.0, 0.0], "oracle": [0.0]})
    assert value(normalized_utility(runs), 1) == 1.0


def test_a_query_without_the_oracle_is_undefined():
    runs = pd.concat([frame({1: [0.2], "oracle": [0.4]}), frame({1: [0.2]}, qid="q2")])
    with pytest.warns(UndefinedWarning, match="'q2'"):
        found = normalized_utility(runs)
    assert value(found, 1) == 0.5 and math.isnan(value(found, 1, "q2"))


def test_bad_input():
    runs = frame({1: [0.2], "oracle": [0.4]})
    with pytest.raises(InputError, match="'none'"):
        normalized_utility(runs.replace({"alpha": {"oracle": "none"}}))
