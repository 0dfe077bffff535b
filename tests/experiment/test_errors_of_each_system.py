"""A remark on failed queries has the errors of its own system."""

import pandas as pd
import pyterrier as pt
import pytest

import fairtk
from fairtk.errors import DataWarning
from fairtk.remarks import FAILED

TOPICS = pd.DataFrame({"qid": ["q1", "q2", "q3"], "query": "x"})
QRELS = pd.DataFrame([(f"q{i}", "d", 1) for i in (1, 2, 3)], columns=["qid", "docno", "label"])


class Failing(pt.Transformer):
    """Retrieves "d", and fails for some queries."""

    def __init__(self, qids, error):
        self.qids, self.error = qids, error

    def transform(self, topics):
        if set(self.qids) & set(topics["qid"]):
            raise self.error
        return topics.assign(docno="d", score=1.0, rank=0)


def test_each_remark_has_the_errors_of_its_system():
    systems = {
        "one": Failing(["q3"], ValueError("bad token")),
        "two": Failing(["q1", "q2"], RuntimeError("disk full")),
        "none": Failing([], None),
    }
    with pytest.warns(DataWarning) as warned:
        results = fairtk.Experiment(systems, TOPICS, QRELS, "EE_R@1")
    remarks = {r.system: (r.qids, r.detail) for r in results.remarks if r.kind == FAILED}
    assert remarks.keys() == {"one", "two"}
    assert remarks["one"][0] == ("q3",) and remarks["two"][0] == ("q1", "q2")
    for texts in (remarks["one"][1], str(warned[0].message)):
        assert "bad token" in texts and "disk full" not in texts
    assert "disk full" in remarks["two"][1] and "bad token" not in remarks["two"][1]
