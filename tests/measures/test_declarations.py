"""A measure class without its declarations is refused with all of them."""

import pandas as pd
import pytest
from ir_measures.measures import ParamInfo

import fairtk
from fairtk import FairMeasure
from fairtk.errors import ParameterError
from fairtk.measures import CUTOFF


def test_all_missing_declarations_are_named():
    with pytest.raises(ParameterError) as caught:

        class Short(FairMeasure):
            """A measure."""

            NAME = "Short"

    for name in ("PRETTY_NAME", "BETTER", "MISSING"):
        assert name in str(caught.value)


def test_a_parameter_of_ir_measures():
    class Share(FairMeasure):
        """The part p of the documents."""

        NAME, PRETTY_NAME, BETTER, MISSING = "Share", "Share", "higher", 0.0
        SUPPORTED_PARAMS = {"cutoff": CUTOFF, "p": ParamInfo(dtype=float, default=0.5, desc="part")}

        def score_query(self, qrels, run):
            return float(len(run)) * self["p"]

    qrels = pd.DataFrame({"qid": ["1"], "docno": ["a"], "label": [1]})
    run = pd.DataFrame({"qid": "1", "docno": ["a", "b", "c"], "score": [3.0, 2, 1]})
    means = fairtk.evaluate(qrels, run, [Share() @ 2, Share(p=0.25) @ 2]).means
    # two documents times 0.5, and times 0.25
    assert means.iloc[0].tolist() == [1.0, 0.5]
