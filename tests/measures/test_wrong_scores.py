"""What a measure returns is checked: the error names the measure and what is wrong."""

import ir_measures
import numpy as np
import pandas as pd
import pytest

import fairtk
from fairtk.errors import MeasureError
from fairtk.measures import FairMeasure, Scores

RUN = pd.DataFrame({"qid": ["1", "1", "2"], "docno": ["a", "b", "a"], "score": [2.0, 1.0, 1.0]})
QRELS = pd.DataFrame({"qid": ["1", "2"], "docno": ["a", "b"], "label": [1, 1]})
NONE = np.zeros(2)
LONG = np.array([True, False, True])

WRONG = {
    "3 values": (np.zeros(3), r"values of shape \(3,\)"),
    "a column": (np.zeros((2, 1)), r"\(2, 1\)"),
    "nothing": (None, r"shape \(\)"),
    "infinity": (np.array([0.0, np.inf]), "qid '2'.*inf"),
    "text": (np.array(["a", "b"]), "qid '1'.*'a'"),
    "a long mask": (Scores.of(NONE, [("why", LONG)]), r"mask of 'why' of shape \(3,\)"),
    "a short mask": (Scores.of(NONE, [("why", LONG[:1])]), r"mask of 'why' of shape \(1,\)"),
    "two masks": (Scores.of(NONE, [("why", LONG[:2]), ("why", LONG)]), "mask of 'why'"),
    "long counts": (Scores(NONE, {}, {"few known groups": LONG}), "'few known groups'"),
    "an unknown kind": (Scores(NONE, {}, {"lab:new": LONG[:2]}), "'lab:new'.*REMARKS"),
}


@pytest.fixture
def measure(monkeypatch):
    monkeypatch.setattr(ir_measures.measures, "registry", {**ir_measures.measures.registry})

    class Wrong(FairMeasure):
        """Returns what a test sets."""

        NAME, PRETTY_NAME, BETTER, MISSING = "Wrong", "Wrong", "higher", 0.0
        result = None

        def score_all(self, judged):
            return self.result

    return Wrong()


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_result_is_an_error_that_names_the_measure(measure, name):
    type(measure).result, place = WRONG[name]
    for use in (
        lambda: fairtk.evaluate(QRELS, RUN, [measure]),
        lambda: ir_measures.calc(
            [measure], QRELS.rename(columns=THEIRS), RUN.rename(columns=THEIRS)
        ),
    ):
        with pytest.raises(MeasureError, match=f"measure Wrong .*{place}"):
            use()


THEIRS = {"qid": "query_id", "docno": "doc_id", "label": "relevance"}
