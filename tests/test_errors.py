"""Errors: kinds that callers can catch, and messages of one line."""

import pytest

import fairtk
from fairtk import errors
from fairtk.errors import (
    ColumnError,
    DownloadError,
    DuplicateError,
    FairtkError,
    FairtkWarning,
    FormatError,
    InputError,
    MissingExtraError,
    MissingPluginError,
    ModelError,
    NotFoundError,
    ParameterError,
    PluginError,
)
from fairtk.wording import did_you_mean, format_list


def test_one_class_catches_all():
    for value in vars(errors).values():
        if isinstance(value, type) and issubclass(value, Warning):
            assert issubclass(value, FairtkWarning)
            assert issubclass(value, UserWarning)
        elif isinstance(value, type) and issubclass(value, Exception):
            assert issubclass(value, FairtkError)


@pytest.mark.parametrize(
    ("error", "usual"),
    [
        (InputError, ValueError),
        (ColumnError, ValueError),
        (DuplicateError, ValueError),
        (ParameterError, ValueError),
        (FormatError, ValueError),
        (NotFoundError, ValueError),
        (MissingExtraError, ImportError),
        (MissingPluginError, InputError),
        (ModelError, OSError),
        (DownloadError, OSError),
    ],
)
def test_the_usual_kind_catches_too(error, usual):
    assert issubclass(error, usual)
    assert not issubclass(PluginError, ValueError)


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ({}, "expected six fields"),
        ({"path": "run.txt"}, "run.txt: expected six fields"),
        ({"path": "run.txt", "line": 12}, "run.txt:12: expected six fields"),
    ],
)
def test_a_format_error_says_where(place, text):
    error = FormatError("expected six fields", **place)
    assert str(error) == text
    assert (error.path, error.line) == (place.get("path"), place.get("line"))


def test_suggestions():
    assert did_you_mean("rougeLL", ["rougeL", "f1"]) == "; did you mean 'rougeL'?"
    assert did_you_mean("ROUGEL", ["rougeL", "f1"]) == "; did you mean 'rougeL'?"
    assert did_you_mean("x", ["b", "a", "a"]) == "; known: a, b"
    assert did_you_mean("x", []) == "; known: none"
    many = [f"name{i:02}" for i in range(20)]
    assert did_you_mean("x", many).endswith("name11, ...")
    assert did_you_mean("x", ["a", "b", "c"], limit=2) == "; known: a, b, ..."
    assert did_you_mean("", ["a"]) == "; known: a"


def test_lists_in_words():
    assert format_list([]) == ""
    assert format_list(["a", 2]) == "'a', 2"
    assert format_list(range(7)) == "0, 1, 2, 3, 4 and 2 more"
    assert format_list((c for c in "abc"), limit=1) == "'a' and 2 more"


def test_a_name_of_a_room_says_which_room():
    with pytest.raises(
        AttributeError,
        match="SingleDocumentSampler; it is fairtk.transformers.SingleDocumentSampler$",
    ):
        fairtk.SingleDocumentSampler  # noqa: B018
    with pytest.raises(AttributeError, match="No fairtk attribute Nowhere$"):
        fairtk.Nowhere  # noqa: B018


def test_of_names_that_differ_in_case_alone_the_one_nearest_in_case_is_meant():
    """ir_measures knows both."""
    known = ["NDCG", "P", "nDCG"]
    assert did_you_mean("nDGC", known) == did_you_mean("ndcg", known) == "; did you mean 'nDCG'?"
    assert did_you_mean("NDGC", known) == "; did you mean 'NDCG'?"
