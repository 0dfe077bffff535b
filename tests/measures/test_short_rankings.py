"""Rankings that are cut off are reported: they look more even, and not comparable."""

from __future__ import annotations

import warnings

import ir_measures
import pandas as pd
import pyterrier as pt
import pytest
from ir_measures import nDCG
from small_frames import small_groups

import fairtk
from fairtk import Target
from fairtk.errors import TruncationWarning
from fairtk.exposure import RBP
from fairtk.measures import AWRF, EE_D, EE_L, EE_R, E
from fairtk.remarks import LENGTHS_DIFFER, SHORT_RANKINGS

QRELS = pd.DataFrame(
    [(q, f"d{i}", int(i < 3)) for q in "12" for i in range(8)], columns=["qid", "docno", "label"]
)
FULL = pd.DataFrame(
    [(q, f"d{i}", 10.0 - i, i) for q in "12" for i in range(5)],
    columns=["qid", "docno", "score", "rank"],
)
GROUPS = small_groups([f"d{i}" for i in range(8)], "ab" * 4)


def cut(k):
    return FULL[FULL["rank"] < k]


def heard(action):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = action()
    return result, [str(w.message) for w in caught if w.category is TruncationWarning]


@pytest.mark.parametrize(("k", "expected"), [(5, 1.0), (3, 0.6), (1, 0.2)])
def test_a_truncated_run_looks_more_even_and_is_reported(k, expected):
    values, texts = heard(lambda: ir_measures.calc_aggregate([EE_D @ 5], QRELS, cut(k)))
    assert values[EE_D @ 5] == pytest.approx(expected)
    assert len(texts) == (k < 5)
    assert all("EE_D@5" in text and "2 of 2 queries" in text for text in texts)


@pytest.mark.parametrize(
    ("measure", "reported"),
    [
        (EE_R @ 5, True),
        (EE_L @ 5, True),
        (AWRF(groups=GROUPS, target=Target.uniform(GROUPS)) @ 5, True),
        (nDCG @ 5 * (EE_R @ 5), True),
        (EE_D @ 3, False),  # the rankings have as many
        (EE_D(browsing=RBP(p=0.5)), False),  # no cutoff
        (E(nDCG @ 5), False),
        (EE_D(n=8) @ 5, True),
    ],
    ids=str,
)
def test_which_measures_report_it(measure, reported):
    _, texts = heard(lambda: ir_measures.calc_aggregate([measure], QRELS, cut(3)))
    assert bool(texts) == reported


def test_a_query_without_more_documents_is_not_truncated():
    labels = QRELS[QRELS["docno"].isin(["d0", "d1", "d2"])]
    assert heard(lambda: ir_measures.calc_aggregate([EE_D @ 5], labels, cut(3)))[1] == []
    # but if another run of the call retrieves more of them, it is
    _, texts = heard(lambda: fairtk.evaluate(labels, {"a": cut(3), "b": FULL}, ["EE_D@5"]))
    assert len(texts) == 1 and "2 of 2 queries of a" in texts[0] and "not comparable" in texts[0]
    # three documents and another three are more than five
    other = cut(3).assign(docno=cut(3)["docno"].replace({"d0": "e", "d1": "f"}))
    _, texts = heard(lambda: fairtk.evaluate(labels, {"a": cut(3), "b": other}, ["EE_D@5"]))
    assert len(texts) == 1 and "not comparable" not in texts[0]
    # a query that a run does not have has the worst value, and no ranking
    one = FULL[FULL["qid"] == "1"]
    with pytest.warns(fairtk.errors.FairtkWarning):
        assert heard(lambda: fairtk.evaluate(QRELS, one, ["EE_D@5"]))[1] == []
        warnings.warn("checked", fairtk.errors.DataWarning, stacklevel=1)


def test_one_warning_per_measure_and_call_of_all_systems(tmp_path):
    runs = {"full": FULL, "cut": cut(3), "one": cut(1)}
    results, texts = heard(
        lambda: fairtk.Experiment(runs, qrels=QRELS, measures=["EE_D@5", "EE_R@5"])
    )
    assert len(texts) == 2 and all("2 of 2 queries of cut, one" in text for text in texts)
    assert {(r.kind, r.measure, r.system, r.count) for r in results.remarks} == {
        (LENGTHS_DIFFER, measure, system, 2)
        for measure in ("EE_D@5", "EE_R@5")
        for system in ("cut", "one")
    }
    assert "not comparable" in repr(results)
    work = {"qrels": QRELS, "measures": ["EE_D@5"], "save_dir": tmp_path}
    _, first = heard(lambda: fairtk.Experiment(runs, **work))
    stored, again = heard(lambda: fairtk.Experiment(runs, **work))
    assert first == again and len(first) == 1
    assert {remark.kind for remark in stored.remarks} == {LENGTHS_DIFFER}
    alike, texts = heard(lambda: fairtk.evaluate(QRELS, {"a": cut(3), "b": cut(3)}, ["EE_D@5"]))
    assert len(texts) == 1 and {remark.kind for remark in alike.remarks} == {SHORT_RANKINGS}
    _, texts = heard(lambda: fairtk.compare(QRELS, runs, ["EE_D@5"]))
    assert len(texts) == 1


def test_pyterriers_experiment_reports_it():
    systems = [pt.Transformer.from_df(run.assign(query="q")) for run in (FULL, cut(3))]
    topics = pd.DataFrame({"qid": ["1", "2"], "query": "q"})
    _, texts = heard(lambda: pt.Experiment(systems, topics, QRELS, [EE_D @ 5]))
    assert len(texts) == 1


def test_sampled_rankings_count_each():
    sampled = pd.concat([FULL.assign(sample=0), cut(4).assign(sample=1)])
    _, texts = heard(lambda: ir_measures.calc_aggregate([EE_D @ 5], QRELS, sampled))
    assert len(texts) == 1
