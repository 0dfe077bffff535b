"""Samplers: from a run to the frame S, rows of the run once per sample that places them."""

from __future__ import annotations

import numpy as np
import pandas as pd

from fairtk.frames.arrays import FloatArray, IntArray
from fairtk.frames.columns import RANK, SAMPLE, SCORE
from fairtk.frames.rankings import Rankings
from fairtk.plackett_luce import Draws, draw_rankings
from fairtk.transformers.base import FairTransformer
from fairtk.transformers.settings import depth, whole


class Sampler(FairTransformer):
    """What samplers share: how many rankings are drawn from which run, and from which numbers."""

    method = "independent"
    """How rankings are drawn: one of `fairtk.plackett_luce.METHODS`."""

    def __init__(self, n_samples: int, cutoff: int | None, seed: int) -> None:
        name = type(self).__name__
        self.n_samples = whole("n_samples", n_samples, name)
        self.cutoff = depth(cutoff, name)
        self.seed = whole("seed", seed, name, least=None)

    def drawn(
        self, inp: pd.DataFrame, run: Rankings, order: IntArray, gaps: FloatArray
    ) -> pd.DataFrame:
        """Return rankings of a run; see `sampled_frame` and `fairtk.plackett_luce.score_gaps`."""
        keys = run.qids[run.ranking_query].tolist()
        start = run.ranking_start
        draws = draw_rankings(
            gaps, start, keys, self.n_samples, self.cutoff, self.seed, self.method
        )
        return sampled_frame(inp, run, order, draws)


def sampled_frame(inp: pd.DataFrame, run: Rankings, order: IntArray, draws: Draws) -> pd.DataFrame:
    """Return the drawn rankings as a frame, sorted by query, sample and rank.

    Args:
        inp: the run R that was sampled from.
        run: the same run, encoded.
        order: row number in `inp` of each sorted row; other than `run.order` only within queries.
        draws: rankings as numbers of sorted rows.

    Returns:
        The columns of `inp`, of which ``score`` and ``rank`` are set anew, and ``sample``. Scores
        are n, n - 1, n - 2, ... for a query with n documents: they give the order and nothing else,
        whatever is cut off, and are positive, since some evaluators take 0 for "not retrieved".
    """
    fresh = {
        SCORE: np.diff(run.ranking_start).astype(np.float64)[run.ranking[draws.row]] - draws.rank,
        RANK: draws.rank,
        SAMPLE: draws.sample,
    }
    kept = inp.drop(columns=[c for c in fresh if c in inp.columns])
    # one take for all other columns; the columns then return to their places
    result = kept.take(order[draws.row]).reset_index(drop=True)
    for place, column in enumerate([*inp.columns, *(c for c in fresh if c not in inp.columns)]):
        if column in fresh:
            result.insert(place, column, fresh[column])
    return result
