"""The border to ir_measures: a provider for all measures, and the inputs of other providers.

`FairProvider` is the first provider of ir_measures' default pipeline and accepts every measure, so
it serves ``ir_measures.calc``, evaluators, ``pt.Evaluate`` and ``pt.Experiment``. It checks labels
and runs once, in any form. It computes fairtk's own measures for all queries at once, and passes
other measures to the other providers.

Other providers do not support samples, numeric ids, or columns of other types; they get the result
of `run_for_other_providers`. An unsampled run keeps its scores and row order, so that each
evaluator breaks ties in its own way. For a sampled run in ``E(...)``, they get one ranking per
query at a time, with decreasing scores above 0, because some interpret a score of 0 as "not
retrieved".

pytrec_eval allocates an array as long as a query's largest label. It crashes if all labels of a
query are negative or one is above 2^62, returns zeros at 2^53, takes seconds per query at 100,000,
and raises a TypeError for a label that is not an integer. `SafeTrecEval` replaces it.
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

from fairtk.errors import DataWarning, InputError, PluginError, TruncationWarning, warn
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
from fairtk.frames.columns import RELEVANCE, TO_IR_MEASURES, pyterrier_names, rows_by_code
from fairtk.frames.ids import Ids, are_ids
from fairtk.frames.qrels import mostly_judged, warn_of_unmatched
from fairtk.frames.runs import LOST_SAMPLES
from fairtk.frames.schema import LIMIT
from fairtk.measures.base import FairMeasure, checked_values, iter_parts
from fairtk.measures.ee_variants import explicit_n
from fairtk.measures.labeled_run import ExactExposure, LabeledRun
from fairtk.measures.mixed_samples import SampleCheck, sample_warnings
from fairtk.measures.parsing import check_names

LARGEST_LABEL = 100_000
"""The largest label that is passed to pytrec_eval."""

Labels = Mapping[str, Mapping[str, int]]


class SafeTrecEval(PytrecEvalProvider):  # type: ignore[misc]
    """pytrec_eval with labels that it supports."""

    NAME = "fairtk_trec_eval"

    def _evaluator(self, measures: Iterable[Any], qrels: Any) -> Any:
        # ir_measures passes a set, and counts NumRet by its first measure, which must not be
        # judged_only
        in_order = sorted(measures, key=lambda m: (bool(m.params.get("judged_only")), repr(m)))
        labels = safe_labels(in_order, QrelsConverter(qrels).as_dict_of_dict())
        return super()._evaluator(in_order, labels)


def safe_labels(measures: Sequence[Any], labels: Labels) -> Labels:
    """Return labels that pytrec_eval supports: zeros for a query whose labels are all negative.

    Other negative labels stay; trec_eval counts them as unjudged.

    Raises:
        InputError: a label is above `LARGEST_LABEL`.
    """
    result = dict(labels)
    for qid, docs in labels.items():
        top = max(docs.values(), default=0)
        if top > LARGEST_LABEL:
            docno = next(docno for docno, label in docs.items() if label == top)
            raise InputError(
                f"{measures[0]!r}: labels must be at most {LARGEST_LABEL:,}, got {top} for qid "
                f"{qid!r}, docno {docno!r}; number the grades 0, 1, 2, ..."
            )
        if top < 0:
            result[qid] = dict.fromkeys(docs, 0)
    return result


def integer_labels(measures: Sequence[Any], labels: FloatArray, where: str) -> IntArray:
    """Return labels as integers; raise an `InputError` for a fraction."""
    fractions = labels != np.floor(labels)
    if fractions.any():
        raise InputError(
            f"{where}: {measures[0]!r} requires integer labels, got "
            f"{labels[fractions][0]:g}; fairtk's own measures accept fractions"
        )
    return labels.astype(np.int64)


def refuse_samples(measures: Sequence[Any], run: Run, where: str = "") -> None:
    """Raise an `InputError` if a run is sampled and a measure does not support samples.

    See `fairtk.frames.Run.is_sampled`.
    """
    others = _split_by_provider(measures)[1]
    # measures of ``ir_measures.define`` support samples if they require the column
    plain = sorted(repr(m) for m in others if SAMPLE not in getattr(m, "RUN_INPUTS", ()))
    if not plain:
        return
    if EXPOSURE in run.frame.columns:
        ExactExposure.of(run).refuse(plain[0])
    if not run.is_sampled:
        return
    finding = f"several rankings of a query (column {SAMPLE!r})"
    remedy = f"write E({plain[0]}) for the mean over samples"
    if SAMPLE not in run.frame.columns:
        finding = f"a duplicate document or rank, and no column {SAMPLE!r}"
        remedy = f"for a sampled run, {remedy} and {LOST_SAMPLES}"
    raise InputError(
        f"{where}{': ' if where else ''}{plain[0]} requires one ranking per query, got {finding}; "
        f"{remedy}"
    )


class FairProvider(FallbackProvider):  # type: ignore[misc]
    """The provider of each `FairMeasure`, which passes other measures to other providers."""

    NAME = "fairtk"

    def __init__(self) -> None:
        providers.Provider.__init__(self)
        self._compared: tuple[list[weakref.ref[Any]], dict[Any, Any]] = [], {}

    @property
    def providers(self) -> list[Any]:
        """The other providers."""
        return list(_other_providers().providers)

    def supports(self, measure: Any) -> bool:
        """Return whether fairtk, a plugin or another provider computes the measure."""
        return isinstance(measure, FairMeasure) or super().supports(measure)

    def run_inputs(self, measures: Iterable[Any]) -> list[str]:
        """Return the required columns of the run, in ir_measures' names.

        ``pt.Experiment`` calls this once, before it creates an evaluator per system.
        """
        listed = list(measures)
        self._compared = [weakref.ref(measure) for measure in listed], {}
        return [TO_IR_MEASURES.get(name, name) for name in run_columns(listed)]

    def qrel_inputs(self, measures: Iterable[Any]) -> list[str]:
        """Return the required columns of the qrels, in ir_measures' names."""
        return [TO_IR_MEASURES.get(name, name) for name in qrel_columns(measures)]

    def _evaluator(self, measures: Iterable[Any], qrels: Any) -> FairEvaluator:
        evaluator = FairEvaluator(measures, qrels)
        compared, notes = self._compared
        if evaluator.own and {*map(id, evaluator.measures)} == {id(ref()) for ref in compared}:
            evaluator.qrels.cache["systems"] = notes
        return evaluator


