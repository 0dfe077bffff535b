"""The frame S that samplers return: rows of a run, once per sample that places them."""

from __future__ import annotations

import numpy as np
import pandas as pd

from fairtk.errors import ColumnError
from fairtk.frames.arrays import IntArray
from fairtk.frames.columns import RANK, SAMPLE, SCORE
from fairtk.frames.rankings import Rankings
from fairtk.plackett_luce import Draws


def refuse_sampled(inp: pd.DataFrame, where: str) -> None:
    """Raise unless the run has one ranking per query, without the column ``sample``."""
    if SAMPLE in inp.columns:
        raise ColumnError(
            f"{where} expects one ranking per query, but the run has the column {SAMPLE!r}: it is "
            "sampled already; sample the retriever's run, or drop the column from a single sample"
        )


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
