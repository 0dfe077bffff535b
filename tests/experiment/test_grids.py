"""Grids: settings with equal texts, and choices among sampled and unsampled systems."""

from __future__ import annotations

import pandas as pd
import pytest

import fairtk
from fairtk.errors import ParameterError
from fairtk.experiment import combinations
from fairtk.transformers import FairTransformer

QIDS = [f"q{i}" for i in range(4)]
TOPICS = pd.DataFrame({"qid": QIDS, "query": "a"})
QRELS = pd.DataFrame({"qid": QIDS, "docno": "good", "label": 1})


class Silent:
    """An object whose text says nothing of its content."""

    def __init__(self, rank):
        self.rank = rank

    def __repr__(self):
        return "Silent()"


class Places(FairTransformer):
    """The good document at a rank from 0, of two."""

    SETTINGS = ("rank",)

    def __init__(self, rank):
        super().__init__()
        self.rank = rank

    def transform(self, inp):
        docs = ["bad", "bad"]
        docs[self.rank] = "good"
        rows = [
            (qid, f"{doc}{i}" if doc == "bad" else doc, -i, i)
            for qid in inp["qid"]
            for i, doc in enumerate(docs)
        ]
        return pd.DataFrame(rows, columns=["qid", "docno", "score", "rank"])


def test_settings_with_equal_texts_are_all_tried():
    values = [Silent(1), Silent(0)]
    settings = combinations({"place": [*values, *values], "other": [1, 1, 1.0, True]})
    # 2 objects by 3 values: a number, a float and a truth value differ
    assert len(settings) == 6 and {id(one["place"]) for one in settings} == {id(v) for v in values}
    tuned = fairtk.tune(
        lambda place: Places(place.rank), {"place": values}, TOPICS, QRELS, "RR", folds=2
    )
    assert [place.rank for place in tuned.chosen["place"]] == [0, 0]  # the better is the second
    assert tuned.table["value"].tolist() == [1.0]
    with pytest.raises(ParameterError, match="'mine'"):
        combinations({"mine": 5}, "the grid")


def test_single_rankings_are_repeated_beside_samples():
    def sampled(qids, n):
        rows = [(q, s, "good", 1.0, 0) for q in qids for s in range(n)]
        return pd.DataFrame(rows, columns=["qid", "sample", "docno", "score", "rank"])

    one = pd.concat([sampled(QIDS[:2], 3), sampled(QIDS[2:], 3).assign(docno="bad")])
    two = Places(0)(TOPICS)
    two.loc[two["qid"].isin(QIDS[:2]), "docno"] = ["x0", "x1"] * 2
    results = fairtk.Experiment({"one": one, "two": two}, TOPICS, QRELS, ["E(RR)"])
    # on q0 and q1, "one" is right; on q2 and q3, "two"
    folds = {"q0": 1, "q1": 1, "q2": 2, "q3": 2}
    tuned = fairtk.cross_fit(results, "E(RR)", folds)
    assert tuned.choices["system"].tolist() == ["two", "one"]
    assert tuned.rows["sample"].notna().all()
    counts = tuned.rows.groupby("qid")["sample"].agg(lambda s: sorted(set(s))).to_dict()
    assert counts == dict.fromkeys(QIDS, [0, 1, 2])
    again = fairtk.Experiment({"tuned": tuned.rows}, TOPICS, QRELS, ["E(RR)"], warn=False)
    # both choices are wrong on their fold: values 0
    assert again.per_query["value"].tolist() == [0.0] * 4
