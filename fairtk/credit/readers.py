"""How a reader takes the order of its documents: which places it reads, from credit in rankings
drawn at random, and what order alone changes in what a reader or a reranker gives out.
"""

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
from fairtk.credit.amortized import drawn_weights, percentiles
from fairtk.credit.frame import Credit
from fairtk.display import despine, new_figure, write_figure
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
)
from fairtk.groups import Groups, Target
from fairtk.measures import AWRF, EU, FairMeasure, LabeledRun
from fairtk.measures.expectation import values_of_samples
from fairtk.transformers import FairSampler, OracleSampler, PerSample

STEEP = 2
"""An alpha above which documents hardly leave their places."""
_NEVER = 1e-9  # above the error of exact placement probabilities


@dataclass(frozen=True, repr=False, eq=False)
class FittedBrowsing(Fitted):
    """The browsing model of a reader, with what it rests on.

    Attributes:
        table: a row per rank: ``rank`` (from 0), ``weight`` (as estimated; below 0 it counts as 0
            in the model), ``standard_error``, ``low`` and ``high`` (95 %, Student's t) and
            ``documents``, how many (query, document) it rests on.
        tests: a row per ``hypothesis``: ``statistic`` (F), its ``df1`` and ``df2``, and ``p``; NaN
            where there are too few queries, or no spread.
        counts: ``queries``; ``rankings``; ``undefined``, rankings without defined credit, which are
            left out; ``pairs`` of a document and a rank, and ``unlikely``, those left out.
    """

    identity_name = "fairtk.FittedBrowsing"
    output_version = 1
    table: pd.DataFrame = field(default_factory=pd.DataFrame)
    tests: pd.DataFrame = field(default_factory=pd.DataFrame)
    counts: Mapping[str, int] = field(default_factory=dict)

    def __repr__(self) -> str:
        return repr(Fitted(self.weight))

    def plot(self, path: str | PathLike[str] | None = None) -> Any:
        """Draw the weights with their intervals beside MU and DCG; return the figure, or write it.

        Args:
            path: an .svg, .pdf or .png file; None: only the figure is returned.
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
        axes.set(xlabel="place in the prompt", ylabel="weight; 1 at the first place", xticks=rank)
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
    """Return the browsing model of a reader, from the credit of documents in drawn rankings.

    The model is a_{d,i} = w_i r_d: credit at rank i of document d, the examination of position
    models (Joachims et al. 2017). Which rank d has is chance, with the probability p_{d,i} of the
    sampler's policy, computed exactly; so sums of a / p over documents differ between ranks by w_i
    alone. w_i is such a sum over rank i by that over the first rank, of the same documents, each
    weighted by p_{d,1} p_{d,i} / (p_{d,1} + p_{d,i}), so that rare places do not rule (overlap
    weights: Li, Morgan and Zaslavsky 2018). Standard errors are those of a ratio, by query.

    Args:
        credit: the frame C with ``rank`` or ``score``, of rankings that `sampler` drew.
        candidates: the run R that it drew from.
        sampler: the policy, e.g. ``FairSampler(alpha=1)``; the flatter, the more is learned.
        least: pairs of a document and a rank less likely than this are left out, and counted.

    Returns:
        The weights, 1 at the first rank; it goes into ``EE_D(browsing=...)``.

    Raises:
        InputError: credit for a document that is no candidate, or at a rank that it cannot have; a
            rank, or the first one, has no credit to compare.
        ParameterError: a setting is out of its range.
    """
    where = "fit_browsing"
    least = checks.number("least", least, where, 0, 1, "()")
    if not callable(getattr(sampler, "policy", None)):
        raise ParameterError(
            f"{where}: sampler must be a FairSampler or an OracleSampler, whose policy is known "
            f"exactly; found {type(sampler).__name__}"
        )
    given = Credit(Run(credit, f"{where} (credit)"))
    position, n = given.positions, len(given.ranking_query)
    ranks = int(position.max(initial=-1)) + 1
    if ranks < 2:
        raise InputError(f"{where}: weights compare ranks; found credit at {ranks} of them")
    run, order, gaps = sampler.policy(candidates)
    _warn_of_alpha(sampler, candidates)
    place = np.empty(len(order), dtype=np.int64)  # the sorted row of each row of the candidates
    place[order] = np.arange(len(order))
    row = _rows_of(given.run, run, place)
    units = [np.append(np.zeros(rank), 1.0) for rank in range(ranks)]
    likely = np.stack([expected_attention(gaps, run.ranking_start, unit) for unit in units], axis=1)
    never = np.flatnonzero(likely[row, position] < _NEVER)
    if len(never):
        at = int(never[0])
        frame = given.run.frame.iloc[at]
        raise InputError(
            f"{where}: {type(sampler).__name__} never puts docno {str(frame[DOCNO])!r} of qid "
            f"{str(frame[QID])!r} at rank {position[at]}, where it has credit ({len(never)} such "
            "rows): give the sampler that drew these rankings, and its candidates"
        )
    undefined = np.isnan(np.bincount(given.ranking, weights=given.credit, minlength=n))
    query = run.ranking[row]  # the candidates have one ranking per query
    n_queries = len(run.ranking_query)
    first = np.zeros(n, dtype=np.int64)
    first[given.ranking] = query
    if undefined.all():
        raise InputError(f"{where}: none of the {n} rankings has defined credit")
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
    """Return the ratios of what ranks get to what the first gets; both (n_queries, n_ranks)."""
    from scipy.stats import t

    total, n = top.sum(axis=0), len(here)
    empty = np.flatnonzero((documents == 0) | ~(total > 0))
    if len(empty):
        rank = int(empty[0])
        why = "no document is likely enough both there and at rank 0: draw with a smaller alpha"
        if documents[rank]:
            why = "the same documents have no credit at rank 0, which is the unit of all weights"
        raise InputError(f"{where}: rank {rank} has no weight, as {why}")
    weight = here.sum(axis=0) / total
    rest = (here - weight * top) / total
    spread = rest.T @ rest * (n / (n - 1) if n > 1 else math.nan)
    error = np.sqrt(np.diag(spread))
    half = t.ppf(0.975, max(n - 1, 1)) * error
    if (below := int((weight < 0).sum())) > 0:
        warn(f"{where}: the weight of {below} ranks is below 0 and counts as 0", DataWarning)
    table = pd.DataFrame(
        {
            RANK: np.arange(len(weight)),
            "weight": weight,
            "standard_error": error,
            "low": weight - half,
            "high": weight + half,
            "documents": documents,
        }
    )
    discount = DCG().weights(np.arange(len(weight), dtype=np.int64))
    tests = [
        ("MU: all ranks weigh alike", *_test((here - top)[:, 1:])),
        ("DCG: weights are its discounts", *_test((here - discount * top)[:, 1:])),
    ]
    if len(weight) > 2:  # how much more the two ends weigh than what is between them
        contrast = np.full(len(weight), -1 / (len(weight) - 2))
        contrast[[0, -1]] = 0.5
        linear = rest @ contrast + weight @ contrast / n  # `rest` has the spread of the weights
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
            f"{alpha.max():g}): documents hardly leave their places, so that weights rest on few "
            "of them; draw with a smaller alpha",
            DataWarning,
        )


def _rows_of(credit: Run, candidates: Run, place: IntArray) -> IntArray:
    """Return the sorted row of the candidates of each row of credit."""
    width = max(1, candidates.documents.size)
    query = candidates.queries.find(credit.queries)[credit.frame_query]
    doc = candidates.documents.find(credit.documents)[credit.frame_doc]
    keys = candidates.frame_query * width + candidates.frame_doc
    row = pd.Index(keys).get_indexer(
        pd.Index(np.where((query < 0) | (doc < 0), -1, query * width + doc))
    )
    lost = np.flatnonzero(row < 0)
    if len(lost):
        frame = credit.frame.iloc[int(lost[0])]
        raise InputError(
            f"{credit.where}: docno {str(frame[DOCNO])!r} of qid {str(frame[QID])!r} is no "
            f"candidate ({len(lost)} such rows); give the run that the sampler drew from"
        )
    return np.asarray(place[row], dtype=np.int64)


def _sums(run: Run, value: FloatArray) -> FloatArray:
    """Return the sums of rows of each query; shape (n_queries, n_ranks)."""
    return np.asarray(np.add.reduceat(value, run.ranking_start[:-1], axis=0))


def _test(rest: FloatArray) -> tuple[float, float, float, float]:
    """Return Hotelling's test that rows of shape (n, p) have mean 0: F, its degrees, and p."""
    from scipy.stats import f

    n, p = rest.shape
    nothing = (math.nan, float(p), float(n - p), math.nan)
    if n <= p or not rest.any():
        return nothing
    mean, spread = rest.mean(axis=0), np.atleast_2d(np.cov(rest, rowvar=False))
    if np.linalg.matrix_rank(spread) < p:
        return nothing
    square = n * float(mean @ np.linalg.solve(spread, mean))
    statistic = square * (n - p) / (p * (n - 1))
    return statistic, float(p), float(n - p), float(f.sf(statistic, p, n - p))


