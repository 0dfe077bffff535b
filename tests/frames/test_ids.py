"""Ids as codes: which are the same, and looking them up."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairtk.errors import InputError
from fairtk.frames.ids import Ids
from fairtk.frames.schema import check_ids_among, encode_ids, refuse_in

refuse = partial(refuse_in, "here")


@pytest.mark.parametrize(
    "column",
    [
        pd.Series(["2", "1", "2"]),
        pd.Series(["2", "1", "2"], dtype=object),
        pd.Series(["2", "1", "2"], dtype="category"),
        pd.Series([2, 1, 2]),
        pd.Series([2, 1, 2], dtype=np.uint8),
        pd.Series([2, 1, 2], dtype="Int64"),
        pd.Series([np.int32(2), "1", "2"], dtype=object)[[0, 1, 0]],
    ],
    ids=lambda column: str(column.dtype),
)
def test_text_and_whole_numbers_are_the_same_ids(column):
    before = column.copy()
    codes, ids = encode_ids(column, "qid", "here")
    assert codes.tolist() == [0, 1, 0]
    assert ids.tolist() == ["2", "1"]
    assert all(type(i) is str for i in ids)
    pd.testing.assert_series_equal(column, before)


def test_no_rows():
    codes, ids = encode_ids(pd.Series([], dtype=object), "qid", "here")
    assert codes.tolist() == ids.tolist() == []


NAMES = st.lists(st.sampled_from(["a", "b", "é", "a b", "10", "2"]), max_size=12)


@given(NAMES, NAMES, st.sampled_from(["str", object]))
def test_ids_find_their_place_among_known_ones(known, column, dtype):
    distinct = list(dict.fromkeys(known))
    known = Ids(np.array(distinct, dtype=object))
    column_of_ids = pd.Series(column, dtype=dtype)
    codes, ids, place = check_ids_among(known, column_of_ids, "docno", refuse)
    assert ids.text[codes].tolist() == column
    assert sorted(ids.text) == sorted(set(column))
    there = [distinct.index(i) if i in distinct else -1 for i in ids.text]
    assert place.tolist() == known.find(ids).tolist() == there


def test_ids_that_are_not_known_are_checked_alike():
    known = Ids(np.array(["a"], dtype=object))
    with pytest.raises(InputError, match=r"^here: docno '\\ufeffq' has the character U\+FEFF"):
        check_ids_among(known, pd.Series(["a", "\ufeffq"]), "docno", refuse)
