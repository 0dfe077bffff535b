"""The two models of DLF: settings, training examples, and networks."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property, partial
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from fairtk import checks
from fairtk.errors import DataWarning, InputError, ParameterError
from fairtk.exposure import MU, BrowsingModel
from fairtk.frames import (
    DOCNO,
    QID,
    SCORE,
    BoolArray,
    FloatArray,
    IntArray,
    ObjectArray,
    Qrels,
    Run,
    digest,
)
from fairtk.groups import Groups, Target
from fairtk.plugins import as_position_model
from fairtk.wording import format_list
from fairtk_baselines.model_folder import Arrays, ModelFolder
from fairtk_baselines.vectors import DOC_VEC, QUERY_VEC, stacked, unit_rows

DIVERGENCES = ("kl", "reverse-kl", "js")
RELEVANCE_LOSSES = ("listwise", "bce")
INPUTS = ("query", "document", "product")
MOST_GROUPS = 1 << 10
UNLABELED_POLICIES = ("drop", "unknown", "uniform")
UNKNOWN_POLICIES = ("keep", "drop")
_WHERE = "DLF"

_Kind = TypeVar("_Kind", Groups, Target)


@dataclass(frozen=True)
class Aim:
    """One attribute (or several crossed ones) and its target; see `DLF` for the settings."""

    groups: Groups
    target: Target
    unlabeled: str
    unknown: str

    def memberships(self, run: Run) -> FloatArray:
        """Return the memberships of the document of each row of a run; shape (n, n_groups).

        Unknown levels without a share in the target of the query are left out.
        """
        memberships = self.groups.memberships(run.docnos, self.unlabeled).take(run.doc)
        counted = self.target.drop_unknown(memberships, run.qids[run.query])
        return np.asarray(counted.dense() * self._counted())

    def shares(self, qids: ObjectArray) -> FloatArray:
        """Return each query's target; shape (n, n_groups), 0 for a query without a target."""
        shares = self.target.for_qids(qids).expanded().dense() * self._counted()
        total = shares.sum(axis=1, keepdims=True)
        result: FloatArray = np.divide(shares, total, out=np.zeros_like(shares), where=total > 0)
        return result

    def _counted(self) -> BoolArray:
        space = self.groups.space
        if self.unknown == "keep":
            return np.ones(space.size, dtype=bool)
        return space.known(np.arange(space.size, dtype=np.int64))


def checked_aims(
    groups: Groups | Sequence[Groups],
    target: Target | Sequence[Target],
    unlabeled: str,
    unknown: str,
) -> tuple[Aim, ...]:
    """Return an aim for each pair of groups and target, after checks."""
    every = _several(groups, Groups, "groups")
    targets = _several(target, Target, "target")
    if len(every) != len(targets):
        raise ParameterError(
            f"DLF: expected one target per groups, in the same order, got {len(every)} groups "
            f"and {len(targets)} targets"
        )
    twice = [g.name for i, g in enumerate(every) if g.name in [o.name for o in every[:i]]]
    if twice:
        raise ParameterError(f"DLF: duplicate groups {twice[0]!r}")
    aims = []
    for one, wanted in zip(every, targets, strict=True):
        if one.space.size > MOST_GROUPS:
            raise ParameterError(
                f"DLF: expected at most {MOST_GROUPS} groups, got {one.space.size} in "
                f"{one.name!r}; give the attributes one by one, groups=[a, b]"
            )
        try:
            fitting = wanted.for_groups(one)
        except InputError as error:
            raise InputError(f"DLF: groups {one.name!r}: {error}") from None
        aim = Aim(one, fitting, unlabeled, unknown)
        if not aim._counted().any():
            raise ParameterError(f"DLF: unknown='drop' requires a known level in {one.name!r}")
        aims.append(aim)
    return tuple(aims)


