"""Ids, labels and duplicates: one rule each, whatever measure is asked and through which door."""

import ir_measures
import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from ir_measures import RR, Judged, P, nDCG
from small_frames import small_groups

import fairtk
from fairtk import AWRF, EE_D, EE_L, EE_R, EU, E, GroupEE_R, OracleSampler, Target
from fairtk.errors import ColumnError, DuplicateError, InputError
from fairtk.frames.columns import pyterrier_names
from fairtk.measures import ByGroup, nDCG_AWRF, nDCG_TREC
from fairtk.measures.foreign import other_providers

QRELS = pd.DataFrame(
    {
        "qid": ["1", "1", "2", "2"],
        "docno": ["7", "8", "7", "9"],
        "label": [2, 0, 1, 1],
        "gold_answer": ["x", "x", "y", "y"],
    }
)
RUN = pd.DataFrame(
    {
        "qid": ["1", "1", "2", "2"],
        "docno": ["7", "8", "9", "8"],
        "score": [2.0, 1.0, 2.0, 1.0],
        "qanswer": ["x", "x", "z", "z"],
    }
)
TOPICS = pd.DataFrame({"qid": ["1", "2"], "query": ["a", "b"]})
GROUPS = small_groups("789", "fmm", "gender")
HALF = Target.uniform(GROUPS)
MEASURES = [
    EE_D @ 2,
    EE_R @ 2,
    EE_L @ 2,
    GroupEE_R(groups=GROUPS, target=HALF) @ 2,
    AWRF(groups=GROUPS, target=HALF) @ 2,
    EU("em"),
    E(nDCG @ 2),
    E(P(rel=2) @ 2),
    nDCG_TREC @ 2,
    nDCG_AWRF(groups=GROUPS, target=HALF) @ 2,
    ByGroup(EE_R @ 2, GROUPS, "max"),
    nDCG_TREC @ 2 * EE_R @ 2,
]
EVERY = pytest.mark.parametrize("measure", MEASURES, ids=lambda m: repr(m).split("#")[0])


def theirs(frame):
    return pt.model.to_ir_measures(frame)


def by_iter(measure, qrels, run):
    return {m.query_id: m.value for m in ir_measures.iter_calc([measure], qrels, run)}


def by_evaluator(measure, qrels, run):
    return {m.query_id: m.value for m in ir_measures.evaluator([measure], qrels).iter_calc(run)}


def by_calc(measure, qrels, run):
    return {m.query_id: m.value for m in ir_measures.calc([measure], qrels, run).per_query}


def by_experiment(measure, qrels, run):
    table = pt.Experiment(
        [pt.Transformer.from_df(run)], TOPICS, qrels, [measure], names=["s"], perquery=True
    )
    return dict(zip(table["qid"], table["value"], strict=True))


ENTRIES = {
    "iter_calc": lambda m, qrels, run: by_iter(m, theirs(qrels), theirs(run)),
    "calc, PyTerrier's names": by_calc,
    "evaluator, names mixed": lambda m, qrels, run: by_evaluator(m, theirs(qrels), run),
    "calc, names mixed": lambda m, qrels, run: by_calc(m, qrels, theirs(run)),
}
ALL_ENTRIES = {**ENTRIES, "pt.Experiment": by_experiment}


def with_value(frame, column, value):
    """Return the frame with another value in the second row of a column."""
    values = frame[column].tolist()
    values[1] = value
    return frame.assign(**{column: pd.Series(values, dtype=object)})


@EVERY
def test_doors_agree(measure):
    expected = by_iter(measure, theirs(QRELS), theirs(RUN))
    for entry in ALL_ENTRIES.values():
        before = QRELS.copy(), RUN.copy()
        assert entry(measure, QRELS, RUN) == pytest.approx(expected, nan_ok=True)
        pd.testing.assert_frame_equal(QRELS, before[0])
        pd.testing.assert_frame_equal(RUN, before[1])


WHOLE = {"qid": int, "docno": int}
TYPES = {
    "labels as floats": (QRELS.astype({"label": float}), RUN),
    "nullable labels": (QRELS.astype({"label": "Int64"}), RUN),
    "labels as objects": (QRELS.astype({"label": object}), RUN),
    "ids of qrels": (QRELS.astype(WHOLE), RUN),
    "ids of the run": (QRELS, RUN.astype({"qid": "Int64", "docno": "int32"})),
}
EVERY_TYPE = pytest.mark.parametrize("frames", TYPES.values(), ids=TYPES)


