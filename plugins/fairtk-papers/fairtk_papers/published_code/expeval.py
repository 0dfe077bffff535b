"""EE-D, EE-R and EE-L as in expeval, the code published with Diaz et al. 2020."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from fairtk import checks
from fairtk.errors import ParameterError
from fairtk.exposure import (
    GERR,
    RBP,
    BrowsingModel,
    Grades,
    expected_exposure,
    make_grades,
    sum_by_index,
)
from fairtk.frames import BoolArray, FloatArray, IntArray
from fairtk.measures import FairMeasure, LabeledRun, ObjectParam, Param, Scores
from fairtk.plugins import parse_browsing_model
from fairtk_papers.published_code.values import NO_USEFUL, PublishedValues

PARAMETERS: dict[str, Param] = {
    "browsing": ObjectParam(
        parse_browsing_model,
        BrowsingModel,
        default=RBP(),
        desc="the user: RBP(p=...) or GERR(p=..., u=...), with p below 1",
    ),
    "normalize": Param(bool, default=True, desc="min-max normalize by the bounds of the code"),
    "complete": Param(bool, default=False, desc="the labels cover all documents"),
    "graded": Param(bool, default=True, desc="False: all useful labels count equally"),
    "rel": Param(
        (int, float),
        default=None,
        desc="smallest label of a useful document (default: any above 0)",
        check=checks.positive,
    ),
}


class ExpevalExposure(FairMeasure):
    """Base of the measures of expeval, for documents and for groups."""

    CITATION = "diaz2020evaluating"
    SUPPORTED_PARAMS: ClassVar[dict[str, Param]] = PARAMETERS
    is_by_query = True
    supports_exact_exposure = True

    def check_params(self) -> None:
        """Raise a `ParameterError` unless the user is one of expeval's."""
        model = self["browsing"]
        if not (isinstance(model, RBP) and model.p < 1):
            raise ParameterError(
                f"{self.NAME}: browsing must be 'RBP(p=...)' or 'GERR(p=..., u=...)' with p below "
                f"1, got {model!r}"
            )

    @property
    def settings(self) -> tuple[Any, ...]:
        """The browsing model, and the parameters complete, graded and rel."""
        return tuple(self[name] for name in ("browsing", "complete", "graded", "rel"))

    def score_all(self, judged: LabeledRun) -> Scores:
        """Return the value of each query."""
        values, no_useful = judged.derived(expeval_values, *self.settings)
        # with complete labels, each grade has a target
        has_target = self.NAME.startswith("EE_D") or self["complete"]
        reasons = [] if has_target else [(NO_USEFUL, no_useful)]
        return values[self.NAME[:4]].scores(judged, self["normalize"], reasons)


def grades_of(label: FloatArray, graded: bool, rel: float | None) -> FloatArray:
    """Return the grade of each label: above 0 if useful, NaN if not judged."""
    grade = label if rel is None else np.where(label >= rel, label, np.minimum(label, 0.0))
    return grade if graded else np.where(grade > 0, 1.0, np.minimum(grade, 0.0))


def exposure_of(judged: LabeledRun, model: RBP, useful: BoolArray) -> FloatArray:
    """Return the expected exposure of each pair; shape (n_pairs,)."""
    attention = judged.attention(judged.where, model, None, useful)
    samples = judged.run.n_samples[judged.run.query]
    return expected_exposure(attention, judged.pair_of_row, judged.n_pairs, samples)


def block_mean(p: float, begin: IntArray, size: IntArray) -> FloatArray:
    """Return the mean of p^i over the ranks begin <= i < begin + size; 0 for an empty block."""
    base = float(p)
    block = (base**begin - base ** (begin + size)) / (1.0 - base)
    return np.asarray(block / np.maximum(size, 1))


def expeval_target(grades: Grades, model: RBP) -> FloatArray:
    """Return expeval's target exposure of a document of each grade; shape (n_grades,).

    Under `GERR`, it counts each document of a better grade as useful.
    """
    stay = 1.0 - model.stop
    useful = block_mean(model.p * stay, grades.above, grades.size)
    plain = stay**grades.above * block_mean(model.p, grades.above, grades.size)
    return np.where(grades.useful, useful, plain)


