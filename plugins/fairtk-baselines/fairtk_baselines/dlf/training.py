"""Training one of the two models by gradient descent on its loss."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from fairtk.errors import ParameterError
from fairtk.frames import IntArray
from fairtk_baselines.dlf import losses
from fairtk_baselines.dlf.examples import Batch, Examples
from fairtk_baselines.dlf.exposure import (
    group_shares,
    rank_weights,
    soft_rank_exposure,
    standardized,
    top_one_exposure,
)
from fairtk_baselines.dlf.network import PairScorer
from fairtk_baselines.dlf.recipe import Recipe

PROGRESS_AFTER = 2.0  # seconds

Loss = Callable[[Tensor, Batch, Recipe], Tensor]
"""From scores (n_rows, width), a batch and a recipe to one value per query, (n_rows,)."""


def relevance_loss(scores: Tensor, batch: Batch, recipe: Recipe) -> Tensor:
    """Return the relevance model's loss of each query; shape (n_rows,)."""
    return losses.RELEVANCE[recipe.relevance_loss](scores, batch.gains, batch.mask)


@dataclass(frozen=True)
class FairnessLoss:
    """The fairness model's loss of each query: the sum of the attributes' divergences.

    Attributes:
        blend: from the model's scores and a batch to the scores that documents are ranked by.
    """

    blend: Callable[[Tensor, Batch], Tensor]

    def __call__(self, scores: Tensor, batch: Batch, recipe: Recipe) -> Tensor:
        """Return one value per query; shape (n_rows,)."""
        return fairness_loss(self.blend(scores, batch), batch, recipe)


def fairness_loss(scores: Tensor, batch: Batch, recipe: Recipe) -> Tensor:
    """Return how far the exposure by some scores is from the targets; shape (n_rows,)."""
    z = standardized(scores, batch.mask)
    if recipe.exposure == "top-one":
        exposure = top_one_exposure(z, batch.mask, recipe.temperature)
    else:
        weights = rank_weights(recipe.browsing, recipe.cutoff, z.shape[-1]).to(z.dtype)
        exposure = soft_rank_exposure(z, batch.mask, weights, recipe.temperature)
    total = torch.zeros(len(z), dtype=z.dtype)
    for membership, target, aimed in zip(batch.membership, batch.target, batch.aimed, strict=True):
        shares = group_shares(exposure, membership)
        parts = losses.divergence(shares, target, recipe.divergence, recipe.smoothing)
        total = total + torch.where(aimed, parts, torch.zeros_like(parts))
    return total


@dataclass(frozen=True)
class Task:
    """What one model learns.

    Attributes:
        name: ``"relevance"`` or ``"fairness"``; also tells their random streams apart.
        loss: of a batch.
        examples: the training examples.
        queries: those that it learns from; shape (n,).
        validation: examples to stop early by; None: none.
        validation_queries: those that count; shape (m,).
    """

    name: str
    loss: Loss
    examples: Examples
    queries: IntArray
    validation: Examples | None
    validation_queries: IntArray


def train(task: Task, recipe: Recipe) -> tuple[PairScorer, pd.DataFrame]:
    """Return a trained model, and the loss after each epoch.

    AdamW (Loshchilov and Hutter 2019). Random numbers come from (seed, name of the task), never
    from torch's global state. With validation queries, the weights of the epoch with the least
    validation loss are kept, and training ends after `patience` epochs without a lower one.

    Returns:
        The model, and a frame with ``model``, ``epoch`` (from 1), ``loss`` and
        ``validation_loss`` (NaN without validation queries).

    Raises:
        ParameterError: the loss is no longer finite.
    """
    generator = torch.Generator().manual_seed(_stream(recipe.seed, task.name))
    relevance = task.name == "relevance"
    model = PairScorer(
        task.examples.pairs.dimension,
        recipe.hidden if relevance else recipe.fairness_hidden,
        recipe.inputs if relevance else recipe.fairness_inputs,
        recipe.cosine if relevance and recipe.cosine > 0 else None,
        flat=relevance,
        generator=generator,
    )
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=recipe.learning_rate, weight_decay=recipe.weight_decay
    )
    best, best_loss, since = None, np.inf, 0
    history = []
    for epoch in _epochs(recipe.epochs, task.name):
        loss = 0.0
        for queries in _batches(task.queries, recipe.batch_size, generator):
            optimizer.zero_grad()
            value = _mean(model, task.loss, task.examples, queries, recipe)
            value.backward()
            optimizer.step()
            loss += value.item() * len(queries) / len(task.queries)
        if not np.isfinite(loss):
            raise ParameterError(
                f"DLF: the {task.name} model's loss is {loss} in epoch {epoch}; lower "
                f"learning_rate ({recipe.learning_rate:g}) or cosine ({recipe.cosine:g})"
            )
        held_out = _validation_loss(model, task, recipe)
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


def scores_of(model: PairScorer, batch: Batch) -> Tensor:
    """Return the model's scores; shape (n_rows, width)."""
    query = batch.query.unsqueeze(1).expand_as(batch.document)
    scores: Tensor = model(query, batch.document)
    return scores


def _mean(
    model: PairScorer, loss: Loss, examples: Examples, queries: IntArray, recipe: Recipe
) -> Tensor:
    batch = examples.batch(queries)
    return loss(scores_of(model, batch), batch, recipe).mean()


def _validation_loss(model: PairScorer, task: Task, recipe: Recipe) -> float:
    """Return the mean loss of the validation queries; NaN: there are none."""
    n = len(task.validation_queries)
    if task.validation is None or not n:
        return float("nan")
    total = 0.0
    with torch.no_grad():
        for queries in _batches(task.validation_queries, recipe.batch_size, None):
            value = _mean(model, task.loss, task.validation, queries, recipe)
            total += value.item() * len(queries) / n
    return total


def _batches(queries: IntArray, size: int, generator: torch.Generator | None) -> Iterator[IntArray]:
    if generator is not None and len(queries) > size:
        queries = queries[torch.randperm(len(queries), generator=generator).numpy()]
    for start in range(0, len(queries), size):
        yield queries[start : start + size]


def _epochs(count: int, name: str) -> Iterator[int]:
    from tqdm import tqdm

    bar = tqdm(
        range(1, count + 1),
        desc=f"DLF: {name} model",
        unit=" epochs",
        disable=None,  # unless it is a terminal
        delay=PROGRESS_AFTER,
        leave=False,
    )
    yield from bar


def _stream(seed: int, name: str) -> int:
    state = hashlib.blake2b(f"{seed} {name}".encode(), digest_size=8)
    return int.from_bytes(state.digest(), "little") >> 1
