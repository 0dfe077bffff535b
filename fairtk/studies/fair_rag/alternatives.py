"""What the study's figures show, in words that carry the values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd

from fairtk.studies.fair_rag.points import ALPHA, EE_D, EE_R, EU, models


def trade_off_words(values: pd.DataFrame, x: str, y: str, said: str) -> str:
    """Return the text alternative of `plot_trade_off`: the means of each retriever's points.

    Args:
        values: of one task and generator; see `points`.
        x: the measure across.
        y: the measure upward.
        said: what the figure shows.
    """
    lines = [
        f"{retriever}: " + _at_each_alpha(wide[[x, y]].dropna(), pd.DataFrame.mean)
        for (_, retriever, _), wide in models(values, "trade_off_words")
    ]
    head = f"Line chart of {said}, a line per retriever from alpha to alpha."
    return f"{head} Means of {x} and {y}. {'. '.join(lines)}."


def spread_words(values: pd.DataFrame, measures: tuple[str, ...] = (EE_D, EE_R, EU)) -> str:
    """Return the text alternative of `plot_spread`: quartiles of the queries at each alpha.

    Args:
        values: of one model; see `points`.
        measures: those that are drawn.
    """
    [(_, wide)] = models(values, "spread_words")
    lines = [
        f"{measure}: "
        + _at_each_alpha(wide[[measure]].dropna(), lambda part: part.quantile([0.25, 0.5, 0.75]))
        for measure in measures
    ]
    head = "Boxes of disparity, ranking quality and utility at each alpha, a dot per query."
    return f"{head} Lower quartile, median and upper quartile of {'. '.join(lines)}."


def _at_each_alpha(wide: pd.DataFrame, numbers: Callable[[pd.DataFrame], Any]) -> str:
    said = []
    for alpha, part in wide.groupby(ALPHA, sort=False):
        shown = ", ".join(f"{number:.3f}" for number in numbers(part).to_numpy().ravel())
        said.append(f"{alpha if isinstance(alpha, str) else f'alpha {alpha:g}'}: {shown}")
    return "; ".join(said)
