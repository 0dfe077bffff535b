"""DELTR as a transformer: rankings, groups, training data."""

import numpy as np
import pandas as pd
import pytest
from deltr_data import frame, groups, labels, made_up
from fairtk_baselines import DELTR
from fairtk_baselines.vectors import strictly_falling
from hypothesis import given
from hypothesis import strategies as st

from fairtk.errors import ColumnError, DataWarning, DuplicateError, InputError, ParameterError
from fairtk.groups import UNKNOWN
from fairtk.testing import TransformerContract, toy_groups, toy_qrels, toy_run

RUN, QRELS, GROUPS = made_up()


def with_features(run):
    """Add two features: how long the text is, and the input's score."""
    vectors = [np.array([len(t), s]) for t, s in zip(run["text"], run["score"], strict=True)]
    return run.assign(features=pd.Series(vectors, index=run.index, dtype=object))


def toy_fitted(**settings):
    from fairtk import Groups

    run = with_features(toy_run())
    made = DELTR(Groups.from_frame(toy_groups()), "house", **settings)
    return made.fit(run[run["qid"] != "q4"], toy_qrels())


class TestContract(TransformerContract):
    fitted = ("model",)

    def make(self):
        return toy_fitted()

    def other_values(self):
        from fairtk import Groups

        refused = {"gradient": "published"}  # requires optimizer="gd"
        return {
            **{"groups": Groups.from_frame(toy_groups()[1:]), "protected": "sea"},
            **{"groups_apart": "each", "unknown": "unprotected", "labels": "share"},
            **{"normalize_by": "all", "average": "documents", "standardize": "global"},
            **{"optimizer": "gd", **refused},
        }

    def others(self):
        return [
            toy_fitted(gamma=2),
            toy_fitted(exposure="relative"),
            toy_fitted(protected_as_feature=False),
            toy_fitted(seed=3),
            DELTR(toy_fitted().groups, "house"),
        ]

    def inp(self):
        return with_features(toy_run())


# Rankings ----------------------------------------------------------------------------------------


def test_scores_are_weighted_sums_and_rank_the_run():
    fitted = DELTR(GROUPS, "b").fit(RUN, QRELS)
    out = fitted.transform(RUN)
    model = fitted.model
    x = (np.stack(out["features"].tolist()) - model.mean) / model.deviation
    protected = out["docno"].map(lambda d: float(int(d.split("-")[1]) % 2)).to_numpy()
    wanted = x @ model.weights + protected * model.group_weights[0]
    assert out["score"].to_numpy() == pytest.approx(wanted, abs=1e-12)
    for _, part in out.groupby("qid"):
        assert part["rank"].tolist() == list(range(len(part)))
        assert (np.diff(part["score"]) < 0).all()


def test_equal_scores_keep_the_inputs_order_and_fall_all_the_same():
    fitted = DELTR(GROUPS, "b").fit(RUN, QRELS)
    same = [np.ones(3)] * 4
    out = fitted.transform(frame({"q": ["w", "z", "y", "x"]}, same))  # documents without a group
    assert out["docno"].tolist() == ["w", "z", "y", "x"]
    assert (np.diff(out["score"]) < 0).all()
    assert out["score"].to_numpy() == pytest.approx([out["score"][0]] * 4, rel=1e-12)


@given(st.lists(st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=6), max_size=4))
def test_falling_scores_are_the_nearest_below(queries):
    query = np.repeat(np.arange(len(queries)), [len(q) for q in queries]).astype(np.int64)
    given_scores = [sorted(q, reverse=True) for q in queries]
    found = strictly_falling(np.array([s for q in given_scores for s in q], dtype=float), query)
    wanted = []
    for scores in given_scores:
        last = np.inf
        for score in scores:
            # the next smaller number, but no denormal one: some settings make it zero
            below = min(np.nextafter(last, -np.inf), last - np.finfo(float).tiny)
            last = score + 0.0 if score < last else below
            wanted.append(last)
    assert found.tolist() == wanted


def test_more_gamma_less_disadvantage():
    gaps, losses = [], []
    for gamma in (0, 0.01, 0.1, 1, 10, 100):
        fitted = DELTR(GROUPS, "b", gamma, exposure="relative").fit(RUN, QRELS)
        found = fitted.gaps(RUN)
        assert fitted.model.summary["gap"] == pytest.approx(found["gap"].mean())
        gaps.append(found["gap"].mean())
        losses.append(fitted.model.summary["ranking_loss"])
    assert gaps[0] > 0.3
    assert (np.diff(gaps) < 0).all()
    assert (np.diff(losses) > 0).all()  # what it costs


