"""Qrels: labels by row, query and document."""

import numpy as np
import pandas as pd
import pytest

from fairtk.errors import ColumnError
from fairtk.frames import Qrels


def qrels(labels, qid=("q", "q"), docno=("a", "b")):
    return pd.DataFrame({"qid": list(qid), "docno": list(docno), "label": labels})


def test_columns_are_needed_when_they_are_read():
    found = Qrels(pd.DataFrame({"qid": ["q", "q"], "gold_answer": ["x", "x"]}), "EU")
    assert found.query.tolist() == [0, 0]
    for read in ("doc", "docnos", "labels"):
        with pytest.raises(ColumnError, match="EU"):
            getattr(found, read)


def test_some_labels_of_all_queries():
    whole = Qrels(qrels([2, 1], qid=["q", "r"]), "here")
    part = whole.take(np.array([False, True]))
    assert part.qids.tolist() == ["q", "r"]
    assert part.query.tolist() == [1]
    assert part.labels.tolist() == [1.0]
    assert part.docnos[part.doc].tolist() == ["b"]
    assert len(part.frame) == 1
    assert whole.labels.tolist() == [2.0, 1.0]


def test_labels_by_query_in_their_order():
    frame = qrels([1, 2, 3], qid=["q", "r", "q"], docno=["b", "b", "a"])
    found = Qrels(frame, "here")
    assert found.by_query(found.labels.astype(int)) == {"q": {"b": 1, "a": 3}, "r": {"b": 2}}
    assert list(found.by_query(found.query)["q"]) == ["b", "a"]
    none = found.take(np.array([False, True, False]))
    assert none.by_query(none.query) == {"r": {"b": 1}}
