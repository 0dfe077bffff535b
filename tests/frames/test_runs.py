"""Whether a run is sampled, and what the frames of runs must be."""

import numpy as np
import pandas as pd
import pytest

from fairtk.errors import ColumnError, DuplicateError
from fairtk.frames import Run
from fairtk.frames.columns import from_ir_measures


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
    with pytest.raises(ColumnError, match="got a"):
        Run({"q", "a"}, "here")


def test_a_rank_twice_is_refused_whenever_rows_are_read():
    ranks = run(qid=["q", "q"], docno=["b", "a"], score=[2.0, 2.0], rank=[0, 0])
    checked = Run(ranks, "here")
    for _ in range(2):
        with pytest.raises(DuplicateError, match=r"^here: duplicate rank 0 .*qid 'q', docno 'a'"):
            checked.checked()


def test_numbers_of_samples_that_leave_much_out_tell_rankings_apart():
    # 3 queries times 2^52 times 2^10 is beyond 64 bits
    sample = [2**52, 0, 2**52, 5]
    qids = [f"q{i}" for i in range(2**10)]
    many = run(qid=qids * 2, docno="d", score=1.0, sample=[2**52] * 2**10 + [5] * 2**10)
    assert Run(many, "here").ranking_sample.tolist() == [5, 2**52] * 2**10
    few = Run(run(qid=list("pqrr"), docno="d", score=1.0, sample=sample), "here")
    assert few.ranking_query.tolist() == [0, 1, 2, 2]
    assert few.ranking_sample.tolist() == [2**52, 0, 5, 2**52]


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