@dataclass(frozen=True)
class OrderAudit:
    """What order alone changes.

    Attributes:
        table: a row for each ``name``: ``value``, ``low``, ``high`` (bootstrap over queries) and
            ``queries``. ``utility share``: of the variance of the utility, what differs between
            orders of the same documents, in [0, 1]. ``kendall tau``: between the outputs of two
            orders, in [-1, 1], 1: order does not matter. ``equal answers``: the share of pairs of
            orders with the same answer. ``AWRF out - in``: what the transformer adds to the
            closeness of groups' exposure to their target, above 0 if closer.
        preferences: a row for each two groups: ``group``, ``other``, ``value``, the share of pairs
            of documents with equal label of which that of ``group`` comes out first (.5: neither is
            preferred), ``low``, ``high`` and ``queries``.
        settings: how it was made.
    """

    table: pd.DataFrame
    preferences: pd.DataFrame
    settings: Mapping[str, Any]


def order_audit(
    transformer: pt.Transformer,
    run: pd.DataFrame,
    n: int = 20,
    *,
    qrels: pd.DataFrame | None = None,
    measure: Any = None,
    groups: Groups | None = None,
    target: Target | None = None,
    cutoff: int | None = None,
    resamples: int = 1000,
    confidence: float = 0.95,
    seed: int = 42,
) -> OrderAudit:
    """Return what order alone changes in what a reader or a reranker makes of documents.

    The documents of each query are shuffled n times, uniformly (``FairSampler(alpha=0)``), and the
    transformer gets every order. It says how much a reader leans on order, not whether the order
    that it is given in use is a good one.

    Args:
        transformer: R -> R or answers: a reranker, or a reader; wrapped in `fairtk.PerSample`.
        run: the run R with what it needs (``query``, ``text``).
        n: orders of each query, at least 2.
        qrels: labels, with ``gold_answer`` for ``EU``; needed by `measure`, and for preferences at
            equal label: without them all documents count as equal.
        measure: the utility: ``EU(utility=...)`` of a reader, e.g. ``nDCG@10`` of a reranker.
        groups: of documents, for preferences, and for AWRF if there is a target.
        target: over the groups.
        cutoff: ranks that AWRF reads; None: all.
        resamples: bootstrap samples of the queries, at least 2.
        confidence: of the intervals, in (0, 1).
        seed: of orders and bootstrap.

    Raises:
        ParameterError: a setting is out of its range, or lacks another.
        InputError: the transformer drops queries or adds documents.
    """
    where = "order_audit"
    n = checks.whole("n", n, where, 2)
    resamples = checks.whole("resamples", resamples, where, 2)
    confidence = checks.inside("confidence", confidence, where)
    if measure is not None and qrels is None:
        raise ParameterError(f"{where}: measure={measure!r} needs qrels")
    if target is not None and groups is None:
        raise ParameterError(f"{where}: target needs groups")
    orders = FairSampler(alpha=0, n_samples=n, seed=seed)(run)
    out = PerSample(transformer)(orders)
    before, after = Run(orders, f"{where} (run)"), Run(out, f"{where} (output)").checked()
    lost = before.queries.find(after.queries)
    if len(lost) != len(before.qids) or (lost < 0).any():
        qid = next(q for q in before.qids if q not in set(after.qids))
        raise InputError(f"{where}: {type(transformer).__name__} gave nothing for qid {str(qid)!r}")
    labels = Qrels(qrels, f"{where} (qrels)", (QID,), either=True) if qrels is not None else None
    weight = np.concatenate(
        [np.ones((1, len(after.qids))), drawn_weights(len(after.qids), resamples, seed)]
    )
    rows: list[Any] = []
    preferences: list[Any] = []

    def add(to: list[Any], name: tuple[str, ...], values: FloatArray, defined: BoolArray) -> None:
        low, high = percentiles(values[1:], confidence)
        to.append((*name, float(values[0]), low, high, int(defined.sum())))

    def mean(value: FloatArray) -> FloatArray:
        there = ~np.isnan(value)
        with np.errstate(invalid="ignore"):
            return np.asarray(weight @ np.where(there, value, 0.0) / (weight @ there))

    if measure is not None and labels is not None:
        query, value = _per_ranking(measure, labels, out, where)
        inside, center, defined = _spread(query, value, len(labels.qids))
        spot = labels.queries.find(after.queries)
        share = _share(weight, inside[spot], center[spot], defined[spot], n)
        add(rows, ("utility share",), share, defined[spot])
    if QANSWER in out.columns:
        value = _equal_answers(after, out)
        add(rows, ("equal answers",), mean(value), ~np.isnan(value))
    else:
        tau, placed = _tau(after), None
        add(rows, ("kendall tau",), mean(tau), ~np.isnan(tau))
        if groups is not None:
            placed = _preferences(after, labels, groups)
        for (group, other), value in (placed or {}).items():
            add(preferences, (group, other), mean(value), ~np.isnan(value))
    if target is not None and QANSWER not in out.columns:
        fair = AWRF(groups=groups, target=target, **({} if cutoff is None else {"cutoff": cutoff}))
        if qrels is None:
            qrels = run[[QID, DOCNO]].assign(**{LABEL: 0})
        shared = [fair.score_all(LabeledRun.of(qrels, frame, where)) for frame in (orders, out)]
        spot = Qrels(qrels, where, (QID,), either=True).queries.find(after.queries)
        first, last = (value[spot] for value in shared)
        for name, value in (("in", first), ("out", last), ("out - in", last - first)):
            add(rows, (f"AWRF {name}",), mean(value), ~np.isnan(value))
    columns = ["value", "low", "high", "queries"]
    return OrderAudit(
        pd.DataFrame(rows, columns=["name", *columns]),
        pd.DataFrame(preferences, columns=["group", "other", *columns]),
        {"n": n, "measure": repr(measure), "cutoff": cutoff, "resamples": resamples, "seed": seed},
    )


