"""Samples are never misread, whatever door a plain measure comes by."""

import ir_measures
import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ir_measures import AP, RR, P, nDCG
from small_frames import small_groups

import fairtk
from fairtk import EE_D, EE_R, E
from fairtk.errors import DuplicateError, InputError
from fairtk.measures import ByGroup

QRELS = pd.DataFrame({"qid": ["q", "q", "r"], "docno": ["a", "b", "a"], "label": [1, 0, 1]})
TOPICS = pd.DataFrame({"qid": ["q", "r"], "query": ["x", "y"]})
GROUPS = small_groups("ab", "gh", "k")
NAMES = {"qid": "query_id", "docno": "doc_id", "label": "relevance"}
THEIRS = QRELS.rename(columns=NAMES)
SAVED = r"fairtk\.io\.read_run.*save_format=fairtk\.io\.save_format"


def run_of(samples, qid="q"):
    rows = [
        (qid, doc, s, rank, float(9 - rank))
        for s, ranking in enumerate(samples)
        for rank, doc in enumerate(ranking)
    ]
    return pd.DataFrame(rows, columns=["qid", "docno", "sample", "rank", "score"])


SAMPLED = run_of(["ab", "ba"])
ONE = run_of(["ab"])
# only the rank is repeated: each sample was cut to another document
CUT = run_of(["a", "b"])
PLAIN = ONE.drop(columns="sample")
SEVERAL = {
    "samples": SAMPLED,
    "lost": SAMPLED.drop(columns="sample"),
    "cut": CUT.drop(columns="sample"),
    "other order": SAMPLED.iloc[[0, 2, 1, 3]].reset_index(drop=True),
}
SINGLE = {
    "plain": PLAIN,
    "one sample": ONE,
    "no rank": PLAIN.drop(columns="rank"),
    # a sample number each, but one ranking per query
    "numbered": pd.concat([ONE, run_of(["ab"], "r").assign(sample=1)], ignore_index=True),
}


def system(frame):
    return pt.Transformer.from_df(frame.assign(query="x"))


def theirs(frame):
    return frame.rename(columns=NAMES)


ENTRY_POINTS = {
    "calc_aggregate": lambda m, run: ir_measures.calc_aggregate([m, EE_D @ 2], THEIRS, theirs(run)),
    "dict qrels": lambda m, run: ir_measures.calc_aggregate(
        [m], {"q": {"a": 1, "b": 0}, "r": {"a": 1}}, theirs(run)
    ),
    "rows": lambda m, run: ir_measures.calc_aggregate(
        [m], THEIRS, theirs(run).itertuples(index=False)
    ),
    "pt.Experiment": lambda m, run: pt.Experiment([system(run)], TOPICS, QRELS, [m]),
    "tree": lambda m, run: pt.Experiment(
        [system(run)], TOPICS, QRELS, [m], plan="tree", verbose=False
    ),
    "batches": lambda m, run: pt.Experiment([system(run)], TOPICS[:1], QRELS, [m], batch_size=1),
    "Product": lambda m, run: ir_measures.calc_aggregate([m * (EE_R @ 2)], QRELS, run),
    "ByGroup": lambda m, run: ByGroup(m, GROUPS).per_group(QRELS, run),
    "by query": lambda m, run: ByGroup(m, small_groups("q", "g"), by="query").per_group(QRELS, run),
}


ALONE = {"dict qrels", "rows", "pt.Experiment", "tree", "batches"}
"""The functions that are called without a measure of fairtk."""


