"""From training rankings to the two trained models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from torch import Tensor

from fairtk.errors import InputError, ParameterError
from fairtk_baselines.dlf.aims import Aim
from fairtk_baselines.dlf.blending import fused
from fairtk_baselines.dlf.examples import Batch, Examples, examples_of
from fairtk_baselines.dlf.exposure import min_max, standardized
from fairtk_baselines.dlf.models import Models, frozen, scored
from fairtk_baselines.dlf.network import PairScorer
from fairtk_baselines.dlf.recipe import Recipe
from fairtk_baselines.dlf.training import FairnessLoss, Task, fairness_loss, relevance_loss, train

WHERE = "DLF.fit"
Labeled = tuple[pd.DataFrame, pd.DataFrame]
"""A run and its labels."""


@dataclass(frozen=True)
class Blend:
    """How the two models' scores are blended, in training as in ranking.

    Attributes:
        weight: share of the fairness model.
        fuse: share of the retriever's score in relevance.
        normalize: scaling inside each query.
    """

    weight: float
    fuse: float
    normalize: str

    def __call__(self, scores: Tensor, batch: Batch) -> Tensor:
        """Return the blend of the fairness model's scores and what is relevant; same shape."""
        scale = min_max if self.normalize == "min-max" else standardized
        return (1 - self.weight) * batch.relevance + self.weight * scale(scores, batch.mask)

    def relevance(self, examples: Examples, model: PairScorer) -> Examples:
        """Return the examples with the relevance that the blend has."""
        pairs = examples.pairs
        found = scored(frozen(model), pairs)
        start = pairs.rankings.ranking_start
        return replace(
            examples, relevance=fused(found, pairs.score, self.fuse, start, self.normalize)
        )


def fitted_models(
    training: Labeled,
    validation: Labeled | None,
    aims: Sequence[Aim],
    recipe: Recipe,
    blend: Blend,
) -> tuple[Models, pd.DataFrame]:
    """Return both models, trained, and how training went; see `DLF.fit` for the errors."""
    if recipe.train_on == "blend" and not blend.weight > 0:
        raise ParameterError(
            f"{WHERE}: train_on='blend' needs a weight above 0, or there is no fairness in the "
            f"blend; found {blend.weight:g}"
        )
    examples = examples_of(*training, aims, WHERE, None)
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
    none = np.zeros(0, dtype=np.int64)
    relevance, first = train(
        Task(
            "relevance",
            relevance_loss,
            examples,
            examples.relevant(),
            held_out,
            none if held_out is None else held_out.relevant(),
        ),
        recipe,
    )
    loss = fairness_loss
    if recipe.train_on == "blend":
        loss = FairnessLoss(blend)
        examples = blend.relevance(examples, relevance)
        held_out = None if held_out is None else blend.relevance(held_out, relevance)
    fairness, second = train(
        Task(
            "fairness",
            loss,
            examples,
            examples.fair(),
            held_out,
            none if held_out is None else held_out.fair(),
        ),
        recipe,
    )
    return Models.of(relevance, fairness), pd.concat([first, second], ignore_index=True)
