"""Whatever kind of measure returns what is wrong, the error names the measure and its plugin."""

import ir_measures
import numpy as np
import pandas as pd
import pytest

import fairtk
from fairtk import E, FairMeasure, Groups, hookimpl
from fairtk.errors import DataWarning, InputError, MeasureError
from fairtk.measures import ByGroup, LabeledRun, RemarkKind, Scores
from fairtk.measures.evaluation import evaluate
from fairtk.plugins import register, unregister
from fairtk.remarks import Remark

QIDS = ["1", "2"]
ROWS = [(q, f"{q}-{d}", 3.0 - i) for q in QIDS for i, d in enumerate("abc")]
RUN = pd.DataFrame(ROWS, columns=["qid", "docno", "score"])
SAMPLES = pd.concat([RUN.assign(sample=s, rank=[0, 1, 2] * 2) for s in (0, 1)])
QRELS = RUN[["qid", "docno"]].assign(label=1, gold_answer="a")
LABELED = LabeledRun.of(QRELS, RUN, "test")
SAMPLED = LabeledRun.of(QRELS, SAMPLES, "test")
GROUPS = Groups.from_frame(
    pd.DataFrame({"docno": QRELS["docno"], "group": ["x", "y", "x"] * 2, "weight": 1.0}), "parity"
)
OF_QUERIES = Groups.from_frame(
    pd.DataFrame({"docno": QIDS, "group": ["x", "y"], "weight": 1.0}), "of queries"
)


def ones(judged, more=0):
    return np.ones(len(judged.qids) + more, dtype=int)


WRONG = {
    "too many": lambda judged: ones(judged, 1) * 1.0,
    "too few": lambda judged: ones(judged, -1) * 1.0,
    "a number": lambda judged: 1.0,
    "a column": lambda judged: ones(judged)[:, None] * 1.0,
    "nothing": lambda judged: None,
    "by qid": lambda judged: dict.fromkeys(judged.qids, 1.0),
    "lists of several lengths": lambda judged: [[1.0], [1.0, 2.0]],
    "infinity": lambda judged: ones(judged) * np.inf,
    "minus infinity": lambda judged: Scores(ones(judged) * -np.inf),
    "a complex number": lambda judged: ones(judged) * 1j,
    "text": lambda judged: ["a"] * len(judged.qids),
    "None": lambda judged: [None] * len(judged.qids),
    "another order": lambda judged: pd.Series(ones(judged), index=judged.qids[::-1]),
    "a long mask": lambda j: Scores.of(ones(j) * 1.0, [("why", ones(j, 1) > 0)]),
    "a short mask": lambda j: Scores(ones(j) * np.nan, {"why": ones(j, -1) > 0}),
    "a mask of numbers": lambda j: Scores(ones(j) * np.nan, {"why": ones(j) * np.nan}),
    "a reason for a value": lambda j: Scores(ones(j) * 1.0, {"why": ones(j) > 0}),
    "long counts": lambda j: Scores(ones(j) * 1.0, {}, {"lab:known": ones(j, 1)}),
    "short counts": lambda j: Scores(ones(j) * 1.0, {}, {"lab:known": ones(j, -1)}),
    "undefined counts": lambda j: Scores(ones(j) * 1.0, {}, {"lab:known": ones(j) * np.nan}),
    "negative counts": lambda j: Scores(ones(j) * 1.0, {}, {"lab:known": -ones(j)}),
    "an unknown kind": lambda j: Scores(ones(j) * 1.0, {}, {"lab:unknown": ones(j)}),
}
ONE_QUERY = {"infinity": np.inf, "text": "a", "None": None, "a list": [1.0], "complex": 1j}


class Wrong(FairMeasure):
    """Returns what a test sets, from `score_all`."""

    NAME, PRETTY_NAME, BETTER, MISSING = "Wrong", "Wrong", "higher", 0.0
    REMARKS = {"lab:known": RemarkKind(DataWarning, "{measure}: {queries}")}
    supports_exact_exposure = True
    result = staticmethod(ones)

    def score_all(self, judged):
        return self.result(judged)


class WrongFamily(Wrong):
    """Returns what a test sets, from `score_together`."""

    NAME = "WrongFamily"

    @classmethod
    def score_together(cls, measures, judged):
        return {measure: Wrong.result(judged) for measure in measures}


class WrongPart(Wrong):
    """Returns what a test sets, from `combine`."""

    NAME = "WrongPart"

    @property
    def parts(self):
        return [ir_measures.nDCG @ 2]

    def combine(self, parts, judged):
        return Wrong.result(judged)


class WrongQuery(FairMeasure):
    """Returns what a test sets, from `score_query`."""

    NAME, PRETTY_NAME, BETTER, MISSING = "WrongQuery", "Wrong", "higher", 0.0
    result = 1.0

    def score_query(self, qrels, run):
        return self.result


class WrongMean(Wrong):
    """Returns what a test sets, from `aggregate` and `remarks`."""

    NAME = "WrongMean"
    mean, kinds = 1.0, ()

    def aggregate(self, values, qids):
        return self.mean

    def remarks(self):
        return [Remark(kind, "WrongMean", "", 1, 1, ("1",)) for kind in self.kinds]


