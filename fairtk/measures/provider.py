"""The border to ir_measures: a provider for all measures, and what evaluators of others are given.

ir_measures asks the providers of its default pipeline in order; `FairProvider` stands first and
takes everything. It checks labels and runs once, by the rules of `fairtk.frames`, whatever form
they have; computes fairtk's own measures for all queries at once; and hands the rest on to the
other providers, ids as text, samples refused. So it sees what ``ir_measures.calc``, its evaluators,
``pt.Evaluate`` and ``pt.Experiment`` ask for.

Those others know nothing of samples, ids that are numbers, or columns of any type but their own.
They get what `given_to_others` returns. A run without samples keeps its scores and the order of
its rows, so that each evaluator breaks ties in its own way and the values are those of a direct
call. Of a sampled run, which ``E(...)`` and products ask for, they get one ranking per query at a
time, with positive falling scores that repeat its ranks: some of them take a score of 0 for "not
retrieved".

pytrec_eval keeps an array as long as a query's largest label. It stops the process where that is
negative (a query whose labels all are), or beyond 2^62; it gives zeros at 2^53, takes seconds for a
query at 100,000, and raises a TypeError for a label that is not an integer. `SafeTrecEval` is used
instead.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from operator import attrgetter
from typing import Any

import ir_measures
import numpy as np
from ir_measures import CalcResults, Metric, providers
from ir_measures.providers import FallbackProvider
from ir_measures.providers.pytrec_eval_provider import PytrecEvalProvider
from ir_measures.util import QrelsConverter

from fairtk.errors import InputError, PluginError, TruncationWarning, warn
from fairtk.frames import (
    DOCNO,
    EXPOSURE,
    LABEL,
    QID,
    RANK,
    SAMPLE,
    SCORE,
    FloatArray,
    IntArray,
    Qrels,
    Run,
    require_columns,
)
from fairtk.frames.columns import RELEVANCE, TO_IR_MEASURES, ours, rows_by_code
from fairtk.frames.ids import Ids, are_ids
from fairtk.frames.qrels import mostly_judged, warn_of_unmatched
from fairtk.frames.runs import LOST_SAMPLES
from fairtk.frames.schema import LIMIT
from fairtk.measures.base import FairMeasure, parts_of, scored
from fairtk.measures.ee_variants import given_n
from fairtk.measures.labeled_run import ExactExposure, LabeledRun
from fairtk.measures.parsing import check_names

LARGEST_LABEL = 100_000
"""The largest label that pytrec_eval is given."""

Labels = Mapping[str, Mapping[str, int]]


class SafeTrecEval(PytrecEvalProvider):  # type: ignore[misc]
    """pytrec_eval, with labels that it can hold."""

    NAME = "fairtk_trec_eval"

    def _evaluator(self, measures: Iterable[Any], qrels: Any) -> Any:
        # ir_measures counts NumRet among the documents of the first measure that it is given, and
        # hands over a set: of only the judged ones, in some processes, if a measure is judged_only
        asked = sorted(measures, key=lambda m: (bool(m.params.get("judged_only")), repr(m)))
        labels = safe_labels(asked, QrelsConverter(qrels).as_dict_of_dict())
        return super()._evaluator(asked, labels)


def safe_labels(measures: Sequence[Any], labels: Labels) -> Labels:
    """Return labels that pytrec_eval can hold: zeros for a query whose labels are all negative.

    A negative label next to others stays: trec_eval counts it as unjudged.

    Raises:
        InputError: a label is above `LARGEST_LABEL`.
    """
    result = dict(labels)
    for qid, docs in labels.items():
        top = max(docs.values(), default=0)
        if top > LARGEST_LABEL:
            docno = next(docno for docno, label in docs.items() if label == top)
            raise InputError(
                f"{measures[0]!r} takes labels up to {LARGEST_LABEL:,}, got {top} for qid {qid!r}, "
                f"docno {docno!r}; number the grades 0, 1, 2, ..."
            )
        if top < 0:
            result[qid] = dict.fromkeys(docs, 0)
    return result


def whole_labels(measures: Sequence[Any], labels: FloatArray, where: str) -> IntArray:
    """Return labels as integers; one with a fraction is an `InputError`."""
    fractions = labels != np.floor(labels)
    if fractions.any():
        raise InputError(
            f"{where}: the labels have fractions ({labels[fractions][0]:g}), but "
            f"{measures[0]!r} needs whole numbers; only fairtk's own measures take any label"
        )
    return labels.astype(np.int64)


def refuse_samples(measures: Sequence[Any], run: Run, where: str = "") -> None:
    """Raise if a run has several rankings of a query and a measure does not know samples.

    Several means: two values of ``sample`` or, without that column, a document or a rank twice.
    """
    others = _divided(measures)[1]
    # one that was made by ``ir_measures.define`` knows samples if it asks for the column
    plain = sorted(repr(m) for m in others if SAMPLE not in getattr(m, "RUN_INPUTS", ()))
    if not plain:
        return
    if EXPOSURE in run.frame.columns:
        ExactExposure.of(run).refuse(plain[0])
    if not run.is_sampled:
        return
    finding = f"has several rankings of a query (the column {SAMPLE!r})"
    remedy = f"write E({plain[0]}) for the mean over samples"
    if SAMPLE not in run.frame.columns:
        finding = f"has a document or a rank of a query twice, and no column {SAMPLE!r}"
        remedy = f"if it is sampled, {remedy} and {LOST_SAMPLES}"
    raise InputError(
        f"{where}{': ' if where else ''}{plain[0]} reads one ranking per query, but the run "
        f"{finding}; {remedy}"
    )


class FairProvider(FallbackProvider):  # type: ignore[misc]
    """Computes every `FairMeasure`, and all others by ir_measures' other providers."""

    NAME = "fairtk"

    def __init__(self) -> None:
        providers.Provider.__init__(self)
        self._compared: tuple[list[weakref.ref[Any]], dict[Any, Any]] = [], {}

    @property
    def providers(self) -> list[Any]:
        """The other providers, as they are now."""
        return list(_other_providers().providers)

    def supports(self, measure: Any) -> bool:
        """Return whether the measure is fairtk's, a plugin's, or one that another provider has."""
        return isinstance(measure, FairMeasure) or super().supports(measure)

    def run_inputs(self, measures: Iterable[Any]) -> list[str]:
        """Return the columns of the run that the measures read, in ir_measures' names.

        Whoever asks is about to compare systems, as ``pt.Experiment`` does: it asks once, and then
        for an evaluator per system, with the very same measures.
        """
        listed = list(measures)
        self._compared = [weakref.ref(measure) for measure in listed], {}
        return [TO_IR_MEASURES.get(name, name) for name in run_columns(listed)]

    def qrel_inputs(self, measures: Iterable[Any]) -> list[str]:
        """Return the columns of the qrels that the measures read, in ir_measures' names."""
        return [TO_IR_MEASURES.get(name, name) for name in qrel_columns(measures)]

    def _evaluator(self, measures: Iterable[Any], qrels: Any) -> FairEvaluator:
        evaluator = FairEvaluator(measures, qrels)
        compared, notes = self._compared
        if evaluator.own and {*map(id, evaluator.measures)} == {id(ref()) for ref in compared}:
            evaluator.qrels.cache["systems"] = notes
        return evaluator