def run_columns(measures: Iterable[Any]) -> list[str]:
    """Return the columns of the run that measures and their parts require."""
    own, others = _split_by_provider(part for measure in measures for part in iter_parts(measure))
    names = [
        *pyterrier_names(_other_providers().run_inputs(others)),
        *chain(*(m.run_columns for m in own)),
    ]
    return list(dict.fromkeys(names))


def qrel_columns(measures: Iterable[Any]) -> list[str]:
    """Return the columns of the qrels that measures and their parts require."""
    own, others = _split_by_provider(part for measure in measures for part in iter_parts(measure))
    names = [
        *pyterrier_names(_other_providers().qrel_inputs(others)),
        *chain(*(m.QREL_COLUMNS for m in own)),
    ]
    return list(dict.fromkeys(names))


def _split_by_provider(measures: Iterable[Any]) -> tuple[list[FairMeasure], list[Any]]:
    """Return fairtk's measures and all others."""
    listed = list(measures)
    own = [m for m in listed if isinstance(m, FairMeasure)]
    return own, [m for m in listed if not isinstance(m, FairMeasure)]


class FairEvaluator(providers.Evaluator):  # type: ignore[misc]
    """Evaluates any number of runs with qrels that are checked and encoded once.

    Args:
        measures: any measures of fairtk, its plugins and ir_measures.
        qrels: `Qrels`, which are not checked again, or any form that ir_measures accepts.
        warns_of_truncation: whether to warn of truncated rankings and mixed samples of each run;
            otherwise the caller reads `truncation` and `sample_checks` after all runs.
    """

    def __init__(
        self, measures: Iterable[Any], qrels: Any, warns_of_truncation: bool = True
    ) -> None:
        self.warns_of_truncation = warns_of_truncation
        self.sample_checks: dict[str, SampleCheck] = {}  # by system
        measures = list(measures)
        check_names(measures)
        self.own, self._others = _split_by_provider(measures)
        # ir_measures passes a set, whose order differs between processes
        self.own.sort(key=attrgetter("text"))
        self.where = ", ".join([*(m.text for m in self.own), *sorted(map(repr, self._others))])
        # measures of ``ir_measures.define`` may get fewer columns than they declare
        strict = [m for m in self._others if not hasattr(m, "runtime_impl")]
        self._needs = run_columns(strict)
        names = [*chain(*(m.QREL_COLUMNS for m in self.own)), *qrel_columns(strict)]
        self._given, self._label_columns = qrels, dict.fromkeys(names)
        if self._others:
            are_plain = _are_plain(qrels, are_labels=True)
            self._labels = (
                qrels if are_plain else labels_for_other_providers(self._others, self.qrels)
            )
            self._by_others = _other_providers().evaluator(self._others, self._labels)
        qids = set(self.qrels.qids) if self.own else self._by_others.qrel_qids
        self._reads_documents = DOCNO in names or bool(self._others)
        super().__init__([*self.own, *self._others], qids)

    @cached_property
    def qrels(self) -> Qrels:
        """The checked labels."""
        where = f"{self.where} (qrels)"
        if isinstance(self._given, Qrels):
            require_columns(self._given.frame, self._label_columns, where)
            return self._given
        return Qrels(self._given, self.where, self._label_columns, either=True)

    @cached_property
    def truncation(self) -> Truncation:
        """Truncated rankings over all runs."""
        return Truncation(self.own, self.qrels)

    def values(self, run: Run, system: str = "") -> Iterator[tuple[Any, FloatArray]]:
        """Yield each measure with its values, in the order of ``qrels.qids``, of a checked run.

        Values are NaN if an evaluator returns none.
        """
        refuse_samples(self._others, run, run.where)
        yield from self._own_values(run, system)
        if self._others:
            metrics = self._by_others.iter_calc(run_for_other_providers(self._others, run))
            yield from _tabled(metrics, self._others, self.qrels).items()

    def iter_calc(self, run: Any) -> Iterator[Metric]:
        """Yield the value of each measure and query of the labels."""
        checked, given = self._read(run)
        own = (self._metrics(m, m.per_query(values)) for m, values in self._own_values(checked))
        others = self._by_others.iter_calc(given) if self._others else ()
        return chain(chain.from_iterable(own), others)

    def calc(self, run: Any) -> CalcResults:
        """Return the aggregate and the per-query values of each measure."""
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
            run.order  # noqa: B018 - sorts, so that duplicates raise before a measure is computed
        judged = LabeledRun(self.qrels, run, self.where)
        judged.cache["inside E"] = [m["measure"] for m in self.own if m.NAME == "E"]
        values = [(measure, checked_values(measure, judged)) for measure in self.own]
        check = SampleCheck.of(judged.run)
        if check is not None:
            self.sample_checks[system] = check
            if self.warns_of_truncation:
                for text in sample_warnings({system: check}):
                    warn(text, DataWarning)
        if self.truncation.measures:
            self.truncation.add(judged, system)
            if self.warns_of_truncation:
                for text in truncation_texts(self.truncation.truncated_rankings(), 1):
                    warn(text, TruncationWarning)
        return values

    def _read(self, run: Any) -> tuple[Run | None, Any]:
        """Return the checked run, and the run in the form for other evaluators.

        The first is `None` if only other evaluators need it and its dicts are valid.
        """
        if isinstance(run, Iterator):  # rows, which are read twice
            run = list(run)
        mapping = None if self.own else _plain_mapping(run)
        if mapping is None:
            checked = self.checked(run)
            return checked, run_for_other_providers(self._others, checked) if self._others else None
        if not isinstance(self._labels, Mapping) or not mostly_judged(self._labels, mapping):
            qids = [qid for qid, docs in mapping.items() if docs]
            queries = Ids(np.array(qids, dtype=object))
            warn_of_unmatched(self.qrels, queries, lambda i: mapping[qids[i]], self.where)
        return None, mapping

    def checked(self, run: Any) -> Run:
        """Return a checked run from any form; warn if its ids do not match the labels."""
        where = f"{self.where} (run)"
        checked = Run(run, where, either=True)
        if self._needs:
            require_columns(checked.frame, self._needs, where)
        if SCORE in self._needs:
            checked.scores  # noqa: B018 - checks them
        documents = self._reads_documents and DOCNO in checked.frame.columns
        if documents and DOCNO in self.qrels.frame.columns:
            checked.indices_in(self.qrels.documents)  # fast if most documents are labeled
        of_query = checked.documents_of if documents else None
        warn_of_unmatched(self.qrels, checked.queries, of_query, self.where)
        refuse_samples(self._others, checked)
        return checked


