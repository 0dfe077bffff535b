"""`RunFacts`: what is true of a run, whatever the measure; and the remarks on it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import ir_measures
import numpy as np
import pandas as pd

from fairtk.frames import (
    DOCNO,
    LABEL,
    QANSWER,
    RANK,
    SCORE,
    BoolArray,
    IntArray,
    ObjectArray,
    Qrels,
)
from fairtk.frames.answers import OK, STATUSES, flattened, has_lists, hashable
from fairtk.frames.qrels import SHARE
from fairtk.frames.spellings import respelled, spelling_text
from fairtk.measures.base import FairMeasure, check_kind, iter_parts
from fairtk.measures.ee import ExposureOfDocuments, explicit_n
from fairtk.measures.eu import ExpectedUtility
from fairtk.measures.foreign import run_columns
from fairtk.measures.input_facts import (
    Respelled,
    ordered_apart,
    own_ranks,
    respelled_documents,
)
from fairtk.measures.labeled_run import UNLABELED, LabeledRun, answer_statuses
from fairtk.measures.parsing import format_measure
from fairtk.measures.scores import Scores
from fairtk.remarks import (
    BY_STATUS,
    EQUAL_ANSWERS,
    LENGTHS_DIFFER,
    MISSING,
    MIXED_SAMPLES,
    NO_COMMON,
    NO_JUDGED_DOCUMENT,
    NO_UTILITY,
    OWN_DOCUMENT,
    RESPELLED_DOCNOS,
    RESPELLED_QIDS,
    SHORT_RANKINGS,
    SIZES_DIFFER,
    TWO_ORDERS,
    UNDEFINED,
    UNEVEN_SAMPLES,
    Remark,
    make_remark,
)
from fairtk.utilities import Utility
from fairtk.wording import apart, format_list


@dataclass(frozen=True)
class RunFacts:
    """Facts about a run and its labels, by query; arrays have shape (n_queries,).

    Attributes:
        present: whether the run has the query.
        unlabeled_qids: the first queries of the run without labels, at most 1,000.
        shortest: the number of documents of the shortest ranking; -1 without rankings.
        n_documents: the number of labeled or retrieved documents; 0 if no measure reads documents.
        unjudged: a retrieved document of a query without a judged one; ``""`` for other queries.
        few: the retrieved documents of each query without a ranking of `deepest` documents.
        n_samples: the number of sampled rankings; 0 if the run is not sampled.
        least_rank: the smallest difference between the rank of a row and its position.
        off: the number of sampled rankings whose ranks are not contiguous from 0, and from 1;
            shape (2, n_queries).
        statuses: the number of answers with each of `STATUSES`; shape (n_statuses, n_queries).
        answers: two different answers, or the only one; empty if no measure reads answers.
        respelled: documents of some queries that are spelled differently in the labels.
        own_rank: the rank of the document whose docno is the qid, from 1; 0 if no docno is.
        ordered_apart: whether trec_eval's single precision changes the order of labels.
    """

    present: BoolArray
    unlabeled_qids: tuple[str, ...]
    shortest: IntArray
    n_documents: IntArray
    unjudged: ObjectArray
    few: Mapping[int, frozenset[str]]
    n_samples: IntArray
    least_rank: IntArray
    off: IntArray
    statuses: IntArray
    answers: frozenset[str]
    respelled: tuple[Respelled, ...]
    own_rank: IntArray
    ordered_apart: BoolArray

    @classmethod
    def of(
        cls,
        judged: LabeledRun,
        deepest: int,
        documents: bool = True,
        answers: bool = False,
        two_orders: bool = False,
    ) -> RunFacts:
        """Return the facts about a run.

        Args:
            judged: the run.
            deepest: the largest cutoff of the measures.
            documents: whether a measure reads documents.
            answers: whether a measure reads answers or credit.
            two_orders: whether measures see two orders (`have_two_orders`).
        """
        of_answers = _answers(judged, answers)
        run, n_queries = judged.run, len(judged.qids)
        unjudged = np.full(n_queries, "", dtype=object)
        zeros = np.zeros(n_queries, dtype=np.int64)
        queries = judged.present, judged.unlabeled_qids
        documents &= {DOCNO, SCORE} <= {*run.frame.columns}
        if not documents or DOCNO not in judged.qrels.frame.columns:
            nothing = np.stack([zeros, zeros])
            samples = zeros, zeros, nothing
            of_input = zeros, zeros > 0
            return cls(
                *queries, zeros - 1, zeros, unjudged, {}, *samples, *of_answers, (), *of_input
            )
        query, length = judged.ranking_query, np.diff(run.ranking_start)
        shortest, longest = np.full(n_queries, np.iinfo(np.int64).max), zeros.copy()
        np.minimum.at(shortest, query, length)
        np.maximum.at(longest, query, length)
        shortest[~judged.present] = -1
        first = run.ranking_start[:-1]
        unjudged[query] = run.docnos[run.doc[first]]
        is_judged = judged.pair_of_row < len(judged.qrels.query)
        unjudged[judged.query_of_run[run.query[is_judged]]] = ""
        few = {
            query: frozenset(run.documents_of(index))
            for index, query in enumerate(judged.query_of_run.tolist())
            if longest[query] < deepest
        }
        n_documents = np.bincount(judged.pair_query, minlength=n_queries)
        samples = _samples(judged)
        is_ordered = two_orders and LABEL in judged.qrels.frame.columns and judged.exact is None
        is_ordered = is_ordered and not run.is_sampled  # E(...) reads the ranks of samples
        return cls(
            *queries,
            shortest,
            n_documents,
            unjudged,
            few,
            *samples,
            *of_answers,
            respelled_documents(judged),
            own_ranks(judged),
            ordered_apart(judged.first_passages) if is_ordered else zeros > 0,
        )

    @classmethod
    def joined(cls, blocks: Sequence[RunFacts]) -> RunFacts:
        """Return the facts about all queries from those of blocks of queries."""
        start = np.cumsum([0, *(len(block.present) for block in blocks)]).tolist()
        few = {
            offset + query: documents
            for offset, block in zip(start, blocks, strict=False)
            for query, documents in block.few.items()
        }

        def column(name: str) -> Any:
            return np.concatenate([getattr(block, name) for block in blocks], axis=-1)

        unlabeled = [qid for block in blocks for qid in block.unlabeled_qids]
        return cls(
            present=column("present"),
            unlabeled_qids=tuple(unlabeled[:UNLABELED]),
            shortest=column("shortest"),
            n_documents=column("n_documents"),
            unjudged=column("unjudged"),
            few=few,
            n_samples=column("n_samples"),
            least_rank=column("least_rank"),
            off=column("off"),
            statuses=column("statuses"),
            answers=frozenset(sorted(frozenset().union(*(b.answers for b in blocks)))[:2]),
            respelled=tuple(one for block in blocks for one in block.respelled),
            own_rank=column("own_rank"),
            ordered_apart=column("ordered_apart"),
        )


def _answers(judged: LabeledRun, reads: bool) -> tuple[IntArray, frozenset[str]]:
    """Return `statuses` and `answers` of `RunFacts`."""
    statuses = np.zeros((len(STATUSES), len(judged.qids)), dtype=np.int64)
    if not reads:
        return statuses, frozenset()
    query, status = judged.derived(answer_statuses)
    np.add.at(statuses, (status, query), 1)
    texts = judged.run.frame.get(QANSWER)
    if texts is None:
        return statuses, frozenset()
    if has_lists(texts):
        texts = pd.Series(flattened(hashable(texts))[1], dtype=object)
    return statuses, frozenset(texts.unique()[:2].tolist())


def _samples(judged: LabeledRun) -> tuple[IntArray, IntArray, IntArray]:
    """Return `n_samples`, `least_rank` and `off` of `RunFacts`."""
    run, n_queries = judged.run, len(judged.qids)
    n_samples, least = np.zeros((2, n_queries), dtype=np.int64)
    off = np.zeros((2, n_queries), dtype=np.int64)
    if not run.sampled:
        return n_samples, least, off
    n_samples[judged.query_of_run] = run.n_samples
    if RANK in run.frame.columns and len(run):
        first = run.ranks[run.order] - run.position
        least[:] = np.iinfo(np.int64).max
        np.minimum.at(least, judged.query_of_run[run.query], first)
        for base in (0, 1):
            is_off = np.zeros(run.n_rankings, dtype=bool)
            is_off[run.ranking[first != base]] = True
            off[base] = np.bincount(judged.ranking_query[is_off], minlength=n_queries)
    return n_samples, least, off


def deepest_cutoff(measures: Iterable[Any]) -> int:
    """Return the largest cutoff of the measures that `depends_on_length`; 0 without a cutoff."""
    return max((measure["cutoff"] for measure in _cut(measures)), default=0)


def _cut(measures: Iterable[Any]) -> list[FairMeasure]:
    parts = [part for measure in measures for part in iter_parts(measure)]
    cut = [m for m in parts if getattr(m, "depends_on_length", False) and _cutoff(m)]
    return list(dict.fromkeys(cut))


def _cutoff(measure: FairMeasure) -> int:
    """Return the cutoff of a measure; 0 if it has no cutoff."""
    return (measure["cutoff"] or 0) if "cutoff" in measure.SUPPORTED_PARAMS else 0


def remarks_on_runs(
    measures: Sequence[Any], qrels: Qrels, facts: Mapping[str, RunFacts]
) -> list[Remark]:
    """Return the remarks on runs, and on what makes them incomparable.

    Args:
        measures: the measures of the call.
        qrels: the labels.
        facts: the facts about each run, by the name of the system.
    """
    remarks = []
    for system, of_run in facts.items():
        remarks += _ids(qrels, system, of_run)
        remarks += _input(measures, qrels, system, of_run)
        remarks += _statuses(qrels, system, of_run)
        remarks += _mixed_samples(qrels, system, of_run)
    remarks += _lengths(measures, qrels, facts)
    if len(facts) > 1:
        remarks += _sizes(measures, qrels, facts)
    return [remark for remark in remarks if remark is not None]


def _ids(qrels: Qrels, system: str, facts: RunFacts) -> list[Remark | None]:
    """Return the remarks on missing queries and on documents that are never judged."""
    absent = make_remark(MISSING, "", system, ~facts.present, qrels.qids)
    remarks = [absent]
    missing = [("", str(qid)) for qid in qrels.qids[~facts.present][:UNLABELED]]
    common = [("", str(qid)) for qid in qrels.qids[facts.present][:UNLABELED]]
    words, pairs = respelled([("", qid) for qid in facts.unlabeled_qids], missing, common, common)
    if len(qrels) and facts.unlabeled_qids and not facts.present.any():
        qids = format_list(facts.unlabeled_qids, 3)
        detail = f"run: {qids}; qrels: {format_list(qrels.qids[:3])}{spelling_text(words, pairs)}"
        return [absent, make_remark(NO_COMMON, "", system, ~facts.present, qrels.qids, detail)]
    if pairs:
        is_matched = np.isin(qrels.qids, [*pairs.values()]) & ~facts.present
        text = spelling_text(words, pairs).removeprefix("; ")
        remarks.append(make_remark(RESPELLED_QIDS, "", system, is_matched, qrels.qids, text))
    if not {DOCNO, LABEL} <= {*qrels.frame.columns} or not len(qrels):
        return remarks
    documents = _respelled_documents(facts)
    counted = qrels.useful & facts.present
    strange = counted & (facts.unjudged != "")
    if not strange.any() or strange.sum() < SHARE * counted.sum():
        of_documents = {one.qid for one in facts.respelled}
        numbers = np.isin(qrels.qids, [*of_documents])
        text = documents.removeprefix("; ")
        remarks.append(make_remark(RESPELLED_DOCNOS, "", system, numbers, qrels.qids, text))
        return remarks
    query = int(np.flatnonzero(strange)[0])
    rows = qrels.rows_of(query)
    docno = qrels.docnos[qrels.doc[rows[qrels.labels[rows] > 0][0]]]
    mine, other = apart(facts.unjudged[query], str(docno))
    detail = (
        f"qid {str(qrels.qids[query])!r}: docno {mine} in the run, {other} in the qrels{documents}"
    )
    remark = make_remark(NO_JUDGED_DOCUMENT, "", system, strange, qrels.qids, detail)
    return [*remarks, remark and replace(remark, total=int(counted.sum()))]


def _respelled_documents(facts: RunFacts) -> str:
    """Return the rule that most respelled documents have in common, and the first of them."""
    if not facts.respelled:
        return ""
    rule = Counter(one.rule for one in facts.respelled).most_common(1)[0][0]
    pairs = {(one.qid, one.docno): one.label for one in facts.respelled if one.rule == rule}
    return spelling_text(rule, pairs)


def _input(
    measures: Sequence[Any], qrels: Qrels, system: str, facts: RunFacts
) -> list[Remark | None]:
    """Return the remarks on queries that are documents, and on scores in single precision."""
    own = facts.own_rank
    low, high = own[own > 0].min(initial=own.max(initial=0)), own.max(initial=0)
    ranks = f"at rank {low}" if low == high else f"at ranks {low} to {high}"
    single = ", ".join(map(format_measure, in_single_precision(measures)))
    return [
        make_remark(OWN_DOCUMENT, "", system, own > 0, qrels.qids, ranks),
        make_remark(TWO_ORDERS, single, system, facts.ordered_apart, qrels.qids),
    ]


def in_single_precision(measures: Iterable[Any]) -> list[Any]:
    """Return the measures of trec_eval, and those with a part of trec_eval.

    trec_eval reads scores in single precision.
    """
    return [m for m in dict.fromkeys(measures) if any(map(_is_of_trec_eval, _orders(m)))]


def have_two_orders(measures: Iterable[Any]) -> bool:
    """Return whether some measures, or parts, read scores in single precision and others do not."""
    return len({_is_of_trec_eval(part) for m in measures for part in _orders(m)}) > 1


def _orders(measure: Any) -> list[Any]:
    """Return the innermost parts of a measure that depend on the order of documents."""
    innermost = (part for part in iter_parts(measure) if not getattr(part, "parts", ()))
    return [part for part in innermost if {DOCNO, SCORE} <= {*run_columns([part])}]


def _is_of_trec_eval(measure: Any) -> bool:
    return not isinstance(measure, FairMeasure) and ir_measures.pytrec_eval.supports(measure)


def _statuses(qrels: Qrels, system: str, facts: RunFacts) -> list[Remark | None]:
    """Return the remarks on the statuses of answers, and on answers that are all equal."""
    remarks = [
        make_remark(BY_STATUS[status], "", system, number, qrels.qids)
        for status, number in zip(STATUSES, facts.statuses, strict=True)
        if status != OK
    ]
    if len(facts.answers) == 1 and facts.present.sum() > 1:
        [answer] = facts.answers
        detail = f"{answer!r:.60}"
        remarks.append(make_remark(EQUAL_ANSWERS, "", system, facts.present, qrels.qids, detail))
    return remarks


def _mixed_samples(qrels: Qrels, system: str, facts: RunFacts) -> list[Remark | None]:
    """Return the remark that samples were ranked or cut together by a transformer."""
    base = int(np.clip(facts.least_rank.min(initial=1), 0, 1))
    mixed = facts.off[base]
    if mixed.any():
        return [make_remark(MIXED_SAMPLES, "", system, mixed, qrels.qids)]
    most = facts.n_samples.max(initial=0)
    fewer = facts.present & (facts.n_samples < most)
    least = facts.n_samples[fewer].min(initial=most)
    detail = f"from {least} to {most}"
    return [make_remark(UNEVEN_SAMPLES, "", system, fewer, qrels.qids, detail)]


def _lengths(
    measures: Sequence[Any], qrels: Qrels, facts: Mapping[str, RunFacts]
) -> list[Remark | None]:
    """Return the remarks on rankings with fewer than min(k, n) documents.

    n is the measure's parameter ``n`` if it is a number or a column; otherwise the number of
    distinct documents of the query in the labels and all runs.
    """
    cut, remarks = _cut(measures), []
    if not cut:
        return []
    n_documents = documents_of_queries(qrels, list(facts.values()), deepest_cutoff(measures))
    for measure in cut:
        label, cutoff, n = format_measure(measure), measure["cutoff"], n_documents
        if isinstance(measure, ExposureOfDocuments):
            given = explicit_n(measure, qrels)
            n = n_documents if given is None else given
        limit = np.minimum(cutoff, n)
        lengths = np.stack([np.minimum(f.shortest, limit) for f in facts.values()])
        is_short = (lengths >= 0) & (lengths < limit)
        lengths = np.where(lengths < 0, limit, lengths)  # missing queries are reported as such
        kind = LENGTHS_DIFFER if (lengths != lengths[0]).any() else SHORT_RANKINGS
        detail = f"min({cutoff}, n)"
        remarks += [
            make_remark(kind, label, system, short, qrels.qids, detail)
            for system, short in zip(facts, is_short, strict=True)
        ]
    return remarks


def documents_of_queries(qrels: Qrels, facts: Sequence[RunFacts], deepest: int) -> IntArray:
    """Return the number of documents of each query in labels and runs, exact below `deepest`."""
    number: IntArray = np.max([f.n_documents for f in facts], axis=0)
    for query in {query for f in facts for query in f.few}:
        if number[query] < deepest:
            labeled = qrels.docnos[qrels.doc[qrels.rows_of(query)]].tolist()
            retrieved = (f.few.get(query, frozenset()) for f in facts)
            number[query] = len(frozenset(labeled).union(*retrieved))
    return number


def _sizes(
    measures: Sequence[Any], qrels: Qrels, facts: Mapping[str, RunFacts]
) -> list[Remark | None]:
    """Return the remarks on systems with other numbers n of documents of a query."""
    number = np.stack([f.n_documents for f in facts.values()])
    present = np.stack([f.present for f in facts.values()])
    most = np.max(number, axis=0, where=present, initial=0)
    least = np.min(number, axis=0, where=present, initial=np.iinfo(np.int64).max)
    differ = most > least
    together: dict[bytes, list[str]] = {}
    for part in dict.fromkeys(p for measure in measures for p in iter_parts(measure)):
        if isinstance(part, ExposureOfDocuments):
            concerned = differ & part.reads_size(qrels, least)
            together.setdefault(concerned.tobytes(), []).append(format_measure(part))
    remarks = []
    for mask, labels in together.items():
        concerned = np.frombuffer(mask, dtype=bool)
        if not concerned.any():
            continue
        query = int(np.flatnonzero(concerned)[0])
        detail = f"qid {str(qrels.qids[query])!r}: {least[query]} to {most[query]}"
        text = ", ".join(labels)
        remarks.append(make_remark(SIZES_DIFFER, text, "", concerned, qrels.qids, detail))
    return remarks


def remarks_on_values(measure: Any, scores: Scores, qids: ObjectArray, system: str) -> list[Remark]:
    """Return the remarks on the values of a measure and a system."""
    label = format_measure(measure)
    remarks = [
        make_remark(UNDEFINED, label, system, scores.reasons == reason, qids, reason)
        for reason in scores.undefined
    ]
    remarks += [make_remark(kind, label, system, n, qids) for kind, n in scores.counts.items()]
    return [remark for remark in remarks if remark is not None]


def no_utility(
    measure: Any, scores: Sequence[Scores], facts: Sequence[RunFacts], qids: ObjectArray
) -> list[Remark]:
    """Return the remark that all answers of all systems have the utility 0."""
    if not isinstance(measure, ExpectedUtility):
        return []
    if measure.better != "higher" or measure.bounds[0] != 0:
        return []
    values = np.stack([one.values for one in scores])
    answered = np.stack([of_run.present for of_run in facts]) & ~np.isnan(values)
    concerned = answered.any(axis=0)
    if concerned.sum() < 2 or (values[answered] != 0).any():
        return []
    detail = getattr(measure.utility, "if_zero", Utility.if_zero)
    remark = make_remark(NO_UTILITY, format_measure(measure), "", concerned, qids, detail)
    return [] if remark is None else [remark]


def remarks_on_measures(measures: Iterable[Any]) -> list[Remark]:
    """Return the remarks that hold for measures whatever the run."""
    parts = dict.fromkeys(part for measure in measures for part in iter_parts(measure))
    remarks = []
    for part in parts:
        for one in part.remarks() if isinstance(part, FairMeasure) else ():
            check_kind(part, one.kind)
            remarks.append(one)
    return remarks


def remarks_on_run(
    scores: Mapping[Any, Scores], facts: RunFacts, qrels: Qrels, others: Iterable[Any] = ()
) -> list[Remark]:
    """Return all remarks on the values of one run, by measure.

    Args:
        scores: the scores by measure.
        facts: the facts about the run.
        qrels: the labels.
        others: measures of the same call without scores.
    """
    remarks = remarks_on_measures(scores)
    for measure, of_measure in scores.items():
        remarks += remarks_on_values(measure, of_measure, qrels.qids.text, "")
        remarks += no_utility(measure, [of_measure], [facts], qrels.qids.text)
    return remarks + remarks_on_runs([*scores, *others], qrels, {"": facts})