class Lab:
    """The plugin of the measures."""

    @hookimpl
    def fairtk_measures(self):
        return [Wrong(), WrongFamily(), WrongPart(), WrongQuery(), WrongMean()]


@pytest.fixture(scope="module", autouse=True)
def plugin():
    plugin = Lab()
    register(plugin, "lab-measures", "1.2")
    yield
    unregister(plugin)


PLACE = r"measure Wrong\w* \(plugin lab-measures 1\.2\)"
PLAIN = [Wrong, WrongFamily, WrongPart]
NESTED = {
    "alone": lambda measure: measure,
    "E": E,
    "a product": lambda measure: measure * (ir_measures.nDCG @ 2),
    "the other side of a product": lambda measure: E("nDCG@2") * measure,
    "by group of documents": lambda measure: ByGroup(measure, GROUPS),
    "by group of queries": lambda measure: ByGroup(measure, OF_QUERIES, by="query"),
    "E of a product": lambda measure: E(measure * (ir_measures.nDCG @ 2)),
}
THEIRS = {"qid": "query_id", "docno": "doc_id", "label": "relevance"}
ENTRIES = {
    "evaluate": lambda m: fairtk.evaluate(QRELS, RUN, [m]),
    "compare": lambda m: fairtk.compare(QRELS, {"a": RUN, "b": RUN}, [m]),
    "Experiment": lambda m: fairtk.Experiment({"a": RUN}, None, QRELS, [m]),
    "ir_measures": lambda m: ir_measures.calc(
        [m], QRELS.rename(columns=THEIRS), RUN.rename(columns=THEIRS)
    ),
    "iter_calc": lambda m: list(
        ir_measures.iter_calc([m], QRELS.rename(columns=THEIRS), RUN.rename(columns=THEIRS))
    ),
}


@pytest.mark.parametrize("kind", PLAIN)
@pytest.mark.parametrize("wrong", WRONG)
def test_each_kind_of_measure_is_checked(monkeypatch, kind, wrong):
    monkeypatch.setattr(Wrong, "result", staticmethod(WRONG[wrong]))
    with pytest.raises(MeasureError, match=PLACE):
        evaluate([kind()], LABELED)


@pytest.mark.parametrize("nested", NESTED)
@pytest.mark.parametrize("wrong", WRONG)
def test_parts_are_checked(monkeypatch, nested, wrong):
    monkeypatch.setattr(Wrong, "result", staticmethod(WRONG[wrong]))
    measure = NESTED[nested](Wrong())
    for labeled in (LABELED,) if nested == "a product" else (LABELED, SAMPLED):
        with pytest.raises(MeasureError, match=PLACE):
            evaluate([measure], labeled)


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("wrong", ["too many", "infinity", "a long mask", "an unknown kind"])
def test_each_entry_point_is_checked(monkeypatch, entry, wrong):
    monkeypatch.setattr(Wrong, "result", staticmethod(WRONG[wrong]))
    with pytest.raises((MeasureError, InputError), match=PLACE) as caught:
        ENTRIES[entry](Wrong())
    assert MeasureError in {type(caught.value), type(caught.value.__cause__)}


@pytest.mark.parametrize("wrong", ONE_QUERY)
def test_score_query_is_checked(monkeypatch, wrong):
    monkeypatch.setattr(WrongQuery, "result", ONE_QUERY[wrong])
    with pytest.raises(MeasureError, match=rf"{PLACE}, qid '1'"):
        fairtk.evaluate(QRELS, RUN, [WrongQuery()])


@pytest.mark.parametrize("entry", [name for name in ENTRIES if name != "iter_calc"])
@pytest.mark.parametrize("wrong", ["a", None, np.inf, -np.inf, np.ones(2)], ids=repr)
def test_aggregates_are_checked(monkeypatch, entry, wrong):
    monkeypatch.setattr(WrongMean, "mean", wrong)
    for measure in (WrongMean(), E(WrongMean())):
        with pytest.raises(MeasureError, match=PLACE):
            ENTRIES[entry](measure)


@pytest.mark.parametrize("entry", ENTRIES)
def test_kinds_of_remarks_are_checked(monkeypatch, entry):
    monkeypatch.setattr(WrongMean, "kinds", ("lab:unknown",))
    with pytest.raises(MeasureError, match=f"{PLACE}.*'lab:unknown'"):
        ENTRIES[entry](WrongMean())


def test_what_is_right_is_not_an_error(monkeypatch):
    right = [
        lambda judged: [1] * len(judged.qids),
        lambda judged: pd.Series(ones(judged)),
        lambda judged: pd.Series(ones(judged), index=judged.qids),
        lambda judged: Scores([1.0] * len(judged.qids), {"why": [False] * len(judged.qids)}),
        lambda judged: ones(judged) > 0,
    ]
    for result in right:
        monkeypatch.setattr(Wrong, "result", staticmethod(result))
        assert fairtk.evaluate(QRELS, RUN, [Wrong()]).means["Wrong"].tolist() == [1.0]
