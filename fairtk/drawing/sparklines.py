"""Pictures of a word's size, for tables in notebooks: SVG by hand, in the color of the text."""

from __future__ import annotations

import math
from collections.abc import Sequence

_WIDTH, _HEIGHT, _BINS = 60, 14, 12


def spread(values: Sequence[float], low: float, high: float) -> str:
    """Draw how values lie between two bounds, as bars; undefined ones are left out.

    Args:
        values: the values.
        low: the left end.
        high: the right end.
    """
    counts = [0] * _BINS
    width = high - low
    for value in values:
        if math.isfinite(value):
            place = int((value - low) / width * _BINS) if width > 0 else 0
            counts[min(max(place, 0), _BINS - 1)] += 1
    most, step = max(counts), _WIDTH / _BINS
    bars = "".join(
        f'<rect x="{i * step:.1f}" y="{_HEIGHT * (1 - n / most):.1f}" width="{step - 1:.1f}" '
        f'height="{_HEIGHT * n / most:.1f}"/>'
        for i, n in enumerate(counts)
        if n
    )
    return _svg(bars, f"{sum(counts)} values from {low:.3g} to {high:.3g}")


def against(value: float, wanted: float, high: float) -> str:
    """Draw a value as a bar from 0, and what was wanted as a line across.

    Args:
        value: the length of the bar.
        wanted: the place of the line.
        high: the right end.
    """
    long, at = (_WIDTH * min(max(v / high, 0), 1) if high > 0 else 0 for v in (value, wanted))
    bar = f'<rect x="0" y="4" width="{long:.1f}" height="{_HEIGHT - 8}" fill-opacity="0.5"/>'
    mark = f'<rect x="{min(at, _WIDTH - 2):.1f}" y="0" width="2" height="{_HEIGHT}"/>'
    return _svg(bar + mark, f"{value:.3g}, target {wanted:.3g}")


def _svg(inside: str, said: str) -> str:
    return (
        f'<svg width="{_WIDTH}" height="{_HEIGHT}" fill="currentColor" role="img" '
        f'aria-label="{said}">{inside}</svg>'
    )
