"""`off_policy_utility`: expected utility at any alpha from existing answers.

References: Veach and Guibas 1995 (the balance heuristic), Owen 2013 (*Monte Carlo theory, methods
and examples*, chapter 9).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from fairtk import checks
from fairtk.display.tables import frame_html, frame_lines
from fairtk.errors import (
    ColumnError,
    DataWarning,
    InputError,
    MissingWarning,
    ParameterError,
    UndefinedWarning,
)
from fairtk.exposure import draw_rankings, score_gaps
from fairtk.exposure.plackett_luce import SURE, log_step_probabilities, log_weights
from fairtk.frames import (
    DOCNO,
    GOLD_ANSWER,
    QANSWER,
    QID,
    SAMPLE,
    SCORE,
    FloatArray,
    IntArray,
    Qrels,
    Run,
    require_columns,
)
from fairtk.frames.accepted import as_frame, frame_of
from fairtk.frames.columns import as_numbers
from fairtk.frames.runs import order_by
from fairtk.measures import EU, LabeledRun
from fairtk.measures.eu import ExpectedUtility
from fairtk.measures.labeled_run import UNREAD_PROMPT
from fairtk.wording import format_list, short, such

DRAWN = 64
"""The number of rankings per query drawn to check the policy of given rankings."""
QUERIES = 100
"""The number of queries of this check."""
FAR = 6.0
"""The difference in standard errors at which this check fails."""


class ScoredCandidates:
    """The candidates of each query in the order of the sampler: by score and docno.

    Args:
        scores: the run R from which rankings were sampled.
        where: the caller, for errors.

    Attributes:
        run: the encoded run.
        start: the first sorted row of each query, and the number of rows at the end.
        score: the score of each sorted row.
    """

    def __init__(self, scores: pd.DataFrame, where: str) -> None:
        scores = as_frame(scores, SCORE, where)
        require_columns(scores, [QID, DOCNO, SCORE], where)
        if SAMPLE in scores.columns:
            raise ColumnError(
                f"{where}: expected one ranking per query, got sampled rankings (column "
                f"{SAMPLE!r}); pass the run of the retriever"
            )
        self.run = run = Run(scores, where)
        self.start = run.ranking_start
        self.score = as_numbers(scores[SCORE])[run.order]
        self._order = order_by(
            (-self.score, run.ranking), lambda rows: (run.doc[rows], run.docnos), False
        )
        self.score = self.score[self._order]

    @cached_property
    def _ranks(self) -> tuple[pd.Index, IntArray]:
        run = self.run
        within = np.empty(len(self._order), dtype=np.int64)
        within[self._order] = np.arange(len(self._order)) - self.start[run.ranking]
        return pd.Index(run.query * max(1, run.docnos.size) + run.doc), within

    def ranks(self, ranked: Run, doc: IntArray, rows: IntArray, where: str) -> IntArray:
        """Return the ranks, from 0, of the documents in rows of another run.

        Args:
            ranked: the other run.
            doc: the index in this run of each distinct document of the other run, or -1.
            rows: the rows.
            where: the caller, for errors.

        Raises:
            InputError: a document is not a candidate of its query.
        """
        query = query_indices(self.run, ranked)[ranked.query[rows]]
        doc = doc[ranked.doc[rows]]
        candidate_keys, within = self._ranks
        positions = candidate_keys.get_indexer(
            np.where(doc < 0, -1, query * max(1, self.run.docnos.size) + doc)
        )
        unknown = np.flatnonzero((positions < 0) | (query < 0))
        if len(unknown):
            row = int(rows[unknown[0]])
            raise InputError(
                f"{where}: docno {ranked.docno(row)!r} of qid "
                f"{str(ranked.qids[ranked.query[row]])!r} is missing from `scores` "
                f"({such(len(unknown))}); pass the run from which the rankings were sampled"
            )
        return np.asarray(within[positions])

    def log_weights(self, query: int, alphas: Sequence[float] | FloatArray) -> FloatArray:
        """Return a query's log-weights minus the largest, shape (n, n_alphas)."""
        rows = slice(self.start[query], self.start[query + 1])
        return log_weights(self.score[rows], np.asarray(alphas, dtype=np.float64))

    def draw(self, alpha: float, n_samples: int, cutoff: int, last: int) -> list[IntArray]:
        """Return draws of `FairSampler` for the queries 0 to last - 1, as ranks of candidates.

        Each query has an array of shape (n_samples, depth).
        """
        start = self.start[: last + 1]
        keys = self.run.qids[self.run.ranking_query[:last]].tolist()
        gaps = score_gaps(self.score[: start[-1]], start, alpha)
        draws = draw_rankings(gaps, start, keys, n_samples, cutoff, 0, "independent")
        depth = np.minimum(np.diff(start), cutoff)
        parts = np.split(draws.row, np.cumsum(depth * n_samples)[:-1])
        return [
            part.reshape(n_samples, k) - first
            for part, k, first in zip(parts, depth.tolist(), start[:-1], strict=True)
        ]


