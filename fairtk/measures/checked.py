"""What a measure gives must be numbers; what it raises is named after it and its plugin."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Real
from typing import Any

import ir_measures
import numpy as np

from fairtk.errors import FairtkError, MeasureError
from fairtk.frames.arrays import FloatArray
from fairtk.plugins import registry

_REMEDY = "a measure must give finite numbers, and NaN where its definition leaves a value open"


class Place:
    """Where a measure is: the qid that it works on, or ``""`` for all at once."""

    qid: str = ""


@contextmanager
def named_failures(measure: ir_measures.Measure) -> Iterator[Place]:
    """Name the measure, its plugin and the query in what is raised inside; refuse ``sys.exit``."""
    place = Place()
    try:
        yield place
    except SystemExit as error:
        raise MeasureError(
            f"{_where(measure, place.qid)} calls sys.exit({error.code!r}); a measure must not end "
            "the program"
        ) from error
    except FairtkError:
        raise
    except Exception as error:
        note = f"(in {_where(measure, place.qid)})"
        if note not in getattr(error, "__notes__", ()):
            error.add_note(note)
        raise


def scored(measure: Any, evidence: Any) -> FloatArray:
    """Return what a measure's `score_all` gives, checked: who asks it for values asks here."""
    if evidence.exact is not None and not measure.takes_exposure:
        evidence.exact.refuse(measure)
    with named_failures(measure):
        values = measure.score_all(evidence)
    return numbers(measure, values, evidence.qids)


def number(measure: ir_measures.Measure, value: Any, qid: str) -> float:
    """Return the value of one query; one that is no number, or infinite, is a `MeasureError`."""
    if not isinstance(value, Real | np.bool_) or math.isinf(value):
        raise MeasureError(f"{_where(measure, qid)} gives {value!r}; {_REMEDY}")
    return float(value)


def numbers(measure: ir_measures.Measure, values: Any, qids: Any) -> FloatArray:
    """Return the values of all queries, checked; shape (n_queries,)."""
    array = np.asarray(values)
    if array.shape != (len(qids),):
        raise MeasureError(
            f"{_where(measure)} gives values of the shape {array.shape} for {len(qids)} queries"
        )
    if array.dtype.kind not in "fiub":
        return np.array([number(measure, v, q) for v, q in zip(array, qids, strict=True)])
    infinite = np.flatnonzero(np.isinf(array))
    if len(infinite):
        number(measure, array[infinite[0]].item(), qids[infinite[0]])
    return array.astype(np.float64, copy=False)


def _where(measure: ir_measures.Measure, qid: str = "") -> str:
    owners = [e.owner for e in registry.measures.entries() if e.name == measure.NAME]
    owner = f"plugin {owners[0]}" if owners else f"module {type(measure).__module__}"
    return f"measure {measure!r} ({owner})" + (f", qid {qid!r}" if qid else "")
