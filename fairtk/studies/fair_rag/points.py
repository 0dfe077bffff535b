"""The values that the study's tables and figures are made from: one row per query and policy.

A frame of values has the columns

==============  ==================================================================================
``task``        ``"LaMP-1"`` to ``"LaMP-7"``, or a name of one's own
``retriever``   ``"BM25"``, ``"SPLADE"``, ``"Contriever"``, or another; any word for the oracle
``generator``   ``"flan-t5-small"``, ``"flan-t5-base"``, ``"flan-t5-xxl"``, or another
``alpha``       of the sampled policies a number, else `DETERMINISTIC` or `ORACLE`
``qid``         the query
``measure``     `EE_D` and `EE_R` (normalized), `EU` (normalized: `normalized_utility`)
``value``       the number; NaN where it is undefined
==============  ==================================================================================

A model is a retriever with a generator on a task. A frame of sizes has ``task``, ``generator``,
``qid``, ``documents`` (candidates) and ``useful`` (of them; labels belong to a generator).
"""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Real
from typing import Any

import pandas as pd

from fairtk.errors import DuplicateError, InputError, NotFoundError
from fairtk.frames.columns import DOCNO, LABEL, QID, require

TASK, RETRIEVER, GENERATOR, ALPHA = "task", "retriever", "generator", "alpha"
MEASURE, VALUE = "measure", "value"
DOCUMENTS, USEFUL = "documents", "useful"
DETERMINISTIC, ORACLE = "deterministic", "oracle"
EE_D, EE_R, EU = "EE_D", "EE_R", "EU"
MODEL = [TASK, RETRIEVER, GENERATOR]


def sampled(alpha: pd.Series) -> pd.Series:
    """Return where a policy is a sampled one: its alpha is a number.

    Raises:
        InputError: an alpha is neither a number nor one of the two words.
    """
    number = alpha.map(lambda a: isinstance(a, Real) and not isinstance(a, bool) and a == a)
    bad = alpha[~number & ~alpha.isin([DETERMINISTIC, ORACLE])]
    if len(bad):
        raise InputError(
            f"alpha must be a number, {DETERMINISTIC!r} or {ORACLE!r}; found {bad.iloc[0]!r}"
        )
    return number.astype(bool)


def models(values: pd.DataFrame, where: str) -> Iterator[tuple[tuple[Any, ...], pd.DataFrame]]:
    """Yield each model and its values: one row per (alpha, qid), one column per measure.

    The rows are in the order of alphas, the deterministic policy last, then of qids; oracles are
    left out.

    Args:
        values: a frame of values.
        where: who asks, for messages.

    Raises:
        ColumnError: a column is missing.
        DuplicateError: a query has two values of a measure under one policy.
        InputError: there are no values.
    """
    keys = [*MODEL, ALPHA, QID, MEASURE]
    require(values, [*keys, VALUE], where)
    values = values.reset_index(drop=True)  # parts that were put together repeat their indices
    number = sampled(values[ALPHA])
    kept = values[number | (values[ALPHA] == DETERMINISTIC)]
    if kept.empty:
        raise InputError(f"{where}: there are no values of sampled or deterministic policies")
    twice = kept.duplicated(keys)
    if twice.any():
        found = dict(zip(keys, kept.loc[twice, keys].iloc[0], strict=True))
        raise DuplicateError(f"{where}: two values for {found}")
    place = kept[ALPHA].where(number, float("inf")).astype(float)
    for model, part in kept.assign(place=place).groupby(MODEL, sort=False):
        wide = part.pivot(index=["place", ALPHA, QID], columns=MEASURE, values=VALUE)
        wide = wide.sort_index(level=["place", QID]).droplevel("place")
        yield model, wide.astype(float)


def needed(wide: pd.DataFrame, measures: tuple[str, ...], where: str) -> None:
    """Raise unless there are values of some measures.

    Raises:
        NotFoundError: there are none.
    """
    for measure in measures:
        if measure not in wide.columns:
            raise NotFoundError(f"{where}: measure", measure, list(wide.columns))


def sizes(qrels: pd.DataFrame, task: str, generator: str) -> pd.DataFrame:
    """Return a frame of sizes from labels of all candidates.

    Args:
        qrels: ``qid``, ``docno``, ``label``: a row per candidate.
        task: of these queries.
        generator: that the labels are for.
    """
    require(qrels, [QID, DOCNO, LABEL], "sizes")
    counts = (qrels[LABEL] > 0).groupby(qrels[QID], sort=False).agg(["size", "sum"])
    counts = counts.set_axis([DOCUMENTS, USEFUL], axis=1).reset_index()
    return counts.assign(**{TASK: task, GENERATOR: generator})[
        [TASK, GENERATOR, QID, DOCUMENTS, USEFUL]
    ]
