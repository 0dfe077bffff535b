"""Every interval contains its estimate and has a width, or is NaN with a reason.

`INTERVALS` has a case for every exported function or method that returns intervals; a new one
without a case fails `test_every_function_has_a_case`.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import itertools
import math
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from ir_measures import nDCG

import fairtk
from fairtk import EE_R, EU, Experiment, FairSampler, Groups, Target
from fairtk.credit import fit_browsing, order_audit, providers, query_gain
from fairtk.measures import parse
from fairtk.report.tables import mean_cells
from fairtk.statistics import (
    corrected_mean,
    curve_values,
    equivalence_test,
    mean_intervals,
    no_interval,
    non_inferiority_test,
    paired_test,
    percentile_interval,
    two_level_mean,
)
from fairtk.statistics.tests import TESTS

API = Path(__file__).parents[2] / "docs" / "api.txt"


def check(estimate: float, low: float, high: float, reason: str) -> None:
    """Check one interval."""
    if math.isnan(low) or math.isnan(high):
        assert math.isnan(low) and math.isnan(high) and reason
    else:
        assert low <= estimate <= high and low < high, (estimate, low, high, reason)


def check_rows(frame: pd.DataFrame, value: str) -> None:
    for row in frame.to_dict("records"):
        check(row[value], row["low"], row["high"], row["note"])


def returned_class(function: Any) -> Any:
    name = str(inspect.signature(function).return_annotation).split("[")[0]
    return inspect.unwrap(function).__globals__.get(name)


def has_intervals(function: Any) -> bool:
    """Return whether a function has a confidence, or returns a class with intervals."""
    if not inspect.isfunction(function) or function.__name__ == "__init__":
        return False
    cls = returned_class(function)
    described = inspect.isclass(cls) and re.search(r"``high``|\bhigh:", inspect.getdoc(cls) or "")
    return "confidence" in inspect.signature(function).parameters or bool(described)


def functions_with_intervals() -> set[str]:
    """Return the exported functions and methods with intervals, by their full name."""
    names = set()
    for line in API.read_text(encoding="utf-8").splitlines():
        module, _, name = line.partition(" ")[0].rpartition(".")
        if not module.startswith("fairtk") or module.startswith("fairtk_"):
            continue
        member = getattr(importlib.import_module(module), name)
        members = [member, *(vars(member).values() if inspect.isclass(member) else ())]
        for function in filter(has_intervals, members):
            names.add(f"{function.__module__}.{function.__qualname__}")
    return names


@functools.cache
def cases() -> dict[str, Any]:
    return {f"{f.__module__}.{f.__qualname__}": run for f, run in INTERVALS}


def test_every_function_has_a_case():
    assert functions_with_intervals() == set(cases())


# --- statistics of values

ROWS = st.one_of(
    st.lists(st.sampled_from([0.0, 1.0]), min_size=2, max_size=12),  # at the bounds
    st.lists(st.sampled_from([0.0, 0.0, 0.0, 0.25]), min_size=2, max_size=12),
    st.lists(st.floats(0, 1), min_size=2, max_size=12),
    st.lists(st.floats(-3, 3).map(lambda x: round(math.exp(x), 6)), min_size=2, max_size=12),
    st.integers(2, 25).flatmap(lambda n: st.floats(-2, 2).map(lambda x: [x] * n)),  # constant
)


def rounding(values: list[float], seed: int) -> np.ndarray:
    """Return values with errors of the last bits, so that equal values are equal up to rounding."""
    row = np.array(values)
    return row * (1 + np.random.default_rng(seed).integers(-2, 3, len(row)) * 2.0**-53)


def check_means(row: np.ndarray) -> None:
    (low,), (high,) = mean_intervals(row[None])
    check(row.mean(), low, high, no_interval(row))
    (low,), (high,) = mean_intervals(row[None], bounds=(0.0, 1.0), confidence=0.9)
    check(row.mean(), low, high, no_interval(row))


def check_tests(row: np.ndarray) -> None:
    for test, other in itertools.product(TESTS, (0.0, 1.5)):
        result = paired_test(row + other, np.full(len(row), other), test, resamples=99)
        check(result.estimate, result.low, result.high, result.note)
        assert math.isnan(result.p) <= bool(result.note)


def check_corrected(row: np.ndarray) -> None:
    n = 1 + len(row) // 2
    for values in (row, np.zeros(len(row)), row[::-1] + 1.5):
        result = corrected_mean(row[:n], values[:n], values[n:])
        check(result.corrected, result.low, result.high, result.note)
        assert math.isnan(result.p) == bool(result.note)


def check_margins(row: np.ndarray, test: Any) -> None:
    result = test(row, np.zeros(len(row)), 0.1)
    check(result.difference, result.low, result.high, result.note)


def check_levels(row: np.ndarray) -> None:
    for variances in (np.zeros(len(row)), np.full(len(row), 0.01), np.full(len(row), -0.01)):
        result = two_level_mean(row, variances)
        check(result.mean, result.low, result.high, result.note)
        zero = "the error is 0" if result.error_samples == 0 else ""
        check(result.mean, result.low_samples, result.high_samples, zero)


def check_percentiles(row: np.ndarray) -> None:
    drawn = np.random.default_rng(1).multinomial(len(row), np.full(len(row), 1 / len(row)), 50)
    for confidence in (0.1, 0.95):  # of a mean, and of a statistic on a boundary
        for values in (drawn @ row / len(row), np.abs(drawn @ (row - row.mean())) + row.max()):
            for value in (row.mean(), row.max()):
                check(value, *percentile_interval(value, values, confidence))


def check_curves(row: np.ndarray) -> None:
    x = np.stack([np.zeros(len(row)), row], axis=1)
    for points in ((x, x[:, ::-1]), (np.stack([0 * row, 1 + 0 * row], axis=1), x)):
        for value in curve_values(*points, resamples=30).values():
            check(value.value, value.low, value.high, value.note)


# --- statistics of runs

QIDS = [f"q{i}" for i in range(8)]
DOCNOS = [f"d{i}" for i in range(6)]
OWNERS = Groups.from_frame(pd.DataFrame({"docno": DOCNOS, "group": list("xxyyzz")}), name="owner")


def scores(row: np.ndarray) -> pd.DataFrame:
    """Return a run whose rankings differ between queries with different values of a row."""
    rows = [
        (qid, docno, float(((i + 1) * round(float(value), 6)) % 1 - i * 1e-3))
        for qid, value in zip(QIDS, itertools.cycle(row), strict=False)
        for i, docno in enumerate(DOCNOS)
    ]
    return pd.DataFrame(rows, columns=["qid", "docno", "score"])


def labels(row: np.ndarray) -> pd.DataFrame:
    rows = [(qid, docno, int(i % 2)) for qid in QIDS for i, docno in enumerate(DOCNOS)]
    frame = pd.DataFrame(rows, columns=["qid", "docno", "label"])
    return frame.assign(gold_answer="yes")


def check_frontier(row: np.ndarray) -> None:
    runs = {"one": scores(row), "two": scores(row[::-1])}
    result = fairtk.frontier(labels(row), runs, "EE_D@2", "EE_R@2", alphas=[0, 2], resamples=20)
    for frame, value in (
        (result.areas, "area"),
        (result.area_differences, "difference"),
        (result.equal, "difference"),
    ):
        check_rows(frame, value)
    for point in result.curve.to_dict("records"):
        for name in "xy":
            reason = f"interval of {name}" * (f"interval of {name}" in point["note"])
            check(point[name], point[f"{name}_low"], point[f"{name}_high"], reason)
    assert "nan" not in repr(result)


def check_precision(row: np.ndarray) -> None:
    for alpha in (1, 100):  # all samples are equal at 100
        run = FairSampler(alpha=alpha, n_samples=5, cutoff=2)(scores(row))
        result = fairtk.precision(labels(row), run, ["EE_R@2", "EE_D@2"])
        for mean in result.means.to_dict("records"):
            half = mean["half_width"]
            assert half > 0 or (math.isnan(half) and mean["error"] == 0)


def check_comparison(row: np.ndarray, compare: Any) -> None:
    runs = {"one": scores(row), "two": scores(row[::-1])}
    for test in TESTS:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            table = compare(labels(row), runs, "EE_R@2", test=test)
        reasons = " ".join(str(w.message) for w in caught if "EE_R@2: the" in str(w.message))
        tested = table.iloc[1]
        estimate = "estimate" if test == "wilcoxon" else "difference"
        check(tested[estimate], tested["low"], tested["high"], reasons)


def compare_results(qrels: pd.DataFrame, runs: Any, measure: str, **options: Any) -> pd.DataFrame:
    return fairtk.evaluate(qrels, runs, measure).compare("one", **options)


def check_providers(row: np.ndarray) -> None:
    for cutoff in (1, 5):
        result = providers(labels(row), scores(row), OWNERS, cutoff=cutoff, resamples=30)
        check_rows(result.summary, "value")


def check_gain(row: np.ndarray) -> None:
    groups = pd.DataFrame({"qid": QIDS, "group": list("aaaabbbc")})
    answers = pd.DataFrame(
        {"qid": QIDS, "docno": "d0", "score": 1.0, "rank": 0,
         "qanswer": ["yes" if value > 0.5 else "no" for value in itertools.islice(
             itertools.cycle(row), len(QIDS))]}
    )  # fmt: skip
    for n in (8, 7):  # the last group has one query
        qrels = labels(row)
        qrels = qrels[qrels["qid"].isin(QIDS[:n])]
        run, bare = answers[:n], answers[:n].assign(qanswer="no")
        result = query_gain(qrels, run, bare, groups[:n], EU(utility="em"), resamples=30)
        check_rows(result.table, "gain")
        check_rows(result.comparison, "value")


def check_audit(row: np.ndarray) -> None:
    target = Target.uniform(OWNERS, unknown=False)
    run = scores(row)[lambda frame: frame["qid"].isin(QIDS[:3])]
    qrels = labels(row)[lambda frame: frame["qid"].isin(QIDS[:3])]

    class Sorted(pt.Transformer):
        def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
            inp = inp.sort_values(["qid", "docno"])
            rank = inp.groupby("qid").cumcount()
            return inp.assign(rank=rank, score=-rank.astype(float))

    for reranker in (Sorted(), pt.Transformer.identity()):
        result = order_audit(
            reranker, run, 3, qrels=qrels, measure=nDCG @ 3, groups=OWNERS, target=target,
            resamples=30,
        )  # fmt: skip
        check_rows(result.table, "value")
        check_rows(result.preferences, "value")


def check_browsing(row: np.ndarray) -> None:
    run = scores(row)[["qid", "docno"]].assign(score=1.0)
    sampler = FairSampler(alpha=0, n_samples=4, cutoff=2)
    credit = sampler(run)
    for value in (np.ones(len(credit)), 1.0 + (np.arange(len(credit)) * row[0]) % 1):
        check_rows(fit_browsing(credit.assign(credit=value), run, sampler).table, "weight")


INTERVALS: list[tuple[Any, Any]] = [
    (mean_intervals, check_means),
    (paired_test, check_tests),
    (non_inferiority_test, functools.partial(check_margins, test=non_inferiority_test)),
    (equivalence_test, functools.partial(check_margins, test=equivalence_test)),
    (two_level_mean, check_levels),
    (corrected_mean, check_corrected),
    (percentile_interval, check_percentiles),
    (curve_values, check_curves),
    (inspect.unwrap(fairtk.frontier), check_frontier),
    (inspect.unwrap(fairtk.precision), check_precision),
    (
        inspect.unwrap(fairtk.compare),
        lambda row: check_comparison(row, lambda *a, **k: fairtk.compare(*a, **k).table),
    ),
    (fairtk.Results.compare, functools.partial(check_comparison, compare=compare_results)),
    (inspect.unwrap(providers), check_providers),
    (query_gain, check_gain),
    (order_audit, check_audit),
    (fit_browsing, check_browsing),
]
OF_VALUES = [name for name in cases() if name.startswith("fairtk.report.")]
OF_RUNS = [name for name in cases() if name not in OF_VALUES]


@pytest.mark.parametrize("name", OF_VALUES)
@given(values=ROWS, seed=st.integers(0, 5))
@example(values=[0.3] * 20, seed=1)
@example(values=[0.1, 0.9], seed=0)
def test_intervals_of_values(name, values, seed):
    cases()[name](rounding(values, seed))


@pytest.mark.filterwarnings("ignore::fairtk.errors.FairtkWarning")
@pytest.mark.parametrize("values", [[0.7], [0.2, 0.9], [0.9, 0.8, 0.1, 0.6, 0.3, 0.5, 0.4, 0.2]])
@pytest.mark.parametrize("name", OF_RUNS)
def test_intervals_of_runs(name, values):
    """Equal queries, two kinds of queries, and different ones."""
    cases()[name](np.array(values))


def test_a_page_has_no_interval_of_width_0():
    """All systems have the same ranking for all queries, and a sum is not a mean."""
    run = scores(np.array([0.7]))
    measures = [EE_R @ 2, nDCG @ 3, parse("NumRet")]
    results = Experiment([run, run], None, labels(np.array([0.7])), measures, names=["a", "b"])
    for row in mean_cells(results, None):
        assert [cell.interval for cell in row] == ["(all values are equal)"] * 3
    run = scores(np.array([0.2, 0.9, 0.4, 0.6]))
    run = run[(run["qid"] != "q3") | (run["docno"] == "d1")]
    results = fairtk.evaluate(labels(np.array([0.7])), run, ["E(nDCG@3)", "NumRet"])
    cells = mean_cells(results, None)[0]
    assert cells[0].interval.startswith("[") and cells[1].interval == "(not a mean over queries)"
