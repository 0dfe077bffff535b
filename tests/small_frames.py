"""Small groups, and runs and labels with the column names of ir_measures."""

import warnings

import pandas as pd
from ir_measures import calc_aggregate, iter_calc

from fairtk.errors import MissingWarning
from fairtk.groups import Groups


def small_groups(docnos, groups, name="side", **options):
    """Return groups of documents, each with the group at the same index."""
    frame = pd.DataFrame({"docno": list(docnos), "group": list(groups)})
    return Groups.from_frame(frame, name, **options)


def run_of(samples, qid="q"):
    """Return a run of the rankings of one query."""
    rows = [
        (qid, str(doc), -float(rank), rank, sample)
        for sample, ranking in enumerate(samples)
        for rank, doc in enumerate(ranking)
    ]
    return pd.DataFrame(rows, columns=["query_id", "doc_id", "score", "rank", "sample"])


def qrels_of(labels, qid="q"):
    """Return the labels of one query, given by document."""
    rows = [(qid, str(doc), label) for doc, label in labels.items()]
    return pd.DataFrame(rows, columns=["query_id", "doc_id", "relevance"])


def value(measure, qrels, run):
    """Return the mean of a measure over the queries, some of which may be missing."""
    with warnings.catch_warnings(action="ignore", category=MissingWarning):
        return calc_aggregate([measure], qrels, run)[measure]


def values(measure, qrels, run):
    """Return the value of a measure for each query, some of which may be missing."""
    with warnings.catch_warnings(action="ignore", category=MissingWarning):
        return {m.query_id: m.value for m in iter_calc([measure], qrels, run)}
