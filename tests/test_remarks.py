"""Remarks of a plugin that is not installed have a text that names the plugin."""

import warnings

import pytest

from fairtk.errors import FairtkWarning
from fairtk.remarks import Remark, emit, read_remark, shown_texts


@pytest.mark.parametrize(
    ("measure", "stage", "detail", "parts"),
    [
        ("Shown@2", "", "", ["Shown@2", "'long'", "2 of 5 queries of first ('q1', 'q2')", "'lab'"]),
        ("", "Cuts", "at 9", ["Cuts", "'long'", "(at 9)", "'lab'"]),
    ],
)
def test_a_remark_of_an_unknown_kind_has_a_text(measure, stage, detail, parts):
    qids = ("q1", "q2")
    record = dict(kind="lab:long", measure=measure, system="first", count=2, n_queries=2)
    remark = read_remark(record | {"qids": [*qids], "total": 5, "detail": detail, "stage": stage})
    assert remark == Remark("lab:long", measure, "first", 2, 2, qids, 5, detail, stage)
    assert all(part in remark.text for part in parts) and not remark.text.startswith(":")
    assert shown_texts([remark]) == [f"{remark.text}."]
    with warnings.catch_warnings(record=True) as records:
        warnings.simplefilter("always")
        emit([remark])
    assert [(w.category, str(w.message)) for w in records] == [(FairtkWarning, remark.text)]
