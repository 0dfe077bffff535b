"""No measure leaves its range and nothing is worse than a missing query, over all rankings."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ranges import check, labels_of_three, only, orders, policies, two_groups, values
from small_frames import small_groups

from fairtk import AWRF, EE_D, EE_L, EE_R, GroupEE_D, GroupEE_L, GroupEE_R, Target
from fairtk.errors import DataWarning, UndefinedWarning

pytestmark = [
    pytest.mark.filterwarnings("ignore::fairtk.errors.UndefinedWarning"),
    pytest.mark.filterwarnings("ignore::fairtk.errors.DataWarning"),
]


probability = st.sampled_from([0.1, 0.5, 0.9, 1.0])
browsing = st.one_of(
    st.sampled_from(["MU", "DCG", "TREC"]),
    probability.map(lambda p: f"RBP(p={p})"),
    st.tuples(probability, probability).map(lambda pu: "GERR(p={}, u={})".format(*pu)),
)


@given(
    labels_of_three,
    browsing,
    st.sampled_from([1, 2, 3, 5, None]),
    st.sampled_from(["judged+retrieved", "judged", 5]),
    st.sampled_from(["paper", "exact"]),
    st.booleans(),
    st.integers(0, 99),
)
def test_paper(grades, model, cutoff, n, bounds, graded, seed):
    if model == "MU" and cutoff is None:
        cutoff = 4
    labels = dict(zip("abc", grades, strict=True))
    options = {"browsing": model, "cutoff": cutoff, "n": n, "bounds": bounds, "graded": graded}
    measures = [m(**options) for m in (EE_D, EE_R, EE_L)]
    raw = [m(normalize=False) for m in measures]
    found = values(measures + raw, policies(orders("abcx"), seed), labels)
    for measure in measures:
        check(measure, *found[measure], 0, 1)
    for measure in raw:
        check(measure, *found[measure], 0)


@given(
    labels_of_three,
    st.sampled_from(["TREC", "DCG", "RBP(p=0.9)", "GERR(p=0.9, u=0.5)"]),
    st.sampled_from([1, 2, 20, None]),
    st.booleans(),
    st.integers(0, 99),
)
def test_groups(grades, model, cutoff, useful_only, seed):
    groups = two_groups()
    options = {"groups": groups, "target": Target.uniform(groups), "browsing": model}
    options |= {"cutoff": cutoff, "useful_only": useful_only}
    labels = dict(zip("abc", grades, strict=True))
    measures = [m(**options) for m in (GroupEE_D, GroupEE_R, GroupEE_L)]
    for measure, (missing, found) in values(
        measures, policies(orders("abcx"), seed), labels
    ).items():
        check(measure, missing, found, 0)


@given(
    st.sampled_from(["e", 2]),
    st.sampled_from([1, 2, None]),
    st.sampled_from(["drop", "unknown", "uniform", "best", "worst"]),
    st.booleans(),
    st.floats(0, 1),
    st.integers(0, 99),
)
def test_awrf(base, cutoff, policy, amortize, share, seed):
    groups = small_groups("abc", ["f", "m", "@UNKNOWN"])
    shares = pd.DataFrame({"group": ["f", "m"], "weight": [share, 1 - share]})
    options = {"groups": groups, "target": Target.from_frame(shares, groups), "base": base}
    options |= {"cutoff": cutoff, "unlabeled": policy, "amortize": amortize}
    [(missing, found)] = values(
        [AWRF(**options)], policies(orders("abcx"), seed), {"a": 1, "b": 0}
    ).values()
    check(AWRF(**options), missing, found, 0 if base == 2 else 1 - np.log(2), 1)


@pytest.mark.parametrize("measure", [EE_D, EE_R, EE_L])
def test_exact_bounds_are_for_full_rankings(measure):
    labels = {"a": 1, "b": 0, "c": 0}
    exact = measure(bounds="exact") @ 2
    with pytest.warns(UndefinedWarning, match="1 of 3.*'q0'"):
        _, found = values([exact], [[["b"]], [["b", "c"]]], labels)[exact]
    assert np.isnan(found).tolist() == [True, False]
    assert not np.isnan(only(measure(bounds="exact", normalize=False) @ 2, [[["b"]]], labels)[1])


def test_more_documents_than_are_counted():
    measure = EE_D(n="judged") @ 5
    with pytest.warns(UndefinedWarning, match="'judged'"):
        _, found = only(measure, [[["a", "x"]]], {"a": 1})
    assert np.isnan(found)


def test_cascade_bounds():
    # p = 1, u = .5, one useful document a of two: targets 1 and .5, squared norm 1.25. With b
    # first both get 1, so EE-R = 1.5 and EE-D = 2, which are the true upper bounds.
    labels, model = {"a": 1, "b": 0}, "GERR(p=1.0, u=0.5)"
    assert only(EE_R(browsing=model), [[["b", "a"]]], labels)[1] == pytest.approx(1)
    assert only(EE_R(browsing=model), [[["a", "b"]]], labels)[1] == pytest.approx(1.25 / 1.5)
    assert only(EE_D(browsing=model), [[["b", "a"]]], labels)[1] == pytest.approx(1)
    # one useful document alone: nothing can come before it
    alone = {"a": 1, "b": 1}
    assert only(EE_D(browsing=model), [[["b", "a"]]], alone)[1] == pytest.approx(1)


def test_no_worst_raw_value_without_a_cutoff():
    measure = EE_D(browsing="DCG", normalize=False)
    with pytest.warns(UndefinedWarning, match="'missing'"):
        assert np.isnan(only(measure, [[["a"]]], {"a": 1})[0])
    # the sum of .25^i over all ranks
    missing, _ = only(EE_D(browsing="RBP(p=0.5)", normalize=False), [[["a"]]], {"a": 1})
    assert missing == pytest.approx(4 / 3)


def test_awrf_with_neither_target_nor_run():
    groups = small_groups("a", "f", "gender")
    rows = pd.DataFrame({"qid": ["q0"], "group": ["f"], "weight": [1.0]})
    measure = AWRF(groups=groups, target=Target.from_frame(rows, groups))
    with pytest.warns((UndefinedWarning, DataWarning), match="'missing'"):
        missing, found = only(measure, [[["a"]]], {"a": 1})
    assert np.isnan(missing)
    assert found == 1
