"""ROUGE-1 and ROUGE-L as LaMP and Fair-RAG compute them.

Both use the PyPI package ``rouge`` 1.0.1, which differs from Google's ``rouge_score``: case and
punctuation count, every "." ends a sentence, words are counted once (sets), and ROUGE-L is the
summary-level form, the union over sentence pairs of one longest common subsequence each. This is
an implementation of its own of those semantics (the package is unmaintained, recursive, and slow
on long answers).
"""

from __future__ import annotations

from collections.abc import Sequence

from fairtk.utilities.base import Utility

EPSILON = 1e-8
"""Added to precision + recall; a perfect match is therefore 0.999999995."""


class Rouge1(Utility):
    """F-value of the distinct words that answer and gold answer share; higher is better.

    Range [0, 0.999999995]. Source: Lin 2004, ROUGE-1, with the semantics of ``rouge`` 1.0.1.
    """

    name = "rouge1"

    def score(self, prediction: str, gold: str) -> float:
        """Return the F-value."""
        guessed, right = _words(_sentences(prediction)), _words(_sentences(gold))
        return f_value(len(guessed & right), len(guessed), len(right))


class RougeL(Utility):
    """F-value of the words on common subsequences of sentences; higher is better.

    For each pair of sentences the distinct words of one longest common subsequence are taken (see
    `common_words` for which one); the size of the union over all pairs is divided by the number
    of distinct words of the answer (precision) and of the gold answer (recall). Range
    [0, 0.999999995]. Source: Lin 2004, summary-level ROUGE-L, semantics of ``rouge`` 1.0.1.
    """

    name = "rougeL"

    def score(self, prediction: str, gold: str) -> float:
        """Return the F-value."""
        guessed, right = _sentences(prediction), _sentences(gold)
        union: set[str] = set()
        for reference in right:
            for hypothesis in guessed:
                union |= common_words(reference, hypothesis)
        return f_value(len(union), len(_words(guessed)), len(_words(right)))


def f_value(common: int, predicted: int, gold: int) -> float:
    """Return 2pr / (p + r + 1e-8) with p = common / predicted and r = common / gold."""
    precision, recall = common / predicted, common / gold
    return 2.0 * (precision * recall / (precision + recall + EPSILON))


def common_words(reference: Sequence[str], hypothesis: Sequence[str]) -> set[str]:
    """Return the distinct words of one longest common subsequence.

    Words that repeat allow several longest subsequences with different words. The one taken
    starts from the ends: equal words are used; else the last word of the reference is dropped if
    that keeps more than dropping the last word of the hypothesis; else the latter is dropped.

    The lengths of the prefixes' subsequences are kept as bit vectors (Hyyrö 2004): after i words
    of the reference, bit j is 0 exactly where the length grows from j to j + 1 words of the
    hypothesis. That is all the backtracking needs: at two different words, dropping the
    reference's keeps more exactly where the length grows with the last word of the hypothesis.
    """
    places: dict[str, int] = {}
    for j, word in enumerate(hypothesis):
        places[word] = places.get(word, 0) | (1 << j)
    full = (1 << len(hypothesis)) - 1
    row, rows = full, []
    for word in reference:
        hits = row & places.get(word, 0)
        row = ((row + hits) | (row - hits)) & full
        rows.append(row)

    found: set[str] = set()
    i, j = len(reference) - 1, len(hypothesis) - 1
    while i >= 0 and j >= 0:
        if reference[i] == hypothesis[j]:
            found.add(reference[i])
            i, j = i - 1, j - 1
        elif rows[i] >> j & 1:
            j -= 1
        else:
            i -= 1
    return found


def _sentences(text: str) -> list[list[str]]:
    # a piece of only spaces between two dots counts as one empty word, as in the package
    return [piece.split() or [""] for piece in text.split(".") if piece]


def _words(sentences: Sequence[Sequence[str]]) -> set[str]:
    return {word for sentence in sentences for word in sentence}
