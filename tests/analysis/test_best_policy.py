"""The best that policies can reach: manual values, linear programming, and `frontier`."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import brentq, linprog
from small_frames import small_groups

import fairtk
from fairtk import EE_D, EE_R, FairSampler
from fairtk.analysis.best_policy import best_exposure, bound_values, largest_relevance
from fairtk.demo import study
from fairtk.errors import MissingWarning
from fairtk.exposure import DCG, MU, RBP, TREC, Fitted

MODELS = [MU(), DCG(), RBP(0.8), TREC(), Fitted(weight=(0.5, 1.0, 0.2))]
DOCS = [f"d{i}" for i in range(7)]


def weights_of(model, n, k):
    return np.where(np.arange(n) < k, model.weights(np.arange(n)), 0.0)


def closest(scores, weight, disparity):
    """Return the best exposure of one query."""
    start = np.array([0, len(scores)])
    return best_exposure(scores, start, weight, np.array([disparity]))


def best_inner(vector, weight):
    """Return the largest inner product of a policy's exposure and a vector, by linear programming.

    Variables are the probabilities of each document and rank, a doubly stochastic matrix.
    """
    n = len(vector)
    once = np.kron(np.eye(n), np.ones(n)), np.kron(np.ones(n), np.eye(n))
    result = linprog(-np.outer(vector, weight).ravel(), A_eq=np.vstack(once), b_eq=np.ones(2 * n))
    return -result.fun


def is_exposure(exposure, weight):
    """Return whether a policy has the exposure, by linear programming."""
    n = len(exposure)
    once = np.kron(np.eye(n), np.ones(n)), np.kron(np.ones(n), np.eye(n))
    of = np.kron(np.eye(n), weight)
    limits = np.concatenate([np.ones(2 * n), exposure])
    return linprog(np.zeros(n * n), A_eq=np.vstack([*once, of]), b_eq=limits).status == 0


def test_two_documents_by_hand():
    # one is read; e = (1/2 + x, 1/2 - x) has the squared norm 1/2 + 2 x^2: 5/8 at x = 1/4
    result = closest(np.array([3.0, 1.0]), np.ones(1), 5 / 8)
    assert result == pytest.approx([3 / 4, 1 / 4], abs=1e-12)
    # the target of the first is 1: 1/2 + sqrt((5/8 - 1/2) (1 - 1/2)) = 1/2 + 1/4
    one = np.ones(1)
    bound = largest_relevance(5 / 8 * one, one, one, one, np.array([2]))
    assert bound == pytest.approx([3 / 4], abs=1e-12)
    # at the disparity of equal exposure or less, that value
    assert largest_relevance(0.4 * one, one, one, one, np.array([2])) == [0.5]


def test_three_documents_by_hand():
    # scores 1, 1/2, 0, two are read: c t - tau clipped to [0, 1]. c = 1, tau = -1/6: 7/6, 2/3, 1/6:
    # cut at 1, so tau = -1/4: 1, 3/4, 1/4 with squared norm 26/16
    result = closest(np.array([1.0, 0.5, 0.0]), np.ones(2), 26 / 16)
    assert result == pytest.approx([1, 3 / 4, 1 / 4], abs=1e-12)
    # ties share: at the largest disparity, 1, 1/2, 1/2
    assert closest(np.array([1.0, 0.0, 0.0]), np.ones(2), 2.0) == pytest.approx([1, 0.5, 0.5])


def test_ends_and_equal_scores():
    scores = np.array([2.0, 1.0, -1.0])
    weight = np.array([1.0, 0.5])
    assert closest(scores, weight, 0.0) == pytest.approx([0.5] * 3)
    assert closest(scores, weight, 9.0) == pytest.approx([1.0, 0.5, 0.0])
    assert closest(np.zeros(3), weight, 1.0) == pytest.approx([0.5] * 3)
    assert len(best_exposure(np.zeros(0), np.zeros(1, dtype=int), weight, np.zeros(0))) == 0


@st.composite
def cases(draw):
    n = draw(st.integers(2, 5))
    scores = draw(st.lists(st.integers(0, 6), min_size=n, max_size=n))
    model, k = draw(st.sampled_from(MODELS)), draw(st.integers(1, n))
    return np.sort(np.array(scores, float))[::-1], weights_of(model, n, k), draw(st.floats(0, 1))


@given(cases())
def test_linear_programming_agrees(case):
    """A policy has the exposure e, and at its norm none has a larger inner product with the scores.

    e is the projection of c t: no exposure has a larger inner product with c t - e than e itself,
    the condition of optimality of a convex quadratic program.
    """
    scores, weight, part = case
    low, high = weight.sum() ** 2 / len(scores), (weight**2).sum()
    goal = low + part * (high - low)
    result = closest(scores, weight, goal)
    assert is_exposure(result, weight)
    limit = closest(scores, weight, 99.0)  # ties share, so it may be below `high`
    assert limit @ scores == pytest.approx(best_inner(scores, weight), abs=1e-9)
    assert result @ result == pytest.approx(min(goal, limit @ limit), abs=1e-9)
    gaps = -np.diff(scores)
    if (gaps > 0).any() and result @ result < limit @ limit - 1e-9:
        # in a block e differs by c (t - t'), and between blocks by less
        c = (-np.diff(result)[gaps > 0] / gaps[gaps > 0]).max()
        rest = c * scores - result
        assert best_inner(rest, weight) == pytest.approx(rest @ result, abs=1e-9)


@given(cases(), st.integers(1, 4))
def test_machine_user_in_closed_form(case, k):
    scores, _, part = case
    assume(part == 0 or part > 1e-9)  # brentq cannot tell smaller ones from 0
    n = len(scores)
    k = min(k, n)
    weight = weights_of(MU(), n, k)
    goal = k * k / n + part * (k - k * k / n)
    result = closest(scores, weight, goal)
    limit = closest(scores, weight, 99.0)
    if result @ result >= limit @ limit - 1e-9:
        return

    def clipped(c):
        low, high = c * scores.min() - 2, c * scores.max() + 1
        tau = brentq(lambda t: np.clip(c * scores - t, 0, 1).sum() - k, low, high, xtol=1e-15)
        return np.clip(c * scores - tau, 0, 1)

    c = brentq(lambda c: clipped(c) @ clipped(c) - goal, 0, 1e6, xtol=1e-14) if part else 0.0
    assert result == pytest.approx(clipped(c), abs=1e-7)


@given(cases())
def test_bound_over_labels_is_the_best_for_the_target(case):
    labels, weight, part = case
    n = len(labels)
    sorted_ = np.sort(weight)[::-1]
    target = np.array([sorted_[labels == label].mean() for label in labels])
    low, high = weight.sum() ** 2 / n, (weight**2).sum()
    goal = low + part * (high - low)
    given_ = (np.array([v]) for v in (goal, weight.sum(), weight.sum(), target @ target, n))
    bound = np.minimum(largest_relevance(*given_), target @ target)
    # at the disparity of equal exposure, the square root of a rounding error is added
    near = 1e-9 if part > 1e-6 else 1e-7
    assert bound == pytest.approx([closest(target, weight, goal) @ target], abs=near)


# --- in frontier


def run(seed, n=9):
    rng = np.random.default_rng(seed)
    rows = [(f"q{q}", d, rng.normal() + useful(q, d)) for q in range(n) for d in DOCS]
    return pd.DataFrame(rows, columns=["qid", "docno", "score"])


def useful(query, docno):
    return int((query + int(docno[1:])) % 3 == 0)


QRELS = pd.DataFrame(
    [(f"q{q}", d, useful(q, d)) for q in range(9) for d in DOCS], columns=["qid", "docno", "label"]
)
FAST = {"alphas": [0, 2, 5], "resamples": 5}


def test_a_query_missing_from_the_run_has_the_largest_bound():
    # its EE_D is the worst, 1, at which the ideal ranking has the best EE_R, 1
    n = 8 * len(DOCS)
    alone = fairtk.frontier(QRELS[:n], {"a": run(1)[:n]}, EE_D @ 2, EE_R @ 2, **FAST).curve
    with pytest.warns(MissingWarning, match="q8"):
        curve = fairtk.frontier(QRELS, {"a": run(1)[:n]}, EE_D @ 2, EE_R @ 2, **FAST).curve
    expected = (8 * alone["bound"] + 1) / 9
    np.testing.assert_allclose(curve["bound"], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("cutoff", [1, 2, 3])
def test_passages_can_exceed_the_bound_of_documents(cutoff):
    # with passages p1, p2 of the useful a, both read: e = (2, 0, 0), |e|^2 = 4, and <e, t> = 2
    # with t = (1, 1/2, 1/2), |t|^2 = 3/2: EE_R = 4/3. Of u = (2/3, 2/3, 2/3): 4/3 + sqrt(8/3 * 1/6)
    passages = pd.DataFrame({"docno": ["a%p1", "a%p2", "b%p1", "c%p1"], "score": [4.0, 3, 2, 1]})
    passages = passages.assign(qid="q", parent=list("aabc"))
    labels = pd.DataFrame({"qid": "q", "docno": list("abc"), "label": [1, 0, 0]})
    measures = EE_D @ cutoff, EE_R @ cutoff
    curve = fairtk.frontier(labels, {"a": passages}, *measures, **FAST).curve
    assert (curve["bound"] > curve["y"] - 1e-12).all()
    if cutoff == 2:
        assert curve["bound"].iloc[-1] == pytest.approx(4 / 3, abs=1e-12)


def test_values_of_the_demo():
    """At alpha 4, EE_D is .647; raw EE_R 1.630, best for the scores 1.629, bound 2.790."""
    run, qrels = study.prepare(None)
    result = fairtk.frontier(
        qrels, {"bm25": run}, EE_D @ 5, EE_R(normalize=False) @ 5, alphas=[4], resamples=5
    )
    row = result.curve.iloc[0]
    assert row[["x", "y", "by_scores", "bound"]].round(3).tolist() == [0.647, 1.630, 1.629, 2.790]


@pytest.mark.parametrize(
    ("browsing", "bounds"), [("MU", "paper"), ("MU", "exact"), ("DCG", "exact"), ("RBP", "paper")]
)
def test_no_system_is_above_the_bound(browsing, bounds):
    measures = (m(browsing=browsing, bounds=bounds) @ 3 for m in (EE_D, EE_R))
    oracle = run(2).merge(QRELS).drop(columns="score").rename(columns={"label": "score"})
    drawn = FairSampler(alpha=3, n_samples=40, cutoff=3).transform(run(3))
    runs = {"one": run(1), "oracle": oracle, "drawn": drawn}
    curve = fairtk.frontier(QRELS, runs, *measures, **FAST).curve
    swept = curve[curve["system"] != "drawn"]
    assert (swept["bound"] >= swept["y"] - 1e-9).all()
    assert (swept["bound"] >= swept["by_scores"] - 1e-9).all()
    own = curve[curve["system"] == "oracle"]  # scores are labels: the policy is the best one
    assert own["by_scores"].to_numpy() == pytest.approx(own["bound"].to_numpy(), abs=1e-7)
    assert np.isnan(curve.iloc[-1]["by_scores"]) and curve.iloc[-1]["bound"] > 0
    one = curve[curve["system"] == "one"].iloc[0]  # equal exposure
    assert [one["bound"], one["by_scores"]] == pytest.approx([one["y"]] * 2, abs=1e-7)


@pytest.mark.filterwarnings("ignore::fairtk.errors.TruncationWarning")
@given(st.integers(0, 10_000), st.integers(1, 7), st.integers(1, 4))
def test_short_rankings_are_not_above_the_bound(seed, length, k):
    rng = np.random.default_rng(seed)
    rows = [
        ("q0", docno, float(-i), i, sample)
        for sample in range(3)
        for i, docno in enumerate(rng.permutation(DOCS)[: rng.integers(1, length + 1)])
    ]
    drawn = pd.DataFrame(rows, columns=["qid", "docno", "score", "rank", "sample"])
    labels = pd.DataFrame({"qid": "q0", "docno": DOCS, "label": rng.integers(0, 3, 7)})
    labels.loc[0, "label"] = 1
    x, y = EE_D @ k, EE_R @ k
    values = fairtk.evaluate(labels, drawn, [y]).per_query["value"]
    assert bound_values(labels, drawn, x, y)[0] >= values.iloc[0] - 1e-9


def test_only_for_exposure_of_documents_under_one_model():
    groups = small_groups(DOCS, list("mnmnmnm"), "g")
    options = {"groups": [groups], "target": "uniform", **FAST}
    for x, y in (("AWRF@3", "EE_R@3"), ("EE_R@3", "EE_D@3"), ("EE_D@3", "EE_R@5"),
                 ("EE_D@3", "EE_R(browsing='DCG')@3"), ("GroupEE_D@3", "GroupEE_R@3")):  # fmt: skip
        result = fairtk.frontier(QRELS, [run(1)], x, y, **options)
        assert result.curve[["bound", "by_scores"]].isna().all(axis=None)
        assert "bound" not in repr(result)


def test_the_table_the_figure_and_the_page_have_the_bound(tmp_path):
    result = fairtk.frontier(QRELS, {"one": run(1)}, **FAST)
    row = result.curve.iloc[1]
    cells = result._table().rows[1]
    assert [float(c) for c in cells[6:9]] == pytest.approx(
        [row["bound"], row["bound"] - row["y"], row["by_scores"]], abs=1e-4
    )
    labels = [line.get_label() for line in result.plot().axes[0].lines]
    assert {"bound over the labels", "best for the scores"} <= set(labels)
    result.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert f"{row['bound']:.3f}" in page and "no bound of EE_R" in page


def test_a_query_missing_from_a_run():
    part = run(1)[lambda f: f["qid"] != "q0"]
    with pytest.warns(fairtk.errors.FairtkWarning, match="q0"):
        curve = fairtk.frontier(QRELS, {"one": part}, **FAST).curve
    assert (curve["bound"] >= curve["y"] - 1e-9).all() and curve["by_scores"].notna().all()
