"""The contract of measures."""

from __future__ import annotations

import json
import math
import sys
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from operator import matmul
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd

from fairtk.errors import DataWarning, FairtkError, FairtkWarning, UndefinedWarning
from fairtk.frames import DOCNO, LABEL, QANSWER, QID, QUERY, RANK, SAMPLE, SCORE
from fairtk.frames.columns import TO_IR_MEASURES, from_ir_measures
from fairtk.measures import FairMeasure, MeasureInfo, parse
from fairtk.measures.params import NOT_GIVEN
from fairtk.measures.parsing import named_objects
from fairtk.testing.toys import (
    check_refused,
    check_values,
    invalid_values,
    is_one_of,
    same_number,
    snapshot,
    toy_answers,
    toy_qrels,
    toy_topics,
    with_other_indexes,
)

Values = dict[str, float]


@contextmanager
def registered_names(measure: Any) -> Iterator[None]:
    """Register the groups and the target in a measure's string by their names."""
    with ExitStack() as stack:
        for part, name, value in named_objects([measure]):
            known = part.SUPPORTED_PARAMS[name].directory.registered
            stack.enter_context(patch.dict(known, {part.params[name]: value}))
        yield


def to_ir_measures(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame in ir_measures' names."""
    return frame.rename(columns=TO_IR_MEASURES)


def _only(frame: pd.DataFrame, columns: set[str]) -> pd.DataFrame:
    """Return a subset of the columns, given in ir_measures' names."""
    renamed = to_ir_measures(frame)
    return from_ir_measures(renamed[[c for c in renamed.columns if c in columns]], "run")


def _shuffled(frame: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    return frame.iloc[rng.permutation(len(frame))]


class MeasureContract:
    """Tests of a measure; subclass it and set `measure`.

    Attributes:
        measure: the measure under test, with a cutoff if it needs one.
        missing: the value of a query missing from the run, if a parameter changes the declared
            one.
        knows_documents: whether the measure depends on docnos, because it has data about certain
            documents, such as their groups.
    """

    measure: Any
    missing: float | None = None
    knows_documents: bool = False

    def qrels(self) -> pd.DataFrame:
        """Return labels of at least two queries, with each retrieved document labeled."""
        return toy_qrels()

    def samples(self) -> pd.DataFrame:
        """Return a sampled run with all columns that the measure reads."""
        return toy_answers()

    def run(self) -> pd.DataFrame:
        """Return an unsampled run: sample 0 of `samples`."""
        samples = self.samples()
        return samples[samples[SAMPLE] == 0].drop(columns=SAMPLE).reset_index(drop=True)

    def values(self, qrels: pd.DataFrame, run: pd.DataFrame) -> Values:
        """Return the measure's value by qid, and check that NaN comes with a warning."""
        import ir_measures

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            metrics = list(
                ir_measures.iter_calc([self.measure], to_ir_measures(qrels), to_ir_measures(run))
            )
        values = {str(m.query_id): m.value for m in metrics}
        assert len(values) == len(metrics), f"{self.measure!r} has two values for a query"
        for qid, value in values.items():
            assert isinstance(value, float | np.floating) and not math.isinf(value), (
                f"{self.measure!r}: the value of qid {qid!r} is {value!r}, not a finite float"
            )
        undefined = [qid for qid, value in values.items() if math.isnan(value)]
        warned = any(issubclass(w.category, UndefinedWarning) for w in caught)
        assert warned or not undefined, (
            f"{self.measure!r} is NaN for qids {undefined} without an UndefinedWarning"
        )
        for warning in caught:
            if not issubclass(warning.category, UndefinedWarning | DataWarning):
                warnings.warn_explicit(
                    warning.message, warning.category, warning.filename, warning.lineno
                )
        return values

    def whole_run(self) -> pd.DataFrame:
        """Return an unsampled run that ranks all labeled documents of each query."""
        run = self.run().drop_duplicates(QID)
        rows = self.qrels()[[QID, DOCNO]].drop_duplicates()
        rows = rows.merge(run.drop(columns=[DOCNO, SCORE, RANK], errors="ignore"), on=QID)
        return rows.assign(**{SCORE: -rows.groupby(QID).cumcount().astype(float)})

    def forms(self) -> dict[str, pd.DataFrame]:
        """Return a run of each form."""
        return {"plain": self.run(), "sampled": self.samples()}

    def policies(self) -> dict[str, pd.DataFrame]:
        """Return different runs."""
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
        for name, run in self.forms().items():
            qrels, shuffled = _shuffled(self.qrels(), rng), _shuffled(run, rng)
            message = f"{self.measure!r} depends on the order of rows ({name} run)"
            check_values(self.values(qrels, shuffled), self.values(self.qrels(), run), message)

    def test_index_does_not_matter(self) -> None:
        """Any index of labels and runs gives the same values."""
        for name, run in self.forms().items():
            expected = self.values(self.qrels(), run)
            frames = zip(
                with_other_indexes(self.qrels()).items(),
                with_other_indexes(run).values(),
                strict=True,
            )
            for (kind, qrels), indexed in frames:
                message = f"{self.measure!r} depends on the index: {kind} ({name} run)"
                check_values(self.values(qrels, indexed), expected, message)

    def test_names_of_documents_do_not_matter(self) -> None:
        """Other docnos, in another alphabetical order, have the same values."""
        if self.knows_documents:
            return
        qrels = self.qrels()
        for name, run in self.forms().items():
            docnos = sorted({*qrels[DOCNO], *run[DOCNO]}, reverse=True)
            renamed = {docno: f"doc{index:04}" for index, docno in enumerate(docnos)}
            actual = self.values(
                qrels.assign(**{DOCNO: qrels[DOCNO].map(renamed)}),
                run.assign(**{DOCNO: run[DOCNO].map(renamed)}),
            )
            message = f"{self.measure!r} depends on the names of documents ({name} run)"
            check_values(actual, self.values(qrels, run), message)

    def test_numbers_of_samples_do_not_matter(self) -> None:
        """Samples in another order and with other numbers have the same values."""
        samples = self.samples()
        other = samples.assign(**{SAMPLE: 3 * (samples[SAMPLE].max() - samples[SAMPLE]) + 1})
        message = f"{self.measure!r} depends on how samples are numbered"
        expected = self.values(self.qrels(), samples)
        check_values(self.values(self.qrels(), other), expected, message)

    def test_one_sample_is_a_plain_run(self) -> None:
        """A run with one sample has the values of the same run without ``sample``."""
        actual = self.values(self.qrels(), self.run().assign(**{SAMPLE: 0}))
        message = f"{self.measure!r} differs between a plain run and the same run as one sample"
        check_values(actual, self.values(self.qrels(), self.run()), message)

    def test_other_queries_do_not_matter(self) -> None:
        """A query has the same value alone; queries without labels are ignored."""
        qrels, samples = self.qrels(), self.samples()
        expected = self.values(qrels, samples)
        for qid, value in expected.items():
            alone = self.values(qrels[qrels[QID] == qid], samples[samples[QID] == qid])
            message = f"{self.measure!r} depends on other queries"
            check_values(alone, {qid: value}, message)
        extra = samples[samples[QID] == samples[QID].iloc[0]].assign(**{QID: "without-labels"})
        actual = self.values(qrels, pd.concat([samples, extra], ignore_index=True))
        check_values(actual, expected, f"{self.measure!r} does not ignore queries without labels")

    def test_declared_columns_are_enough(self) -> None:
        """Only `RUN_COLUMNS`, ``sample`` and `QREL_COLUMNS` are read."""
        import ir_measures

        run_columns = {*ir_measures.run_inputs([self.measure]), SAMPLE}
        qrel_columns = set(ir_measures.qrel_inputs([self.measure]))
        qrels = _only(self.qrels(), qrel_columns)
        for name, run in self.forms().items():
            try:
                actual = self.values(qrels, _only(run, run_columns))
            except Exception as error:
                raise AssertionError(
                    f"{self.measure!r} reads an undeclared column ({name} run): "
                    f"{type(error).__name__}: {error}"
                ) from error
            message = f"{self.measure!r} reads undeclared columns ({name} run)"
            check_values(actual, self.values(self.qrels(), run), message)

    def test_inputs_stay_as_they_are(self) -> None:
        """The frames are not changed."""
        for name, run in self.forms().items():
            qrels = self.qrels()
            before = [snapshot(qrels), snapshot(run)]
            self.values(qrels, run)
            same = before == [snapshot(qrels), snapshot(run)]
            assert same, f"{self.measure!r} changes its input ({name} run)"

    # What a measure declares -------------------------------------------------------------------

    def test_declarations(self) -> None:
        """A measure declares its name, its meaning and the better direction."""
        measure = self.measure
        assert isinstance(measure, FairMeasure), f"{measure!r} must be a FairMeasure"
        for name in ("NAME", "PRETTY_NAME"):
            value = getattr(measure, name, None)
            assert isinstance(value, str) and bool(value), f"{measure!r} must declare {name}"
        assert measure.better in ("higher", "lower"), (
            f"{measure!r}: better must be 'higher' or 'lower', got {measure.better!r}"
        )
        assert measure.SHORT_DESC, f"{measure!r} must have a docstring; its first line is shown"
        columns = {*measure.RUN_COLUMNS, *measure.QREL_COLUMNS}
        assert not columns & set(TO_IR_MEASURES.values()), (
            f"{measure!r}: columns are declared in PyTerrier's names (qid, docno, label), got "
            f"{sorted(columns)}"
        )

    def test_tables_need_no_measure(self) -> None:
        """What tables need to know is kept as JSON, and its texts are parts of a sentence."""
        info = MeasureInfo.of(self.measure)
        read = MeasureInfo.read(json.loads(json.dumps(info.as_json(), allow_nan=False)))
        assert read.as_json() == info.as_json(), (
            f"{self.measure!r}: {info.as_json()} is read back from JSON as {read.as_json()}"
        )
        for name in ("about", "caveat"):
            text = getattr(info, name)
            assert not text.endswith("."), (
                f"{self.measure!r}: {name} must be a part of a sentence, got {text!r}"
            )
        if info.has_sampling_bias:
            assert hasattr(self.measure, "sampling_bias"), (
                f"{self.measure!r} declares a sampling bias, so it must define sampling_bias"
            )

    def test_reads_back_what_it_prints(self) -> None:
        """``ir_measures.parse_measure(repr(measure))`` returns an equal measure."""
        import ir_measures

        variants = [self.measure]
        if "cutoff" in self.measure.SUPPORTED_PARAMS:
            variants += [self.measure @ 7, self.measure @ 8]
        for measure in variants:
            text = repr(measure)
            try:
                with registered_names(measure):
                    # load fairtk first, for a plugin that was postponed while fairtk was imported
                    read = [parse(text)]
                    if sys.version_info < (3, 14):  # ir_measures 0.4.3 requires `ast.Num`
                        read.append(ir_measures.parse_measure(text))
            except Exception as error:
                raise AssertionError(
                    f"{text!r} cannot be read back ({type(error).__name__}: {error}); is the "
                    "plugin installed, and does its fairtk_measures hook return the measure?"
                ) from error
            for other in read:
                assert type(other) is type(measure) and other == measure, (
                    f"{text!r} is read back as {other!r} ({type(other).__name__})"
                )
                assert other.params == measure.params, (
                    f"{text!r} is read back with the parameters {other.params}, not "
                    f"{measure.params}, so two different measures have the same repr"
                )
        assert len({repr(m) for m in variants}) == len({str(m.params) for m in variants}), (
            f"{self.measure!r} has the same repr for different cutoffs"
        )

    # Parameters --------------------------------------------------------------------------------

    def test_parameters_refuse_missing_values(self) -> None:
        """None, NaN, infinity, an empty string and other types are errors, unless the default.

        The error is a `ParameterError` with the name of the parameter, however it is given.
        """
        measure = self.measure
        for name, param in measure.SUPPORTED_PARAMS.items():
            kinds = param.dtype if isinstance(param.dtype, tuple) else (param.dtype,)
            choices = () if param.choices is NOT_GIVEN else param.choices
            for value in invalid_values(kinds):
                if is_one_of(value, [param.default, *choices]):
                    continue
                check_refused(
                    partial(measure, **{name: value}), name, f"{measure!r}, {name}={value!r}"
                )
                if name == measure.AT_PARAM:
                    check_refused(partial(matmul, measure, value), name, f"{measure!r} @ {value!r}")
                if value is None or value == "":
                    text = f"{measure.NAME}({name}={value!r})"
                    check_refused(partial(parse, text), name, text)

    def test_unset_parameters(self) -> None:
        """Without a parameter, there are values, or an error that names the parameter."""
        measure = self.measure
        given = {**measure.params, **measure.objects()}
        for name in given:
            try:
                without = type(measure)(**{n: v for n, v in given.items() if n != name})
                self.measure, qrels = without, self.qrels()
                self.values(qrels, self.run())
            except FairtkError as error:
                assert name in str(error), (
                    f"{without!r}: the error without {name} does not name it: {error}"
                )
            finally:
                self.measure = measure

    # Cutoff, missing queries, open values ------------------------------------------------------

    def test_cutoff_is_within_each_sample(self) -> None:
        """``@k`` reads only the first k ranks of each sample."""
        cutoff = self.measure.params.get("cutoff")
        if cutoff is None:
            return
        samples = self.samples()
        cut = samples[samples.groupby([QID, SAMPLE])[SCORE].rank(ascending=False) <= cutoff]
        message = f"{self.measure!r} reads ranks below its cutoff, or cuts across samples"
        expected = self.values(self.qrels(), cut)
        check_values(self.values(self.qrels(), samples), expected, message)

    def test_missing_query_gets_the_worst_value(self) -> None:
        """A missing query has the declared value, and no ranking has a worse one."""
        missing = self.measure.MISSING if self.missing is None else self.missing
        qrels = self.qrels()
        qids = list(dict.fromkeys(qrels[QID]))
        for name, run in self.policies().items():
            values = self.values(qrels, run)
            absent = self.values(qrels, run[run[QID] != qids[0]])
            assert same_number(absent[qids[0]], missing), (
                f"{self.measure!r}: a missing query has {absent[qids[0]]!r}, but "
                f"{missing!r} is declared (MISSING of the measure, or missing of the test)"
            )
            check_values(
                {q: absent[q] for q in qids[1:]},
                {q: values[q] for q in qids[1:]},
                f"{self.measure!r}: a missing query changes the others",
            )
            for qid, value in values.items():
                gain = missing - value if self.measure.better == "higher" else value - missing
                assert not gain > 1e-9, (
                    f"{self.measure!r}: returning nothing ({missing!r}) is better than {name} "
                    f"({value!r}, qid {qid!r}; {self.measure.better} is better)"
                )

    def test_empty_run(self) -> None:
        """With an empty run, queries have the missing value; queries without labels have none."""
        missing = self.measure.MISSING if self.missing is None else self.missing
        values = self.values(self.qrels(), self.whole_run())
        left_open = {q for q, value in values.items() if math.isnan(value)}
        bare = pd.DataFrame([], columns=[QID, DOCNO, SCORE])  # as in pt.Experiment
        for run in (self.samples()[:0], self.run()[:0], bare):
            actual = self.values(self.qrels(), run)
            # values that are undefined for the labels may stay undefined; values that are undefined
            # for a short ranking are the missing value
            expected = {q: missing for q in values}
            expected |= {q: v for q, v in actual.items() if math.isnan(v) and q in left_open}
            check_values(actual, expected, f"{self.measure!r} on an empty run")
        assert not self.values(self.qrels()[:0], self.run()), (
            f"{self.measure!r} has values for queries without labels"
        )

    def test_no_useful_document(self) -> None:
        """Labels without a useful document give a value, or NaN with a warning; no error."""
        qrels = self.qrels()
        if LABEL in qrels.columns:
            for run in self.policies().values():
                values = self.values(qrels.assign(**{LABEL: 0}), run)
                assert set(values) == set(map(str, qrels[QID])), f"{self.measure!r} loses queries"

    # Where it is used --------------------------------------------------------------------------

    def test_ways_through_ir_measures_agree(self) -> None:
        """`calc`, `calc_aggregate`, `iter_calc` and one evaluator for two runs agree."""
        import ir_measures

        measure, qrels = self.measure, to_ir_measures(self.qrels())
        evaluator = ir_measures.evaluator([measure], qrels)
        for run in (self.samples(), self.run()):
            expected = self.values(self.qrels(), run)
            mean = float(np.mean(list(expected.values())))
            with warnings.catch_warnings(action="ignore"):
                values = ir_measures.calc([measure], qrels, to_ir_measures(run))
                results = {
                    "calc": values.aggregated[measure],
                    "calc_aggregate": ir_measures.calc_aggregate(
                        [measure], qrels, to_ir_measures(run)
                    ),
                    "evaluator": evaluator.calc_aggregate(to_ir_measures(run)),
                }
                again = {str(m.query_id): m.value for m in evaluator.iter_calc(to_ir_measures(run))}
            check_values({str(m.query_id): m.value for m in values.per_query}, expected, "calc")
            check_values(again, expected, f"{measure!r}: an evaluator that is used twice")
            for name, value in results.items():
                number = value[measure] if isinstance(value, dict) else value
                assert same_number(number, mean), (
                    f"{measure!r}: {name} gives {number!r}, but the mean over queries is {mean!r}"
                )

    def test_experiment(self) -> None:
        """``pt.Experiment`` has the same values, with and without ``batch_size``."""
        import pyterrier as pt

        qrels = self.qrels()
        topics = toy_topics()
        topics = topics[topics[QID].isin(qrels[QID])]
        without_topic = set(qrels[QID]) - set(topics[QID])
        more = pd.DataFrame({QID: sorted(without_topic)}).assign(
            **{QUERY: "query", "question": "question"}
        )
        topics = pd.concat([topics, more], ignore_index=True) if without_topic else topics
        systems = self.forms()
        expected = {name: self.values(qrels, run) for name, run in systems.items()}
        for batch_size in (None, 2):
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
            for name in systems:
                rows = table[table["name"] == name]
                actual = dict(zip(rows[QID].astype(str), rows["value"], strict=True))
                message = f"{self.measure!r} in pt.Experiment, batch_size={batch_size}, {name} run"
                check_values(actual, expected[name], message)
