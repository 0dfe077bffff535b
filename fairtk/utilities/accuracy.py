"""Exact match of labels (LaMP-1 and LaMP-2)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from fairtk.errors import ParameterError
from fairtk.utilities.base import Utility


class Accuracy(Utility):
    """1 if the answer is the gold label, else 0; higher is better.

    Without labels, texts are compared as they are (stripped). With labels, as LaMP's evaluation
    does, the positions in the list are compared, and every text outside the list has the same
    position: two different outsiders count as equal. Case and punctuation count in both.

    Source: Salemi et al. 2024 (LaMP), evaluation script.

    Args:
        labels: the label list; ``None`` compares texts.
    """

    name = "accuracy"
    SETTINGS: ClassVar[tuple[str, ...]] = ("labels",)

    def __init__(self, labels: Iterable[str] | None = None) -> None:
        self.labels = None if labels is None else self._checked(labels)
        # the first of equal labels counts, as list.index would find it
        self._index = {label: i for i, label in reversed(list(enumerate(self.labels or [])))}

    @staticmethod
    def _checked(labels: Iterable[str]) -> list[str]:
        if isinstance(labels, str) or not isinstance(labels, Iterable):
            raise ParameterError(f"accuracy: labels must be a list of strings; found {labels!r}")
        found = list(labels)
        wrong = [label for label in found if not isinstance(label, str)]
        if wrong or not found:
            what = repr(wrong[0]) if wrong else "an empty list"
            raise ParameterError(f"accuracy: labels must be a list of strings; found {what}")
        return found

    def score(self, prediction: str, gold: str) -> float:
        """Return 1.0 or 0.0."""
        if self.labels is None:
            return float(prediction == gold)
        return float(self._index.get(prediction, -1) == self._index.get(gold, -1))

    def __repr__(self) -> str:
        return self.name if self.labels is None else super().__repr__()
