"""Position effects in readers: browsing models fitted to credit, and audits of document order."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyterrier as pt

from fairtk import checks
from fairtk.credit.frame import Credit
from fairtk.display import despine, new_figure, write_figure
from fairtk.display.tables import frame_html, frames_text
from fairtk.errors import DataWarning, InputError, ParameterError, warn
from fairtk.exposure import DCG, Fitted, expected_attention
from fairtk.frames import (
    DOCNO,
    LABEL,
    QANSWER,
    QID,
    RANK,
    BoolArray,
    FloatArray,
    IntArray,
    Qrels,
    Run,
    require_columns,
)
from fairtk.frames.accepted import frame_of
from fairtk.frames.answers import hashable
from fairtk.groups import Groups, Target
from fairtk.measures import AWRF, EU, FairMeasure, LabeledRun
from fairtk.measures.expectation import values_of_samples
from fairtk.statistics.bootstrap import bootstrap_counts
from fairtk.statistics.intervals import (
    EQUAL_VALUES,
    TOO_FEW,
    mean_intervals,
    no_interval,
    percentile_interval,
)
from fairtk.transformers import FairSampler, OracleSampler, PerSample
from fairtk.wording import short, such

STEEP = 2
"""An alpha above which documents rarely change positions."""
_NEVER = 1e-9  # larger than the error of exact placement probabilities
_EQUAL = 1e-12  # smaller errors and changes are 0 up to rounding


@dataclass(frozen=True, repr=False, eq=False)
class FittedBrowsing(Fitted):
    """The browsing model of a reader, fitted to credit.

    Attributes:
        table: a row per rank: ``rank`` (from 0), ``weight`` (as estimated; the model counts a
            weight below 0 as 0), ``standard_error``, ``low`` and ``high`` (95 %, Student's t),
            ``documents``, the number of (query, document) pairs in the estimate, and ``note``, the
            reason if there is no interval. The weight of the first rank is 1 by definition.
        tests: a row per ``hypothesis``: ``statistic`` (F), its ``df1`` and ``df2``, and ``p``; NaN
            if there are too few queries, or no variance.
        counts: the numbers of ``queries``, ``rankings``, ``undefined`` rankings (without defined
            credit, left out), ``pairs`` of a document and a rank, and ``unlikely`` pairs (left
            out).
    """

    identity_name = "fairtk.FittedBrowsing"
    output_version = 1
    table: pd.DataFrame = field(default_factory=pd.DataFrame)
    tests: pd.DataFrame = field(default_factory=pd.DataFrame)
    counts: Mapping[str, int] = field(default_factory=dict)

    def __repr__(self) -> str:
        return repr(Fitted(self.weight))

    def plot(self, path: str | PathLike[str] | None = None) -> Any:
        """Draw the weights with their intervals, MU and DCG, and return the figure.

        Args:
            path: an .svg, .pdf or .png file to write; `None` to write no file.
        """
        figure = new_figure((4.8, 3.4), "browsing")
        axes = figure.subplots()
        table = self.table
        rank = table["rank"].to_numpy() + 1
        axes.plot(rank, np.ones(len(rank)), color="0.65", linestyle="--", label="MU")
        axes.plot(rank, math.log2(2) / np.log2(rank + 1), color="0.65", linestyle=":", label="DCG")
        error = [table["weight"] - table["low"], table["high"] - table["weight"]]
        axes.errorbar(
            rank, table["weight"], np.nan_to_num(error), marker="o", capsize=3, label="this reader"
        )
        axes.set(xlabel="position in the prompt", ylabel="weight (1 at the first)", xticks=rank)
        axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
        axes.legend(frameon=False)
        despine(axes)
        if path is not None:
            write_figure(figure, Path(path))
        return figure


FittedBrowsing.__hash__ = Fitted.__hash__  # type: ignore[method-assign]


def fit_browsing(
    credit: pd.DataFrame,
    candidates: pd.DataFrame,
    sampler: FairSampler | OracleSampler,
    least: float = 0.001,
) -> FittedBrowsing:
    """Fit the browsing model of a reader to the credit of documents in sampled rankings.

    The credit of document d at rank i is modeled as a_{d,i} = w_i r_d, as in position-based click
    models. The sampler's policy assigns rank i to d with probability p_{d,i}, which is computed
    exactly, so sums of a / p over the same documents differ between ranks only by w_i. The estimate
    of w_i is the ratio of such sums at rank i and at the first rank. Each document is weighted by
    p_{d,1} p_{d,i} / (p_{d,1} + p_{d,i}) (overlap weights), so that rare positions do not dominate.
    Standard errors are those of a ratio over queries.

    Args:
        credit: the frame C with ``rank`` or ``score``, of rankings that `sampler` drew.
        candidates: the run R of the sampler.
        sampler: the policy, e.g. ``FairSampler(alpha=1)``; flatter policies are more informative.
        least: the minimum probability of a pair of document and rank; other pairs are left out and
            counted.

    Returns:
        The model with weight 1 at the first rank, e.g. for ``EE_D(browsing=...)``.

    Raises:
        InputError: a document with credit is not a candidate or cannot be at its rank, or a rank
            has no credit to compare.
        ParameterError: a setting is out of its range.

    References:
        Joachims et al. 2017 (position-based models); Li, Morgan and Zaslavsky 2018 (overlap
        weights).
    """
    where = "fit_browsing"
    least = checks.number("least", least, where, 0, 1, "()")
    if not callable(getattr(sampler, "policy", None)):
        raise ParameterError(
            f"{where}: sampler must be a FairSampler or an OracleSampler, got "
            f"{type(sampler).__name__}"
        )
    given = Credit(Run(credit, f"{where} (credit)"))
    position, n = given.positions, len(given.ranking_query)
    ranks = int(position.max(initial=-1)) + 1
    if ranks < 2:
        raise InputError(f"{where}: expected credit at two or more ranks, got {ranks}")
    require_columns(frame_of(candidates), [QID, DOCNO], f"{where} (candidates)")
    run, order, gaps = sampler.policy(candidates)
    _warn_of_alpha(sampler, candidates)
    sorted_row = np.empty(len(order), dtype=np.int64)  # of each row of the candidates
    sorted_row[order] = np.arange(len(order))
    row = _rows_of(given.run, run, sorted_row)
    units = [np.append(np.zeros(rank), 1.0) for rank in range(ranks)]
    likely = np.stack([expected_attention(gaps, run.ranking_start, unit) for unit in units], axis=1)
    cutoff = getattr(sampler, "cutoff", None)
    below = position >= (ranks if cutoff is None else cutoff)
    never = np.flatnonzero((likely[row, position] < _NEVER) | below)
    if len(never):
        at = int(never[0])
        frame = given.run.frame.iloc[at]
        raise InputError(
            f"{where}: expected ranks that {type(sampler).__name__} can draw, got docno "
            f"{str(frame[DOCNO])!r} of qid {str(frame[QID])!r} at rank {position[at]} "
            f"({such(len(never))}); use the sampler that drew these rankings, and its "
            "candidates"
        )
    undefined = np.isnan(np.bincount(given.ranking, weights=given.credit, minlength=n))
    query = run.ranking[row]  # the candidates have one ranking per query
    n_queries = len(run.ranking_query)
    first = np.zeros(n, dtype=np.int64)
    first[given.ranking] = query
    if undefined.all():
        raise InputError(f"{where}: credit is undefined for all {n} rankings")
    times = np.bincount(first[~undefined], minlength=n_queries)
    use = ~undefined[given.ranking]
    mean = np.bincount(
        row[use] * ranks + position[use],
        weights=given.credit[use] / times[query[use]],
        minlength=len(order) * ranks,
    ).reshape(-1, ranks)
    compared = (likely >= least) & (likely[:, [0]] >= least) & (times[run.ranking] > 0)[:, None]
    total = np.where(compared, likely + likely[:, [0]], 1.0)
    here = _sums(run, np.where(compared, mean * likely[:, [0]] / total, 0.0))
    top = _sums(run, np.where(compared, mean[:, [0]] * likely / total, 0.0))
    exist = (np.diff(run.ranking_start)[run.ranking, None] > np.arange(ranks)) & (
        times[run.ranking] > 0
    )[:, None]
    counts = {
        "queries": int((times > 0).sum()),
        "rankings": n,
        "undefined": int(undefined.sum()),
        "pairs": int(exist.sum()),
        "unlikely": int((exist & (likely < least)).sum()),
    }
    return _fitted(here[times > 0], top[times > 0], compared.sum(axis=0), counts, where)


def _fitted(
    here: FloatArray, top: FloatArray, documents: IntArray, counts: dict[str, int], where: str
) -> FittedBrowsing:
    """Return the model from the sums at each rank and at the first; shape (n_queries, n_ranks)."""
    from scipy.stats import t

    total, n = top.sum(axis=0), len(here)
    empty = np.flatnonzero((documents == 0) | ~(total > 0))
    if len(empty):
        rank = int(empty[0])
        why = "no document is drawn often enough at this rank and at rank 0; use a smaller alpha"
        if documents[rank]:
            why = (
                f"its {documents[rank]} documents have no credit at rank 0, the unit of all "
                f"weights: it must have a sum above 0, got {total[rank]:.3g} for {n} queries; use "
                "more rankings per query, more queries, or Shapley values (Subsets('all') or "
                "Subsets('sampled')) instead of leave-one-out"
            )
        raise InputError(f"{where}: missing weight of rank {rank}: {why}")
    weight = here.sum(axis=0) / total
    rest = (here - weight * top) / total
    spread = rest.T @ rest * (n / (n - 1) if n > 1 else math.nan)
    error = np.sqrt(np.diag(spread))
    half = t.ppf(0.975, max(n - 1, 1)) * error
    equal = error <= _EQUAL * np.abs(weight)  # also at the first rank
    half[equal] = np.nan
    notes = np.where(equal, EQUAL_VALUES, TOO_FEW if n < 2 else "")
    notes[0] = "1 by definition"
    if (below := int((weight < 0).sum())) > 0:
        warn(f"{where}: the weights of {below} ranks are negative and count as 0", DataWarning)
    table = pd.DataFrame(
        {
            RANK: np.arange(len(weight)),
            "weight": weight,
            "standard_error": error,
            "low": weight - half,
            "high": weight + half,
            "documents": documents,
            "note": notes,
        }
    )
    discount = DCG().weights(np.arange(len(weight), dtype=np.int64))
    tests = [
        ("MU: all ranks weigh alike", *_test((here - top)[:, 1:])),
        ("DCG: weights are its discounts", *_test((here - discount * top)[:, 1:])),
    ]
    if len(weight) > 2:  # the difference between the two ends and the middle
        contrast = np.full(len(weight), -1 / (len(weight) - 2))
        contrast[[0, -1]] = 0.5
        linear = rest @ contrast + weight @ contrast / n  # `rest` has the variance of the weights
        tests.append(("the middle weighs as much as the ends", *_test(linear[:, None])))
    columns = ["hypothesis", "statistic", "df1", "df2", "p"]
    weights, errors = np.maximum(weight, 0.0).tolist(), error.tolist()
    frame = pd.DataFrame(tests, columns=columns)
    return FittedBrowsing(tuple(weights), tuple(errors), table, frame, counts)


def _warn_of_alpha(sampler: FairSampler | OracleSampler, candidates: pd.DataFrame) -> None:
    if not isinstance(sampler, FairSampler):
        return
    alpha = np.array(sampler.calibrated(candidates)["alpha"], dtype=np.float64)
    steep = int((alpha > STEEP).sum())
    if steep:
        warn(
            f"fit_browsing: alpha is above {STEEP} for {steep} of {len(alpha)} queries (up to "
            f"{alpha.max():g}), so weights depend on the few documents that change positions; use "
            "a smaller alpha",
            DataWarning,
        )


def _rows_of(credit: Run, candidates: Run, sorted_row: IntArray) -> IntArray:
    """Return the sorted row of the candidates of each row of credit."""
    width = max(1, candidates.docnos.size)
    query = candidates.qids.find(credit.qids)[credit.frame_query]
    doc = candidates.docnos.find(credit.docnos)[credit.frame_doc]
    keys = candidates.frame_query * width + candidates.frame_doc
    row = pd.Index(keys).get_indexer(
        pd.Index(np.where((query < 0) | (doc < 0), -1, query * width + doc))
    )
    missing = np.flatnonzero(row < 0)
    if len(missing):
        frame = credit.frame.iloc[int(missing[0])]
        raise InputError(
            f"{credit.where}: docno {str(frame[DOCNO])!r} of qid {str(frame[QID])!r} is missing "
            f"from the candidates ({such(len(missing))}); pass the run from which the rankings "
            "were sampled"
        )
    return np.asarray(sorted_row[row], dtype=np.int64)


def _sums(run: Run, value: FloatArray) -> FloatArray:
    """Return the sums over the rows of each query; shape (n_queries, n_ranks)."""
    return np.asarray(np.add.reduceat(value, run.ranking_start[:-1], axis=0))


def _test(rest: FloatArray) -> tuple[float, float, float, float]:
    """Return Hotelling's test that rows of shape (n, p) have mean 0: F, its degrees, and p."""
    from scipy.stats import f

    n, p = rest.shape
    undefined = (math.nan, float(p), float(n - p), math.nan)
    if n <= p or not rest.any():
        return undefined
    mean, spread = rest.mean(axis=0), np.atleast_2d(np.cov(rest, rowvar=False))
    if np.linalg.matrix_rank(spread) < p:
        return undefined
    square = n * float(mean @ np.linalg.solve(spread, mean))
    statistic = square * (n - p) / (p * (n - 1))
    return statistic, float(p), float(n - p), float(f.sf(statistic, p, n - p))


@dataclass(frozen=True)
class OrderAudit:
    """The effects of document order on a reader or a reranker.

    Attributes:
        table: a row for each ``name``: ``value``, ``low``, ``high`` (Student's t; a bootstrap over
            queries for ``utility share``), ``queries``, and ``note``, the reason if there is no
            interval. With a `measure`, ``utility share`` is the share of the utility's variance
            between orders of the same documents, in [0, 1]. For a reader, ``equal answers`` is the
            share of pairs of orders with the same answer. For a reranker, ``kendall tau`` compares
            the outputs for two orders, in [-1, 1], 1 if order has no effect; with a `target`,
            ``AWRF in``, ``AWRF out`` and ``AWRF out - in`` are AWRF before and after, and its
            change, above 0 if exposure gets closer to the target.
        preferences: for a reranker with `groups`, a row per pair of groups: ``group``, ``other``,
            ``value`` (the share of document pairs with equal labels in which the document of
            ``group`` is ranked first; 0.5 is no preference), ``low``, ``high``, ``queries`` and
            ``note``.
        settings: the settings.
    """

    table: pd.DataFrame
    preferences: pd.DataFrame
    settings: Mapping[str, Any]

    def __repr__(self) -> str:
        return frames_text(self.table, self.preferences)

    def _repr_html_(self) -> str:
        return frame_html(self.table, "Order") + frame_html(self.preferences, "Preferences")


def order_audit(
    transformer: pt.Transformer,
    run: pd.DataFrame,
    n: int = 20,
    *,
    qrels: pd.DataFrame | None = None,
    measure: Any = None,
    groups: Groups | pd.DataFrame | None = None,
    target: Target | None = None,
    cutoff: int | None = None,
    resamples: int = 1000,
    confidence: float = 0.95,
    seed: int = 42,
) -> OrderAudit:
    """Measure the effects of document order on the output of a reader or a reranker.

    The documents of each query are shuffled uniformly n times (``FairSampler(alpha=0)``), and the
    transformer gets each order. The audit does not say whether the order in use is good.

    Args:
        transformer: R -> R or answers: a reranker, or a reader; wrapped in `fairtk.PerSample`.
        run: the run R with the input columns of the transformer (``query``, ``text``).
        n: the number of orders per query, at least 2.
        qrels: labels, with ``gold_answer`` for ``EU``; required for `measure`. Preferences compare
            documents with equal labels; without qrels, all documents.
        measure: ``EU(utility=...)`` for a reader, or a measure of one ranking such as ``nDCG@10``
            for a reranker.
        groups: groups of documents, for preferences, and for AWRF if there is a target.
        target: the target over the groups.
        cutoff: ranks that AWRF reads; `None` for all.
        resamples: bootstrap samples of the queries, at least 2, for ``utility share``.
        confidence: confidence level of the intervals, in (0, 1).
        seed: the seed of orders and bootstrap.

    Raises:
        ParameterError: a setting is out of its range, or requires another.
        InputError: the transformer drops queries or adds documents.
    """
    where = "order_audit"
    n = checks.integer("n", n, where, 2)
    checks.cutoff(cutoff, where)
    resamples = checks.integer("resamples", resamples, where, 2)
    confidence = checks.open_interval("confidence", confidence, where)
    if measure is not None and qrels is None:
        raise ParameterError(f"{where}: qrels are required for measure={short(measure)}")
    if target is not None and groups is None:
        raise ParameterError(f"{where}: groups are required for target")
    groups = None if groups is None else Groups.of(groups)
    require_columns(frame_of(run), [QID, DOCNO], f"{where} (run)")
    orders = FairSampler(alpha=0, n_samples=n, seed=seed)(run)
    out = PerSample(transformer)(orders)
    before, after = Run(orders, f"{where} (run)"), Run(out, f"{where} (output)").checked()
    index = before.qids.find(after.qids)
    if len(index) != len(before.qids) or (index < 0).any():
        qid = next(q for q in before.qids if q not in set(after.qids))
        raise InputError(
            f"{where}: {type(transformer).__name__} returned no rows for qid {str(qid)!r}"
        )
    labels = Qrels(qrels, f"{where} (qrels)", (QID,), either=True) if qrels is not None else None
    rows: list[Any] = []
    preferences: list[Any] = []

    def add(
        to: list[Any],
        name: tuple[str, ...],
        value: FloatArray,
        bounds: tuple[float, float] = (0.0, 1.0),
    ) -> None:
        """Add the mean of a value over the queries."""
        (low,), (high,) = mean_intervals(value[None], confidence=confidence, bounds=bounds)
        defined = value[~np.isnan(value)]
        mean = float(defined.mean()) if len(defined) else math.nan
        to.append((*name, mean, low, high, len(defined), no_interval(value)))

    if measure is not None and labels is not None:
        query, value = _per_ranking(measure, labels, out, where)
        variance, center, defined = _spread(query, value, len(labels.qids))
        index = labels.qids.find(after.qids)
        weight = bootstrap_counts(len(index), resamples, seed)
        share = _share(weight, variance[index], center[index], defined[index], n)
        low, high, note = percentile_interval(share[0], share[1:], confidence)
        rows.append(("utility share", share[0], low, high, int(defined[index].sum()), note))
    if QANSWER in out.columns:
        value = _equal_answers(after, out)
        add(rows, ("equal answers",), value)
    else:
        tau, wins = _tau(after), {}
        add(rows, ("kendall tau",), tau, (-1.0, 1.0))
        if groups is not None:
            wins = _preferences(after, labels, groups)
        for (group, other), value in wins.items():
            add(preferences, (group, other), value)
    if target is not None and QANSWER not in out.columns:
        fair = AWRF(groups=groups, target=target, **({} if cutoff is None else {"cutoff": cutoff}))
        if qrels is None:
            qrels = run[[QID, DOCNO]].assign(**{LABEL: 0})
        values = [
            fair.score_all(LabeledRun.of(qrels, frame, where)).values for frame in (orders, out)
        ]
        index = Qrels(qrels, where, (QID,), either=True).qids.find(after.qids)
        first, last = (value[index] for value in values)
        add(rows, ("AWRF in",), first)
        add(rows, ("AWRF out",), last)
        change = last - first
        change[np.abs(change) <= _EQUAL] = 0.0  # up to rounding
        add(rows, ("AWRF out - in",), change, (-1.0, 1.0))
    columns = ["value", "low", "high", "queries", "note"]
    return OrderAudit(
        pd.DataFrame(rows, columns=["name", *columns]),
        pd.DataFrame(preferences, columns=["group", "other", *columns]),
        {"n": n, "measure": repr(measure), "cutoff": cutoff, "resamples": resamples, "seed": seed},
    )


def _per_ranking(
    measure: Any, labels: Qrels, out: pd.DataFrame, where: str
) -> tuple[IntArray, FloatArray]:
    judged = LabeledRun(labels, Run(out, f"{where} (output)", either=True), where)
    if isinstance(measure, type(EU)):
        return measure.score_answers(judged)
    if isinstance(measure, FairMeasure):
        raise ParameterError(
            f"{where}: measure must be EU or a measure of one ranking, such as nDCG@10, got "
            f"{measure!r}"
        )
    return values_of_samples(measure, judged)


def _spread(query: IntArray, value: FloatArray, n: int) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Return variance and mean within each query, and whether it has two values."""
    count = np.bincount(query, minlength=n)
    center = np.bincount(query, weights=value, minlength=n) / np.maximum(count, 1)
    away = value - center[query]
    away[np.abs(away) <= _EQUAL] = 0.0  # up to rounding
    square = np.bincount(query, weights=away**2, minlength=n)
    undefined = np.isnan(center)  # a prompt was cut
    center, square = np.where(undefined, 0.0, center), np.where(undefined, 0.0, square)
    return square / np.maximum(count - 1, 1), center, (count > 1) & ~undefined


def _share(
    weight: FloatArray, variance: FloatArray, center: FloatArray, defined: BoolArray, n: int
) -> FloatArray:
    """Return within / (within + between) of a one-way analysis of variance, by resample."""
    weight = weight * defined
    with np.errstate(invalid="ignore", divide="ignore"):
        total = weight.sum(axis=1)
        within = weight @ np.where(defined, variance, 0.0) / total
        middle = weight @ center / total
        around = (weight * (center - middle[:, None]) ** 2).sum(axis=1) / (total - 1)
        between = np.maximum(around - within / n, 0.0)
        return np.asarray(within / (within + between))


def _equal_answers(run: Run, frame: pd.DataFrame) -> FloatArray:
    answers = frame[QANSWER].to_numpy()[run.order][run.ranking_start[:-1]]
    code = pd.factorize(hashable(answers))[0]
    n = np.bincount(run.ranking_query, minlength=len(run.qids)).astype(np.float64)
    pairs = pd.DataFrame({"query": run.ranking_query, "code": code}).value_counts().reset_index()
    same = pairs["count"] * (pairs["count"] - 1.0)
    total = np.bincount(pairs["query"], weights=same, minlength=len(n))
    return np.asarray(np.where(n > 1, total / np.maximum(n * (n - 1), 1), np.nan))


def _positions(run: Run, query: int) -> tuple[IntArray, IntArray]:
    """Return a query's documents and their ranks (last if absent); (n_rankings, n_documents)."""
    begin, end = np.searchsorted(run.ranking_query, [query, query + 1])
    rows = slice(run.ranking_start[begin], run.ranking_start[end])
    docs, column = np.unique(run.doc[rows], return_inverse=True)
    position = np.full((end - begin, len(docs)), len(docs))
    position[run.ranking[rows] - begin, column] = run.position[rows]
    return docs, position


def _tau(run: Run) -> FloatArray:
    """Return the mean Kendall tau of pairs of rankings by query; NaN below two documents.

    For two documents with sign s of each of n rankings, the sum over pairs of rankings of s s' is
    ((sum s)^2 - sum s^2) / 2.
    """
    result = np.full(len(run.qids), np.nan)
    for query in range(len(run.qids)):
        docs, position = _positions(run, query)
        n, (a, b) = len(position), np.triu_indices(len(docs), 1)
        if n > 1 and len(a):
            sign = np.sign(position[:, b] - position[:, a])
            both = sign.sum(axis=0) ** 2 - (sign**2).sum(axis=0)
            result[query] = both.mean() / (n * (n - 1))
    return result


def _preferences(
    run: Run, labels: Qrels | None, groups: Groups
) -> dict[tuple[str, str], FloatArray]:
    """Return each query's share of equal-label pairs won by the first group, by pair of groups."""
    memberships = groups.memberships(run.docnos, "drop")
    known = groups.space.known(memberships.level)
    levels, column = np.unique(memberships.level[known], return_inverse=True)
    member = np.zeros((len(run.docnos), len(levels)))
    member[memberships.row[known], column] = memberships.weight[known]
    grade = np.zeros(len(run.doc))
    if labels is not None:
        grade = np.nan_to_num(labels.labels_of(run))
    names = [str(groups.levels[level]) for level in levels]
    shares = np.full((len(run.qids), len(levels), len(levels)), np.nan)
    for query in range(len(run.qids)):
        docs, position = _positions(run, query)
        label = np.zeros(len(docs))
        begin, end = np.searchsorted(run.query, [query, query + 1])
        label[np.searchsorted(docs, run.doc[begin:end])] = grade[begin:end]
        first, second = position[:, :, None], position[:, None, :]
        won = (first < second).mean(axis=0) + (first == second).mean(axis=0) / 2
        equal = label[:, None] == label[None, :]
        np.fill_diagonal(equal, False)
        part = member[docs]
        with np.errstate(invalid="ignore"):
            shares[query] = (part.T @ (won * equal) @ part) / (part.T @ equal @ part)
    return {
        (names[a], names[b]): shares[:, a, b]
        for a in range(len(levels))
        for b in range(a + 1, len(levels))
    }
