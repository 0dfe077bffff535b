"""How DLF's scores become a ranking."""

import numpy as np
import pytest
import torch
from fairtk_baselines import vectors
from fairtk_baselines.dlf import training
from hypothesis import given
from hypothesis import strategies as st

values = st.lists(st.integers(-9, 9), min_size=1, max_size=8)


def test_min_max_per_query_by_hand():
    # 1, 3, 2 -> 0, 1, 1/2; one document -> 0; 5, 5 -> 0, 0
    found = vectors.normalized(np.array([1.0, 3, 2, 7, 5, 5]), np.array([0, 3, 4, 6]), "min-max")
    assert found.tolist() == [0, 1, 0.5, 0, 0, 0]


def test_z_score_per_query_by_hand():
    # 1, 3: mean 2, standard deviation 1
    found = vectors.normalized(np.array([1.0, 3, 4, 4]), np.array([0, 2, 4]), "z-score")
    assert found.tolist() == [-1, 1, 0, 0]


def test_nothing_is_nothing():
    assert len(vectors.normalized(np.zeros(0), np.zeros(1, dtype=int), "min-max")) == 0


@given(values)
def test_training_and_ranking_scale_alike(numbers):
    scores = np.array(numbers, dtype=float)
    start, mask = np.array([0, len(scores)]), torch.ones(1, len(scores), dtype=torch.bool)
    for how, ours in (("min-max", training.min_max), ("z-score", training.standardized)):
        wanted = vectors.normalized(scores, start, how)
        assert ours(torch.from_numpy(scores)[None], mask)[0].numpy() == pytest.approx(
            wanted, abs=1e-5
        )


def test_fusion_by_hand():
    # relevance 0, 1, 1/2 and score 1, 0, 1/2, one quarter of the latter:
    # 1/4, 3/4, 1/2 -> 0, 1, 1/2
    start = np.array([0, 3])
    found = vectors.fused(np.array([2.0, 4, 3]), np.array([9.0, 1, 5]), 0.25, start, "min-max")
    assert found.tolist() == pytest.approx([0, 1, 0.5])


@given(st.lists(values, min_size=1, max_size=4))
def test_scores_fall_strictly_and_ties_keep_their_order(queries):
    start = np.cumsum([0, *map(len, queries)])
    blend = np.concatenate(queries).astype(float)
    order, rank, score = vectors.ranked(blend, start)
    for a, b in zip(start[:-1], start[1:], strict=True):
        assert sorted(order[a:b]) == list(range(a, b))
        assert rank[a:b].tolist() == list(range(b - a))
        assert (np.diff(score[a:b]) < 0).all()
        sorted_pairs = sorted(range(a, b), key=lambda i: (-blend[i], i))
        assert order[a:b].tolist() == sorted_pairs
