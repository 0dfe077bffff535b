"""The border to ir_measures: a provider for all measures, and what evaluators of others are given.

ir_measures asks the providers of its default pipeline in order; `FairProvider` stands first and
takes everything. It checks labels and runs once, by the rules of `fairtk.frames`, whatever form
they have; computes fairtk's own measures for all queries at once; and hands the rest on to the
other providers, ids as text, samples refused. So it sees what ``ir_measures.calc``, its evaluators,
``pt.Evaluate`` and ``pt.Experiment`` ask for.

Those others know nothing of samples, ids that are numbers, or columns of any type but their own. A
run without samples is handed over as it is, so that each evaluator breaks ties in its own way and
the values are those of a direct call. Of a sampled run, which ``E(...)`` and products ask for, they
see one ranking per query at a time, with positive falling scores that repeat its ranks: some of
them take a score of 0 for "not retrieved".

pytrec_eval keeps an array as long as a query's largest label. It stops the process where that is
negative (a query whose labels all are), or beyond 2^62; it gives zeros at 2^53, takes seconds for a
query at 100,000, and raises a TypeError for a label that is not an integer. `SafeTrecEval` is used
instead.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from operator import attrgetter, itemgetter
from typing import Any

import ir_measures
import numpy as np
import pandas as pd
from ir_measures import CalcResults, Metric, providers
from ir_measures.providers import FallbackProvider
from ir_measures.providers.pytrec_eval_provider import PytrecEvalProvider
from ir_measures.util import QrelsConverter

from fairtk.errors import ColumnError, InputError, PluginError, TruncationWarning, warn
from fairtk.frames import (
    DOCNO,
    EXPOSURE,
    LABEL,
    LIMIT,
    LOST_SAMPLES,
    QID,
    RANK,
    RELEVANCE,
    SAMPLE,
    SCORE,
    TO_IR_MEASURES,
    BoolArray,
    FloatArray,
    Ids,
    IntArray,
    Qrels,
    Run,
    are_ids,
    mostly_judged,
    ours,
    require,
    warn_of_unmatched,
)
from fairtk.measures.base import ExactExposure, FairMeasure, Judged
from fairtk.measures.truncation import Truncation, truncation_texts

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


def knows_samples(measure: Any) -> bool:
    """Return whether a measure can be given several rankings of a query.

    One that was made by ``ir_measures.define`` can if it asks for the column ``sample``.
    """
    return isinstance(measure, FairMeasure) or SAMPLE in getattr(measure, "RUN_INPUTS", ())


def refuse_samples(measures: Sequence[Any], run: Run, where: str = "") -> None:
    """Raise if a run has several rankings of a query and a measure does not know samples.

    Several means: two values of ``sample`` or, without that column, a document or a rank twice.
    """
    plain = sorted(repr(m) for m in measures if not knows_samples(m))
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
        return _other_providers()

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
    return _columns(measures, "RUN_COLUMNS", FallbackProvider(_other_providers()).run_inputs)


def qrel_columns(measures: Iterable[Any]) -> list[str]:
    """Return the columns of the qrels that measures and their parts read."""
    return _columns(measures, "QREL_COLUMNS", FallbackProvider(_other_providers()).qrel_inputs)


def _columns(measures: Iterable[Any], attribute: str, of_others: Callable[..., Any]) -> list[str]:
    own, others = _divided(measures)
    columns = dict.fromkeys(ours(of_others(others)) if others else ())
    for measure in own:
        columns.update(dict.fromkeys(_columns(measure.parts, attribute, of_others)))
        columns.update(dict.fromkeys(getattr(measure, attribute)))
    return list(columns)


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
        self.own, self._others = _divided(measures)
        # ir_measures hands over a set, whose order would differ from process to process
        self.own.sort(key=attrgetter("text"))
        self.where = ", ".join([*(m.text for m in self.own), *sorted(map(repr, self._others))])
        # those that are defined at run time may be given less than they declare
        strict = [m for m in self._others if not hasattr(m, "runtime_impl")]
        self._needs = run_columns(strict)
        needs = dict.fromkeys(name for m in self.own for name in m.QREL_COLUMNS)
        needs.update(dict.fromkeys(qrel_columns(strict)))
        self._given, self._label_columns = _listed(qrels), needs
        self._plain = None
        if self._others:
            plain = _plain_mapping(self._given)  # also of queries without labels
            every = [*chain.from_iterable(docs.values() for docs in (plain or {}).values())]
            is_whole = {*map(type, every)} <= {int}
            in_range = not every or (min(every) > -LIMIT and max(every) < LIMIT)
            self._plain = plain if is_whole and in_range else None
            labels = labels_for(self._others, self.qrels) if self._plain is None else self._plain
            others = FallbackProvider(_other_providers())
            self._by_others = others.evaluator(self._others, labels)
        qids = set(self.qrels.qids) if self.own else self._by_others.qrel_qids
        self._reads_documents = DOCNO in needs or bool(self._others)
        super().__init__([*self.own, *self._others], qids)

    @cached_property
    def qrels(self) -> Qrels:
        """The labels, checked; of plain mappings, which others read as they are, when asked for."""
        where = f"{self.where} (qrels)"
        if isinstance(self._given, Qrels):
            require(self._given.frame, self._label_columns, where)
            return self._given
        frame = as_frame(self._given, LABEL, where)
        return Qrels(frame, self.where, self._label_columns, either=True)

    @cached_property
    def truncation(self) -> Truncation:
        """Finds rankings that are cut off, over all runs."""
        return Truncation(self.own, self.qrels)

    def values(self, run: Run, system: str = "") -> Iterator[tuple[Any, FloatArray]]:
        """Yield each measure with its value for each query, in the order of ``qrels.qids``.

        The run is not checked again, and that its ids match is up to who asks. NaN also where an
        evaluator gives no value.
        """
        refuse_samples(self._others, run, run.where)
        yield from self._own_values(run, system)
        if self._others:
            metrics = self._by_others.iter_calc(self._handed(run))
            yield from _tabled(metrics, self._others, self.qrels).items()

    def iter_calc(self, run: Any) -> Iterator[Metric]:
        """Yield the value of each measure and query; every query of the labels has one."""
        checked, handed = self._read(run)
        own = (self._metrics(m, m.per_query(values)) for m, values in self._own_values(checked))
        others = self._by_others.iter_calc(handed) if self._others else ()
        return chain(chain.from_iterable(own), others)

    def calc(self, run: Any) -> CalcResults:
        """Return the aggregate of each measure, and the value of each measure and query."""
        checked, handed = self._read(run)
        aggregates, metrics = {}, []
        for measure, values in self._own_values(checked):
            aggregates[measure] = measure.aggregate(values, self.qrels.qids)
            metrics += self._metrics(measure, values)
        if self._others:
            theirs = self._by_others.calc(handed)
            aggregates.update(theirs.aggregated)
            metrics += theirs.per_query
        return CalcResults(aggregates, metrics)

    def calc_aggregate(self, run: Any) -> dict[Any, float]:
        """Return the aggregate of each measure."""
        checked, handed = self._read(run)
        aggregates: dict[Any, float] = {}
        for measure, values in self._own_values(checked):
            aggregates[measure] = measure.aggregate(values, self.qrels.qids)
        return aggregates | (self._by_others.calc_aggregate(handed) if self._others else {})

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
            run.order  # noqa: B018 - sorted, so that what is twice is refused before a measure is asked
        judged = Judged(self.qrels, run, self.where)
        judged.cache["expectations"] = [m for m in self.own if m.NAME == "E"]
        values = []
        for measure in self.own:
            values.append((measure, measure.scored(judged)))
        if self.truncation.measures:
            self.truncation.add(judged, system)
            if self.warns_of_truncation:
                for text in truncation_texts(self.truncation.found(), 1):
                    warn(text, TruncationWarning)
        return values

    def _read(self, run: Any) -> tuple[Run | None, Any]:
        """Return the run, checked, None if no measure here needs it; and what others are given."""
        rows = _listed(run)
        mapping = None if self.own else _plain_mapping(rows)
        if mapping is not None:
            if self._plain is not None and mostly_judged(self._plain, mapping):
                return None, mapping
            qids = [qid for qid, docs in mapping.items() if docs]
            queries = Ids(np.array(qids, dtype=object))
            warn_of_unmatched(self.qrels, queries, lambda i: mapping[qids[i]], self.where)
            return None, mapping
        checked = self.checked(rows)
        return checked, self._handed(checked) if self._others else None

    def checked(self, run: Any) -> Run:
        """Return a run in any form, checked; ids that match nothing are said."""
        where = f"{self.where} (run)"
        checked = Run(as_frame(run, SCORE, where), where, either=True)
        if self._needs:
            require(checked.frame, self._needs, where)
        if SCORE in self._needs:
            checked.scores  # noqa: B018 - checked when it is read
        documents = self._reads_documents and DOCNO in checked.frame.columns
        if self.own and documents and DOCNO in self.qrels.frame.columns:
            checked.places(self.qrels.documents)  # most are labeled: those are found, not coded
        of_query = checked.documents_of if documents else None
        warn_of_unmatched(self.qrels, checked.queries, of_query, self.where)
        refuse_samples(self._others, checked)
        return checked

    def _handed(self, run: Run) -> pd.DataFrame:
        return run.with_text_ids().rename(columns=TO_IR_MEASURES)


def _listed(data: Any) -> Any:
    """Return rows as a list, since they may be read but once; anything else as it is."""
    if isinstance(data, Mapping | pd.DataFrame | Qrels | str | bytes):
        return data
    return list(data) if isinstance(data, Iterable) else data


def _plain_mapping(data: Any) -> Mapping[str, Mapping[str, Any]] | None:
    """Return a run or labels as mappings, if they need no closer look; None: they do.

    They are mappings, or rows of ir_measures that say no more.
    """
    kinds = {*map(type, data)} if isinstance(data, list) else set()
    if kinds == {ir_measures.Qrel} and {*map(itemgetter(3), data)} != {"0"}:
        return None
    if kinds in ({ir_measures.ScoredDoc}, {ir_measures.Qrel}):
        mapping: dict[Any, dict[Any, Any]] = {}
        last, docs = None, {}
        for row in data:  # by place, which takes two thirds of the time of names
            if row[0] != last:  # rows of a query mostly stand together
                last = row[0]
                docs = mapping.setdefault(last, {})
            docs[row[1]] = row[2]
        once = sum(map(len, mapping.values())) == len(data)
        return mapping if once and is_plain(mapping) else None
    return data if isinstance(data, Mapping) and is_plain(data) else None


def labels_for(measures: Sequence[Any], qrels: Qrels) -> Any:
    """Return checked labels in a form that all evaluators take, their ids as text.

    For pytrec_eval a mapping of mappings, which ir_measures would make of a frame row by row: ten
    times slower. A frame otherwise.
    """
    of_trec_eval = [m for m in measures if ir_measures.pytrec_eval.supports(m)]
    if len(of_trec_eval) == len(measures):
        return qrels.by_query(whole_labels(measures, qrels.labels, qrels.where))
    frame = qrels.with_text_ids().rename(columns=TO_IR_MEASURES)
    is_whole = bool((qrels.labels == np.floor(qrels.labels)).all())
    if RELEVANCE in frame.columns and (of_trec_eval or is_whole):
        whole = whole_labels(of_trec_eval, qrels.labels, qrels.where)
        frame = frame.assign(**{RELEVANCE: whole})
    return frame


def _other_providers() -> list[Any]:
    every = [p for p in ir_measures.DefaultPipeline.providers if not isinstance(p, FairProvider)]
    return [_TREC_EVAL if p is ir_measures.pytrec_eval else p for p in every]


_TREC_EVAL = SafeTrecEval()


def as_frame(data: Any, value: str, where: str) -> pd.DataFrame:
    """Return qrels or a run as a frame; a frame as it is.

    Args:
        data: a frame in either names, a mapping of queries to mappings of documents to values, or
            rows that are named tuples.
        value: the column of a mapping's values, ``label`` or ``score``.
        where: who asks, and what it is, for messages.

    Raises:
        ColumnError: it has none of these forms.
    """
    if isinstance(data, pd.DataFrame):
        return data
    rows = None
    if isinstance(data, Mapping):
        if all(isinstance(docs, Mapping) for docs in data.values()):
            return _of_mapping(data, value)
    elif isinstance(data, Iterable) and not isinstance(data, str | bytes):
        rows = list(data)
        fields = getattr(rows[0], "_fields", None) if rows else (QID, DOCNO, value)
        if fields is not None and all(
            getattr(kind, "_fields", None) == fields for kind in {*map(type, rows)}
        ):
            columns = zip(*rows, strict=True) if rows else [()] * len(fields)
            return pd.DataFrame(
                {f: _column(v) for f, v in zip(fields, map(list, columns), strict=True)}
            )
    first = next(iter(rows)) if rows else data
    raise ColumnError(
        f"{where} must be a DataFrame, a mapping of queries to mappings of documents to values, or "
        f"named tuples with the same fields; found {first!r:.80} ({type(first).__name__})"
    )


def is_plain(mapping: Mapping[Any, Any]) -> bool:
    """Return whether a mapping of mappings needs no closer look: ids and values are in order.

    A look at all of it at once, which costs a fiftieth of what evaluators do with it.
    """
    try:
        ids = [*mapping, *chain.from_iterable(mapping.values())]
        total = sum(chain.from_iterable(docs.values() for docs in mapping.values()))
        return are_ids(ids) and math.isfinite(total)
    except (AttributeError, OverflowError, TypeError):
        return False


def _of_mapping(mapping: Mapping[Any, Mapping[Any, Any]], value: str) -> pd.DataFrame:
    qids = [qid for qid, docs in mapping.items() for _ in range(len(docs))]
    docnos = list(chain.from_iterable(mapping.values()))
    values = list(chain.from_iterable(docs.values() for docs in mapping.values()))
    columns = {QID: _column(qids), DOCNO: _column(docnos), value: _column(values)}
    return pd.DataFrame(columns)


def _column(values: list[Any]) -> pd.Series:
    """Return a column of numbers, or of objects as they are: pandas cannot hold all text."""
    numbers = values and set(map(type, values)) <= {int, float}
    return pd.Series(values, dtype=None if numbers else object)


# Measures that others are made of -----------------------------------------------------------------


def values_for(measure: Any, judged: Judged) -> FloatArray:
    """Return the value of each query, whoever computes the measure; shape (n_queries,)."""
    return values_of([measure], judged)[measure]


def values_of(measures: Sequence[Any], judged: Judged) -> dict[Any, FloatArray]:
    """Return values for a run; measures of others get it as it is, so it has no samples then.

    For each measure the value of each query; shape (n_queries,), NaN where it gives none.
    """
    own, others = _divided(measures)
    result = {measure: measure.scored(judged) for measure in own}
    if others:
        _require_columns(others, judged)
        refuse_samples(others, judged.run)
        if DOCNO in judged.run.frame.columns:
            judged.run.checked()  # as strict as for a sampled run
        run = judged.run.with_text_ids().rename(columns=TO_IR_MEASURES)
        result |= _tabled(_evaluator_for(others, judged).iter_calc(run), others, judged.qrels)
    return result


def means_over_samples(measures: Sequence[Any], judged: Judged) -> dict[Any, FloatArray]:
    """Return the means of values over the rankings of each query.

    A query that the run lacks has the value that the evaluator gives it; NaN where an evaluator
    gives no value for one of the rankings.
    """
    n_queries = len(judged.qids)
    sums, absent = {m: np.zeros(n_queries) for m in measures}, {}
    for here, values in _by_sample(measures, judged):
        for measure in measures:
            sums[measure] += np.where(here, values[measure], 0.0)
            absent[measure] = values[measure]
    count = np.zeros(n_queries)
    count[judged.query_of_run] = judged.run.n_samples
    none = np.full(n_queries, np.nan)
    return {
        m: np.where(count == 0, absent.get(m, none), sums[m] / np.maximum(count, 1))
        for m in measures
    }


def values_by_sample(measure: Any, judged: Judged) -> tuple[IntArray, FloatArray]:
    """Return the query and the value of each ranking of a sampled run, in their order."""
    parts = [(np.flatnonzero(here), v[measure][here]) for here, v in _by_sample([measure], judged)]
    queries, values = zip(*parts, strict=True) if parts else ([np.zeros(0, int)], [np.zeros(0)])
    query = np.concatenate(queries)
    order = np.argsort(query, kind="stable")
    return query[order], np.concatenate(values)[order]


def _by_sample(
    measures: Sequence[Any], judged: Judged
) -> Iterator[tuple[BoolArray, dict[Any, FloatArray]]]:
    """Yield which queries have each sample, and the values of all queries for it alone."""
    own, others = _divided(measures)
    _require_columns(measures, judged)
    evaluator = _evaluator_for(others, judged) if others else None
    plain = not own and set(run_columns(others)) <= {QID, DOCNO, SCORE}
    place = {qid: i for i, qid in enumerate(judged.qids)}
    for qids, part in _mappings(judged) if plain else _frames(judged):
        here = np.zeros(len(place), dtype=bool)
        here[[place[qid] for qid in qids]] = True
        values = {}
        if own:
            alone = Judged(judged.qrels, Run(part, judged.run.where), judged.where)
            alone.cache["sizes compared"] = True  # samples are no systems
            values = {measure: measure.scored(alone) for measure in own}
        if evaluator is not None:
            run = part if plain else part.rename(columns=TO_IR_MEASURES)
            values |= _tabled(evaluator.iter_calc(run), others, judged.qrels)
        yield here, values


def _tabled(
    metrics: Iterable[Metric], measures: Sequence[Any], qrels: Qrels
) -> dict[Any, FloatArray]:
    """Return values by measure, in the order of the labels' queries; NaN where there is none."""
    place = {qid: i for i, qid in enumerate(qrels.qids)}
    table = {m: np.full(len(place), np.nan) for m in measures}
    for metric in metrics:
        table[metric.measure][place[metric.query_id]] = metric.value
    return table


