"""The two trained models together: scores of pairs, and the files that they are kept in."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from fairtk.frames import FloatArray, digest
from fairtk_baselines.dlf.network import PairScorer
from fairtk_baselines.dlf.pairs import DocumentPairs
from fairtk_baselines.dlf.recipe import Recipe
from fairtk_baselines.model_folder import Arrays, ModelFolder

FOLDER = ModelFolder(
    what="a DLF model",
    record="dlf.json",
    kind="fairtk-baselines DLF",
    keys=("weights", "settings", "dimension", "digest"),
    data="dlf-*.safetensors",
)

_CHUNK = 1 << 24  # numbers in a network's input at a time


@dataclass(frozen=True)
class Models:
    """A relevance model and a fairness model, in double precision.

    They are trained in single precision; in double precision, what a query's neighbors in a batch
    change about rounding is too small to change a ranking.

    `of` makes them of two models that were trained.
    """

    relevance: PairScorer
    fairness: PairScorer

    @classmethod
    def of(cls, relevance: PairScorer, fairness: PairScorer) -> Models:
        """Return two models that were trained, ready for use."""
        return cls(frozen(relevance), frozen(fairness))

    @property
    def dimension(self) -> int:
        """Length of the vectors."""
        return self.relevance.dimension

    @classmethod
    def from_arrays(cls, recipe: Recipe, dimension: int, arrays: Arrays) -> Models:
        """Return the models that arrays of `to_arrays` describe.

        Raises:
            ValueError: names or shapes do not fit the recipe.
        """
        cosine = recipe.cosine if recipe.cosine > 0 else None
        relevance = PairScorer(dimension, recipe.hidden, recipe.inputs, cosine)
        fairness = PairScorer(dimension, recipe.fairness_hidden, recipe.fairness_inputs)
        for name, model in (("relevance", relevance), ("fairness", fairness)):
            state = {
                key.removeprefix(f"{name}."): torch.from_numpy(np.array(array))
                for key, array in arrays.items()
                if key.startswith(f"{name}.")
            }
            try:
                model.load_state_dict(state)
            except RuntimeError as error:
                raise ValueError(" ".join(str(error).split())[:160]) from None
            if not all(bool(torch.isfinite(t).all()) for t in state.values()):
                raise ValueError(f"the {name} model has weights that are NaN or infinite")
        return cls.of(relevance, fairness)

    def to_arrays(self) -> Arrays:
        """Return all weights by name, in the single precision that they were trained in."""
        return {
            f"{name}.{key}": np.ascontiguousarray(tensor.to(torch.float32).numpy())
            for name, model in (("relevance", self.relevance), ("fairness", self.fairness))
            for key, tensor in model.state_dict().items()
        }

    @cached_property
    def key(self) -> str:
        """A digest of the weights."""
        return digest(self.to_arrays())

    def scores(self, pairs: DocumentPairs) -> tuple[FloatArray, FloatArray]:
        """Return relevance and fairness score of each row; each of shape (n_rows,)."""
        return scored(self.relevance, pairs), scored(self.fairness, pairs)


def scored(model: PairScorer, pairs: DocumentPairs) -> FloatArray:
    """Return the score of each row by a model in double precision; shape (n_rows,)."""
    query, document = torch.from_numpy(pairs.query), torch.from_numpy(pairs.document)
    of_row = torch.from_numpy(pairs.rankings.query)
    step = max(1, _CHUNK // (3 * pairs.dimension))
    with torch.no_grad():
        parts = [
            model(query[of_row[at : at + step]], document[at : at + step]).numpy()
            for at in range(0, len(document), step)
        ]
    return np.concatenate(parts)


def frozen(model: PairScorer) -> PairScorer:
    """Return a copy of a model in double precision that is not trained further."""
    result: PairScorer = copy.deepcopy(model).double().eval().requires_grad_(False)
    return result
