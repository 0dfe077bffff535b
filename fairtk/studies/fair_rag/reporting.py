"""The study's figures, and the sections that a report of one of its models has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import pandas as pd

from fairtk.drawing import write_figure
from fairtk.files.renderings import Table, texts
from fairtk.report import Section, save_sections
from fairtk.studies.fair_rag.alternatives import spread_words, trade_off_words
from fairtk.studies.fair_rag.figures import plot_spread, plot_trade_off
from fairtk.studies.fair_rag.intervals import INTERVAL
from fairtk.studies.fair_rag.points import EE_D, EE_R, EU, GENERATOR, MODEL, RETRIEVER, TASK, VALUE
from fairtk.studies.fair_rag.published import APART, PAPER
from fairtk.studies.fair_rag.results import RagResults, model_folder

TRADE_OFFS = {
    "disparity_and_quality": (EE_D, EE_R, "ranking quality against disparity of exposure"),
    "quality_and_utility": (EE_R, EU, "utility of answers against ranking quality"),
    "disparity_and_utility": (EE_D, EU, "utility of answers against disparity of exposure"),
}
"""The paper's Figures 4 and 5 by file name: x, y, and what they show."""


def write_figures(results: RagResults, folder: Path) -> None:
    """Write the study's figures as SVG and PDF.

    Args:
        results: the study's.
        folder: where to.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for by in (RETRIEVER, GENERATOR):
        if by == GENERATOR and results.values[GENERATOR].nunique() < 2:
            continue
        for name, (x, y, _) in TRADE_OFFS.items():
            figure = plot_trade_off(results.values, x, y, by=by)
            for suffix in ("svg", "pdf"):
                write_figure(figure, folder / f"{name}_by_{by}.{suffix}")
    for task, part in results.values.groupby(TASK, sort=False):
        figure = plot_spread(part)
        for suffix in ("svg", "pdf"):
            write_figure(figure, folder / f"spread_{task}.{suffix}")


def model_sections(results: RagResults, model: tuple[str, str, str]) -> list[Section]:
    """Return what a report of one model has beyond its means: the paper's tables and figures.

    Args:
        results: the study's.
        model: task, retriever, generator.
    """
    return list(_sections(results, model, results.tables()))


def save_model_sections(results: RagResults, folder: str | PathLike[str]) -> list[Path]:
    """Write each model's sections beside its results, where ``fairtk report`` finds them.

    Args:
        results: the study's.
        folder: the study's, with rankings kept.

    Returns:
        The models' folders, each of which ``fairtk report`` takes.
    """
    places, tables = [], results.tables()
    for model in results.values[MODEL].drop_duplicates().itertuples(index=False, name=None):
        places.append(model_folder(folder, results.settings.name, model))
        save_sections(places[-1], _sections(results, model, tables))
    return places


def _sections(
    results: RagResults, model: tuple[str, str, str], tables: Mapping[str, pd.DataFrame]
) -> Iterator[Section]:
    task, _, generator = model
    values = results.values
    beside = values[(values[TASK] == task) & (values[GENERATOR] == generator)]
    collection = _of(tables["collections"], (task, generator), [TASK, GENERATOR])
    facts = collection.iloc[0]
    yield Section(
        "Queries and labels",
        (
            f"Labels: {facts['labels']}. {facts['looked at']} queries were looked at; "
            f"{facts['left out']} have fewer than {results.settings.min_useful} useful documents "
            "and are left out. A label says that this generator answers better with the document "
            "than without any; it says nothing about readers.",
            *results.notes,
        ),
        _table(collection.drop(columns=["labels"])),
    )
    pairs = tables.get("label_agreement")
    if pairs is not None and len(pairs := pairs[pairs[TASK] == task]):
        yield Section(
            "Labels of other generators",
            (
                "A label belongs to a generator; of one model in two dtypes, what is flipped is "
                "rounding: a gain's sign decides.",
            ),
            texts(list(pairs.columns), pairs.astype(object).to_numpy().tolist()),
        )
    intervals = _of(tables["fairness_intervals"], model)
    yield Section(
        "Utility by level of exposure (Tables 1 and 6 to 12)",
        (
            "Rankings of all alphas, grouped by how uneven the exposure of a query's documents is "
            "(normalized EE-D). value: mean utility in the interval minus that of the fixed "
            "ranking; paired: the same query by query, with its interval and p.",
        ),
        _table(intervals[[INTERVAL, "points", "queries", "baseline", "mean", VALUE, "paired",
                          "low", "high", "p_corrected", "note", PAPER, APART]]),
    )  # fmt: skip
    slopes = _of(tables["trade_offs"], model)
    yield Section(
        "Slopes and areas of the trade-offs (Tables 3 to 5)",
        ("The paper does not say how lines are fitted or areas closed, so both ways are shown.",),
        _table(slopes[["x", "y", "statistic", VALUE, "low", "high", "covered", PAPER, APART]]),
    )
    for x, y, said in TRADE_OFFS.values():
        yield Section(
            said.capitalize(),
            figure=plot_trade_off(beside, x, y),
            alternative=trade_off_words(beside, x, y, said),
        )
    yield Section(
        "How queries spread",
        figure=plot_spread(_of(values, model)),
        alternative=spread_words(_of(values, model)),
    )
    ends = _of(tables["uniform_end"], model)
    yield Section(
        "The uniform end of the curves",
        ("What a policy that ignores the scores would have, exactly, beside the smallest alpha.",),
        _table(ends),
    )


def _of(frame: pd.DataFrame, key: tuple[str, ...], columns: list[str] = MODEL) -> pd.DataFrame:
    """Return a model's rows."""
    chosen = (frame[columns] == list(key)).all(axis=1)
    return frame[chosen]


def _table(frame: pd.DataFrame) -> Table:
    kept: Any = frame.drop(columns=[c for c in (*MODEL, "table") if c in frame.columns])
    kept = kept.loc[:, kept.notna().any()]  # the paper prints nothing for other models
    return texts(list(kept.columns), kept.astype(object).to_numpy().tolist())
