"""Content digests: equal for equal content, different otherwise, stable across processes."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairtk.frames.digests import EqualByContent, digest, digests

SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text())
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(VALUES, VALUES)
def test_digests_agree_exactly_when_contents_do(one, two):
    # repr tells apart what == does not: 1 and 1.0 and True; NaN is itself
    def text(value):
        if isinstance(value, dict):
            return "{" + ",".join(sorted(f"{k!r}:{text(v)}" for k, v in value.items())) + "}"
        return f"[{','.join(map(text, value))}]" if isinstance(value, list) else repr(value)

    assert (digest(one) == digest(two)) == (text(one) == text(two))


@given(shared=st.lists(VALUES, max_size=3), rests=st.lists(st.lists(VALUES, max_size=3)))
def test_digests_of_many_are_those_of_each(shared, rests):
    assert digests(shared, rests, 16) == [digest([*shared, *rest], 16) for rest in rests]


NUMBERS = st.integers(-2, 2) | st.integers() | st.sampled_from([0.0, -0.0, 1.0, 0.5, np.nan])


@given(st.lists(NUMBERS, max_size=4), st.lists(NUMBERS, max_size=4))
def test_columns_of_numbers_agree_exactly_when_their_numbers_do(one, two):
    columns = [np.array([*column, None], dtype=object)[:-1] for column in (one, two)]
    assert (digest(columns[0]) == digest(columns[1])) == (repr(one) == repr(two))


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (["ab"], ["a", "b"]),
        (["a", ["b"]], [["a"], "b"]),
        ("1", 1),
        (b"a", b"b"),
        ({"a": {"b": 1}}, {"a": 1, "b": 1}),
        (np.array([1, 2]), np.array([[1, 2]])),
        (np.array([1, 2]), np.array([1.0, 2.0])),
        ([], {}),
        (None, "None"),
    ],
)
def test_different(one, two):
    assert digest(one) != digest(two)


FRAME = pd.DataFrame({"qid": ["1", "2"], "label": [1, 0], "score": [0.5, np.nan]})


def test_frames_by_content():
    assert digest(FRAME) == digest(FRAME.copy())
    assert digest(FRAME) == digest(FRAME.set_index(pd.Index(["x", "y"])))
    assert digest(FRAME) == digest(FRAME.astype({"qid": object}))
    assert digest(FRAME) == digest(FRAME.astype({"label": "int32"}))
    assert digest(FRAME) == digest(FRAME.astype({"score": "Float64"}))


@pytest.mark.parametrize(
    "other",
    [
        FRAME.iloc[::-1],
        FRAME[["label", "qid", "score"]],
        FRAME.rename(columns={"label": "grade"}),
        FRAME.assign(label=[1, 1]),
        FRAME[:1],
        FRAME[:0],
        FRAME.drop(columns="score"),
    ],
)
def test_frames_that_differ(other):
    assert digest(FRAME) != digest(other)


def test_empty_frames_differ_by_columns():
    assert digest(FRAME[:0]) != digest(FRAME[["qid"]][:0])


def test_a_method_of_the_object_comes_first():
    class Groups:
        def __init__(self, content):
            self.content = content

        def digest(self):
            return self.content

    assert digest(Groups("a")) == digest(Groups("a")) != digest(Groups("b"))


def test_non_contiguous_arrays():
    array = np.arange(12).reshape(3, 4)
    assert digest(array[:, ::2]) == digest(array[:, ::2].copy())
    assert digest(array) != digest(array.T)


def test_size_and_form():
    assert len(digest("a")) == 16
    assert len(digest("a", size=4)) == 8
    assert int(digest("a"), 16) >= 0


def test_another_process_agrees():
    code = "from fairtk.frames import digest; print(digest({'a': ['b', 1.5, None], 'c': b'x'}))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == digest({"a": ["b", 1.5, None], "c": b"x"})


class Setting(EqualByContent):
    def __init__(self, value, note):
        self.value, self.note = value, note

    def digest(self):
        return digest(self.value)


class OtherSetting(Setting):
    pass


def test_objects_are_equal_by_class_and_content():
    one = Setting([1, 2], "one")
    assert one == Setting([1, 2], "another")
    assert hash(one) == hash(Setting([1, 2], "another"))
    assert one != Setting([2, 1], "one")
    assert one != OtherSetting([1, 2], "one")
    assert one != digest([1, 2])
