"""The shape of a string utility: checks, several gold answers, each distinct pair scored once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import pandas as pd

from fairtk.errors import InputError
from fairtk.frames.content import ByContent, digest

EMPTY = "<empty>"
"""What stands for an answer without content (Fair-RAG's rule, see `answer_text`)."""


def answer_text(text: str) -> str:
    """Return the text as it is scored: stripped, and ``"<empty>"`` if nothing is left.

    Nothing is left of a text that has only dots and spaces: generators that refuse to answer
    write those, and a ROUGE that splits sentences at dots has nothing to count in them. Fair-RAG
    applies the rule to predictions; here it applies to gold answers too, so that an empty gold
    answer is matched by an empty prediction alone.
    """
    stripped = text.strip()
    return stripped if stripped.strip(". ") else EMPTY


class Utility(ByContent, ABC):
    """How good one answer is, given one or more gold answers.

    Subclasses set the class attributes and write `score`; the base checks the input, takes the
    best of several gold answers, and scores each distinct pair once per call. Two utilities are
    equal exactly when class, name and settings are.

    Attributes:
        name: what users write in ``EU(utility=...)``.
        higher_is_better: the direction of the value.
        bounds: smallest and largest value; an end that has no bound is infinite.
        SETTINGS: names of the attributes that are options, in the order in which they print.
    """

    name: str
    higher_is_better: bool = True
    bounds: tuple[float, float] = (0.0, 1.0)
    SETTINGS: ClassVar[tuple[str, ...]] = ()

    @property
    def worst(self) -> float:
        """The worst possible value; infinite if there is no bound."""
        return self.bounds[0] if self.higher_is_better else self.bounds[1]

    @property
    def best(self) -> float:
        """The best possible value (a floating-point hair below it may be the practical best)."""
        return self.bounds[1] if self.higher_is_better else self.bounds[0]

    @abstractmethod
    def score(self, prediction: str, gold: str) -> float:
        """Return the value of one answer against one gold answer, both as `answer_text`."""

    def __call__(
        self, predictions: Sequence[str], golds: Sequence[str | Sequence[str]]
    ) -> list[float]:
        """Return one value per prediction.

        Args:
            predictions: the answers.
            golds: the gold answer of each prediction; a list of strings means that any of them is
                right, and the best match counts.

        Raises:
            InputError: the two differ in length, a prediction is not a string, or a gold answer is
                missing or not a string. The message names the position.
        """
        predicted = self._listed(predictions, "predictions")
        wanted = self._listed(golds, "golds")
        if len(predicted) != len(wanted):
            raise InputError(
                f"utility {self.name}: {len(predicted)} predictions and {len(wanted)} gold "
                "answers; give one gold answer (or list of them) per prediction"
            )
        known: dict[tuple[str, Any], float] = {}
        values = []
        for i, (prediction, gold) in enumerate(zip(predicted, wanted, strict=True)):
            key = (prediction, gold if isinstance(gold, str) else self._as_tuple(gold, i))
            try:
                value = known[key]
            except (KeyError, TypeError):  # a TypeError is something that cannot be hashed
                value = known[key] = self._best(prediction, key[1], i)
            values.append(value)
        return values

    def _best(self, prediction: Any, gold: str | tuple[Any, ...], position: int) -> float:
        answer = answer_text(self._string(prediction, "prediction", position))
        golds = (gold,) if isinstance(gold, str) else gold
        texts = [answer_text(self._string(g, "gold answer", position)) for g in golds]
        try:
            values = [float(self.score(answer, text)) for text in texts]
        except InputError as error:
            raise type(error)(f"utility {self.name}, position {position}: {error}") from None
        return max(values) if self.higher_is_better else min(values)

    def _string(self, value: Any, role: str, position: int) -> str:
        if isinstance(value, str):
            return value
        missing = pd.api.types.is_scalar(value) and pd.isna(value)
        what = "missing" if missing else f"{value!r} ({type(value).__name__})"
        raise InputError(
            f"utility {self.name}: the {role} at position {position} is {what}; a string is needed"
        )

    def _as_tuple(self, gold: Any, position: int) -> tuple[Any, ...]:
        if isinstance(gold, Iterable) and not isinstance(gold, bytes | dict):
            several = tuple(gold)
            if several:
                return several
            raise InputError(
                f"utility {self.name}: the list of gold answers at position {position} is empty; "
                "give at least one, or leave the query out"
            )
        self._string(gold, "gold answer", position)
        return (gold,)

    def _listed(self, values: Any, role: str) -> list[Any]:
        if isinstance(values, str) or not isinstance(values, Iterable):
            raise InputError(
                f"utility {self.name}: {role} must be a sequence of strings; found "
                f"{type(values).__name__}"
            )
        return list(values)

    def digest(self) -> str:
        """Return the content digest of name and settings."""
        settings = [getattr(self, setting) for setting in self.SETTINGS]
        return digest([type(self).__qualname__, self.name, *settings])

    def __repr__(self) -> str:
        options = ", ".join(f"{s}={getattr(self, s)!r}" for s in self.SETTINGS)
        return f"{self.name}({options})" if options else self.name
