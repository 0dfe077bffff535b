"""Samplers: from a run to the frame S, rankings drawn from a policy; transformers applied to each
sample or document.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyterrier as pt

from fairtk import checks
from fairtk.errors import DataWarning, InputError, ParameterError, listed
from fairtk.exposure import DCG, draw_rankings, expected_attention, score_gaps, total
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
    require,
)
from fairtk.frames.columns import as_numbers, plain_columns
from fairtk.frames.runs import order_by
from fairtk.transformers.base import FairTransformer

_WIDE = 1e-3
"""How far from the wanted value a value may be, on a scale of 0 to 1; what is not is warned of."""
_TRIED = 0.1 * 1.15 ** np.arange(64)  # up to 660
"""Alphas at which the relevance that is left is looked at where it may fall as alpha rises."""
_REFINED = 16
"""Halvings of the range of alpha between two of them, at most."""

Worth = Callable[[FloatArray, IntArray, IntArray], FloatArray]


class Calibration:
    """What a sampler is wanted to do; see `fairtk.FairSampler` for the settings.

    Raises:
        ParameterError: a setting is out of its range, or they do not go together.
        InputError: the labels are broken.
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
            rule = "lie in (0, 1] (normalized EE_D; 1 is that of a fixed ranking)"
            self.target_disparity = checks.number(
                "target_disparity", target_disparity, where, 0, 1, "(]", rule
            )
        if max_relevance_loss is not None:
            rule = "lie in [0, 1) (the share of nDCG that may be lost; 0.05 is 5 %)"
            self.max_relevance_loss = checks.number(
                "max_relevance_loss", max_relevance_loss, where, 0, 1, "[)", rule
            )
        if (max_relevance_loss is None) != (relevance is None):
            raise ParameterError(
                f"{where}: `max_relevance_loss` and `relevance` go together: `relevance` is labels "
                "(qid, docno, label), or 'scores' to trust the scores of the run"
            )
        if isinstance(relevance, str) and relevance != "scores":
            raise ParameterError(
                f"{where}: relevance must be labels (qid, docno, label) or 'scores'; found "
                f"{relevance!r}"
            )
        self.relevance = relevance
        if relevance is not None and not isinstance(relevance, str):
            self.relevance = Qrels(relevance, where).plain()  # in one form: equal if the labels are
        if cutoff is None:
            aim = "max_relevance_loss" if target_disparity is None else "target_disparity"
            raise ParameterError(
                f"{where}: `{aim}` needs a cutoff, the number of documents that are read; give "
                "e.g. `cutoff=5`"
            )
        self.cutoff = cutoff

    def find(self, run: Run, score: FloatArray) -> pd.DataFrame:
        """Return the alpha of each query; warn of queries where what is wanted cannot be had.

        Returns:
            ``alpha``, ``value`` (the exact value there), ``wanted`` and ``reached`` (a disparity
            within 0.001, a share of nDCG not more than 0.001 below), one row per query.
        """
        if self.target_disparity is not None:
            result = self._to_disparity(run, score, self.target_disparity)
        else:
            result = self._to_relevance(run, score, float(self.max_relevance_loss or 0))
        missed = ~result["reached"].to_numpy()
        self._warn(run, missed, "cannot be reached for {}, for which the nearest is taken: {}")
        return result

    def _to_disparity(self, run: Run, score: FloatArray, target: float) -> pd.DataFrame:
        """Return alphas whose exact EE-D (MU, the paper's bounds, normalized) is the target."""
        size = np.diff(run.ranking_start)
        highest = np.minimum(size, self.cutoff)

        def worth(exposure: FloatArray, row: IntArray, query: IntArray) -> FloatArray:
            disparity = total(run.ranking[row], exposure**2, len(size))
            return np.asarray(disparity[query] / highest[query])

        aim = np.full(len(size), target)
        weight = np.ones(self.cutoff)
        values, even, steep = _values(run, score, weight, worth)
        alpha, value = find_alphas(values, even, steep, aim - _WIDE / 2, aim + _WIDE / 2)
        missed = (np.abs(value - target) > _WIDE) & (steep >= target)
        _look_below(values, np.flatnonzero(missed), aim - _WIDE / 2, alpha, value)
        return _calibrated(alpha, value, aim, np.abs(value - target) <= _WIDE)

    def _to_relevance(self, run: Run, score: FloatArray, loss: float) -> pd.DataFrame:
        """Return the smallest alphas that keep the ranking's nDCG but for the loss.

        Where no document has more gain than one of a higher score, what is kept rises with alpha.
        Elsewhere it may fall in between, and alphas that are smaller, or nearer, are looked for.
        """
        weight = RankWeights.of(DCG(), self.cutoff, self.cutoff).weight
        gain = self._gain(run, score)
        n_queries = len(run.ranking_start) - 1
        attention = np.append(weight, 0.0)[np.minimum(run.position, self.cutoff)]
        fixed = total(run.ranking, attention * gain, n_queries)
        nothing = fixed <= 0
        self._warn(
            run,
            nothing,
            "means nothing for {}, in whose ranking nothing is relevant; the uniform policy is "
            "taken: {}",
        )
        whole = np.where(nothing, 1.0, fixed)

        def worth(exposure: FloatArray, row: IntArray, query: IntArray) -> FloatArray:
            share = total(run.ranking[row], exposure * gain[row], n_queries)[query] / whole[query]
            return np.where(nothing[query], 1.0, share)

        aim = np.full(n_queries, 1.0 - loss)
        values, even, steep = _values(run, score, weight, worth)
        alpha, value = find_alphas(values, even, steep, aim, aim + _WIDE)
        same = run.ranking[1:] == run.ranking[:-1]
        hard = (alpha > 0) & (value > aim + _WIDE)  # still too steep
        hard[run.ranking[1:][same & (np.diff(gain) > 0)]] = True
        _look_below(values, np.flatnonzero(hard), aim, alpha, value)
        return _calibrated(alpha, value, aim, value >= aim - _WIDE)

    def _gain(self, run: Run, score: FloatArray) -> FloatArray:
        """Return the gain of each sorted row: its label, or its score scaled to [0, 1].

        Where all scores are equal all documents are equally relevant.
        """
        if self._labels is not None:
            return np.maximum(np.nan_to_num(self._labels.labels_of(run)), 0.0)
        start = run.ranking_start
        half = score / 2  # so that no difference overflows
        low = half[start[1:] - 1][run.ranking]
        spread = half[start[:-1]][run.ranking] - low
        return np.where(spread > 0, (half - low) / np.where(spread > 0, spread, 1.0), 1.0)

    @cached_property
    def _labels(self) -> Qrels | None:
        frame = self.relevance
        return Qrels(frame, self.where) if isinstance(frame, pd.DataFrame) else None

    def _warn(self, run: Run, mask: BoolArray, what: str) -> None:
        if mask.any():
            aim = f"max_relevance_loss={self.max_relevance_loss}"
            if self.target_disparity is not None:
                aim = f"target_disparity={self.target_disparity}"
            n, qids = int(mask.sum()), listed(run.qids[run.ranking_query][mask])
            text = what.format(f"{n} of {len(mask)} queries", qids)
            warnings.warn(f"{self.where}: {aim} {text}", DataWarning, stacklevel=4)


