"""Trained systems as stages: what a copy is trained on, what is shared, what is refused."""

from __future__ import annotations

import pandas as pd
import pyterrier as pt
import pytest
from experiment_stages import Trained, world

import fairtk
from fairtk.errors import InputError, ParameterError
from fairtk.experiment import describe_stage

TOPICS = pd.DataFrame({"qid": list("abcd"), "query": "words"})
QRELS = pd.DataFrame({"qid": list("abcd"), "docno": "d", "label": 1})
FOLDS = {"a": 0, "b": 1, "c": 2, "d": 2}


class Counts(pt.Estimator):
    """Q -> R: a document whose score is the number of its training topics."""

    fits: list = []

    def __init__(self, size=0):
        super().__init__()
        self.known = None
        self.size = size

    def fit(self, topics, qrels, *_):
        self.known = (*topics["qid"], *qrels["qid"])
        Counts.fits.append(self.known)

    def transform(self, inp):
        return inp.assign(docno="d", score=float(len(self.known)), rank=0)


@pytest.fixture(autouse=True)
def fits():
    Counts.fits.clear()
    return Counts.fits


def test_each_copy_is_trained_on_the_other_folds(fits):
    system = Counts()
    fitted = fairtk.Fitted(system, TOPICS[::-1], QRELS, FOLDS)
    rows = fitted(TOPICS)
    assert fits == [tuple("bcdbcd"), tuple("acdacd"), tuple("abab")]  # in the order of the qids
    assert dict(zip(rows["qid"], rows["score"], strict=True)) == {"a": 6, "b": 6, "c": 4, "d": 4}
    assert system.known is None
    fitted(TOPICS.head(1))
    assert len(fits) == 3


def test_a_fold_is_left_out_and_equal_copies_are_shared(fits):
    fitted = fairtk.Fitted(Counts(), TOPICS, QRELS, FOLDS)
    first, last = fitted.leave_out(0), fitted.leave_out(2)
    first(TOPICS)
    assert fits == [tuple("bcdbcd"), tuple("cdcd"), tuple("bb")]
    last(TOPICS)
    assert fits[3:] == [tuple("aa"), tuple("abab")]  # b alone was trained without 0 and 2
    assert fitted.without is None and fitted != first != last and first == fitted.leave_out(0)


def test_a_topic_without_a_fold_is_ranked_by_the_copy_of_all_topics(fits):
    other = pd.DataFrame({"qid": ["z"], "query": "words"})
    fairtk.Fitted(Counts(), TOPICS, QRELS, FOLDS)(other)
    fairtk.Fitted(Counts(), TOPICS, QRELS)(other)
    assert fits == [tuple("abcdabcd")] * 2


def test_only_the_estimators_of_a_pipeline_are_copied():
    first, last = pt.Transformer.identity(), Counts()
    fairtk.Fitted(first >> last, TOPICS, QRELS, FOLDS)(TOPICS)
    assert last.known is None


def test_a_topic_that_the_system_is_trained_on_is_refused():
    with pytest.raises(InputError, match="'b'"):
        fairtk.Fitted(Counts(), TOPICS.head(2), QRELS)(TOPICS.tail(3))
    one_fold = dict.fromkeys(FOLDS, 0)
    with pytest.raises(InputError, match="folds"):
        fairtk.Fitted(Counts(), TOPICS, QRELS, one_fold)(TOPICS)


@pytest.mark.parametrize(
    ("folds", "qrels", "name", "fold"),
    [
        (dict.fromkeys(FOLDS, "first"), QRELS, "topics", "'first'"),  # no topics in other folds
        (FOLDS, QRELS.tail(2), "qrels", "2"),  # only fold 2 has labels
        (None, QRELS.head(0), "qrels", ""),
    ],
)
def test_nothing_to_train_on(fits, folds, qrels, name, fold):
    fitted = fairtk.Fitted(Counts(), TOPICS, qrels, folds)
    ranked = TOPICS.tail(1) if folds else TOPICS.assign(qid=list("wxyz"))
    with pytest.raises(InputError, match=f"`{name}`.*{fold}"):
        fitted(ranked)
    assert fits == []


def test_bad_input():
    with pytest.raises(InputError, match="'c', 'd'"):
        fairtk.Fitted(Counts(), TOPICS, QRELS, {"a": 0, "b": 1})
    with pytest.raises(ParameterError, match="`system`.*fit"):
        fairtk.Fitted(fairtk.BM25Scorer(), TOPICS, QRELS)
    for folds in (FOLDS, None):
        with pytest.raises(ParameterError, match="`without`.*got 7"):
            fairtk.Fitted(Counts(), TOPICS, QRELS, folds, 7)
    with pytest.raises(ParameterError, match="`without`.*got 7"):
        fairtk.Fitted(Counts(), TOPICS, QRELS, FOLDS).leave_out(7)
    with pytest.raises(InputError, match="qid"):
        fairtk.Fitted(Counts(), TOPICS.drop(columns="qid"), QRELS)


def test_the_identity_is_the_system_and_its_training_data():
    topics, qrels = world(n_queries=4)
    folds = dict.fromkeys(topics["qid"][:2], 0) | dict.fromkeys(topics["qid"][2:], 1)
    stage = fairtk.Fitted(Trained(1), topics, qrels, folds)
    same = fairtk.Fitted(Trained(1), topics[::-1], qrels.copy(), dict(reversed(folds.items())))
    assert describe_stage(stage) == describe_stage(same) and stage == same
    others = [
        fairtk.Fitted(Trained(2), topics, qrels, folds),
        fairtk.Fitted(Trained(1), topics.assign(query="x"), qrels, folds),
        fairtk.Fitted(Trained(1), topics, qrels.assign(label=1), folds),
        fairtk.Fitted(Trained(1), topics, qrels, {**folds, "q0": 1}),
        stage.leave_out(0),
    ]
    descriptions = [str(describe_stage(other)) for other in (stage, *others)]
    assert len(set(descriptions)) == 6 and all(stage != other for other in others)


def test_systems_that_are_not_equal_are_not_one_stage_of_an_experiment():
    """The text of both estimators is the same."""
    a, b = (fairtk.Fitted(Counts(size), TOPICS, QRELS, FOLDS) for size in (1, 2))
    fairtk.Experiment({"a": a, "b": b}, TOPICS, QRELS, ["nDCG@1"])
    assert len(Counts.fits) == 6


def test_what_is_prepared_is_not_trained_again(fits):
    fitted = fairtk.Fitted(Counts(), TOPICS, QRELS, FOLDS)
    fitted.prepare(TOPICS.head(2))
    assert fits == [tuple("bcdbcd"), tuple("acdacd")]
    fitted(TOPICS)
    assert fits[2:] == [tuple("abab")]


def test_a_system_with_an_open_index_is_copied(tmp_path):
    pytest.importorskip("pyterrier_pisa", reason="no wheel of pyterrier-pisa for this platform")
    documents = [{"docno": "d", "text": "words"}]
    system = Counts()
    system.first = fairtk.transformers.CollectionBM25(tmp_path, lambda: documents)
    assert system.first(TOPICS)["docno"].tolist() == ["d"] * 4
    assert fairtk.Fitted(system, TOPICS, QRELS, FOLDS)(TOPICS)["docno"].tolist() == ["d"] * 4
