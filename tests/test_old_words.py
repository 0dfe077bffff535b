"""Renamed parameters are refused with an error that names the new word."""

import pandas as pd
import pytest

from fairtk import AWRF, Groups, Target, nDCG_AWRF
from fairtk.errors import ParameterError
from fairtk.measures import parse
from fairtk.renamed import refuses_old_words

GROUPS = Groups.from_frame(pd.DataFrame({"docno": ["a"], "group": ["f"]}), name="gender")
QRELS = pd.DataFrame({"qid": ["1"], "docno": ["a"], "label": [1]})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: AWRF(discount="TREC"), "AWRF: discount is called browsing now"),
        (lambda: nDCG_AWRF(missing="drop"), "nDCG_AWRF: missing is called unlabeled now"),
        (lambda: AWRF(k=5), "AWRF: k is called cutoff now; write cutoff=..."),
        (lambda: parse("AWRF(discount='TREC')@5"), "AWRF: discount is called browsing now"),
        (lambda: GROUPS.memberships(["a"], missing="drop"), "memberships: missing is called unlab"),
        (lambda: Target.from_qrels(QRELS, GROUPS, missing="drop"), "from_qrels: missing is called"),
    ],
)
def test_old_words(call, message):
    with pytest.raises(ParameterError, match=message):
        call()


def test_a_word_that_a_function_has_is_no_old_word():
    @refuses_old_words
    def pooled(k, cutoff=3):
        return k * cutoff

    assert pooled(k=2) == 6
    with pytest.raises(ParameterError, match="depth is called cutoff now"):
        pooled(2, depth=1)
    with pytest.raises(TypeError, match="unexpected"):
        pooled(2, width=1)
