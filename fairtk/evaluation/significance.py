"""The rows of a comparison: paired tests of one measure, corrected."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fairtk.errors import UndefinedWarning
from fairtk.frames import FloatArray
from fairtk.statistics import correct, paired_test

COLUMNS = ["run", "measure", "mean", "n", "difference", "low", "high", "p", "p_corrected", "effect"]


def tested(
    measure: str,
    names: Sequence[str],
    values: FloatArray,
    baseline: int,
    correction: str | None,
    drawing: Mapping[str, Any],
) -> list[list[Any]]:
    """Return a measure's rows of a comparison, in the order of `COLUMNS`.

    Takes one row of values for each name, one column per query; queries with a NaN are left out.
    `drawing` has the options of `fairtk.statistics.paired_test`.
    """
    values = values[:, ~np.isnan(values).any(axis=0)]
    n = values.shape[1]
    means = values.mean(axis=1) if n else np.full(len(values), np.nan)
    nothing = [np.nan] * 4
    rows: list[list[Any]] = []
    for place, (name, own, mean) in enumerate(zip(names, values, means, strict=True)):
        found = nothing
        effect = np.nan
        if place != baseline:
            result = paired_test(own, values[baseline], **drawing)
            found = [result.difference, result.low, result.high, result.p]
            effect = result.effect
            if result.note:
                warnings.warn(
                    f"{name} against {names[baseline]} by {measure}: {result.note}, so the "
                    "test or its interval is undefined",
                    UndefinedWarning,
                    stacklevel=2,
                )
        rows.append([name, measure, float(mean), n, *found, np.nan, effect])
    corrected = correct([row[COLUMNS.index("p")] for row in rows], correction)
    for row, p in zip(rows, corrected, strict=True):
        row[COLUMNS.index("p_corrected")] = float(p)
    return rows
