"""AE_D, AE_R, AE_L, AWRF of credit and CreditGap, by hand; faults of the frame C."""

import itertools
import math

import ir_measures
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_frames import small_groups, values

import fairtk
from fairtk import Groups, Target
from fairtk.credit import (
    AE_D,
    AE_L,
    AE_R,
    CitationPrecision,
    CitationRecall,
    CreditAWRF,
    CreditGap,
    Subsets,
)
from fairtk.errors import (
    ColumnError,
    DataWarning,
    InputError,
    ParameterError,
    UndefinedWarning,
)

QRELS = pd.DataFrame(
    {"qid": ["1", "1", "1", "2"], "docno": ["a", "b", "c", "a"], "label": [2, 1, 0, 1]}
)
ONE = QRELS[QRELS["qid"] == "1"]


def frame(*rows):
    return pd.DataFrame(rows, columns=["qid", "sample", "docno", "rank", "credit"])


TWO = frame(
    ("1", 0, "a", 0, 3.0), ("1", 0, "c", 1, 1.0), ("1", 1, "b", 0, 1.0), ("1", 1, "c", 1, 1.0)
)
"""Shares: a 3/4 and c 1/4; b and c 1/2 each. Means: a 3/8, b 1/4, c 3/8."""
XYY = small_groups("abc", "xyy")


def value(measure, credit, qrels=ONE):
    return values(measure, qrels, credit)["1"]


def test_by_hand():
    square = (9 + 4 + 9) / 64
    assert value(AE_D, TWO) == pytest.approx(square)
    assert value(AE_D(bounds="exact"), TWO) == pytest.approx((square - 1 / 3) / (2 / 3))
    # a cutoff cuts the target, not credit; its page said "ranks read"
    assert value(AE_D @ 1, TWO) == pytest.approx(square)
    assert "all credit counts" in AE_D.SUPPORTED_PARAMS["cutoff"].desc
    # AE_L = (1 + 4 + 9) / 64; the worst is all credit on c, whose target is 0: 1 + 1/2
    assert value(AE_L(bounds="exact") @ 2, TWO) == pytest.approx(14 / 64 / 1.5)
    # as it is: means a 1.5, b .5, c 1
    plain = AE_D(share=False, normalize=False)
    assert value(plain, TWO) == pytest.approx(2.25 + 0.25 + 1)


def test_the_gap_by_hand():
    # exposure: a 1/4, b 1/4, c 1/2 of two ranks
    assert value(CreditGap @ 2, TWO) == pytest.approx(1 / 64 + 0 + 1 / 64)
    groups = small_groups("ab", "xy")
    gap = (CreditGap(groups=groups) @ 2).per_group(TWO).set_index("group")["gap"]
    assert gap.to_dict() == pytest.approx({"x": 1 / 8, "y": 0.0, "@UNKNOWN": -1 / 8})
    # one rank: a 1/2, b 1/2 are shown, c never
    alone = (CreditGap @ 1).per_group(TWO).set_index("docno")
    assert alone.loc["c", ["credit", "exposure"]].tolist() == [3 / 8, 0]


def test_a_cutoff_of_credit_is_refused():
    measure = CreditAWRF(groups=XYY, target=Target.uniform(XYY, unknown=False))
    with pytest.raises(ParameterError):
        _ = measure @ 5


def test_undefined_rankings_are_left_out_and_counted():
    credit = pd.concat(
        [
            TWO,
            frame(("1", 2, "a", 0, math.nan), ("1", 2, "b", 1, 1.0)),  # one is not known
            frame(("1", 3, "a", 0, -1.0), ("1", 3, "b", 1, 0.0)),  # nothing above 0
            frame(("2", 0, "a", 0, 0.0)),
        ]
    )
    with pytest.warns() as caught:
        values = dict((m.query_id, m.value) for m in ir_measures.iter_calc([AE_D], QRELS, credit))
    messages = [str(w.message) for w in caught]
    assert values["1"] == pytest.approx(22 / 64) and math.isnan(values["2"])
    assert any("negative values of credit count as 0 (1, for" in text for text in messages)
    assert any(
        "undefined (NaN, or a sum of 0) for some rankings (2, for" in text for text in messages
    )
    assert any("undefined (NaN) for 1 of 2 queries" in text and "'2'" in text for text in messages)


