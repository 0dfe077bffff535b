"""What groups know of a run, and the warnings of AWRF about it."""

import warnings

import ir_measures
import pandas as pd
import pytest
from small_frames import small_groups

import fairtk
from fairtk import AWRF, Target
from fairtk.errors import DataWarning
from fairtk.groups.groups import unreachable

GENDER = small_groups("abcu", ["f", "m", "m", None], "gender", levels=["@UNKNOWN", "f", "m", "NB"])
PLACE = small_groups("aabc", "xyxy", "place")
RUN = pd.DataFrame(
    {
        "qid": ["q", "q", "q", "r", "r", "r"],
        "docno": ["a", "b", "c", "b", "u", "none"],
        "score": [3.0, 2.0, 1.0, 3.0, 2.0, 1.0],
    }
)
QRELS = pd.DataFrame({"query_id": ["q", "r"], "doc_id": ["a", "b"], "relevance": [1, 1]})


def value(measure, run=RUN):
    return ir_measures.calc_aggregate([measure], QRELS, run)[measure]


def test_groups_that_are_shown_and_absent():
    found = fairtk.coverage(GENDER, RUN).set_index("qid")
    # q: f and m of f, m, NB; r: m alone, since the unknown is not a known group
    assert found["groups_shown"].to_dict() == {"q": 2, "r": 1}
    assert found["groups_absent"].to_dict() == {"q": 1, "r": 2}
    assert found["retrieved"].to_dict() == {"q": 3, "r": 3}
    assert found["with_row"].to_dict() == {"q": 3, "r": 2}  # u has one, of the unknown level
    assert found["with_label"].to_dict() == {"q": 3, "r": 1}
    assert found["label_share"].to_dict() == pytest.approx({"q": 1, "r": 1 / 3})
    at_1 = fairtk.coverage(GENDER, RUN, cutoff=1).set_index("qid")
    assert at_1["groups_shown"].to_dict() == {"q": 1, "r": 1}
    pd.testing.assert_frame_equal(found.reset_index(), GENDER.coverage(RUN))


def test_crossed_groups():
    found = fairtk.coverage(GENDER * PLACE, RUN).set_index("qid")
    # q: f x, f y, m x, m y; r: m x; of three known genders and two places
    assert found["groups_shown"].to_dict() == {"q": 4, "r": 1}
    assert found["groups_absent"].to_dict() == {"q": 2, "r": 5}
    assert found["with_label"].to_dict() == {"q": 3, "r": 1}


def test_an_empty_run():
    found = fairtk.coverage(GENDER, RUN.iloc[:0])
    assert found.empty
    assert found.columns.tolist() == fairtk.coverage(GENDER, RUN).columns.tolist()


class TestWarnings:
    def test_a_target_on_groups_that_no_document_has(self):
        target = Target.population({"f": 0.4, "m": 0.4, "NB": 0.2}, GENDER)
        assert unreachable(GENDER, target.distributions) == (pytest.approx(0.2), ["NB"])
        with pytest.warns(DataWarning, match="'NB'"):
            value(AWRF(groups=GENDER, target=target) @ 1)

    def test_the_largest_share_of_any_query(self):
        frame = pd.DataFrame(
            {"qid": ["q", "r", "r"], "group": ["f", "m", "NB"], "weight": [1, 0.9, 0.1]}
        )
        assert unreachable(GENDER, Target.from_frame(frame, GENDER).distributions)[
            0
        ] == pytest.approx(0.1)

    def test_nothing_is_said_where_the_target_can_be_met(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            value(AWRF(groups=GENDER, target=Target.population({"f": 1, "m": 1}, GENDER)) @ 1)
        assert unreachable(GENDER * PLACE, Target.uniform(GENDER * PLACE).distributions) == (
            0.0,
            [],
        )

    def test_half_of_the_labels_are_not_under_half(self):
        measure = AWRF(groups=GENDER, target=Target.population({"f": 1, "m": 1}, GENDER)) @ 2
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            value(measure)  # r shows b and u at the first two ranks, and b is known

    @pytest.mark.parametrize("missing", ["drop", "uniform", "best"])
    def test_labels_of_under_half_are_counted(self, missing):
        measure = AWRF(
            groups=GENDER, target=Target.population({"f": 1, "m": 1}, GENDER), unlabeled=missing
        )
        with pytest.warns(DataWarning, match="1 of 2 queries .*'r'"):
            value(measure)
