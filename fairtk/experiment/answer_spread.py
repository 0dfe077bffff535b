"""The variance of EU from the answers of a model.

Query q has N rankings. Ranking s has the prompt p(s), and equal prompts share their answers. Prompt
p has n_p answers with the sample variance v_p, so its mean utility y_p has the variance
u_p = v_p / n_p. With m_p rankings of prompt p, the answers' part of the variance of the query's
value is

    A = sum_p (m_p / N)^2 u_p = one / N + (1 - 1 / N) shared

where ``one`` is the mean of u_p(s) over rankings, and ``shared`` its mean over pairs of different
rankings, where pairs with different prompts count 0. The variance of the y_p(s) over rankings
has the expectation sigma^2 + one - shared, so the rankings' part is unbiased after one - shared is
subtracted. The same holds for the covariance of two systems that share prompts and answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from fairtk.exposure import sum_by_index
from fairtk.exposure.expected import average
from fairtk.frames import FloatArray, IntArray
from fairtk.measures import LabeledRun
from fairtk.measures.eu import ExpectedUtility


@dataclass(frozen=True)
class AnswerSpread:
    """The answers' part of a variance or covariance, arrays of shape (n_queries,).

    They are NaN where prompts have one answer, because their variance is unknown.
    """

    one: FloatArray  # see the module
    shared: FloatArray
    n: FloatArray  # the number of answers per prompt
    actual: FloatArray  # the part A of the given rankings and answers

    def part(self, n_samples: int | None = None, n_answers: int | None = None) -> FloatArray:
        """Return the part with other numbers of rankings and answers; `None` for the actual ones.

        It is an unbiased estimate. `shared` may not be known with one ranking per query; it is then
        0, as if rankings never had equal prompts.
        """
        part = self.actual
        if n_samples is not None:
            part = self.one / n_samples + (1 - 1 / n_samples) * self.shared
        return part if n_answers is None else part * self.n / n_answers

    @property
    def excess(self) -> FloatArray:
        """The expected variance over rankings that is due to answers; 0 where it is unknown."""
        return np.nan_to_num(self.one - self.shared)


@dataclass(frozen=True)
class _Rankings:
    """Rankings with their prompts, sorted by query and sample; shape (n_rankings,)."""

    query: IntArray
    sample: IntArray
    prompt: IntArray  # different for prompts of different queries
    noise: FloatArray  # u_p

    def take(self, index: IntArray) -> _Rankings:
        return _Rankings(*(values[index] for values in vars(self).values()))


def reads_answers(measure: Any) -> bool:
    """Return whether the variance of answers is a part of that of a measure."""
    return isinstance(measure, ExpectedUtility)


def spread_over_answers(
    measure: ExpectedUtility, first: LabeledRun, second: LabeledRun | None = None
) -> AnswerSpread:
    """Return the answers' part of the variance of a run, or of the covariance of two runs."""
    n_queries = len(first.qids)
    scored = [measure.scored(judged) for judged in (first, second or first)]
    prompts = pd.factorize(np.concatenate([one.prompt for one in scored]))[0]
    split = np.split(prompts, [len(scored[0].prompt)])
    a, b = (
        _Rankings(one.query, one.sample, code * n_queries + one.query, one.variance / one.n)
        for one, code in zip(scored, split, strict=True)
    )
    n_answers = average(scored[0].query, scored[0].n.astype(float), n_queries)
    sizes = [np.bincount(rankings.query, minlength=n_queries) for rankings in (a, b)]
    actual = _cross(a, b, n_queries) / np.maximum(sizes[0] * sizes[1], 1)
    if second is not None:  # samples with the same number are paired
        cell, other = (rankings.sample * n_queries + rankings.query for rankings in (a, b))
        _, *indices = np.intersect1d(cell, other, assume_unique=True, return_indices=True)
        a, b = a.take(indices[0]), b.take(indices[1])
    number = np.bincount(a.query, minlength=n_queries)
    same = np.where(a.prompt == b.prompt, a.noise, 0.0)
    together = sum_by_index(a.query, same, n_queries)
    pairs = np.maximum(number * (number - 1), 1)
    shared = np.where(number > 1, (_cross(a, b, n_queries) - together) / pairs, 0.0)
    return AnswerSpread(together / np.maximum(number, 1), shared, n_answers, actual)


def _cross(a: _Rankings, b: _Rankings, n_queries: int) -> FloatArray:
    """Return the sum of u_p over pairs of rankings with the same prompt, by query."""
    prompts, index, count = np.unique(a.prompt, return_index=True, return_counts=True)
    others, other_count = np.unique(b.prompt, return_counts=True)
    _, of_a, of_b = np.intersect1d(prompts, others, assume_unique=True, return_indices=True)
    rows = index[of_a]
    weighted = (count[of_a] * other_count[of_b]) * a.noise[rows]
    return sum_by_index(a.query[rows], weighted, n_queries)
