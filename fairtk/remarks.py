"""Remarks: what a reader of values must know, as data.

A remark names its kind, the measure or stage, the system and the queries that it concerns. The kind
has the class of the warning and the template of the text. Texts are made last: nothing parses,
compares or merges them.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from fairtk.errors import (
    DataWarning,
    FairtkWarning,
    IneffectiveWarning,
    MissingWarning,
    ParameterError,
    TruncationWarning,
    UndefinedWarning,
    UnmatchedWarning,
)
from fairtk.wording import format_list


@dataclass(frozen=True)
class RemarkKind:
    """A kind of remark.

    Attributes:
        warning: the class of its warnings; `None` if it is only shown with the values.
        template: the text for `str.format`, with the fields ``{measure}`` or ``{stage}``,
            ``{queries}`` (the queries by number, system and qid), ``{count}`` and ``{detail}``.
    """

    warning: type[FairtkWarning] | None
    template: str


UNDEFINED = "undefined"
AVERAGED = "undefined, but averaged"
MISSING = "missing queries"
MISSING_CHECKED = "missing checked queries"
MISSING_MERIT = "missing queries with merit"
FAILED = "failed queries"
NO_COMMON = "no query in common"
NO_JUDGED_DOCUMENT = "no judged document"
RESPELLED_QIDS = "qids spelled differently"
RESPELLED_DOCNOS = "docnos spelled differently"
OWN_DOCUMENT = "query is a document"
TWO_ORDERS = "two orders"
EQUAL_SCORES = "equal scores"
OWN_CANDIDATE = "query is a candidate"
SHORT_RANKINGS = "short rankings"
LENGTHS_DIFFER = "short rankings of different lengths"
MIXED_SAMPLES = "mixed samples"
UNEVEN_SAMPLES = "different numbers of samples"
SIZES_DIFFER = "numbers of documents differ"
MERITS_DIFFER = "numbers of documents with merit differ"
FEW_GROUPS = "few known groups"
UNREACHABLE = "unreachable target"
NEGATIVE_CREDIT = "negative credit"
UNDEFINED_CREDIT = "undefined credit"
NO_CITATIONS = "answers without citations"
NO_LABELS = "without labels"
STUDY_NOTE = "study note"
STUDY_WARNING = "study warning"
NOT_A_MEAN = "not a mean"
NOT_BY_GROUP = "not by group"
UNKNOWN_QUERIES = "unknown queries"
NO_CANDIDATES = "no candidates"
TARGET_MISSED = "target missed"
NO_USEFUL_DOCUMENT = "no useful document"
LONG_QUESTIONS = "truncated questions"
FULL_PROMPTS = "no space for documents"
NOT_REFINED = "not refined"
NO_GROUPED_DOCUMENT = "no document with a group"
NO_TARGET = "no target"
NO_EFFECT = "no effect"
IGNORED_WORDS = "ignored words"
UNCITED = "no document cited"
INVALID_CITATIONS = "invalid citations"
CUT_ANSWERS = "cut answers"
EMPTY_ANSWERS = "empty answers"
REFUSED_ANSWERS = "refused answers"
FILTERED_ANSWERS = "filtered answers"
ONLY_THOUGHTS = "thoughts without an answer"
UNREADABLE_ANSWERS = "unreadable answers"
CUT_PROMPTS = "cut prompts"
UNKNOWN_ENDS = "answers with an unknown end"
EQUAL_ANSWERS = "equal answers"
ONE_ANSWER = "one answer per prompt"
NO_UTILITY = "no utility"
KEPT_FAILURES = "kept without a refinement"
OFF_TOPIC = "off topic"
EMPTY_DOCUMENTS = "empty documents"
DROPPED_DOCUMENTS = "documents without space"
UNKNOWN_TOKENS = "unknown tokens"
CUT_TEXTS = "cut texts"
SEVERAL_GROUPS = "several groups in a label"
UNKNOWN_SPELLINGS = "spellings of unknown"
SIMILAR_GROUPS = "similar labels"
REPEATED_ROWS = "repeated rows"
NO_ROWS = "no rows"
RANKS_DISAGREE = "ranks disagree with scores"
OTHER_ANSWERS = "answers of other rankings"

BY_STATUS = {
    "cut": CUT_ANSWERS,
    "empty": EMPTY_ANSWERS,
    "refused": REFUSED_ANSWERS,
    "filtered": FILTERED_ANSWERS,
    "thought only": ONLY_THOUGHTS,
    "unreadable": UNREADABLE_ANSWERS,
    "prompt cut": CUT_PROMPTS,
    "unknown": UNKNOWN_ENDS,
}
"""The kinds of remarks on answers by their status, a value of the column ``answer_status``."""

KINDS: dict[str, RemarkKind] = {
    UNDEFINED: RemarkKind(
        UndefinedWarning,
        "{measure} is undefined (NaN) for {queries}: {detail}. Means exclude these queries",
    ),
    AVERAGED: RemarkKind(
        UndefinedWarning,
        "{measure} is undefined (NaN) for {queries}: {detail}. Means and significance tests of "
        "pt.Experiment include them and are wrong (with correction=, it reports reject True); use "
        "fairtk.Experiment, or fairtk.drop_undefined(qrels) for queries without useful documents",
    ),
    MISSING: RemarkKind(
        MissingWarning, "{queries} are missing from the run; they get the worst value"
    ),
    MISSING_CHECKED: RemarkKind(
        MissingWarning,
        "{queries} with checked labels are missing from the run; they get the worst value",
    ),
    MISSING_MERIT: RemarkKind(
        MissingWarning,
        "{queries} are missing from the run; they give no {detail}, but their merit counts",
    ),
    FAILED: RemarkKind(
        DataWarning,
        "{queries} failed ({detail}) and get the worst value; with a save_dir, the next run "
        "retries them, and with retry_failed=True also prompts that a model refused",
    ),
    NO_COMMON: RemarkKind(
        UnmatchedWarning, "no query in common with the qrels ({detail}); {queries} count as missing"
    ),
    NO_JUDGED_DOCUMENT: RemarkKind(
        UnmatchedWarning,
        "no retrieved document is judged for {queries} ({detail}); check that both use the same "
        "docnos",
    ),
    RESPELLED_QIDS: RemarkKind(
        UnmatchedWarning,
        "{queries} are missing from the run, but it has queries that are spelled differently: "
        "{detail}; write qids the same way in both",
    ),
    RESPELLED_DOCNOS: RemarkKind(
        UnmatchedWarning,
        "docnos are spelled differently in run and qrels for {queries}, at least: {detail}; write "
        "docnos the same way in both",
    ),
    OWN_DOCUMENT: RemarkKind(
        DataWarning,
        "the docno of a retrieved document is the qid for {queries} ({detail}), so the query "
        "counts as a document; leave it out with `ignore_identical_ids=True`, or "
        "with IgnoreIdenticalIds() in a pipeline",
    ),
    TWO_ORDERS: RemarkKind(
        DataWarning,
        "{measure}: trec_eval reads scores in single precision, in which some different scores are "
        "ties for {queries}, so these measures, or parts of them, see another order than the "
        "others; use `order='rank'` for the order of the ranks, or fewer digits for ties in all "
        "measures",
    ),
    SHORT_RANKINGS: RemarkKind(
        TruncationWarning,
        "{measure}: rankings are shorter than {detail} documents for {queries}. Exposure over "
        "fewer documents usually looks more even; retrieve more, or use a smaller cutoff",
    ),
    LENGTHS_DIFFER: RemarkKind(
        TruncationWarning,
        "{measure}: rankings are shorter than {detail} documents for {queries}, and their lengths "
        "differ between systems, so their values are not comparable. Exposure over fewer documents "
        "usually looks more even; retrieve more, or use a smaller cutoff",
    ),
    MIXED_SAMPLES: RemarkKind(
        DataWarning,
        "the ranks in {count} sampled rankings are not 0, 1, 2, ..., for {queries}, so samples "
        "may have been ranked or cut together; wrap transformers that group their input by qid, "
        "e.g. PerSample(reranker % 5), and number the ranks again after a filter",
    ),
    UNEVEN_SAMPLES: RemarkKind(
        DataWarning,
        "queries have different numbers of samples, {detail}: {queries} have fewer, so some may be "
        "lost; wrap transformers that group their input by qid, e.g. PerSample(reranker % 5)",
    ),
    SIZES_DIFFER: RemarkKind(
        DataWarning,
        "{measure}: systems have different numbers n of judged or retrieved documents for "
        "{queries} ({detail}), and so different targets; set n to the number of documents that "
        "could be retrieved (n=1000, or a column of the qrels), or to 'judged'",
    ),
    MERITS_DIFFER: RemarkKind(
        DataWarning,
        "{measure}: systems have different numbers n of judged or retrieved documents for "
        "{queries} ({detail}), and so different merit; add all documents of all runs to the qrels, "
        "with label 0 if they have none",
    ),
    FEW_GROUPS: RemarkKind(
        DataWarning,
        "{measure}: less than half of the documents have a known group for {queries}; see "
        "groups.coverage(run)",
    ),
    UNREACHABLE: RemarkKind(
        DataWarning, "{measure}: no ranking can reach the best value, because {detail}"
    ),
    NEGATIVE_CREDIT: RemarkKind(
        DataWarning,
        "{measure}: negative values of credit count as 0 ({count}, for {queries}); use "
        "negative='refuse' for an error",
    ),
    UNDEFINED_CREDIT: RemarkKind(
        DataWarning,
        "{measure}: credit is undefined (NaN, or a sum of 0) for some rankings ({count}, for "
        "{queries}). Means exclude these rankings",
    ),
    NO_CITATIONS: RemarkKind(
        DataWarning,
        "{measure} is undefined for answers without citations ({count}, for {queries}). Means "
        "exclude these answers",
    ),
    NOT_A_MEAN: RemarkKind(
        DataWarning,
        "{measure} is not a mean over queries, so means of its per-query values (pt.Experiment) "
        "are wrong; use ir_measures.calc_aggregate or fairtk evaluate",
    ),
    NOT_BY_GROUP: RemarkKind(None, "without groups: {measure} (for groups, write {detail})"),
    NO_LABELS: RemarkKind(
        None,
        "without labels, n is the number of retrieved documents per query ({detail}), so "
        "normalized values are not comparable with those with labels",
    ),
    UNKNOWN_QUERIES: RemarkKind(
        DataWarning,
        "{stage}: {queries} are unknown and get no documents ({detail}); check that topics and "
        "dataset use the same qids",
    ),
    NO_CANDIDATES: RemarkKind(
        DataWarning, "{stage}: {queries} have no candidates and get no documents ({detail})"
    ),
    TARGET_MISSED: RemarkKind(
        DataWarning,
        "{stage}: {detail} cannot be reached for {queries}; the nearest value is used",
    ),
    NO_USEFUL_DOCUMENT: RemarkKind(
        DataWarning,
        "{stage}: {detail} is undefined for {queries} without a relevant document in the ranking; "
        "the uniform policy is used",
    ),
    EQUAL_SCORES: RemarkKind(
        DataWarning,
        "{stage}: all scores of {queries} are equal, so {detail}; check the query texts and the "
        "scores of the retriever",
    ),
    OWN_CANDIDATE: RemarkKind(
        DataWarning,
        "{stage}: the docno of a candidate is the qid for {queries}, and its score scales those of "
        "the others; leave it out with IgnoreIdenticalIds() before this stage",
    ),
    LONG_QUESTIONS: RemarkKind(
        DataWarning,
        "{stage}: the questions of {queries} exceed the model's window and are truncated, so their "
        "answers do not depend on the ranking; use a model with a longer window or a larger "
        "max_prompt_tokens",
    ),
    FULL_PROMPTS: RemarkKind(
        DataWarning,
        "{stage}: the questions of {queries} fill the model's window, without documents, so their "
        "answers do not depend on the ranking; use a model with a longer window or a larger "
        "max_prompt_tokens",
    ),
    NOT_REFINED: RemarkKind(
        DataWarning, "{stage}: {queries} could not be refined and have no result ({detail})"
    ),
    KEPT_FAILURES: RemarkKind(
        DataWarning, "{stage}: the refinement of {queries} failed; they keep their list ({detail})"
    ),
    OFF_TOPIC: RemarkKind(
        DataWarning,
        "{stage}: refinements of {queries} share no word with the query, or repeat an example of "
        "the prompt ({detail}); use another model or prompt",
    ),
    EMPTY_DOCUMENTS: RemarkKind(
        DataWarning,
        "{stage}: prompts have documents without text ({count}, for {queries}: {detail}), which "
        "have exposure, but cannot be read",
    ),
    DROPPED_DOCUMENTS: RemarkKind(
        DataWarning,
        "{stage}: documents are left out of prompts or cut, because the model's window is full "
        "({count}, for {queries}; {detail}); use a smaller cutoff or a longer window. The column "
        "in_prompt says which documents the prompts have",
    ),
    UNKNOWN_TOKENS: RemarkKind(
        DataWarning,
        "{stage}: more than 5% of the tokens of prompts are unknown to the model for {queries} "
        "({detail}); use a model for the language of the documents",
    ),
    CUT_TEXTS: RemarkKind(
        TruncationWarning,
        "texts are longer than the encoder reads, so only their beginnings count: {detail}",
    ),
    NO_GROUPED_DOCUMENT: RemarkKind(
        DataWarning,
        "{stage}: no document of the top {detail} has a group for {queries}, which keep their "
        "first ranking; check that groups and retriever use the same docnos",
    ),
    NO_TARGET: RemarkKind(
        DataWarning,
        "{stage}: there is no target for {queries}, which keep their first ranking; check that "
        "target and topics use the same qids",
    ),
    NO_EFFECT: RemarkKind(
        IneffectiveWarning,
        "{stage}: pool='union' and the retriever's scores give the ranking of the original query, "
        "for {queries}; use pool='last' or 'refined', or another reranker",
    ),
    IGNORED_WORDS: RemarkKind(
        DataWarning,
        "{stage}: the retriever ignores words that were added for {queries}, mostly stop words: "
        "{detail}; remove them from the table of terms or the prompt",
    ),
    UNCITED: RemarkKind(
        DataWarning,
        "{stage}: answers have no citations, so their credit is undefined (NaN) ({count}, for "
        "{queries})",
    ),
    INVALID_CITATIONS: RemarkKind(
        DataWarning,
        "{stage}: answers cite numbers beyond the prompt, which are ignored ({count}, for "
        "{queries})",
    ),
    CUT_ANSWERS: RemarkKind(
        DataWarning,
        "answers were cut at the maximum number of tokens ({count}, for {queries}); raise "
        "max_new_tokens (max_tokens of a server)",
    ),
    EMPTY_ANSWERS: RemarkKind(DataWarning, "answers are empty ({count}, for {queries})"),
    REFUSED_ANSWERS: RemarkKind(
        DataWarning, "the model refused to answer ({count} times, for {queries})"
    ),
    FILTERED_ANSWERS: RemarkKind(
        DataWarning, "the server filtered answers ({count}, for {queries})"
    ),
    ONLY_THOUGHTS: RemarkKind(
        DataWarning,
        "the model thought without an answer ({count} times, for {queries}); raise "
        "max_new_tokens (max_tokens of a server), or reduce its reasoning",
    ),
    UNREADABLE_ANSWERS: RemarkKind(
        DataWarning,
        "no answer can be read in the text of the model ({count} times, for {queries}); check the "
        "text and `answer` of the generator",
    ),
    CUT_PROMPTS: RemarkKind(
        DataWarning,
        "the server has read less than half of the prompts ({count}, for {queries}), so these "
        "queries have no utility and no credit; raise its context window, then use "
        "Ledger(retry_unusable=True) and another save_dir",
    ),
    UNKNOWN_ENDS: RemarkKind(
        DataWarning,
        "answers of an earlier version of fairtk may be cut ({count}, for {queries}), because it "
        "did not record their ends",
    ),
    ONE_ANSWER: RemarkKind(
        DataWarning,
        "{stage}: the model samples, but one answer stands for all equal prompts of {queries}, so "
        "intervals contain no variance of the model; use answers=5, or temperature 0",
    ),
    NO_UTILITY: RemarkKind(
        DataWarning,
        "{measure} is 0 for all answers of all systems, for {queries}; {detail}",
    ),
    EQUAL_ANSWERS: RemarkKind(DataWarning, "all answers are equal, {detail}, for {queries}"),
    SEVERAL_GROUPS: RemarkKind(
        DataWarning,
        "labels of groups seem to be several groups each ({count}: {detail}), but each counts as "
        "one group; use `separator` to split them, or `Groups.read(..., levels=[...])` if each is "
        "one group",
    ),
    UNKNOWN_SPELLINGS: RemarkKind(
        DataWarning,
        "labels of groups seem to mean an unknown group ({count}: {detail}), but each counts as a "
        "group; use `unknown_values` to decide which are unknown",
    ),
    SIMILAR_GROUPS: RemarkKind(
        DataWarning,
        "labels of groups differ only in case or white space ({count}: {detail}), but each counts "
        "as a group; use one spelling for each group, or `Groups.read(..., levels=[...])` if these "
        "are different groups",
    ),
    REPEATED_ROWS: RemarkKind(
        DataWarning, "{detail}: rows repeat earlier ones and are left out ({count})"
    ),
    NO_ROWS: RemarkKind(DataWarning, "{detail}: no rows"),
    RANKS_DISAGREE: RemarkKind(
        DataWarning, "{detail}; the scores of this run are replaced by its ranks"
    ),
    OTHER_ANSWERS: RemarkKind(
        DataWarning, "{detail} are of rankings that the run does not have; they are ignored"
    ),
    # texts of a study: the first below its tables, the second among the warnings of its page
    STUDY_NOTE: RemarkKind(None, "{detail}"),
    STUDY_WARNING: RemarkKind(None, "{detail}"),
}
"""The kinds of remarks by name; `register_kinds` adds those of plugins, ``"plugin:kind"``."""

_LISTED = 20
"""The number of qids that a remark has."""
_SYSTEMS = 4
"""The number of systems that a text names."""
_DETAILS = 5
"""The number of different details of a stage's queries that a text has."""