def test_gaps_by_hand():
    fitted = DELTR(GROUPS, "b").fit(RUN, QRELS)
    run = pd.concat([RUN[RUN["qid"] == "q1"], RUN[(RUN["qid"] == "q2")].iloc[::2]])
    found = fitted.gaps(run)
    scores = fitted.transform(run).query("qid == 'q1'")
    top = np.exp(scores["score"]) / np.exp(scores["score"]).sum() / np.log(2)
    odd = scores["docno"].str[-1].isin(list("13579"))
    assert found["qid"].tolist() == ["q1", "q2"]
    assert found["group"].tolist() == ["b", "b"]
    assert found["protected"][0] == pytest.approx(top[odd].mean())
    assert found["rest"][0] == pytest.approx(top[~odd].mean())
    assert found["gap"][0] == pytest.approx(top[~odd].mean() - top[odd].mean())
    assert np.isnan(found["protected"][1]) and np.isnan(found["gap"][1])  # q2: no b at all


# What must not matter ----------------------------------------------------------------------------


@given(st.integers(0, 10**6))
def test_order_of_rows_and_labels_does_not_matter(seed):
    rng = np.random.default_rng(seed)
    one = DELTR(GROUPS, "b").fit(RUN, QRELS)
    other = DELTR(GROUPS, "b").fit(
        RUN.iloc[rng.permutation(len(RUN))], QRELS.iloc[rng.permutation(len(QRELS))]
    )
    assert one == other


def test_fitting_is_deterministic_and_leaves_its_inputs_and_global_state_alone():
    run, qrels = RUN.copy(deep=True), QRELS.copy(deep=True)
    np.random.seed(1)  # noqa: NPY002
    one = DELTR(GROUPS, "b", optimizer="gd", max_iterations=20).fit(run, qrels)
    state = np.random.random()  # noqa: NPY002
    np.random.seed(1)  # noqa: NPY002
    assert state == np.random.random()  # noqa: NPY002
    assert one == DELTR(GROUPS, "b", optimizer="gd", max_iterations=20).fit(RUN, QRELS)
    assert one != DELTR(GROUPS, "b", optimizer="gd", max_iterations=20, seed=1).fit(RUN, QRELS)
    pd.testing.assert_frame_equal(qrels, QRELS)
    pd.testing.assert_frame_equal(run, RUN)


def test_gradient_descent_gets_where_lbfgs_gets():
    one = DELTR(GROUPS, "b").fit(RUN, QRELS).model
    other = (
        DELTR(GROUPS, "b", optimizer="gd", learning_rate=1.0, init_range=0).fit(RUN, QRELS).model
    )
    assert other.weights == pytest.approx(one.weights, abs=1e-5)


# Groups ------------------------------------------------------------------------------------------


def division(of, protected, run=None, **settings):
    """Return how the documents d0, d1, ... of one query fall on the two sides."""
    docs = list(of)
    if run is None:
        run = frame({"q": docs}, [[float(len(docs) - i)] for i in range(len(docs))])
    made = DELTR(groups(of), protected, **settings)
    made.fit(run, labels([("q", docs[0], 1)]))
    left, right = made.model.division.sides(made.groups, np.array(docs, dtype=object))
    return made.model.division, left.tolist(), right.tolist()


def test_protected_is_all_but_the_group_with_most_attention():
    # attention 1/ln(1+k): 1.44, .91, .72, .62. a: 1.44; b: .72 + .62 = 1.34; c: .91
    of = {"d0": "a", "d1": "c", "d2": "b", "d3": "b"}
    found, left, right = division(of, "all-but-most")
    assert found.reference == "a"
    assert left == [[0], [1], [1], [1]]
    assert right == [1, 0, 0, 0]
    assert found.names == ("all but a",)


def test_protected_is_the_least_exposed_of_those_that_occur():
    of = {"d0": "a", "d1": "b", "d2": "b", "d3": "c"}
    found, left, right = division({**of, "d4": UNKNOWN}, "least-exposed")
    assert found.columns == (("c",),)
    assert left == [[0], [0], [0], [1], [0]]
    assert right == [1, 1, 1, 0, 0]


def test_groups_apart():
    of = {"d0": "a", "d1": "b", "d2": "b", "d3": "c"}
    found, left, right = division(of, "all-but-most", groups_apart="each")
    assert found.names == ("a", "c")
    assert left == [[1, 0], [0, 0], [0, 0], [0, 1]]
    assert right == [0, 1, 1, 0]
    found, left, _ = division(of, ["c", "a"], groups_apart="each")
    assert found.names == ("a", "c")
    assert left == [[1, 0], [0, 0], [0, 0], [0, 1]]