def query_indices(run: Run, other: Run) -> IntArray:
    """Return the index in a run of each query of another run, -1 if missing."""
    return run.qids.find(other.qids)


@dataclass(frozen=True)
class Generated:
    """The answers generated under one policy, as arrays over its rankings, sorted by query.

    Attributes:
        sample: the sample number of each ranking.
        value: the utility of the answer of each ranking.
        top: the first documents of each ranking, one array of shape (n, depth) per query.
        start: the first ranking of each query, and the number of rankings at the end.
    """

    sample: IntArray
    value: FloatArray
    top: list[IntArray]
    start: IntArray


def read_generated(
    frames: Mapping[str, pd.DataFrame],
    candidates: ScoredCandidates,
    qrels: Qrels,
    measure: ExpectedUtility,
    cutoff: int,
) -> list[Generated]:
    """Check and return the answers in frames, which are named for errors.

    Raises:
        ColumnError: a frame has no answers, or no documents.
        InputError: a ranking has too few documents or one that is not a candidate; a ranking has
            several answers; a gold answer is missing.
    """
    sources = []
    for where, frame in frames.items():
        require_columns(frame, [QID, DOCNO, QANSWER], where)
        sources.append(LabeledRun.of(qrels, frame, where))
    docs = candidates.run.docnos.find_each([judged.run.docnos for judged in sources])
    return [
        _generated(judged, doc, candidates, measure, cutoff)
        for judged, doc in zip(sources, docs, strict=True)
    ]


def _generated(
    judged: LabeledRun,
    doc: IntArray,
    candidates: ScoredCandidates,
    measure: ExpectedUtility,
    cutoff: int,
) -> Generated:
    ranked, where = judged.run, judged.where
    _, value = measure.score_answers(judged)
    query = query_indices(candidates.run, ranked)[ranked.ranking_query]
    sizes = np.diff(candidates.start)
    length = np.diff(ranked.ranking_start)
    rows = np.flatnonzero(ranked.position < cutoff)
    rank = candidates.ranks(ranked, doc, rows, where)
    depth = np.minimum(sizes[query], cutoff)
    short = np.flatnonzero(length < depth)
    if len(short):
        i = int(short[0])
        raise InputError(
            f"{where}: expected {depth[i]} documents (cutoff={cutoff}) in the ranking of qid "
            f"{str(ranked.qids[ranked.ranking_query[i]])!r}, sample {ranked.ranking_sample[i]}, "
            f"got {length[i]} ({such(len(short), 'ranking')}); `cutoff` must be the number of "
            "documents that the generator read"
        )
    first = np.append(0, np.cumsum(depth))[:-1]
    order = np.argsort(query, kind="stable")
    start = np.searchsorted(query[order], np.arange(len(sizes) + 1))
    top = []
    for number, (a, b) in enumerate(zip(start[:-1].tolist(), start[1:].tolist(), strict=True)):
        width = min(int(sizes[number]), cutoff)
        top.append(rank[first[order[a:b]][:, None] + np.arange(width)])
    return Generated(ranked.ranking_sample[order], value[order], top, start)


