"""Remarks on what people bring: ids that almost match, queries that are documents, two orders."""

import importlib
import inspect
import unicodedata
import warnings

import ir_measures
import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fairtk
from fairtk import remarks
from fairtk.errors import DataWarning, InputError, UnmatchedWarning
from fairtk.frames import Run
from fairtk.frames.spellings import SPELLINGS
from fairtk.transformers import IgnoreIdenticalIds

# two of three documents have other ids in the run, and the first query is its own document
SPELLED = {"001": "1", "002": "2", "100": "100"}
QRELS = pd.DataFrame(
    [(q, d, i != 1) for q in ("q1", "q2") for i, d in enumerate([*SPELLED, "q1"])],
    columns=["qid", "docno", "label"],
).astype({"label": int})
RUN = pd.DataFrame(
    [(q, d, 4.0 - i) for q in ("q1", "q2") for i, d in enumerate(["q1", *SPELLED.values()])],
    columns=["qid", "docno", "score"],
)
TOPICS = pd.DataFrame({"qid": ["q1", "q2"], "query": "words"})
SAMPLES = pd.concat([RUN.assign(sample=s) for s in range(2)], ignore_index=True)
PROVIDERS = pd.DataFrame({"docno": RUN["docno"].unique(), "group": "p"})
EXPECTED = {remarks.RESPELLED_DOCNOS, remarks.OWN_DOCUMENT}

CALLS = {
    "Experiment": ([pt.Transformer.from_df(RUN)], TOPICS, QRELS, ["EE_R@2"]),
    "evaluate": (QRELS, RUN, ["EE_R@2"]),
    "compare": (QRELS, {"a": RUN, "b": RUN.iloc[::-1]}, ["EE_R@2"]),
    "explain": (QRELS, RUN, "EE_L@2"),
    "frontier": (QRELS, {"a": RUN}),
    "precision": (QRELS, SAMPLES, ["EE_R@2"]),
    "sensitivity": (QRELS, {"a": RUN, "b": RUN}, ["EE_R@2"]),
    "providers": (QRELS, RUN, PROVIDERS),
}
OTHERS = {
    "plan": "measures nothing",
    "doctor": "has findings instead of remarks",
    "order_audit": "reads the qrels of a measure of credit",
    "query_gain": "reads the answers of two runs",
}


def entry_points():
    """Return the public functions that measure runs with qrels, by name."""
    emitted = {}
    for module in ("fairtk", "fairtk.credit", "fairtk.experiment", "fairtk.analysis"):
        home = importlib.import_module(module)
        for name in home.__all__:
            value = getattr(home, name)
            if inspect.isfunction(value):
                names = {*inspect.signature(value).parameters}
                if "qrels" in names and not names.isdisjoint(("run", "runs", "systems")):
                    emitted[name] = value
    return emitted


def recorded(call, *args, **options):
    with warnings.catch_warnings(record=True) as records:
        warnings.simplefilter("always")
        call(*args, **options)
    return records


def kinds_of(records):
    """Return the kinds of the remarks among warnings."""
    starts = {name: kind.template.split("{")[-1] for name, kind in remarks.KINDS.items()}
    ends = {name: text.partition("}")[2] for name, text in starts.items()}
    return {n for n in EXPECTED for w in records if str(w.message).endswith(ends[n])}


def test_each_entry_point_is_listed():
    assert entry_points().keys() == {*CALLS, *OTHERS}


@pytest.mark.parametrize("name", CALLS)
def test_each_entry_point_remarks_on_ids(name):
    records = recorded(entry_points()[name], *CALLS[name])
    assert kinds_of(records) == EXPECTED, [str(w.message) for w in records]


def remarks_of(results, kind):
    return [remark for remark in results.remarks if remark.kind == kind]