def test_documents_in_part_in_several_levels_and_in_none():
    of = {"d0": "a", "d1": {"a": 0.25, "b": 0.5, "c": 0.25}, "d2": {"b": 3, "c": 1}, "d3": UNKNOWN}
    docs = ["d0", "d1", "d2", "d3"]
    rows = frame({"q": [*docs, "d4"]}, [[4.0], [3.0], [2.0], [1.0], [0.0]])  # d4 has no row
    made = DELTR(groups(of), ["b", "c"]).fit(rows, labels([("q", "d0", 1)]))
    every = np.array([*docs, "d4"], dtype=object)
    left, right = made.model.division.sides(made.groups, every)
    assert left.tolist() == [[0], [0.75], [1], [0], [0]]
    assert right.tolist() == [1, 0.25, 0, 0, 0]
    made = DELTR(groups(of), ["b", "c"], unknown="unprotected").fit(rows, labels([("q", "d0", 1)]))
    assert made.model.division.sides(made.groups, every)[1].tolist() == [1, 0.25, 0, 1, 1]


def test_a_document_with_two_full_memberships_counts_once_on_a_side():
    rows = pd.DataFrame(
        {"docno": ["d0", "d1", "d1", "d2"], "group": ["a", "b", "c", "a"], "weight": 1.0}
    )
    from fairtk import Groups

    both = Groups.from_frame(rows, normalize=False)
    run = frame({"q": ["d0", "d1", "d2"]}, [[2.0], [1.0], [0.0]])
    made = DELTR(both, ["b", "c"]).fit(run, labels([("q", "d0", 1)]))
    docs = np.array(["d0", "d1", "d2"], dtype=object)
    assert made.model.division.sides(both, docs)[0].tolist() == [[0], [1], [0]]


def test_the_unknown_level_can_be_protected_by_name():
    _, left, right = division({"d0": "a", "d1": UNKNOWN, "d2": "b"}, UNKNOWN)
    assert left == [[0], [1], [0]]
    assert right == [1, 0, 1]


def test_crossed_groups():
    first = groups({"d0": "a", "d1": "b", "d2": "b", "d3": UNKNOWN}, name="one")
    second = groups({"d0": "x", "d1": "x", "d2": "y", "d3": "y"}, name="two")
    run = frame({"q": ["d0", "d1", "d2", "d3"]}, [[4.0], [3.0], [2.0], [1.0]])
    docs = np.array(["d0", "d1", "d2", "d3"], dtype=object)
    made = DELTR(first * second, ("b", "y")).fit(run, labels([("q", "d0", 1)]))
    left, right = made.model.division.sides(made.groups, docs)
    assert made.model.division.names == ("b x y",)
    assert (left.tolist(), right.tolist()) == ([[0], [0], [1], [0]], [1, 1, 0, 0])
    made = DELTR(first * second).fit(run, labels([("q", "d0", 1)]))
    assert made.model.division.reference == ("a", "x")


def test_a_query_without_one_side_has_no_penalty():
    run = pd.concat([RUN, frame({"z": ["d0-0", "d0-2"]}, [[1, 0, 3], [0, 0, 3]])])
    qrels = pd.concat([QRELS, labels([("z", "d0-0", 1)])])
    model = DELTR(GROUPS, "b").fit(run, qrels).model
    assert np.isfinite(model.weights).all()
    assert model.summary["queries"] == 9
    assert model.summary["queries_with_both_groups"] == 8


def test_a_document_on_no_side_is_scored_like_the_mean_of_those_on_one():
    # 8 queries of 6 a and 6 b; one a fewer is known: 48 b among 95, so .505 of a protected one
    known = {d: "ab"[int(d.split("-")[1]) % 2] for d in RUN["docno"] if d != "d0-0"}
    fitted = DELTR(groups(known), "b").fit(RUN, QRELS)
    assert fitted.model.neutral == pytest.approx([48 / 95])
    run = frame({"q": ["d0-1", "new", "d0-2"]}, [[1, 1, 3]] * 3)
    scores = fitted.transform(run).set_index("docno")["score"]
    weight = fitted.model.group_weights[0]
    assert scores["new"] - scores["d0-2"] == pytest.approx(48 / 95 * weight)
    assert scores["d0-1"] - scores["new"] == pytest.approx(47 / 95 * weight)
    fitted = DELTR(groups(known), "b", unknown="unprotected").fit(RUN, QRELS)
    scores = fitted.transform(run).set_index("docno")["score"]
    assert scores["new"] == pytest.approx(scores["d0-2"])


