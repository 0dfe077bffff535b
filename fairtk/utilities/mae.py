"""Absolute error of a predicted number (LaMP-3)."""

from __future__ import annotations

import math
from typing import ClassVar

from fairtk.errors import InputError, ParameterError
from fairtk.utilities.base import Utility


class AbsoluteError(Utility):
    """The distance between predicted and gold number; lower is better, without an upper bound.

    A prediction is read by `float`, so ``"1e1"`` and ``"inf"`` are numbers, and not clipped. One
    that is no number counts as the end of the scale that is farther from the gold number, the
    upper one if both are equally far. A prediction ``"nan"`` is a number to `float`: its error is
    NaN, as in LaMP's evaluation. The mean over answers is the mean absolute error.

    Source: Salemi et al. 2024 (LaMP), evaluation script.

    Args:
        low: lower end of the rating scale.
        high: upper end of the rating scale.
    """

    name = "mae"
    higher_is_better = False
    bounds = (0.0, math.inf)
    SETTINGS: ClassVar[tuple[str, ...]] = ("low", "high")

    def __init__(self, low: float = 1.0, high: float = 5.0) -> None:
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise ParameterError(f"mae: low must be below high; found low={low!r}, high={high!r}")
        self.low = float(low)
        self.high = float(high)

    def score(self, prediction: str, gold: str) -> float:
        """Return the absolute error."""
        right = _number(gold)
        if right is None or not math.isfinite(right):
            raise InputError(f"the gold answer {gold!r} is not a number")
        guess = _number(prediction)
        if guess is None:
            guess = self.low if abs(self.low - right) > abs(self.high - right) else self.high
        return abs(guess - right)

    def __repr__(self) -> str:
        usual = (self.low, self.high) == (1.0, 5.0)
        return self.name if usual else super().__repr__()


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