def evaluated(qrels, run, measures, **options):
    """Return the results of `evaluate` without failing for its warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fairtk.evaluate(qrels, run, measures, **options)


# Scores in single precision ---------------------------------------------------------------------

# 24 bits of single precision at 0.92 are steps of 6e-8, the difference of the scores is 1e-9;
# trec_eval sorts the tie by descending docno, so its first document is b, without a label above 0
CLOSE = pd.DataFrame(
    {"qid": "q", "docno": ["a", "b"], "score": [0.9222621463753, 0.9222621453753], "rank": [0, 1]}
)
A_IS_USEFUL = pd.DataFrame({"qid": "q", "docno": ["a", "b"], "label": [1, 0]})


TWICE = pd.concat([CLOSE.assign(sample=0), CLOSE.assign(sample=1)])
PRODUCT = "Product(left='nDCG@1', right='EE_R@1')"


@pytest.mark.parametrize(
    ("measures", "concerned", "values"),
    [
        (["E(nDCG@1)", "EE_R@1"], "E(nDCG@1)", [0.0, 1.0]),
        (["EE_R@1", "E(EE_R@1)", "E(RR)"], "E(RR)", [1.0, 1.0, 0.5]),
        # EE_R@1 is 1 for the order of ranks, nDCG@1 is 0 for the other: their product is 0
        ([PRODUCT], "nDCG@1 * EE_R@1", [0.0]),
        (["nDCG@1", PRODUCT], "nDCG@1, nDCG@1 * EE_R@1", [0.0, 0.0]),
    ],
)
def test_measures_with_parts_that_see_two_orders(measures, concerned, values):
    results = evaluated(A_IS_USEFUL, CLOSE, measures)
    assert results.means.iloc[0].tolist() == values
    [remark] = remarks_of(results, remarks.TWO_ORDERS)
    assert remark.measure == concerned


def test_ir_measures_names_the_measures_that_see_two_orders():
    own, theirs = fairtk.EE_R @ 1, [ir_measures.nDCG @ 1, ir_measures.RR]
    with pytest.warns(DataWarning, match=r"^RR, nDCG@1: "):
        ir_measures.calc_aggregate([own, *theirs], A_IS_USEFUL, CLOSE)


def test_measures_of_one_table_that_see_two_orders():
    results = evaluated(A_IS_USEFUL, CLOSE, ["nDCG@1", "EE_R@1", "RR"])
    assert results.means.loc["run 1"].tolist() == [0.0, 1.0, 0.5]
    [remark] = remarks_of(results, remarks.TWO_ORDERS)
    assert (remark.measure, remark.qids) == ("nDCG@1, RR", ("q",))
    with pytest.warns(DataWarning, match=r"nDCG@1, RR: .*'q'"):
        fairtk.evaluate(A_IS_USEFUL, CLOSE, ["nDCG@1", "EE_R@1", "RR"])


@pytest.mark.parametrize(
    ("qrels", "run", "measures"),
    [
        (A_IS_USEFUL, CLOSE, ["nDCG@1"]),  # one order
        (A_IS_USEFUL, CLOSE, ["nDCG@1", "E(nDCG@1)"]),
        (A_IS_USEFUL, CLOSE.assign(qanswer="x", seconds=1.0), ["nDCG@1", "seconds"]),  # no order
        (A_IS_USEFUL, TWICE, ["E(nDCG@1)", "EE_R@1"]),  # E reads the ranks of samples
        (A_IS_USEFUL.assign(label=1), CLOSE, ["nDCG@1", "EE_R@1"]),  # the same labels
        (A_IS_USEFUL, CLOSE.assign(score=[0.9, 0.8]), ["nDCG@1", "EE_R@1"]),
        (A_IS_USEFUL, CLOSE.assign(docno=["b", "a"]), ["nDCG@1", "EE_R@1"]),  # b comes first
        (A_IS_USEFUL, CLOSE.assign(score=[0.5, 0.5]).drop(columns="rank"), ["nDCG@1", "EE_R@1"]),
    ],
)
def test_one_order_is_not_remarked(qrels, run, measures):
    assert not remarks_of(evaluated(qrels, run, measures), remarks.TWO_ORDERS)


def test_order_decides(tmp_path):
    """By ranks, both documents of the file are in the order b, a for all measures."""
    scores = CLOSE["score"].tolist()
    path = tmp_path / "a.run"
    path.write_text(f"q Q0 a 1 {scores[0]!r} x\nq Q0 b 2 {scores[1]!r} x\n")
    measures = ["nDCG@1", "EE_R@1"]
    assert remarks_of(evaluated(A_IS_USEFUL, path, measures), remarks.TWO_ORDERS)
    path.write_text(f"q Q0 b 1 {scores[1]!r} x\nq Q0 a 2 {scores[0]!r} x\n")
    results = evaluated(A_IS_USEFUL, path, measures, order="rank")
    assert results.means.iloc[0].tolist() == [0.0, 0.0]
    assert not remarks_of(results, remarks.TWO_ORDERS)


# a useful document at rank 1: by ranks 1 for each measure; by scores 0 if its score is lower, or
# equal, because b precedes a in the descending order of docnos
@pytest.mark.parametrize("form", ["file", "frame", "tuples", "run"])
@pytest.mark.parametrize(
    ("scores", "by_score"),
    [(CLOSE["score"], [0.0, 1.0]), ([0.5, 0.5], [0.0, 0.0]), ([0.4, 0.5], [0.0, 0.0])],
)
def test_order_decides_for_all_forms_of_runs_and_all_measures(tmp_path, form, scores, by_score):
    run = CLOSE.assign(score=scores)
    forms = {"frame": run, "tuples": [*run.itertuples(index=False)], "run": Run(run)}
    if form == "file":
        forms["file"] = tmp_path / "a.tsv"
        run.to_csv(forms["file"], sep="\t", index=False)
    for order, expected in (("rank", [1.0, 1.0]), ("score", by_score)):
        results = evaluated(A_IS_USEFUL, {"a": forms[form]}, ["nDCG@1", "EE_R@1"], order=order)
        assert results.means.iloc[0].tolist() == expected
        assert bool(remarks_of(results, remarks.TWO_ORDERS)) == (by_score[1] > 0) * (
            order != "rank"
        )
        disagree = order == "rank" and scores[0] < scores[1]
        assert bool(remarks_of(results, remarks.RANKS_DISAGREE)) == disagree
    without = evaluated(None, {"a": forms[form]}, ["EE_D@1"], order="rank")
    assert without.means.iloc[0].tolist() == [1.0]


def test_order_by_rank_needs_ranks_in_frames_too():
    with pytest.raises(InputError, match=r"run 1.*'rank'"):
        fairtk.evaluate(A_IS_USEFUL, CLOSE.drop(columns="rank"), ["EE_R@1"], order="rank")


def test_doctor_reports_two_orders():
    checks = fairtk.doctor(A_IS_USEFUL, CLOSE).table.set_index("check")["level"]
    assert checks["two-orders"] == "warning"
    for run in (CLOSE.assign(score=[0.9, 0.8]), TWICE):
        assert "two-orders" not in fairtk.doctor(A_IS_USEFUL, run).table["check"].tolist()


@given(st.lists(st.sampled_from([0.5, 0.5 + 1e-9, 0.5 + 2e-9]), min_size=2, max_size=6))
def test_two_orders_are_those_of_a_sort_by_docno(scores):
    """All scores are 0.5 in single precision, so trec_eval sorts by descending docno."""
    docnos = [f"d{i}" for i in range(len(scores))]
    run = pd.DataFrame({"qid": "q", "docno": docnos, "score": sorted(scores, reverse=True)})
    run["rank"] = np.arange(len(run))
    labels = [i % 2 for i in range(len(run))]
    results = evaluated(run.assign(label=labels)[["qid", "docno", "label"]], run, ["RR", "EE_R@1"])
    expected = len(set(scores)) > 1 and labels[::-1] != labels
    assert bool(remarks_of(results, remarks.TWO_ORDERS)) == expected


def test_scores_beyond_single_precision_are_ties():
    """Single precision ends at 3.4e38, so trec_eval reads both scores as infinite: b is first."""
    run = CLOSE.assign(score=[1e300, 1e299])
    results = evaluated(A_IS_USEFUL, run, ["nDCG@1", "EE_R@1"])
    assert results.means.loc["run 1"].tolist() == [0.0, 1.0]
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("ignore", DataWarning)
        [remark] = remarks_of(
            fairtk.evaluate(A_IS_USEFUL, run, ["nDCG@1", "EE_R@1"]), remarks.TWO_ORDERS
        )
    assert remark.qids == ("q",)


def test_passages_of_a_document_are_one_tie():
    """All scores are equal in single precision, and b is before a in both orders of documents.

    As passages, the order b, a, b would be b, b, a.
    """
    run = pd.DataFrame({"qid": "q", "docno": ["b#1", "a#1", "b#2"]})
    run["score"] = [0.5 + 2e-9, 0.5 + 1e-9, 0.5]
    results = evaluated(A_IS_USEFUL, run, ["nDCG@1", "EE_R@1"], parent="#")
    assert not remarks_of(results, remarks.TWO_ORDERS)


# Ids that almost match --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labeled", "retrieved"),
    [
        (["001", "002", "100"], [1, 2, 100]),
        (["Café", "tea"], [unicodedata.normalize("NFD", "Café"), "tea"]),
        (["DOC-A", "b"], ["doc-a", "b"]),
        (["New York", "b"], ["New\N{NO-BREAK SPACE}York", "b"]),
        (["New York", "b"], ["New\N{ZERO WIDTH SPACE} York", "b"]),
        (["7", "9"], ["7.0", "9"]),
        (["a.txt", "b.txt", "c"], ["a", "b", "c"]),
        (["x/a", "x/b", "c"], ["a", "b", "c"]),
    ],
)
def test_docnos_that_a_rule_explains(labeled, retrieved):
    qrels = pd.DataFrame({"qid": "q", "docno": labeled, "label": 1})
    run = pd.DataFrame({"qid": "q", "docno": retrieved, "score": -np.arange(len(retrieved)) / 2})
    with pytest.warns(UnmatchedWarning, match="'q'"):
        results = fairtk.evaluate(qrels, run, ["EE_R@1"])
    [remark] = remarks_of(results, remarks.RESPELLED_DOCNOS)
    assert remark.qids == ("q",)
    assert any(words in remark.detail for words in SPELLINGS)
    finding = fairtk.doctor(qrels, run).table.set_index("check").loc["ids"]
    assert any(words in str(finding["text"]) for words in SPELLINGS)


PARTS = ("train", "test"), ("dev", "test")


@pytest.mark.parametrize(
    ("labeled", "retrieved"),
    [
        (["a", "b"], ["a", "c"]),
        (["a", "b", "A"], ["a", "B"]),  # case tells documents apart
        (["wiki-12", "b"], ["news-12", "b"]),  # one match of a rule that is only likely
        (["wiki-1", "wiki-2", "news-1", "b"], ["blog-1", "blog-2", "b"]),
        (["wiki-1", "wiki-2", "b"], ["news-1", "news-2", "b"]),
    ],
)
def test_other_documents_are_not_remarked(labeled, retrieved):
    qrels = pd.DataFrame({"qid": "q", "docno": labeled, "label": 1})
    run = pd.DataFrame({"qid": "q", "docno": retrieved, "score": -np.arange(len(retrieved)) / 2})
    assert not remarks_of(evaluated(qrels, run, ["EE_R@1"]), remarks.RESPELLED_DOCNOS)
    assert "ids" not in fairtk.doctor(qrels, run).table["check"].tolist()


def test_queries_of_another_part_are_not_remarked():
    """Queries of a training set have the numbers of those for validation."""
    ran, labeled = ([f"{part}-{i}" for part in parts for i in range(3)] for parts in PARTS)
    qrels = pd.DataFrame({"qid": labeled, "docno": "d", "label": 1})
    run = pd.DataFrame({"qid": ran, "docno": "d", "score": 1.0})
    results = evaluated(qrels, run, ["EE_R@1"])
    assert remarks_of(results, remarks.MISSING)
    assert not remarks_of(results, remarks.RESPELLED_QIDS)
    findings = fairtk.doctor(qrels, run).table.set_index("check")["text"]
    assert not any(words in text for text in findings for words in SPELLINGS)


def test_qids_that_a_rule_explains():
    qrels = pd.DataFrame({"qid": ["A1", "B1", "c"], "docno": "d", "label": 1})
    run = pd.DataFrame({"qid": ["a1", "b1", "c"], "docno": "d", "score": 1.0})
    [remark] = remarks_of(evaluated(qrels, run, ["EE_R@1"]), remarks.RESPELLED_QIDS)
    assert remark.qids == ("A1", "B1")


def test_ids_that_look_alike_have_their_code_points():
    nfc, nfd = (unicodedata.normalize(form, "Café") for form in ("NFC", "NFD"))
    qrels = pd.DataFrame({"qid": "q", "docno": [nfc], "label": 1})
    run = pd.DataFrame({"qid": "q", "docno": [nfd], "score": 1.0})
    for text in (
        evaluated(qrels, run, ["EE_R@1"]).remarks[0].text,
        repr(fairtk.doctor(qrels, run)),
    ):
        assert "U+00E9" in text and "U+0065 U+0301" in text
    with pytest.raises(InputError, match=r"U\+0065 U\+0301"):
        fairtk.evaluate(qrels.assign(qid=nfc), run.assign(qid=nfd), ["EE_R@1"])


# Queries that are documents ---------------------------------------------------------------------


def test_identical_ids_are_left_out():
    qrels = pd.DataFrame({"qid": "q1", "docno": ["q1", "b", "c"], "label": [0, 1, 0]})
    run = pd.DataFrame({"qid": "q1", "docno": ["q1", "b", "c"], "score": [9.0, 2, 1]})
    run["rank"] = [0, 1, 2]
    [remark] = remarks_of(evaluated(qrels, run, ["EE_R@1"]), remarks.OWN_DOCUMENT)
    assert remark.qids == ("q1",) and "rank 1" in remark.detail
    results = fairtk.evaluate(qrels, run, ["EE_R@1"], ignore_identical_ids=True)
    assert not results.remarks and results.means.iloc[0, 0] == 1.0  # b is at rank 1
    out = IgnoreIdenticalIds()(run)
    assert out["docno"].tolist() == ["b", "c"] and out["rank"].tolist() == [0, 1]
    assert fairtk.doctor(qrels, run).table["check"].tolist().count("own-document") == 1


def test_a_query_that_only_has_itself_is_missing_also_without_labels():
    run = pd.DataFrame({"qid": ["q1", "q2"], "docno": ["q1", "a"], "score": 1.0})
    qrels = pd.DataFrame({"qid": ["q1", "q2"], "docno": "a", "label": 1})
    for labels in (qrels, None):
        results = evaluated(labels, run, ["EE_D@1"], ignore_identical_ids=True)
        [remark] = remarks_of(results, remarks.MISSING)
        assert remark.qids == ("q1",)


@pytest.mark.parametrize("is_column", [True, False])
def test_passages_of_the_query_are_left_out(is_column):
    """Of q1#1, q1#2, b#1, only b#1 is not of the document q1, so b is first."""
    run = pd.DataFrame({"qid": "q1", "docno": ["q1#1", "q1#2", "b#1"], "score": [3.0, 2, 1]})
    run["rank"] = [0, 1, 2]
    qrels = pd.DataFrame({"qid": "q1", "docno": ["b", "c"], "label": 1})
    options = {"parent": None if is_column else "#"}
    parents = run.assign(parent=run["docno"].str[:-2])
    given = parents if is_column else run
    of_kind = remarks_of(evaluated(qrels, given, ["nDCG@1"], **options), remarks.OWN_DOCUMENT)
    assert [remark.qids for remark in of_kind] == [("q1",)]
    results = fairtk.evaluate(qrels, given, ["nDCG@1"], ignore_identical_ids=True, **options)
    assert not results.remarks and results.means.iloc[0, 0] == 1.0
    assert IgnoreIdenticalIds()(parents)[["docno", "rank"]].values.tolist() == [["b#1", 0]]


def test_credit_without_identical_ids():
    """Credit has no scores, so its ranks stay."""
    credit = pd.DataFrame({"qid": "q1", "sample": 0, "docno": ["q1", "b"], "rank": [0, 1]})
    left = Run(credit.assign(credit=0.5), "credit").without_identical_ids()
    assert left.frame["docno"].tolist() == ["b"] and left.frame["rank"].tolist() == [1]


@pytest.mark.parametrize(("n", "is_remarked"), [(1, False), (5, True)])
def test_numbers_that_are_equal_by_chance(n, is_remarked):
    """The first n of ten queries have their number at rank 1."""
    rows = [(str(q), str(q if q < n else q + 50), 1.0) for q in range(10)]
    run = pd.DataFrame(rows, columns=["qid", "docno", "score"])
    qrels = run[["qid", "docno"]].assign(label=1)
    emitted = remarks_of(evaluated(qrels, run, ["EE_R@1"]), remarks.OWN_DOCUMENT)
    assert bool(emitted) == is_remarked
