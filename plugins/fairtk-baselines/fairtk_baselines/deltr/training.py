"""Train the linear model of DELTR (Zehlike and Castillo, WWW 2020).

The loss (Eq. 6) is ListNet's cross entropy of top-one probabilities (Eqs. 2 and 7) plus gamma times
the squared difference of two groups' mean exposure, top-one probability times 1 / ln 2, if it is to
the disadvantage of the protected group (Eq. 5).
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fairtk.errors import DataWarning, InputError
from fairtk.frames import (
    DOCNO,
    QID,
    SCORE,
    FloatArray,
    IntArray,
    ObjectArray,
    Qrels,
    Run,
)
from fairtk.groups import Groups
from fairtk.wording import format_list
from fairtk_baselines.deltr.model import LinearModel, as_features, divide, neutral_shares
from fairtk_baselines.vectors import FEATURES, feature_matrix

TOP_ATTENTION = 1 / np.log(2.0)  # of the first rank: 1 / ln(1 + rank) at rank 1


@dataclass(frozen=True)
class Lists:
    """The positions of documents in arrays that are sorted by query; each query has documents."""

    start: IntArray  # first row of each query, and the number of rows

    @cached_property
    def size(self) -> IntArray:
        """Number of documents of each query; shape (n_queries,)."""
        return np.diff(self.start)

    @cached_property
    def query(self) -> IntArray:
        """Query of each row; shape (n_rows,)."""
        return np.repeat(np.arange(len(self.size)), self.size)

    def total(self, values: FloatArray) -> FloatArray:
        """Sum rows within each query; shape (n_rows, ...) to (n_queries, ...)."""
        if not len(self.size):
            return np.zeros((0, *values.shape[1:]))
        return np.asarray(np.add.reduceat(values, self.start[:-1], axis=0))

    def log_softmax(self, scores: FloatArray) -> FloatArray:
        """Return the logarithm of each document's top-one probability (Eq. 7); shape (n_rows,)."""
        if not len(self.size):
            return np.zeros(0)
        most = np.maximum.reduceat(scores, self.start[:-1])
        shifted = scores - most[self.query]
        return np.asarray(shifted - np.log(self.total(np.exp(shifted)))[self.query])

    def softmax(self, scores: FloatArray) -> FloatArray:
        """Return the top-one probability of each document (Eq. 7); shape (n_rows,)."""
        return np.asarray(np.exp(self.log_softmax(scores)))


