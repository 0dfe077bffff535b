"""What fitting finds: a linear model, and its form in JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairtk.frames import ByContent, FloatArray, ObjectArray, digest
from fairtk.groups import Groups, Level
from fairtk_baselines.deltr.division import Division, as_features

_ARRAYS = ("weights", "group_weights", "mean", "deviation", "neutral")


@dataclass(frozen=True, eq=False, repr=False)
class LinearModel(ByContent):
    """Scores are sums of standardized features times weights.

    Attributes:
        weights: of the features, after standardization by mean and deviation; shape (n_features,).
        group_weights: of belonging to each protected group; empty where that is no feature.
        mean: subtracted from each feature.
        deviation: each feature is divided by it.
        neutral: share in each protected group that a document on no side is taken to have: the
            mean of the training documents; shape (n_columns,).
        division: who is protected, and compared with whom.
        summary: of training: ``queries``, ``queries_left_out``, ``queries_with_both_groups``,
            ``documents``, ``iterations``; ``loss``, the minimum that was found; means over queries
            of its parts ``ranking_loss`` and ``exposure_loss`` (without gamma); and ``gap``, the
            mean of E_rest - E_protected over queries and groups that have both sides: 0 is
            equal exposure, above 0 is to the protected groups' disadvantage.
    """

    weights: FloatArray
    group_weights: FloatArray
    mean: FloatArray
    deviation: FloatArray
    neutral: FloatArray
    division: Division
    summary: Mapping[str, float]

    def score(self, features: FloatArray, groups: Groups, docnos: ObjectArray) -> FloatArray:
        """Return the score of each document, by its features as they come; shape (n_rows,).

        The groups are not looked at where they are no features.
        """
        # sums along rows, not a product of matrices: that one's rounding depends on their size
        result = (((features - self.mean) / self.deviation) * self.weights).sum(axis=1)
        if len(self.group_weights):
            members = as_features(*self.division.sides(groups, docnos), self.neutral)
            result = result + (members * self.group_weights).sum(axis=1)
        return np.asarray(result)

    def digest(self) -> str:
        """Return a digest of the content."""
        return digest(self.as_json())

    def __repr__(self) -> str:
        return f"<linear model of {len(self.weights)} features #{self.digest()[:8]}>"

    def as_json(self) -> dict[str, Any]:
        """Return the model as JSON values; floats keep all their digits."""
        return {
            **{name: getattr(self, name).tolist() for name in _ARRAYS},
            "columns": self.division.columns,
            "reference": self.division.reference,
            "unknown": self.division.unknown,
            "summary": dict(self.summary),
        }

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> LinearModel:
        """Return the model that `as_json` gave.

        Raises:
            KeyError, TypeError, ValueError: something is missing, or not what it should be.
        """
        arrays = {}
        for name in _ARRAYS:
            arrays[name] = np.array(record[name], dtype=np.float64)
            if arrays[name].ndim != 1 or not np.isfinite(arrays[name]).all():
                raise ValueError(f"{name} must be a list of finite numbers")
        if not len(arrays["weights"]) == len(arrays["mean"]) == len(arrays["deviation"]) > 0:
            raise ValueError("weights, mean and deviation must have one length, of at least 1")
        division = Division(
            tuple(tuple(level_of(level) for level in c) for c in record["columns"]),
            None if record["reference"] is None else level_of(record["reference"]),
            str(record["unknown"]),
        )
        if len(arrays["group_weights"]) not in (0, division.width):
            raise ValueError("group_weights must be empty or have one weight per column")
        if len(arrays["neutral"]) != division.width:
            raise ValueError("neutral must have one share per column")
        return cls(**arrays, division=division, summary=dict(record["summary"]))


def level_of(value: Any) -> Level:
    """Return a level from its JSON form."""
    return value if isinstance(value, str) else tuple(str(part) for part in value)
