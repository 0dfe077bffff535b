"""OracleSampler: grades in descending order, every order within a grade equally likely."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from fairtk.errors import DuplicateError, InputError
from fairtk.transformers.samplers import OracleSampler

RUN = pd.DataFrame(
    {
        "qid": ["q1"] * 4 + ["q2"] * 3,
        "docno": ["a", "b", "c", "d", "a", "e", "f"],
        "score": [4.0, 3.0, 2.0, 1.0, 3.0, 2.0, 1.0],
        "text": list("ABCDAEF"),
    }
)
QRELS = pd.DataFrame(
    {"qid": ["q1", "q1", "q1", "q2", "q9"], "docno": ["b", "d", "c", "e", "a"],
     "label": [1, 2, -1, 1, 1]}
)  # fmt: skip


def test_grades_descend():
    result = OracleSampler(QRELS, n_samples=50)(RUN)
    assert list(result.columns) == ["qid", "docno", "score", "text", "rank", "sample"]
    first = result[result["qid"] == "q1"]["docno"].to_numpy().reshape(50, 4)
    assert (first[:, 0] == "d").all()  # grade 2
    assert (first[:, 1] == "b").all()  # grade 1
    assert set(first[:, 2]) == {"a", "c"}  # no label, and a negative one: not useful, shuffled
    second = result[result["qid"] == "q2"]["docno"].to_numpy().reshape(50, 3)
    assert (second[:, 0] == "e").all()  # the label of "a" is another query's
    assert (result["text"].str.lower() == result["docno"]).all()


def test_blocks_are_shuffled_uniformly():
    run = RUN.head(4)
    qrels = pd.DataFrame({"qid": "q1", "docno": ["a", "b"], "label": 1})
    result = OracleSampler(qrels, n_samples=20_000)(run)
    orders = ["".join(row) for row in result["docno"].to_numpy().reshape(-1, 4)]
    names, counts = np.unique(orders, return_counts=True)
    assert names.tolist() == ["abcd", "abdc", "bacd", "badc"]  # m! (n - m)! = 2! 2!
    assert chisquare(counts).pvalue > 1e-5


def test_no_sample_breaks_the_order_of_grades():
    size = 1000  # large enough for all stages of the race
    run = pd.DataFrame({"qid": "q", "docno": [f"d{i}" for i in range(size)], "score": 0.0})
    grades = np.random.default_rng(0).integers(0, 4, size)
    qrels = pd.DataFrame({"qid": "q", "docno": run["docno"], "label": grades})
    result = OracleSampler(qrels, n_samples=200)(run)
    drawn = result["docno"].str[1:].astype(int).to_numpy().reshape(200, size)
    assert (np.diff(grades[drawn], axis=1) <= 0).all()


@given(st.integers(0, 999), st.integers(1, 20), st.sampled_from([None, 1, 3]))
def test_rows_order_scores_and_truncation_carry_no_meaning(shuffle, n_samples, cutoff):
    full = OracleSampler(QRELS, n_samples=20)(RUN)
    other = RUN.sample(frac=1, random_state=shuffle).assign(score=0.0)
    part = OracleSampler(QRELS.sample(frac=1, random_state=shuffle), n_samples, cutoff)(other)
    kept = full[(full["sample"] < n_samples) & (full["rank"] < (cutoff or 9))]
    key = ["qid", "sample", "rank"]
    pd.testing.assert_frame_equal(
        part.sort_values(key, ignore_index=True), kept.sort_values(key, ignore_index=True)
    )


def test_equality_is_by_content_of_the_labels():
    same = QRELS.sample(frac=1, random_state=1).assign(gold_answer="x", label=QRELS["label"] * 1.0)
    assert OracleSampler(QRELS) == OracleSampler(same)
    assert hash(OracleSampler(QRELS)) == hash(OracleSampler(same))
    assert OracleSampler(QRELS) != OracleSampler(QRELS.assign(label=1))
    assert OracleSampler(QRELS) != OracleSampler(QRELS, seed=1)
    assert repr(OracleSampler(QRELS)).startswith("OracleSampler(qrels=<5 rows #")


def test_the_qrels_may_change_afterwards():
    qrels = QRELS.copy()
    sampler = OracleSampler(qrels, n_samples=3)
    before = sampler(RUN)
    qrels["label"] = 0
    pd.testing.assert_frame_equal(sampler(RUN), before)


def test_broken_labels():
    with pytest.raises(InputError, match="OracleSampler"):
        OracleSampler({})
    with pytest.raises(InputError, match="qid 'q1'.*docno 'b'"):
        OracleSampler(QRELS.assign(label=[math.nan, 1, 1, 1, 1]))
    with pytest.raises(DuplicateError, match="qid 'q1', docno 'b'"):
        OracleSampler(pd.concat([QRELS, QRELS.head(1)]))
