"""`ExpectedExposure`: the base of the measures of expected exposure, of documents or of groups."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from fairtk import checks
from fairtk.errors import InputError, ParameterError
from fairtk.exposure import expected_exposure
from fairtk.exposure.expected import Bounded, ExposureValues, sampling_excess
from fairtk.frames import BoolArray, FloatArray, IntArray, ObjectArray
from fairtk.frames.columns import PASSAGE
from fairtk.groups.exposure import attention_matrix
from fairtk.groups.rows import SparseRows
from fairtk.measures.base import FairMeasure
from fairtk.measures.labeled_run import LabeledRun
from fairtk.measures.params import Param
from fairtk.wording import such

ESTIMATOR: Param = Param(
    str,
    default="plain",
    choices=("plain", "unbiased"),
    desc="plain: from the mean exposure over the samples; unbiased: without the excess from "
    "sampling, (1 - EE_D) / N in expectation",
)
GRADED: Param = Param(bool, default=True, desc="False: all useful labels count equally")
REL: Param = Param(
    (int, float),
    default=None,
    desc="smallest label of a useful document (default: any above 0)",
    check=checks.positive,
)

Reasons = list[tuple[str, BoolArray]]
"""Reasons why queries have no value, each with a mask of shape (n_queries,)."""
NO_USEFUL = "no useful document in the labels"
NO_WORST = "missing from the run, without a worst value (no cutoff)"


@dataclass(frozen=True)
class Computed:
    """The values of the measures of a family, and why queries have none."""

    values: ExposureValues
    no_value: Reasons
    no_target: Reasons  # for no EE-R and EE-L
    no_bounds: Reasons  # for no normalized value


class ExpectedExposure(FairMeasure):
    """Base of the measures of expected exposure.

    EE-D, EE-R and EE-L of equal settings are computed together, once per run (`compute`).
    """

    PART: ClassVar[str]  # the field of ExposureValues
    is_by_query = True
    depends_on_length = True
    supports_exact_exposure = True

    def compute(self, judged: LabeledRun) -> Computed:
        """Return the values of EE-D, EE-R and EE-L of all queries."""
        raise NotImplementedError

    def computed(self, judged: LabeledRun) -> Computed:
        """Return the result of `compute`, which measures with equal settings share."""
        return judged.derived(_compute, self._settings)

    def part(self, judged: LabeledRun) -> Bounded:
        """Return the plain values of this measure, with their bounds."""
        part: Bounded = getattr(self.computed(judged).values, self.PART)
        return part

    def estimate(self, judged: LabeledRun) -> Bounded:
        """Return the values of this measure by its estimator, with their bounds.

        Raises:
            InputError: ``estimator="unbiased"``, and a query has a single sample.
        """
        part = self.part(judged)
        if self.params.get("estimator") != "unbiased" or not judged.run.sampled:
            return part
        refuse_one_sample(self.text, judged.qids, judged.ranking_query)
        return replace(part, value=part.value - self.excess(judged))

    def excess(self, judged: LabeledRun) -> FloatArray:
        """Return the excess of EE-D and EE-L from sampling; 0 for one ranking; (n_queries,)."""
        return judged.derived(_excess, self._settings)

    @property
    def _settings(self) -> _Settings:
        own = ("normalize", "estimator")
        params = tuple(item for item in self.params.items() if item[0] not in own)
        return _Settings(params, tuple(self.objects().items()), self)

    def check_cutoff(self) -> None:
        """Raise a `ParameterError` if the browsing model requires a missing cutoff."""
        if self["browsing"].needs_cutoff and self["cutoff"] is None:
            raise ParameterError(
                f"{self.text}: a cutoff is required for browsing={str(self['browsing'])!r}, the "
                f"number of documents that the user reads; write {self.text}@5"
            )

    def grades(self, label: FloatArray) -> FloatArray:
        """Return the grade of each label: above 0 if useful, NaN if not judged."""
        rel = self["rel"]
        grade = label if rel is None else np.where(label >= rel, label, np.minimum(label, 0.0))
        return grade if self["graded"] else np.where(grade > 0, 1.0, np.minimum(grade, 0.0))

    def attention(self, judged: LabeledRun) -> FloatArray:
        """Return the attention on each sorted row of the run; shape (n_rows,)."""
        useful = self.grades(judged.pair_label) > 0
        return judged.attention(self.text, self["browsing"], self["cutoff"], useful)

    def exposure(self, judged: LabeledRun) -> FloatArray:
        """Return the expected exposure of each pair; shape (n_pairs,)."""
        samples = judged.run.n_samples[judged.run.query]
        return expected_exposure(
            self.attention(judged), judged.pair_of_row, judged.n_pairs, samples
        )

    def exposure_by_ranking(self, judged: LabeledRun) -> SparseRows:
        """Return the exposure of each pair in each ranking; shape (n_rankings, n_pairs)."""
        shape = (judged.run.n_rankings, judged.n_pairs)
        weight = self.attention(judged)
        matrix = attention_matrix(judged.run.ranking, judged.pair_of_row, weight, shape)
        if PASSAGE in judged.run.frame.columns:
            matrix.sum_duplicates()
        return SparseRows(matrix)

    def scales(self, judged: LabeledRun) -> FloatArray:
        """Return the factor of raw values in the measure's values; shape (n_queries,)."""
        return np.ones(len(judged.qids))

    def widths(self, judged: LabeledRun) -> FloatArray:
        """Return upper minus lower bound of raw values; NaN if they are equal."""
        part = self.part(judged)
        return np.where(part.equal_bounds, np.nan, part.upper - part.lower)

    @property
    def has_sampling_bias(self) -> bool:
        """Whether the plain estimate of sampled rankings is biased: not EE_R, which is a mean."""
        return "estimator" in self.SUPPORTED_PARAMS and self["estimator"] == "plain"

    def sampling_bias(self, judged: LabeledRun) -> FloatArray:
        """Return the bias of the plain estimates of EE_D and EE_L of sampled rankings.

        Returns:
            Shape (n_queries,); NaN for one sample, 0 for a query missing from the run.
        """
        n = np.bincount(judged.ranking_query, minlength=len(judged.qids))
        bias = self.excess(judged) * self.scales(judged)
        return np.where(n == 1, np.nan, np.where(n == 0, 0.0, bias))


