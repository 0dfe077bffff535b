"""Texts and queries of rows, and queries of topics: checked, with the place of what is wrong."""

import numpy as np
import pandas as pd
import pytest

from fairtk.errors import DuplicateError, InputError
from fairtk.frames import require_queries, require_texts, require_topics

RUN = pd.DataFrame(
    [("q2", "d1", "b", "one"), ("q1", "d1", "a", "two"), ("q2", "d2", "b", "")],
    columns=["qid", "docno", "query", "text"],
)
QUERY = np.array([0, 1, 0])


def test_texts_and_queries():
    assert require_texts(RUN, "X") == ["one", "two", ""]
    assert require_queries(RUN, QUERY, 2, "X") == ["b", "a"]
    assert (require_texts(RUN[:0], "X"), require_queries(RUN[:0], QUERY[:0], 0, "X")) == ([], [])


@pytest.mark.parametrize("value", [None, np.nan, 3])
def test_what_is_no_text_is_named(value):
    run = RUN.astype(object)
    run.loc[2, ["query", "text"]] = value
    with pytest.raises(InputError, match=f"text of qid 'q2', docno 'd2' .*got {value}; load"):
        require_texts(run, "X")
    with pytest.raises(InputError, match=f"X: the query of qid 'q2', docno 'd2' .*got {value}"):
        require_queries(run, QUERY, 2, "X")


def test_a_query_is_the_same_on_all_its_rows():
    run = RUN.assign(query=["b", "a", "c"])
    with pytest.raises(InputError, match="qid 'q2'.*'c'.*docno 'd2'"):
        require_queries(run, QUERY, 2, "X")


def test_topics():
    topics = pd.DataFrame({"qid": ["q1", "q2"], "query": ["a", ""]})
    assert require_topics(topics, "X") == [("q1", "a"), ("q2", "")]
    with pytest.raises(InputError):
        require_topics(topics.assign(qid=["q1", None]), "X")
    with pytest.raises(InputError, match="qid 'q2'.*got 7"):
        require_topics(topics.assign(query=["a", 7]), "X")
    with pytest.raises(DuplicateError, match="qid 'q1'"):
        require_topics(topics.assign(qid="q1"), "X")