def _plain_mapping(run: Any) -> Mapping[str, Mapping[str, float]] | None:
    """Return a run as dicts; `None` unless it has valid dicts or rows."""
    mapping = run
    if isinstance(run, list) and {*map(type, run)} == {ir_measures.ScoredDoc}:
        mapping = {}
        for qid, docno, score in run:
            mapping.setdefault(qid, {})[docno] = score
        if sum(map(len, mapping.values())) < len(run):  # a document occurs twice
            return None
    return mapping if _are_plain(mapping) else None


def _are_plain(data: Any, are_labels: bool = False) -> bool:
    """Return whether data are valid dicts for any evaluator."""
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


def run_for_other_providers(measures: Sequence[Any], run: Run) -> Any:
    """Return a checked run in the form for other evaluators, with ids as text.

    This is ``{qid: {docno: score}}``, which ir_measures would build row by row; or a frame, if a
    measure reads other columns or is defined by ``ir_measures.define``.
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


def labels_for_other_providers(measures: Sequence[Any], qrels: Qrels) -> Any:
    """Return checked labels in the form for other evaluators; see `run_for_other_providers`."""
    of_trec_eval = [m for m in measures if ir_measures.pytrec_eval.supports(m)]
    if len(of_trec_eval) == len(measures):
        return qrels.by_query(integer_labels(measures, qrels.labels, qrels.where))
    frame = qrels.with_text_ids().rename(columns=TO_IR_MEASURES)
    is_whole = bool((qrels.labels == np.floor(qrels.labels)).all())
    if RELEVANCE in frame.columns and (of_trec_eval or is_whole):
        integers = integer_labels(of_trec_eval, qrels.labels, qrels.where)
        frame = frame.assign(**{RELEVANCE: integers})
    return frame


def _other_providers() -> FallbackProvider:
    every = [p for p in ir_measures.DefaultPipeline.providers if not isinstance(p, FairProvider)]
    return FallbackProvider([_TREC_EVAL if p is ir_measures.pytrec_eval else p for p in every])


_TREC_EVAL = SafeTrecEval()


# Measures inside other measures ------------------------------------------------------------------


def values_of(measures: Sequence[Any], judged: LabeledRun) -> dict[Any, FloatArray]:
    """Return the values of each measure; shape (n_queries,), NaN without a value.

    For measures of other providers, the run must not be sampled.
    """
    own, others = _split_by_provider(measures)
    result = {measure: checked_values(measure, judged) for measure in own}
    if others:
        _require_columns(others, judged)
        refuse_samples(others, judged.run)
        if DOCNO in judged.run.frame.columns:
            judged.run.checked()  # the same checks as for a sampled run
        result |= _values_from_other_providers(others, judged, judged.run)
    return result


def values_by_ranking(
    measures: Sequence[Any], judged: LabeledRun
) -> tuple[dict[Any, FloatArray], dict[Any, FloatArray]]:
    """Return values of each ranking, shape (n_rankings,), and of missing queries, (n_queries,).

    Values are NaN if an evaluator returns none.
    """
    _require_columns(measures, judged)
    own, others = _split_by_provider(measures)
    run = judged.run
    values = {measure: np.full(run.n_rankings, np.nan) for measure in measures}
    absent = {measure: np.full(len(judged.qids), np.nan) for measure in measures}
    # scores that follow the ranks
    score = np.float64(run.position.max(initial=0) + 1) - run.position
    ids = {QID: run.qids[run.query], DOCNO: run.docnos[run.doc]}
    frame = run.frame.drop(columns=SAMPLE, errors="ignore").iloc[run.order]
    frame = frame.assign(**ids, **{SCORE: score, RANK: run.position})
    for sample, rows in frame.groupby(run.ranking_sample[run.ranking]):
        rankings = run.ranking_sample == sample
        alone = LabeledRun(judged.qrels, Run(rows, run.where), judged.where)
        alone.cache["sizes compared"] = True  # samples are not systems
        table = {measure: checked_values(measure, alone) for measure in own}
        if others:
            table |= _values_from_other_providers(others, judged, alone.run)
        for measure, of_query in table.items():
            values[measure][rankings] = of_query[judged.ranking_query[rankings]]
            absent[measure] = of_query
    return values, absent


def _tabled(
    metrics: Iterable[Metric], measures: Sequence[Any], qrels: Qrels
) -> dict[Any, FloatArray]:
    """Return values by measure, in the order of the labels' queries; NaN without a value."""
    place = {qid: i for i, qid in enumerate(qrels.qids)}
    table = {m: np.full(len(place), np.nan) for m in measures}
    for metric in metrics:
        table[metric.measure][place[metric.query_id]] = metric.value
    return table