def _calibrated(*columns: FloatArray | BoolArray) -> pd.DataFrame:
    return pd.DataFrame(dict(zip(("alpha", "value", "wanted", "reached"), columns, strict=True)))


def _values(
    run: Run, score: FloatArray, weight: FloatArray, worth: Worth
) -> tuple[Values, FloatArray, FloatArray]:
    """Return what gives values of queries at alphas, by exact exposure, and the values at the ends.

    The ends are the uniform policy and the limit of large alpha; see
    `fairtk.exposure.exact.find_alphas`.
    """
    start, rows = run.ranking_start, np.arange(len(score))
    queries = np.arange(len(start) - 1)

    def values(alpha: FloatArray, query: IntArray) -> FloatArray:
        chosen = np.zeros(len(queries), dtype=bool)
        chosen[query] = True  # ascending, as `query` is
        row = rows[chosen[run.ranking]]
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
    """Look for smaller alphas of some queries with enough value, or for nearer ones if none has.

    Args:
        values: values of some queries at an alpha each.
        query: the queries, ascending.
        aim: the least value that is wanted; shape (n_queries,).
        alpha: of each query; set anew where one is better.
        value: there; set anew, too.
    """
    before = 0.0
    for tried in _TRIED.tolist():
        if not len(query):
            return
        short = value[query] < aim[query] - _WIDE
        here = np.where(short, tried, np.minimum(tried, alpha[query]))
        now = values(here, query)
        enough = now >= aim[query]
        last = ~short & (alpha[query] <= tried)
        nearer = enough | short & (now > value[query])
        alpha[query[nearer]], value[query[nearer]] = here[nearer], now[nearer]
        settled, query = query[enough], query[~enough & ~last]
        low = np.full(len(settled), before)  # where the value is too small
        for _ in range(_REFINED):
            wide = value[settled] > aim[settled] + _WIDE
            settled, low = settled[wide], low[wide]
            if not len(settled):
                break
            middle = (low + alpha[settled]) / 2
            now = values(middle, settled)
            enough = now >= aim[settled]
            alpha[settled[enough]], value[settled[enough]] = middle[enough], now[enough]
            low[~enough] = middle[~enough]
        before = tried