def _several(given: object, kind: type[_Kind], name: str) -> list[_Kind]:
    items = [given] if isinstance(given, kind) else given
    if not (isinstance(items, list | tuple) and items and all(isinstance(i, kind) for i in items)):
        raise ParameterError(
            f"DLF: {name} must be a {kind.__name__} or a list of them, got {given!r}"
        )
    return list(items)


def _widths(setting: str, hidden: Any, where: str) -> tuple[int, ...]:
    if isinstance(hidden, str) or not isinstance(hidden, Sequence):
        raise ParameterError(
            f"{where}: {setting} must list the width of each hidden layer, e.g. (32,), got "
            f"{hidden!r}"
        )
    return tuple(checks.integer("the width of a hidden layer", width, where) for width in hidden)


def _inputs(setting: str, inputs: Any, where: str) -> tuple[str, ...]:
    names = (inputs,) if isinstance(inputs, str) else tuple(inputs)
    for name in names:
        checks.choice(setting, name, INPUTS, where)
    if not names or len(set(names)) < len(names):
        raise ParameterError(f"{where}: {setting} must name some of {INPUTS}, once, got {inputs!r}")
    return tuple(name for name in INPUTS if name in names)


def _browsing(name: str, value: Any, where: str) -> BrowsingModel:
    return as_position_model(value, where)


def _cutoff(name: str, value: Any, where: str) -> int | None:
    return None if value is None else checks.integer(name, value, where)


def _checked(check: Callable[..., Any], **settings: Any) -> Any:
    return field(metadata={"check": partial(check, **settings)})