def _values_from_other_providers(
    measures: Sequence[Any], judged: LabeledRun, run: Run
) -> dict[Any, FloatArray]:
    """Return values from other evaluators, which are cached, because they copy the labels."""
    cache, key = judged.qrels.cache, ("evaluator", *measures)
    if key not in cache:
        if LABEL in judged.qrels.frame.columns:
            integer_labels(measures, judged.qrels.labels, judged.where)
        labels = labels_for_other_providers(measures, judged.qrels)
        cache[key] = _other_providers().evaluator(measures, labels)
    metrics = cache[key].iter_calc(run_for_other_providers(measures, run))
    return _tabled(metrics, measures, judged.qrels)


def _require_columns(measures: Sequence[Any], judged: LabeledRun) -> None:
    """Raise a `ColumnError` if a column of run or labels is missing, and name the measures."""
    require_columns(judged.run.frame, run_columns(measures), f"{judged.where} (run)")
    require_columns(judged.qrels.frame, qrel_columns(measures), f"{judged.where} (qrels)")


# Truncated rankings ------------------------------------------------------------------------------


Truncated = dict[str, dict[str, dict[str, int]]]
"""The length of a query's shortest ranking, by measure, system and qid."""


class Truncation:
    """Rankings with fewer than min(k, n) documents, over all runs of one call.

    n is the measure's parameter ``n`` if it is a number; otherwise the number of distinct documents
    of the query in the labels and all runs.

    Args:
        measures: any measures; those without a cutoff or `depends_on_length` are ignored.
        qrels: the labels.
    """

    def __init__(self, measures: Iterable[Any], qrels: Qrels) -> None:
        parts = [part for measure in measures for part in iter_parts(measure)]
        cut = [m for m in parts if getattr(m, "depends_on_length", False) and m["cutoff"]]
        self.measures = list(dict.fromkeys(cut))
        self.qrels = qrels
        self._shortest: dict[str, IntArray] = {}  # per system and query, -1 without a ranking
        self._most = np.zeros(len(qrels.qids), dtype=np.int64)  # documents of a query in a run
        self._documents: dict[int, set[Any]] = {}  # of queries without a ranking of k documents

    def add(self, judged: LabeledRun, system: str) -> None:
        """Add the rankings of a run."""
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

    def truncated_rankings(self) -> Truncated:
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
        """Return the number n of documents of each query, exact if it is below the cutoff."""
        if "n" in measure.SUPPORTED_PARAMS and (n := explicit_n(measure, self.qrels)) is not None:
            return n
        labeled = np.bincount(self.qrels.query, minlength=len(self._most))
        documents_of = np.maximum(labeled, self._most).astype(np.int64)
        for query, documents in self._documents.items():
            if documents_of[query] < measure["cutoff"]:
                labels = self.qrels.docnos[self.qrels.doc[self.qrels.rows_of(query)]]
                documents_of[query] = len(documents.union(labels.tolist()))
        return documents_of


