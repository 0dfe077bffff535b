"""Ids: what is one, what is the same one, and what is refused by name."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairtk.errors import InputError
from fairtk.frames import Ids, encode_ids
from fairtk.frames.schema import check_ids_among


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


REFUSED = {
    "float": ([1.0, 2.0], r"found 1.0 \(float\): .*astype\(int\)"),
    "float32": ([np.float32(1.5), "a"], r"\(float32\): .*astype\(int\)"),
    "bytes": ([b"q1"], r"found b'q1' \(bytes\): decode"),
    "bool": ([True, False], r"found True \(bool\)"),
    "list": (["q", ["q1"]], r"qid in row 1 must be text.*found \['q1'\] \(list\).*explode"),
    "dict": ([{}], r"found \{\} \(dict\)"),
    "array": ([np.zeros(2)], r"\(ndarray\)"),
    "tuple": ([("a", "b")], r"\(tuple\)"),
    "date": ([pd.Timestamp("2022-01-01")], r"\(Timestamp\)"),
    "nan": (["q", np.nan], r"qid is missing \(NaN\) in row 1"),
    "none": ([None, "q"], r"qid is missing \(NaN\) in row 0"),
    "NA": (pd.array([1, None], dtype="Int64"), r"qid is missing \(NaN\) in row 1"),
    "one id twice": ([1, "1"], r"qid '1' occurs as int and str"),
    "NUL": (["q", "a\0b"], r"qid 'a\\x00b' has the character U\+0000"),
    "BOM": (["é", "\ufeffq"], r"qid '\\ufeffq' has the character U\+FEFF .*joined files"),
    "surrogate": (["\ud800"], r"qid '\\ud800' has the character U\+D800"),
}


@pytest.mark.parametrize(("values", "message"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_id_is_refused(values, message):
    column = pd.Series(values) if hasattr(values, "dtype") else pd.Series(values, dtype=object)
    with pytest.raises(InputError, match="^here: .*" + message):
        encode_ids(column, "qid", "here")


def test_letters_of_all_scripts_are_ids():
    names = ["Zoë", "名前", "🙂", "a b", "a\u3000b"]
    assert encode_ids(pd.Series(names), "docno", "here")[1].tolist() == names


def test_no_rows():
    codes, ids = encode_ids(pd.Series([], dtype=object), "qid", "here")
    assert codes.tolist() == ids.tolist() == []


NAMES = st.lists(st.sampled_from(["a", "b", "é", "a b", "10", "2"]), max_size=12)


@given(NAMES, NAMES, st.sampled_from(["str", object]))
def test_ids_find_their_place_among_known_ones(known, column, dtype):
    distinct = list(dict.fromkeys(known))
    known = Ids(np.array(distinct, dtype=object))
    codes, ids, place = coded_among(known, pd.Series(column, dtype=dtype), "docno", "here")
    assert ids.text[codes].tolist() == column
    assert sorted(ids.text) == sorted(set(column))
    there = [distinct.index(i) if i in distinct else -1 for i in ids.text]
    assert place.tolist() == known.find(ids).tolist() == there


def test_ids_that_are_not_known_are_checked_alike():
    known = Ids(np.array(["a"], dtype=object))
    with pytest.raises(InputError, match=r"^here: docno '\\ufeffq' has the character U\+FEFF"):
        coded_among(known, pd.Series(["a", "\ufeffq"]), "docno", "here")