def refuse_other_policy(
    rankings: Generated, candidates: ScoredCandidates, alpha: float, cutoff: int, where: str
) -> None:
    """Raise if the rankings differ significantly in likelihood from draws of the policy.

    The test compares mean log-probabilities over queries with those of `DRAWN` new draws.

    Raises:
        InputError: the rankings differ.
    """
    queries = np.flatnonzero([len(top) > 0 for top in rankings.top])[:QUERIES].tolist()
    if not queries:
        return
    drawn = candidates.draw(alpha, DRAWN, cutoff, queries[-1] + 1)
    away = variance = 0.0
    for query in queries:
        given = rankings.top[query][:DRAWN]
        both = np.concatenate([given, drawn[query]])
        weights = candidates.log_weights(query, [alpha])
        log_probability = log_step_probabilities(weights, both).sum(axis=0)[:, 0]
        parts = log_probability[: len(given)], log_probability[len(given) :]
        squares = sum(float(((part - part.mean()) ** 2).sum()) for part in parts)
        away += float(parts[0].mean() - parts[1].mean())
        variance += squares / (len(both) - 2) * (1 / len(given) + 1 / DRAWN)
    if abs(away) > FAR * np.sqrt(variance) + 1e-9:
        kind = "more" if away > 0 else "less"
        raise InputError(
            f"{where}: expected draws of FairSampler(alpha={alpha}) from these scores, got "
            f"{kind} likely rankings ({abs(away) / np.sqrt(variance):.0f} standard errors), "
            "probably of another alpha or run"
        )


ESTIMATORS = ("self-normalized", "plain")


@dataclass(frozen=True)
class WeightedMeans:
    """Means under several policies, as arrays of shape (n_policies,).

    Attributes:
        value: the estimated means.
        error: the standard errors.
        effective: the effective sample sizes.
    """

    value: FloatArray
    error: FloatArray
    effective: FloatArray


def balanced_means(
    log_target: FloatArray,
    log_source: FloatArray,
    source: IntArray,
    sample: IntArray,
    values: FloatArray,
    estimator: str,
    bounds: tuple[float, float] = (np.nan, np.nan),
) -> WeightedMeans:
    """Return the means of values under each target policy.

    The weight of a ranking is its probability under the target divided by that under the mixture
    of all sources, in proportion to their numbers of rankings (the balance heuristic).

    The standard error treats rankings with the same sample number as one draw, because policies
    with the same seed give correlated rankings. For the self-normalized mean it is the first-order
    error of a ratio, with one effective draw added at each end of the range of values (Agresti and
    Coull 1998), so that it is not 0 if all values are equal. For the plain mean, the difference
    from the self-normalized mean is added (root of the sum of squares), because the variance of
    weighted values is too small if rankings with large weights were not drawn.

    The effective sample size is Kish's, multiplied by the square of the mean weight if that is
    below its expectation, 1: the missing weight is that of rankings that no source has drawn.

    Args:
        log_target: log-probability of each ranking under each target, (n_targets, n_rankings).
        log_source: log-probability of each ranking under each source, (n_sources, n_rankings).
        source: the index of the source of each ranking, shape (n_rankings,).
        sample: the sample number of each ranking, shape (n_rankings,).
        values: the value of each ranking, shape (n_rankings,).
        estimator: one of `ESTIMATORS`.
        bounds: the smallest and the largest possible value; no draws are added unless both are
            finite.
    """
    n_rankings = len(source)
    count = np.bincount(source, minlength=len(log_source))
    with np.errstate(divide="ignore"):  # a source without rankings has no share
        share = log_source + np.log(count / n_rankings)[:, None]
    weight = log_target - np.logaddexp.reduce(share, axis=0)
    np.exp(weight, out=weight)
    total = weight.sum(axis=1)
    square = np.einsum("ij,ij->i", weight, weight)
    with np.errstate(divide="ignore", invalid="ignore"):  # 0 / 0 if all weights are 0
        value = weight @ values / total
        away = values - value[:, None]
        away *= weight
        error = np.sqrt(_variance(away, source, sample, count)) / total
        kish = np.where(square > 0, total**2 / square, 0.0)
        effective = kish * np.minimum(1.0, total / n_rankings) ** 2
        if np.isfinite(bounds).all():
            error = _with_ends(value, error, effective, bounds)
        if estimator == "plain":
            plain = weight @ values / n_rankings
            value, error = plain, np.hypot(error, plain - value)
    return WeightedMeans(value, error, effective)


