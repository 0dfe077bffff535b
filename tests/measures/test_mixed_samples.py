"""A warning if the samples of a run were ranked or cut together."""

import warnings

import ir_measures
import pyterrier as pt
import pytest

import fairtk
from fairtk import EE_D, BM25Scorer, FairSampler, PerSample
from fairtk.errors import DataWarning
from fairtk.experiment import values
from fairtk.frames import Qrels, Run
from fairtk.measures import LabeledRun
from fairtk.measures.facts import RunFacts, remarks_on_runs
from fairtk.remarks import MIXED_SAMPLES
from fairtk.testing import toy_qrels, toy_run, toy_samples, toy_topics

N, K = 20, 2  # samples, and the cutoff that is smaller than each ranking but that of q4


def by_docno(frame):
    """Score rows by docno, and rank the rows of each query, as rerankers do."""
    frame = frame.assign(score=frame["docno"].str[1:].astype(float))
    ordered = frame.sort_values(["qid", "score"], ascending=[True, False], kind="stable")
    return ordered.assign(rank=ordered.groupby("qid").cumcount()).reset_index(drop=True)


def facts_of(frame):
    qrels = Qrels(toy_qrels(), "test")
    return qrels, {"": RunFacts.of(LabeledRun(qrels, Run(frame, "test"), "test"), K)}


RERANKER = pt.apply.generic(by_docno)
SAMPLES = FairSampler(n_samples=N)


def measured(run):
    with warnings.catch_warnings(record=True, action="always") as caught:
        ir_measures.calc_aggregate([EE_D @ K], toy_qrels(), run)
    return [str(w.message) for w in caught if w.category is DataWarning]


def test_a_cutoff_across_samples_is_reported():
    cut = (SAMPLES >> RERANKER % K)(toy_run())
    assert (cut.groupby("qid").size() == K).all()  # the two best rows of 20 samples
    (message,) = measured(cut)
    assert "PerSample" in message
    assert measured((SAMPLES >> PerSample(RERANKER % K))(toy_run())) == []


def test_a_reranker_that_ranks_across_samples_is_reported():
    mixed = (SAMPLES >> RERANKER)(toy_run())
    # six documents of q1 in 20 samples have the ranks 0 to 119
    assert mixed[mixed["qid"] == "q1"]["rank"].max() == 119
    (remark,) = remarks_on_runs([], *facts_of(mixed))
    assert remark.kind == MIXED_SAMPLES and remark.n_queries == 4 and remark.count > 3 * N
    (message,) = measured(mixed)
    assert "PerSample" in message and "'q1'" in message


@pytest.mark.parametrize(
    "change",
    [
        lambda run: run,
        lambda run: run.assign(rank=run["rank"] + 1),  # a file with ranks from 1
        lambda run: run.drop(columns="rank"),
        lambda run: run[run["rank"] < K],
        lambda run: run.iloc[::-1],
        lambda run: run.assign(sample=run["sample"] * 7 + 1),
        lambda run: run[run["sample"] == 2],
        lambda run: run[:0],
        lambda run: run[run["sample"] == 0].drop(columns="sample"),
    ],
)
def test_other_runs_are_not_reported(change):
    assert measured(change(toy_samples())) == []


def test_different_documents_per_sample_are_not_reported():
    run = toy_samples()
    half = run[(run["sample"] + run["docno"].str[1:].astype(int)) % 2 == 0]
    rank = half.groupby(["qid", "sample"]).cumcount()
    half = half.assign(rank=rank)[half["qid"] != "q4"]
    assert half.groupby(["qid", "docno"]).size().nunique() == 1  # each in half of the samples
    assert measured(half) == []


def test_lost_samples_are_reported():
    run = toy_samples(4)
    (message,) = measured(run[(run["qid"] != "q2") | (run["sample"] < 3)])
    assert "'q2'" in message and "from 3 to 4" in message and "PerSample" in message


def test_one_warning_of_all_blocks(monkeypatch):
    monkeypatch.setattr(values, "_BLOCK", 1)
    system = BM25Scorer() >> SAMPLES >> RERANKER % K
    candidates = pt.Transformer.from_df(toy_run().drop(columns=["score", "rank", "query"]))
    with warnings.catch_warnings(record=True, action="always") as caught:
        fairtk.Experiment(
            [candidates >> system], toy_topics(), toy_qrels(), [EE_D @ K], names=["cut"]
        )
    (message,) = [str(w.message) for w in caught if "PerSample" in str(w.message)]
    assert "of cut" in message


@pytest.mark.filterwarnings("ignore::fairtk.errors.TruncationWarning")
def test_comparison_of_runs():
    cut = (SAMPLES >> RERANKER % K)(toy_run())
    with pytest.warns(DataWarning, match="of cut.*PerSample"):
        fairtk.evaluate(toy_qrels(), {"cut": cut, "whole": SAMPLES(toy_run())}, [EE_D @ K])


def test_blocks_are_joined():
    frame = toy_samples(3)
    frame = frame[(frame["qid"] != "q3") | (frame["sample"] < 2)]
    frame = frame[(frame["qid"] != "q1") | (frame["rank"] != 1)]
    qrels, facts = facts_of(frame)
    (remark,) = remarks_on_runs([], qrels, facts)
    assert (remark.kind, remark.count, remark.qids) == (MIXED_SAMPLES, 3, ("q1",))
    labels = Qrels(toy_qrels(), "test")
    blocks = [
        RunFacts.of(LabeledRun(labels.of_queries(i, i + 1), Run(frame, "test"), "test"), K)
        for i in range(len(labels.qids))
    ]
    assert remarks_on_runs([], qrels, {"": RunFacts.joined(blocks)}) == [remark]
