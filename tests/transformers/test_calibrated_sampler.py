"""FairSampler with a wish in place of alpha: what is reached, what cannot be, what is refused."""

import warnings

import ir_measures
import numpy as np
import pandas as pd
import pytest
from ir_measures import nDCG

from fairtk import EE_D, E, FairSampler, PlackettLuceExposure
from fairtk.errors import DataWarning, InputError, ParameterError
from fairtk.exposure import expected_attention, score_gaps
from fairtk.exposure.exact import find_alphas
from fairtk.exposure.plackett_luce import SURE
from fairtk.frames import Run
from fairtk.transformers import DeterministicExposure

RNG = np.random.default_rng(7)
SIZES = {"q1": 12, "q2": 40, "q3": 100, "q4": 15}
RUN = pd.DataFrame(
    [(qid, f"d{i}", RNG.gamma(2)) for qid, size in SIZES.items() for i in range(size)],
    columns=["qid", "docno", "score"],
)
QRELS = RUN[["qid", "docno"]].assign(label=(RNG.random(len(RUN)) < RUN["score"] / 6).astype(int))


def exact(sampler, measure, browsing="MU", run=RUN):
    """Return the exact value of each query under the alphas that the sampler finds."""
    values = {}
    for qid, alpha in sampler.calibrated(run)[["qid", "alpha"]].itertuples(index=False):
        part = run[run["qid"] == qid]
        frame = PlackettLuceExposure(alpha, sampler.cutoff, browsing)(part)
        own = QRELS[QRELS["qid"] == qid]
        values[qid] = ir_measures.calc_aggregate([measure], own, frame)[measure]
    return values


@pytest.mark.parametrize("target", [0.45, 0.6, 0.9, 1.0])
def test_a_wanted_disparity_is_reached(target):
    sampler = FairSampler(cutoff=5, target_disparity=target)
    found = sampler.calibrated(RUN)
    assert list(found.columns) == ["qid", "alpha", "value", "wanted", "reached"]
    assert found["reached"].all()
    measured = exact(sampler, EE_D @ 5)
    assert list(measured.values()) == pytest.approx([target] * 4, abs=1.1e-3)
    assert found["value"].tolist() == pytest.approx(list(measured.values()), abs=1e-9)
    assert found["alpha"].nunique() >= 3


def test_what_cannot_be_reached_is_nearest_warned_of_and_counted():
    sampler = FairSampler(cutoff=5, target_disparity=0.2)
    message = "target_disparity=0.2 cannot be reached for 2 of 4 queries .'q1', 'q4'.*nearest"
    with pytest.warns(DataWarning, match=message):
        found = sampler.calibrated(RUN).set_index("qid")
    # the floor is k / n: 5/12 and 5/15, both at alpha 0
    assert found.loc[["q1", "q4"], "alpha"].tolist() == [0, 0]
    assert found.loc[["q1", "q4"], "value"].tolist() == pytest.approx([5 / 12, 1 / 3])
    assert found["reached"].tolist() == [False, True, True, False]
    # two tied documents share rank 5 for ever: at most (4 + 2 / 4) / 5 = .9
    tied = pd.DataFrame({"qid": "q", "docno": list("abcdefg"), "score": [7, 6, 5, 4, 3, 3, 1.0]})
    with pytest.warns(DataWarning, match="1 of 1"):
        top = FairSampler(cutoff=5, target_disparity=1)(tied)
    assert set(top["docno"]) == set("abcdef")
    with pytest.warns(DataWarning, match="1 of 1"):  # missed by more than a thousandth
        near = FairSampler(cutoff=5, target_disparity=0.905).calibrated(tied)
    assert not near["reached"].item() and near["value"].item() == pytest.approx(0.9, abs=1e-3)
    # all alike, or no more than the cutoff: nothing to choose
    with pytest.warns(DataWarning, match="2 of 2"):
        same = FairSampler(cutoff=2, target_disparity=0.5).calibrated(
            pd.DataFrame({"qid": list("ppprr"), "docno": list("abcab"), "score": [1.0] * 5})
        )
    equal = FairSampler(cutoff=2, max_relevance_loss=0.1, relevance="scores")
    assert equal.calibrated(tied.assign(score=1.0))["alpha"].item() == 0  # and no warning
    assert same["alpha"].tolist() == [0, 0] and same["value"].tolist() == pytest.approx([2 / 3, 1])


