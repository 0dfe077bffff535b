"""Figures: one style for all of them, and files that are equal for equal figures."""

from __future__ import annotations

from fairtk.drawing.sparklines import against, spread
from fairtk.drawing.style import (
    BLACK,
    BLUE,
    GRAY,
    INK,
    LINE,
    ORANGE,
    PALETTE,
    VERMILION,
    Series,
    new_figure,
    open_axes,
    series,
    write_figure,
)

__all__ = [
    "BLACK",
    "BLUE",
    "GRAY",
    "INK",
    "LINE",
    "ORANGE",
    "PALETTE",
    "Series",
    "VERMILION",
    "against",
    "new_figure",
    "open_axes",
    "series",
    "spread",
    "write_figure",
]
