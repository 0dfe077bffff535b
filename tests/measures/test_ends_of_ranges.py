"""No measure leaves its range and nothing is worse than a missing query, over all rankings."""

from itertools import combinations, permutations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ir_measures import iter_calc
from small_frames import small_groups

from fairtk import AWRF, EE_D, EE_L, EE_R, Groups, Target
from fairtk.errors import DataWarning, UndefinedWarning

MISSING = "missing"
pytestmark = [
    pytest.mark.filterwarnings("ignore::fairtk.errors.UndefinedWarning"),
    pytest.mark.filterwarnings("ignore::fairtk.errors.DataWarning"),
]


def orders(docs, least=1):
    """All rankings of all subsets of at least so many documents."""
    for size in range(least, len(docs) + 1):
        for chosen in combinations(docs, size):
            yield from permutations(chosen)


def policies(rankings, seed, n=20):
    """Each ranking alone, and pairs of rankings as samples."""
    rng = np.random.default_rng(seed)
    rankings = list(rankings)
    pairs = [[rankings[i] for i in rng.integers(len(rankings), size=2)] for _ in range(n)]
    return [[r] for r in rankings] + pairs


def values(measures, samples, labels):
    """The value of each measure for each policy, one query each, and for a missing query."""
    names = [f"q{i}" for i in range(len(samples))]
    run = pd.DataFrame(
        [
            (name, doc, -float(rank), sample)
            for name, drawn in zip(names, samples, strict=True)
            for sample, ranking in enumerate(drawn)
            for rank, doc in enumerate(ranking)
        ],
        columns=["query_id", "doc_id", "score", "sample"],
    )
    rows = [(name, doc, label) for name in [*names, MISSING] for doc, label in labels.items()]
    qrels = pd.DataFrame(rows, columns=["query_id", "doc_id", "relevance"])
    found = {m: {} for m in measures}
    for metric in iter_calc(measures, qrels, run):
        found[metric.measure][metric.query_id] = metric.value
    return {m: (v.pop(MISSING), np.array(list(v.values()))) for m, v in found.items()}


def check(measure, missing, found, low=-np.inf, high=np.inf):
    found = found[~np.isnan(found)]
    if not len(found):
        return
    assert found.min() >= low - 1e-9, measure
    assert found.max() <= high + 1e-9, measure
    if not np.isnan(missing):
        worse = found - missing if measure.better == "higher" else missing - found
        assert worse.min() >= -1e-9, (measure, missing, found)


labels_of_three = st.lists(st.integers(-1, 2), min_size=3, max_size=3).filter(lambda g: max(g) > 0)
probability = st.sampled_from([0.1, 0.5, 0.9, 1.0])
browsing = st.one_of(
    st.sampled_from(["MU", "DCG", "TREC"]),
    probability.map(lambda p: f"RBP(p={p})"),
    st.tuples(probability, probability).map(lambda pu: "GERR(p={}, u={})".format(*pu)),
)


@settings(max_examples=60, deadline=None)
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


@settings(max_examples=30, deadline=None)
@given(labels_of_three, st.sampled_from([1, 2, 3, 5]), st.booleans(), st.integers(0, 99))
def test_fair_rag(grades, cutoff, graded, seed):
    options = {"variant": "fair-rag", "cutoff": cutoff, "graded": graded}
    measures = [m(**options, normalize=n) for m in (EE_D, EE_R, EE_L) for n in (True, False)]
    labels = dict(zip("abc", grades, strict=True))
    for measure, (missing, found) in values(
        measures, policies(orders("abcx"), seed), labels
    ).items():
        check(measure, missing, found, 0)


@settings(max_examples=60, deadline=None)
@given(
    labels_of_three,
    st.sampled_from(["RBP(p=0.2)", "RBP(p=0.9)", "GERR(p=0.5, u=0.9)", "GERR(p=0.9, u=0.1)"]),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.integers(0, 99),
)
def test_expeval(grades, model, complete, graded, grouped, seed):
    options = {"variant": "expeval", "browsing": model, "complete": complete, "graded": graded}
    if grouped:
        options["groups"] = two_groups()
    labels = dict(zip("abc", grades, strict=True))
    raw = [m(**options, normalize=False) for m in (EE_D, EE_R, EE_L)]
    # with complete labels there are no other documents, and its bounds are for full rankings
    rankings = list(orders("abc" if complete else "abcx"))
    for measure, (missing, found) in values(raw, policies(rankings, seed), labels).items():
        check(measure, missing, found, 0)
    full = [r for r in rankings if len(r) == 3] if complete else rankings
    normalized = [m(**options) for m in (EE_D, EE_R, EE_L)]
    for measure, (missing, found) in values(normalized, policies(full, seed), labels).items():
        check(measure, missing, found)


def two_groups(weight=1.0):
    rows = [("a", "f", 1.0), ("b", "m", 1.0), ("b", "f", weight), ("c", "m", 0.5)]
    frame = pd.DataFrame(rows, columns=["docno", "group", "weight"])
    return Groups.from_frame(frame, name="two", unknown=None, normalize=False)


@settings(max_examples=40, deadline=None)
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
    measures = [m(**options) for m in (EE_D, EE_R, EE_L)]
    for measure, (missing, found) in values(
        measures, policies(orders("abcx"), seed), labels
    ).items():
        check(measure, missing, found, 0)


@settings(max_examples=40, deadline=None)
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


def only(measure, rankings, labels):
    [(missing, found)] = values([measure], rankings, labels).values()
    return missing, found[0]


def test_expeval_raw_relevance_of_a_missing_query_is_no_longer_its_best_value():
    measure = EE_R(variant="expeval", browsing="RBP(p=0.5)", normalize=False)
    # one useful document: target 1, so the best value is 1; the code's "worst" is 1, too
    assert only(measure, [[["a"]]], {"a": 1, "b": 0}) == (0, 1)


def test_fair_rag_raw_loss_of_a_missing_query_where_all_documents_are_useful():
    measure = EE_L(variant="fair-rag", normalize=False) @ 5
    # n = m = 2 <= k: the code's bound divides by 0; targets 1 and 1, and 5 documents with 1: 2 + 5
    assert only(measure, [[["a", "b"]]], {"a": 1, "b": 1}) == (7, 0)


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