def expeval_values(
    judged: LabeledRun, model: RBP, complete: bool, graded: bool, rel: float | None
) -> tuple[dict[str, PublishedValues], BoolArray]:
    """Return the values of EE_D, EE_R and EE_L, and whether a query has no useful document.

    It departs from the paper. With ``complete=False``, only useful documents have a target, and the
    bounds assume infinitely many documents. Grades of 0 and below are separate. For `GERR`, the
    bounds of EE-R and EE-L and the lower bound of EE-D use p u instead of p (1 - u). The upper
    bound of EE-L adds 1 / (1 - p) instead of 1 / (1 - p^2). With a single grade, the normalized
    EE-R is 1. There is no cutoff.

    Args:
        judged: the labels and the run.
        model: the browsing model, with p below 1.
        complete: whether the labels cover all documents.
        graded: whether useful documents have grades.
        rel: the smallest label of a useful document; `None` for any above 0.
    """
    query, n_queries = judged.pair_query, len(judged.qids)
    grade = grades_of(judged.pair_label, graded, rel)
    exposure = exposure_of(judged, model, grade > 0)
    counted = grade if complete else np.where(grade > 0, grade, np.nan)
    grades = make_grades(query, counted, n_queries)
    target, size, above = expeval_target(grades, model), grades.size, grades.above

    disparity = sum_by_index(query, exposure**2, n_queries)
    of_pair = np.append(target, 0.0)[grades.of_pair]  # index -1: no target
    relevance = sum_by_index(query, exposure * of_pair, n_queries)
    square = grades.per_query(size * target**2)
    loss = disparity - 2 * relevance + square
    p, zero = model.p, np.zeros(n_queries)
    slip = p * model.stop if isinstance(model, GERR) else p
    if complete:
        n = grades.n_documents
        start = np.zeros_like(n)
        highest = n * block_mean(p**2, start, n)
        lowest = n * block_mean(slip, start, n) ** 2
        below = n[grades.query] - above - size
        worst = grades.per_query(target * size * block_mean(slip, below, size))
        upper_loss = n * block_mean(slip**2, start, n) - 2 * worst + square
    else:
        highest = np.full(n_queries, 1.0 / (1.0 - p**2))
        lowest = zero
        several = np.bincount(grades.query, minlength=n_queries) > 1
        worst = np.where(several, 0.0, square)
        upper_loss = square + 1.0 / (1.0 - slip)
    # attention falls at most this fast; the code's lower bound of EE-R holds if it falls slower
    fastest = p * (1.0 - model.stop)
    least = worst if complete and slip <= fastest else zero
    farthest = highest - 2 * least + square
    values = {
        "EE_D": PublishedValues(disparity, lowest, highest, highest, 1.0, flat=0.0),
        "EE_R": PublishedValues(relevance, worst, square, zero, 0.0, flat=1.0, farthest=least),
        "EE_L": PublishedValues(
            loss, zero, upper_loss, highest + square, 1.0, 0.0, farthest=farthest
        ),
    }
    return values, grades.n_useful == 0


class ExpevalDisparity(ExpevalExposure):
    """Disparity of exposure as in expeval, the code of Diaz et al. 2020.

    EE_D_expeval is the squared norm of the expected exposure for the user `RBP` or `GERR`, who has
    no cutoff. Its bounds assume infinitely many documents, or with ``complete=True`` the labeled
    ones. Under `GERR`, values may be outside [0, 1], because the code's bounds do not hold for
    every cascade. Lower is more even. A query missing from the run gets the worst value.
    """

    identity_name = "fairtk_papers.EE_D_expeval"
    output_version = 1
    NAME = "EE_D_expeval"
    PRETTY_NAME = "Expected exposure disparity, code of Diaz et al. 2020"
    BETTER = "lower"
    MISSING = 1.0


class ExpevalRelevance(ExpevalExposure):
    """Relevance of exposure as in expeval, the code of Diaz et al. 2020.

    EE_R_expeval is the inner product of expected exposure and target. Unless ``complete=True``,
    only useful documents have a target. If all documents with a target have the same grade, the
    code's two bounds are equal, and the normalized value is 1. Higher is better. Without complete
    labels, a query without a useful document is undefined (NaN). A query missing from the run gets
    the worst value, 0 or below; the code has its lower bound.
    """

    identity_name = "fairtk_papers.EE_R_expeval"
    output_version = 1
    NAME = "EE_R_expeval"
    PRETTY_NAME = "Expected exposure relevance, code of Diaz et al. 2020"
    BETTER = "higher"
    MISSING = 0.0


class ExpevalLoss(ExpevalExposure):
    """Loss of exposure as in expeval, the code of Diaz et al. 2020.

    EE_L_expeval is the squared distance of expected exposure and target; see `EE_R_expeval`. Lower
    is better. A query missing from the run gets the worst value, 1 or above; the code has the upper
    bound of EE-R.
    """

    identity_name = "fairtk_papers.EE_L_expeval"
    output_version = 1
    NAME = "EE_L_expeval"
    PRETTY_NAME = "Expected exposure loss, code of Diaz et al. 2020"
    BETTER = "lower"
    MISSING = 1.0


EE_D_expeval, EE_R_expeval, EE_L_expeval = ExpevalDisparity(), ExpevalRelevance(), ExpevalLoss()