def _with_ends(
    value: FloatArray, error: FloatArray, effective: FloatArray, bounds: tuple[float, float]
) -> FloatArray:
    """Return standard errors with one effective draw added at each end of the range."""
    low, high = bounds
    mean = (effective * value + low + high) / (effective + 2)
    spread = (low - mean) ** 2 + (high - mean) ** 2 + effective * (value - mean) ** 2
    variance = (effective**2 * error**2 + spread) / (effective + 2)
    return np.asarray(np.minimum(np.sqrt(variance / effective), high - low), dtype=np.float64)


def _variance(away: FloatArray, source: IntArray, sample: IntArray, count: IntArray) -> FloatArray:
    """Return the variance of sums of terms; terms with the same sample number are one draw."""
    if (sample[1:] < sample[:-1]).any():
        order = np.argsort(sample, kind="stable")
        away, source, sample = away[:, order], source[order], sample[order]
    start = np.flatnonzero(np.diff(sample, prepend=-1))
    if len(start) < 2:
        return np.full(len(away), np.nan)
    member = (source == np.arange(len(count))[:, None]).astype(np.float64)
    mean = away @ member.T / np.maximum(count, 1)
    draws = np.add.reduceat(away, start, axis=1)
    draws -= mean @ np.add.reduceat(member, start, axis=1)
    return np.asarray((draws**2).sum(axis=1) * len(start) / (len(start) - 1))


WHERE = "off_policy_utility"
LEAST_EFFECTIVE = 30


@dataclass(frozen=True)
class OffPolicyUtility:
    """The result of `off_policy_utility`.

    Attributes:
        per_query: ``qid``, ``alpha``, ``value``, ``error`` (standard error), ``effective``
            (effective sample size).
        means: by ``alpha``, over the queries: ``value``; ``error``, the standard error over
            samples; ``error_queries``, the standard error over queries and samples;
            ``effective``, the mean effective sample size; ``n``, the number of queries; ``low``,
            the number of queries below `least_effective`.
        estimator: the estimator.
        least_effective: the effective sample size below which an estimate is unreliable.
    """

    per_query: pd.DataFrame
    means: pd.DataFrame
    estimator: str
    least_effective: float

    def __repr__(self) -> str:
        return "\n".join([f"{WHERE} ({self.estimator}):", *frame_lines(self.means)])

    def _repr_html_(self) -> str:
        return frame_html(self.means, f"{WHERE} ({self.estimator})")


