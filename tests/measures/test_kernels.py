"""Measures over all samples at once: the values of ir_measures, ranking by ranking."""

import ir_measures
import numpy as np
import pandas as pd
import pytest
from ir_measures import AP, ERR, RBP, RR, Compat, Judged, P, R, Rprec, Success, nDCG

from fairtk import EE_D, E
from fairtk.measures import LabeledRun
from fairtk.measures.kernels import KERNELS, kernel_of
from fairtk.measures.pages import page_of

QUERIES, SAMPLES = 500, 20
MEASURES = [
    *(nDCG, nDCG @ 1, nDCG @ 3, nDCG @ 5, nDCG @ 20),
    *(AP, AP @ 2, AP(rel=2), AP(rel=3) @ 4, AP @ 20),
    *(RR, RR @ 1, RR @ 3, RR(rel=2), RR(rel=2) @ 4, RR @ 20),
    *(P @ 1, P @ 5, P(rel=2) @ 3, P @ 20),
    *(R @ 1, R @ 5, R(rel=3) @ 3, R @ 20),
    *(Success @ 1, Success @ 5, Success(rel=2) @ 3),
]


def random_frames(seed=0, queries=QUERIES, samples=SAMPLES):
    """Return qrels and a sampled run: grades from -2 to 4, unjudged documents, short rankings."""
    rng = np.random.default_rng(seed)
    labels, rows = [], []
    for query in range(queries):
        qid, n = f"q{query}", int(rng.integers(1, 14))
        # a query of four has no relevant document; names share prefixes, case and digits
        top = 0 if query % 4 == 0 else 4
        docs = [f"{'dD'[d % 2]}{d:0{1 + d % 3}d}" for d in range(n)]
        judged = rng.random(n) < 0.7
        judged[0] = True
        grade = rng.integers(-2, top + 1, size=n)
        labels += [(qid, d, int(g)) for d, g, j in zip(docs, grade, judged, strict=True) if j]
        for sample in range(samples):
            length = int(rng.integers(1, n + 1))
            for rank, doc in enumerate(rng.permutation(docs)[:length]):
                rows.append((qid, doc, sample, rank, float(length - rank)))
    qrels = pd.DataFrame(labels, columns=["query_id", "doc_id", "relevance"])
    run = pd.DataFrame(rows, columns=["query_id", "doc_id", "sample", "rank", "score"])
    return qrels, run


def by_ranking(measure, qrels, run):
    """Return {(qid, sample): value} as the kernel computes it."""
    judged = LabeledRun.of(qrels, run, "test")
    ranked = judged.run
    values = kernel_of(measure)(judged)
    qids = ranked.qids[ranked.ranking_query]
    return dict(zip(zip(qids, ranked.ranking_sample, strict=True), values, strict=True))


def by_provider(measures, qrels, run):
    """Return {measure: {(qid, sample): value}} of one call for each sample."""
    evaluator = ir_measures.evaluator(measures, qrels)
    found = {measure: {} for measure in measures}
    for sample, part in run.groupby("sample"):
        here = set(part["query_id"])
        for metric in evaluator.iter_calc(part.drop(columns=["sample", "rank"])):
            if metric.query_id in here:
                found[metric.measure][metric.query_id, sample] = metric.value
    return found


@pytest.mark.slow
def test_ten_thousand_rankings_have_ir_measures_values():
    qrels, run = random_frames()
    assert run.groupby(["query_id", "sample"]).ngroups == QUERIES * SAMPLES
    wanted = by_provider(MEASURES, qrels, run)
    for measure in MEASURES:
        found = by_ranking(measure, qrels, run)
        assert found.keys() == wanted[measure].keys()
        worst = max(abs(found[key] - wanted[measure][key]) for key in found)
        assert worst < 1e-12, (measure, worst)
        assert len(set(found.values())) > 1, measure


def test_rbp_has_the_values_of_cwl_eval(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # importing cwl opens a log file
    pytest.importorskip("cwl")
    measures = [RBP(rel=rel, p=p) for rel in (1, 2) for p in (0.5, 0.8, 0.95)]
    qrels, run = random_frames(seed=1, queries=40, samples=5)
    wanted = by_provider(measures, qrels, run)
    for measure in measures:
        assert by_ranking(measure, qrels, run) == pytest.approx(wanted[measure], abs=1e-12), measure


def test_by_hand():
    # labels a: 2, b: 1, c: -1, d: unjudged. Ranking d, b, c, a:
    # DCG 1/log2(3) + 2/log2(5); ideal 2 + 1/log2(3); AP (1/2 + 2/4) / 2; RR 1/2
    # RBP (1 - .5) (.5 + .5^3)
    qrels = pd.DataFrame({"query_id": "q", "doc_id": ["a", "b", "c"], "relevance": [2, 1, -1]})
    rows = [("q", doc, 0, rank) for rank, doc in enumerate("dbca")] + [("q", "c", 1, 0)]
    run = pd.DataFrame(rows, columns=["query_id", "doc_id", "sample", "rank"]).assign(score=1.0)
    dcg, best = 1 / np.log2(3) + 2 / np.log2(5), 2 + 1 / np.log2(3)
    values = {nDCG: dcg / best, AP: 0.5, RR: 0.5, RR(rel=2): 0.25, P @ 2: 0.5, P @ 8: 0.25}
    values[RBP(rel=1, p=0.5)] = 0.3125
    for measure, value in values.items():
        assert by_ranking(measure, qrels, run) == pytest.approx({("q", 0): value, ("q", 1): 0})
        got = ir_measures.calc_aggregate([E(measure)], qrels, run)
        assert got[E(measure)] == pytest.approx(value / 2)


@pytest.mark.parametrize(
    "measure",
    [
        nDCG(judged_only=True) @ 5,
        nDCG(gains={1: 3}) @ 5,
        nDCG(dcg="exp-log2") @ 5,
        P,
        AP(judged_only=True),
        RBP,
        RBP(rel=1) @ 5,
        Rprec,
        ERR @ 5,
        Compat,
        Judged @ 5,
        EE_D @ 5,
    ],
    ids=repr,
)
def test_what_goes_to_its_provider(measure):
    assert kernel_of(measure) is None


def test_defaults_that_are_written_out_change_nothing():
    for measure in (nDCG(dcg="log2", judged_only=False) @ 5, P(rel=1) @ 5, RBP(rel=1, p=0.8)):
        assert kernel_of(measure) is not None


def test_a_measure_of_the_same_name_that_someone_defined_is_not_ours():
    other = ir_measures.define_byquery(lambda qrels, run: 7.0, name="nDCG")
    assert kernel_of(other) is None


def test_which_are_which_is_said():
    for name in KERNELS:
        assert f"`{name}`" in page_of(E).sections["Published code"]