def _per_ranking(
    measure: Any, labels: Qrels, out: pd.DataFrame, where: str
) -> tuple[IntArray, FloatArray]:
    """Return the query and the value of each ranking."""
    judged = LabeledRun(labels, Run(out, f"{where} (output)", either=True), where)
    if isinstance(measure, type(EU)):
        return measure.of_answers(judged)
    if isinstance(measure, FairMeasure):
        raise ParameterError(
            f"{where}: measure must be EU or a measure of one ranking, such as nDCG@10; found "
            f"{measure!r}"
        )
    return values_of_samples(measure, judged)


def _spread(query: IntArray, value: FloatArray, n: int) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Return the variance within each query, its mean, and whether it has two values."""
    count = np.bincount(query, minlength=n)
    center = np.bincount(query, weights=value, minlength=n) / np.maximum(count, 1)
    square = np.bincount(query, weights=(value - center[query]) ** 2, minlength=n)
    return square / np.maximum(count - 1, 1), center, count > 1


def _share(
    weight: FloatArray, inside: FloatArray, center: FloatArray, defined: BoolArray, n: int
) -> FloatArray:
    """Return within by within and between, of a one-way analysis of variance, by resample."""
    weight = weight * defined
    with np.errstate(invalid="ignore", divide="ignore"):
        total = weight.sum(axis=1)
        within = weight @ np.where(defined, inside, 0.0) / total
        middle = weight @ center / total
        around = (weight * (center - middle[:, None]) ** 2).sum(axis=1) / (total - 1)
        between = np.maximum(around - within / n, 0.0)
        return np.asarray(within / (within + between))


def _equal_answers(run: Run, frame: pd.DataFrame) -> FloatArray:
    """Return the share of pairs of rankings with one answer, by query."""
    code = pd.factorize(frame[QANSWER].to_numpy()[run.order])[0][run.ranking_start[:-1]]
    n = np.bincount(run.ranking_query, minlength=len(run.qids)).astype(np.float64)
    pairs = pd.DataFrame({"query": run.ranking_query, "code": code}).value_counts().reset_index()
    same = pairs["count"] * (pairs["count"] - 1.0)
    total = np.bincount(pairs["query"], weights=same, minlength=len(n))
    return np.asarray(np.where(n > 1, total / np.maximum(n * (n - 1), 1), np.nan))


def _places(run: Run, query: int) -> tuple[IntArray, IntArray]:
    """Return the documents of a query and their ranks, (n_rankings, n_documents); absent: last."""
    begin, end = np.searchsorted(run.ranking_query, [query, query + 1])
    rows = slice(run.ranking_start[begin], run.ranking_start[end])
    docs, column = np.unique(run.doc[rows], return_inverse=True)
    place = np.full((end - begin, len(docs)), len(docs))
    place[run.ranking[rows] - begin, column] = run.position[rows]
    return docs, place


def _tau(run: Run) -> FloatArray:
    """Return the mean Kendall tau of two rankings of a query; NaN for fewer than two documents.

    For two documents with sign s of each of n rankings, the sum over pairs of rankings of s s' is
    ((sum s)^2 - sum s^2) / 2.
    """
    result = np.full(len(run.qids), np.nan)
    for query in range(len(run.qids)):
        docs, place = _places(run, query)
        n, (a, b) = len(place), np.triu_indices(len(docs), 1)
        if n > 1 and len(a):
            sign = np.sign(place[:, b] - place[:, a])
            both = sign.sum(axis=0) ** 2 - (sign**2).sum(axis=0)
            result[query] = both.mean() / (n * (n - 1))
    return result


def _preferences(
    run: Run, labels: Qrels | None, groups: Groups
) -> dict[tuple[str, str], FloatArray]:
    """Return by two groups the share of pairs of equal label won by the first, of each query."""
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
        docs, place = _places(run, query)
        label = np.zeros(len(docs))
        begin, end = np.searchsorted(run.query, [query, query + 1])
        label[np.searchsorted(docs, run.doc[begin:end])] = grade[begin:end]
        ahead = place[:, :, None] < place[:, None, :]
        won = ahead.mean(axis=0) + (place[:, :, None] == place[:, None, :]).mean(axis=0) / 2
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
