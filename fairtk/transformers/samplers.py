"""Settings that a person can state, a disparity or a loss of relevance, as an alpha per query."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from fairtk.errors import DataWarning, ParameterError, listed
from fairtk.exposure import DCG, RankWeights, total
from fairtk.frames.arrays import BoolArray, FloatArray, IntArray
from fairtk.frames.qrels import Qrels
from fairtk.frames.rankings import Rankings
from fairtk.plackett_luce import SURE, expected_attention, find_alphas, score_gaps

_HALF = 5e-4
"""How far from the wanted value the search ends, on a scale of 0 to 1."""
_NEAR = 0.01
"""A disparity that is further from the wanted one is said to be out of reach."""

Worth = Callable[[FloatArray, IntArray, IntArray], FloatArray]


@dataclass(frozen=True)
class Calibrated:
    """What a calibration found; arrays have shape (n_queries,)."""

    alpha: FloatArray  # exponent of each query
    value: FloatArray  # the exact value there
    wanted: FloatArray
    reached: BoolArray  # a disparity within 0.01, a share of nDCG within 0.0015


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
            self.target_disparity = self._share("target_disparity", target_disparity)
        if max_relevance_loss is not None:
            self.max_relevance_loss = self._share("max_relevance_loss", max_relevance_loss)
        if (max_relevance_loss is None) != (relevance is None):
            raise ParameterError(
                f"{where}: max_relevance_loss and relevance go together: relevance is labels (qid, "
                "docno, label), or 'scores' to trust the scores of the run"
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
                f"{where}: {aim} needs a cutoff, the number of documents that are read: write "
                f"{where}({aim}=..., cutoff=5)"
            )
        self.cutoff = cutoff

    def find(self, run: Rankings, score: FloatArray) -> Calibrated:
        """Return the alpha of each query; warn of queries where what is wanted cannot be had."""
        if self.target_disparity is not None:
            found = self._to_disparity(run, score, self.target_disparity)
        else:
            found = self._to_relevance(run, score, float(self.max_relevance_loss or 0))
        self._warn(
            run, ~found.reached, "cannot be reached for {}, for which the nearest is taken: {}"
        )
        return found

    def _to_disparity(self, run: Rankings, score: FloatArray, target: float) -> Calibrated:
        """Return alphas whose exact EE-D (MU, the paper's bounds, normalized) is the target."""
        size = np.diff(run.ranking_start)
        highest = np.minimum(size, self.cutoff)

        def worth(exposure: FloatArray, row: IntArray, query: IntArray) -> FloatArray:
            disparity = total(run.ranking[row], exposure**2, len(size))
            return np.asarray(disparity[query] / highest[query])

        wanted = np.full(len(size), target)
        weight = np.ones(self.cutoff)
        alpha, value = _search(run, score, weight, worth, wanted - _HALF, wanted + _HALF)
        return Calibrated(alpha, value, wanted, np.abs(value - target) <= _NEAR)

    def _to_relevance(self, run: Rankings, score: FloatArray, loss: float) -> Calibrated:
        """Return the smallest alphas that keep the ranking's nDCG but for the loss."""
        weight = RankWeights.of(DCG(), self.cutoff, self.cutoff).weight
        gain = self._gain(run, score)
        n_queries = len(run.ranking_start) - 1
        shown = np.append(weight, 0.0)[np.minimum(run.position, self.cutoff)]
        fixed = total(run.ranking, shown * gain, n_queries)
        nothing = fixed <= 0
        self._warn(
            run,
            nothing,
            "means nothing for {}, in whose ranking nothing is relevant; the uniform policy is "
            "taken: {}",
        )
        whole = np.where(nothing, 1.0, fixed)

        def worth(exposure: FloatArray, row: IntArray, query: IntArray) -> FloatArray:
            kept = total(run.ranking[row], exposure * gain[row], n_queries)[query] / whole[query]
            return np.where(nothing[query], 1.0, kept)

        wanted = np.full(n_queries, 1.0 - loss)
        alpha, value = _search(run, score, weight, worth, wanted, wanted + 2 * _HALF)
        return Calibrated(alpha, value, wanted, value > wanted - 3 * _HALF)

    def _gain(self, run: Rankings, score: FloatArray) -> FloatArray:
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

    def _share(self, name: str, value: Any) -> float:
        disparity = name == "target_disparity"
        number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
        if number and (0 < value <= 1 if disparity else 0 <= value < 1):
            return float(value)
        interval, means = (
            ("(0, 1]", "normalized EE_D; 1 is that of a fixed ranking")
            if disparity
            else ("[0, 1)", "the share of nDCG that may be lost; 0.05 is 5 %")
        )
        raise ParameterError(
            f"{self.where}: {name} must lie in {interval} ({means}); found {value!r}"
        )

    def _warn(self, run: Rankings, mask: BoolArray, what: str) -> None:
        if mask.any():
            aim = f"max_relevance_loss={self.max_relevance_loss}"
            if self.target_disparity is not None:
                aim = f"target_disparity={self.target_disparity}"
            said = what.format(
                f"{int(mask.sum())} of {len(mask)} queries",
                listed(run.qids[run.ranking_query][mask]),
            )
            warnings.warn(f"{self.where}: {aim} {said}", DataWarning, stacklevel=4)


def _search(
    run: Rankings,
    score: FloatArray,
    weight: FloatArray,
    worth: Worth,
    low: FloatArray,
    high: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Return the alpha of each query and its value, by exact exposure; see `find_alphas`."""
    start, rows, queries = run.ranking_start, np.arange(len(score)), np.arange(len(low))

    def values(alpha: FloatArray, query: IntArray) -> FloatArray:
        chosen = np.zeros(len(low), dtype=bool)
        chosen[query] = True  # ascending, as `query` is
        row = rows[chosen[run.ranking]]
        begin = np.concatenate([[0], np.cumsum(np.diff(start)[query])])
        gaps = score_gaps(score[row], begin, alpha)
        return worth(expected_attention(gaps, begin, weight), row, query)

    even = expected_attention(np.zeros(len(score)), start, weight)
    apart = np.where(score_gaps(score, start, 1.0) > 0, SURE, 0.0)
    steep = expected_attention(apart, start, weight)
    ends = worth(even, rows, queries), worth(steep, rows, queries)
    return find_alphas(values, *ends, low, high)
