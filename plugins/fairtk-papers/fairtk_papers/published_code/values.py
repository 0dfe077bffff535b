"""Values and the bounds of published code, and their `Scores`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairtk.frames import BoolArray, FloatArray
from fairtk.measures import LabeledRun, Scores

NO_USEFUL = "no useful document in the labels"


@dataclass(frozen=True)
class PublishedValues:
    """The values of one measure with the bounds of published code, which may not hold.

    Arrays have shape (n_queries,).

    Attributes:
        value: the raw values.
        lower: the code's lower bounds, 0 when normalized.
        upper: the code's upper bounds, 1 when normalized.
        worst: the worst raw value of any ranking, for missing queries.
        worst_normalized: the worst normalized value: 0 if higher is better, else 1.
        flat: the code's normalized value if the two bounds are equal; NaN if it has none.
        why: the reason why normalized values are undefined.
        farthest: the worst raw value under the code's assumptions; `None` for `worst`.
    """

    value: FloatArray
    lower: FloatArray
    upper: FloatArray
    worst: FloatArray
    worst_normalized: float
    flat: float = np.nan
    why: str = "lower and upper bound are equal"
    farthest: FloatArray | None = None

    def scores(
        self, judged: LabeledRun, normalize: bool, reasons: list[tuple[str, BoolArray]]
    ) -> Scores:
        """Return the value of each query; a query missing from the run gets the worst value."""
        if not normalize:
            return Scores.of(np.where(judged.present, self.value, self.worst), reasons)
        result = np.where(judged.present, self._normalized(self.value, self.flat), self._missing())
        return Scores.of(result, [*reasons, (self.why, judged.present & np.isnan(result))])

    def _normalized(self, raw: FloatArray, flat: float) -> FloatArray:
        """Return (raw - lower) / (upper - lower); `flat` if the two bounds are equal."""
        width = self.upper - self.lower
        equal = width <= 1e-12 * np.maximum(np.abs(self.upper), 1.0)
        return np.where(equal, flat, (raw - self.lower) / np.where(equal, 1.0, width))

    def _missing(self) -> FloatArray:
        """Return the worst normalized value, or the code's if that is worse."""
        code = self._normalized(self.worst if self.farthest is None else self.farthest, np.nan)
        worse = np.fmin if self.worst_normalized == 0 else np.fmax
        return np.asarray(worse(code, self.worst_normalized))
