"""Exact exposure as frames X: their form, both ends of a curve, agreement with samplers."""

import numpy as np
import pandas as pd
import pytest

from fairtk import (
    PlackettLuceExposure,
)
from fairtk.errors import ParameterError
from fairtk.exposure import DCG
from fairtk.transformers import DeterministicExposure, OracleExposure

RUN = pd.DataFrame(
    {
        "qid": ["q1"] * 4 + ["q2"] * 3,
        "docno": ["a", "b", "c", "d", "a", "e", "f"],
        "score": [4.0, 3.0, 2.5, 1.0, 3.0, 2.0, 2.0],
        "text": list("ABCDAEF"),
    }
)
QRELS = pd.DataFrame({"qid": ["q1", "q1", "q2"], "docno": ["b", "d", "f"], "label": [1, 2, 1]})


def by_document(frame):
    return frame.set_index(["qid", "docno"])["exposure"].sort_index()


def test_the_frame():
    found = PlackettLuceExposure(alpha=2, cutoff=2)(RUN)
    assert list(found.columns) == [
        *("qid", "docno", "score", "text", "rank", "exposure", "browsing", "cutoff")
    ]
    assert len(found) == len(RUN)
    assert found["rank"].tolist() == [0, 1, 2, 3, 0, 1, 2]
    assert (found["score"] == found["exposure"]).all()
    assert set(found["browsing"]) == {"MU"} and set(found["cutoff"]) == {2}
    assert (found["text"].str.lower() == found["docno"]).all()
    sums = found.groupby("qid")["exposure"].sum()
    assert sums.tolist() == pytest.approx([2, 2], abs=1e-12)


def test_both_ends_of_the_curve():
    # the largest alphas give the deterministic ranking, but for ties; alpha 0 shows all alike
    fixed = by_document(DeterministicExposure(cutoff=2)(RUN))
    assert fixed.tolist() == [1, 1, 0, 0, 1, 0, 1]  # of tied e and f the last comes first
    steep = by_document(PlackettLuceExposure(alpha=1e6, cutoff=2)(RUN))
    assert steep.tolist() == [1, 1, 0, 0, 1, 0.5, 0.5]
    even = by_document(PlackettLuceExposure(alpha=0, cutoff=2)(RUN))
    np.testing.assert_allclose(even, [0.5] * 4 + [2 / 3] * 3)
    # useful ones first: d, b, then a or c; q2: f, then a or e
    oracle = by_document(OracleExposure(QRELS, cutoff=3, browsing="RBP(p=0.5)")(RUN))
    np.testing.assert_allclose(oracle, [0.125, 0.5, 0.125, 1, 0.375, 0.375, 1])


def test_several_alphas_in_one_call():
    together = PlackettLuceExposure(alpha=[0, 1, 4], cutoff=2)(RUN)
    assert len(together) == 3 * len(RUN)
    for alpha, part in together.groupby("alpha"):
        alone = PlackettLuceExposure(alpha=alpha, cutoff=2)(RUN)
        pd.testing.assert_frame_equal(
            part.drop(columns="alpha").reset_index(drop=True), alone, rtol=0, atol=1e-13
        )


def test_all_ranks():
    found = by_document(PlackettLuceExposure(alpha=2, cutoff=None, browsing="DCG")(RUN))
    assert found["q1"].sum() == pytest.approx((1 / np.log2(np.arange(4) + 2)).sum())
    assert PlackettLuceExposure(2, None, "DCG")(RUN)["cutoff"].isna().all()
    # weights below the smallest that matter are cut
    sharp = by_document(PlackettLuceExposure(2, None, "RBP(p=0.0)")(RUN))
    first = by_document(PlackettLuceExposure(2, 1)(RUN))
    np.testing.assert_allclose(sharp, first, atol=1e-12)


def test_equal_settings_in_other_words():
    assert PlackettLuceExposure(2.0) == PlackettLuceExposure(2) != PlackettLuceExposure([2])
    assert PlackettLuceExposure(browsing="DCG") == PlackettLuceExposure(browsing=DCG())


@pytest.mark.parametrize(
    "settings",
    [
        {"alpha": 10**400},
        {"alpha": [1, 1]},
        {"alpha": []},
        {"cutoff": 0},
        {"cutoff": None},
        {"browsing": "NN"},
    ],
)
def test_settings_out_of_range(settings):
    with pytest.raises(ParameterError, match=rf"\b{[*settings][-1]}\b"):
        PlackettLuceExposure(**settings)


@pytest.mark.parametrize("decimals", [0, 1, 12])  # with many ties, with some, with none
@pytest.mark.parametrize(
    "settings", [(1, 5, "DCG"), (0.5, 10, "MU"), (4, 3, "RBP(p=0.8)")], ids=str
)
def test_exposure_has_the_same_bytes_for_any_batch_and_order(settings, decimals):
    generator = np.random.default_rng(3)
    scores = {
        f"q{i}": generator.normal(size=n).round(decimals) for i, n in enumerate((9, 6, 30, 2))
    }
    run = pd.concat(
        [
            pd.DataFrame({"qid": q, "docno": [f"d{j}" for j in range(len(s))], "score": s})
            for q, s in scores.items()
        ]
    )
    stage, key = PlackettLuceExposure(*settings), ["qid", "docno"]
    of_all = stage(run).sort_values(key, ignore_index=True)
    batches = [run[run["qid"].isin(qids)] for qids in (["q2"], ["q3", "q0"], ["q1"])]
    for other in (pd.concat(map(stage, batches)), stage(run.sample(frac=1, random_state=0))):
        assert of_all.equals(other.sort_values(key, ignore_index=True))
    tied = of_all.assign(score=run.sort_values(key)["score"].to_numpy()).groupby(["qid", "score"])
    assert (tied["exposure"].nunique() == 1).all()