@EVERY
@EVERY_TYPE
def test_numbers_of_every_type(measure, frames):
    expected = by_iter(measure, QRELS, RUN)
    assert by_iter(measure, *frames) == pytest.approx(expected, nan_ok=True)


@EVERY_TYPE
def test_numbers_of_every_type_at_every_door(frames):
    expected = by_iter(EE_D @ 2, QRELS, RUN)
    for entry in ENTRIES.values():
        assert entry(EE_D @ 2, *frames) == pytest.approx(expected)


# One case of each rule: tests/frames has all of them.
TWICE = pd.concat([QRELS, QRELS[1:2]])
TWO_LABELS = pd.concat([QRELS, QRELS[["label"]]], axis=1)
BAD_QRELS = {
    "qid": (with_value(QRELS, "qid", 1.0), InputError, "qid.*astype"),
    "docno": (with_value(QRELS, "docno", "8\0"), InputError, r"docno.*U\+0000"),
    "label": (with_value(QRELS, "label", 2.0**53), InputError, "qid '1'.*docno '8'"),
    "label far below 0": (with_value(QRELS, "label", -(2**62)), InputError, "docno '8'"),
    "no label": (with_value(QRELS, "label", np.nan), InputError, "qid '1'.*docno '8'"),
    "a label twice": (TWICE, DuplicateError, "qid '1', docno '8'"),
    "a column twice": (TWO_LABELS, ColumnError, "label|relevance"),
}
LEVELS = RUN.set_axis(pd.MultiIndex.from_product([RUN.columns, [""]]), axis=1)
BAD_RUNS = {
    "qid": (with_value(RUN, "qid", b"1"), InputError, "qid.*bytes"),
    "docno": (with_value(RUN, "docno", ["8"]), InputError, "docno.*list"),
    "two names": (RUN.assign(query_id="1"), ColumnError, "'qid'.*'query_id'"),
    "levels": (LEVELS, ColumnError, "MultiIndex"),
}
EVERY_BAD_QRELS = pytest.mark.parametrize("case", BAD_QRELS.values(), ids=BAD_QRELS)


@EVERY
@EVERY_BAD_QRELS
def test_bad_qrels(measure, case):
    qrels, error, place = case
    with pytest.raises(error, match=place):
        by_iter(measure, qrels, RUN)


@pytest.mark.parametrize("entry", ALL_ENTRIES.values(), ids=ALL_ENTRIES)
@pytest.mark.parametrize("case", ["label", "a label twice"])
def test_bad_qrels_at_every_door(entry, case):
    qrels, error, place = BAD_QRELS[case]
    with pytest.raises(error, match=place):
        entry(EE_D @ 2, qrels, RUN)


@EVERY
@pytest.mark.parametrize("case", BAD_RUNS.values(), ids=BAD_RUNS)
def test_bad_runs(measure, case):
    run, error, place = case
    with pytest.raises(error, match=place):
        by_iter(measure, QRELS, run)


READERS = {
    "Target.from_qrels": lambda qrels: Target.from_qrels(qrels, GROUPS),
    "OracleSampler": OracleSampler,
    "drop_undefined": fairtk.drop_undefined,
    "explain": lambda qrels: fairtk.explain(qrels, RUN, EE_L @ 2),
    "per_group": lambda qrels: ByGroup(EE_R @ 2, GROUPS).per_group(qrels, RUN),
}


@EVERY_BAD_QRELS
@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
def test_all_who_read_qrels_refuse_the_same(reader, case):
    before = QRELS.copy(), RUN.copy()
    reader(QRELS)
    pd.testing.assert_frame_equal(QRELS, before[0])
    pd.testing.assert_frame_equal(RUN, before[1])
    reader(QRELS.astype({**WHOLE, "label": "Float64"}))
    qrels, error, place = case
    with pytest.raises(error, match=place):
        reader(qrels)


def test_drop_undefined_takes_either_names():
    qrels = QRELS.assign(label=[0, 0, 0, 1])
    for frame in (qrels, theirs(qrels)):
        assert fairtk.drop_undefined(frame).iloc[:, 0].tolist() == ["2", "2"]


