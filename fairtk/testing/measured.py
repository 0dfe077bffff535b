"""A measure under test: the frames that it is tested with, and its values."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pandas as pd

from fairtk.errors import DataWarning, UndefinedWarning
from fairtk.frames.columns import DOCNO, QANSWER, QID, RANK, SAMPLE, SCORE, TO_IR_MEASURES
from fairtk.testing.agreement import check
from fairtk.testing.toys import toy_answers, toy_qrels

Values = dict[str, float]


class MeasureUnderTest:
    """What all tests of a measure share; see `MeasureContract`."""

    measure: Any
    missing: float | None = None
    knows_documents: bool = False

    def qrels(self) -> pd.DataFrame:
        """Return labels for the tests; at least two queries, every retrieved document labeled."""
        return toy_qrels()

    def samples(self) -> pd.DataFrame:
        """Return a sampled run for the tests, with all columns that the measure reads."""
        return toy_answers()

    def run(self) -> pd.DataFrame:
        """Return a plain run for the tests: sample 0 of `samples`."""
        samples = self.samples()
        return samples[samples[SAMPLE] == 0].drop(columns=SAMPLE).reset_index(drop=True)

    def values(self, qrels: pd.DataFrame, run: pd.DataFrame) -> Values:
        """Return the measure's value by qid, and check that NaN comes with a warning."""
        import ir_measures

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            metrics = list(ir_measures.iter_calc([self.measure], theirs(qrels), theirs(run)))
        values = {str(m.query_id): m.value for m in metrics}
        check(len(values) == len(metrics), f"{self.measure!r} gives a query two values")
        for qid, value in values.items():
            check(
                isinstance(value, float | np.floating) and not math.isinf(value),
                f"{self.measure!r}: the value of qid {qid!r} is {value!r}, not a finite float",
            )
        undefined = [qid for qid, value in values.items() if math.isnan(value)]
        warned = any(issubclass(w.category, UndefinedWarning) for w in caught)
        check(
            warned or not undefined,
            f"{self.measure!r} is NaN for qids {undefined} without an UndefinedWarning",
        )
        for warning in caught:
            if not issubclass(warning.category, UndefinedWarning | DataWarning):
                warnings.warn_explicit(
                    warning.message, warning.category, warning.filename, warning.lineno
                )
        return values

    def whole_run(self) -> pd.DataFrame:
        """Return a plain run that ranks all labeled documents of each query."""
        run = self.run().drop_duplicates(QID)
        rows = self.qrels()[[QID, DOCNO]].drop_duplicates()
        rows = rows.merge(run.drop(columns=[DOCNO, SCORE, RANK], errors="ignore"), on=QID)
        return rows.assign(**{SCORE: -rows.groupby(QID).cumcount().astype(float)})

    def policies(self) -> dict[str, pd.DataFrame]:
        """Return runs that are unlike each other."""
        run, samples = self.run(), self.samples()
        turned = run.assign(**{SCORE: -run[SCORE]}).drop(columns=RANK, errors="ignore")
        strange = run.assign(**{DOCNO: "unjudged-" + run[DOCNO]})
        if QANSWER in strange.columns:
            strange[QANSWER] = "nothing"
        return {
            "a plain run": run,
            "a sampled run": samples,
            "a reversed run": turned,
            "a run of unjudged documents": strange,
        }


def theirs(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame in ir_measures' names."""
    return frame.rename(columns=TO_IR_MEASURES)