@dataclass(frozen=True)
class Remark:
    """What a reader of values must know.

    Attributes:
        kind: a name of `KINDS`.
        measure: the label of the measure; ``""`` if it concerns all measures.
        system: the name of the system; ``""`` if it concerns all systems, or the only one.
        count: the number of things that it concerns: queries, or e.g. documents of them.
        n_queries: the number of queries that it concerns.
        qids: the first 20 of these queries.
        total: the number of measured queries.
        detail: the varying part of its text, e.g. the reason for undefined values.
        stage: the stage that made the remark, e.g. ``"FairSampler"``; ``""`` for remarks on values.
    """

    kind: str
    measure: str
    system: str
    count: int
    n_queries: int
    qids: tuple[str, ...]
    total: int = 0
    detail: str = ""
    stage: str = ""

    @property
    def text(self) -> str:
        """The template of its kind, filled in."""
        return text_of([self])


def make_remark(
    kind: str, measure: str, system: str, numbers: Any, qids: Any, detail: str = ""
) -> Remark | None:
    """Return the remark on queries; `None` if it concerns none.

    Args:
        kind: see `Remark`.
        measure: see `Remark`.
        system: see `Remark`.
        numbers: a mask of the queries, or how many things of each query it concerns; (n_queries,).
        qids: all measured queries; shape (n_queries,).
        detail: see `Remark`.
    """
    concerned = np.flatnonzero(numbers)
    if not len(concerned):
        return None
    first = tuple(str(qid) for qid in qids[concerned[:_LISTED]])
    n, total = len(concerned), len(qids)
    return Remark(kind, measure, system, int(numbers.sum()), n, first, total, detail)