@pytest.mark.parametrize("entry", ENTRY_POINTS)
class TestDoors:
    @pytest.mark.parametrize("name", SEVERAL)
    def test_several_rankings_are_refused(self, entry, name):
        if "sample" not in SEVERAL[name] and entry in ALONE:  # a row twice, for ir_measures
            ENTRY_POINTS[entry](nDCG @ 2, SEVERAL[name])
            return
        with pytest.raises(InputError, match=r"write E\(nDCG@2\)|duplicate (document|rank)"):
            ENTRY_POINTS[entry](nDCG @ 2, SEVERAL[name])

    @pytest.mark.filterwarnings("ignore::fairtk.errors.MissingWarning")
    @pytest.mark.filterwarnings("ignore:.*topic.s. not found")
    @pytest.mark.parametrize("name", SINGLE)
    def test_one_ranking_is_measured(self, entry, name):
        ENTRY_POINTS[entry](nDCG @ 2, SINGLE[name])


@pytest.mark.parametrize("name", ["map", "ndcg_cut_10", "recip_rank", "official"])
def test_measures_that_are_strings(name):
    with pytest.raises(InputError, match=r"write E\("):
        pt.Experiment([system(SAMPLED)], TOPICS, QRELS, [name])
    assert len(pt.Experiment([system(PLAIN)], TOPICS, QRELS, ["map"]))


def test_the_error_of_a_lost_column_names_the_remedy():
    lost = SAMPLED.drop(columns="sample")
    with pytest.raises(InputError, match="no column 'sample'.*" + SAVED):
        fairtk.evaluate(QRELS, lost, [nDCG @ 2])
    for measure in (E(nDCG @ 2), EE_D @ 2):
        with pytest.raises(DuplicateError, match="docno 'b'.*sampled.*" + SAVED):
            ir_measures.calc_aggregate([measure], QRELS, lost)
        with pytest.raises(DuplicateError, match="duplicate rank 0.*" + SAVED):
            ir_measures.calc_aggregate([measure], QRELS, CUT.drop(columns="sample"))


def test_a_trec_file_that_ir_measures_reads():
    text = "q 0 a 1 2 t\nq 0 b 2 1 t\nq 1 b 1 2 t\nq 1 a 2 1 t\n"
    for measure in (E(AP), EE_D @ 2):
        with pytest.raises(InputError, match=r"sampled.*fairtk\.io\.read_run"):
            ir_measures.calc_aggregate([measure], THEIRS, ir_measures.read_trec_run(text))


def test_measures_that_know_samples():
    counted = ir_measures.define_byquery(
        lambda qrels, run: run["sample"].nunique(), run_inputs=["query_id", "sample"], name="Count"
    )
    found = ir_measures.calc_aggregate([counted], THEIRS, theirs(SAMPLED))
    assert found[counted] == 1  # 2 for q, none for r
    unaware = ir_measures.define_byquery(lambda qrels, run: len(run), name="Rows")
    with pytest.raises(InputError, match=r"E\(Rows\)"):
        ir_measures.calc_aggregate([unaware], THEIRS, theirs(SAMPLED))


@given(st.permutations(range(8)))
def test_the_order_of_rows_carries_no_meaning(order):
    both = pd.concat([SAMPLED, run_of(["ab", "cd"], "r")], ignore_index=True).iloc[order]
    single = both[both["sample"] == 1]
    with pytest.raises(InputError, match=r"E\(AP\)"):
        ir_measures.calc_aggregate([AP], THEIRS, theirs(both))
    ir_measures.calc_aggregate([AP], THEIRS, theirs(single))


def random_plain(seed):
    """Return qrels and a run with ties, unjudged documents and queries that only one has."""
    rng = np.random.default_rng(seed)
    rows = [(f"{q}", f"d{d}") for q in range(20) for d in rng.permutation(15)]
    run = pd.DataFrame(rows, columns=["query_id", "doc_id"]).sample(frac=0.7, random_state=seed)
    run = run.sort_values("query_id", kind="stable")  # cwl_eval misreads queries in pieces
    run["score"] = rng.integers(0, 6, len(run)).astype(float)
    labels = pd.DataFrame(rows[30:], columns=["query_id", "doc_id"])
    labels = labels.sample(frac=0.5, random_state=seed)
    return labels.assign(relevance=rng.integers(-1, 4, len(labels))), run


