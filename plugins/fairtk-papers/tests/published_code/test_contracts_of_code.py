"""The measures of published code have the contract of measures, and are measures of the plugin."""

import fairtk_papers.plugin
import pandas as pd
import pytest
from fairtk_papers import published_code
from fairtk_papers.published_code import (
    EE_D_expeval,
    EE_D_fair_rag,
    EE_L_expeval,
    EE_L_fair_rag,
    EE_R_expeval,
    EE_R_fair_rag,
    GroupEE_D_expeval,
    GroupEE_L_expeval,
    GroupEE_R_expeval,
)
from ir_measures import calc_aggregate
from small_frames import qrels_of, run_of

import fairtk
from fairtk import Groups, PlackettLuceExposure
from fairtk.errors import ParameterError
from fairtk.measures import parse
from fairtk.testing import MeasureContract, toy_groups

GROUPS = Groups.from_frame(toy_groups(), name="toy")
MEASURES = [
    EE_D_fair_rag @ 3,
    EE_R_fair_rag @ 3,
    EE_R_fair_rag(rel=2) @ 2,
    EE_L_fair_rag @ 3,
    EE_D_expeval,
    EE_D_expeval(browsing="GERR(p=0.9, u=0.4)", complete=True),
    EE_R_expeval(browsing="RBP(p=0.8)", graded=False),
    EE_L_expeval(graded=False),
    GroupEE_D_expeval(groups=GROUPS),
    GroupEE_R_expeval(groups=GROUPS, normalize=False),
]


@pytest.mark.parametrize("measure", MEASURES, ids=repr)
class TestContract(MeasureContract):
    knows_documents = True

    @pytest.fixture(autouse=True)
    def _set(self, measure):
        self.measure = measure


class TestGroupLoss(MeasureContract):
    """Its worst value depends on the query: test_ends_of_ranges_of_code.py checks it."""

    measure = GroupEE_L_expeval(groups=GROUPS)
    knows_documents = True
    test_missing_query_gets_the_worst_value = test_empty_run = None


def test_each_measure_has_a_contract_and_is_registered():
    names = {measure.NAME for measure in (*MEASURES, TestGroupLoss.measure)}
    assert names == set(published_code.__all__)
    assert {measure.NAME for measure in fairtk_papers.plugin.fairtk_measures()} == names
    for name in names:
        assert parse(name) == getattr(published_code, name)


@pytest.mark.parametrize("measure", [EE_D_expeval, EE_R_expeval, EE_L_expeval, GroupEE_L_expeval])
def test_the_user_of_expeval_is_rbp_or_gerr_with_p_below_1(measure):
    for browsing in ("MU", "DCG", "RBP(p=1.0)", "GERR(p=1.0, u=0.5)"):
        with pytest.raises(ParameterError, match=rf"{measure.NAME}: browsing.*RBP.*GERR"):
            measure(browsing=browsing)
    with pytest.raises(ParameterError, match="without @k"):
        measure @ 5


def test_fair_rag_requires_a_cutoff():
    with pytest.raises(ParameterError, match="EE_D_fair_rag@5"):
        calc_aggregate([EE_D_fair_rag], qrels_of({"a": 1}), run_of([["a"]]))


def test_a_measure_of_groups_requires_groups():
    with pytest.raises(ParameterError, match="GroupEE_L_expeval requires groups"):
        calc_aggregate([GroupEE_L_expeval], qrels_of({"a": 1}), run_of([["a"]]))


@pytest.mark.filterwarnings("ignore:.*all scores of:fairtk.errors.DataWarning")
def test_exact_exposure():
    # two documents with equal scores: each is first in half of the rankings
    qrels = pd.DataFrame({"qid": "q", "docno": ["a", "b"], "label": [1, 0]})
    run = pd.DataFrame({"qid": "q", "docno": ["a", "b"], "score": 1.0, "rank": [0, 1]})
    exact = PlackettLuceExposure(cutoff=1)(run)
    table = fairtk.evaluate(qrels, exact, [EE_D_fair_rag @ 1])
    assert table.means["EE_D_fair_rag@1"].item() == pytest.approx(0.5)  # (1/2)^2 twice, over k = 1