@dataclass(frozen=True)
class _Settings:
    """The settings that several measures share, and one of the measures that have them."""

    params: tuple[tuple[str, Any], ...]
    objects: tuple[tuple[str, Any], ...]
    measure: ExpectedExposure = field(compare=False)


def _compute(judged: LabeledRun, settings: _Settings) -> Computed:
    return settings.measure.compute(judged)


def _excess(judged: LabeledRun, settings: _Settings) -> FloatArray:
    measure = settings.measure
    plain = measure.computed(judged).values.disparity.value
    square = measure.exposure_by_ranking(judged).square()
    return sampling_excess(plain, square, judged.ranking_query)


def refuse_one_sample(where: str, qids: ObjectArray, ranking_query: IntArray) -> None:
    """Raise an `InputError` if a query has a single sample."""
    alone = np.flatnonzero(np.bincount(ranking_query, minlength=len(qids)) == 1)
    if len(alone):
        raise InputError(
            f"{where}: estimator='unbiased' requires at least two samples, got one for qid "
            f"{str(qids[alone[0]])!r} ({such(len(alone), 'query')}); draw more, use "
            "estimator='plain', or drop the column 'sample' of a deterministic ranking"
        )


def counts(index: IntArray, mask: BoolArray, n_queries: int) -> IntArray:
    """Return the number of masked items of each query."""
    return np.bincount(index[mask], minlength=n_queries)
