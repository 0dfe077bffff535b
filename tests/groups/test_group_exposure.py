"""Exposure of groups: hand-computed values, and what must not matter."""

import numpy as np
import pandas as pd
import pytest
from small_frames import small_groups

from fairtk.exposure.browsing import TREC
from fairtk.frames import Run
from fairtk.groups import Target, document_attention, group_exposure
from fairtk.groups.exposure import loss_parts


def test_exposure_by_hand():
    # ranks 1 to 3 weigh 1, 1, 1/log2(3); d1 is f, d2 is half f and half m, dx has no row
    groups = small_groups(["d1", "d2", "d2"], "ffm", "gender")
    run = pd.DataFrame({"qid": "q", "docno": ["d1", "dx", "d2"], "score": [3.0, 2.0, 1.0]})
    rankings = Run(run, "test")
    third = 1 / np.log2(3)
    attention = document_attention(rankings, TREC().weights(rankings.position))
    members = groups.memberships(rankings.docnos)
    exposure = group_exposure(attention, members)
    assert exposure.dense()[0] == pytest.approx([1 + third / 2, third / 2])
    assert attention @ groups.unknown_shares(rankings.docnos) == pytest.approx([1])
    disparity, relevance, loss = loss_parts(
        exposure, Target.uniform(groups).for_qids(["q"]), 2 + third
    )
    s, t = np.array([1 + third / 2, third / 2]), np.full(2, (2 + third) / 2)
    assert disparity[0] == pytest.approx(s @ s)
    assert relevance[0] == pytest.approx(s @ t)
    assert loss[0] == pytest.approx((s - t) @ (s - t))


def test_samples_are_averaged_or_kept_apart():
    run = pd.DataFrame(
        {
            "qid": ["a", "a", "a", "b"],
            "docno": ["d1", "d2", "d1", "d2"],
            "score": [2.0, 1.0, 1.0, 1.0],
            "sample": [0, 0, 1, 0],
        }
    )
    rankings = Run(run, "test")
    weight = np.array([1.0, 0.5, 1.0, 1.0])
    mean = document_attention(rankings, weight)
    # query a has two samples: d1 (1 + 1) / 2, d2 (1/2 + 0) / 2
    assert rankings.docnos.tolist() == ["d1", "d2"]
    assert mean.toarray().tolist() == [[1, 0.25], [0, 1]]
    apart = document_attention(rankings, weight, amortize=False)
    assert apart.toarray().tolist() == [[1, 0.5], [1, 0], [0, 1]]


def test_what_gets_no_attention_is_left_out():
    run = pd.DataFrame({"qid": "q", "docno": ["d1", "d2"], "score": [2.0, 1.0]})
    rankings = Run(run, "test")
    attention = document_attention(rankings, np.array([1.0, 0.0]))
    assert attention.nnz == 1
    groups = small_groups(["d2"], "m")
    exposure = group_exposure(attention, groups.memberships(rankings.docnos))
    assert exposure.total().tolist() == [0]