def run_columns(measures: Iterable[Any]) -> list[str]:
    """Return the columns of the run that measures and their parts read."""
    own, others = _divided(part for measure in measures for part in parts_of(measure))
    names = [*ours(_other_providers().run_inputs(others)), *chain(*(m.run_columns for m in own))]
    return list(dict.fromkeys(names))


def qrel_columns(measures: Iterable[Any]) -> list[str]:
    """Return the columns of the qrels that measures and their parts read."""
    own, others = _divided(part for measure in measures for part in parts_of(measure))
    names = [*ours(_other_providers().qrel_inputs(others)), *chain(*(m.QREL_COLUMNS for m in own))]
    return list(dict.fromkeys(names))


def _divided(measures: Iterable[Any]) -> tuple[list[FairMeasure], list[Any]]:
    """Return fairtk's measures and those of others."""
    listed = list(measures)
    own = [m for m in listed if isinstance(m, FairMeasure)]
    return own, [m for m in listed if not isinstance(m, FairMeasure)]


class FairEvaluator(providers.Evaluator):  # type: ignore[misc]
    """Measures any number of runs against labels that are checked and encoded once.

    Args:
        measures: any measures of fairtk, its plugins and ir_measures.
        qrels: the labels: `Qrels`, which are not checked again, or any form that ir_measures takes.
        warns_of_truncation: whether rankings that are cut off are warned of run by run; otherwise
            the caller reads `truncation` after all runs.
    """

    def __init__(
        self, measures: Iterable[Any], qrels: Any, warns_of_truncation: bool = True
    ) -> None:
        self.warns_of_truncation = warns_of_truncation
        measures = list(measures)
        check_names(measures)
        self.own, self._others = _divided(measures)
        # ir_measures hands over a set, whose order would differ from process to process
        self.own.sort(key=attrgetter("text"))
        self.where = ", ".join([*(m.text for m in self.own), *sorted(map(repr, self._others))])
        # those that are defined at run time may be given less than they declare
        strict = [m for m in self._others if not hasattr(m, "runtime_impl")]
        self._needs = run_columns(strict)
        names = [*chain(*(m.QREL_COLUMNS for m in self.own)), *qrel_columns(strict)]
        self._given, self._label_columns = qrels, dict.fromkeys(names)
        if self._others:
            are_plain = _are_plain(qrels, are_labels=True)
            self._labels = qrels if are_plain else labels_for_others(self._others, self.qrels)
            self._by_others = _other_providers().evaluator(self._others, self._labels)
        qids = set(self.qrels.qids) if self.own else self._by_others.qrel_qids
        self._reads_documents = DOCNO in names or bool(self._others)
        super().__init__([*self.own, *self._others], qids)

    @cached_property
    def qrels(self) -> Qrels:
        """The labels, checked."""
        where = f"{self.where} (qrels)"
        if isinstance(self._given, Qrels):
            require_columns(self._given.frame, self._label_columns, where)
            return self._given
        return Qrels(self._given, self.where, self._label_columns, either=True)

    @cached_property
    def truncation(self) -> Truncation:
        """Finds rankings that are cut off, over all runs."""
        return Truncation(self.own, self.qrels)

    def values(self, run: Run, system: str = "") -> Iterator[tuple[Any, FloatArray]]:
        """Yield each measure with its value for each query, in the order of ``qrels.qids``.

        The run is not checked again, and its ids are not matched. NaN also where an evaluator
        gives no value.
        """
        refuse_samples(self._others, run, run.where)
        yield from self._own_values(run, system)
        if self._others:
            metrics = self._by_others.iter_calc(given_to_others(self._others, run))
            yield from _tabled(metrics, self._others, self.qrels).items()

    def iter_calc(self, run: Any) -> Iterator[Metric]:
        """Yield the value of each measure and query; every query of the labels has one."""
        checked, given = self._read(run)
        own = (self._metrics(m, m.per_query(values)) for m, values in self._own_values(checked))
        others = self._by_others.iter_calc(given) if self._others else ()
        return chain(chain.from_iterable(own), others)

    def calc(self, run: Any) -> CalcResults:
        """Return the aggregate of each measure, and the value of each measure and query."""
        checked, given = self._read(run)
        aggregates, metrics = {}, []
        for measure, values in self._own_values(checked):
            aggregates[measure] = measure.aggregate(values, self.qrels.qids)
            metrics += self._metrics(measure, values)
        if self._others:
            theirs = self._by_others.calc(given)
            aggregates.update(theirs.aggregated)
            metrics += theirs.per_query
        return CalcResults(aggregates, metrics)

    def calc_aggregate(self, run: Any) -> Any:
        """Return the aggregate of each measure."""
        return self.calc(run).aggregated

    def _metrics(self, measure: Any, values: FloatArray) -> list[Metric]:
        pairs = zip(self.qrels.qids, values.tolist(), strict=True)
        return [Metric(query_id=qid, measure=measure, value=value) for qid, value in pairs]

    def _own_values(
        self, run: Run | None, system: str = ""
    ) -> list[tuple[FairMeasure, FloatArray]]:
        if run is None or not self.own:
            return []
        columns = {*run.frame.columns}
        if self._reads_documents and {DOCNO, SCORE} <= columns and EXPOSURE not in columns:
            run.order  # noqa: B018 - sorted, so that duplicates are refused before a measure is asked
        judged = LabeledRun(self.qrels, run, self.where)
        judged.cache["inside E"] = [m["measure"] for m in self.own if m.NAME == "E"]
        values = [(measure, scored(measure, judged)) for measure in self.own]
        if self.truncation.measures:
            self.truncation.add(judged, system)
            if self.warns_of_truncation:
                for text in truncation_texts(self.truncation.found(), 1):
                    warn(text, TruncationWarning)
        return values

    def _read(self, run: Any) -> tuple[Run | None, Any]:
        """Return the run, checked, and what other evaluators are given of it.

        There is no checked run if only others need it and its mappings need no closer look.
        """
        if isinstance(run, Iterator):  # of rows, which are looked at twice
            run = list(run)
        mapping = None if self.own else _plain_mapping(run)
        if mapping is None:
            checked = self.checked(run)
            return checked, given_to_others(self._others, checked) if self._others else None
        if not isinstance(self._labels, Mapping) or not mostly_judged(self._labels, mapping):
            qids = [qid for qid, docs in mapping.items() if docs]
            queries = Ids(np.array(qids, dtype=object))
            warn_of_unmatched(self.qrels, queries, lambda i: mapping[qids[i]], self.where)
        return None, mapping

    def checked(self, run: Any) -> Run:
        """Return a run in any form, checked; ids that match nothing are warned of."""
        where = f"{self.where} (run)"
        checked = Run(run, where, either=True)
        if self._needs:
            require_columns(checked.frame, self._needs, where)
        if SCORE in self._needs:
            checked.scores  # noqa: B018 - checked when it is read
        documents = self._reads_documents and DOCNO in checked.frame.columns
        if documents and DOCNO in self.qrels.frame.columns:
            checked.places(self.qrels.documents)  # most are labeled: those are found, not coded
        of_query = checked.documents_of if documents else None
        warn_of_unmatched(self.qrels, checked.queries, of_query, self.where)
        refuse_samples(self._others, checked)
        return checked