@dataclass(frozen=True)
class Recipe:
    """The settings for building and training the two models; see `DLF`."""

    hidden: tuple[int, ...] = _checked(_widths)
    fairness_hidden: tuple[int, ...] = _checked(_widths)
    inputs: tuple[str, ...] = _checked(_inputs)
    fairness_inputs: tuple[str, ...] = _checked(_inputs)
    cosine: float = _checked(checks.number)
    relevance_loss: str = _checked(checks.choice, choices=RELEVANCE_LOSSES)
    exposure: str = _checked(checks.choice, choices=("soft-rank", "top-one"))
    temperature: float = _checked(checks.number, ends="(]")
    browsing: BrowsingModel = _checked(_browsing)
    cutoff: int | None = _checked(_cutoff)
    train_on: str = _checked(checks.choice, choices=("alone", "blend"))
    divergence: str = _checked(checks.choice, choices=DIVERGENCES)
    # at 0, a group without a candidate would make the divergence infinite
    smoothing: float = _checked(checks.number, least=0, most=1, ends="()")
    epochs: int = _checked(checks.integer, least=0)
    learning_rate: float = _checked(checks.number, least=0, most=1, ends="(]")
    weight_decay: float = _checked(checks.number)
    batch_size: int = _checked(checks.integer)
    patience: int = _checked(checks.integer)
    seed: int = _checked(checks.integer, least=None)

    @classmethod
    def checked(cls, given: Mapping[str, Any]) -> Recipe:
        """Return the recipe for settings, after checks."""
        settings = {name: given[name] for name in cls.names()}
        if settings["temperature"] is None:
            settings["temperature"] = 1.0 if settings["exposure"] == "top-one" else 0.1
        for one in fields(cls):
            check = one.metadata["check"]
            settings[one.name] = check(one.name, settings[one.name], where=_WHERE)
        if isinstance(settings["browsing"], MU) and settings["cutoff"] is None:
            raise ParameterError(f"{_WHERE}: a cutoff is required for browsing='MU'")
        return cls(**settings)

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Return the names of the settings, in order."""
        return tuple(f.name for f in fields(cls))


REQUIRED_COLUMNS = [QID, DOCNO, SCORE, QUERY_VEC, DOC_VEC]


@dataclass(frozen=True)
class DocumentPairs:
    """The rows of a run, sorted by query and rank, with vectors of norm 1 or 0."""

    rankings: Run
    score: FloatArray  # the retriever's score of each row
    query: FloatArray  # shape (n_queries, dimension)
    document: FloatArray  # of each row; shape (n_rows, dimension)

    @property
    def dimension(self) -> int:
        """Length of the vectors."""
        return int(self.document.shape[1])


def pairs_of(frame: pd.DataFrame, where: str, dimension: int | None = None) -> DocumentPairs:
    """Return the pairs of a frame R with ``query_vec`` and ``doc_vec``, and at least one row.

    A query has the vector of its first rank. All vectors must have the given `dimension`, or that
    of the first one.
    """
    rankings = Run(frame, where)
    documents = frame[DOC_VEC].to_numpy(dtype=object)[rankings.order]
    first = rankings.ranking_start[:-1]
    queries = frame[QUERY_VEC].to_numpy(dtype=object)[rankings.order[first]]
    vectors = stacked(documents, rankings, DOC_VEC, where, dimension)
    size = vectors.shape[1]
    return DocumentPairs(
        rankings,
        frame[SCORE].to_numpy(dtype=np.float64)[rankings.order],
        unit_rows(stacked(queries, rankings, QUERY_VEC, where, size, first)),
        unit_rows(vectors),
    )


@dataclass(frozen=True)
class Batch:
    """Some queries of `Examples`, one per row, padded to the largest number of documents.

    `mask` marks the cells with documents. Shapes are (n_rows, width) or (n_rows, width, size).
    """

    query: Tensor
    document: Tensor
    mask: Tensor
    gains: Tensor
    relevance: Tensor
    membership: tuple[Tensor, ...]
    target: tuple[Tensor, ...]
    aimed: tuple[Tensor, ...]


@dataclass(frozen=True)
class Examples:
    """All training (or validation) queries."""

    pairs: DocumentPairs
    gains: FloatArray  # relevance label of each row, at least 0
    relevance: FloatArray  # scaled relevance score of each row, or 0
    membership: tuple[FloatArray, ...]  # by aim; shape (n_rows, n_groups)
    target: tuple[FloatArray, ...]  # by aim; shape (n_queries, n_groups)
    aimed: tuple[BoolArray, ...]  # by aim, whether a query has a target and a grouped document

    @property
    def size(self) -> IntArray:
        """Number of documents of each query; shape (n_queries,)."""
        return np.diff(self.pairs.rankings.ranking_start)

    def relevant(self) -> IntArray:
        """Return the indices of queries with a relevant document in the run, sorted by qid."""
        of_relevant = self.pairs.rankings.query[self.gains > 0]
        return self._by_qid(np.bincount(of_relevant, minlength=len(self.size)) > 0)

    def fair(self) -> IntArray:
        """Return the indices of queries with a target for any aim, sorted by qid."""
        return self._by_qid(np.any(self.aimed, axis=0))

    def _by_qid(self, chosen: BoolArray) -> IntArray:
        # batches must not depend on the order of rows in the frame
        order = np.argsort(self.pairs.rankings.qids.text.astype(str), kind="stable")
        return order[chosen[order]].astype(np.int64)

    def batch(self, queries: IntArray) -> Batch:
        """Return some queries as one padded batch."""
        size = self.size[queries]
        width = int(size.max(initial=1))
        mask = np.arange(width) < size[:, None]
        row = self.pairs.rankings.ranking_start[queries][:, None] + np.arange(width)
        row[~mask] = 0

        def padded(values: FloatArray) -> Tensor:
            padded_values = values[row]
            padded_values[~mask] = 0.0
            return torch.from_numpy(padded_values).to(torch.float32)

        def whole(values: FloatArray) -> Tensor:
            return torch.from_numpy(values[queries]).to(torch.float32)

        return Batch(
            whole(self.pairs.query),
            padded(self.pairs.document),
            torch.from_numpy(mask),
            padded(self.gains),
            padded(self.relevance),
            tuple(padded(m) for m in self.membership),
            tuple(whole(t) for t in self.target),
            tuple(torch.from_numpy(a[queries]) for a in self.aimed),
        )


def examples_of(
    run: pd.DataFrame, qrels: pd.DataFrame, aims: Sequence[Aim], where: str, dimension: int | None
) -> Examples:
    """Return the examples of a run with labels and targets.

    Documents without a label, or with a label of at most 0, are not relevant. Labels of documents
    that are not in the run are not used, because they have no vectors.
    """
    if not len(run):
        raise InputError(f"{where}: the training run is empty")
    pairs = pairs_of(run, where, dimension)
    rankings = pairs.rankings
    membership, target, aimed = [], [], []
    for aim in aims:
        try:
            table = aim.memberships(rankings)
        except InputError as error:  # names the setting of `Groups.memberships`
            raise InputError(f"{where}: {error}") from None
        target_shares = aim.shares(rankings.qids.text)
        attended = rankings.query[table.any(axis=1)]
        grouped = np.bincount(attended, minlength=len(rankings.qids)) > 0
        has = (target_shares > 0).any(axis=1)
        _warn(rankings.qids[~has], f"{where}: no target over {aim.groups.name!r} for")
        _warn(
            rankings.qids[has & ~grouped],
            f"{where}: no document with a group of {aim.groups.name!r} in the ranking of",
        )
        membership.append(table)
        target.append(target_shares)
        aimed.append(has & grouped)
    gains = np.maximum(np.nan_to_num(Qrels(qrels, where).labels_of(rankings)), 0.0)
    none = np.zeros(len(gains))
    return Examples(pairs, gains, none, tuple(membership), tuple(target), tuple(aimed))


def _warn(qids: ObjectArray, what: str) -> None:
    if len(qids):
        warnings.warn(
            f"{what} {len(qids)} queries ({format_list(qids.tolist())}), so the fairness model "
            "does not learn from them",
            DataWarning,
            stacklevel=5,
        )


FOLDER = ModelFolder(
    what="a DLF model",
    record="dlf.json",
    kind="fairtk-baselines DLF",
    keys=("weights", "settings", "dimension", "digest"),
    data="dlf-*.safetensors",
)

_CHUNK = 1 << 24  # numbers in a network's input at a time


class PairScorer(nn.Module):  # type: ignore[misc]
    """A feed-forward network of query and document vectors, plus a multiple of their cosine.

    score = network([q, d, q * d]) + c * cos(q, d), for vectors of norm 1 (or 0). The inputs of the
    network are the vectors times the square root of their dimension, so they have size 1. Hidden
    layers end in ReLU. `cosine` is the initial c, `None` for no such term; with `flat`, the weights
    of the last layer are initially 0.
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
            # torch's layers would use the global random generator
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
    """Return the ``"relevance"`` or ``"fairness"`` model of a recipe with initial weights."""
    if name == "fairness":
        hidden, inputs = recipe.fairness_hidden, recipe.fairness_inputs
        return PairScorer(dimension, hidden, inputs, generator=generator)
    cosine = recipe.cosine if recipe.cosine > 0 else None
    return PairScorer(dimension, recipe.hidden, recipe.inputs, cosine, True, generator)


@dataclass(frozen=True)
class Models:
    """A trained relevance model and a trained fairness model.

    They use double precision, so that rounding does not make rankings depend on the batch.
    """

    relevance: PairScorer
    fairness: PairScorer

    @classmethod
    def of(cls, relevance: PairScorer, fairness: PairScorer) -> Models:
        """Return copies of two trained models that are ready for use."""
        return cls(frozen(relevance), frozen(fairness))

    @property
    def dimension(self) -> int:
        """Length of the vectors."""
        return self.relevance.dimension

    @classmethod
    def from_arrays(cls, recipe: Recipe, dimension: int, arrays: Arrays) -> Models:
        """Return the models of `to_arrays`; raise a ValueError if the arrays do not fit."""
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
        """Return all weights by name, in the single precision of training."""
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
