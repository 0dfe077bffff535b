"""The losses that the two models are trained with; each returns one value per query.

Scores, gains (0 or above, such as labels) and the mask of documents have the shape (n_rows, width).
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

DIVERGENCES = ("kl", "reverse-kl", "js")


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
    """Return the cross entropy of the gains' distribution and softmax(scores); shape (n_rows,).

    ListNet's top-one loss (Cao et al. 2007), where the distribution wanted is gains / their
    sum and not their softmax: with binary labels, only relevant documents should be first. Rows
    without a gain are 0.
    """
    wanted = gains * mask
    wanted = wanted / wanted.sum(dim=-1, keepdim=True).clamp(min=1e-12)
    log = torch.log_softmax(scores.masked_fill(~mask, -1e30), dim=-1)
    return -(wanted * log.masked_fill(~mask, 0.0)).sum(dim=-1)


def bce(scores: Tensor, gains: Tensor, mask: Tensor) -> Tensor:
    """Return the mean binary cross entropy of each row's documents; shape (n_rows,).

    Scores are taken as log-odds of being relevant, which a gain above 0 says.
    """
    wanted = (gains > 0).to(scores.dtype)
    each = functional.binary_cross_entropy_with_logits(scores, wanted, reduction="none")
    count = mask.sum(dim=-1).clamp(min=1)
    return (each.masked_fill(~mask, 0.0)).sum(dim=-1) / count


RELEVANCE_LOSSES = {"listwise": listwise, "bce": bce}