class StageRemark(NamedTuple):
    """What a stage says about one query.

    Attributes:
        stage: see `Remark`.
        kind: see `Remark`.
        number: the number of things that it concerns, e.g. 1 or the number of answers.
        details: see `Remark.detail`; those of all queries are listed.
    """

    stage: str
    kind: str
    number: int
    details: tuple[str, ...]


def remarks_of_stages(
    system: str, by_query: Mapping[str, Iterable[StageRemark]], total: int
) -> list[Remark]:
    """Return what stages say about the queries of a system, one remark per kind and stage.

    Args:
        system: see `Remark`.
        by_query: the remarks by qid, in the order of the queries.
        total: see `Remark`.
    """
    together: dict[tuple[str, str], list[tuple[str, StageRemark]]] = {}
    for qid, of_query in by_query.items():
        for one in of_query:
            together.setdefault((one.stage, one.kind), []).append((qid, one))
    remarks = []
    for (stage, kind), pairs in together.items():
        qids = list(dict.fromkeys(qid for qid, _ in pairs))
        details = list(dict.fromkeys(detail for _, one in pairs for detail in one.details))
        more = f" and {len(details) - _DETAILS} more" if len(details) > _DETAILS else ""
        detail = "; ".join(details[:_DETAILS]) + more
        count = sum(one.number for _, one in pairs)
        first = tuple(qids[:_LISTED])
        remarks.append(Remark(kind, "", system, count, len(qids), first, total, detail, stage))
    return remarks


