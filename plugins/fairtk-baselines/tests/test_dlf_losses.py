"""DLF's arithmetic: soft ranks, exposure and losses, by hand and by what must hold."""

import math

import numpy as np
import pytest
import torch
from fairtk_baselines.dlf import training
from hypothesis import given
from hypothesis import strategies as st

from fairtk.exposure import DCG, MU, RBP, TREC
from fairtk.groups import js_divergence, kl_divergence


def row(*values):
    return torch.tensor([values], dtype=torch.float64)


def full(scores):
    return torch.ones(scores.shape, dtype=torch.bool)


distinct = st.lists(
    st.integers(-50, 50), min_size=1, max_size=12, unique=True
)  # scores at least 1 apart


class TestStandardized:
    def test_by_hand_without_padding(self):
        # 1, 2, 3: mean 2, variance 2 / 3; (1 - 2) / sqrt(2 / 3) = -1.224745
        mask = torch.tensor([[True, True, True, False]])
        found = training.standardized(row(1.0, 2.0, 3.0, 900.0), mask)
        assert found[0].tolist() == pytest.approx([-1.224745, 0, 1.224745, 0], abs=1e-5)

    def test_equal_scores_are_zero_with_finite_gradients(self):
        scores = row(4.0, 4.0, 4.0).requires_grad_()
        found = training.standardized(scores, full(scores))
        found[0, 0].backward()
        assert found[0].tolist() == [0, 0, 0]
        assert torch.isfinite(scores.grad).all()


class TestSoftRanks:
    def test_exposure_of_two_documents_by_hand(self):
        # MU at 1 rank: attention 1 if the rank is below 0.5; with the moments above, spread
        # sqrt(0.196612 + 1e-6) = 0.443411, P = Phi((0.5 - 0.268941) / 0.443411) = Phi(0.521096)
        # = 0.698849 for the first, and 1 - 0.698849 for the second
        scores = row(1.0, 0.0)
        weights = torch.ones(1, dtype=torch.float64)
        found = training.soft_rank_exposure(scores, full(scores), weights, 1.0)
        assert found[0].tolist() == pytest.approx([0.698849, 0.301151], abs=2e-6)

    @given(distinct, st.sampled_from([MU(), DCG(), RBP(0.7), TREC()]), st.integers(1, 14))
    def test_low_temperature_is_the_ranking_itself(self, values, discount, depth):
        scores = row(*map(float, values))
        weights = training.rank_weights(discount, depth, len(values)).double()
        found = training.soft_rank_exposure(scores, full(scores), weights, 0.01)
        rank = np.argsort(np.argsort(-np.array(values)))
        wanted = np.where(rank < depth, discount.weights(rank), 0.0)
        assert found[0].numpy() == pytest.approx(wanted, abs=1e-6)

    @given(distinct, st.floats(0.05, 5))
    def test_mean_ranks_sum_to_what_ranks_sum_to(self, values, temperature):
        # for each pair one is above the other: the sum is the number of pairs
        scores = row(*map(float, values))
        mean, variance = training.rank_moments(scores, full(scores), temperature)
        n = len(values)
        assert float(mean.sum()) == pytest.approx(n * (n - 1) / 2)
        assert float(variance.min()) >= 0

    def test_padding_changes_nothing_and_gets_nothing(self):
        scores, weights = row(3.0, 1.0, 2.0), torch.tensor([1.0, 0.5], dtype=torch.float64)
        alone = training.soft_rank_exposure(scores, full(scores), weights, 0.7)
        padded = row(3.0, 1.0, 2.0, 99.0)
        mask = torch.tensor([[True, True, True, False]])
        found = training.soft_rank_exposure(padded, mask, weights, 0.7)
        assert found[0].tolist() == pytest.approx([*alone[0].tolist(), 0.0])

    def test_gradient_agrees_with_differences(self):
        generator = torch.Generator().manual_seed(3)
        scores = torch.randn(2, 5, dtype=torch.float64, generator=generator, requires_grad=True)
        mask = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
        weights = training.rank_weights(TREC(), 3, 5).double()
        member = torch.rand(2, 5, 3, dtype=torch.float64, generator=generator) * mask[..., None]
        target = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]], dtype=torch.float64)

        def loss(s):
            z = training.standardized(s, mask)
            shares = training.group_shares(
                training.soft_rank_exposure(z, mask, weights, 0.4), member
            )
            return training.divergence(shares, target, "reverse-kl", 0.01).sum()

        assert torch.autograd.gradcheck(loss, (scores,))

    def test_flat_and_cut_discounts_still_have_gradients(self):
        # ranks 1 and 2 weigh the same and nothing counts below: the discount at the mean rank has
        # no slope there, the expected one has
        scores = row(3.0, 2.0, 1.0, 0.0).requires_grad_()
        weights = training.rank_weights(TREC(), 2, 4).double()
        training.soft_rank_exposure(scores, full(scores), weights, 0.5)[0, 3].backward()
        assert float(scores.grad[0, 3]) > 1e-4