@dataclass(frozen=True)
class LossSides:
    """The memberships of documents in the protected groups and in the side to compare with.

    `scale` multiplies top-one probabilities: 1 / ln 2, or the number of documents.
    """

    protected: FloatArray  # shape (n_rows, n_groups)
    rest: FloatArray  # shape (n_rows,)
    scale: FloatArray  # shape (n_queries,)

    def means(self, lists: Lists, top: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the mean exposure of each group, and of the others, by query (Eq. 4).

        The mean is NaN without documents.
        """
        with np.errstate(invalid="ignore"):
            protected = lists.total(self.protected * top[:, None]) / lists.total(self.protected)
            rest = lists.total(self.rest * top) / lists.total(self.rest)
        return protected * self.scale[:, None], rest * self.scale

    def contrast(self, lists: Lists) -> FloatArray:
        """Return the weights with which top-one probabilities sum to E_rest - E_protected.

        They are 0 if a side has no documents. Shape (n_rows, n_groups).
        """
        protected, rest = lists.total(self.protected), lists.total(self.rest)
        both = ((protected > 0) & (rest > 0)[:, None])[lists.query]
        with np.errstate(divide="ignore", invalid="ignore"):
            each = (self.rest / rest[lists.query])[:, None] - (
                self.protected / protected[lists.query]
            )
        return np.asarray(np.where(both, each * self.scale[lists.query][:, None], 0.0))


class LossParts(NamedTuple):
    """The normalized cross entropy and the sum of squared disadvantages of each query."""

    ranking: FloatArray
    exposure: FloatArray


@dataclass(frozen=True)
class Problem:
    """All inputs of the loss except the weights."""

    features: FloatArray  # standardized, and the columns of protected groups if these are features
    wanted: FloatArray  # top-one probabilities of the labels; shape (n_rows,)
    lists: Lists
    sides: LossSides
    gamma: float  # factor of the exposure term
    divisor: FloatArray  # divides the cross entropy of each query; shape (n_queries,)
    share: FloatArray  # weight of the loss of each query; shape (n_queries,)
    l2: float  # factor of the squared norm of the weights

    @cached_property
    def contrast(self) -> FloatArray:
        """See `LossSides.contrast`."""
        return self.sides.contrast(self.lists)

    def parts(self, weights: FloatArray) -> LossParts:
        """Return the parts of each query's loss."""
        log_top = self.lists.log_softmax(self.features @ weights)
        behind = self._behind(np.exp(log_top))
        return LossParts(
            -self.lists.total(self.wanted * log_top) / self.divisor, (behind**2).sum(1)
        )

    def value_and_gradient(self, weights: FloatArray) -> tuple[float, FloatArray]:
        """Return the loss (Eq. 6) and its gradient with respect to the weights."""
        top = self.lists.softmax(self.features @ weights)
        by_top = 2 * self.gamma * (self.contrast * self._behind(top)[self.lists.query]).sum(1)
        # the derivative of a softmax: s_i (v_i - sum of s_j v_j)
        by_score = top * (by_top - self.lists.total(top * by_top)[self.lists.query])
        return self._value(weights), self._from_rows(by_score, top, weights)

    def value_and_published_step(self, weights: FloatArray) -> tuple[float, FloatArray]:
        """Return the loss, and the gradient of the authors' code, which differs from Eq. 11.

        With top-one probabilities s and features x, its derivative of the exposure of group G for
        feature f is
        (sum over G of s_i x_if  -  mean over G of s_i * sum over j and f of s_j x_jf) / ln 2
        instead of
        (mean over G of s_i x_if  -  mean over G of s_i * sum over j of s_j x_jf) / ln 2.
        """
        top = self.lists.softmax(self.features @ weights)
        behind = self._behind(top)
        apart = (self.sides.rest[:, None] - self.sides.protected) * behind[self.lists.query]
        each = 2 * self.gamma * self.sides.scale
        first = each[self.lists.query] * apart.sum(1) * top
        summed = self.lists.total(top * self.features.sum(1))
        second = 2 * self.gamma * (behind**2).sum(1) * summed * self.share
        return self._value(weights), self._from_rows(first, top, weights) - second.sum()

    def _behind(self, top: FloatArray) -> FloatArray:
        """Return the disadvantage in exposure of each group; shape (n_queries, n_groups)."""
        return np.maximum(0.0, self.lists.total(self.contrast * top[:, None]))

    def _value(self, weights: FloatArray) -> float:
        parts = self.parts(weights)
        return float(
            self.share @ (parts.ranking + self.gamma * parts.exposure)
            + self.l2 * (weights @ weights)
        )

    def _from_rows(self, exposure: FloatArray, top: FloatArray, weights: FloatArray) -> FloatArray:
        """Return the gradient, given that of the exposure term with respect to scores."""
        ranking = (top - self.wanted) / self.divisor[self.lists.query]
        rows = self.share[self.lists.query] * (ranking + exposure)
        return np.asarray(rows @ self.features + 2 * self.l2 * weights)


NAME = "DELTR"
REQUIRED_COLUMNS = [QID, DOCNO, SCORE, FEATURES]
_FLAT = 1e-6  # a gradient without a larger partial derivative counts as 0


@dataclass(frozen=True)
class TrainingSet:
    """The training rows, sorted by qid and rank."""

    features: FloatArray  # not standardized; shape (n_rows, n_features)
    label: FloatArray  # 0 without a label
    docno: ObjectArray
    rank: IntArray  # 0-based
    lists: Lists
    left_out: int  # queries

    @classmethod
    def of(cls, run: pd.DataFrame, qrels: pd.DataFrame) -> TrainingSet:
        """Return the training rows of a run.

        Queries without a relevant document, or with only one document, are left out.
        """
        coded = Run(run, NAME)
        if not len(run):
            raise InputError(f"{NAME}: the training run is empty")
        features = feature_matrix(run, coded, NAME)
        docno = coded.docnos[coded.doc]
        label = np.nan_to_num(Qrels(qrels, NAME).labels_of(coded))
        relevant = np.bincount(coded.query[label > 0], minlength=len(coded.qids))
        size = np.bincount(coded.query).astype(np.int64)
        _tell(coded, relevant, size)
        usable = (relevant > 0) & (size > 1)
        # by qid, so that sums do not depend on the order of rows or topics
        by_name = np.argsort(coded.qids.text.astype(str), kind="stable")
        chosen = by_name[usable[by_name]]
        place = np.full(len(size), len(size))
        place[chosen] = np.arange(len(chosen))
        order = np.argsort(place[coded.query], kind="stable")[: size[chosen].sum()]
        return cls(
            features[order],
            label[order],
            docno[order],
            coded.position[order],
            Lists(np.append(0, np.cumsum(size[chosen]))),
            int((~usable).sum()),
        )


def _tell(coded: Run, relevant: IntArray, size: IntArray) -> None:
    usable = (relevant > 0) & (size > 1)
    if not usable.any():
        raise InputError(
            f"{NAME}: no relevant document (label above 0) among at least two retrieved ones for "
            f"any of the {len(size)} training queries; check that run and qrels use the same qids "
            "and docnos, or retrieve more"
        )
    for bad, what in (
        (relevant == 0, "no relevant document among those retrieved"),
        ((relevant > 0) & (size < 2), "one document"),
    ):
        if bad.any():
            warnings.warn(
                f"{NAME}: {int(bad.sum())} of {len(size)} training queries "
                f"({format_list(coded.qids[bad])}) have {what} and are left out",
                DataWarning,
                stacklevel=4,
            )


def learn(data: TrainingSet, groups: Groups, settings: dict[str, Any]) -> LinearModel:
    """Return the model for a training set and the settings of `DELTR`."""
    lists, size = data.lists, data.lists.size.astype(np.float64)
    attention = 1 / np.log(data.rank + 2.0)
    division = divide(groups, data.docno, attention, settings, NAME)
    protected, rest = division.sides(groups, data.docno)
    neutral = neutral_shares(protected, rest)
    members = as_features(protected, rest, neutral)
    if not settings["protected_as_feature"]:
        members = members[:, :0]
    with np.errstate(over="ignore"):  # the error below reports it
        mean, deviation = moments(data.features, members, settings["standardize"])
    if not np.isfinite([mean, deviation]).all():
        raise InputError(
            f"{NAME}: features as large as {np.abs(data.features).max():.2g} have no finite "
            "deviation; scale them"
        )
    problem = Problem(
        np.hstack([(data.features - mean) / deviation, members]),
        wanted_top(lists, data.label, settings["labels"]),
        lists,
        LossSides(protected, rest, exposure_scale(lists, settings["exposure"])),
        settings["gamma"],
        np.log(size if settings["normalize_by"] == "query" else np.full(len(size), size.sum())),
        size if settings["average"] == "documents" else np.full(len(size), 1.0 / len(size)),
        settings["l2"],
    )
    if settings["gamma"] > 0 and not problem.contrast.any():
        warnings.warn(
            f"{NAME}: gamma has no effect, because no training query has documents of both the "
            f"protected groups ({format_list(division.names)}) and the reference groups; check "
            "that the groups use the run's docnos",
            DataWarning,
            stacklevel=3,
        )
    weights, iterations = _minimize(problem, settings)
    n_features = data.features.shape[1]
    return LinearModel(
        weights[:n_features],
        weights[n_features:],
        mean,
        deviation,
        neutral,
        division,
        _summary(problem, weights, iterations, data.left_out),
    )


def moments(
    features: FloatArray, members: FloatArray, standardize: str
) -> tuple[FloatArray, FloatArray]:
    """Return the mean and the deviation of each feature for standardization.

    The deviation is 1 for a feature without variance. ``"global"`` uses one mean and deviation of
    all numbers in the table, including `members` (shares in protected groups), like the published
    code.
    """
    n_features = features.shape[1]
    if standardize == "none":
        return np.zeros(n_features), np.ones(n_features)
    if standardize == "feature":
        mean = features.mean(axis=0)
        deviation = features.std(axis=0)
        # do not scale up the rounding errors of constant features
        flat = deviation <= 1e-12 * np.maximum(1.0, np.abs(mean))
        return mean, np.where(flat, 1.0, deviation)
    every = np.hstack([features, members])
    return np.full(n_features, every.mean()), np.full(n_features, every.std() or 1.0)


def wanted_top(lists: Lists, label: FloatArray, labels: str) -> FloatArray:
    """Return the top-one probabilities of labels; shape (n_rows,)."""
    if labels == "softmax":
        return lists.softmax(label)
    gain = np.maximum(label, 0.0)
    return np.asarray(gain / lists.total(gain)[lists.query])


def exposure_scale(lists: Lists, exposure: str) -> FloatArray:
    """Return the factor of mean top-one probabilities for each query; shape (n_queries,)."""
    if exposure == "relative":
        return lists.size.astype(np.float64)
    return np.full(len(lists.size), TOP_ATTENTION)


def _summary(
    problem: Problem, weights: FloatArray, iterations: int, left_out: int
) -> dict[str, float]:
    parts = problem.parts(weights)
    top = problem.lists.softmax(problem.features @ weights)
    protected, rest = problem.sides.means(problem.lists, top)
    gap = rest[:, None] - protected
    defined = np.isfinite(gap)
    return {
        "queries": len(problem.lists.size),
        "queries_left_out": left_out,
        "queries_with_both_groups": int(defined.any(axis=1).sum()),
        "documents": len(problem.wanted),
        "iterations": iterations,
        "loss": problem.value_and_gradient(weights)[0],
        "ranking_loss": float(parts.ranking.mean()),
        "exposure_loss": float(parts.exposure.mean()),
        "gap": float(gap[defined].mean()) if defined.any() else 0.0,
    }


def _minimize(problem: Problem, settings: dict[str, Any]) -> tuple[FloatArray, int]:
    """Return the weights and the number of iterations."""
    rng = np.random.default_rng(settings["seed"])
    weights = rng.random(problem.features.shape[1]) * settings["init_range"]
    if settings["optimizer"] == "gd":
        return _descend(problem, weights, settings)
    return _lbfgs(problem, weights, settings["max_iterations"])


def _lbfgs(problem: Problem, weights: FloatArray, max_iterations: int) -> tuple[FloatArray, int]:
    """Run L-BFGS, and then BFGS if the line search failed, e.g. because of a large gamma."""
    from scipy import optimize

    options = {"ftol": 0.0, "gtol": 1e-9, "maxcor": 20, "maxfun": 20 * max_iterations}
    result = optimize.minimize(
        problem.value_and_gradient,
        weights,
        jac=True,
        method="L-BFGS-B",
        options={**options, "maxiter": max_iterations},
    )
    done = int(result.nit)
    if np.abs(result.jac).max() > _FLAT and done < max_iterations:
        options = {"gtol": 1e-9, "maxiter": max_iterations - done}
        result = optimize.minimize(
            problem.value_and_gradient, result.x, jac=True, method="BFGS", options=options
        )
        done += int(result.nit)
    slope = float(np.abs(result.jac).max())
    if done >= max_iterations or slope > 100 * _FLAT:
        why = f"after max_iterations={max_iterations}" if done >= max_iterations else "early"
        warnings.warn(
            f"DELTR: L-BFGS stopped {why} with a largest partial derivative of {slope:.2g}; raise "
            "max_iterations or l2, lower gamma, or standardize the features",
            DataWarning,
            stacklevel=5,
        )
    return np.asarray(result.x, dtype=np.float64), done


def _descend(
    problem: Problem, weights: FloatArray, settings: dict[str, Any]
) -> tuple[FloatArray, int]:
    """Run gradient descent with a fixed learning rate and number of steps."""
    published = settings["gradient"] == "published"
    evaluate = problem.value_and_published_step if published else problem.value_and_gradient
    rate = settings["learning_rate"]
    for step in range(settings["max_iterations"]):
        with np.errstate(over="ignore", invalid="ignore"):  # the error below reports it
            weights = weights - rate * evaluate(weights)[1]
        if not np.isfinite(weights).all():
            raise InputError(
                f"DELTR: gradient descent diverged at step {step + 1}; lower learning_rate "
                f"({rate:g}), standardize the features, or use optimizer='lbfgs'"
            )
    return weights, int(settings["max_iterations"])