def read_remark(record: Mapping[str, Any]) -> Remark:
    """Return the remark of a JSON object, ``dataclasses.asdict(remark)``."""
    return Remark(**{**record, "qids": tuple(record["qids"])})


def register_kinds(kinds: Mapping[str, RemarkKind], owner: str) -> None:
    """Add the kinds of remarks that a measure or transformer declares.

    Raises:
        ParameterError: a name has no colon, or belongs to another kind.
    """
    for name, kind in kinds.items():
        if ":" not in name:
            raise ParameterError(f"{owner}: a kind of remark must be 'plugin:kind', got {name!r}")
        if KINDS.setdefault(name, kind) != kind:
            raise ParameterError(f"{owner}: duplicate kind of remark {name!r}; rename it")


def text_of(remarks: Sequence[Remark]) -> str:
    """Return the text of remarks of one kind, measure, stage and detail on several systems."""
    first = remarks[0]
    kind = KINDS.get(first.kind)
    if kind is None:  # of saved results
        by = ", ".join(filter(None, (first.stage, first.measure)))
        detail = f" ({first.detail})" if first.detail else ""
        plugin, _, name = first.kind.partition(":")
        return (
            f"{by}: {name!r} for {_queries(remarks)}{detail}; the text of this remark requires the "
            f"plugin of {plugin!r}, which is not installed"
        )
    return kind.template.format(
        measure=first.measure,
        stage=first.stage,
        count=sum(remark.count for remark in remarks),
        queries=_queries(remarks),
        detail=first.detail,
    )


