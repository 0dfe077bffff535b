"""Train the two models of DLF, each by gradient descent on its loss.

Scores have one row per query, padded to the longest, and a mask marks the documents. Both have the
shape (n_rows, width), like gains (at least 0, such as labels) and exposure.
"""

from __future__ import annotations

import copy
import hashlib
import math
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.nn import functional
from tqdm import tqdm

from fairtk.errors import InputError, ParameterError
from fairtk.exposure import BrowsingModel
from fairtk.frames import IntArray, digest
from fairtk_baselines.dlf.models import (
    REQUIRED_COLUMNS,
    Aim,
    Batch,
    Examples,
    Models,
    PairScorer,
    Recipe,
    examples_of,
    frozen,
    scored,
    untrained,
)
from fairtk_baselines.vectors import fused

_VARIANCE_FLOOR = 1e-6  # avoids a division by 0 for scores that are far apart
_SPREAD_FLOOR = 1e-6


def standardized(scores: Tensor, mask: Tensor) -> Tensor:
    """Return the scores with mean 0 and standard deviation 1 in each row; equal scores become 0.

    A temperature then has the same effect for all queries, and a model cannot reach a target with
    almost equal scores, whose soft ranking differs from the ranking itself.
    """
    count = mask.sum(dim=-1, keepdim=True).clamp(min=1)
    mean = scores.masked_fill(~mask, 0.0).sum(dim=-1, keepdim=True) / count
    off = (scores - mean).masked_fill(~mask, 0.0)
    return off / torch.sqrt((off**2).sum(dim=-1, keepdim=True) / count + _SPREAD_FLOOR)


def min_max(scores: Tensor, mask: Tensor) -> Tensor:
    """Return the scores scaled to [0, 1] in each row; equal scores become 0."""
    lowest = scores.masked_fill(~mask, torch.inf).amin(dim=-1, keepdim=True)
    off = (scores - lowest).masked_fill(~mask, 0.0)
    return off / off.amax(dim=-1, keepdim=True).clamp(min=_SPREAD_FLOOR)