def test_without_any_group_it_warns_and_is_listnet():
    other = groups({"x": "a", "y": "b"})
    with pytest.warns(DataWarning) as records:
        found = DELTR(other, "b").fit(RUN, QRELS).model
    assert records[0].filename == __file__
    plain = DELTR(GROUPS, "b", 0, protected_as_feature=False).fit(RUN, QRELS).model
    assert found.weights == pytest.approx(plain.weights, abs=1e-7)


@pytest.mark.parametrize("of", [{"x": "a", "y": "b"}, {"d0-0": "a", "y": "b"}])
def test_a_rule_needs_two_groups_in_training(of):
    with pytest.raises(InputError):
        DELTR(groups(of)).fit(RUN, QRELS)


def test_without_the_feature_inference_needs_no_groups():
    fitted = DELTR(GROUPS, "b", protected_as_feature=False).fit(RUN, QRELS)
    assert len(fitted.model.group_weights) == 0
    run = frame({"q": ["new1", "new2"]}, [[0, 0, 3], [9, 0, 3]])
    assert fitted.transform(run)["docno"].tolist() == ["new2", "new1"]


# Training data -----------------------------------------------------------------------------------


def test_queries_with_one_document_or_nothing_relevant_are_left_out():
    plain = DELTR(GROUPS, "b").fit(RUN[RUN["qid"] != "q7"], QRELS)
    run = pd.concat([RUN, frame({"z": ["d0-0"]}, [[1, 0, 3]])])
    qrels = pd.concat([QRELS[QRELS["qid"] != "q7"], labels([("z", "d0-0", 1)])])
    with pytest.warns(DataWarning, match="1 of 9.*'q7'|1 of 9.*'z'"):
        found = DELTR(GROUPS, "b").fit(run, qrels)
    assert np.array_equal(found.model.weights, plain.model.weights)
    assert found.model.summary["queries_left_out"] == 2


def test_missing_labels_are_0_and_grades_count():
    bare = QRELS[QRELS["label"] > 0]
    assert DELTR(GROUPS, "b").fit(RUN, bare) == DELTR(GROUPS, "b").fit(RUN, QRELS)
    assert QRELS["label"].max() == 2
    flat = QRELS.assign(label=QRELS["label"].clip(upper=1))
    assert DELTR(GROUPS, "b").fit(RUN, flat) != DELTR(GROUPS, "b").fit(RUN, QRELS)


def test_settings_that_change_what_is_learned():
    default = DELTR(GROUPS, "b").fit(RUN, QRELS).model.weights[0]
    for settings in (
        {"labels": "share"},
        {"normalize_by": "all"},
        {"average": "documents"},
        {"standardize": "none"},
        {"standardize": "global"},
        {"l2": 1.0},
    ):
        assert DELTR(GROUPS, "b", **settings).fit(RUN, QRELS).model.weights[0] != default


def test_l_bfgs_says_when_it_is_not_done():
    with pytest.warns(DataWarning, match="max_iterations=2"):
        DELTR(GROUPS, "b", max_iterations=2).fit(RUN, QRELS)


@pytest.mark.parametrize("feature", [True, False])
@pytest.mark.parametrize(("exposure", "gamma"), [("top-one", 1e6), ("relative", 1e4)])
def test_a_large_gamma_does_not_stop_l_bfgs_on_a_slope(exposure, gamma, feature):
    run, qrels, groups = made_up(n_queries=6, n=10, seed=3)
    settings = {"exposure": exposure, "protected_as_feature": feature}
    last = None
    for factor in (1e-4, 1e-2, 1):
        model = DELTR(groups, "b", gamma * factor, **settings).fit(run, qrels).model
        if last is not None:  # the larger gamma, the smaller the penalty and the larger the rest
            assert model.summary["exposure_loss"] < last["exposure_loss"]
            assert model.summary["ranking_loss"] > last["ranking_loss"]
        last = model.summary
    # no worse than to give up all features: then all exposures are equal, and the loss is 1 at most
    assert last["loss"] < 1
    assert gamma * last["exposure_loss"] < 0.01


def test_l_bfgs_says_when_it_is_stuck():
    huge = RUN.assign(features=[features * 1e10 for features in RUN["features"]])
    with pytest.warns(DataWarning) as records:
        DELTR(GROUPS, "b", standardize="none").fit(huge, QRELS)
    assert records[0].filename == __file__


