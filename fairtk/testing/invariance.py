"""What must not matter to a measure."""

from __future__ import annotations

import numpy as np
import pandas as pd

from fairtk.frames.columns import DOCNO, QID, SAMPLE, from_ir_measures
from fairtk.testing.agreement import check, check_values, snapshot
from fairtk.testing.measured import MeasureUnderTest, theirs


class MeasureInvariance(MeasureUnderTest):
    """Tests that a measure's values depend on nothing but what it measures."""

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


def _only(frame: pd.DataFrame, columns: set[str]) -> pd.DataFrame:
    """Return some columns, which are given in ir_measures' names."""
    whole = theirs(frame)
    return from_ir_measures(whole[[c for c in whole.columns if c in columns]], "run")


def _shuffled(frame: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Return the rows in another order."""
    return frame.iloc[rng.permutation(len(frame))]