def test_a_query_that_the_frame_lacks_gets_the_worst_value():
    with pytest.warns(UserWarning):
        result = fairtk.evaluate(QRELS, {"x": TWO}, [AE_D, AE_R @ 2, AE_L @ 2, CreditGap @ 2])
    worst = result.per_query.query("qid == '2'").set_index("measure")["value"].to_dict()
    assert worst == {"AE_D": 1.0, "AE_R@2": 0.0, "AE_L@2": 1.0, "CreditGap@2": 2.0}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: AE_D(share=False), "normalize=False"),
        (lambda: AE_R(browsing="GERR"), "is not supported"),
        (lambda: ir_measures.calc([AE_R], QRELS, TWO), "write AE_R@5"),
        (lambda: ir_measures.calc([CreditGap], QRELS, TWO), "write CreditGap@5"),
        (lambda: AE_D(negative="keep"), "negative"),
    ],
)
def test_wrong_settings(make, message):
    with pytest.raises(ParameterError, match=message):
        make()


def test_negative_credit_can_be_refused():
    below = TWO.assign(credit=[-1.0, 1, 1, 1])
    with pytest.raises(InputError, match="got -1.*qid '1'.*sample 0.*docno 'a'"):
        ir_measures.calc([AE_D(negative="refuse")], QRELS, below)
    with pytest.warns(DataWarning, match=r"negative values of credit count as 0 \(1, for"):
        ir_measures.calc([AE_D], ONE, below)


def test_subsets_are_no_rankings():
    subsets = Subsets("all")(TWO[:2].assign(score=[2.0, 1.0])).assign(credit=1.0)
    for measure in (AE_D, fairtk.EE_D @ 1):
        with pytest.raises(ColumnError, match="got subsets"):
            ir_measures.calc([measure], QRELS, subsets)


@given(st.lists(st.lists(st.floats(0.01, 10), min_size=1, max_size=5), min_size=1, max_size=4))
def test_bounds_hold(rankings):
    rows = [
        ("1", sample, f"d{place}", place, credit)
        for sample, ranking in enumerate(rankings)
        for place, credit in enumerate(ranking)
    ]
    credit = frame(*rows)
    labels = pd.DataFrame({"qid": "1", "docno": [f"d{i}" for i in range(5)], "label": range(5)})
    measures = [AE_D, AE_D(bounds="exact"), AE_R @ 3, AE_L @ 3, AE_L(bounds="exact") @ 3]
    values = ir_measures.calc_aggregate(measures, labels, credit)
    assert all(-1e-9 <= each <= 1 + 1e-9 for each in values.values())
    raw = [m(normalize=False) for m in (AE_D, AE_R @ 3, AE_L @ 3)]
    disparity, relevance, loss = (ir_measures.calc_aggregate([m], labels, credit)[m] for m in raw)
    # d4, d3, d2 are read at best: the target is 1/3 each
    assert loss == pytest.approx(disparity - 2 * relevance + 1 / 3)


def test_ranks_of_a_gap_order_and_stand_once():
    run = pd.DataFrame({"qid": "1", "docno": ["a", "b"], "credit": [0.5, 0.25], "rank": [0, 1]})
    measure = CreditGap @ 1
    expected = measure.per_group(run)
    scored = run.drop(columns="rank").assign(score=[2.0, 1.0])
    for same in (run.assign(rank=[1, 2]), run.assign(rank=[0, 7]), scored):
        pd.testing.assert_frame_equal(measure.per_group(same), expected)
    with pytest.raises(InputError, match="qid '1'"):
        measure.per_group(run.assign(score=[1.0, 2.0]))
    with pytest.raises(InputError, match="rank 0.*'1'"):
        measure.per_group(run.assign(rank=[0, 0]))


