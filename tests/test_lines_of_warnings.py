"""Warnings of functions that measure or run systems name the line of the call."""

import warnings

import pandas as pd
import pyterrier as pt
import pytest

import fairtk
from fairtk.errors import DataWarning, MissingWarning, UndefinedWarning
from fairtk.experiment import open_results

TOPICS = pd.DataFrame({"qid": ["1", "2", "3", "4"], "query": ["a", "b", "c", "d"]})
QRELS = pd.DataFrame({"qid": ["1", "2", "3", "4"], "docno": "d1", "label": 1})
RUN = pd.DataFrame(
    {"qid": ["1", "1", "2", "2"], "docno": ["d1", "d2"] * 2, "score": [2.0, 1.0] * 2}
)
MEASURES = ["nDCG@5", "EE_D@5"]


class FailsForQuery2(pt.Transformer):
    """Return documents, and fail for the query with the qid 2."""

    def transform(self, inp):
        if "2" in inp["qid"].tolist():
            raise ValueError("no such query")
        return inp.assign(docno="d1", score=1.0, rank=0)


def build(value=1):
    """Return a system, but not for the value 3."""
    if value == 3:
        raise ValueError("no such value")
    return pt.Transformer.from_df(RUN.assign(rank=[0, 1, 0, 1]))


def stored(folder):
    """Return a folder with stored results of a system that finds nothing for two queries."""
    fairtk.Experiment([fairtk.identified(build(), "two queries, v1")], TOPICS, save_dir=folder)
    return folder


def same():
    """Return results of two systems with the same values."""
    return fairtk.Experiment({"a": build(), "b": build()}, TOPICS[:2], QRELS[:2], MEASURES)


# each call is on one line, which the warning must name
CALLS = [
    (lambda f: fairtk.evaluate(QRELS, RUN, MEASURES), MissingWarning),
    (lambda f: fairtk.compare(QRELS, {"a": RUN, "b": RUN}, MEASURES), MissingWarning),
    (lambda f: fairtk.frontier(QRELS, {"a": RUN}, "EE_D@5", "EE_R@5"), MissingWarning),
    (lambda f: fairtk.precision(QRELS, RUN.assign(sample=0), ["EE_D@5"]), MissingWarning),
    (lambda f: fairtk.sensitivity(QRELS, {"a": RUN, "b": RUN}, ["EE_D@5"]), MissingWarning),
    (lambda f: fairtk.Experiment([RUN], TOPICS, QRELS, MEASURES), MissingWarning),
    (lambda f: fairtk.Experiment([FailsForQuery2()], TOPICS, batch_size=1), DataWarning),
    (lambda f: open_results(stored(f), QRELS, MEASURES), MissingWarning),
    (lambda f: fairtk.tune(build, {"value": [2, 3]}, TOPICS[:2], QRELS, "nDCG@5", 2), DataWarning),
    (lambda f: same().compare("a"), UndefinedWarning),
]


@pytest.mark.parametrize("call, category", CALLS, ids=[str(index) for index in range(len(CALLS))])
def test_a_warning_names_the_line_of_the_call(call, category, tmp_path):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(tmp_path)
    places = {(w.filename, w.lineno) for w in caught if issubclass(w.category, category)}
    assert places == {(__file__, call.__code__.co_firstlineno)}
