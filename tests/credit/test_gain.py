"""What documents add to the answers of groups of queries: by hand, and what is refused."""

import numpy as np
import pandas as pd
import pytest

from fairtk import EU, Experiment, Generator, Groups
from fairtk.credit import AE_D, query_gain
from fairtk.errors import InputError, ParameterError, UndefinedWarning
from fairtk.measures import ByGroup

QIDS = ["1", "2", "3", "4"]
QRELS = pd.DataFrame({"qid": QIDS, "docno": "d", "label": 1, "gold_answer": list("pqrs")})
GROUPS = pd.DataFrame({"qid": QIDS, "group": ["x", "x", "y", "y"]})
EM = EU(utility="em")


def answers(texts):
    return pd.DataFrame(
        {"qid": QIDS, "docno": "d", "score": 1.0, "rank": 0, "qanswer": list(texts)}
    )


def bare(texts):
    return pd.DataFrame({"qid": QIDS, "qanswer": list(texts)})


def test_by_hand():
    # with: 1 1 1 0; without: 0 1 0 0. Gains of x: (1 + 0) / 2, of y: (1 + 0) / 2
    gain = query_gain(QRELS, answers("pqr?"), bare("?q??"), GROUPS, EM)
    table = gain.table.set_index("group")
    assert table["gain"].to_dict() == {"x": 0.5, "y": 0.5}
    assert table["with"].to_dict() == {"x": 1.0, "y": 0.5}
    assert table["without"].to_dict() == {"x": 0.5, "y": 0.0}
    assert table["queries"].tolist() == [2, 2] and gain.undefined == 0
    assert gain.comparison.set_index("name")["value"].to_dict() == {"difference": 0, "ratio": 1}
    # two gains, 0 and 1: 0.5 +- t(0.975, 1) * 0.5 = 0.5 +- 6.35, which ends at the bounds
    assert table[["low", "high"]].to_numpy().tolist() == [[-1, 1], [-1, 1]]


def test_documents_that_do_harm():
    gain = query_gain(QRELS, answers("pq??"), bare("?qr?"), GROUPS, EM)
    table = gain.table.set_index("group")["gain"]
    assert table.to_dict() == {"x": 0.5, "y": -0.5}
    assert gain.comparison.set_index("name")["value"].to_dict() == {"difference": 1, "ratio": -1}


def test_a_query_of_two_groups_counts_in_each_as_in_by_group():
    groups = pd.DataFrame({"qid": ["1", "2", "2", "3"], "group": ["x", "x", "y", "y"]})
    gain = query_gain(QRELS, answers("pq??"), bare("?q??"), groups, EM)
    assert gain.table["gain"].tolist() == [0.5, 0.0] and gain.table["queries"].tolist() == [2, 2]
    askers = Groups.from_frame(groups.rename(columns={"qid": "docno"}), name="askers")
    means = ByGroup(EM, askers, by="query").per_group(QRELS, answers("pq??"))
    assert gain.table["with"].tolist() == means["value"].tolist() == [1.0, 0.5]


def test_gains_that_cancel_out_have_no_ratio():
    # gains of x: 0.1 + 0.2 - 0.3, which is 0 but for rounding; the ratio was -5e16
    qrels = QRELS.assign(gold_answer="0")
    groups = pd.DataFrame({"qid": QIDS, "group": ["x", "x", "x", "y"]})
    with_documents, without = answers(["0", "0", "0.3", "1"]), bare(["0.1", "0.2", "0", "0"])
    gain = query_gain(qrels, with_documents, without, groups, EU(utility="mae"))
    assert gain.table["gain"].tolist() == pytest.approx([0, -1])
    ratio = gain.comparison.set_index("name").loc["ratio"]
    assert np.isnan([ratio["value"], ratio["low"]]).all()
    assert "fewer than two queries" in gain.comparison["note"][0]  # y has one


def test_an_error_is_turned_around():
    qrels = QRELS.assign(gold_answer=["1", "2", "3", "4"])
    gain = query_gain(qrels, answers("1234"), bare("2345"), GROUPS, EU(utility="mae"))
    assert gain.table["gain"].tolist() == [1.0, 1.0]


@pytest.mark.filterwarnings("ignore:all answers are equal")
def test_without_documents_is_a_system_of_one_word():
    """A generator alone answers from questions; with groups of queries in one experiment."""

    def reader(prompts):
        return ["p" if "passage" in prompt else "q" for prompt in prompts]

    topics = pd.DataFrame({"qid": QIDS, "query": [f"question {q}" for q in QIDS]})
    generator = Generator(reader)
    groups = Groups.from_frame(GROUPS.rename(columns={"qid": "docno"}), name="askers")
    qrels = QRELS.assign(gold_answer=list("pqqq"))
    by_group = ByGroup(EM, groups, by="query")
    results = Experiment([generator], topics, qrels, [EM, by_group], names=["without"])
    means = results.means.set_index("name") if "name" in results.means else results.means
    # x: (0 + 1) / 2, y: 1
    assert means.loc["without"].tolist() == pytest.approx([0.75, 0.5])
    with pytest.warns(UndefinedWarning):
        tested = Experiment(
            [generator, generator], topics, qrels, [by_group], names=["a", "b"], baseline="a"
        ).compare()
    assert tested[["p", "low", "difference"]].isna().all().all()
    gain = query_gain(qrels, answers("pppp"), results.answers("without"), groups, EM)
    assert gain.table["gain"].tolist() == [0.0, -1.0]


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"run": answers("pqrs")[1:]}, InputError, "qid '1' in run"),
        ({"without": bare("pqrs")[:3]}, InputError, "qid '4' in without"),
        ({"groups": GROUPS.assign(qid=list("wxyz"))}, InputError, "none of the 4 queries"),
        ({"utility": AE_D}, ParameterError, "utility must be EU"),
        ({"confidence": 1}, ParameterError, "confidence"),
    ],
)
def test_wrong_input(change, error, message):
    options = {"qrels": QRELS, "run": answers("pqrs"), "without": bare("pqrs"), "groups": GROUPS}
    with pytest.raises(error, match=message):
        query_gain(**{**options, "utility": EM, **change})