def _plain_mapping(run: Any) -> Mapping[str, Mapping[str, float]] | None:
    """Return a run as mappings; `None` unless it is mappings or rows with ids and scores in order.

    A look at all of it at once costs a fiftieth of what evaluators do with it.
    """
    mapping = run
    if isinstance(run, list) and {*map(type, run)} == {ir_measures.ScoredDoc}:
        mapping = {}
        for qid, docno, score in run:
            mapping.setdefault(qid, {})[docno] = score
        if sum(map(len, mapping.values())) < len(run):  # a document is repeated
            return None
    return mapping if _are_plain(mapping) else None


def _are_plain(data: Any, are_labels: bool = False) -> bool:
    """Return whether data are mappings that any evaluator takes, with ids and values in order."""
    if not isinstance(data, Mapping):
        return False
    try:
        values = [*chain.from_iterable(docs.values() for docs in data.values())]
        in_order = are_ids([*data, *chain.from_iterable(data.values())])
        in_order &= math.isfinite(sum(values))
    except (AttributeError, OverflowError, TypeError):
        return False
    if are_labels:
        in_order &= {*map(type, values)} <= {int} and all(-LIMIT < v < LIMIT for v in values)
    return in_order


def given_to_others(measures: Sequence[Any], run: Run) -> Any:
    """Return a checked run as other evaluators take it, its ids as text.

    These are mappings of queries to mappings of documents to scores, which ir_measures would make
    of a frame row by row. A frame if a measure reads other columns or is defined at run time.
    """
    plain = {*run_columns(measures)} <= {QID, DOCNO, SCORE}
    if not plain or any(hasattr(measure, "runtime_impl") for measure in measures):
        return run.with_text_ids().rename(columns=TO_IR_MEASURES)
    order, start = rows_by_code(run.frame_query, len(run.qids))
    docnos, scores = run.docnos[run.frame_doc[order]].tolist(), run.scores[order].tolist()
    return {
        qid: dict(zip(docnos[a:b], scores[a:b], strict=True))
        for qid, a, b in zip(run.qids.tolist(), start[:-1], start[1:], strict=True)
    }