LABELS = pd.DataFrame({"qid": "1", "docno": ["a", "b", "d"], "label": [2, 0, 1]})
CITED = frame(
    ("1", 0, "a", 0, 1.0), ("1", 0, "b", 1, 0.5), ("1", 1, "a", 0, 2.0), ("1", 1, "b", 1, 0.0)
)


def test_citations_of_useful_documents_by_hand():
    # answers cite a and b, and a; a and d are useful. Precision 1/2 and 1, recall 1/2 twice
    assert value(CitationPrecision, CITED, LABELS) == 0.75
    assert value(CitationRecall, CITED, LABELS) == 0.5
    # with rel=2 a alone is useful
    assert value(CitationRecall(rel=2), CITED, LABELS) == 1.0
    nothing = frame(("1", 2, "a", 0, math.nan), ("1", 2, "b", 1, math.nan))
    with pytest.warns(DataWarning, match=r"without citations \(1, for"):
        assert value(CitationPrecision, pd.concat([CITED, nothing]), LABELS) == 0.75
    # without a citation nothing useful is cited
    assert value(CitationRecall, pd.concat([CITED, nothing]), LABELS) == pytest.approx(1 / 3)


@pytest.mark.filterwarnings("ignore::fairtk.errors.MissingWarning")
def test_citations_where_nothing_is_cited_or_useful():
    with pytest.warns(UndefinedWarning, match="'1'"):
        assert math.isnan(value(CitationPrecision, CITED.assign(credit=0.0), LABELS))
    with pytest.warns(UndefinedWarning, match="'1'"):
        assert math.isnan(value(CitationRecall, CITED, LABELS.assign(label=0)))
    worse = pd.concat([LABELS, LABELS.assign(qid="2")])
    values = ir_measures.iter_calc([CitationPrecision, CitationRecall], worse, CITED)
    assert [m.value for m in values if m.query_id == "2"] == [0, 0]


def test_groups_without_documents():
    groups = small_groups("z", "x")
    with pytest.warns(UndefinedWarning, match="'1'"):
        assert math.isnan(value(CreditGap(groups) @ 2, TWO))
    measure = CreditAWRF(groups=groups, target=Target.uniform(groups, unknown=False))
    with (
        pytest.warns(UndefinedWarning, match="'1'"),
        pytest.warns(DataWarning, match="known group for 1 of 1 query .'1'"),
    ):
        assert math.isnan(value(measure, TWO))


def test_groups_of_documents_have_no_credit_measure_of_their_own():
    groups = small_groups("a", "x")
    with pytest.raises(ParameterError, match="AE_D"):
        fairtk.ByGroup(AE_D, groups)
    assert fairtk.ByGroup(AE_D, groups, by="query").better == "lower"


def test_explain_shows_credit():
    measure = CreditAWRF(groups=XYY, target=Target.uniform(XYY, unknown=False))
    explanation = fairtk.explain(ONE, TWO, measure)
    table = explanation.by_group.set_index("group")
    assert table["exposure"].to_dict() == pytest.approx({"x": 3 / 8, "y": 5 / 8})
    assert table["cost"].sum() == pytest.approx(1 - value(measure, TWO))


# The unbiased estimates -------------------------------------------------------------------------

SIDES = Groups.from_frame(
    pd.DataFrame({"docno": ["a", "b", "c"], "group": ["x", "y", "x"], "weight": [1.0, 0.5, 1.0]}),
    name="side",
    normalize=False,
)
"""b belongs to y by a half, and to @UNKNOWN by the other."""


def test_the_upper_bound_of_weights_that_are_not_normalized():
    assert CreditGap.bounds == (0, 2)
    assert CreditGap(groups=SIDES).bounds == (0, 2)  # b: 1/4 + 1/4; no document: 1
    heavy = Groups.from_frame(
        pd.DataFrame({"docno": ["a", "a", "b"], "group": ["x", "y", "x"], "weight": [1, 2, 0.2]}),
        name="heavy",
        normalize=False,
    )
    measure = CreditGap(groups=heavy) @ 2
    assert measure.bounds == (0, 10)  # a: 1 + 4; its @UNKNOWN is not below 0
    labels = pd.DataFrame({"qid": ["1", "9"], "docno": ["a", "a"], "label": [1, 1]})
    result = values(measure, labels, TWO)
    assert result["9"] == 10  # the worst


