"""Many queries are measured in blocks: the values and the warnings are those of all at once."""

import warnings

import numpy as np
import pandas as pd
import pytest
from experiment_stages import Retriever, world
from ir_measures import nDCG

import fairtk
from fairtk import EE_D, EE_R, E, FairSampler
from fairtk.experiment import values

MEASURES = [EE_R @ 3, EE_D @ 3, E(nDCG @ 5), E(EE_D @ 2)]


def measured(systems, topics, qrels, save_dir=None):
    with warnings.catch_warnings(record=True) as records:
        warnings.simplefilter("always")
        results = fairtk.Experiment(systems, topics, qrels, MEASURES, save_dir=save_dir)
    return results, sorted((w.category.__name__, str(w.message)) for w in records)


def systems():
    return {
        "a": Retriever(n=6) >> FairSampler(n_samples=4, cutoff=3),
        "b": Retriever(n=6, seed=1),
        "c": Retriever(n=6)(world()[0].head(9)),  # a frame that lacks queries
    }


@pytest.fixture
def hard():
    """Labels in another order than the topics, some queries without a useful document."""
    topics, qrels = world()
    qrels.loc[qrels["qid"].isin(["q3", "q7", "q11"]), "label"] = 0
    return topics, qrels.iloc[::-1].reset_index(drop=True)


@pytest.mark.parametrize("durable", [False, True])
def test_blocks_give_what_all_at_once_give(hard, tmp_path, monkeypatch, durable):
    folders = [tmp_path / name if durable else None for name in ("whole", "blocks")]
    whole = measured(systems(), *hard, folders[0])
    assert any("undefined" in text for _, text in whole[1])
    monkeypatch.setattr(values, "_BLOCK", 5)
    blocks = measured(systems(), *hard, folders[1])
    for name in ("per_query", "undefined"):
        frames = [getattr(results, name) for results, _ in (blocks, whole)]
        pd.testing.assert_frame_equal(*frames, check_exact=True)
    # each of three systems has no value for three queries, and says why; so does what is stored
    assert whole[0].undefined["reason"].tolist() == ["no useful document in the labels"] * 9
    again = measured(systems(), *hard, folders[0])
    pd.testing.assert_frame_equal(again[0].undefined, whole[0].undefined)
    assert blocks[1] == whole[1]


def test_what_is_said_of_all_queries_is_said_once(hard, monkeypatch):
    """Labels of other documents: measured at once, as no block can know it of all queries."""
    topics, qrels = hard
    qrels["docno"] = "x" + qrels["docno"]
    whole = measured(systems(), topics, qrels)
    assert any(category == "UnmatchedWarning" for category, _ in whole[1])
    monkeypatch.setattr(values, "_BLOCK", 5)
    blocks = measured(systems(), topics, qrels)
    assert np.array_equal(
        *(results.per_query["value"] for results, _ in (blocks, whole)), equal_nan=True
    )
    assert blocks[1] == whole[1]
