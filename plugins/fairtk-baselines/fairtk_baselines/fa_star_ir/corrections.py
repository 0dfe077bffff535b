"""Which significance the single tests of a ranking get, so that together they are as strict as one.

A ranking is rejected if the least value of a distribution function over its prefixes is at most the
significance. As that falls, what is rejected changes at finitely many values, the steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fairtk.frames import FloatArray

ADJUST = ("nearest", "below", "none")
"""The corrections for testing every prefix."""

ROUNDING = 1e-12
"""Values of a distribution function that agree to this share are one value."""


@dataclass(frozen=True)
class Correction:
    """A significance for the single tests: the `limit`.

    It rejects the first `step` of the values at which the test changes, and no others; it lies
    between two values, so that rounding does not decide.
    """

    steps: FloatArray  # up to the alpha asked for, increasing
    step: int
    limit: float
    fail_probability: float  # of a fair ranking, with this limit

    @classmethod
    def of(
        cls, values: FloatArray, alpha: float, adjust: str, fails: Callable[[float], float]
    ) -> Correction:
        """Return the correction for which the fail probability suits alpha.

        `values` are those of the distribution function where the test may change; `fails` is the
        fail probability at a significance. Of two that are equally near, the lower is taken.
        """
        steps = _distinct(values[values <= alpha * (1 + ROUNDING)])
        step, limit = len(steps), _between(steps, len(steps))
        if adjust != "none":
            step = _step_for(lambda s: fails(_between(steps, s)), len(steps), alpha, adjust)
            limit = _between(steps, step)
        return cls(steps, step, limit, fails(limit))

    @property
    def is_none(self) -> bool:
        """Whether alpha itself is the significance."""
        return self.step == len(self.steps)


def _distinct(values: FloatArray) -> FloatArray:
    ordered: FloatArray = np.unique(values)
    apart = np.append(True, ordered[1:] > ordered[:-1] * (1 + ROUNDING))[: len(ordered)]
    return np.asarray(ordered[apart])


def _between(steps: FloatArray, step: int) -> float:
    """Return a significance at which the first `step` values, and no others, are rejected."""
    if not step:
        return 0.0
    low = float(steps[step - 1])
    return (low + float(steps[step])) / 2 if step < len(steps) else low * (1 + 10 * ROUNDING)


def _step_for(fails: Callable[[int], float], last: int, alpha: float, adjust: str) -> int:
    low, high = 0, last + 1  # fails(low) <= alpha < fails(high), where that exists
    below, above = 0.0, math.inf
    while high - low > 1:
        middle = (low + high) // 2
        value = fails(middle)
        if value <= alpha:
            low, below = middle, value
        else:
            high, above = middle, value
    return high if adjust == "nearest" and above - alpha < alpha - below else low
