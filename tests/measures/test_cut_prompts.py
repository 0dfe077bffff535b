"""A query with a prompt that the server has cut has no utility, in any reader of its answers."""

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest

import fairtk
from fairtk.credit import order_audit
from fairtk.errors import DataWarning, UndefinedWarning
from fairtk.frames.answers import PROMPT_CUT
from fairtk.transformers import FairSampler

EM = "EU(utility='em')"
N = 8
RUN = pd.DataFrame(
    [
        {"qid": f"q{q}", "query": "x", "docno": f"d{d}", "score": 3.0 - d, "rank": d, "text": "t"}
        for q in range(N)
        for d in range(3)
    ]
)
QRELS = pd.DataFrame(
    [{"qid": f"q{q}", "docno": "d0", "label": 1, "gold_answer": "d0"} for q in range(N)]
)
CUT_QUERY = "q1"


def answers(query=None):
    """Return rankings whose answer is their first document; one prompt of `query` is cut."""
    rankings = FairSampler(alpha=1, n_samples=6, seed=1)(RUN)
    first = rankings[rankings["rank"] == 0].set_index(["qid", "sample"])["docno"]
    texts = [first[key] for key in zip(rankings["qid"], rankings["sample"], strict=True)]
    is_cut = (rankings["qid"] == query) & (rankings["sample"] == 2)
    return rankings.assign(qanswer=texts, answer_status=np.where(is_cut, PROMPT_CUT, "ok"))


def without(query):
    """Return the answers and labels of the other queries."""
    everything = answers()
    return everything[everything["qid"] != query], QRELS[QRELS["qid"] != query]


def of_evaluate(frame, qrels):
    return fairtk.evaluate(qrels, frame, [EM]).means.loc["run 1", EM]


def of_precision(frame, qrels):
    table = fairtk.precision(qrels, frame, [EM]).means
    return table[["value", "error", "n"]].iloc[0].tolist()


def of_levels(frame, qrels):
    other = answers().assign(qanswer="d1")
    other = other[other["qid"].isin(qrels["qid"])]
    table = fairtk.compare(qrels, {"a": frame, "b": other}, [EM], levels=True).table
    names = ["n", "difference", "error_queries", "error_samples"]
    return table[names].iloc[1].tolist()


def of_off_policy(frame, qrels):
    run = RUN[RUN["qid"].isin(qrels["qid"])]
    means = fairtk.off_policy_utility(qrels, {1.0: frame}, run, [0.5, 2.0], "em", cutoff=3).means
    return means[["value", "error", "n"]].to_numpy().ravel().tolist()


@pytest.mark.filterwarnings("ignore::fairtk.errors.FairtkWarning")
@pytest.mark.parametrize("reader", [of_evaluate, of_precision, of_levels, of_off_policy])
def test_the_query_is_left_out(reader):
    # rankings of a query depend on the seed and the qid alone
    assert reader(answers(CUT_QUERY), QRELS) == pytest.approx(reader(*without(CUT_QUERY)))
    assert reader(answers(CUT_QUERY), QRELS) != pytest.approx(reader(answers(), QRELS))


def test_off_policy_utility_says_so():
    with pytest.warns(DataWarning), pytest.warns(UndefinedWarning, match=f"1 of {N}"):
        result = fairtk.off_policy_utility(
            QRELS, {1.0: answers(CUT_QUERY)}, RUN, [1.0], "em", cutoff=3
        )
    undefined = result.per_query.loc[result.per_query["value"].isna(), "qid"]
    assert undefined.tolist() == [CUT_QUERY]


class Reader(pt.Transformer):
    """Answers with the first document; the server cuts a prompt of the cut query."""

    def transform(self, inp):
        first = inp.sort_values("rank").drop_duplicates("qid")
        cut = first["qid"].str.startswith(CUT_QUERY) & (first["docno"] == "d0")
        status = np.where(cut, PROMPT_CUT, "ok")
        answers = first[["qid"]].assign(qanswer=first["docno"], answer_status=status)
        return inp.merge(answers, on="qid")


def test_order_audit_leaves_it_out():
    def audit(run, qrels):
        table = order_audit(Reader(), run, n=6, qrels=qrels, measure=fairtk.EU(utility="em")).table
        return table.set_index("name").loc["utility share"]

    whole, rest = audit(RUN, QRELS), audit(RUN[RUN["qid"] != CUT_QUERY], without(CUT_QUERY)[1])
    assert whole["queries"] == N - 1
    assert whole["value"] == pytest.approx(rest["value"])