def labels_for_others(measures: Sequence[Any], qrels: Qrels) -> Any:
    """Return checked labels as other evaluators take them, as `given_to_others` returns runs."""
    of_trec_eval = [m for m in measures if ir_measures.pytrec_eval.supports(m)]
    if len(of_trec_eval) == len(measures):
        return qrels.by_query(whole_labels(measures, qrels.labels, qrels.where))
    frame = qrels.with_text_ids().rename(columns=TO_IR_MEASURES)
    is_whole = bool((qrels.labels == np.floor(qrels.labels)).all())
    if RELEVANCE in frame.columns and (of_trec_eval or is_whole):
        whole = whole_labels(of_trec_eval, qrels.labels, qrels.where)
        frame = frame.assign(**{RELEVANCE: whole})
    return frame


def _other_providers() -> FallbackProvider:
    every = [p for p in ir_measures.DefaultPipeline.providers if not isinstance(p, FairProvider)]
    return FallbackProvider([_TREC_EVAL if p is ir_measures.pytrec_eval else p for p in every])


_TREC_EVAL = SafeTrecEval()


# Measures that others are made of -----------------------------------------------------------------


def values_of(measures: Sequence[Any], judged: LabeledRun) -> dict[Any, FloatArray]:
    """Return values for a run; measures of others get it as it is, so it has no samples then.

    For each measure the value of each query; shape (n_queries,), NaN where it gives none.
    """
    own, others = _divided(measures)
    result = {measure: scored(measure, judged) for measure in own}
    if others:
        _require_columns(others, judged)
        refuse_samples(others, judged.run)
        if DOCNO in judged.run.frame.columns:
            judged.run.checked()  # as strict as for a sampled run
        result |= _values_of_others(others, judged, judged.run)
    return result


