"""`off_policy_utility`: expected utility at any alpha from answers that are there already."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from fairtk.certainty.generated import (
    Generated,
    ScoredCandidates,
    read_generated,
    refuse_other_draws,
    refuse_other_policy,
)
from fairtk.certainty.importance import ESTIMATORS, balanced_means
from fairtk.errors import (
    DataWarning,
    InputError,
    MissingWarning,
    NotFoundError,
    ParameterError,
    listed,
)
from fairtk.frames.arrays import FloatArray, IntArray
from fairtk.frames.columns import GOLD_ANSWER, QID
from fairtk.frames.qrels import Qrels
from fairtk.measures.eu import EU, ExpectedUtility
from fairtk.plackett_luce import SURE, log_step_probabilities
from fairtk.transformers.settings import exponent, whole

WHERE = "off_policy_utility"
LEAST_EFFECTIVE = 30


@dataclass(frozen=True)
class OffPolicyUtility:
    """What `off_policy_utility` found.

    Attributes:
        per_query: ``qid``, ``alpha``, ``value``, ``error`` (standard error), ``effective``
            (effective sample size).
        means: by ``alpha``, over the queries: ``value``; ``error``, its standard error for these
            queries (other samples); ``error_queries``, that for queries like these (other queries
            and samples); ``effective``, the mean effective sample size; ``n``, the number of
            queries, and ``low``, how many of them have fewer than `least_effective`.
        estimator: how it was estimated.
        least_effective: the bound below which an estimate is doubtful.
    """

    per_query: pd.DataFrame
    means: pd.DataFrame
    estimator: str
    least_effective: float

    def __repr__(self) -> str:
        return f"{WHERE} ({self.estimator}):\n{self.means.to_string(index=False)}"


def off_policy_utility(
    answers: Mapping[float, pd.DataFrame],
    scores: pd.DataFrame,
    qrels: pd.DataFrame,
    alphas: Iterable[float],
    utility: Any,
    cutoff: int = 5,
    estimator: str = "self-normalized",
    *,
    seed: int | None = None,
    least_effective: float = LEAST_EFFECTIVE,
) -> OffPolicyUtility:
    """Estimate EU at any alpha of `FairSampler` from answers generated at some alphas.

    Each answer is weighted by how much likelier its ranking is at the wanted alpha (multiple
    importance sampling with the balance heuristic). ``"plain"`` is unbiased; ``"self-normalized"``
    has a bias of the order of 1 / effective sample size and mostly a smaller error.

    Args:
        answers: by alpha, what the generator gave: rankings S with ``qanswer``.
        scores: the run that the samplers got.
        qrels: ``qid`` and ``gold_answer`` (`fairtk.join_answers`). A query without answers gets
            the worst value.
        alphas: the wanted exponents, used or not.
        utility: as in ``EU(utility=...)``, or such a measure.
        cutoff: how many documents the generator read.
        estimator: ``"self-normalized"`` or ``"plain"``.
        seed: the samplers' seed: the first 20 rankings of a query are compared with its draws.
            None: the rankings must be as likely, on average, as draws of their alpha are.
        least_effective: queries with a smaller effective sample size are warned about.

    Raises:
        InputError: answers are of another seed, alpha or run, or of rankings that the policy
            cannot draw; something is missing.
    """
    if estimator not in ESTIMATORS:
        raise NotFoundError("estimator", estimator, ESTIMATORS)
    cutoff = whole("cutoff", cutoff, WHERE)
    if not isinstance(answers, Mapping) or not answers:
        raise ParameterError(
            f"{WHERE}: answers must be a dict of alpha to frame; found {answers!r}"
        )
    sources = {exponent(alpha, WHERE): frame for alpha, frame in answers.items()}
    wanted = _exponents(alphas)
    measure = utility if isinstance(utility, ExpectedUtility) else EU(utility=utility)
    labels = Qrels(qrels, WHERE, [GOLD_ANSWER])
    candidates = ScoredCandidates(scores, f"{WHERE} (scores)")
    named = {f"{WHERE} (answers[{alpha}])": frame for alpha, frame in sources.items()}
    given = read_generated(named, candidates, labels, measure, cutoff)
    each = list(zip(named, sources, given, strict=True))
    if seed is not None:
        seed = whole("seed", seed, WHERE, None)
        for where, alpha, found in each:
            refuse_other_draws(found, candidates, alpha, cutoff, seed, where)
    table = _estimates(given, candidates, list(sources), wanted, estimator, measure.bounds)
    if seed is None:
        for where, alpha, found in each:
            refuse_other_policy(found, candidates, alpha, cutoff, where)
    per_query = _per_query(table, candidates, labels, wanted, measure.worst)
    means = _means(per_query, wanted, least_effective)
    _warn(per_query, least_effective)
    return OffPolicyUtility(per_query, means, estimator, least_effective)


def _exponents(alphas: Any) -> list[float]:
    if isinstance(alphas, str) or not isinstance(alphas, Iterable):
        raise ParameterError(f"{WHERE}: alphas must be a list of exponents; found {alphas!r}")
    wanted = list(dict.fromkeys(exponent(alpha, WHERE) for alpha in alphas))
    if not wanted:
        raise ParameterError(f"{WHERE}: alphas is empty; give the exponents to estimate EU at")
    return wanted


def _estimates(
    given: list[Generated],
    candidates: ScoredCandidates,
    sources: list[float],
    wanted: list[float],
    estimator: str,
    bounds: tuple[float, float],
) -> dict[int, FloatArray]:
    """Return value, error and effective size at each wanted alpha, by query that has answers."""
    alphas, found = np.array([*sources, *wanted]), {}
    for query in range(len(candidates.start) - 1):
        own = [slice(g.start[query], g.start[query + 1]) for g in given]
        sample = np.concatenate([g.sample[s] for g, s in zip(given, own, strict=True)])
        if len(sample) == 0:
            continue
        order = np.argsort(sample, kind="stable")
        sample = sample[order]
        source = np.repeat(np.arange(len(given)), [s.stop - s.start for s in own])[order]
        value = np.concatenate([g.value[s] for g, s in zip(given, own, strict=True)])[order]
        top = np.concatenate([g.top[query] for g in given])[order]
        steps = log_step_probabilities(candidates.log_weights(query, alphas), top)
        _refuse_impossible(steps, source, sample, sources, str(candidates.run.qids[query]))
        log_probability = np.ascontiguousarray(steps.sum(axis=0).T)
        log_target = log_probability[len(sources) :]
        log_source = log_probability[: len(sources)]
        estimate = balanced_means(log_target, log_source, source, sample, value, estimator, bounds)
        found[query] = np.stack([estimate.value, estimate.error, estimate.effective])
    return found


def _refuse_impossible(
    steps: FloatArray, source: IntArray, sample: IntArray, sources: list[float], qid: str
) -> None:
    """Raise if a ranking has a place that its own policy does not fill so."""
    least = steps[:, np.arange(len(source)), source].min(axis=0)
    never = np.flatnonzero(least <= -SURE)
    if len(never):
        alpha = sources[source[never[0]]]
        raise InputError(
            f"{WHERE} (answers[{alpha}]): the policy with alpha {alpha} cannot draw the ranking of "
            f"qid {qid!r}, sample {sample[never[0]]} (probability 0: {len(never)} such rankings); "
            "are the answers of another alpha or run?"
        )


def _per_query(
    table: dict[int, FloatArray],
    candidates: ScoredCandidates,
    labels: Qrels,
    wanted: list[float],
    worst: float,
) -> pd.DataFrame:
    """Return one row per query of the labels and alpha."""
    place = {str(qid): number for number, qid in enumerate(candidates.run.qids)}
    known = [place.get(str(qid), -1) for qid in labels.qids]
    missing = [str(q) for q, number in zip(labels.qids, known, strict=True) if number not in table]
    if missing:
        warnings.warn(
            f"{WHERE}: {len(missing)} of {len(labels.qids)} queries of the qrels have no answer "
            f"and get the worst value ({listed(missing)})",
            MissingWarning,
            stacklevel=3,
        )
    nothing = np.repeat([[worst], [0.0], [0.0]], len(wanted), axis=1)
    parts = [table.get(number, nothing) for number in known]
    value, error, effective = np.concatenate(parts, axis=1) if parts else np.empty((3, 0))
    return pd.DataFrame(
        {
            QID: np.repeat(labels.qids, len(wanted)),
            "alpha": np.tile(np.asarray(wanted, dtype=np.float64), len(labels.qids)),
            "value": value,
            "error": error,
            "effective": effective,
        }
    )


def _means(per_query: pd.DataFrame, wanted: list[float], least: float) -> pd.DataFrame:
    rows = []
    for alpha in wanted:
        own = per_query[per_query["alpha"] == alpha]
        value = own["value"].dropna()
        n = len(value)
        error = float(np.sqrt((own["error"].loc[value.index] ** 2).sum())) / n if n else np.nan
        spread = float(value.std(ddof=1)) / np.sqrt(n) if n > 1 else np.nan
        low = int((own["effective"] < least).sum())
        rows.append([alpha, value.mean(), error, spread, own["effective"].mean(), n, low])
    columns = ["alpha", "value", "error", "error_queries", "effective", "n", "low"]
    return pd.DataFrame(rows, columns=columns)


def _warn(per_query: pd.DataFrame, least: float) -> None:
    low = per_query[per_query["effective"] < least]
    if len(low):
        counts = low.groupby("alpha").size()
        said = ", ".join(f"{n} at alpha {alpha:g}" for alpha, n in counts.head(5).items())
        more = f" and at {len(counts) - 5} other alphas" if len(counts) > 5 else ""
        warnings.warn(
            f"{WHERE}: the effective sample size of queries is below {least:g}: {said}{more}; "
            "these estimates are doubtful: generate answers at an alpha nearby",
            DataWarning,
            stacklevel=3,
        )