def off_policy_utility(
    qrels: pd.DataFrame,
    answers: Mapping[float, pd.DataFrame],
    scores: pd.DataFrame,
    alphas: Iterable[float],
    utility: Any,
    cutoff: int = 5,
    estimator: str = "self-normalized",
    *,
    least_effective: float = LEAST_EFFECTIVE,
) -> OffPolicyUtility:
    """Estimate EU at any alpha of `FairSampler` from answers generated at some alphas.

    The estimate is multiple importance sampling with the balance heuristic. ``"plain"`` is
    unbiased; ``"self-normalized"`` has a bias of the order of 1 / effective sample size and usually
    a smaller error.

    Args:
        qrels: ``qid`` and ``gold_answer`` (`fairtk.join_answers`). A query without answers gets
            the worst value.
        answers: rankings S with ``qanswer``, by the alpha of their sampler.
        scores: the run R from which the rankings were sampled.
        alphas: the exponents to estimate EU for.
        utility: as in ``EU(utility=...)``, or an EU measure.
        cutoff: the number of documents that the generator read.
        estimator: ``"self-normalized"`` or ``"plain"``.
        least_effective: a smaller effective sample size of a query causes a warning.

    Raises:
        InputError: the rankings cannot be drawn, or differ significantly in likelihood from draws
            with their alpha, so they are from another alpha or run; or an input is missing.
    """
    checks.known("estimator", estimator, ESTIMATORS)
    cutoff = checks.integer("cutoff", cutoff, WHERE)
    checks.number("least_effective", least_effective, WHERE)
    if not isinstance(answers, Mapping) or not answers:
        raise ParameterError(
            f"{WHERE}: `answers` must be a dict from alpha to frame, e.g. {{2: answers}}, "
            f"got {short(answers)}"
        )
    sources = {checks.exponent(alpha, WHERE): frame_of(frame) for alpha, frame in answers.items()}
    exponents = _exponents(alphas)
    measure = utility if isinstance(utility, ExpectedUtility) else EU(utility=utility)
    labels = Qrels(qrels, WHERE, [GOLD_ANSWER])
    candidates = ScoredCandidates(scores, f"{WHERE} (scores)")
    named = {f"{WHERE} (answers[{alpha}])": frame for alpha, frame in sources.items()}
    generations = read_generated(named, candidates, labels, measure, cutoff)
    each = list(zip(named, sources, generations, strict=True))
    table = _estimates(generations, candidates, list(sources), exponents, estimator, measure.bounds)
    for where, alpha, rankings in each:
        refuse_other_policy(rankings, candidates, alpha, cutoff, where)
    per_query = _per_query(table, candidates, labels, exponents, measure.worst)
    means = _means(per_query, exponents, least_effective)
    _warn(per_query, least_effective)
    unread = int(sum(np.isnan(estimate[0]).all() for estimate in table.values()))
    if unread:
        warnings.warn(
            f"{WHERE}: EU is undefined (NaN) for {unread} of {len(labels.qids)} queries: "
            f"{UNREAD_PROMPT}. Means exclude these queries",
            UndefinedWarning,
            stacklevel=2,
        )
    return OffPolicyUtility(per_query, means, estimator, least_effective)


def _exponents(alphas: Any) -> list[float]:
    listed = checks.listed("alphas", alphas, WHERE)
    exponents = list(dict.fromkeys(checks.exponent(alpha, WHERE) for alpha in listed))
    if not exponents:
        raise ParameterError(f"{WHERE}: `alphas` must not be empty")
    return exponents


def _estimates(
    generations: list[Generated],
    candidates: ScoredCandidates,
    sources: list[float],
    exponents: list[float],
    estimator: str,
    bounds: tuple[float, float],
) -> dict[int, FloatArray]:
    """Return value, error and effective size at each alpha, by query with answers."""
    alphas, estimates = np.array([*sources, *exponents]), {}
    for query in range(len(candidates.start) - 1):
        parts = [slice(g.start[query], g.start[query + 1]) for g in generations]
        sample = np.concatenate([g.sample[s] for g, s in zip(generations, parts, strict=True)])
        if len(sample) == 0:
            continue
        order = np.argsort(sample, kind="stable")
        sample = sample[order]
        source = np.repeat(np.arange(len(generations)), [s.stop - s.start for s in parts])[order]
        value = np.concatenate([g.value[s] for g, s in zip(generations, parts, strict=True)])[order]
        top = np.concatenate([g.top[query] for g in generations])[order]
        steps = log_step_probabilities(candidates.log_weights(query, alphas), top)
        _refuse_impossible(steps, source, sample, sources, str(candidates.run.qids[query]))
        log_probability = np.ascontiguousarray(steps.sum(axis=0).T)
        log_target = log_probability[len(sources) :]
        log_source = log_probability[: len(sources)]
        estimate = balanced_means(log_target, log_source, source, sample, value, estimator, bounds)
        estimates[query] = np.stack([estimate.value, estimate.error, estimate.effective])
    return estimates


