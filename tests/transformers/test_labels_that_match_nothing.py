"""Oracles with labels of other documents: the uniform policy, with a remark."""

import pandas as pd
import pytest

from fairtk import FairSampler
from fairtk.errors import DataWarning
from fairtk.transformers import OracleExposure, OracleSampler

RUN = pd.DataFrame({"qid": ["q1"] * 2 + ["q2"] * 2, "docno": [*"abab"], "score": [2.0, 1.0] * 2})


def labels(qid, docno, label=1):
    return pd.DataFrame({"qid": ["q1", qid], "docno": ["a", docno], "label": [1, label]})


MAKE = {
    "OracleSampler": lambda qrels: OracleSampler(qrels, n_samples=2),
    "OracleExposure": lambda qrels: OracleExposure(qrels, 2),
    "FairSampler": lambda qrels: FairSampler(
        max_relevance_loss=0.1, relevance=qrels, cutoff=2, n_samples=2
    ),
}


@pytest.mark.parametrize("name", MAKE)
@pytest.mark.parametrize("qrels", [labels("q2", "B"), labels("Q2", "b")])
def test_queries_without_a_labeled_document_are_remarked_on(name, qrels):
    with pytest.warns(DataWarning, match=rf"^{name}: .*1 of 2 queries \('q2'\)") as records:
        MAKE[name](qrels)(RUN)
    assert len(records) == 1
    assert name == "FairSampler" or records[0].filename == __file__


@pytest.mark.parametrize("name", MAKE)
@pytest.mark.parametrize("label", [1, 0, -1])
def test_other_queries_are_silent(name, label, recwarn):
    MAKE[name](labels("q2", "b", label))(RUN)
    assert bool(recwarn.list) == (name == "FairSampler" and label < 1)  # which loses no nDCG


def test_an_empty_run():
    assert OracleSampler(labels("q2", "b"))(RUN.head(0)).empty
    assert OracleExposure(labels("q2", "b"))(RUN.head(0)).empty
