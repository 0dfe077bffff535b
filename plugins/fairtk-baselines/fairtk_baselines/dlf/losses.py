"""What the two models are trained with: differentiable exposure, and losses per query.

Scores are in rows of one query each, padded to the longest; a mask says which cells are documents.
Both have the shape (n_rows, width), as have gains (0 or above, such as labels) and exposure;
temperatures are above 0.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from fairtk.exposure import BrowsingModel

DIVERGENCES = ("kl", "reverse-kl", "js")
_VARIANCE_FLOOR = 1e-6  # a rank is known to 0.001: what sharp scores come to, without a 0 below
_SPREAD_FLOOR = 1e-6


def standardized(scores: Tensor, mask: Tensor) -> Tensor:
    """Return the scores with mean 0 and standard deviation 1 in each row; equal ones become 0.

    So a temperature means the same for all queries, and no model comes near a target by scores that
    hardly differ, whose soft ranking says little about the ranking itself.
    """
    count = mask.sum(dim=-1, keepdim=True).clamp(min=1)
    mean = scores.masked_fill(~mask, 0.0).sum(dim=-1, keepdim=True) / count
    off = (scores - mean).masked_fill(~mask, 0.0)
    return off / torch.sqrt((off**2).sum(dim=-1, keepdim=True) / count + _SPREAD_FLOOR)


def min_max(scores: Tensor, mask: Tensor) -> Tensor:
    """Return the scores scaled to [0, 1] in each row, equal ones to 0."""
    lowest = scores.masked_fill(~mask, torch.inf).amin(dim=-1, keepdim=True)
    off = (scores - lowest).masked_fill(~mask, 0.0)
    return off / off.amax(dim=-1, keepdim=True).clamp(min=_SPREAD_FLOOR)


def rank_moments(scores: Tensor, mask: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """Return mean and variance of each document's 0-based rank; near temperature 0, the rank and 0.

    Each other document j stands above i by chance, independently, with probability
    p = sigmoid((s_j - s_i) / temperature): the mean is the sum of p, the variance of p (1 - p).
    """
    width = scores.shape[-1]
    other = ~torch.eye(width, dtype=torch.bool, device=scores.device)
    above = torch.sigmoid((scores.unsqueeze(-2) - scores.unsqueeze(-1)) / temperature)
    above = above * (mask.unsqueeze(-2) & other)
    return above.sum(dim=-1), (above * (1.0 - above)).sum(dim=-1)


def soft_rank_exposure(scores: Tensor, mask: Tensor, weights: Tensor, temperature: float) -> Tensor:
    """Return the expected attention of each document, by soft ranks.

    `weights` is the attention of rank 0, 1, ...; later ranks get none; shape (n_ranks,). That is
    E[w(rank)] under the normal distribution with the moments of the rank, as in SoftRank (Taylor et
    al. 2008, there for the gain of NDCG): it has a gradient where the discount is flat or cut off.
    """
    mean, variance = rank_moments(scores, mask, temperature)
    spread = torch.sqrt(variance + _VARIANCE_FLOOR)
    # sum over ranks of w_k P(rank = k), rearranged: what is lost between rank k and k + 1 is
    # got by documents at rank k or above
    lost = weights - torch.cat([weights[1:], weights.new_zeros(1)])
    edges = torch.arange(len(weights), dtype=scores.dtype, device=scores.device) + 0.5
    used = torch.nonzero(lost).flatten()
    lost, edges = lost[used], edges[used]
    reach = (edges - mean.unsqueeze(-1)) / spread.unsqueeze(-1)
    inside = 0.5 * (1.0 + torch.erf(reach / math.sqrt(2.0)))
    return (inside @ lost) * mask


def top_one_exposure(scores: Tensor, mask: Tensor, temperature: float) -> Tensor:
    """Return the probability of each document to be ranked first, as in DELTR: no browsing."""
    shares = torch.softmax((scores / temperature).masked_fill(~mask, -torch.inf), dim=-1)
    return torch.nan_to_num(shares)  # a row without documents


def rank_weights(browsing: BrowsingModel, cutoff: int | None, width: int) -> Tensor:
    """Return the attention of each rank; shape (min(cutoff, width),), at least one."""
    n = max(1, width if cutoff is None else min(cutoff, width))
    return torch.from_numpy(browsing.weights(np.arange(n, dtype=np.int64))).to(torch.float32)


def group_shares(exposure: Tensor, membership: Tensor) -> Tensor:
    """Return each group's share of the exposure; shape (n_rows, n_groups).

    The sum of exposure times membership (TREC Fair Ranking 2022's epsilon), divided by its sum over
    groups, or 0 without any; `membership` has the shape (n_rows, width, n_groups).
    """
    sums = torch.einsum("rd,rdg->rg", exposure, membership)
    total = sums.sum(dim=-1, keepdim=True)
    return sums / torch.where(total > 0, total, torch.ones_like(total))


def smoothed(distribution: Tensor, smoothing: float) -> Tensor:
    """Return the distributions, one per row, mixed with a uniform one by a share in (0, 1)."""
    return (1.0 - smoothing) * distribution + smoothing / distribution.shape[-1]


def divergence(shares: Tensor, target: Tensor, kind: str, smoothing: float) -> Tensor:
    """Return how far shares of exposure e are from the target e*, in nats; shape (n_rows,).

    ``"kl"`` is KL(e || e*), ``"reverse-kl"`` KL(e* || e), and ``"js"`` the mean of KL(e || m) and
    KL(e* || m) with m = (e + e*) / 2. Both are mixed with a uniform distribution first, by the
    share `smoothing`: a group of the target without any candidate would make it infinite otherwise.
    """
    p, q = smoothed(shares, smoothing), smoothed(target, smoothing)
    if kind == "kl":
        return _kl(p, q)
    if kind == "reverse-kl":
        return _kl(q, p)
    middle = (p + q) / 2
    return (_kl(p, middle) + _kl(q, middle)) / 2


def _kl(p: Tensor, q: Tensor) -> Tensor:
    return (p * (p.log() - q.log())).sum(dim=-1)


def listwise(scores: Tensor, gains: Tensor, mask: Tensor) -> Tensor:
    """Return the cross entropy of the gains' shares and softmax(scores); shape (n_rows,).

    ListNet's top-one loss (Cao et al. 2007), but with gains over their sum, not their softmax: with
    binary labels, only relevant documents should be first. Rows without a gain are 0.
    """
    wanted = gains * mask
    wanted = wanted / wanted.sum(dim=-1, keepdim=True).clamp(min=1e-12)
    log = torch.log_softmax(scores.masked_fill(~mask, -1e30), dim=-1)
    return -(wanted * log.masked_fill(~mask, 0.0)).sum(dim=-1)


def bce(scores: Tensor, gains: Tensor, mask: Tensor) -> Tensor:
    """Return the mean binary cross entropy of documents, scores as log-odds; shape (n_rows,)."""
    wanted = (gains > 0).to(scores.dtype)
    each = functional.binary_cross_entropy_with_logits(scores, wanted, reduction="none")
    count = mask.sum(dim=-1).clamp(min=1)
    return (each.masked_fill(~mask, 0.0)).sum(dim=-1) / count


RELEVANCE_LOSSES = {"listwise": listwise, "bce": bce}
