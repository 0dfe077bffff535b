"""A query without a value has no costs of documents."""

import pandas as pd
import pytest

import fairtk
from fairtk.errors import UndefinedWarning

QRELS = pd.DataFrame({"qid": list("1122"), "docno": list("abab"), "label": [0, 0, 1, 0]})
RUN = QRELS[["qid", "docno"]].assign(score=[2.0, 1.0, 2.0, 1.0])
PARTS = ["target", "difference", "cost"]


@pytest.mark.parametrize("measure", ["EE_R@2", "EE_L@2"])
def test_documents_of_an_undefined_query(measure):
    with pytest.warns(UndefinedWarning):
        explained = fairtk.explain(QRELS, RUN, measure, qid="1", baseline=RUN)
    documents = explained.by_document
    assert documents[[*PARTS, "baseline_cost"]].isna().all(axis=None)
    assert documents["docno"].tolist() == ["a", "b"] and documents["exposure"].tolist() == [1, 1]
    defined = fairtk.explain(QRELS, RUN, measure, qid="2").by_document
    assert defined[PARTS].notna().all(axis=None)