def test_a_gap_of_unknown_groups_alone_is_undefined_not_0():
    """Only d has a group; without credit and exposure of d, @UNKNOWN has all of both."""
    qrels = pd.DataFrame({"qid": ["1"], "docno": ["c"], "label": [1]})
    side = small_groups("d", "x")
    beyond = frame(("1", 0, "c", 0, 2.0), ("1", 0, "d", 1, 0.0))
    left_out = frame(("1", 0, "c", 0, 2.0), ("1", 1, "d", 0, 0.0))
    for credit in (beyond, left_out):
        with pytest.warns() as caught:
            assert math.isnan(value(CreditGap(groups=side) @ 1, credit, qrels))
        assert any("has a group" in str(w.message) for w in caught)
    # at two ranks d has half of the exposure: x -1/2, @UNKNOWN 1/2
    assert value(CreditGap(groups=side) @ 2, beyond, qrels) == pytest.approx(1 / 2)


weights = st.lists(st.integers(0, 5), min_size=3, max_size=3).filter(any)


@given(
    rankings=st.lists(st.tuples(st.permutations("abc"), weights), min_size=2, max_size=3),
    size=st.integers(2, 3),
)
def test_the_mean_of_the_unbiased_values_is_the_exact_one(rankings, size):
    """Enumerate all samples of a policy that draws from a few (ranking, credit) pairs uniformly."""
    qrels = pd.DataFrame({"qid": "q", "docno": ["a", "b", "c"], "label": [1, 1, 0]})
    share = np.array([[credit["abc".index(d)] for d in "abc"] for _, credit in rankings], float)
    share /= share.sum(axis=1, keepdims=True)
    exposure = np.array([[(order.index(d) < 2) / 2 for d in "abc"] for order, _ in rankings])
    target = np.array([0.5, 0.5, 0.0])  # two useful documents fill two ranks
    members = np.array([[1, 0, 0], [0, 0.5, 0.5], [1, 0, 0]])  # x, y, @UNKNOWN
    exact = [
        (AE_D(estimator="unbiased"), (share.mean(axis=0) ** 2).sum()),
        (
            AE_L(normalize=False, estimator="unbiased") @ 2,
            ((share.mean(axis=0) - target) ** 2).sum(),
        ),
        (CreditGap(estimator="unbiased") @ 2, ((share - exposure).mean(axis=0) ** 2).sum()),
        (
            CreditGap(groups=SIDES, estimator="unbiased") @ 2,
            (((share - exposure).mean(axis=0) @ members) ** 2).sum(),
        ),
    ]
    draws = list(itertools.product(range(len(rankings)), repeat=size))
    rows = [
        (f"q{i}", sample, doc, rank, float(rankings[which][1]["abc".index(doc)]))
        for i, draw in enumerate(draws)
        for sample, which in enumerate(draw)
        for rank, doc in enumerate(rankings[which][0])
    ]
    all_qrels = pd.concat([qrels.assign(qid=f"q{i}") for i in range(len(draws))])
    for measure, expected in exact:
        values = [m.value for m in ir_measures.iter_calc([measure], all_qrels, frame(*rows))]
        assert np.mean(values) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    "measure", [AE_D(estimator="unbiased"), AE_L(estimator="unbiased") @ 2, CreditGap(
        estimator="unbiased") @ 2]
)  # fmt: skip
def test_too_few_rankings_for_the_unbiased_estimate(measure):
    single = TWO[TWO["sample"] == 0]
    with pytest.raises(InputError, match="'1'"):
        value(measure, single)
    # without samples the ranking is the policy, and the plain value exact
    policy = single.drop(columns="sample")
    plain = type(measure)(**{**measure.params, "estimator": "plain"})
    assert value(measure, policy) == value(plain, policy)
    undefined = TWO.assign(credit=TWO["credit"].where(TWO["sample"] == 0))
    with pytest.warns() as caught:
        assert math.isnan(value(measure, undefined))
    assert any("only one of its rankings" in str(w.message) for w in caught)
