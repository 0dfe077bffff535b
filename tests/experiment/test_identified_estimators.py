"""Estimators that fairtk cannot inspect are trained and stored by the names of `identified`."""

from __future__ import annotations

import copy

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest

import fairtk
from fairtk import Experiment, Fitted, identified
from fairtk.errors import IdentityError, ParameterError

TOPICS = pd.DataFrame({"qid": list("abcdef"), "query": "words"})
FOLDS = {qid: number % 3 for number, qid in enumerate("abcdef")}
QRELS = pd.DataFrame(
    [(qid, f"d{i}", int(i == number % 2)) for number, qid in enumerate("abcdef") for i in range(3)],
    columns=["qid", "docno", "label"],
)


class Candidates(pt.Transformer):
    """Q -> R with features: three documents."""

    def transform(self, inp):
        docs = pd.DataFrame({"docno": ["d0", "d1", "d2"], "score": 0.0})
        docs["features"] = [np.eye(3)[i] for i in range(3)]
        return inp.merge(docs, how="cross")


class Mean:
    """R -> R: the score of a document is its mean label in training, times a weight."""

    def __init__(self, weight=1.0):
        self.weight = weight

    def fit(self, topics, qrels, *_):
        self.mean = qrels.groupby("docno")["label"].mean() * self.weight

    def transform(self, inp):
        return inp.assign(score=inp["docno"].map(self.mean))


class Popular(Mean, pt.Estimator):
    """An estimator of PyTerrier."""


class Plain(Mean, pt.Transformer):
    """A transformer with a method fit."""


def learned(_):
    regression = pytest.importorskip("sklearn.linear_model").LinearRegression
    return pt.ltr.apply_learned_model(regression())


def pipelines(stage, identified_stage):
    """Return systems that are trained, with the pipeline that each of them is."""
    candidates = identified(Candidates(), "candidates")
    return [
        (identified(candidates >> stage, "all, v1"), candidates >> stage),
        (candidates >> identified_stage, candidates >> stage),
    ]


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # of pt.model.add_ranks
@pytest.mark.parametrize("make", [Popular, learned])
@pytest.mark.parametrize("number", [0, 1])
def test_an_identified_estimator_is_trained_as_the_estimator(tmp_path, make, number):
    stage = make(1.0)
    system, plain = pipelines(stage, identified(stage, "stage, v1"))[number]

    def values(pipeline, **options):
        fitted = Fitted(pipeline, TOPICS, QRELS, FOLDS)
        results = Experiment({"s": fitted}, TOPICS, QRELS, ["nDCG@3"], **options)
        return results.per_query["value"].tolist()

    expected = values(plain)
    with pytest.raises(IdentityError, match=r"Fitted.system.*identified"):
        values(plain, save_dir=tmp_path)
    assert values(system, save_dir=tmp_path) == expected
    assert values(system, save_dir=tmp_path) == expected  # stored
    assert not {"mean", "coef_"} & {*vars(stage), *vars(getattr(stage, "learner", stage))}


def test_identified_estimators_are_tuned(tmp_path):
    def tuned(build, **options):
        grid = {"weight": [-1.0, 1.0]}
        return fairtk.tune(build, grid, TOPICS, QRELS, "nDCG@3", FOLDS, **options)

    expected = tuned(lambda weight=1.0: Candidates() >> Popular(weight))
    for number in (0, 1):

        def build(weight=1.0, number=number):
            stage = Popular(weight)
            named = identified(stage, f"popular {weight}")
            system = (identified(Candidates() >> stage, f"all {weight}"), Candidates() >> named)
            return system[number]

        options = {} if number else {"save_dir": tmp_path}
        pd.testing.assert_frame_equal(tuned(build, **options).chosen, expected.chosen)
    assert set(expected.chosen["weight"]) == {1.0}


def test_an_object_with_a_method_fit_can_be_trained_and_others_cannot():
    ranked = Candidates()(TOPICS)
    rows = Fitted(identified(Plain(), "plain"), ranked, QRELS, FOLDS)(ranked)
    # the fold of a has a and d, so d0 is relevant for c and e of b, c, e, f
    assert rows.query("qid == 'a' and docno == 'd0'")["score"].tolist() == [0.5]
    for system in (Candidates(), Candidates() >> Candidates()):
        assert not hasattr(identified(system, "s"), "fit")
        with pytest.raises(ParameterError, match="fit"):
            Fitted(identified(system, "s"), TOPICS, QRELS, FOLDS)


def test_stages_that_are_not_trained_are_shared_by_copies():
    first, last = Candidates(), Popular()
    copied = copy.deepcopy(identified(first >> last, "s"))
    assert copied.transformer[0] is first and copied.transformer[1] is not last
