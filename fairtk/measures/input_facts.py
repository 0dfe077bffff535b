"""Facts about what people bring: ids that almost match, and scores that evaluators order apart."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fairtk.frames import BoolArray, IntArray
from fairtk.frames.runs import order_by, single_precision
from fairtk.frames.spellings import Key, respelled
from fairtk.measures.labeled_run import LabeledRun

_QUERIES = 50
"""The number of queries whose documents are compared by spelling, evenly spaced in the labels."""
_IDS = 2000
"""The maximum number of ids of the run, and of the labels, that are compared."""


class Respelled(NamedTuple):
    """A docno of a run that matches a label if both are spelled in the same way.

    Attributes:
        rule: a rule of `fairtk.frames.spellings.SPELLINGS`.
        qid: the query.
        docno: the document in the run.
        label: the document in the labels.
    """

    rule: str
    qid: str
    docno: str
    label: str


def respelled_documents(judged: LabeledRun) -> tuple[Respelled, ...]:
    """Return the documents of some queries that are spelled differently in the labels.

    Only unlabeled documents of the run, and labeled ones that the run does not have for this
    query, are compared.
    """
    run, qrels = judged.run, judged.qrels
    if not len(judged._documents[1]):
        return ()
    queries = np.flatnonzero(judged.present)
    queries = queries[np.linspace(0, len(queries) - 1, min(_QUERIES, len(queries))).astype(int)]
    size = np.bincount(qrels.query, minlength=len(judged.qids))[queries]
    queries = queries[np.cumsum(size) <= max(_IDS, size[0])]
    is_compared = np.zeros(len(judged.qids), dtype=bool)
    is_compared[queries] = True
    index, unlabeled = judged._documents
    n_labeled = qrels.docnos.size
    ranking = np.flatnonzero(is_compared[judged.ranking_query])
    first = np.append(True, np.diff(judged.ranking_query[ranking]) != 0)  # the first sample
    ranking = ranking[first]
    length = np.minimum(np.diff(run.ranking_start)[ranking], _IDS // max(1, len(ranking)))
    start = np.repeat(run.ranking_start[ranking] - (np.cumsum(length) - length), length)
    row = start + np.arange(length.sum())
    label = np.flatnonzero(is_compared[qrels.query])
    label = label[:_IDS]
    of_run = _keys(judged, judged.query_of_run[run.query[row]], run.docnos.texts_at(run.doc[row]))
    of_labels = _keys(judged, qrels.query[label], qrels.docnos.texts_at(qrels.doc[label]))
    is_unlabeled = (index[run.doc[row]] >= n_labeled).tolist()
    retrieved = {*of_run}
    missing = [key for key, is_missing in zip(of_run, is_unlabeled, strict=True) if is_missing]
    left = [key for key in of_labels if key not in retrieved]
    rule, pairs = respelled(missing, left, of_run, of_labels)
    return tuple(Respelled(rule, qid, docno, pairs[qid, docno]) for qid, docno in pairs)


def _keys(judged: LabeledRun, query: IntArray, docnos: list[str]) -> list[Key]:
    return list(zip(judged.qids[query].tolist(), docnos, strict=True))


def own_ranks(judged: LabeledRun) -> IntArray:
    """Return the rank of the document whose docno is the qid, from 1; 0 if no docno is."""
    ranks = np.zeros(len(judged.qids), dtype=np.int64)
    rows = judged.run.own_documents()
    query = judged.query_of_run[judged.run.query[rows]]
    ranks[query[::-1]] = judged.run.position[rows][::-1] + 1
    return ranks


def ordered_apart(judged: LabeledRun) -> BoolArray:
    """Return whether single precision changes the order of labels; shape (n_queries,).

    trec_eval reads scores in single precision, and sorts ties by descending docno.
    """
    run, mask = judged.run, np.zeros(len(judged.qids), dtype=bool)
    score = run.scores[run.order]
    single = single_precision(score)
    is_tie = (single[1:] == single[:-1]) & (score[1:] != score[:-1])
    tied = np.flatnonzero(is_tie)
    tied = tied[run.ranking[tied] == run.ranking[tied + 1]]
    if not len(tied):
        return mask
    # all rows of equal scores in single precision, because their order is by docno
    is_new = np.append(True, (single[1:] != single[:-1]) | (np.diff(run.ranking) != 0))
    group = np.cumsum(is_new)
    rows = np.flatnonzero(np.isin(group, group[tied]))
    order = order_by((group[rows],), lambda at: (run.doc[rows[at]], run.docnos.text))
    label = judged.row_label[rows]
    mask[judged.query_of_run[run.query[rows[label != label[order]]]]] = True
    return mask
