"""Frames as tables: they come back as they were, however large and however many."""

import numpy as np
import pandas as pd
import pytest
from pandas.testing import assert_frame_equal

from fairtk.experiment.packing import concat_tables, from_bytes, pack, spans_of, to_bytes, unpack


def frame(start, size):
    return pd.DataFrame(
        {
            "qid": [f"q{i // 3}" for i in range(start, start + size)],
            "docno": [f"d{i}" for i in range(start, start + size)],
            "rank": np.arange(start, start + size),
            "few": np.arange(size, dtype=np.int32),
            "score": np.linspace(0, 1, size),
            "note": pd.Series([{"a": i} for i in range(size)], dtype=object),
        }
    )


@pytest.mark.parametrize("sizes", [(4,), (4, 7), (5, 40_000), (30_000, 30_000)])
def test_tables_come_back_below_each_other(sizes):
    starts = np.cumsum([0, *sizes])
    frames = [frame(start, size) for start, size in zip(starts, sizes, strict=False)]
    table = concat_tables([from_bytes(to_bytes(pack(one, "here", durable=True))) for one in frames])
    whole = pd.concat(frames, ignore_index=True)
    assert_frame_equal(unpack(table), whole)
    assert_frame_equal(unpack(from_bytes(to_bytes(table))), whole)
    coded = unpack(table, ["docno", "rank"], codes=True)
    assert str(coded["docno"].dtype) == "category"
    assert coded["docno"].tolist() == whole["docno"].tolist()


def test_spans_give_the_qids():
    given = frame(0, 9)
    table = pack(given, "here", durable=True, spans=spans_of([("q0", 3), ("q1", 3), ("q2", 3)]))
    assert_frame_equal(unpack(table), given)
    assert spans_of([("a", 2), ("b", 0), ("c", 1)]) == [("a", 0, 2), ("b", 2, 0), ("c", 2, 1)]


@pytest.mark.parametrize("largest", [2**15 - 1, 2**15, -(2**15), 2**31, -(2**31) - 1, -(2**63)])
def test_whole_numbers_of_every_size_survive(largest):
    given = pd.DataFrame({"n": np.array([0, largest], dtype=np.int64)})
    assert_frame_equal(unpack(pack(given, "here", durable=True)), given)
