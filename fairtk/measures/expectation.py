"""E(measure): the expectation of any measure over sampled rankings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import ir_measures
import numpy as np
import pandas as pd

from fairtk.errors import ParameterError
from fairtk.frames.arrays import FloatArray
from fairtk.frames.columns import DOC_ID, DOCNO, QID, QUERY_ID, SCORE, TO_IR_MEASURES
from fairtk.measures.base import FairMeasure
from fairtk.measures.evidence import Evidence, plain_run
from fairtk.measures.params import NOT_GIVEN, MeasureParam, Param


class Expectation(FairMeasure):
    """The mean of a measure over the sampled rankings of each query.

    ``E(nDCG@5)`` is the expected nDCG@5 of a stochastic ranking policy, estimated from its samples
    (the sum over rankings in Eq. 7 of Towards Fair RAG, with any measure as the utility). Plain
    measures must not be used on a sampled run: they read its samples as one ranking. Range and
    direction are those of the measure. On a run without samples it is the measure itself. The
    cutoff is the measure's own: ``E(nDCG@5)``, and ``E(nDCG)@5`` means the same.
    """

    NAME = "E"
    PRETTY_NAME: ClassVar[str] = "Expectation over samples"
    CITATION: ClassVar[str] = "kim2024fairrag"
    BETTER: ClassVar[str] = "higher"
    MISSING: ClassVar[float] = 0.0
    SUPPORTED_PARAMS: ClassVar[dict[str, Param]] = {
        "measure": MeasureParam("any measure of ir_measures or fairtk, e.g. 'nDCG@5'")
    }

    def __call__(self, measure: Any = NOT_GIVEN, **params: Any) -> Expectation:
        """Return the expectation of a measure: ``E(nDCG@5)``.

        Args:
            measure: the measure, or its string form.
            **params: none other exists; a wrong name is an error.
        """
        given = {} if measure is NOT_GIVEN else {"measure": measure}
        return type(self)(**{**self.params, **given, **params})

    def __matmul__(self, at_param: Any) -> Expectation:
        inner = self.inner
        if inner.params.get(inner.AT_PARAM) is not None:
            raise ParameterError(f"{self!r} has its cutoff inside already; drop @{at_param}")
        return self(inner @ at_param)

    @property
    def inner(self) -> Any:
        """The measure whose expectation is taken."""
        if "measure" not in self.params:
            raise ParameterError("E needs a measure: write E(nDCG@5)")
        return self["measure"]

    @property
    def parts(self) -> list[Any]:
        """The measures that this one is made of."""
        return [self.inner]

    @property
    def better(self) -> str:
        """The measure's direction; ir_measures' own are taken to be higher-is-better."""
        return getattr(self.inner, "better", self.BETTER)

    def score_all(self, evidence: Evidence) -> FloatArray:
        """Return the expectation for each query; what the run lacks gets the measure's default."""
        wanted = evidence.cache.setdefault("expectations", [self])
        if self not in wanted:
            wanted = [self]
        key = ("expectation", tuple(map(repr, wanted)))
        if key not in evidence.cache:
            evidence.cache[key] = _expectations([m.inner for m in wanted], evidence)
        result: FloatArray = evidence.cache[key][self.inner]
        return result


def _expectations(measures: list[Any], evidence: Evidence) -> dict[Any, FloatArray]:
    # One evaluator holds the labels for all samples; each call sees one ranking per query.
    n_queries = len(evidence.qids)
    distinct = list(dict.fromkeys(measures))
    qrels = evidence.judgments.frame.rename(columns=TO_IR_MEASURES)
    evaluator = ir_measures.evaluator(distinct, qrels)
    plain = set(ir_measures.run_inputs(distinct)) <= {QUERY_ID, DOC_ID, SCORE}
    ours = any(isinstance(m, FairMeasure) for m in distinct)
    parts = _frames(evidence) if ours or not plain else _dicts(evidence)
    index = {qid: i for i, qid in enumerate(evidence.qids)}
    total = {m: np.zeros(n_queries) for m in distinct}
    absent = {m: np.full(n_queries, np.nan) for m in distinct}
    count = np.zeros(n_queries)
    for here, part in parts:
        for metric in evaluator.iter_calc(part):
            at = index[metric.query_id]
            if metric.query_id in here:
                total[metric.measure][at] += metric.value
            else:
                absent[metric.measure][at] = metric.value
        count[[index[q] for q in here]] += 1
    return {m: np.where(count > 0, total[m] / np.maximum(count, 1), absent[m]) for m in distinct}


def _frames(evidence: Evidence) -> Iterator[tuple[set[str], Any]]:
    """Yield the queries and the run, as a frame, of each sample."""
    columns = [c for c in evidence.frame.columns if c not in (QID, DOCNO, SCORE)]
    run = plain_run(evidence, columns).rename(columns=TO_IR_MEASURES)
    ranked = evidence.rankings
    sample = ranked.ranking_sample[ranked.ranking]
    order = np.argsort(sample, kind="stable")
    start = np.flatnonzero(np.diff(sample[order])) + 1
    for rows in np.split(order, start):
        part = run.iloc[rows]
        yield set(part[QUERY_ID]), part


def _dicts(evidence: Evidence) -> Iterator[tuple[set[str], Any]]:
    """Yield the queries and the run of each sample as nested mappings.

    The form that most evaluators work on: much cheaper to make here than from a frame.
    """
    ranked = evidence.rankings
    docnos = ranked.docnos[ranked.doc].tolist()
    start = ranked.ranking_start.tolist()
    longest = int(ranked.position.max(initial=-1)) + 1
    scores = [float(-i) for i in range(longest)]
    qids = ranked.qids[ranked.ranking_query].tolist()
    samples: dict[int, dict[str, dict[str, float]]] = {}
    for ranking, sample in enumerate(ranked.ranking_sample.tolist()):
        docs = docnos[start[ranking] : start[ranking + 1]]
        run = dict(zip(docs, scores, strict=False))
        samples.setdefault(sample, {})[qids[ranking]] = run
    if not samples:
        yield set(), pd.DataFrame({QUERY_ID: [], DOC_ID: [], SCORE: []})
    for part in samples.values():
        yield set(part), part


E = Expectation()