def values_by_ranking(
    measures: Sequence[Any], judged: LabeledRun
) -> tuple[dict[Any, FloatArray], dict[Any, FloatArray]]:
    """Return values of each ranking, shape (n_rankings,), and of queries without, (n_queries,).

    NaN where an evaluator gives no value.
    """
    _require_columns(measures, judged)
    own, others = _divided(measures)
    run = judged.run
    values = {measure: np.full(run.n_rankings, np.nan) for measure in measures}
    absent = {measure: np.full(len(judged.qids), np.nan) for measure in measures}
    # scores that repeat the ranks
    score = np.float64(run.position.max(initial=0) + 1) - run.position
    ids = {QID: run.qids[run.query], DOCNO: run.docnos[run.doc]}
    frame = run.frame.drop(columns=SAMPLE, errors="ignore").iloc[run.order]
    frame = frame.assign(**ids, **{SCORE: score, RANK: run.position})
    for sample, rows in frame.groupby(run.ranking_sample[run.ranking]):
        rankings = run.ranking_sample == sample
        alone = LabeledRun(judged.qrels, Run(rows, run.where), judged.where)
        alone.cache["sizes compared"] = True  # samples are no systems
        table = {measure: scored(measure, alone) for measure in own}
        if others:
            table |= _values_of_others(others, judged, alone.run)
        for measure, of_query in table.items():
            values[measure][rankings] = of_query[judged.ranking_query[rankings]]
            absent[measure] = of_query
    return values, absent


def _tabled(
    metrics: Iterable[Metric], measures: Sequence[Any], qrels: Qrels
) -> dict[Any, FloatArray]:
    """Return values by measure, in the order of the labels' queries; NaN where there is none."""
    place = {qid: i for i, qid in enumerate(qrels.qids)}
    table = {m: np.full(len(place), np.nan) for m in measures}
    for metric in metrics:
        table[metric.measure][place[metric.query_id]] = metric.value
    return table


def _values_of_others(
    measures: Sequence[Any], judged: LabeledRun, run: Run
) -> dict[Any, FloatArray]:
    """Return values by other evaluators, which are made once for all runs: they copy labels."""
    cache, key = judged.qrels.cache, ("evaluator", *measures)
    if key not in cache:
        if LABEL in judged.qrels.frame.columns:
            whole_labels(measures, judged.qrels.labels, judged.where)
        labels = labels_for_others(measures, judged.qrels)
        cache[key] = _other_providers().evaluator(measures, labels)
    metrics = cache[key].iter_calc(given_to_others(measures, run))
    return _tabled(metrics, measures, judged.qrels)


def _require_columns(measures: Sequence[Any], judged: LabeledRun) -> None:
    """Raise unless run and labels have what the measures read; ir_measures names no measure."""
    require_columns(judged.run.frame, run_columns(measures), f"{judged.where} (run)")
    require_columns(judged.qrels.frame, qrel_columns(measures), f"{judged.where} (qrels)")


# Rankings that are cut off ------------------------------------------------------------------------


Truncated = dict[str, dict[str, dict[str, int]]]
"""By measure, system and qid: the length of the query's shortest ranking."""


