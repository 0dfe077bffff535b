"""How a measure is called in tables: the short form that `fairtk.measures.parse` reads."""

from __future__ import annotations

from typing import Any


def label(measure: Any) -> str:
    """Return a measure as it is written by hand: ``E(nDCG@5)``, ``P@5 * EE_R@5``.

    ``fairtk.measures.parse`` reads it back; `repr` is for ``ir_measures.parse_measure``.
    """
    if hasattr(measure, "inner"):
        return f"{measure.NAME}({label(measure.inner)})"
    if hasattr(measure, "factors"):
        left, right = measure.factors
        tail = f"({label(right)})" if hasattr(right, "factors") else label(right)
        return f"{label(left)} * {tail}"
    return repr(measure)
