"""Labels and runs that name the same things differently: a warning that shows one of each."""

import warnings

import ir_measures
import pandas as pd
import pytest

from fairtk import EE_D, EE_R, E
from fairtk.errors import WARNINGS, UnmatchedWarning

QUERIES = [f"q{i}" for i in range(20)]


def frames(strange):
    """Return labels for a and b in each query, and a run of other documents in `strange` ones."""
    qrels = pd.DataFrame(
        [(q, d, label) for q in QUERIES for d, label in (("a", 1), ("b", 0))],
        columns=["qid", "docno", "label"],
    )
    run = pd.DataFrame(
        [(q, f"{q}/a" if i < strange else "b", 1.0) for i, q in enumerate(QUERIES)],
        columns=["qid", "docno", "score"],
    )
    return qrels, run


def warnings_of(function):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function()
    return [str(w.message) for w in caught if w.category is UnmatchedWarning]


@pytest.mark.parametrize("strange", [17, 18, 20])
def test_from_nine_in_ten_queries_on(strange):
    qrels, run = frames(strange)  # an unjudged document in 17, 18 or 20 of 20 queries
    by_measure = warnings_of(lambda: ir_measures.calc([EE_D @ 1, EE_R @ 1], qrels, run))
    assert len(by_measure) == (1 if strange >= 18 else 0)
    for message in by_measure:
        assert f"rankings of {strange} of the 20 queries" in message
        assert "qid 'q0' the qrels have docno 'a', the run has docno 'q0/a'" in message
    assert WARNINGS["unmatched"] is UnmatchedWarning


def test_queries_without_useful_documents_or_results_do_not_count():
    qrels, run = frames(17)
    qrels.loc[qrels["qid"] == "q19", "label"] = 0
    run = run[run["qid"] != "q18"]  # 17 of 18 are left
    (message,) = warnings_of(lambda: ir_measures.calc([EE_D @ 1], qrels, run))
    assert "17 of the 18 queries" in message
    qrels["label"] = 0
    assert warnings_of(lambda: ir_measures.calc([EE_D @ 1], qrels, run)) == []


def test_no_query_in_common():
    qrels, run = frames(0)
    run["qid"] = run["qid"].str.replace("q", "") + ".0"
    (message,) = warnings_of(lambda: ir_measures.calc([EE_D @ 1, E(ir_measures.RR)], qrels, run))
    assert "none of the 20 queries of the run is among the 20 of the qrels" in message
    assert "the run has qid '0.0', the qrels have qid 'q0'" in message
    assert warnings_of(lambda: ir_measures.calc([EE_D @ 1], qrels, run[:0])) == []
    assert warnings_of(lambda: ir_measures.calc([EE_D @ 1], qrels[:0], run)) == []
