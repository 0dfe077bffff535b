"""The networks that score pairs of query and document: one, and the two that are trained."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor, nn

from fairtk.frames import FloatArray, digest
from fairtk_baselines.dlf.examples import DocumentPairs
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


class PairScorer(nn.Module):  # type: ignore[misc]
    """Scores pairs: a feed-forward network of the vectors, plus a multiple of their cosine.

    score = network([q, d, q * d]) + c * cos(q, d), for vectors of norm 1 (or 0), which the network
    sees times the square root of their dimension, so that inputs are of size 1. Hidden layers end
    in ReLU. `cosine` is the first c, None: no such term; `flat` starts the last layer at 0.
    """

    def __init__(
        self,
        dimension: int,
        hidden: Sequence[int],
        inputs: Sequence[str],
        cosine: float | None = None,
        flat: bool = False,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.dimension = dimension
        self.inputs = tuple(inputs)
        widths = [dimension * len(self.inputs), *hidden, 1]
        self.weights = nn.ParameterList()
        self.biases = nn.ParameterList()
        for layer, (before, after) in enumerate(zip(widths[:-1], widths[1:], strict=True)):
            # drawn from a generator of our own: torch's layers would use the global one
            bound = 0.0 if flat and layer == len(widths) - 2 else 1.0 / math.sqrt(before)
            draw = torch.rand(after, before, generator=generator)
            self.weights.append(nn.Parameter((2.0 * draw - 1.0) * bound))
            self.biases.append(nn.Parameter(torch.zeros(after)))
        self.cosine = None if cosine is None else nn.Parameter(torch.tensor(float(cosine)))

    def forward(self, query: Tensor, document: Tensor) -> Tensor:
        """Return the score of each pair of vectors; shape (...) for shapes (..., dimension)."""
        root = math.sqrt(self.dimension)
        product = query * document
        parts = {
            "query": query * root,
            "document": document * root,
            "product": product * self.dimension,
        }
        x = torch.cat([parts[name] for name in self.inputs], dim=-1)
        last = len(self.weights) - 1
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = nn.functional.linear(x, weight, bias)
            if layer < last:
                x = torch.relu(x)
        score = x.squeeze(-1)
        return score if self.cosine is None else score + self.cosine * product.sum(dim=-1)


def untrained(
    name: str, dimension: int, recipe: Recipe, generator: torch.Generator | None = None
) -> PairScorer:
    """Return the model ``"relevance"`` or ``"fairness"`` of a recipe with its first weights."""
    if name == "fairness":
        hidden, inputs = recipe.fairness_hidden, recipe.fairness_inputs
        return PairScorer(dimension, hidden, inputs, generator=generator)
    cosine = recipe.cosine if recipe.cosine > 0 else None
    return PairScorer(dimension, recipe.hidden, recipe.inputs, cosine, True, generator)


@dataclass(frozen=True)
class Models:
    """A relevance model and a fairness model; `of` makes them of two that were trained.

    In double precision, as a query's neighbors in a batch must not change a ranking by rounding.
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
        """Return the models that `to_arrays` described; a ValueError if they do not fit."""
        models = {name: untrained(name, dimension, recipe) for name in ("relevance", "fairness")}
        for name, model in models.items():
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
        return cls.of(**models)

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