class TestOtherExposure:
    def test_top_one_by_hand(self):
        # softmax of log 3 and log 1: 3 / 4 and 1 / 4
        scores = row(math.log(3), 0.0, 5.0)
        mask = torch.tensor([[True, True, False]])
        found = training.top_one_exposure(scores, mask, 1.0)
        assert found[0].tolist() == pytest.approx([0.75, 0.25, 0.0])

    def test_group_shares_by_hand(self):
        # exposure 1, 0.5, 0.5; the second document is half in each group, the third in none:
        # 1 + 0.25 and 0.25 of 1.5
        member = torch.tensor([[[1.0, 0.0], [0.5, 0.5], [0.0, 0.0]]], dtype=torch.float64)
        found = training.group_shares(row(1.0, 0.5, 0.5), member)
        assert found[0].tolist() == pytest.approx([5 / 6, 1 / 6])

    def test_no_group_at_all_is_zero(self):
        found = training.group_shares(row(1.0, 0.5), torch.zeros(1, 2, 3, dtype=torch.float64))
        assert found.tolist() == [[0.0, 0.0, 0.0]]

    def test_min_max(self):
        mask = torch.tensor([[True, True, True, False]])
        found = training.min_max(row(2.0, 6.0, 4.0, -99.0), mask)
        assert found[0].tolist() == [0.0, 1.0, 0.5, 0.0]
        assert training.min_max(row(2.0, 2.0), full(row(2, 2)))[0].tolist() == [0.0, 0.0]


class TestDivergence:
    @given(
        st.lists(st.integers(0, 9), min_size=3, max_size=3).filter(any),
        st.lists(st.integers(0, 9), min_size=3, max_size=3).filter(any),
    )
    def test_agrees_with_what_rankings_are_measured_by(self, p, q):
        p, q = np.array(p) / sum(p), np.array(q) / sum(q)
        ours = [torch.from_numpy(x)[None] for x in (p, q)]
        forward = kl_divergence(p[None], q[None], smoothing=0.05)[0]
        backward = kl_divergence(q[None], p[None], smoothing=0.05)[0]
        assert float(training.divergence(*ours, "kl", 0.05)) == pytest.approx(forward, abs=1e-12)
        assert float(training.divergence(*ours, "reverse-kl", 0.05)) == pytest.approx(
            backward, abs=1e-12
        )
        assert float(training.divergence(*ours, "js", 1e-9)) == pytest.approx(
            js_divergence(p[None], q[None])[0], abs=1e-6
        )


class TestRelevanceLosses:
    def test_listwise_by_hand_without_padding_and_queries_without_gain(self):
        # scores ln 2 and 0: softmax 2/3 and 1/3. Gains 1 and 3: wanted 1/4 and 3/4.
        # -(1/4 ln(2/3) + 3/4 ln(1/3)) = 0.101366 + 0.823959 = 0.925326
        scores = torch.tensor([[math.log(2), 0.0, 7.0], [1.0, 2.0, 3.0]])
        gains = torch.tensor([[1.0, 3.0, 0.0], [0.0, 0.0, 0.0]])
        mask = torch.tensor([[True, True, False], [True, True, True]])
        found = training.listwise(scores, gains, mask)
        assert found.tolist() == pytest.approx([0.925326, 0.0], abs=1e-6)

    def test_bce_by_hand(self):
        # log-odds ln 3 and 0: probabilities 3/4 and 1/2; labels 1 and 0:
        # (-ln(3/4) - ln(1/2)) / 2 = (0.287682 + 0.693147) / 2 = 0.490415
        scores, gains = row(math.log(3), 0.0, 9.0), row(2.0, 0.0, 0.0)
        mask = torch.tensor([[True, True, False]])
        assert float(training.bce(scores, gains, mask)) == pytest.approx(0.490415, abs=1e-6)
