"""Products of measures: query by query, cutoffs, forms."""

import pandas as pd
import pytest
from ir_measures import RR, calc_aggregate, nDCG, parse_measure
from small_frames import values

from fairtk import EE_D, EE_R, ByGroup, E, Groups
from fairtk.errors import ParameterError
from fairtk.measures import Product, parse

QRELS = pd.DataFrame(
    {"query_id": ["q1", "q1", "q2", "q2"], "doc_id": list("abab"), "relevance": [1, 0, 1, 0]}
)
RUN = pd.DataFrame(
    {"query_id": ["q1", "q1", "q2", "q2"], "doc_id": list("abba"), "score": [2.0, 1.0, 2.0, 1.0]}
)


def test_product_is_taken_before_the_mean():
    # RR: 1 and 1/2; EE_R@1 (n=2, m=1, k=1): 1 and 0. Mean of products 1/2, not 3/4 * 1/2
    product = RR * (EE_R @ 1)
    assert values(product, QRELS, RUN) == {"q1": 1, "q2": 0}
    assert calc_aggregate([product], QRELS, RUN)[product] == 0.5


def test_the_cutoff_goes_to_the_factors_that_have_none():
    # Python reads a @ 2 * b @ 1 as ((a @ 2) * b) @ 1
    assert nDCG @ 2 * EE_R @ 1 == Product(left="nDCG@2", right="EE_R@1")
    assert (nDCG * EE_R) @ 1 == Product(left="nDCG@1", right="EE_R@1")
    with pytest.raises(ParameterError):
        (nDCG @ 2 * (EE_R @ 1)) @ 5


def test_forms():
    product = E(nDCG @ 2) * (EE_R @ 1)
    assert parse_measure(repr(product)) == product == parse("E(nDCG@2) * EE_R @ 1")
    assert parse("nDCG@2 * EE_R@1") == nDCG @ 2 * EE_R @ 1
    assert parse("RR * nDCG@2") == Product(left="RR@2", right="nDCG@2")
    nested = product * (EE_R @ 2)
    assert parse_measure(repr(nested)) == nested


def test_directions_must_agree():
    with pytest.raises(ParameterError):
        nDCG @ 2 * (EE_D @ 1)
    with pytest.raises(TypeError):
        2 * EE_R


@pytest.mark.parametrize("compare", ["min", "difference"])
def test_a_measure_without_values_of_queries_is_refused(compare):
    groups = Groups.from_frame(pd.DataFrame({"docno": ["q1", "q2"], "group": ["x", "y"]}), "kind")
    better = EE_D @ 1 if compare == "difference" else EE_R @ 1
    for factor in (ByGroup(RR, groups, compare=compare, by="query"),
                   E(ByGroup(RR, groups, compare=compare, by="query"))):  # fmt: skip
        with pytest.raises(ParameterError, match="ByGroup"):
            factor * better