@EVERY
def test_a_column_that_a_measure_declares_must_be_there(measure):
    for name in pyterrier_names(ir_measures.qrel_inputs([measure])):
        with pytest.raises(ColumnError, match=rf"\(qrels\).*missing column '{name}'"):
            by_iter(measure, QRELS.drop(columns=name), RUN)
    for name in pyterrier_names(ir_measures.run_inputs([measure])):
        with pytest.raises(ColumnError, match=rf"\(run.*\).*missing column '{name}'"):
            by_iter(measure, QRELS, RUN.drop(columns=name))


PLAIN = [nDCG @ 2, RR @ 2, Judged @ 2]


def as_rows(frame):
    return list(theirs(frame).itertuples(index=False))


def as_mapping(frame):
    found = {}
    for qid, docno, value in frame.iloc[:, :3].itertuples(index=False):
        found.setdefault(qid, {})[docno] = value
    return found


FORMS = {"frame": theirs, "rows": as_rows, "mapping": as_mapping}
EVERY_FORM = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
EVERY_PLAIN = pytest.mark.parametrize("measure", PLAIN, ids=repr)


def values_or_error(iter_calc, measure, qrels, run):
    """Return the values by query as text, or "an error"."""
    try:
        return {m.query_id: repr(m.value) for m in iter_calc([measure], qrels, run)}
    except Exception:  # each library has errors of its own
        return "an error"


def assert_as_without_fairtk(measure, given, frames):
    """Check that the evaluators of ir_measures alone have the same values, or fail, too."""
    alone = values_or_error(other_providers().iter_calc, measure, *map(theirs, frames))
    assert values_or_error(ir_measures.iter_calc, measure, *given) == alone


@EVERY_FORM
@EVERY_PLAIN
class TestMeasuresOfOtherLibraries:
    @EVERY_TYPE
    def test_numbers_of_every_type(self, measure, form, frames):
        expected = by_iter(measure, theirs(QRELS), theirs(RUN))
        assert by_iter(measure, *map(form, frames)) == expected

    @pytest.mark.parametrize("case", [*BAD_QRELS][:-1])
    def test_bad_qrels(self, measure, form, case):
        qrels = BAD_QRELS[case][0]
        if form is not as_mapping or case != "a label twice":
            assert_as_without_fairtk(measure, (form(qrels), form(RUN)), (qrels, RUN))

    @pytest.mark.parametrize(
        ("column", "value"),
        [("qid", b"1"), ("docno", "8\0"), ("docno", ""), ("score", np.nan), ("score", np.inf)],
    )
    def test_bad_runs(self, measure, form, column, value):
        run = with_value(RUN, column, value)
        assert_as_without_fairtk(measure, (form(QRELS), form(run)), (QRELS, run))

    def test_a_row_twice(self, measure, form):
        run = pd.concat([RUN, RUN.head(1)], ignore_index=True)
        if form is not as_mapping:
            assert_as_without_fairtk(measure, (form(QRELS), form(run)), (QRELS, run))


@EVERY_FORM
def test_fractions_are_left_to_who_takes_them(form):
    qrels = QRELS.assign(label=QRELS["label"] / 2)  # 1, 0, .5, .5
    with pytest.raises(InputError, match=r"nDCG@2 requires integer labels, got 0\.5"):
        by_iter(nDCG @ 2, form(qrels), RUN)
    gain = ir_measures.define_byquery(lambda qrels, run: qrels["relevance"].sum(), name="Gain")
    assert by_iter(gain, qrels, RUN) == {"1": 1.0, "2": 1.0}


@EVERY_PLAIN
def test_neither_rows_nor_mappings_nor_frames(measure):
    for bad in ({"1": ["7"]}, [("1", "7", 1)], "qrels.txt", 7):
        with pytest.raises(ColumnError, match=r"\(qrels\).*got"):
            by_iter(measure, bad, RUN)
        with pytest.raises(ColumnError, match=r"\(run\).*got"):
            by_iter(measure, QRELS, bad)


def test_mappings_are_handed_on_as_they_are():
    labels = {"1": {"7": 1}, "2": {}}  # a query without labels counts for ir_measures
    assert by_iter(nDCG @ 2, labels, {"1": {"7": 1.0}, "2": {}}) == {"1": 1.0, "2": 0.0}
    assert labels == {"1": {"7": 1}, "2": {}}