def test_features_too_large_to_standardize():
    huge = RUN.assign(features=[features * 1e200 for features in RUN["features"]])
    with pytest.raises(InputError):
        DELTR(GROUPS, "b").fit(huge, QRELS)


def test_gradient_descent_says_when_it_diverges():
    settings = {"optimizer": "gd", "learning_rate": 1e200, "l2": 1e200}
    with pytest.raises(InputError):
        DELTR(GROUPS, "b", **settings).fit(RUN, QRELS)


# Bad input ---------------------------------------------------------------------------------------


def changed(row, vector, run=RUN):
    vectors = run["features"].tolist()
    vectors[row] = vector
    return run.assign(features=pd.Series(vectors, dtype=object, index=run.index))


@pytest.mark.parametrize(
    ("vector", "message"),
    [
        (np.ones(2), "3 finite numbers, as in .*got 2 numbers .qid 'q1', docno 'd1-2'"),
        (None, "got None .qid 'q1', docno 'd1-2'"),
        (np.ones((1, 3)), r"got an array of shape \(1, 3\) .qid 'q1', docno 'd1-2'"),
        (np.array([1, np.nan, 2]), "got nan at place 1 .qid 'q1', docno 'd1-2'"),
        (np.array([1, 2, -np.inf]), "got -inf at place 2 .qid 'q1', docno 'd1-2'"),
        (["a", "b", "c"], "got a list without numbers"),
    ],
)
def test_broken_features_are_named(vector, message):
    with pytest.raises(InputError, match=message):
        DELTR(GROUPS, "b").fit(RUN, QRELS).transform(changed(14, vector))


def test_empty_vectors_are_refused():
    with pytest.raises(InputError, match="got 0"):
        DELTR(GROUPS, "b").fit(frame({"q": ["x", "y"]}, [[], []]), labels([("q", "x", 1)]))


def test_before_fit():
    with pytest.raises(InputError):
        DELTR(GROUPS).transform(RUN)
    with pytest.raises(InputError):
        DELTR(GROUPS).gaps(RUN)
    assert DELTR(GROUPS).transform(RUN[:0]).columns.tolist() == list(RUN.columns)


@pytest.mark.parametrize(
    ("run", "qrels", "kind", "message"),
    [
        (RUN[:0], QRELS, InputError, "run is empty"),
        (RUN.drop(columns="features"), QRELS, ColumnError, "features"),
        (RUN, QRELS.drop(columns="label"), ColumnError, "label"),
        (RUN, QRELS[:0], InputError, "no relevant document .* 8 training queries"),
        (
            RUN,
            QRELS.assign(label=0),
            InputError,
            "no relevant document .* 8 training queries",
        ),
        (RUN, QRELS.assign(label=np.nan), InputError, "finite.*nan .qid 'q0', docno 'd0-0'"),
        (pd.concat([RUN, RUN[3:4].assign(rank=99, score=-9)]), QRELS, DuplicateError, "d0-3"),
        (RUN.assign(sample=0), QRELS, ColumnError, "sample"),
    ],
)
def test_broken_training_data(run, qrels, kind, message):
    with pytest.raises(kind, match=message):
        DELTR(GROUPS, "b").fit(run, qrels)


@pytest.mark.parametrize(
    "settings",
    [
        {"protected": "bb"},
        {"protected": "all-but-mots"},
        {"protected": ["b", "z"]},
        {"protected": ["b", "b"]},
        {"protected": []},
        {"protected": ["a", "b"]},
        {"protected": 3},
        {"gamma": -1},
        {"l2": float("inf")},
        {"learning_rate": 0},
        {"max_iterations": 0},
        {"seed": -1},
        {"optimizer": "adam"},
        {"exposure": "relativ"},
        {"protected_as_feature": "yes"},
        {"gradient": "published"},
    ],
)
def test_settings_out_of_range(settings):
    with pytest.raises(ParameterError, match=rf"\b{[*settings][-1]}\b"):
        DELTR(GROUPS, **settings)


def test_groups_must_be_groups():
    with pytest.raises(ParameterError):
        DELTR({"d1": "a"})


def test_a_level_goes_before_a_rule_of_its_name():
    made = DELTR(groups({"d0": "least-exposed", "d1": "a"}), "least-exposed")
    assert made.protected == ("least-exposed",)
    assert made == DELTR(made.groups, ["least-exposed"])
