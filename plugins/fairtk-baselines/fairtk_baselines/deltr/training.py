"""From a run with features and labels to the weights of a linear model with the smallest loss."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from fairtk.errors import DataWarning, InputError, listed
from fairtk.frames import (
    DOCNO,
    QID,
    SCORE,
    FloatArray,
    IntArray,
    ObjectArray,
    Qrels,
    Rankings,
    encode_run,
)
from fairtk.groups import Groups, spread
from fairtk_baselines.deltr.division import as_features, divide, neutral_shares
from fairtk_baselines.deltr.loss import TOP_ATTENTION, Lists, LossSides, Problem
from fairtk_baselines.deltr.model import LinearModel
from fairtk_baselines.vectors import FEATURES, feature_matrix

NAME = "DELTR"
NEEDED = [QID, DOCNO, SCORE, FEATURES]
_FLAT = 1e-6  # a gradient without a larger partial derivative is taken as 0


@dataclass(frozen=True)
class TrainingSet:
    """The rows that weights are learned from, sorted by qid and, inside, by rank."""

    features: FloatArray  # as they came; shape (n_rows, n_features)
    label: FloatArray  # 0 without label
    docno: ObjectArray
    rank: IntArray  # 0-based
    lists: Lists
    left_out: int  # queries

    @classmethod
    def of(cls, run: pd.DataFrame, qrels: pd.DataFrame) -> TrainingSet:
        """Return the training rows of a run.

        Queries without a relevant document, or with one document, say nothing about order.
        """
        coded = encode_run(run, NAME)
        if not len(run):
            raise InputError(f"{NAME}: the training run is empty; there is nothing to fit to")
        features = feature_matrix(run, coded, NAME)
        docno = coded.docnos[coded.doc]
        label = np.nan_to_num(Qrels(qrels, NAME).labels_of(coded))
        relevant = np.bincount(coded.query[label > 0], minlength=len(coded.qids))
        size = np.bincount(coded.query).astype(np.int64)
        _tell(coded, relevant, size)
        usable = (relevant > 0) & (size > 1)
        # by qid, so that neither the order of rows nor that of topics changes a bit of the sums
        by_name = np.argsort(coded.qids.astype(str), kind="stable")
        chosen = by_name[usable[by_name]]
        _, order = spread(coded.ranking_start[chosen], size[chosen])
        return cls(
            features[order],
            label[order],
            docno[order],
            coded.position[order],
            Lists(np.append(0, np.cumsum(size[chosen]))),
            int((~usable).sum()),
        )


def _tell(coded: Rankings, relevant: IntArray, size: IntArray) -> None:
    usable = (relevant > 0) & (size > 1)
    if not usable.any():
        raise InputError(
            f"{NAME}: none of the {len(size)} training queries has a relevant document (label "
            "above 0) among at least two retrieved ones; check that run and qrels use the same "
            "qids and docnos, or retrieve more"
        )
    for bad, what in (
        (relevant == 0, "no relevant document among those retrieved"),
        ((relevant > 0) & (size < 2), "one document"),
    ):
        if bad.any():
            warnings.warn(
                f"{NAME}: {int(bad.sum())} of {len(size)} training queries have {what} and are "
                f"left out: {listed(coded.qids[bad])}",
                DataWarning,
                stacklevel=4,
            )


def learn(data: TrainingSet, groups: Groups, settings: dict[str, Any]) -> LinearModel:
    """Return the model of a training set, by the settings of `DELTR`."""
    lists, size = data.lists, data.lists.size.astype(np.float64)
    attention = 1 / np.log(data.rank + 2.0)
    division = divide(groups, data.docno, attention, settings, NAME)
    protected, rest = division.sides(groups, data.docno)
    neutral = neutral_shares(protected, rest)
    members = as_features(protected, rest, neutral)
    if not settings["protected_as_feature"]:
        members = members[:, :0]
    with np.errstate(over="ignore"):  # said below, in words
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
            f"{NAME}: no training query has documents both of the protected groups "
            f"({listed(division.names)}) and of those they are compared with: gamma has no "
            "effect, this is plain ListNet; check that the groups use the run's docnos",
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
    """Return what is subtracted from each feature, and what it is then divided by.

    A feature without variance is divided by 1. ``"global"`` takes one mean and deviation of all
    numbers of the table, with `members` (shares in protected groups), as the published code does.
    """
    n_features = features.shape[1]
    if standardize == "none":
        return np.zeros(n_features), np.ones(n_features)
    if standardize == "feature":
        mean = features.mean(axis=0)
        deviation = features.std(axis=0)
        # what is constant up to rounding stays constant instead of being blown up
        flat = deviation <= 1e-12 * np.maximum(1.0, np.abs(mean))
        return mean, np.where(flat, 1.0, deviation)
    every = np.hstack([features, members])
    return np.full(n_features, every.mean()), np.full(n_features, every.std() or 1.0)


def wanted_top(lists: Lists, label: FloatArray, labels: str) -> FloatArray:
    """Return the top-one probabilities that labels ask for; shape (n_rows,)."""
    if labels == "softmax":
        return lists.softmax(label)
    gain = np.maximum(label, 0.0)
    return np.asarray(gain / lists.total(gain)[lists.query])


def exposure_scale(lists: Lists, exposure: str) -> FloatArray:
    """Return what mean top-one probabilities are multiplied with; shape (n_queries,)."""
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
    """Return weights, and after how many iterations, by the settings of `DELTR`."""
    rng = np.random.default_rng(settings["seed"])
    weights = rng.random(problem.features.shape[1]) * settings["init_range"]
    if settings["optimizer"] == "gd":
        return _descend(problem, weights, settings)
    return _lbfgs(problem, weights, settings["max_iterations"])


def _lbfgs(problem: Problem, weights: FloatArray, max_iterations: int) -> tuple[FloatArray, int]:
    """Run L-BFGS, and BFGS where a large gamma, a steep wall, misleads its line search."""
    from scipy import optimize

    options = {"ftol": 0.0, "gtol": 1e-9, "maxcor": 20, "maxfun": 20 * max_iterations}
    found = optimize.minimize(
        problem.value_and_gradient,
        weights,
        jac=True,
        method="L-BFGS-B",
        options={**options, "maxiter": max_iterations},
    )
    done = int(found.nit)
    if np.abs(found.jac).max() > _FLAT and done < max_iterations:
        options = {"gtol": 1e-9, "maxiter": max_iterations - done}
        found = optimize.minimize(
            problem.value_and_gradient, found.x, jac=True, method="BFGS", options=options
        )
        done += int(found.nit)
    slope = float(np.abs(found.jac).max())
    if done >= max_iterations or slope > 100 * _FLAT:
        why = f"after max_iterations={max_iterations}" if done >= max_iterations else "early"
        warnings.warn(
            f"DELTR: L-BFGS stopped {why}, with a largest partial derivative of {slope:.2g}: "
            "raise max_iterations or l2, lower gamma, or standardize the features",
            DataWarning,
            stacklevel=5,
        )
    return np.asarray(found.x, dtype=np.float64), done


def _descend(
    problem: Problem, weights: FloatArray, settings: dict[str, Any]
) -> tuple[FloatArray, int]:
    """Take as many steps of fixed rate against the gradient as are asked for."""
    published = settings["gradient"] == "published"
    evaluate = problem.value_and_published_step if published else problem.value_and_gradient
    rate = settings["learning_rate"]
    for step in range(settings["max_iterations"]):
        with np.errstate(over="ignore", invalid="ignore"):  # said below, in words
            weights = weights - rate * evaluate(weights)[1]
        if not np.isfinite(weights).all():
            raise InputError(
                f"DELTR: gradient descent diverged at step {step + 1}: lower learning_rate "
                f"({rate:g}), standardize the features, or use optimizer='lbfgs'"
            )
    return weights, int(settings["max_iterations"])
