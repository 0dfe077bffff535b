"""What every measure must keep to."""

from __future__ import annotations

import math
import sys
import warnings

import numpy as np
import pandas as pd

from fairtk.errors import FairtkWarning
from fairtk.frames.columns import (
    DOCNO,
    LABEL,
    QID,
    QUERY,
    SAMPLE,
    SCORE,
    TO_IR_MEASURES,
)
from fairtk.measures import FairMeasure, parse
from fairtk.testing.agreement import check, check_values, same_number
from fairtk.testing.measured import MeasureUnderTest, theirs
from fairtk.testing.toys import toy_topics


class MeasureContract(MeasureUnderTest):
    """Tests of a measure; subclass it and set `measure`.

    Attributes:
        measure: the measure under test, with a cutoff if it needs one.
        missing: the value of a query that the run lacks; None: the one that the measure declares.
            To be set where a parameter changes it.
        knows_documents: whether the measure has data about certain documents (their groups), so
            that other docnos are other documents to it.
    """

    # What a measure declares -------------------------------------------------------------------

    def test_declarations(self) -> None:
        """A measure says what it is called, what it means and which direction is better."""
        measure = self.measure
        check(isinstance(measure, FairMeasure), f"{measure!r} must be a FairMeasure")
        for name in ("NAME", "PRETTY_NAME"):
            value = getattr(measure, name, None)
            check(isinstance(value, str) and bool(value), f"{measure!r} must declare {name}")
        check(
            measure.better in ("higher", "lower"),
            f"{measure!r}: better must be 'higher' or 'lower'; found {measure.better!r}",
        )
        check(bool(measure.SHORT_DESC), f"{measure!r} needs a docstring; its first line is shown")
        columns = {*measure.RUN_COLUMNS, *measure.QREL_COLUMNS}
        check(
            not columns & set(TO_IR_MEASURES.values()),
            f"{measure!r}: columns are declared in PyTerrier's names (qid, docno, label); found "
            f"{sorted(columns)}",
        )

    def test_reads_back_what_it_prints(self) -> None:
        """``ir_measures.parse_measure(repr(measure))`` is the measure, with all parameters."""
        import ir_measures

        variants = [self.measure]
        if "cutoff" in self.measure.SUPPORTED_PARAMS:
            variants += [self.measure @ 7, self.measure @ 8]
        for measure in variants:
            text = repr(measure)
            try:
                # fairtk's first: it loads a plugin that imported fairtk before it was complete
                read = [parse(text)]
                if sys.version_info < (3, 14):  # where ir_measures 0.4.3 misses `ast.Num`
                    read.append(ir_measures.parse_measure(text))
            except Exception as error:
                raise AssertionError(
                    f"{text!r} cannot be read back ({type(error).__name__}: {error}); is the "
                    "plugin installed, and does its fairtk_measures hook give the measure?"
                ) from error
            for other in read:
                check(
                    type(other) is type(measure) and other == measure,
                    f"{text!r} is read back as {other!r} ({type(other).__name__})",
                )
                check(
                    other.params == measure.params,
                    f"{text!r} is read back with the parameters {other.params}; they were "
                    f"{measure.params}, so two different measures print alike",
                )
        check(
            len({repr(m) for m in variants}) == len({str(m.params) for m in variants}),
            f"{self.measure!r} prints the same for different cutoffs",
        )

    # Cutoff, missing queries, open values ------------------------------------------------------

    def test_cutoff_is_within_each_sample(self) -> None:
        """``@k`` reads the first k ranks of each sample, and nothing below them."""
        cutoff = self.measure.params.get("cutoff")
        if cutoff is None:
            return
        samples = self.samples()
        cut = samples[samples.groupby([QID, SAMPLE])[SCORE].rank(ascending=False) <= cutoff]
        message = f"{self.measure!r} reads ranks below its cutoff, or cuts across samples"
        wanted = self.values(self.qrels(), cut)
        check_values(self.values(self.qrels(), samples), wanted, message)

    def test_missing_query_gets_the_worst_value(self) -> None:
        """A query without rankings has the declared value, and no ranking has a worse one."""
        missing = self.measure.MISSING if self.missing is None else self.missing
        qrels = self.qrels()
        qids = list(dict.fromkeys(qrels[QID]))
        for name, run in self.policies().items():
            values = self.values(qrels, run)
            absent = self.values(qrels, run[run[QID] != qids[0]])
            check(
                same_number(absent[qids[0]], missing),
                f"{self.measure!r}: a query that the run lacks gets {absent[qids[0]]!r}, but "
                f"{missing!r} is declared (MISSING of the measure, or missing of the test)",
            )
            check_values(
                {q: absent[q] for q in qids[1:]},
                {q: values[q] for q in qids[1:]},
                f"{self.measure!r}: a missing query changes the others",
            )
            for qid, value in values.items():
                gain = missing - value if self.measure.better == "higher" else value - missing
                check(
                    not gain > 1e-9,
                    f"{self.measure!r}: returning nothing ({missing!r}) is better than {name} "
                    f"({value!r}, qid {qid!r}; {self.measure.better} is better)",
                )

    def test_empty_run(self) -> None:
        """An empty run gives every query the missing value; without labels there is no value."""
        missing = self.measure.MISSING if self.missing is None else self.missing
        whole = self.values(self.qrels(), self.whole_run())
        left_open = {q for q, value in whole.items() if math.isnan(value)}
        bare = pd.DataFrame([], columns=[QID, DOCNO, SCORE])  # what pt.Experiment makes
        for run in (self.samples()[:0], self.run()[:0], bare):
            found = self.values(self.qrels(), run)
            # what the labels leave open may stay open; what a ranking left open that is shorter
            # than a bound needs, has the missing value
            wanted = {q: missing for q in whole}
            wanted |= {q: v for q, v in found.items() if math.isnan(v) and q in left_open}
            check_values(found, wanted, f"{self.measure!r} on an empty run")
        check(
            not self.values(self.qrels()[:0], self.run()),
            f"{self.measure!r} gives values for queries that have no labels",
        )

    def test_no_useful_document(self) -> None:
        """Labels without a useful document give a value, or NaN with a warning; no error."""
        qrels = self.qrels()
        if LABEL in qrels.columns:
            for run in self.policies().values():
                found = self.values(qrels.assign(**{LABEL: 0}), run)
                check(set(found) == set(map(str, qrels[QID])), f"{self.measure!r} loses queries")

    # Where it is used --------------------------------------------------------------------------

    def test_ways_through_ir_measures_agree(self) -> None:
        """`calc`, `calc_aggregate`, `iter_calc` and one evaluator for two runs agree."""
        import ir_measures

        measure, qrels = self.measure, theirs(self.qrels())
        evaluator = ir_measures.evaluator([measure], qrels)
        for run in (self.samples(), self.run()):
            wanted = self.values(self.qrels(), run)
            mean = float(np.mean(list(wanted.values())))
            with warnings.catch_warnings(action="ignore"):
                whole = ir_measures.calc([measure], qrels, theirs(run))
                results = {
                    "calc": whole.aggregated[measure],
                    "calc_aggregate": ir_measures.calc_aggregate([measure], qrels, theirs(run)),
                    "evaluator": evaluator.calc_aggregate(theirs(run)),
                }
                again = {str(m.query_id): m.value for m in evaluator.iter_calc(theirs(run))}
            check_values({str(m.query_id): m.value for m in whole.per_query}, wanted, "calc")
            check_values(again, wanted, f"{measure!r}: an evaluator that is used twice")
            for name, value in results.items():
                number = value[measure] if isinstance(value, dict) else value
                check(
                    same_number(number, mean),
                    f"{measure!r}: {name} gives {number!r}, but the mean over queries is {mean!r}",
                )

    def test_experiment(self) -> None:
        """``pt.Experiment`` gives the same values, with and without ``batch_size``."""
        import pyterrier as pt

        qrels = self.qrels()
        topics = toy_topics()
        topics = topics[topics[QID].isin(qrels[QID])]
        lost = set(qrels[QID]) - set(topics[QID])
        more = pd.DataFrame({QID: sorted(lost)}).assign(**{QUERY: "query", "question": "question"})
        topics = pd.concat([topics, more], ignore_index=True) if lost else topics
        systems = {"plain": self.run(), "sampled": self.samples()}
        for batch_size in (None, 1):
            with warnings.catch_warnings(action="ignore", category=FairtkWarning):
                table = pt.Experiment(
                    [pt.Transformer.from_df(run) for run in systems.values()],
                    topics,
                    qrels,
                    [self.measure],
                    names=list(systems),
                    perquery=True,
                    batch_size=batch_size,
                    validate="error",
                )
            for name, run in systems.items():
                rows = table[table["name"] == name]
                found = dict(zip(rows[QID].astype(str), rows["value"], strict=True))
                message = f"{self.measure!r} in pt.Experiment, batch_size={batch_size}, {name} run"
                check_values(found, self.values(qrels, run), message)