def test_a_loss_of_relevance_is_kept():
    for relevance in (QRELS, "scores"):
        sampler = FairSampler(cutoff=5, max_relevance_loss=0.05, relevance=relevance)
        found = sampler.calibrated(RUN)
        assert found["reached"].all() and (found["value"] > 0.95 - 1e-12).all()
        bound = found["alpha"] > 0
        assert bound.any() and (found["value"][bound] < 0.953).all()
    sampler = FairSampler(cutoff=5, max_relevance_loss=0.05, relevance=QRELS)
    exact_values = exact(sampler, E(nDCG @ 5), "DCG")
    fixed = ir_measures.iter_calc([E(nDCG @ 5)], QRELS, DeterministicExposure(5, "DCG")(RUN))
    fixed = {m.query_id: m.value for m in fixed}
    for qid, value in sampler.calibrated(RUN)[["qid", "value"]].itertuples(index=False):
        assert exact_values[qid] == pytest.approx(value * fixed[qid], abs=1e-9)


def test_the_runs_own_order_of_tied_scores():
    """Of two that are tied each is first half of the time; all of a's nDCG@1 is half lost."""
    tied = pd.DataFrame({"qid": "q", "docno": list("ab"), "score": 1.0})
    labels = tied.assign(label=[1, 0]).drop(columns="score")
    sampler = FairSampler(cutoff=1, max_relevance_loss=0.6, relevance=labels)
    assert sampler.calibrated(tied.assign(rank=[0, 1]))["value"].item() == pytest.approx(0.5)
    with pytest.warns(DataWarning):  # b is first
        sampler.calibrated(tied)


def test_no_loss_at_all_and_nothing_to_lose():
    sampler = FairSampler(cutoff=3, max_relevance_loss=0, relevance="scores")
    assert sampler.calibrated(RUN)["value"].tolist() == pytest.approx([1] * 4, abs=1.1e-3)
    some = QRELS[QRELS["qid"] != "q2"]
    sampler = FairSampler(cutoff=3, max_relevance_loss=0.1, relevance=some)
    with pytest.warns(DataWarning, match="1 of 4.*'q2'"):
        assert sampler.calibrated(RUN).set_index("qid").loc["q2", "alpha"] == 0


def test_scores_as_large_as_doubles():
    run = pd.DataFrame({"qid": "q", "docno": list("abcd"), "score": [1e308, 5e307, 0, -1e308]})
    for wish in ({"target_disparity": 0.8}, {"max_relevance_loss": 0.1, "relevance": "scores"}):
        found = FairSampler(cutoff=2, **wish).calibrated(run)
        assert found["reached"].all() and found["alpha"].item() > 0


def test_at_most_twelve_evaluations_for_each_query():
    count = np.zeros(50, dtype=int)
    bend = np.linspace(0.5, 10, 50)  # slopes on the solver's own line

    def values(alpha, query):
        count[query] += 1
        return 1 - np.exp(-((alpha / 3) ** bend[query]))

    ends = np.zeros(50), np.ones(50)
    for target in (0.01, 0.5, 0.97):
        count[:] = 0
        wanted = np.full(50, target)
        alpha, value = find_alphas(values, *ends, wanted - 5e-4, wanted + 5e-4)
        assert count.max() <= 12 and count.mean() < 7
        assert np.abs(value - target).max() < 1e-3
        np.testing.assert_allclose(1 - np.exp(-((alpha / 3) ** bend)), value)


def test_each_query_has_the_samples_of_its_alpha():
    sampler = FairSampler(n_samples=20, cutoff=5, target_disparity=0.6)
    whole = sampler(RUN)
    by_alpha = sampler.calibrated(RUN).set_index("qid")["alpha"]
    plain = FairSampler(by_alpha["q3"], n_samples=20, cutoff=5)(RUN[RUN["qid"] == "q3"])
    rows = whole[whole["qid"] == "q3"].reset_index(drop=True)
    pd.testing.assert_frame_equal(plain, rows)


