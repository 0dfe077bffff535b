"""ExposureGini: hand-computed cases, and the contract of all measures."""

import math

import ir_measures
import pandas as pd
import pytest
from fairtk_hello import ExposureGini, fairtk_measures

from fairtk.errors import UndefinedWarning
from fairtk.testing import MeasureContract


class TestContract(MeasureContract):
    measure = ExposureGini() @ 2


class TestContractWithoutCutoff(MeasureContract):
    measure = ExposureGini()


def value(samples, labels, cutoff):
    run = pd.DataFrame(
        [
            ("q", docno, -float(rank), sample)
            for sample, ranking in enumerate(samples)
            for rank, docno in enumerate(ranking)
        ],
        columns=["query_id", "doc_id", "score", "sample"],
    )
    qrels = pd.DataFrame(
        [("q", docno, label) for docno, label in labels.items()],
        columns=["query_id", "doc_id", "relevance"],
    )
    return ir_measures.calc_aggregate([ExposureGini() @ cutoff], qrels, run).popitem()[1]


def test_by_hand():
    # first two ranks: ab, ac, ab. Useful: a shown 3 times, b 2, d never; c is not useful.
    # differences: |3-2| + |3-0| + |2-0| = 6, each pair counted twice: 12;
    # G = 12 / (2 * n^2 * mean) = 12 / (2 * 9 * 5/3) = 0.4
    samples = [["a", "b", "d"], ["a", "c", "d"], ["a", "b", "c"]]
    assert value(samples, {"a": 1, "b": 2, "c": 0, "d": 1}, 2) == pytest.approx(0.4)


def test_even_and_uneven():
    labels = {"a": 1, "b": 1}
    assert value([["a", "b"], ["b", "a"]], labels, 1) == 0
    assert value([["a", "b"], ["a", "b"]], labels, 1) == pytest.approx(0.5)  # 1 - 1/m
    assert value([["a", "b"], ["a", "b"]], labels, 2) == 0


def test_nothing_useful_shown_is_worst():
    assert value([["x", "a"]], {"a": 1, "x": 0}, 1) == 1


def test_nothing_useful_is_undefined():
    with pytest.warns(UndefinedWarning, match="'q'"):
        assert math.isnan(value([["a"]], {"a": 0}, 1))


def test_the_hook_gives_the_measure():
    assert [m.NAME for m in fairtk_measures()] == ["ExposureGini"]