class Truncation:
    """Finds rankings with fewer than min(k, n) documents, over all runs of one call.

    n is the number of documents that the user gives to the measure, else the number of distinct
    documents of the query in the labels and in all runs.

    Args:
        measures: any measures. Those without a cutoff, and those whose values do not
            `depends_on_length`, report nothing.
        qrels: the labels.
    """

    def __init__(self, measures: Iterable[Any], qrels: Qrels) -> None:
        parts = [part for measure in measures for part in parts_of(measure)]
        cut = [m for m in parts if getattr(m, "depends_on_length", False) and m["cutoff"]]
        self.measures = list(dict.fromkeys(cut))
        self.qrels = qrels
        self._shortest: dict[str, IntArray] = {}  # by system: of each query, -1 without a ranking
        self._most = np.zeros(len(qrels.qids), dtype=np.int64)  # documents of a query in a run
        self._documents: dict[int, set[Any]] = {}  # of queries without a ranking of k documents

    def add(self, judged: LabeledRun, system: str) -> None:
        """Take a run into account."""
        if not self.measures or judged.exact is not None:
            return
        run, deepest = judged.run, max(measure["cutoff"] for measure in self.measures)
        query, length = judged.ranking_query, np.diff(run.ranking_start)
        shortest = np.full(len(self._most), np.iinfo(np.int64).max)
        np.minimum.at(shortest, query, length)
        shortest[~judged.present] = -1
        self._shortest[system] = shortest
        np.maximum.at(self._most, query, length)
        for i, q in enumerate(judged.query_of_run.tolist()):
            if self._most[q] < deepest:
                self._documents.setdefault(q, set()).update(run.documents_of(i))

    def found(self) -> Truncated:
        """Return the truncated rankings by measure, system and query."""
        result: Truncated = {}
        for measure in self.measures:
            n = self._n(measure)
            for system, shortest in self._shortest.items():
                limit = np.minimum(measure["cutoff"], n)
                short = np.flatnonzero((shortest >= 0) & (shortest < limit))
                if len(short):
                    lengths = zip(self.qrels.qids[short], shortest[short], strict=True)
                    of_system = {str(qid): int(length) for qid, length in lengths}
                    result.setdefault(repr(measure), {})[system] = of_system
        return result

    def _n(self, measure: FairMeasure) -> IntArray:
        """Return the number n of documents of each query, exact where it is below the cutoff."""
        if "n" in measure.SUPPORTED_PARAMS and (n := given_n(measure, self.qrels)) is not None:
            return n
        labeled = np.bincount(self.qrels.query, minlength=len(self._most))
        documents_of = np.maximum(labeled, self._most).astype(np.int64)
        for query, documents in self._documents.items():
            if documents_of[query] < measure["cutoff"]:
                labels = self.qrels.docnos[self.qrels.doc[self.qrels.rows_of(query)]]
                documents_of[query] = len(documents.union(labels.tolist()))
        return documents_of


def truncation_texts(found: Truncated, n_systems: int) -> list[str]:
    """Return one message per measure, with the number of queries of each system.

    Args:
        found: of `Truncation.found`.
        n_systems: the number of systems of the call.
    """
    texts = []
    for measure, systems in found.items():
        cutoff = measure.rpartition("@")[2]
        counts = ", ".join(
            f"{len(qids)} quer{'y' if len(qids) == 1 else 'ies'}{f' of {name}' if name else ''}"
            for name, qids in systems.items()
        )
        text = (
            f"{measure}: rankings have fewer than min({cutoff}, n) documents for {counts}. "
            "Exposure over fewer documents looks different, as a rule more even: retrieve deeper, "
            "or use a smaller cutoff"
        )
        lengths = list(systems.values())
        if len(lengths) < n_systems or any(length != lengths[0] for length in lengths):
            text += ". The systems differ in this, so their values do not compare"
        texts.append(text)
    return texts


# Names and providers of ir_measures ---------------------------------------------------------------


def publish(name: str, measure: Any) -> None:
    """Make a measure known to ir_measures under its name; None takes it back."""
    names = ir_measures.measures.registry
    if measure is None:
        if isinstance(names.get(name), FairMeasure):
            del names[name]
        return
    if name in names and not isinstance(names[name], FairMeasure):
        raise PluginError(f"the measure {name!r} exists in ir_measures already; rename it")
    names[name] = measure


def connect() -> None:
    """Put the provider in front of those of ir_measures; a second call does nothing."""
    pipeline = ir_measures.DefaultPipeline.providers
    if not any(isinstance(p, FairProvider) for p in pipeline):
        pipeline.insert(0, FairProvider())
