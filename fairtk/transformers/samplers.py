"""Samplers, R -> S, and transformers for each sample or document."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyterrier as pt

from fairtk import checks
from fairtk.errors import InputError, ParameterError
from fairtk.exposure import DCG, draw_rankings, expected_attention, score_gaps, sum_by_index
from fairtk.exposure.exact import Values, find_alphas
from fairtk.exposure.expected import RankWeights
from fairtk.exposure.plackett_luce import METHODS, SURE
from fairtk.frames import (
    DOCNO,
    QANSWER,
    QID,
    RANK,
    SAMPLE,
    SCORE,
    BoolArray,
    FloatArray,
    IntArray,
    Qrels,
    Run,
    require_columns,
)
from fairtk.frames.columns import as_numbers, plain_columns
from fairtk.frames.runs import order_by
from fairtk.remarks import NO_USEFUL_DOCUMENT, TARGET_MISSED
from fairtk.stage_context import changed, remark, with_qids
from fairtk.transformers.base import FairTransformer

_TOLERANCE = 1e-3
"""Tolerance for the target value, on a scale of 0 to 1. A larger difference is a warning."""
_GRID = 0.1 * 1.15 ** np.arange(64)  # up to 660
"""Alphas to try if the relevance may fall as alpha rises."""
_MAX_HALVINGS = 16
"""Maximum number of bisection steps between two of them."""

Worth = Callable[[FloatArray, IntArray, IntArray], FloatArray]


class Calibration:
    """The target of a sampler; see `fairtk.FairSampler` for the settings.

    Raises:
        ParameterError: a setting is out of its range, or settings contradict each other.
        InputError: the labels are invalid.
    """

    def __init__(
        self,
        where: str,
        cutoff: int | None,
        target_disparity: Any,
        max_relevance_loss: Any,
        relevance: Any,
    ) -> None:
        self.where = where
        self.target_disparity = self.max_relevance_loss = None
        if target_disparity is not None:
            rule = "be in (0, 1] (normalized EE_D; 1 is that of a deterministic ranking)"
            self.target_disparity = checks.number(
                "target_disparity", target_disparity, where, 0, 1, "(]", rule
            )
        if max_relevance_loss is not None:
            rule = "be in [0, 1) (the share of nDCG that may be lost; 0.05 is 5 %)"
            self.max_relevance_loss = checks.number(
                "max_relevance_loss", max_relevance_loss, where, 0, 1, "[)", rule
            )
        if (max_relevance_loss is None) != (relevance is None):
            raise ParameterError(
                f"{where}: `max_relevance_loss` and `relevance` require each other; `relevance` is "
                "labels (qid, docno, label), or 'scores' for the scores of the run"
            )
        if isinstance(relevance, str) and relevance != "scores":
            raise ParameterError(
                f"{where}: relevance must be labels (qid, docno, label) or 'scores', got "
                f"{relevance!r}"
            )
        self.relevance = relevance
        if relevance is not None and not isinstance(relevance, str):
            self.relevance = Qrels(relevance, where).plain()  # normalized, for equality by content
        if cutoff is None:
            name = "max_relevance_loss" if target_disparity is None else "target_disparity"
            raise ParameterError(
                f"{where}: `cutoff` is required for `{name}` (the number of documents that are "
                "read), e.g. `cutoff=5`"
            )
        self.cutoff = cutoff

    def find(self, run: Run, score: FloatArray) -> pd.DataFrame:
        """Return the alpha of each query, and remark on queries that cannot reach the target.

        Returns:
            ``alpha``, ``value`` (its exact value), ``wanted`` (the target) and ``reached`` (a
            disparity within 0.001, a share of nDCG not more than 0.001 below), one row per query.
        """
        if self.target_disparity is not None:
            result = self._to_disparity(run, score, self.target_disparity)
        else:
            result = self._to_relevance(run, score, float(self.max_relevance_loss or 0))
        missed = ~result["reached"].to_numpy()
        self._remark(TARGET_MISSED, run, missed)
        return result

    def _to_disparity(self, run: Run, score: FloatArray, target: float) -> pd.DataFrame:
        """Return alphas whose exact EE-D (MU, the paper's bounds, normalized) is the target."""
        size = np.diff(run.ranking_start)
        highest = np.minimum(size, self.cutoff)

        def worth(exposure: FloatArray, row: IntArray, query: IntArray) -> FloatArray:
            disparity = sum_by_index(run.ranking[row], exposure**2, len(size))
            return np.asarray(disparity[query] / highest[query])

        aim = np.full(len(size), target)
        weight = np.ones(self.cutoff)
        values, even, steep = _values(run, score, weight, worth)
        alpha, value = find_alphas(values, even, steep, aim - _TOLERANCE / 2, aim + _TOLERANCE / 2)
        missed = (np.abs(value - target) > _TOLERANCE) & (steep >= target)
        _look_below(values, np.flatnonzero(missed), aim - _TOLERANCE / 2, alpha, value)
        return _calibrated(alpha, value, aim, np.abs(value - target) <= _TOLERANCE)

    def _to_relevance(self, run: Run, score: FloatArray, loss: float) -> pd.DataFrame:
        """Return the smallest alphas whose loss of nDCG is at most `loss`.

        If gains are sorted like scores, nDCG rises with alpha. Otherwise it may fall, so a grid of
        smaller alphas is also searched.
        """
        weight = RankWeights.of(DCG(), self.cutoff, self.cutoff).weight
        gain = self._gain(run, score)
        n_queries = len(run.ranking_start) - 1
        attention = np.append(weight, 0.0)[np.minimum(run.position, self.cutoff)]
        fixed = sum_by_index(run.ranking, attention * gain, n_queries)
        undefined = fixed <= 0
        self._remark(NO_USEFUL_DOCUMENT, run, undefined)
        full_gain = np.where(undefined, 1.0, fixed)

        def worth(exposure: FloatArray, row: IntArray, query: IntArray) -> FloatArray:
            gained = sum_by_index(run.ranking[row], exposure * gain[row], n_queries)[query]
            return np.where(undefined[query], 1.0, gained / full_gain[query])

        aim = np.full(n_queries, 1.0 - loss)
        values, even, steep = _values(run, score, weight, worth)
        alpha, value = find_alphas(values, even, steep, aim, aim + _TOLERANCE)
        same = run.ranking[1:] == run.ranking[:-1]
        hard = (alpha > 0) & (value > aim + _TOLERANCE)  # still too steep
        hard[run.ranking[1:][same & (np.diff(gain) > 0)]] = True
        _look_below(values, np.flatnonzero(hard), aim, alpha, value)
        return _calibrated(alpha, value, aim, value >= aim - _TOLERANCE)

    def _gain(self, run: Run, score: FloatArray) -> FloatArray:
        """Return the gain of each sorted row: its label, or its score scaled to [0, 1].

        If all scores are equal, all gains are 1.
        """
        if self._labels is not None:
            return np.maximum(np.nan_to_num(self._labels.labels_of(run)), 0.0)
        start = run.ranking_start
        half = score / 2  # so that differences do not overflow
        low = half[start[1:] - 1][run.ranking]
        spread = half[start[:-1]][run.ranking] - low
        return np.where(spread > 0, (half - low) / np.where(spread > 0, spread, 1.0), 1.0)

    @cached_property
    def _labels(self) -> Qrels | None:
        frame = self.relevance
        return Qrels(frame, self.where) if isinstance(frame, pd.DataFrame) else None

    def _remark(self, kind: str, run: Run, mask: BoolArray) -> None:
        setting = f"max_relevance_loss={self.max_relevance_loss}"
        if self.target_disparity is not None:
            setting = f"target_disparity={self.target_disparity}"
        remark(kind, self.where, mask, run.qids[run.ranking_query], setting, stacklevel=5)


def _calibrated(*columns: FloatArray | BoolArray) -> pd.DataFrame:
    return pd.DataFrame(dict(zip(("alpha", "value", "wanted", "reached"), columns, strict=True)))


def _values(
    run: Run, score: FloatArray, weight: FloatArray, worth: Worth
) -> tuple[Values, FloatArray, FloatArray]:
    """Return a function from alphas to exact values of queries, and the values at the limits.

    The limits are the uniform policy and large alpha; see `fairtk.exposure.exact.find_alphas`.
    """
    start, rows = run.ranking_start, np.arange(len(score))
    queries = np.arange(len(start) - 1)

    def values(alpha: FloatArray, query: IntArray) -> FloatArray:
        query_mask = np.zeros(len(queries), dtype=bool)
        query_mask[query] = True  # `query` is ascending
        row = rows[query_mask[run.ranking]]
        begin = np.concatenate([[0], np.cumsum(np.diff(start)[query])])
        gaps = score_gaps(score[row], begin, alpha)
        return worth(expected_attention(gaps, begin, weight), row, query)

    even = expected_attention(np.zeros(len(score)), start, weight)
    apart = np.where(score_gaps(score, start, 1.0) > 0, SURE, 0.0)
    steep = expected_attention(apart, start, weight)
    return values, worth(even, rows, queries), worth(steep, rows, queries)


def _look_below(
    values: Values, query: IntArray, aim: FloatArray, alpha: FloatArray, value: FloatArray
) -> None:
    """Find smaller alphas with a sufficient value, otherwise with the nearest value.

    Args:
        values: a function that returns the values of queries at one alpha per query.
        query: the queries, ascending.
        aim: the minimum value; shape (n_queries,).
        alpha: the alpha of each query; updated in place.
        value: the value of each query; updated in place.
    """
    before = 0.0
    for grid_alpha in _GRID.tolist():
        if not len(query):
            return
        is_short = value[query] < aim[query] - _TOLERANCE
        new_alpha = np.where(is_short, grid_alpha, np.minimum(grid_alpha, alpha[query]))
        new_value = values(new_alpha, query)
        is_enough = new_value >= aim[query]
        is_last = ~is_short & (alpha[query] <= grid_alpha)
        is_better = is_enough | is_short & (new_value > value[query])
        alpha[query[is_better]] = new_alpha[is_better]
        value[query[is_better]] = new_value[is_better]
        solved, query = query[is_enough], query[~is_enough & ~is_last]
        low = np.full(len(solved), before)  # an alpha whose value is too small
        for _ in range(_MAX_HALVINGS):
            is_wide = value[solved] > aim[solved] + _TOLERANCE
            solved, low = solved[is_wide], low[is_wide]
            if not len(solved):
                break
            middle = (low + alpha[solved]) / 2
            new_value = values(middle, solved)
            is_enough = new_value >= aim[solved]
            alpha[solved[is_enough]] = middle[is_enough]
            value[solved[is_enough]] = new_value[is_enough]
            low[~is_enough] = middle[~is_enough]
        before = grid_alpha


class Sampler(FairTransformer):
    """Base class of samplers. A subclass defines `policy`."""

    method = "independent"
    """The sampling method, one of `fairtk.exposure.plackett_luce.METHODS`."""

    def __init__(self, n_samples: int, cutoff: int | None, seed: int) -> None:
        name = type(self).__name__
        self.n_samples = checks.integer("n_samples", n_samples, name)
        self.cutoff = checks.cutoff(cutoff, name)
        self.seed = checks.integer("seed", seed, name, least=None)

    def policy(self, inp: pd.DataFrame) -> tuple[Run, IntArray, FloatArray]:
        """Return the run, the order of its rows, and the gaps of their log-weights.

        Returns:
            The run; the row of `inp` of each sorted row, which differs from ``run.order`` only
            within queries; and the gaps (see `fairtk.exposure.score_gaps`).
        """
        raise NotImplementedError(f"{type(self).__name__} must define policy")

    @property
    def reads_scores(self) -> bool:
        """Whether the policy depends on scores, so that equal scores are remarked on."""
        return True

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Return `n_samples` rankings per query of the run."""
        run, order, gaps = self.policy(inp)
        if self.reads_scores:
            self.remark_on_candidates(run)
        return self.draw(inp, run, order, gaps)

    def draw(self, inp: pd.DataFrame, run: Run, order: IntArray, gaps: FloatArray) -> pd.DataFrame:
        """Return rankings drawn from a run as a frame, sorted by query, sample and rank.

        Args:
            inp: the run R.
            run: the result of `policy`.
            order: the result of `policy`.
            gaps: the result of `policy`.

        Returns:
            The columns of `inp`, with a new ``score`` and ``rank``, and ``sample``. Scores are n,
            n - 1, n - 2, ... for a query with n documents. They are positive, because some
            evaluators take 0 for "not retrieved".
        """
        keys, start = run.qids[run.ranking_query].tolist(), run.ranking_start
        draws = draw_rankings(
            gaps, start, keys, self.n_samples, self.cutoff, self.seed, self.method
        )
        size = np.diff(start).astype(np.float64)[run.ranking[draws.row]]
        new = {SCORE: size - draws.rank, RANK: draws.rank, SAMPLE: draws.sample}
        rows = order[draws.row]
        # the new columns keep their positions
        names = [*inp.columns, *(name for name in new if name not in inp.columns)]
        columns = {name: new[name] if name in new else inp[name].array.take(rows) for name in names}
        return pd.DataFrame(columns)


class FairSampler(Sampler):
    """R -> S: rankings drawn from a Plackett-Luce policy (*Towards Fair RAG*, Eqs. 1 and 2).

    The scores of each query are min-max scaled to [1, 2], raised to ``alpha``, and used as
    log-weights: the next document is drawn with probability proportional to exp(scaled ** alpha)
    among those not drawn yet. Exposure depends only on chance and score, not on groups.

    * ``alpha`` is the opposite of a temperature: 0 is uniform, larger is closer to the
      deterministic ranking. Tied documents have equal exposure, even for large values.
    * The random numbers of a query depend only on (seed, qid), so rankings do not depend on the
      batch, the order of rows, the ranks of ties, or other queries.
    * ``n_samples`` and ``cutoff`` only truncate: the first 10 of 100 samples are the samples of
      ``n_samples=10``, and a ranking at ``cutoff=5`` is the top of the one without cutoff.
    * ``method="stratified"`` spreads the random numbers of a query evenly over its samples
      (scrambled Sobol points). Expectations do not change, and means over the samples vary less.
      The samples are not independent: their standard errors are mostly too large, and
      ``EE_D(estimator="unbiased")`` overcorrects.
    * ``target_disparity`` and ``max_relevance_loss`` replace alpha: the alpha of each query is
      computed from exact values, with a tolerance of 0.001 (see `calibrated`). If a query cannot
      reach the target, the nearest value is used, with a warning; the minimum disparity at cutoff k
      is k / n.

    Input: ``qid``, ``docno``, ``score`` and any other columns; one ranking per query. Output: the
    same columns and ``rank`` and ``sample``; one row per query, sample and rank, in that order.
    ``score`` becomes n, n - 1, ... by rank, for a query with n documents.

    Args:
        alpha: the exponent of the scaled scores, at least 0: 0 is uniform, larger is closer to the
            run. `None` for 1, or computed for a goal below.
        n_samples: rankings per query, at least 1; use 1 in production.
        cutoff: documents per ranking, at least 1; `None` for all.
        seed: the seed, any integer.
        method: how rankings of a query are drawn: ``"independent"``, or ``"stratified"``, which
            lowers the variance of means over samples.
        target_disparity: instead of alpha, the ``EE_D@cutoff`` that the rankings should have
            (normalized, MU, the paper's bounds), in (0, 1]; 1 is that of the run.
        max_relevance_loss: instead of alpha, the largest expected loss of ``nDCG@cutoff``, as a
            share of the run's, in [0, 1); 0.05 is 5 %. The smallest alpha within the loss is used.
            In the run, tied scores are sorted by ``rank``, or by docno, descending.
        relevance: only with `max_relevance_loss`: labels (``qid``, ``docno``, ``label``), or
            ``"scores"`` for the scores of the run, scaled to [0, 1] per query.

    Raises:
        ParameterError: a setting is out of its range, or settings exclude each other.
        NotFoundError: unknown method.
        InputError: in `transform`, for a missing column, a sampled run, a NaN or infinite score, a
            duplicate document, or ranks that contradict the scores.
    """

    identity_name = "fairtk.FairSampler"
    output_version = 1
    is_cheap = True
    SETTINGS = (
        *("alpha", "n_samples", "cutoff", "seed", "method"),
        *("target_disparity", "max_relevance_loss", "relevance"),
    )

    def __init__(
        self,
        alpha: float | None = None,
        n_samples: int = 100,
        cutoff: int | None = None,
        seed: int = 42,
        method: Literal["independent", "stratified"] = "independent",
        target_disparity: float | None = None,
        max_relevance_loss: float | None = None,
        relevance: pd.DataFrame | str | None = None,
    ) -> None:
        super().__init__(n_samples, cutoff, seed)
        self.method = checks.known("FairSampler method", method, METHODS)
        name = type(self).__name__
        options = {
            "alpha": alpha,
            "target_disparity": target_disparity,
            "max_relevance_loss": max_relevance_loss,
        }
        given = [option for option, value in options.items() if value is not None]
        if len(given) > 1:
            raise ParameterError(
                f"{name}: {' and '.join(f'`{option}`' for option in given)} are mutually "
                "exclusive; use one"
            )
        self.alpha: Any = None  # a number unless there is a calibration
        self.target_disparity = self.max_relevance_loss = self.relevance = None
        self._calibration: Calibration | None = None
        if given in ([], ["alpha"]) and relevance is None:
            self.alpha = checks.exponent(1 if alpha is None else alpha, name)
        else:
            target = Calibration(name, self.cutoff, target_disparity, max_relevance_loss, relevance)
            self._calibration = target
            self.target_disparity = target.target_disparity
            self.max_relevance_loss, self.relevance = target.max_relevance_loss, target.relevance

    def settings(self) -> dict[str, Any]:
        """Return the settings without unused ones."""
        settings = super().settings()
        if self.method == "independent":
            del settings["method"]
        always = ("n_samples", "cutoff", "seed")
        return {name: v for name, v in settings.items() if v is not None or name in always}

    @property
    def reads_scores(self) -> bool:
        """Whether the policy depends on scores: unless `alpha` is 0."""
        return bool(self.alpha != 0)

    def policy(self, inp: pd.DataFrame) -> tuple[Run, IntArray, FloatArray]:
        """Return the run, the order of its rows, and the gaps; see `Sampler`."""
        run = self.plain_run(inp)
        score = as_numbers(inp[SCORE])[run.order]
        order = order_by((-score, run.ranking), lambda rows: (run.doc[rows], run.docnos), False)
        alpha = self.alpha
        if self._calibration is not None:
            alpha = self._calibration.find(run, score)["alpha"].to_numpy()
        return run, run.order[order], score_gaps(score, run.ranking_start, alpha)

    def calibrated(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Return the alpha of each query of a run and its exact value, without drawing.

        Returns:
            ``qid``, ``alpha``, ``value`` (exact EE_D, or the share of the run's nDCG), ``wanted``
            (the target) and ``reached``; only ``qid`` and ``alpha`` for a fixed alpha.
        """
        run = self.plain_run(inp)
        result = pd.DataFrame({QID: run.qids[run.ranking_query]})
        if self._calibration is None:
            return result.assign(alpha=self.alpha)
        score = as_numbers(inp[SCORE])[run.order]
        return pd.concat([result, self._calibration.find(run, score)], axis=1)


class OracleSampler(Sampler):
    """R -> S: rankings with useful documents first, shuffled within each grade.

    This is the optimal policy of expected exposure (*Towards Fair RAG*, section 3.3; Diaz et al.
    2020): grades in descending order, and within a grade every order equally likely. A document
    without a label, or with a label of at most 0, is not useful. A query without a useful document
    in the ranking gets the uniform policy, with a warning if no document there has a label. Scores
    are ignored. For seed, ``n_samples`` and ``cutoff`` see `FairSampler`.

    Input: ``qid``, ``docno``, ``score`` and any other columns; one ranking per query. Output: the
    same columns and ``rank`` and ``sample``; ``score`` becomes n, n - 1, ... by rank, for a query
    with n documents.

    Args:
        qrels: labels: ``qid``, ``docno``, ``label`` (utility or relevance; larger is better).
        n_samples: rankings per query, >= 1.
        cutoff: documents per ranking, >= 1; `None` for all.
        seed: the seed, any integer.

    Raises:
        ParameterError: a setting is out of its range.
        InputError: the qrels have a missing column, a duplicate (qid, docno) or a label that is not
            a finite number; in `transform`, the run is invalid.
    """

    identity_name = "fairtk.OracleSampler"
    output_version = 1
    is_cheap = True
    SETTINGS = ("qrels", "n_samples", "cutoff", "seed")

    def __init__(
        self,
        qrels: pd.DataFrame,
        n_samples: int = 100,
        cutoff: int | None = None,
        seed: int = 42,
    ) -> None:
        super().__init__(n_samples, cutoff, seed)
        # normalized, for equality by content
        self.qrels = Qrels(qrels, type(self).__name__).plain()

    @property
    def reads_scores(self) -> bool:
        """Whether the policy depends on scores: it depends on labels only."""
        return False

    def policy(self, inp: pd.DataFrame) -> tuple[Run, IntArray, FloatArray]:
        """Return the run, the order of its rows, and the gaps; see `Sampler`."""
        run = self.plain_run(inp)
        within, gaps = useful_first(run, self._labels, type(self).__name__, stacklevel=6)
        return run, run.order[within], gaps

    @cached_property
    def _labels(self) -> Qrels:
        return Qrels(self.qrels, type(self).__name__)


def useful_first(
    run: Run, labels: Qrels, stage: str, stacklevel: int
) -> tuple[IntArray, FloatArray]:
    """Return the sorted rows of a run, useful ones first, and the gaps between their grades.

    Queries without a labeled document, such as those with other ids, are remarked on.

    Returns:
        Sorted rows by query, grade and docno; and gaps, which are `SURE` at the end of a grade
        within a query, otherwise 0. See `fairtk.exposure.score_gaps`.
    """
    label = labels.labels_of(run)
    unlabeled = np.logical_and.reduceat(np.isnan(label), run.ranking_start[:-1])
    qids = run.qids[run.ranking_query]
    remark(NO_USEFUL_DOCUMENT, stage, unlabeled, qids, "the ideal ranking", stacklevel)
    grade = np.maximum(np.nan_to_num(label), 0.0)
    within = order_by((-grade, run.query), lambda rows: (run.doc[rows], run.docnos), False)
    gaps = np.zeros(len(grade))
    gaps[1:] = np.where(grade[within][1:] < grade[within][:-1], SURE, 0.0)
    gaps[run.ranking_start[:-1]] = 0.0
    return within, gaps


# separates sample and qid in a temporary qid
_MARK = ":"


class PerSample(FairTransformer):
    """S -> S: a transformer applied to each sample of a sampled run.

    Use it for rerankers, readers and all transformers that group their input by ``qid`` and would
    mix the samples of a query. The transformer gets plain runs, without the column ``sample``. It
    may change scores and ranks, drop rows or add columns. If a reader such as pyterrier_rag's
    returns one row per query, its new columns are added to all rows of the ranking.

    By default the transformer runs once per sample, on all queries, with the original qids.
    ``joint=True`` runs it once, with a temporary qid per (qid, sample). Neural models then get full
    batches, but the transformer must not look qids up.

    Args:
        transformer: the transformer to apply.
        joint: whether to transform all samples in one call.

    Raises:
        ParameterError: `transformer` is not a PyTerrier transformer.
        InputError: in `transform`, ``sample`` is not an integer in every row, or the transformer
            does not keep qids.
    """

    identity_name = "fairtk.PerSample"
    output_version = 1
    SETTINGS = ("transformer", "joint")

    def __init__(self, transformer: pt.Transformer, joint: bool = False) -> None:
        if not isinstance(transformer, pt.Transformer):
            raise ParameterError(
                "PerSample: transformer must be a PyTerrier transformer, got "
                f"{type(transformer).__name__} (pt.apply converts a function)"
            )
        self.transformer = transformer
        self.joint = checks.boolean("joint", joint, "PerSample")

    def __eq__(self, other: object) -> bool:
        # by the transformers' equality, because their `repr` may omit settings
        return (
            isinstance(other, PerSample)
            and type(self) is type(other)
            and bool(self.transformer == other.transformer)
            and self.joint == other.joint
        )

    def __hash__(self) -> int:
        return hash((type(self), self.transformer, self.joint))

    def subtransformers(self) -> dict[str, Any]:
        """Return the wrapped transformer, for PyTerrier's schematics."""
        return {"transformer": self.transformer}

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Return the transformer's output for each sample."""
        plain_columns(inp, "PerSample")
        if SAMPLE not in inp.columns:
            return self._applied(inp)
        self.check_inputs(inp, [QID])
        run = Run(inp, "PerSample")
        sample: Any = run.samples
        if {DOCNO, SCORE} <= {*inp.columns}:
            run.order  # noqa: B018 - sorting detects duplicates
        plain = inp.drop(columns=SAMPLE)
        if len(inp) == 0:
            return self._returned(self._applied(plain), 0)
        qids = pd.Index(inp[QID].unique())
        if self.joint:
            result = self._all_at_once(plain, sample, qids)
        else:
            parts = []
            for number in np.unique(sample).tolist():
                rows = np.flatnonzero(sample == number)
                with changed(ranking_of=lambda qid, number=number: (qid, number)):
                    part = self._applied(plain.take(rows).reset_index(drop=True))
                parts.append(self._returned(part, number))
            filled = [part for part in parts if len(part)] or parts[:1]
            result = pd.concat(filled, ignore_index=True)
        unknown = ~result[QID].isin(qids)
        if unknown.any():
            raise InputError(
                f"{self._name()} must return the queries of its input, got qid "
                f"{result[QID][unknown].iloc[0]!r}"
            )
        order = np.lexsort((result[SAMPLE].to_numpy(), qids.get_indexer(pd.Index(result[QID]))))
        return result.take(order).reset_index(drop=True)

    def _applied(self, plain: pd.DataFrame) -> pd.DataFrame:
        """Return the transformer's output, with a reader's answers on all rows of rankings."""
        out: pd.DataFrame = self.transformer.transform(plain)
        if DOCNO not in plain.columns or DOCNO in out.columns or QANSWER not in out.columns:
            return out
        require_columns(out, [QID], f"the output of {self._name()}")
        is_duplicate = out[QID].duplicated().to_numpy()
        if is_duplicate.any():
            raise InputError(
                f"{self._name()} must return one answer per ranking, got several for qid "
                f"{out[QID][is_duplicate].iloc[0]!r}"
            )
        new = [c for c in out.columns if c not in plain.columns or c == QANSWER]
        rows = plain.drop(columns=QANSWER, errors="ignore")
        return rows.merge(out[[QID, *new]], on=QID)

    def _all_at_once(self, plain: pd.DataFrame, sample: IntArray, qids: pd.Index) -> pd.DataFrame:
        """Run the transformer once, with a temporary qid per (qid, sample)."""
        query = qids.get_indexer(pd.Index(plain[QID]))
        pairs, first, code = np.unique(
            np.stack([sample, query]), axis=1, return_index=True, return_inverse=True
        )
        names = np.array(
            [f"{s}{_MARK}{qids[q]}" for s, q in zip(*pairs.tolist(), strict=True)], dtype=object
        )
        original = dict(zip(names, map(str, qids[pairs[1]]), strict=True))
        number = dict(zip(names, pairs[0].tolist(), strict=True))
        with (
            with_qids(original),
            changed(ranking_of=lambda qid: (original.get(qid, qid), number.get(qid, 0))),
        ):
            part = self._applied(plain.assign(**{QID: names[np.ravel(code)]}))
        require_columns(part, [QID], f"the output of {self._name()}")
        pair = pd.Index(names).get_indexer(pd.Index(part[QID]))
        if (pair < 0).any():
            raise InputError(
                f"{self._name()} must return the queries of its input with joint=True, got qid "
                f"{part[QID].iloc[int(np.argmin(pair))]!r}"
            )
        restored = part.assign(**{QID: plain[QID].take(first[pair]).array})
        return self._returned(restored, sample[first[pair]])

    def _returned(self, part: pd.DataFrame, number: Any) -> pd.DataFrame:
        where = f"the output of {self._name()}"
        require_columns(part, [QID], where)
        if SAMPLE in part.columns:
            raise InputError(f"{where} must not have the column {SAMPLE!r}; do not sample again")
        samples = np.broadcast_to(np.asarray(number, dtype=np.int64), (len(part),))
        return part.assign(**{SAMPLE: samples.copy()})

    def _name(self) -> str:
        return f"{type(self.transformer).__name__} in PerSample"


class SingleDocumentSampler(FairTransformer):
    """R -> S: one ranking per document, with this document only.

    A generator after it answers from each document alone. *Towards Fair RAG* determines useful
    documents this way (appendix B, algorithm 1).

    Input: ``qid``, ``docno``, ``score`` and any other columns; one ranking per query. Output: the
    same rows, by query and rank, with ``sample`` = the document's rank in the run, from 0, and
    ``rank`` = 0.

    Raises:
        ColumnError: a column is missing, or the run is sampled.
        DuplicateError: duplicate document for a query.
    """

    identity_name = "fairtk.SingleDocumentSampler"
    output_version = 1

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Return the rankings."""
        run = self.plain_run(inp)
        out = inp.take(run.order).reset_index(drop=True)
        return out.assign(**{RANK: np.int64(0), SAMPLE: run.position.astype(np.int64)})


class IgnoreIdenticalIds(FairTransformer):
    """R -> R: the run without documents whose docno is the qid.

    In some collections, queries are documents, e.g. in ArguAna and Quora of BEIR, whose evaluation
    leaves them out (``ignore_identical_ids``). Use it before a sampler, because FairSampler scales
    scores by the highest one, which a query usually gets for itself. Sampled runs are accepted. For
    labels, write ``qrels[qrels.qid != qrels.docno]``.

    Input: ``qid``, ``docno`` and any other columns; with ``parent``, documents are parents. Output:
    the other rows; the ``rank`` of a run with scores is counted again.

    Raises:
        InputError: in `transform`, a column is missing, or an id is invalid.
    """

    identity_name = "fairtk.IgnoreIdenticalIds"
    output_version = 1
    is_cheap = True

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Return the other rows."""
        self.check_inputs(inp, [QID, DOCNO])
        run = Run(inp, type(self).__name__).without_identical_ids()
        return run.frame.reset_index(drop=True)