class Sampler(FairTransformer):
    """What samplers share: how many rankings are drawn from which run, and from which numbers."""

    method = "independent"
    """How rankings are drawn: one of `fairtk.exposure.plackett_luce.METHODS`."""

    def __init__(self, n_samples: int, cutoff: int | None, seed: int) -> None:
        name = type(self).__name__
        self.n_samples = checks.whole("n_samples", n_samples, name)
        self.cutoff = checks.cutoff(cutoff, name)
        self.seed = checks.whole("seed", seed, name, least=None)

    def policy(self, inp: pd.DataFrame) -> tuple[Run, IntArray, FloatArray]:
        """Return a run as it is drawn from: encoded, its order, and the gaps of its log-weights.

        Returns:
            The run; row number in `inp` of each sorted row, other than ``run.order`` only within
            queries; and gaps (see `fairtk.exposure.score_gaps`).
        """
        raise NotImplementedError(f"{type(self).__name__} must define policy")

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Return `n_samples` rankings per query of the run."""
        return self.drawn(inp, *self.policy(inp))

    def drawn(self, inp: pd.DataFrame, run: Run, order: IntArray, gaps: FloatArray) -> pd.DataFrame:
        """Return rankings drawn from a run as a frame, sorted by query, sample and rank.

        Args:
            inp: the run R that is sampled from.
            run: as `policy` gives it; likewise `order` and `gaps`.
            order: see there.
            gaps: see there.

        Returns:
            The columns of `inp`, of which ``score`` and ``rank`` are set anew, and ``sample``.
            Scores are n, n - 1, n - 2, ... for a query with n documents: they give the order and
            nothing else, whatever is cut off, and are positive, since some evaluators take 0 for
            "not retrieved".
        """
        keys, start = run.qids[run.ranking_query].tolist(), run.ranking_start
        draws = draw_rankings(
            gaps, start, keys, self.n_samples, self.cutoff, self.seed, self.method
        )
        size = np.diff(start).astype(np.float64)[run.ranking[draws.row]]
        fresh = {SCORE: size - draws.rank, RANK: draws.rank, SAMPLE: draws.sample}
        others = inp.drop(columns=[c for c in fresh if c in inp.columns])
        # one take for all other columns; the columns then return to their places
        result = others.take(order[draws.row]).reset_index(drop=True)
        for place, column in enumerate([*inp.columns, *(c for c in fresh if c not in inp.columns)]):
            if column in fresh:
                result.insert(place, column, fresh[column])
        return result


class FairSampler(Sampler):
    """Draws rankings from a Plackett-Luce policy: R -> S (*Towards Fair RAG*, Eqs. 1 and 2).

    The scores of each query are min-max scaled to [1, 2], raised to ``alpha``, and used as
    log-weights: a document is drawn next with probability proportional to exp(scaled ** alpha)
    among those not drawn yet. That is all it does: exposure is spread by chance and score, and no
    group of documents is looked after.

    * ``alpha`` is an exponent, the opposite of a temperature: 0 is uniform, larger is closer to the
      deterministic ranking. It is exact at every size: two tied documents share each other's
      places evenly, however far they are behind the first.
    * All scores equal is uniform; fewer documents than ``cutoff`` gives all of them.
    * The random numbers of a query come from (seed, qid) alone, and its documents are taken in the
      order of score and docno. The rankings are therefore the same whatever the batch, the order
      of rows, the ranks given to ties, or the other queries.
    * ``n_samples`` and ``cutoff`` only truncate: the first 10 of 100 samples are the samples of
      ``n_samples=10``, and a ranking at ``cutoff=5`` is the top of the one without cutoff.
    * ``method="stratified"`` spreads the random numbers of a query evenly over its samples
      (scrambled Sobol points). Each ranking by itself has the same law, so expectations stay, and
      means over the samples vary less (EE-D most). The samples are no longer independent: their
      standard errors are mostly too large, and ``EE_D(estimator="unbiased")`` takes away more than
      sampling added.
    * ``target_disparity`` or ``max_relevance_loss`` state what is wanted in place of alpha, and the
      alpha of each query is found from exact values (`calibrated`), to within 0.001 of the value.
      What cannot be reached is warned of and the nearest taken; no policy is below a disparity of
      k / n at cutoff k. Then the cutoff does more than truncate: alpha depends on it.

    Input: ``qid``, ``docno``, ``score`` and any other columns; one ranking per query. Output: the
    same columns and ``rank`` and ``sample``; one row per query, sample and rank, in that order.
    ``score`` becomes n, n - 1, ... by rank, for a query with n documents.

    Args:
        alpha: exponent on the scaled scores, >= 0: 0 is uniform, larger is closer to the run.
            None: 1, unless a target below takes its place.
        n_samples: rankings per query, >= 1; 1 is the setting for serving users.
        cutoff: documents per ranking, >= 1. None: all.
        seed: the seed, any integer; the draws of a query depend on it and on the qid alone.
        method: how rankings are drawn: ``"independent"`` or ``"stratified"`` (means over the
            samples vary less).
        target_disparity: instead of alpha, the EE_D@cutoff of the rankings (normalized, MU, the
            paper's bounds), in (0, 1]; 1 is that of the run itself.
        max_relevance_loss: instead of alpha, the share of the run's own nDCG@cutoff that may be
            lost in expectation, in [0, 1); 0.05 is 5 %. The most even policy that keeps the rest is
            drawn from, also where what is kept falls and rises with alpha: the smallest of many
            alphas. Tied scores are in the order of ``rank`` in the run's own ranking, or of docno,
            descending; policies draw among them.
        relevance: goes with it: labels (``qid``, ``docno``, ``label``), or ``"scores"``, which
            trusts the scores of the run, scaled to [0, 1] in each query.

    Raises:
        ParameterError: a setting is out of its range, or settings exclude each other.
        NotFoundError: there is no such method.
        InputError: in `transform`, for a missing column, a run that is sampled already, a NaN or
            infinite score, a duplicate document, or ranks that contradict the scores.
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
        self.method = checks.known("method of FairSampler", method, METHODS)
        name = type(self).__name__
        aims = [
            ("alpha", alpha),
            ("target_disparity", target_disparity),
            ("max_relevance_loss", max_relevance_loss),
        ]
        chosen = [aim for aim, value in aims if value is not None]
        if len(chosen) > 1:
            raise ParameterError(
                f"{name}: {' and '.join(f'`{aim}`' for aim in chosen)} exclude each other, as each "
                "says how even the policy is; give one"
            )
        self.alpha: Any = None  # a number unless there is a calibration
        self.target_disparity = self.max_relevance_loss = self.relevance = None
        self._calibration: Calibration | None = None
        if chosen in ([], ["alpha"]) and relevance is None:
            self.alpha = checks.exponent(1 if alpha is None else alpha, name)
        else:
            aim = Calibration(name, self.cutoff, target_disparity, max_relevance_loss, relevance)
            self._calibration = aim
            self.target_disparity = aim.target_disparity
            self.max_relevance_loss, self.relevance = aim.max_relevance_loss, aim.relevance

    def settings(self) -> dict[str, Any]:
        """Return the settings, without those that are not used: results kept before stay."""
        settings = super().settings()
        if self.method == "independent":
            del settings["method"]
        always = ("n_samples", "cutoff", "seed")
        return {name: v for name, v in settings.items() if v is not None or name in always}

    def policy(self, inp: pd.DataFrame) -> tuple[Run, IntArray, FloatArray]:
        """Return a run as it is drawn from; see `Sampler`."""
        run = self.plain_run(inp)
        score = as_numbers(inp[SCORE])[run.order]
        order = order_by((-score, run.ranking), lambda rows: (run.doc[rows], run.docnos), False)
        alpha = self.alpha
        if self._calibration is not None:
            alpha = self._calibration.find(run, score)["alpha"].to_numpy()
        return run, run.order[order], score_gaps(score, run.ranking_start, alpha)

    def calibrated(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Return the alpha of each query of a run, and what it reaches, without drawing.

        Returns:
            ``qid``, ``alpha``, ``value`` (exact EE_D, or the share of the run's nDCG that is kept),
            ``wanted`` and ``reached``; of a sampler with a fixed alpha ``qid`` and ``alpha`` alone.
        """
        run = self.plain_run(inp)
        result = pd.DataFrame({QID: run.qids[run.ranking_query]})
        if self._calibration is None:
            return result.assign(alpha=self.alpha)
        score = as_numbers(inp[SCORE])[run.order]
        return pd.concat([result, self._calibration.find(run, score)], axis=1)


class OracleSampler(Sampler):
    """Ranks useful documents first, each block uniformly shuffled: R -> S.

    The optimal policy of expected exposure (*Towards Fair RAG*, section 3.3; Diaz et al. 2020):
    grades in descending order, and within a grade every order equally likely. A document without a
    label, or with a label of at most 0, is not useful. Scores of the run are not looked at.

    Random numbers come from (seed, qid) alone, as in `FairSampler`, and ``n_samples`` and
    ``cutoff`` only truncate.

    Input: ``qid``, ``docno``, ``score`` and any other columns; one ranking per query. Output: the
    same columns and ``rank`` and ``sample``; ``score`` becomes n, n - 1, ... by rank, for a query
    with n documents.

    Args:
        qrels: labels: ``qid``, ``docno``, ``label`` (utility or relevance; larger is better).
            Other columns are ignored, also for equality of two samplers.
        n_samples: rankings per query, >= 1.
        cutoff: documents per ranking, >= 1; None for all.
        seed: the seed, any integer.

    Raises:
        ParameterError: a setting is out of its range.
        InputError: the qrels lack a column, repeat a (qid, docno) or have a label that is not a
            finite number; in `transform`, the run is broken.
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
        # in one form: equal labels, equal samplers
        self.qrels = Qrels(qrels, type(self).__name__).plain()

    def policy(self, inp: pd.DataFrame) -> tuple[Run, IntArray, FloatArray]:
        """Return a run as it is drawn from; see `Sampler`."""
        run = self.plain_run(inp)
        within, gaps = useful_first(run, self._labels)
        return run, run.order[within], gaps

    @cached_property
    def _labels(self) -> Qrels:
        return Qrels(self.qrels, type(self).__name__)


def useful_first(run: Run, labels: Qrels) -> tuple[IntArray, FloatArray]:
    """Return the sorted rows of a run, useful ones first, and the gaps between their grades.

    Returns:
        Sorted rows by query, grade and docno, and `SURE` where a grade ends within a query, 0
        elsewhere; see `fairtk.exposure.score_gaps`.
    """
    grade = np.maximum(np.nan_to_num(labels.labels_of(run)), 0.0)
    within = order_by((-grade, run.query), lambda rows: (run.doc[rows], run.docnos), False)
    gaps = np.zeros(len(grade))
    gaps[1:] = np.where(grade[within][1:] < grade[within][:-1], SURE, 0.0)
    gaps[run.ranking_start[:-1]] = 0.0
    return within, gaps


# between sample and qid of a temporary qid; the digits before the first one are the sample
_MARK = ":"


class PerSample(FairTransformer):
    """Applies a transformer to each sample of a sampled run on its own: S -> S.

    For rerankers, readers and any other transformer that groups its input by ``qid`` and would mix
    the samples of a query. The transformer sees plain runs, without the column ``sample``; it may
    change scores and ranks, drop rows or add columns. Its rows come back in its own order within
    each (qid, sample). A frame without samples is passed to the transformer as it is. A reader that
    returns one row per query, as pyterrier_rag's do, has its answer (``qanswer``, and what else it
    adds) put on every row of the ranking that it read, so that documents are not lost.

    By default the transformer runs once per sample, on all queries, with their own qids: right for
    every transformer, also for one that looks qids up. ``joint=True`` runs it once in all, with a
    temporary qid for each (qid, sample). That gives a neural model full batches, but is only right
    where a qid is nothing but a label.

    Args:
        transformer: the transformer to apply.
        joint: whether all samples go through the transformer in one call.

    Raises:
        ParameterError: `transformer` is not a PyTerrier transformer.
        InputError: in `transform`, if ``sample`` is not a whole number in every row, or if the
            transformer returns rows without the ``qid`` they belong to.
    """

    identity_name = "fairtk.PerSample"
    output_version = 1
    SETTINGS = ("transformer", "joint")

    def __init__(self, transformer: pt.Transformer, joint: bool = False) -> None:
        if not isinstance(transformer, pt.Transformer):
            raise ParameterError(
                "PerSample needs a PyTerrier transformer; found "
                f"{type(transformer).__name__} (pt.apply makes one of a function)"
            )
        self.transformer = transformer
        self.joint = bool(joint)

    def __eq__(self, other: object) -> bool:
        # by the transformers' own equality: what they print may leave settings out
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
        """Return what the transformer makes of each sample."""
        plain_columns(inp, "PerSample")
        if SAMPLE not in inp.columns:
            return self._applied(inp)
        self.check_inputs(inp, [QID])
        run = Run(inp, "PerSample")
        sample: Any = run.samples
        if {DOCNO, SCORE} <= {*inp.columns}:
            run.order  # noqa: B018 - sorted, so that what is twice is refused
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
                part = self._applied(plain.take(rows).reset_index(drop=True))
                parts.append(self._returned(part, number))
            filled = [part for part in parts if len(part)] or parts[:1]
            result = pd.concat(filled, ignore_index=True)
        unknown = ~result[QID].isin(qids)
        if unknown.any():
            raise InputError(
                f"{self._name()} returned the qid {result[QID][unknown].iloc[0]!r}, which is not "
                "in its input; PerSample needs a transformer that keeps qids"
            )
        place = np.lexsort((result[SAMPLE].to_numpy(), qids.get_indexer(pd.Index(result[QID]))))
        return result.take(place).reset_index(drop=True)

    def _applied(self, plain: pd.DataFrame) -> pd.DataFrame:
        """Return the transformer's output; a reader's answers on every row of their rankings."""
        out: pd.DataFrame = self.transformer.transform(plain)
        if DOCNO not in plain.columns or DOCNO in out.columns or QANSWER not in out.columns:
            return out
        require(out, [QID], f"the output of {self._name()}")
        twice = out[QID].duplicated().to_numpy()
        if twice.any():
            raise InputError(
                f"{self._name()} gave several answers for the qid {out[QID][twice].iloc[0]!r}; "
                "a reader gives one for each ranking"
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
        part = self._applied(plain.assign(**{QID: names[np.ravel(code)]}))
        require(part, [QID], f"the output of {self._name()}")
        pair = pd.Index(names).get_indexer(pd.Index(part[QID]))
        if (pair < 0).any():
            raise InputError(
                f"{self._name()} returned the qid {part[QID].iloc[int(np.argmin(pair))]!r}, which "
                "is not in its input; PerSample(..., joint=True) needs a transformer that keeps "
                "qids"
            )
        restored = part.assign(**{QID: plain[QID].take(first[pair]).array})
        return self._returned(restored, sample[first[pair]])

    def _returned(self, part: pd.DataFrame, number: Any) -> pd.DataFrame:
        """Return the transformer's output with the sample it belongs to."""
        where = f"the output of {self._name()}"
        require(part, [QID], where)
        if SAMPLE in part.columns:
            raise InputError(f"{where} has a column {SAMPLE!r} already; it must not sample again")
        samples = np.broadcast_to(np.asarray(number, dtype=np.int64), (len(part),))
        return part.assign(**{SAMPLE: samples.copy()})

    def _name(self) -> str:
        return f"{type(self.transformer).__name__} in PerSample"


class EachDocument(FairTransformer):
    """R -> S: as many rankings per query as it has documents, each of one document.

    A generator behind it answers from every document alone, which is how *Towards Fair RAG* finds
    out which documents are useful (appendix B, algorithm 1).

    Input: ``qid``, ``docno``, ``score`` and any other columns; one ranking per query. Output: the
    same rows, by query and rank, with ``sample`` = the document's rank in the run, from 0, and
    ``rank`` = 0.

    Raises:
        ColumnError: a column is missing, or the run is sampled already.
        DuplicateError: a document occurs twice for a query.
    """

    identity_name = "fairtk.EachDocument"
    output_version = 1

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Return the rankings."""
        run = self.plain_run(inp)
        out = inp.take(run.order).reset_index(drop=True)
        return out.assign(**{RANK: np.int64(0), SAMPLE: run.position.astype(np.int64)})
