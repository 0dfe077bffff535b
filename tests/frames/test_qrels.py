"""Qrels: one place for ids, labels and duplicates."""

import numpy as np
import pandas as pd
import pytest

from fairtk.errors import ColumnError, DuplicateError, InputError
from fairtk.frames import Qrels


def qrels(labels, qid=("q", "q"), docno=("a", "b")):
    return pd.DataFrame({"qid": list(qid), "docno": list(docno), "label": labels})


@pytest.mark.parametrize(
    "labels",
    [
        [2, 0],
        [2.0, 0.0],
        pd.array([2, 0], dtype="Int64"),
        pd.array([2.0, 0.0], dtype="Float64"),
        np.array([2, 0.0], dtype=object),
        np.array([2, 0], dtype=np.uint8),
        pd.Categorical([2, 0]),
        np.array([2, False], dtype=object),
    ],
    ids=lambda labels: str(getattr(labels, "dtype", type(labels[0]))),
)
def test_numbers_of_all_kinds_are_labels(labels):
    frame = qrels(labels)
    before = frame.copy()
    found = Qrels(frame, "here")
    assert found.labels.tolist() == [2.0, 0.0]
    assert found.qids.tolist() == ["q"]
    assert found.docnos[found.doc].tolist() == ["a", "b"]
    pd.testing.assert_frame_equal(frame, before)


def test_booleans_are_labels():
    assert Qrels(qrels([True, False]), "here").labels.tolist() == [1.0, 0.0]


@pytest.mark.parametrize(
    ("label", "shown"),
    [
        (np.nan, "nan"),
        (None, "None"),
        (np.inf, "inf"),
        (-np.inf, "-inf"),
        ("1", "'1'"),
        ([1], r"\[1\]"),
        (2**53, "9007199254740992"),
        (-(2**62), "-46116860184"),
        (2**53 + 1, "9007199254740993"),
        (10**400, "1000"),
    ],
)
def test_what_is_no_finite_number_is_refused(label, shown):
    frame = qrels(np.array([1, None], dtype=object))
    frame.at[1, "label"] = label
    with pytest.raises(InputError, match=rf"^here: the label of qid 'q', docno 'b' is {shown}"):
        Qrels(frame, "here")


@pytest.mark.parametrize(
    ("qid", "docno"),
    [(["q", "q"], ["a", "a"]), ([1, 1], ["a", "a"]), (["q", "q"], [7, 7])],
)
def test_a_document_has_one_label(qid, docno):
    with pytest.raises(DuplicateError, match=rf"^here: .* docno '{docno[0]}' twice for qid"):
        Qrels(qrels([1, 1], qid, docno), "here")


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
