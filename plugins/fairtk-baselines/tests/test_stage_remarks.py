"""The remarks of this plugin's stages are stored with their results, and repeated."""

import warnings
from dataclasses import replace

import pandas as pd
import pytest
from fairtk_baselines import DetGreedy, FAStarIR
from fairtk_baselines.vector_search import VectorSearch
from fixed_encoder import FixedEncoder, documents

import fairtk
from fairtk.groups import Groups, Target
from fairtk.remarks import KINDS

QIDS = ["q0", "q1", "q2"]
RUN = pd.DataFrame(
    [(qid, f"{'ab'[i % 2]}{i}", -float(i)) for qid in QIDS for i in range(4)],
    columns=["qid", "docno", "score"],
)


def groups():
    rows = [(docno, docno[0]) for docno in RUN["docno"].unique()]
    return Groups.from_frame(pd.DataFrame(rows, columns=["docno", "group"]), name="people")


def targets():
    """Return a target of b: none for q0, nearly all documents for q1, few for q2."""
    rows = [("q1", "a", 0.02), ("q1", "b", 0.98), ("q2", "a", 0.9), ("q2", "b", 0.1)]
    return Target.from_frame(pd.DataFrame(rows, columns=["qid", "group", "weight"]), groups())


def searcher():
    stage = VectorSearch(FixedEncoder(), documents("1 0", "0 1"), verbose=False)
    return fairtk.identified(stage, "search")


def fair():
    return FAStarIR(groups(), targets(), cutoff=4, protected="b")


def greedy():
    """Return a stage that wants three of four documents to be b for q1, and two for the others."""
    share = {"q0": 0.5, "q1": 0.75, "q2": 0.5}
    rows = [(qid, "b", share[qid]) for qid in QIDS] + [(qid, "a", 1 - share[qid]) for qid in QIDS]
    target = pd.DataFrame(rows, columns=["qid", "group", "weight"])
    return DetGreedy(groups(), Target.from_frame(target, groups()))


CASES = {
    "fairtk-baselines:no target": (RUN, fair, "q0"),
    "fairtk-baselines:no fair order": (RUN, fair, "q1"),
    "fairtk-baselines:too few candidates": (RUN, greedy, "q1"),
    "fairtk-baselines:no vector": (
        pd.DataFrame({"qid": QIDS, "query": ["1 0", "", "0 1"]}),
        searcher,
        "q1",
    ),
}


def test_every_kind_has_a_case():
    assert {kind for kind in KINDS if kind.startswith("fairtk-baselines:")} == CASES.keys()


@pytest.mark.parametrize("kind", CASES)
def test_remarks_are_stored_and_repeated(tmp_path, kind):
    topics, make, qid = CASES[kind]

    def run(**options):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            results = fairtk.Experiment({"a": make()}, topics, **options)
        assert {str(w.message) for w in caught} == {remark.text for remark in results.remarks}
        return results.remarks

    first = run(save_dir=tmp_path)
    [one] = [remark for remark in first if remark.kind == kind]
    assert (one.qids, one.system, one.total) == ((qid,), "a", 3)
    assert run(save_dir=tmp_path) == run(batch_size=3) == first
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        make()(topics)
    texts = {replace(remark, system="").text: KINDS[remark.kind].warning for remark in first}
    assert {str(w.message): w.category for w in caught} == texts