def rank_moments(scores: Tensor, mask: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """Return the mean and the variance of each document's random rank, from 0.

    Each other document j is above document i independently with probability p = sigmoid((s_j - s_i)
    / temperature), so the mean is the sum of p, and the variance is the sum of p (1 - p).
    """
    width = scores.shape[-1]
    other = ~torch.eye(width, dtype=torch.bool, device=scores.device)
    above = torch.sigmoid((scores.unsqueeze(-2) - scores.unsqueeze(-1)) / temperature)
    above = above * (mask.unsqueeze(-2) & other)
    return above.sum(dim=-1), (above * (1.0 - above)).sum(dim=-1)


def soft_rank_exposure(scores: Tensor, mask: Tensor, weights: Tensor, temperature: float) -> Tensor:
    """Return the expected attention of each document under soft ranks, as in SoftRank.

    It is E[w(rank)] for a normal distribution with the moments of the rank (Taylor et al. 2008,
    there for the gain of NDCG), which has a gradient even where the discount is flat or cut off.
    `weights` is the attention of ranks 0, 1, ..., shape (n_ranks,); later ranks get no attention.
    """
    mean, variance = rank_moments(scores, mask, temperature)
    spread = torch.sqrt(variance + _VARIANCE_FLOOR)
    # the sum over ranks of w_k P(rank = k) is rearranged: a document at rank k or above gets the
    # decrease of the weight between ranks k and k + 1
    decrease = weights - torch.cat([weights[1:], weights.new_zeros(1)])
    edges = torch.arange(len(weights), dtype=scores.dtype, device=scores.device) + 0.5
    used = torch.nonzero(decrease).flatten()
    decrease, edges = decrease[used], edges[used]
    reach = (edges - mean.unsqueeze(-1)) / spread.unsqueeze(-1)
    inside = 0.5 * (1.0 + torch.erf(reach / math.sqrt(2.0)))
    return (inside @ decrease) * mask


def top_one_exposure(scores: Tensor, mask: Tensor, temperature: float) -> Tensor:
    """Return the probability that each document is ranked first, as in DELTR."""
    shares = torch.softmax((scores / temperature).masked_fill(~mask, -torch.inf), dim=-1)
    return torch.nan_to_num(shares)  # a row without documents


def rank_weights(browsing: BrowsingModel, cutoff: int | None, width: int) -> Tensor:
    """Return the attention of each rank; shape (min(cutoff, width),), at least one."""
    n = max(1, width if cutoff is None else min(cutoff, width))
    weights = browsing.checked_weights(np.arange(n, dtype=np.int64))
    return torch.from_numpy(weights).to(torch.float32)


def group_shares(exposure: Tensor, membership: Tensor) -> Tensor:
    """Return each group's share of the exposure; shape (n_rows, n_groups).

    It is the sum of exposure times membership, divided by its sum over groups (0 if that is 0).
    `membership` has the shape (n_rows, width, n_groups).
    """
    sums = torch.einsum("rd,rdg->rg", exposure, membership)
    total = sums.sum(dim=-1, keepdim=True)
    return sums / torch.where(total > 0, total, torch.ones_like(total))


def smoothed(distribution: Tensor, smoothing: float) -> Tensor:
    """Return distributions, one per row, mixed with a share `smoothing` of a uniform one."""
    return (1.0 - smoothing) * distribution + smoothing / distribution.shape[-1]


def divergence(shares: Tensor, target: Tensor, kind: str, smoothing: float) -> Tensor:
    """Return the divergence of shares of exposure e from the target e*, in nats; shape (n_rows,).

    ``"kl"`` is KL(e || e*), ``"reverse-kl"`` is KL(e* || e), and ``"js"`` is the mean of KL(e || m)
    and KL(e* || m) with m = (e + e*) / 2. Both are smoothed first, because the divergence would be
    infinite for a group of the target without a candidate.
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

    This is ListNet's top-one loss (Cao et al. 2007), but with gains divided by their sum instead of
    their softmax: with binary labels, only relevant documents should be first. Rows without a gain
    are 0.
    """
    gain_shares = gains * mask
    gain_shares = gain_shares / gain_shares.sum(dim=-1, keepdim=True).clamp(min=1e-12)
    log = torch.log_softmax(scores.masked_fill(~mask, -1e30), dim=-1)
    return -(gain_shares * log.masked_fill(~mask, 0.0)).sum(dim=-1)


def bce(scores: Tensor, gains: Tensor, mask: Tensor) -> Tensor:
    """Return the mean binary cross entropy, with scores as log-odds; shape (n_rows,)."""
    is_relevant = (gains > 0).to(scores.dtype)
    each = functional.binary_cross_entropy_with_logits(scores, is_relevant, reduction="none")
    count = mask.sum(dim=-1).clamp(min=1)
    return (each.masked_fill(~mask, 0.0)).sum(dim=-1) / count


_RELEVANCE_LOSSES = {"listwise": listwise, "bce": bce}


PROGRESS_AFTER = 2.0  # seconds
WHERE = "DLF.fit"

Labeled = tuple[pd.DataFrame, pd.DataFrame]
"""A run and its labels."""

Loss = Callable[[Tensor, Batch], Tensor]
"""A function of scores, shape (n_rows, width), and a batch; returns a value per query."""


@dataclass(frozen=True)
class Blend:
    """The blend of both models' scores, in training and in ranking."""

    weight: float  # the share of the fairness model
    fuse: float  # the share of the retriever's score in relevance
    normalize: str

    def __call__(self, scores: Tensor, batch: Batch) -> Tensor:
        """Return the blend of the fairness model's scores and relevance; same shape."""
        scale = min_max if self.normalize == "min-max" else standardized
        return (1 - self.weight) * batch.relevance + self.weight * scale(scores, batch.mask)

    def relevance(self, examples: Examples, model: PairScorer) -> Examples:
        """Return the examples with the relevance scores of the blend."""
        pairs = examples.pairs
        start, model_relevance = pairs.rankings.ranking_start, scored(frozen(model), pairs)
        relevance = fused(model_relevance, pairs.score, self.fuse, start, self.normalize)
        return replace(examples, relevance=relevance)


@dataclass(frozen=True)
class Lesson:
    """All inputs of training."""

    training: Labeled
    validation: Labeled | None
    aims: Sequence[Aim]
    recipe: Recipe
    blend: Blend

    def key(self) -> str:
        """Return a digest of the inputs of models whose training does not depend on the blend."""
        run, qrels = self.training
        aimed = [(a.groups.key, a.target.key, a.unlabeled, a.unknown) for a in self.aims]
        return digest([run[REQUIRED_COLUMNS], qrels, aimed, repr(self.recipe)], 16)


_RECENT: OrderedDict[str, tuple[Models, pd.DataFrame]] = OrderedDict()
_MOST_RECENT = 8


def fitted_or_recent(lesson: Lesson) -> tuple[Models, pd.DataFrame]:
    """Return `fitted_models`, or recent models that differ only in the blend.

    Tuning requests the same models with several weights.
    """
    if lesson.validation is not None or lesson.recipe.train_on == "blend":
        return fitted_models(lesson)
    key = lesson.key()
    if key not in _RECENT:
        _RECENT[key] = fitted_models(lesson)
    _RECENT.move_to_end(key)
    while len(_RECENT) > _MOST_RECENT:
        _RECENT.popitem(last=False)
    return _RECENT[key]


def fitted_models(lesson: Lesson) -> tuple[Models, pd.DataFrame]:
    """Return both trained models and the training history; see `DLF.fit` for the errors."""
    aims, recipe, blend, validation = lesson.aims, lesson.recipe, lesson.blend, lesson.validation
    blended = recipe.train_on == "blend"
    if blended and not blend.weight > 0:
        raise ParameterError(
            f"{WHERE}: weight must be above 0 with train_on='blend', got {blend.weight:g}"
        )
    examples = examples_of(*lesson.training, aims, WHERE, None)
    if not len(examples.relevant()):
        raise InputError(
            f"{WHERE}: no retrieved document with a label above 0 for any of the "
            f"{len(examples.size)} training queries; check that run and qrels use the same qids "
            "and docnos"
        )
    if not len(examples.fair()):
        raise InputError(
            f"{WHERE}: no target, or no document with a group, for any of the "
            f"{len(examples.size)} training queries; check that targets and groups use the run's "
            "qids and docnos"
        )
    held_out = None
    if validation is not None:
        held_out = examples_of(*validation, aims, WHERE, examples.pairs.dimension)

    def relevance_loss(scores: Tensor, batch: Batch) -> Tensor:
        return _RELEVANCE_LOSSES[recipe.relevance_loss](scores, batch.gains, batch.mask)

    def fairness(scores: Tensor, batch: Batch) -> Tensor:
        return fairness_loss(blend(scores, batch) if blended else scores, batch, recipe)

    first = Task("relevance", relevance_loss, Examples.relevant, examples, held_out)
    relevance_model, history = train(first, recipe)
    if blended:
        examples = blend.relevance(examples, relevance_model)
        held_out = None if held_out is None else blend.relevance(held_out, relevance_model)
    second = Task("fairness", fairness, Examples.fair, examples, held_out)
    fairness_model, later = train(second, recipe)
    both = pd.concat([history, later], ignore_index=True)
    return Models.of(relevance_model, fairness_model), both


def fairness_loss(scores: Tensor, batch: Batch, recipe: Recipe) -> Tensor:
    """Return the divergence of exposure from the target, summed over aims; shape (n_rows,)."""
    z = standardized(scores, batch.mask)
    if recipe.exposure == "top-one":
        exposure = top_one_exposure(z, batch.mask, recipe.temperature)
    else:
        weights = rank_weights(recipe.browsing, recipe.cutoff, z.shape[-1]).to(z.dtype)
        exposure = soft_rank_exposure(z, batch.mask, weights, recipe.temperature)
    total = torch.zeros(len(z), dtype=z.dtype)
    for membership, target, aimed in zip(batch.membership, batch.target, batch.aimed, strict=True):
        shares = group_shares(exposure, membership)
        parts = divergence(shares, target, recipe.divergence, recipe.smoothing)
        total = total + torch.where(aimed, parts, torch.zeros_like(parts))
    return total


@dataclass(frozen=True)
class Task:
    """The training task of one model."""

    name: str  # "relevance" or "fairness"; also selects the random stream
    loss: Loss
    queries: Callable[[Examples], IntArray]  # the queries to use
    examples: Examples
    validation: Examples | None  # for early stopping

    def mean(self, model: PairScorer, examples: Examples, queries: IntArray) -> Tensor:
        """Return the mean loss of some queries."""
        batch = examples.batch(queries)
        query = batch.query.unsqueeze(1).expand_as(batch.document)
        return self.loss(model(query, batch.document), batch).mean()


def train(task: Task, recipe: Recipe) -> tuple[PairScorer, pd.DataFrame]:
    """Return a trained model, and a frame of the loss after each epoch; see `DLF.history`.

    The optimizer is AdamW (Loshchilov and Hutter 2019). Random numbers depend on the seed and the
    name of the task. With validation queries, the weights of the epoch with the lowest validation
    loss are kept, and training ends after `patience` epochs without a lower one.
    """
    generator = torch.Generator().manual_seed(_stream(recipe.seed, task.name))
    model = untrained(task.name, task.examples.pairs.dimension, recipe, generator)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=recipe.learning_rate, weight_decay=recipe.weight_decay
    )
    best, best_loss, since = None, np.inf, 0
    history = []
    chosen = task.queries(task.examples)
    for epoch in tqdm(
        range(1, recipe.epochs + 1),
        desc=f"DLF: {task.name} model",
        unit=" epochs",
        disable=None,  # only on a terminal
        delay=PROGRESS_AFTER,
        leave=False,
    ):
        loss = 0.0
        for queries in _batches(chosen, recipe.batch_size, generator):
            optimizer.zero_grad()
            value = task.mean(model, task.examples, queries)
            value.backward()
            optimizer.step()
            loss += value.item() * len(queries) / len(chosen)
        if not np.isfinite(loss):
            raise ParameterError(
                f"DLF: the {task.name} model's loss is {loss} in epoch {epoch}; lower "
                f"learning_rate ({recipe.learning_rate:g}) or cosine ({recipe.cosine:g})"
            )
        held_out = _validation_loss(model, task, recipe.batch_size)
        history.append((task.name, epoch, loss, held_out))
        if np.isnan(held_out):
            continue
        since += 1
        if held_out < best_loss:
            best, best_loss, since = copy.deepcopy(model.state_dict()), held_out, 0
        if since >= recipe.patience:
            break
    if best is not None:
        model.load_state_dict(best)
    columns = ["model", "epoch", "loss", "validation_loss"]
    return model, pd.DataFrame(history, columns=columns)


def _validation_loss(model: PairScorer, task: Task, batch_size: int) -> float:
    """Return the mean loss of the validation queries, NaN if there are no queries."""
    if task.validation is None or not len(chosen := task.queries(task.validation)):
        return float("nan")
    total = 0.0
    with torch.no_grad():
        for queries in _batches(chosen, batch_size, None):
            value = task.mean(model, task.validation, queries)
            total += value.item() * len(queries) / len(chosen)
    return total


def _batches(queries: IntArray, size: int, generator: torch.Generator | None) -> Iterator[IntArray]:
    if generator is not None and len(queries) > size:
        queries = queries[torch.randperm(len(queries), generator=generator).numpy()]
    for start in range(0, len(queries), size):
        yield queries[start : start + size]


def _stream(seed: int, name: str) -> int:
    state = hashlib.blake2b(f"{seed} {name}".encode(), digest_size=8)
    return int.from_bytes(state.digest(), "little") >> 1