def truncation_texts(truncated: Truncated, n_systems: int) -> list[str]:
    """Return one message per measure, with the number of queries by system.

    Args:
        truncated: the result of `Truncation.truncated_rankings`.
        n_systems: the number of systems of the call.
    """
    texts = []
    for measure, systems in truncated.items():
        cutoff = measure.rpartition("@")[2]
        counts = [
            f"{len(qids)} quer{'y' if len(qids) == 1 else 'ies'}{f' of {name}' if name else ''}"
            for name, qids in systems.items()
        ]
        if len(counts) > 5:
            counts[4:] = [f"some queries of {len(counts) - 4} more systems"]
        text = (
            f"{measure}: rankings are shorter than min({cutoff}, n) documents for "
            f"{', '.join(counts)}. "
            "Exposure over fewer documents usually looks more even; retrieve more, or use "
            "a smaller cutoff"
        )
        lengths = list(systems.values())
        if len(lengths) < n_systems or any(length != lengths[0] for length in lengths):
            text += ". Lengths differ between systems, so their values are not comparable"
        texts.append(text)
    return texts


# Names and providers of ir_measures ---------------------------------------------------------------


def publish(name: str, measure: Any) -> None:
    """Register a measure with ir_measures under its name; `None` unregisters it."""
    names = ir_measures.measures.registry
    if measure is None:
        if isinstance(names.get(name), FairMeasure):
            del names[name]
        return
    if name in names and not isinstance(names[name], FairMeasure):
        raise PluginError(f"duplicate measure {name!r}: ir_measures has it already; rename it")
    names[name] = measure


def connect() -> None:
    """Put `FairProvider` before the providers of ir_measures, once."""
    pipeline = ir_measures.DefaultPipeline.providers
    if not any(isinstance(p, FairProvider) for p in pipeline):
        pipeline.insert(0, FairProvider())
