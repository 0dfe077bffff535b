"""Ids, labels and duplicates: one rule each, whatever measure is asked and through which door."""

import ir_measures
import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from ir_measures import RR, Judged, P, nDCG

import fairtk
from fairtk import AWRF, EE_D, EE_L, EE_R, EU, E, Groups, OracleSampler, Target
from fairtk.errors import ColumnError, DuplicateError, InputError
from fairtk.frames import ours
from fairtk.measures import ByGroup, nDCG_AWRF, nDCG_TREC

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
GROUPS = Groups.from_frame(
    pd.DataFrame({"docno": ["7", "8", "9"], "group": ["f", "m", "m"]}), name="gender"
)
HALF = Target.uniform(GROUPS)
MEASURES = [
    EE_D @ 2,
    EE_R @ 2,
    EE_L @ 2,
    EE_R(groups=GROUPS, target=HALF) @ 2,
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


DOORS = {
    "iter_calc": lambda m, qrels, run: by_iter(m, theirs(qrels), theirs(run)),
    "calc, PyTerrier's names": by_calc,
    "evaluator, names mixed": lambda m, qrels, run: by_evaluator(m, theirs(qrels), run),
    "calc, names mixed": lambda m, qrels, run: by_calc(m, qrels, theirs(run)),
}
ALL_DOORS = {**DOORS, "pt.Experiment": by_experiment}


def with_value(frame, column, value, row=1):
    """Return the frame with one other value in a column, of objects."""
    values = frame[column].astype(object)
    changed = pd.Series(values.tolist(), dtype=object)
    changed.at[row] = value
    return frame.assign(**{column: changed})


@EVERY
def test_doors_agree(measure):
    expected = by_iter(measure, theirs(QRELS), theirs(RUN))
    for door in ALL_DOORS.values():
        before = QRELS.copy(), RUN.copy()
        assert door(measure, QRELS, RUN) == pytest.approx(expected, nan_ok=True)
        pd.testing.assert_frame_equal(QRELS, before[0])
        pd.testing.assert_frame_equal(RUN, before[1])


KINDS = {
    "float": QRELS["label"].astype(float),
    "nullable": QRELS["label"].astype("Int64"),
    "nullable float": QRELS["label"].astype("Float64"),
    "objects": QRELS["label"].astype(object),
    "small": QRELS["label"].astype(np.int8),
}


@EVERY
@pytest.mark.parametrize("kind", KINDS)
def test_labels_of_every_kind(measure, kind):
    expected = by_iter(measure, QRELS, RUN)
    qrels = QRELS.assign(label=KINDS[kind])
    for door in DOORS.values():
        assert door(measure, qrels, RUN) == pytest.approx(expected, nan_ok=True)


@EVERY
def test_labels_that_are_true_or_false(measure):
    expected = by_iter(measure, QRELS.assign(label=(QRELS["label"] > 0).astype(int)), RUN)
    qrels = QRELS.assign(label=QRELS["label"] > 0)
    assert by_iter(measure, qrels, RUN) == pytest.approx(expected, nan_ok=True)


@EVERY
def test_ids_that_are_whole_numbers(measure):
    expected = by_iter(measure, QRELS, RUN)
    numbers = {"qid": int, "docno": int}
    for qrels, run in (
        (QRELS.astype(numbers), RUN),
        (QRELS, RUN.astype(numbers)),
        (QRELS.astype(numbers), RUN.astype({"qid": "Int64", "docno": "int32"})),
    ):
        for door in DOORS.values():
            assert door(measure, qrels, run) == pytest.approx(expected, nan_ok=True)


BAD_IDS = {
    "float": (1.0, "astype"),
    "bytes": (b"1", "decode"),
    "list": (["1"], "list"),
    "missing": (None, "is missing"),
    "NUL": ("1\0", r"U\+0000"),
    "BOM": ("\ufeff1", r"U\+FEFF"),
    "surrogate": ("\udc80", r"U\+DC80"),
}


@EVERY
@pytest.mark.parametrize("column", ["qid", "docno"])
@pytest.mark.parametrize("bad", BAD_IDS)
def test_impossible_ids(measure, column, bad):
    value, message = BAD_IDS[bad]
    for qrels, run in (
        (with_value(QRELS, column, value, 0), RUN),
        (QRELS, with_value(RUN, column, value, 0)),
    ):
        with pytest.raises(InputError, match=rf"{column}.*{message}"):
            by_iter(measure, qrels, run)


@EVERY
@pytest.mark.parametrize("label", [np.nan, None, np.inf, "1", 2.0**53, 2**62])
def test_impossible_labels(measure, label):
    qrels = with_value(QRELS, "label", label)
    with pytest.raises(InputError, match="qid '1'.*docno '8'"):
        by_iter(measure, qrels, RUN)


@EVERY
def test_a_label_twice(measure):
    qrels = pd.concat([QRELS, QRELS[1:2]])
    for door in ALL_DOORS.values():
        with pytest.raises(DuplicateError, match="docno '8'.*qid '1'"):
            door(measure, qrels, RUN)


@EVERY
def test_columns_with_one_name_each(measure):
    double = pd.concat([QRELS, QRELS[["label"]]], axis=1)
    with pytest.raises(ColumnError):
        by_iter(measure, double, RUN)
    with pytest.raises(ColumnError, match="'qid'.*'query_id'"):
        by_iter(measure, QRELS, RUN.assign(query_id="1"))
    levels = RUN.set_axis(pd.MultiIndex.from_product([RUN.columns, [""]]), axis=1)
    with pytest.raises(ColumnError, match="MultiIndex"):
        by_iter(measure, QRELS, levels)


READERS = {
    "Target.from_qrels": lambda qrels: Target.from_qrels(qrels, GROUPS),
    "OracleSampler": OracleSampler,
    "drop_undefined": fairtk.drop_undefined,
    "explain": lambda qrels: fairtk.explain(EE_L @ 2, RUN, qrels),
    "per_group": lambda qrels: ByGroup(EE_R @ 2, GROUPS).per_group(qrels, RUN),
}


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
def test_all_who_read_qrels_refuse_the_same(reader):
    before = QRELS.copy()
    reader(QRELS)
    pd.testing.assert_frame_equal(QRELS, before)
    reader(QRELS.astype({"qid": int, "docno": int, "label": "Float64"}))
    for column in ("qid", "docno"):
        for value, message in BAD_IDS.values():
            with pytest.raises(InputError, match=rf"{column}.*{message}"):
                reader(with_value(QRELS, column, value, 0))
    for label in (np.nan, np.inf, "1", 2.0**53):
        with pytest.raises(InputError, match="qid '1'.*docno '8'"):
            reader(with_value(QRELS, "label", label))
    with pytest.raises(DuplicateError, match="docno '8'.*qid '1'"):
        reader(pd.concat([QRELS, QRELS[1:2]]))
    with pytest.raises(ColumnError):
        reader(pd.concat([QRELS, QRELS[["label"]]], axis=1))


def test_coverage_reads_runs_by_the_same_rules():
    GROUPS.coverage(RUN.astype({"qid": int, "docno": int}))
    for column in ("qid", "docno"):
        for value, message in BAD_IDS.values():
            with pytest.raises(InputError, match=rf"{column}.*{message}"):
                GROUPS.coverage(with_value(RUN, column, value, 0))


def test_drop_undefined_takes_either_names():
    qrels = QRELS.assign(label=[0, 0, 0, 1])
    for frame in (qrels, theirs(qrels)):
        assert fairtk.drop_undefined(frame).iloc[:, 0].tolist() == ["2", "2"]


@EVERY
def test_a_column_that_a_measure_declares_must_be_there(measure):
    for name in ours(ir_measures.qrel_inputs([measure])):
        with pytest.raises(ColumnError, match=rf"\(qrels\).*missing: \['{name}'\], found: \["):
            by_iter(measure, QRELS.drop(columns=name), RUN)
    for name in ours(ir_measures.run_inputs([measure])):
        with pytest.raises(ColumnError, match=rf"\(run.*\).*missing: \['{name}'\], found: \["):
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


@EVERY_FORM
@EVERY_PLAIN
class TestPlainMeasuresByTheSameRules:
    def test_ids_that_are_whole_numbers(self, measure, form):
        expected = by_iter(measure, theirs(QRELS), theirs(RUN))
        numbers = {"qid": int, "docno": int}
        for qrels, run in ((QRELS.astype(numbers), RUN), (QRELS, RUN.astype(numbers))):
            assert by_iter(measure, form(qrels), form(run)) == expected

    @pytest.mark.parametrize("kind", KINDS)
    def test_labels_of_every_kind(self, measure, form, kind):
        expected = by_iter(measure, theirs(QRELS), theirs(RUN))
        assert by_iter(measure, form(QRELS.assign(label=KINDS[kind])), form(RUN)) == expected

    @pytest.mark.parametrize("column", ["qid", "docno"])
    @pytest.mark.parametrize("bad", [b for b in BAD_IDS if b not in ("list", "missing")])
    def test_impossible_ids(self, measure, form, column, bad):
        value, message = BAD_IDS[bad]
        for qrels, run in (
            (with_value(QRELS, column, value, 0), RUN),
            (QRELS, with_value(RUN, column, value, 0)),
            (QRELS, with_value(RUN, column, value, 0).assign(sample=0)),
        ):
            with pytest.raises(InputError, match=rf"^{measure!r}.*{column}.*{message}"):
                by_iter(measure, form(qrels), form(run))

    @pytest.mark.parametrize("label", [np.nan, None, np.inf, "1", 2.0**53, 2**62])
    def test_impossible_labels(self, measure, form, label):
        qrels = with_value(QRELS, "label", label)
        with pytest.raises(InputError, match="qid '1'.*docno '8'"):
            by_iter(measure, form(qrels), form(RUN))

    @pytest.mark.parametrize("score", [np.nan, np.inf, "high"])
    def test_impossible_scores(self, measure, form, score):
        with pytest.raises(ValueError, match="qid '1'.*docno '8'"):
            by_iter(measure, form(QRELS), form(with_value(RUN, "score", score)))


@EVERY_PLAIN
def test_rows_are_labeled_once(measure):
    rows = as_rows(pd.concat([QRELS, QRELS[1:2]]))
    with pytest.raises(DuplicateError, match="docno '8'.*qid '1'"):
        by_iter(measure, rows, RUN)


def test_fractions_are_left_to_who_takes_them():
    qrels = QRELS.assign(label=QRELS["label"] / 2)  # 1, 0, .5, .5
    with pytest.raises(InputError, match=r"the labels have fractions \(0\.5\), but nDCG@2 needs"):
        by_iter(nDCG @ 2, qrels, RUN)
    gain = ir_measures.define_byquery(lambda qrels, run: qrels["relevance"].sum(), name="Gain")
    assert by_iter(gain, qrels, RUN) == {"1": 1.0, "2": 1.0}


@EVERY_PLAIN
def test_neither_rows_nor_mappings_nor_frames(measure):
    for bad in ({"1": ["7"]}, [("1", "7", 1)], "qrels.txt", 7):
        with pytest.raises(ColumnError, match=r"\(qrels\) must be a DataFrame, a mapping"):
            by_iter(measure, bad, RUN)
        with pytest.raises(ColumnError, match=r"\(run\) must be a DataFrame, a mapping"):
            by_iter(measure, QRELS, bad)


def test_mappings_are_handed_on_as_they_are():
    labels = {"1": {"7": 1}, "2": {}}  # a query without labels counts for ir_measures
    assert by_iter(nDCG @ 2, labels, {"1": {"7": 1.0}, "2": {}}) == {"1": 1.0, "2": 0.0}
    assert labels == {"1": {"7": 1}, "2": {}}


@pytest.mark.parametrize("door", ALL_DOORS.values(), ids=ALL_DOORS)
def test_plain_measures_read_qrels_by_the_same_rules(door):
    assert door(nDCG @ 2, QRELS, RUN)["1"] == 1.0
    with pytest.raises(DuplicateError, match="docno '8'.*qid '1'"):
        door(nDCG @ 2, pd.concat([QRELS, QRELS[1:2]]), RUN)
    with pytest.raises(InputError, match="qid '1'.*docno '8'"):
        door(nDCG @ 2, with_value(QRELS, "label", np.nan), RUN)