def _evaluator_for(measures: Sequence[Any], judged: Judged) -> Any:
    """Return the evaluator of others' measures, made once for all runs: it copies the labels."""
    cache, key = judged.qrels.cache, ("evaluator", *measures)
    if key not in cache:
        if LABEL in judged.qrels.frame.columns:
            whole_labels(measures, judged.qrels.labels, judged.where)
        labels = labels_for(measures, judged.qrels)
        cache[key] = FallbackProvider(_other_providers()).evaluator(measures, labels)
    return cache[key]


def _require_columns(measures: Sequence[Any], judged: Judged) -> None:
    """Raise unless run and labels have what the measures read; ir_measures names no measure."""
    require(judged.run.frame, run_columns(measures), f"{judged.where} (run)")
    require(judged.qrels.frame, qrel_columns(measures), f"{judged.where} (qrels)")


def _frames(judged: Judged) -> Iterator[tuple[Iterable[str], Any]]:
    """Yield the queries and the run, as a frame, of each sample, the smallest number first."""
    ranked = judged.run
    run = (
        ranked.frame.drop(columns=SAMPLE, errors="ignore")
        .iloc[ranked.order]
        .assign(
            **{
                QID: ranked.qids[ranked.query],
                DOCNO: ranked.docnos[ranked.doc],
                SCORE: np.float64(ranked.position.max(initial=0) + 1) - ranked.position,
                RANK: ranked.position,
            }
        )
    )
    sample = ranked.ranking_sample[ranked.ranking]
    order = np.argsort(sample, kind="stable")
    start = np.flatnonzero(np.diff(sample[order])) + 1
    for rows in np.split(order, start):
        part = run.iloc[rows]
        yield part[QID].unique(), part


def _mappings(judged: Judged) -> Iterator[tuple[Iterable[str], Any]]:
    """Yield the queries and the run of each sample as nested mappings, as `_frames` does.

    The form that most evaluators work on: much cheaper to make here than from a frame.
    """
    ranked = judged.run
    docnos = ranked.docnos[ranked.doc].tolist()
    start = ranked.ranking_start.tolist()
    longest = int(ranked.position.max(initial=-1)) + 1
    scores = [float(longest - i) for i in range(longest)]
    qids = ranked.qids[ranked.ranking_query].tolist()
    samples: dict[int, dict[str, dict[str, float]]] = {}
    for ranking, sample in enumerate(ranked.ranking_sample.tolist()):
        docs = docnos[start[ranking] : start[ranking + 1]]
        run = dict(zip(docs, scores, strict=False))
        samples.setdefault(sample, {})[qids[ranking]] = run
    for sample in sorted(samples):
        yield samples[sample], samples[sample]


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
