"""Google's ``rouge_score`` under names of its own (extra ``rouge``)."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

from fairtk.utilities.base import EMPTY, Utility


class RougeScore(Utility):
    """The F-measure of one variant of the package ``rouge_score``; higher is better.

    Lower case, words of a-z and 0-9 only, counts of repeated words, no sentence splitting
    (``rougeLsum`` splits at line breaks): not comparable with `rouge1` and `rougeL`. Range [0, 1].
    An answer without content scores 0 against every gold answer that has some.

    Args:
        variant: ``"rouge1"``, ``"rouge2"``, ``"rougeL"`` or ``"rougeLsum"``.
        use_stemmer: whether words are reduced to their stems first (Porter).
    """

    SETTINGS: ClassVar[tuple[str, ...]] = ("use_stemmer",)

    def __init__(self, variant: str, use_stemmer: bool = False) -> None:
        from rouge_score.rouge_scorer import RougeScorer

        self.name = f"rouge_score_{variant}"
        self.use_stemmer = bool(use_stemmer)
        self._variant = variant
        self._scorer = RougeScorer([variant], use_stemmer=self.use_stemmer)

    def score(self, prediction: str, gold: str) -> float:
        """Return the F-measure."""
        if EMPTY in (prediction, gold):
            # the package would read the word "empty" out of the mark
            return float(prediction == gold)
        return float(self._scorer.score(gold, prediction)[self._variant].fmeasure)


rouge1 = partial(RougeScore, "rouge1")
"""Single words."""
rouge2 = partial(RougeScore, "rouge2")
"""Pairs of words."""
rougeL = partial(RougeScore, "rougeL")
"""The longest common subsequence of the whole texts."""
rougeLsum = partial(RougeScore, "rougeLsum")
"""A union of common subsequences; each line is a sentence."""
