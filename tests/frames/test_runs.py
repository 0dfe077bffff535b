"""Whether a run is sampled, and what the frames of runs must be."""

import numpy as np
import pandas as pd
import pytest

from fairtk.errors import ColumnError, DuplicateError, InputError
from fairtk.frames import Run, from_ir_measures


def run(**columns):
    return pd.DataFrame(columns)


SAMPLED = {
    "two samples, one below the other": run(qid=["q", "q"], docno=["a", "a"], sample=[0, 1]),
    "two samples in turns": run(qid=["q", "r", "q", "r"], docno=list("abab"), sample=[3, 3, 5, 5]),
    "two samples of the second query": run(
        qid=["q", "r", "r"], docno=["a", "a", "b"], sample=[0, 0, 1]
    ),
    "a column of objects": run(qid=["q", "q"], sample=np.array([0, 1], dtype=object)),
    "nullable": run(qid=["q", "q"], sample=pd.array([0, 1], dtype="Int64")),
    "a document twice": run(qid=["q", "r", "q"], docno=["a", "a", "a"], score=[3.0, 2, 1]),
    "a rank twice": run(qid=["q", "r", "q"], docno=list("abc"), rank=[0, 0, 0]),
    "without documents": run(qid=["q", "q"], qanswer=["a", "b"], sample=[0, 1]),
}
PLAIN = {
    "one sample": run(qid=["q", "q"], docno=["a", "b"], sample=[7, 7]),
    "samples of its own for each query": run(
        qid=["q", "r", "q"], docno=list("aab"), sample=[0, 1, 0]
    ),
    "no sample": run(qid=["q", "q", "r"], docno=list("aba"), rank=[0, 1, 0]),
    "no rank": run(qid=["q", "q", "r"], docno=list("aba"), score=[2.0, 1, 5]),
    "one sample, its document twice": run(qid=["q", "q"], docno=["a", "a"], sample=[0, 0]),
    "no value for sample": run(qid=["q", "q"], docno=["a", "b"], sample=[np.nan, np.nan]),
    "empty": run(qid=[], docno=[], score=[]),
    "empty with sample": run(qid=[], docno=[], sample=[]),
}


@pytest.mark.parametrize(
    ("frame", "expected"),
    [(f, True) for f in SAMPLED.values()] + [(f, False) for f in PLAIN.values()],
    ids=[*SAMPLED, *PLAIN],
)
def test_is_sampled(frame, expected):
    before = frame.copy()
    assert Run(frame, "here").is_sampled is expected
    pd.testing.assert_frame_equal(frame, before)


def test_columns_have_one_name_each():
    frame = run(qid=["q"], docno=["a"], score=[1.0])
    twice = pd.concat([frame, frame[["score"]]], axis=1)
    with pytest.raises(ColumnError, match="'score'"):
        Run(twice, "here")
    levels = frame.set_axis(pd.MultiIndex.from_product([["run"], frame.columns]), axis=1)
    with pytest.raises(ColumnError, match="MultiIndex"):
        Run(levels, "here")
    both = frame.assign(query_id="q")
    with pytest.raises(ColumnError, match="'qid'.*'query_id'"):
        from_ir_measures(both, "AP (run)")
    with pytest.raises(ColumnError, match="found a"):
        Run({"q": {"a": 1.0}}, "here")


@pytest.mark.parametrize(
    ("columns", "error", "place"),
    [
        ({"score": [1.0, np.nan]}, InputError, "score of qid 'q', docno 'b' is nan"),
        ({"score": [np.inf, 1.0]}, InputError, "score of qid 'q', docno 'a' is inf"),
        ({"score": [1.0, "2"]}, ColumnError, "found '2' for qid 'q', docno 'b'"),
        ({"score": [1.0, [2.0]]}, ColumnError, r"found \[2.0\] for qid 'q', docno 'b'"),
        ({"docno": ["a", "a"]}, DuplicateError, "docno 'a'"),
        ({"sample": [0.5, 1.0]}, ColumnError, "'sample'"),
        ({"sample": [-1, 0]}, ColumnError, "found -1"),
        ({"sample": [0, np.nan]}, InputError, "docno 'b'"),
        ({"rank": [0, np.nan]}, ColumnError, "'rank' .*found nan for qid"),
        ({"rank": [0.0, np.inf]}, ColumnError, "'rank' .*found inf for qid"),
        ({"rank": [None, None]}, InputError, "'rank'"),
        ({"rank": [1, 0]}, InputError, "docno 'a'"),
        ({"rank": [0, 0]}, DuplicateError, "rank 0"),
    ],
)
def test_wrong_values(columns, error, place):
    frame = run(**{"qid": ["q", "q"], "docno": ["a", "b"], "score": [2.0, 1.0]} | columns)
    checked = Run(frame, "here")
    for _ in range(2):  # what is wrong stays wrong
        with pytest.raises(error, match=place):
            checked.checked()


def test_taken_rows():
    whole = Run(run(qid=["q", "r", "q"], docno=["a", "b", "c"], score=[3.0, 2.0, 1.0]), "here")
    for _ in range(2):  # before the documents are encoded, and after
        part = whole.take(np.array([False, True, True]))
        assert part.qids[part.query].tolist() == ["r", "q"]
        assert part.docnos[part.frame_doc].tolist() == ["b", "c"]
        assert part.scores.tolist() == [2.0, 1.0]
        assert whole.docnos.tolist() == ["a", "b", "c"]


def test_rows_with_the_ranks_that_they_have():
    whole = Run(run(qid=["q", "r", "q"], docno=["a", "b", "c"], score=[3.0, 2.0, 1.0]), "here")
    part = whole.restricted(np.array([False, True, False]))
    assert (part.docno(0), part.position.tolist()) == ("c", [1])
    assert part.qids.tolist() == ["q", "r"]  # r has an empty ranking now
    assert part.ranking_start.tolist() == [0, 1, 1]
    assert len(whole.order) == 3