def shown_texts(remarks: Iterable[Remark]) -> list[str]:
    """Return the texts of remarks for captions, without those on numbers that tables show."""
    groups = (group for group in _grouped(remarks) if group[0].kind not in (UNDEFINED, FAILED))
    return [f"{text_of(group)}." for group in groups]


def _queries(remarks: Sequence[Remark]) -> str:
    """Return the queries of remarks as text: ``"2 of 20 queries ('q1', 'q2')"``."""
    same = len({(remark.n_queries, remark.total, remark.qids) for remark in remarks}) == 1
    parts = []
    for remark in remarks[:1] if same else remarks[:_SYSTEMS]:
        systems = [one.system for one in remarks if one.system] if same else [remark.system]
        more = f" and {len(systems) - _SYSTEMS} more" if len(systems) > _SYSTEMS else ""
        of = f" of {', '.join(systems[:_SYSTEMS])}{more}" if any(systems) else ""
        noun = "query" if remark.total == 1 else "queries"
        parts.append(f"{remark.n_queries} of {remark.total} {noun}{of}")
    if same:
        return f"{parts[0]} ({format_list(remarks[0].qids)})"
    if len(remarks) > _SYSTEMS:
        parts.append(f"queries of {len(remarks) - _SYSTEMS} more systems")
    return ", ".join(parts)


def emit(remarks: Iterable[Remark], stacklevel: int = 2) -> None:
    """Warn of remarks; those that differ in their systems only are one warning."""
    for warning in warnings_of(remarks):
        warnings.warn(warning, stacklevel=stacklevel + 1)


def warnings_of(remarks: Iterable[Remark]) -> list[FairtkWarning]:
    """Return the warnings that `emit` issues."""
    instances = []
    for group in _grouped(remarks):
        kind = KINDS.get(group[0].kind)
        category = FairtkWarning if kind is None else kind.warning
        if category is not None:
            instances.append(category(text_of(group)))
    return instances


def _grouped(remarks: Iterable[Remark]) -> Iterable[list[Remark]]:
    together: dict[tuple[str, ...], list[Remark]] = {}
    for remark in remarks:
        key = (remark.kind, remark.measure, remark.stage, remark.detail)
        together.setdefault(key, []).append(remark)
    return together.values()
