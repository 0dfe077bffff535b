"""Evaluation without labels: which measures do without, what n is, and what is said."""

import numpy as np
import pandas as pd
import pytest
from ir_measures import nDCG
from small_frames import small_groups

import fairtk
from fairtk import AWRF, EE_D, EE_R, EU, ByGroup, E, GroupEE_D, Target, evaluate
from fairtk.errors import DataWarning, InputError
from fairtk.remarks import NO_LABELS

# these runs have different numbers of samples
pytestmark = pytest.mark.filterwarnings("ignore:.*PerSample:fairtk.errors.DataWarning")

RUN = pd.DataFrame(
    {
        "qid": ["1"] * 4 + ["2"] * 2,
        "docno": ["a", "b", "b", "a", "a", "c"],
        "sample": [0, 0, 1, 1, 0, 0],
        "score": [2.0, 1.0, 2.0, 1.0, 2.0, 1.0],
        "rank": [0, 1, 0, 1, 0, 1],
    }
)
OTHER = RUN[RUN["qid"] == "1"]
QRELS = pd.DataFrame({"qid": ["1", "2"], "docno": ["a", "c"], "label": [1, 1]})
GROUPS = small_groups("abc", "xyx", "toy")
UNIFORM = AWRF(groups=GROUPS, target=Target.uniform(GROUPS))


def values(result):
    return dict(zip(result.per_query["qid"], result.per_query["value"], strict=True))


def test_ee_d_by_hand():
    """Query 1: a and b are first in one of two samples each, 2 * 0.5^2 / 1; query 2: 1 / 1."""
    assert values(evaluate(None, RUN, [EE_D @ 1])) == {"1": 0.5, "2": 1.0}


def test_what_labels_do_not_decide_is_as_with_them():
    measures = [
        EE_D @ 1,
        UNIFORM @ 2,
        E(UNIFORM @ 2),
        GroupEE_D(groups=GROUPS, useful_only=False) @ 2,
    ]
    without = evaluate(None, RUN, measures).per_query["value"]
    np.testing.assert_allclose(without, evaluate(QRELS, RUN, measures).per_query["value"])


def test_a_query_that_one_run_lacks_gets_the_worst_value():
    with pytest.warns(fairtk.errors.MissingWarning, match="1 of 2"):
        result = evaluate(None, {"all": RUN, "one": OTHER}, [EE_D @ 1])
    assert result.per_query.query("system == 'one'")["value"].tolist() == [0.5, 1.0]


def test_n_is_said():
    labeled = pd.concat([RUN, pd.DataFrame({"qid": ["2"], "docno": ["d"], "sample": [0]})])
    labeled = labeled.fillna({"score": 0.0, "rank": 2})
    with pytest.warns(DataWarning, match="different numbers of samples"):
        results = evaluate(None, {"two": RUN, "three": labeled}, [E(UNIFORM @ 2), EE_D @ 1])
    (remark,) = [one for one in results.remarks if one.kind == NO_LABELS]
    assert remark.detail == "two 2; three 2 to 3"
    for qrels, measure in ((None, UNIFORM @ 2), (QRELS, EE_D @ 1)):
        remarks = evaluate(qrels, RUN, [measure]).remarks
        assert NO_LABELS not in {remark.kind for remark in remarks}


@pytest.mark.parametrize(
    ("measure", "reason"),
    [
        (EE_R @ 5, "it reads which documents are useful"),
        (nDCG @ 5, "it reads which documents are useful"),
        (E(nDCG @ 5), "it reads which documents are useful"),
        (GroupEE_D(groups=GROUPS) @ 5, "it reads which documents are useful"),
        (ByGroup(nDCG @ 5, GROUPS), "it reads which documents are useful"),
        (UNIFORM @ 5 * nDCG @ 5, "it reads which documents are useful"),
        (EE_D(browsing="GERR") @ 5, "it reads which documents are useful"),
        (UNIFORM(browsing="GERR"), "browsing='GERR.*' stops at useful documents"),
        (EE_D(n="judged") @ 5, "n='judged' reads them"),
        (EU, "gold answers"),
    ],
)
def test_what_needs_labels_says_for_what(measure, reason):
    with pytest.raises(InputError, match=reason):
        evaluate(None, RUN.assign(qanswer="x"), [measure])


def test_a_target_of_labels_needs_them():
    with pytest.raises(InputError, match="'relevance'"):
        evaluate(None, RUN, ["AWRF@5"], groups=[GROUPS], target="relevance")
