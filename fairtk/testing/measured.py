"""A measure under test: its frames, its values, and what must not matter to them."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pandas as pd

from fairtk.errors import DataWarning, UndefinedWarning
from fairtk.frames.columns import (
    DOCNO,
    QANSWER,
    QID,
    RANK,
    SAMPLE,
    SCORE,
    TO_IR_MEASURES,
    from_ir_measures,
)
from fairtk.testing.agreement import check, check_values, snapshot
from fairtk.testing.toys import toy_answers, toy_qrels

Values = dict[str, float]


class MeasureUnderTest:
    """What all tests of a measure share, and tests that its values depend on nothing else.

    See `MeasureContract`.
    """

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

    def test_order_of_rows_does_not_matter(self) -> None:
        """Shuffled labels and runs have the same values."""
        rng = np.random.default_rng(11)
        for name, run in self.policies().items():
            wanted = self.values(self.qrels(), run)
            for _ in range(3):
                qrels, shuffled = _shuffled(self.qrels(), rng), _shuffled(run, rng)
                message = f"{self.measure!r} depends on the order of rows ({name})"
                check_values(self.values(qrels, shuffled), wanted, message)

    def test_names_of_documents_do_not_matter(self) -> None:
        """Other docnos, in another alphabetical order, have the same values."""
        if self.knows_documents:
            return
        qrels = self.qrels()
        for name, run in self.policies().items():
            docnos = sorted({*qrels[DOCNO], *run[DOCNO]}, reverse=True)
            renamed = {docno: f"doc{index:04}" for index, docno in enumerate(docnos)}
            found = self.values(
                qrels.assign(**{DOCNO: qrels[DOCNO].map(renamed)}),
                run.assign(**{DOCNO: run[DOCNO].map(renamed)}),
            )
            message = f"{self.measure!r} depends on the names of documents ({name})"
            check_values(found, self.values(qrels, run), message)

    def test_numbers_of_samples_do_not_matter(self) -> None:
        """Samples in another order and with other numbers have the same values."""
        samples = self.samples()
        other = samples.assign(**{SAMPLE: 3 * (samples[SAMPLE].max() - samples[SAMPLE]) + 1})
        message = f"{self.measure!r} depends on how samples are numbered"
        wanted = self.values(self.qrels(), samples)
        check_values(self.values(self.qrels(), other), wanted, message)

    def test_one_sample_is_a_plain_run(self) -> None:
        """A run with one sample has the values of the same run without ``sample``."""
        found = self.values(self.qrels(), self.run().assign(**{SAMPLE: 0}))
        message = f"{self.measure!r} differs between a plain run and the same run as one sample"
        check_values(found, self.values(self.qrels(), self.run()), message)

    def test_other_queries_do_not_matter(self) -> None:
        """A query has the same value alone; a query without labels is ignored."""
        qrels, samples = self.qrels(), self.samples()
        wanted = self.values(qrels, samples)
        for qid, value in wanted.items():
            alone = self.values(qrels[qrels[QID] == qid], samples[samples[QID] == qid])
            message = f"{self.measure!r} depends on other queries"
            check_values(alone, {qid: value}, message)
        extra = samples[samples[QID] == samples[QID].iloc[0]].assign(**{QID: "without-labels"})
        found = self.values(qrels, pd.concat([samples, extra], ignore_index=True))
        check_values(found, wanted, f"{self.measure!r} does not ignore queries without labels")

    def test_declared_columns_are_enough(self) -> None:
        """Nothing is read but `RUN_COLUMNS`, ``sample`` and `QREL_COLUMNS`."""
        import ir_measures

        run_columns = {*ir_measures.run_inputs([self.measure]), SAMPLE}
        qrel_columns = set(ir_measures.qrel_inputs([self.measure]))
        qrels = _only(self.qrels(), qrel_columns)
        for name, run in {"plain": self.run(), "sampled": self.samples()}.items():
            try:
                found = self.values(qrels, _only(run, run_columns))
            except Exception as error:
                raise AssertionError(
                    f"{self.measure!r} reads a column that it does not declare ({name} run): "
                    f"{type(error).__name__}: {error}"
                ) from error
            message = f"{self.measure!r} reads columns that it does not declare ({name} run)"
            check_values(found, self.values(self.qrels(), run), message)

    def test_inputs_stay_as_they_are(self) -> None:
        """The frames are not changed."""
        for name, run in self.policies().items():
            qrels = self.qrels()
            before = [snapshot(qrels), snapshot(run)]
            self.values(qrels, run)
            same = before == [snapshot(qrels), snapshot(run)]
            check(same, f"{self.measure!r} changes its input ({name})")


def theirs(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame in ir_measures' names."""
    return frame.rename(columns=TO_IR_MEASURES)


def _only(frame: pd.DataFrame, columns: set[str]) -> pd.DataFrame:
    """Return some columns, which are given in ir_measures' names."""
    whole = theirs(frame)
    return from_ir_measures(whole[[c for c in whole.columns if c in columns]], "run")


def _shuffled(frame: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Return the rows in another order."""
    return frame.iloc[rng.permutation(len(frame))]
