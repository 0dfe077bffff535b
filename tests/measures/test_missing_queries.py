"""The remark on missing queries, wherever measures of fairtk are computed."""

import warnings

import ir_measures
import pandas as pd
import pyterrier as pt
import pytest

import fairtk
from fairtk import EE_R
from fairtk.errors import MissingWarning

QRELS = pd.DataFrame({"qid": ["q1", "q2", "q3", "q4"], "docno": "a", "label": 1})
TOPICS = pd.DataFrame({"qid": ["q1", "q2", "q3", "q4"], "query": "words"})
RUN = pd.DataFrame({"qid": ["q1", "q2", "q4"], "docno": "a", "score": 1.0, "rank": 0})
THEIRS = {"qid": "query_id", "docno": "doc_id", "label": "relevance"}
LABELS, RANKINGS = (frame.rename(columns=THEIRS) for frame in (QRELS, RUN))


def experiment(measures, batch_size=None):
    return pt.Experiment(
        [pt.Transformer.from_df(RUN)], TOPICS, QRELS, measures, batch_size=batch_size
    )


CALLS = {
    "evaluate": lambda measures: fairtk.evaluate(QRELS, RUN, measures),
    "calc": lambda measures: ir_measures.calc(measures, LABELS, RANKINGS),
    "calc_aggregate": lambda measures: ir_measures.calc_aggregate(measures, LABELS, RANKINGS),
    "iter_calc": lambda measures: list(ir_measures.iter_calc(measures, LABELS, RANKINGS)),
    "evaluator": lambda measures: ir_measures.evaluator(measures, LABELS).calc(RANKINGS),
    "pt.Experiment": experiment,
    "a batch of all": lambda measures: experiment(measures, batch_size=4),
}


def warned(call, measures):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(measures)
    return [str(one.message) for one in caught if one.category is MissingWarning]


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_missing_queries_are_reported_once(call):
    [text] = warned(call, [EE_R @ 1, EE_R @ 2, ir_measures.nDCG @ 1])
    assert text.startswith("1 of 4 queries") and "'q3'" in text


def test_other_measures_alone_are_those_of_ir_measures():
    assert not warned(CALLS["calc_aggregate"], [ir_measures.nDCG @ 1])


def test_queries_of_other_batches_are_not_missing():
    """Batches have the labels of their own topics: only q3 is missing, in the second batch."""
    [text] = warned(lambda measures: experiment(measures, batch_size=2), [EE_R @ 1])
    assert text.startswith("1 of 2 queries") and "'q3'" in text