FOREIGN = [
    *(nDCG, nDCG @ 3, nDCG(judged_only=True) @ 3, AP, AP(rel=2) @ 5, RR, RR @ 3, P @ 3),
    *map(
        ir_measures.parse_measure,
        [
            "R@5", "Success@2", "Rprec", "Bpref", "infAP", "IPrec@0.1", "SetP", "SetR", "SetF",
            "SetAP", "NumRet", "NumRel", "NumRelRet", "NumQ", "Judged@5", "Compat(p=0.9)",
            "Accuracy", "nDCG(dcg='exp-log2')@3", "ERR@5", "RBP(rel=1)",
        ],
    ),
]  # fmt: skip


def without_fairtk():
    """Return ir_measures' pipeline as it is without fairtk."""
    ours = [p for p in ir_measures.DefaultPipeline.providers if "fairtk" not in p.NAME]
    assert len(ours) == len(ir_measures.DefaultPipeline.providers) - 1
    return ir_measures.providers.FallbackProvider(ours)


def available(measures):
    """Return the measures that can be computed here: some need perl or another package."""
    return [m for m in measures if without_fairtk().supports(m)]


@pytest.mark.parametrize(
    ("seed", "form"), [(0, "frame"), (1, "frame"), (2, "frame"), (0, "rows"), (0, "dict")]
)
def test_plain_runs_have_the_same_values_as_without_fairtk(seed, form, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # importing cwl, if it is there, opens a log file
    qrels, run = random_plain(seed)
    measures = available(FOREIGN)
    # NumRet beside judged_only depends on Python's hash seed without fairtk: see test_trec_eval
    together = [m for m in measures if m != ir_measures.NumRet]
    assert len(together) > 20

    def given_run():
        if form == "frame":
            return run
        rows = ir_measures.util.RunConverter(run)
        return rows.as_namedtuple_iter() if form == "rows" else rows.as_dict_of_dict()

    wanted = without_fairtk().calc(together, qrels, given_run())
    found = ir_measures.calc(together, qrels, given_run())
    assert found.aggregated == pytest.approx(wanted.aggregated, nan_ok=True, abs=0, rel=0)
    assert sorted(map(tuple, map(str, found.per_query))) == sorted(
        map(tuple, map(str, wanted.per_query))
    )
    for measure in measures:
        one = ir_measures.calc_aggregate([measure], qrels, given_run())
        assert one == without_fairtk().calc_aggregate([measure], qrels, given_run())


@pytest.mark.parametrize("seed", range(3))
def test_e_is_the_measure_itself_on_a_run_without_samples(seed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    qrels, run = random_plain(seed)
    # Accuracy gives no value where nothing relevant was retrieved: see the test below
    measures = [m for m in available(FOREIGN) if m.NAME != "Accuracy"]
    for frame in (run, run.assign(sample=3)):
        plain = ir_measures.calc(measures, qrels, run)
        found = ir_measures.calc([E(m) for m in measures], qrels, frame)
        means = {m.inner: v for m, v in found.aggregated.items()}
        assert means == pytest.approx(plain.aggregated, rel=1e-12)  # sums in another order
        wanted = {(m.query_id, m.measure): m.value for m in plain.per_query}
        assert {(m.query_id, m.measure.inner): m.value for m in found.per_query} == wanted


def test_what_ir_measures_cannot_compute_is_said_as_before():
    with pytest.raises(ValueError, match="Unsupported measures.*alpha_nDCG|pyndeval"):
        ir_measures.calc_aggregate([ir_measures.alpha_nDCG @ 5], THEIRS, theirs(PLAIN))
    assert set(ir_measures.run_inputs([nDCG, EE_D @ 2])) == {"query_id", "doc_id", "score"}
    assert set(ir_measures.qrel_inputs([nDCG])) == {"query_id", "doc_id", "relevance"}
