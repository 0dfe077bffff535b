"""The numbers that the paper prints, to stand beside one's own.

``paper.tsv`` has Tables 3 to 15 of *Towards Fair RAG* (the version reviewed for ICLR 2025): table,
task, retriever, generator, statistic, value. Table 1 repeats rows of Tables 6 and 9.
"""

from __future__ import annotations

import functools
from importlib import resources

import pandas as pd

from fairtk.studies.fair_rag.points import MODEL, VALUE

STATISTIC, TABLE = "statistic", "table"
PAPER, APART = "paper", "from paper"
BASELINE, SLOPE, AREA = "baseline", "slope", "area"
FAIRNESS_TABLES = {f"LaMP-{task}": 5 + task for task in range(1, 8)}
"""Where the intervals of each task are printed."""


@functools.cache
def _read() -> pd.DataFrame:
    path = resources.files(__package__) / "paper.tsv"
    with path.open("r", encoding="utf-8") as stream:
        return pd.read_csv(
            stream, sep="\t", dtype={VALUE: float, TABLE: int}, keep_default_na=False
        )


def paper_numbers() -> pd.DataFrame:
    """Return all printed numbers.

    Returns:
        ``table`` (3 to 15), ``task``, ``retriever`` (empty in Tables 13 to 15), ``generator``,
        ``statistic`` and ``value``. Statistics are ``"slope"`` and ``"area"`` in Tables 3 to 5;
        ``"baseline"`` and intervals such as ``"[0.2, 0.4)"`` (a difference from it) in 6 to 12;
        ``"queries"``, ``"documents"``, ``"documents std"``, ``"useful"``, ``"useful std"`` and
        ``"percent useful"`` in 13 to 15.
    """
    return _read().copy()


def beside_paper(rows: pd.DataFrame, printed_as: pd.Series) -> pd.DataFrame:
    """Return rows with the columns ``paper`` and ``from paper`` (value - paper).

    NaN where the paper prints nothing: another task, retriever or generator.

    Args:
        rows: with ``table``, ``task``, ``retriever``, ``generator`` and ``value``.
        printed_as: the paper's name for each row's statistic.
    """
    keys = [TABLE, *MODEL, STATISTIC]
    printed = _read().set_index(keys)[VALUE]
    asked = pd.MultiIndex.from_frame(rows.assign(**{STATISTIC: printed_as})[keys])
    paper = printed.reindex(asked).to_numpy()
    return rows.assign(**{PAPER: paper, APART: rows[VALUE].to_numpy() - paper})
