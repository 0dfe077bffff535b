"""Labels by people for some queries, which correct values with labels by a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd
from ir_measures.measures.base import MeanAgg

from fairtk.errors import DataWarning, InputError, warn
from fairtk.experiment.values import SystemScores, values_of_systems
from fairtk.frames import Qrels, Run
from fairtk.measures import FairMeasure
from fairtk.measures.evaluator import Evaluator
from fairtk.remarks import (
    AVERAGED,
    MISSING,
    MISSING_CHECKED,
    NO_COMMON,
    NO_JUDGED_DOCUMENT,
    RESPELLED_DOCNOS,
    RESPELLED_QIDS,
    UNDEFINED,
    Remark,
)
from fairtk.wording import format_list

_OF_LABELS = (
    UNDEFINED, AVERAGED, NO_COMMON, NO_JUDGED_DOCUMENT, RESPELLED_QIDS, RESPELLED_DOCNOS,
)  # fmt: skip
"""The kinds of remarks that depend on the labels."""


class CheckedLabels:
    """Measures systems with the labels of the checked queries.

    Args:
        measures: the measures by label.
        labels: the labels of the checked queries.
        qids: the queries of the other labels.
        where: the caller, for messages.

    Raises:
        InputError: a measure is not a mean over queries, there are fewer than two checked queries,
            or one is not among the queries.
    """

    def __init__(
        self, measures: Mapping[str, Any], labels: Qrels, qids: Sequence[str], where: str
    ) -> None:
        others = [label for label, measure in measures.items() if not _is_mean(measure)]
        if others:
            raise InputError(
                f"{where}: `checked` supports only measures that are means over queries, got "
                f"{format_list(others)}"
            )
        checked, known = labels.qids.tolist(), set(qids)
        unknown = [qid for qid in checked if qid not in known]
        if unknown:
            raise InputError(
                f"{where}: {len(unknown)} of {len(checked)} queries of `checked` are not measured "
                f"({format_list(unknown)}); the qrels must have labels for all queries, and "
                "`checked` for some of them"
            )
        if len(checked) < 2:
            raise InputError(
                f"{where}: `checked` must have labels for at least two queries, got "
                f"{format_list(checked) or 'none'}"
            )
        if len(checked) == len(known):
            warn(
                f"{where}: `checked` has labels for all {len(known)} queries, so the other labels "
                "do not count",
                DataWarning,
                stacklevel=4,
            )
        self.measures, self.labels = measures, labels
        self._evaluator = Evaluator(list(measures.values()), labels)
        self._scores: dict[str, SystemScores] = {}

    def measure(self, system: str, run: Run) -> None:
        """Measure a system."""
        run = self._evaluator.checked(run)
        self._scores[system] = SystemScores.of(self._evaluator, self.measures, run)

    def values(self) -> tuple[pd.DataFrame, list[Remark]]:
        """Return ``system``, ``qid``, ``measure``, ``value``, and the remarks on the labels."""
        values = values_of_systems(self._scores, self.measures, self.labels)
        remarks = []
        for remark in values.remarks:
            if remark.kind == MISSING:
                remarks.append(replace(remark, kind=MISSING_CHECKED))
            elif remark.kind in _OF_LABELS:
                remarks.append(replace(remark, system=f"{remark.system} (checked)".strip()))
        return values.per_query, remarks


def _is_mean(measure: Any) -> bool:
    if isinstance(measure, FairMeasure):
        return measure.is_mean and not measure.compares_queries
    return type(measure.aggregator()) is MeanAgg
