"""From training rankings to the two trained models, each by gradient descent on its loss."""

from __future__ import annotations

import copy
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from tqdm import tqdm

from fairtk.errors import InputError, ParameterError
from fairtk.frames import IntArray, digest
from fairtk_baselines.dlf import losses
from fairtk_baselines.dlf.examples import NEEDED, Batch, Examples, examples_of
from fairtk_baselines.dlf.models import Models, PairScorer, frozen, scored, untrained
from fairtk_baselines.dlf.recipe import Aim, Recipe
from fairtk_baselines.scaling import fused

PROGRESS_AFTER = 2.0  # seconds
WHERE = "DLF.fit"

Labeled = tuple[pd.DataFrame, pd.DataFrame]
"""A run and its labels."""

Loss = Callable[[Tensor, Batch], Tensor]
"""From scores (n_rows, width) and a batch to one value per query, (n_rows,)."""


@dataclass(frozen=True)
class Blend:
    """How the two models' scores are blended, in training as in ranking."""

    weight: float  # share of the fairness model
    fuse: float  # share of the retriever's score in relevance
    normalize: str

    def __call__(self, scores: Tensor, batch: Batch) -> Tensor:
        """Return the blend of the fairness model's scores and what is relevant; same shape."""
        scale = losses.min_max if self.normalize == "min-max" else losses.standardized
        return (1 - self.weight) * batch.relevance + self.weight * scale(scores, batch.mask)

    def relevance(self, examples: Examples, model: PairScorer) -> Examples:
        """Return the examples with the relevance that the blend has."""
        pairs = examples.pairs
        start, found = pairs.rankings.ranking_start, scored(frozen(model), pairs)
        relevance = fused(found, pairs.score, self.fuse, start, self.normalize)
        return replace(examples, relevance=relevance)


@dataclass(frozen=True)
class Lesson:
    """All that the two models are trained from."""

    training: Labeled
    validation: Labeled | None
    aims: Sequence[Aim]
    recipe: Recipe
    blend: Blend

    def key(self) -> str:
        """Return a digest of what models that do not know the blend depend on."""
        run, qrels = self.training
        aimed = [(a.groups.key, a.target.key, a.unlabeled, a.unknown) for a in self.aims]
        return digest([run[NEEDED], qrels, aimed, repr(self.recipe)], 16)


_RECENT: OrderedDict[str, tuple[Models, pd.DataFrame]] = OrderedDict()
_MOST_RECENT = 8


def fitted_or_recent(lesson: Lesson) -> tuple[Models, pd.DataFrame]:
    """Return `fitted_models`; those of late that differ in the blend alone are used again.

    Tuning asks for the same models with one weight after another.
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
    """Return both models, trained, and how training went; see `DLF.fit` for the errors."""
    aims, recipe, blend, validation = lesson.aims, lesson.recipe, lesson.blend, lesson.validation
    blended = recipe.train_on == "blend"
    if blended and not blend.weight > 0:
        raise ParameterError(
            f"{WHERE}: train_on='blend' needs a weight above 0, or there is no fairness in the "
            f"blend; found {blend.weight:g}"
        )
    examples = examples_of(*lesson.training, aims, WHERE, None)
    if not len(examples.relevant()):
        raise InputError(
            f"{WHERE}: none of the {len(examples.size)} training queries has a document with a "
            "label above 0 in its ranking; check that the qrels have the same qids and docnos"
        )
    if not len(examples.fair()):
        raise InputError(
            f"{WHERE}: none of the {len(examples.size)} training queries has a target and a "
            "document with a group; check that targets and groups have the same qids and docnos"
        )
    held_out = None
    if validation is not None:
        held_out = examples_of(*validation, aims, WHERE, examples.pairs.dimension)

    def relevance_loss(scores: Tensor, batch: Batch) -> Tensor:
        return losses.RELEVANCE_LOSSES[recipe.relevance_loss](scores, batch.gains, batch.mask)

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
    """Return how far the exposure by scores is from the targets, summed; shape (n_rows,)."""
    z = losses.standardized(scores, batch.mask)
    if recipe.exposure == "top-one":
        exposure = losses.top_one_exposure(z, batch.mask, recipe.temperature)
    else:
        weights = losses.rank_weights(recipe.browsing, recipe.cutoff, z.shape[-1]).to(z.dtype)
        exposure = losses.soft_rank_exposure(z, batch.mask, weights, recipe.temperature)
    total = torch.zeros(len(z), dtype=z.dtype)
    for membership, target, aimed in zip(batch.membership, batch.target, batch.aimed, strict=True):
        shares = losses.group_shares(exposure, membership)
        parts = losses.divergence(shares, target, recipe.divergence, recipe.smoothing)
        total = total + torch.where(aimed, parts, torch.zeros_like(parts))
    return total


@dataclass(frozen=True)
class Task:
    """What one model learns."""

    name: str  # "relevance" or "fairness"; also tells their random streams apart
    loss: Loss
    queries: Callable[[Examples], IntArray]  # those of examples that count
    examples: Examples
    validation: Examples | None  # to stop early by

    def mean(self, model: PairScorer, examples: Examples, queries: IntArray) -> Tensor:
        """Return the mean loss of some queries."""
        batch = examples.batch(queries)
        query = batch.query.unsqueeze(1).expand_as(batch.document)
        return self.loss(model(query, batch.document), batch).mean()


def train(task: Task, recipe: Recipe) -> tuple[PairScorer, pd.DataFrame]:
    """Return a trained model, and a frame of the loss after each epoch; see `DLF.history`.

    AdamW (Loshchilov and Hutter 2019), with random numbers from (seed, name of the task). With
    validation queries, the weights of the epoch with the least validation loss are kept, and
    training ends after `patience` epochs without a lower one.
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
        disable=None,  # unless it is a terminal
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
    """Return the mean loss of the validation queries; NaN: there are none."""
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