def test_settings():
    sampler = FairSampler(cutoff=5, target_disparity=0.6)
    assert repr(sampler) == "FairSampler(n_samples=100, cutoff=5, seed=42, target_disparity=0.6)"
    assert sampler != FairSampler(cutoff=5) == FairSampler(1, cutoff=5)
    labels = FairSampler(cutoff=5, max_relevance_loss=0.05, relevance=QRELS)
    assert labels == FairSampler(
        cutoff=5, max_relevance_loss=0.05, relevance=QRELS.sample(frac=1, random_state=1)
    )
    assert labels != FairSampler(cutoff=5, max_relevance_loss=0.05, relevance="scores")
    assert FairSampler(2).calibrated(RUN)["alpha"].tolist() == [2] * 4
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert sampler(RUN.head(0)).empty


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"target_disparity": 0}, r"target_disparity must be in \(0, 1\]"),
        ({"target_disparity": 0.6, "cutoff": None}, "`cutoff` is required for `target_disparity`"),
        ({"max_relevance_loss": 1, "relevance": "scores"}, r"must be in \[0, 1\)"),
        ({"max_relevance_loss": 0.1, "relevance": "labels"}, "or 'scores', got 'labels'"),
    ],
)
def test_settings_that_are_refused(settings, message):
    with pytest.raises(ParameterError, match=message):
        FairSampler(**{"cutoff": 5, **settings})


def test_broken_labels():
    with pytest.raises(InputError, match="FairSampler"):
        FairSampler(cutoff=5, max_relevance_loss=0.1, relevance=QRELS.drop(columns="label"))


ALPHAS = np.concatenate([[0], np.geomspace(0.02, 400, 500)])


def hard_case(seed):
    """Return a run, labels that do not follow its scores, a cutoff, and the allowed loss."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 14))
    score = [rng.random(n), rng.gamma(0.3, size=n), np.round(rng.random(n), 1)][seed % 3]
    run = pd.DataFrame({"qid": "q", "docno": [f"d{i}" for i in range(n)], "score": score})
    label = rng.integers(0, 3, n) * (rng.random(n) < rng.choice([0.2, 0.5, 0.9]))
    label[int(rng.integers(n))] = 1
    loss = float(rng.choice([0, 0.01, 0.05, 0.2, 0.4, 0.8]))
    return run, run[["qid", "docno"]].assign(label=label), int(rng.integers(1, 6)), loss


def shares_kept(run, labels, cutoff):
    """Return what share of the ranking's DCG each of `ALPHAS` keeps, and their limit."""
    order = Run(run, "test").order
    score, gain = run["score"].to_numpy()[order], labels["label"].to_numpy()[order].astype(float)
    weight = 1 / np.log2(np.arange(2, cutoff + 2))
    start = np.arange(0, len(run) * len(ALPHAS) + 1, len(run))
    gaps = score_gaps(np.tile(score, len(ALPHAS)), start, ALPHAS)
    exposure = expected_attention(gaps, start, weight).reshape(len(ALPHAS), -1)
    apart = np.where(score_gaps(score, start[:2], 1.0) > 0, SURE, 0.0)
    limit = expected_attention(apart, start[:2], weight)
    top = float(weight[: len(gain)] @ gain[:cutoff])
    return (exposure @ gain) / top if top else None, float(limit @ gain) / top if top else None


# found by looking: what is kept falls with alpha before it rises, or has its largest value between
@pytest.mark.parametrize(
    "first", [0, *(pytest.param(first, marks=pytest.mark.nightly) for first in (40, 80, 120, 160))]
)
def test_the_most_even_policy_that_keeps_the_rest_or_the_nearest(first):
    for seed in range(first, first + 40):
        run, labels, cutoff, loss = hard_case(seed)
        kept, limit = shares_kept(run, labels, cutoff)
        if kept is None:
            continue
        sampler = FairSampler(cutoff=cutoff, max_relevance_loss=loss, relevance=labels)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = sampler.calibrated(run).iloc[0]
        enough = ALPHAS[kept >= 1 - loss + 1e-3]
        assert found["reached"] == (found["value"] >= 1 - loss - 1e-3) != bool(caught), seed
        if found["reached"]:
            assert found["alpha"] <= enough.min(initial=np.inf) * (1 + 1e-5), seed
        else:
            assert not len(enough), seed
            assert found["value"] >= max(kept.max(), limit) - 1e-3, seed