def _refuse_impossible(
    steps: FloatArray, source: IntArray, sample: IntArray, sources: list[float], qid: str
) -> None:
    """Raise if the policy of a ranking cannot draw it."""
    least = steps[:, np.arange(len(source)), source].min(axis=0)
    never = np.flatnonzero(least <= -SURE)
    if len(never):
        alpha = sources[source[never[0]]]
        raise InputError(
            f"{WHERE} (answers[{alpha}]): expected rankings of alpha {alpha}, got an impossible "
            f"one for qid {qid!r}, sample {sample[never[0]]} ({such(len(never), 'ranking')}), "
            "probably of another alpha or run"
        )


def _per_query(
    table: dict[int, FloatArray],
    candidates: ScoredCandidates,
    labels: Qrels,
    exponents: list[float],
    worst: float,
) -> pd.DataFrame:
    """Return one row per query of the labels and alpha."""
    index = {str(qid): number for number, qid in enumerate(candidates.run.qids)}
    query_numbers = [index.get(str(qid), -1) for qid in labels.qids]
    missing = [
        str(q) for q, number in zip(labels.qids, query_numbers, strict=True) if number not in table
    ]
    if missing:
        warnings.warn(
            f"{WHERE}: {len(missing)} of {len(labels.qids)} queries of the qrels have no answer "
            f"({format_list(missing)}); they get the worst value",
            MissingWarning,
            stacklevel=3,
        )
    nothing = np.repeat([[worst], [0.0], [0.0]], len(exponents), axis=1)
    parts = [table.get(number, nothing) for number in query_numbers]
    value, error, effective = np.concatenate(parts, axis=1) if parts else np.empty((3, 0))
    return pd.DataFrame(
        {
            QID: np.repeat(labels.qids, len(exponents)),
            "alpha": np.tile(np.asarray(exponents, dtype=np.float64), len(labels.qids)),
            "value": value,
            "error": error,
            "effective": effective,
        }
    )


def _means(per_query: pd.DataFrame, exponents: list[float], least: float) -> pd.DataFrame:
    rows = []
    for alpha in exponents:
        part = per_query[per_query["alpha"] == alpha]
        value = part["value"].dropna()
        n = len(value)
        error = float(np.sqrt((part["error"].loc[value.index] ** 2).sum())) / n if n else np.nan
        spread = float(value.std(ddof=1)) / np.sqrt(n) if n > 1 else np.nan
        low = int((part["effective"] < least).sum())
        rows.append([alpha, value.mean(), error, spread, part["effective"].mean(), n, low])
    columns = ["alpha", "value", "error", "error_queries", "effective", "n", "low"]
    return pd.DataFrame(rows, columns=columns)


def _warn(per_query: pd.DataFrame, least: float) -> None:
    low = per_query[per_query["effective"] < least]
    if len(low):
        counts = low.groupby("alpha").size()
        listing = ", ".join(f"{n} at alpha {alpha:g}" for alpha, n in counts.head(5).items())
        more = f" and at {len(counts) - 5} other alphas" if len(counts) > 5 else ""
        warnings.warn(
            f"{WHERE}: estimates are unreliable for queries with an effective sample size below "
            f"{least:g} ({listing}{more}); generate answers with a closer alpha",
            DataWarning,
            stacklevel=3,
        )
