"""One run beside the labels as arrays, encoded once and shared by all measures of a call."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
import pandas as pd

from fairtk.errors import ColumnError, InputError
from fairtk.exposure import BrowsingModel
from fairtk.frames import (
    ALPHA,
    BROWSING,
    CUTOFF,
    DOCNO,
    EXPOSURE,
    QID,
    RANK,
    SAMPLE,
    SCORE,
    BoolArray,
    FloatArray,
    Ids,
    IntArray,
    ObjectArray,
    Qrels,
    Rankings,
    Run,
    rankings_of,
    rows_by_code,
    warn_of_other_docnos,
    warn_of_other_qids,
)


@dataclass(frozen=True)
class ExactExposure:
    """What a frame X says of its exposure."""

    run: pd.DataFrame  # the frame with its exposure as scores, and without ranks
    browsing: str  # the string form of the browsing model
    cutoff: int | None  # the cutoff; None: all ranks

    def __str__(self) -> str:
        return f"browsing={self.browsing!r} and cutoff={self.cutoff}"

    @classmethod
    def of(cls, run: pd.DataFrame, where: str) -> ExactExposure:
        """Return what a frame X, which has the column ``exposure``, says of it, checked."""
        if BROWSING not in run.columns or CUTOFF not in run.columns:
            raise ColumnError(
                f"{where} has the column {EXPOSURE!r}, as exact exposure has, but not both of "
                f"{BROWSING!r} and {CUTOFF!r}, which say what it holds for: keep all three, or "
                f"rename {EXPOSURE!r} if it means something else"
            )
        if SAMPLE in run.columns:
            raise InputError(
                f"{where}: the columns {EXPOSURE!r} and {SAMPLE!r} exclude each other: exact "
                "exposure has no samples; drop one of them"
            )
        for name in (BROWSING, CUTOFF, ALPHA):
            if name in run.columns and run[name].nunique(dropna=False) > 1:
                found = run[name].unique().tolist()
                raise InputError(
                    f"{where}: the exposure of one system has several values of {name!r} "
                    f"({found}); measure them one by one, e.g. those of run.groupby({name!r})"
                )
        column = pd.to_numeric(run[EXPOSURE], errors="coerce")
        if (column < 0).any():
            raise InputError(f"{where}: exposure must be at least 0; found {column.min()}")
        cutoff: Any = run[CUTOFF].iloc[0] if len(run) else None
        return cls(
            run.drop(columns=RANK, errors="ignore").assign(**{SCORE: run[EXPOSURE]}),
            str(run[BROWSING].iloc[0]) if len(run) else "",
            None if pd.isna(cutoff) else int(cutoff),
        )

    def check(self, where: str, model: BrowsingModel, cutoff: int | None) -> None:
        """Raise an `InputError` unless the exposure holds for what a measure is made with."""
        if model.stop > 0:
            raise InputError(
                f"{where}: under browsing={str(model)!r} exposure depends on which documents are "
                f"useful, so no exact exposure (column {EXPOSURE!r}) holds for it; measure "
                "sampled rankings instead (FairSampler)"
            )
        if len(self.run) and (str(model), cutoff) != (self.browsing, self.cutoff):
            raise InputError(
                f"{where} needs exposure with browsing={str(model)!r} and cutoff={cutoff}, but "
                f"that of the run (its column {EXPOSURE!r}) was made with {self}; make it anew, "
                f"e.g. PlackettLuceExposure(browsing={str(model)!r}, cutoff={cutoff}), or change "
                "the measure"
            )

    def refuse(self, measure: Any) -> NoReturn:
        """Raise an `InputError`: the measure needs rankings."""
        raise InputError(
            f"{measure} reads rankings, but the run is exact exposure (it has the column "
            f"{EXPOSURE!r}, made with {self}), which has none: measure sampled rankings instead "
            "(FairSampler), or EE_D, EE_R, EE_L, AWRF, or E(nDCG@k) of exposure with "
            "browsing='DCG' and cutoff=k"
        )


class Evidence:
    """One run beside the labels.

    Attributes:
        qrels: the labels.
        qids: the queries of the labels; shape (n_queries,).
        run: the rows of the run whose queries have labels.
        present: which of the queries the run has; shape (n_queries,).
        exact: what the run says of its exposure if it is a frame X, None for rankings. Its
            documents then stand in the order of exposure.
        query_of_run: for each query of the rankings, its index among `qids`.

    Args:
        qrels: the labels.
        run: the run, in PyTerrier's or ir_measures' names; queries without labels are ignored, as
            ir_measures does.
        where: the measures, for messages.
        warns: whether ids that match nothing are said.
    """

    def __init__(self, qrels: Qrels, run: pd.DataFrame, where: str, warns: bool = True) -> None:
        self.exact: ExactExposure | None = None
        if EXPOSURE in getattr(run, "columns", ()):  # what is no frame is refused below
            self.exact = ExactExposure.of(run, f"{where} (run)")
            run = self.exact.run
        whole = Run(run, f"{where} (run)", either=True)
        self.qrels = qrels
        self.where = where
        self.qids = qrels.qids
        known = qrels.queries.find(whole.queries)
        self.run = whole
        if (known < 0).any():
            if warns:
                warn_of_other_qids(qrels, whole.queries, where)
            self.run = whole.kept(known[whole.query] >= 0)
        self.query_of_run: IntArray = known[known >= 0]
        self.frame = self.run.frame
        self.present: BoolArray = np.zeros(len(self.qids), dtype=bool)
        self.present[known[known >= 0]] = True
        self.cache: dict[Any, Any] = {}
        self._warns = warns

    @cached_property
    def rankings(self) -> Rankings:
        """The run, validated and sorted."""
        labeled = self.qrels.documents if DOCNO in self.qrels.frame.columns else None
        return rankings_of(self.run, labeled)

    @property
    def is_sampled(self) -> bool:
        """Whether a query has several rankings; see `fairtk.frames.Run`."""
        return self.run.is_sampled

    def exposure_of_rows(self, where: str, model: BrowsingModel, cutoff: int | None) -> FloatArray:
        """Return the exposure of each sorted row of a frame X; not for rankings.

        Raises an `InputError` if the frame was made for another browsing model or cutoff.
        """
        if self.exact is not None:
            self.exact.check(where, model, cutoff)
        exposure: FloatArray = self.run.scores[self.rankings.order]
        return exposure

    def warn_of_other_docnos(self) -> None:
        """Warn if labels and run do not seem to name documents alike, as `pairs` does."""
        if DOCNO in self.frame.columns:
            warn_of_other_docnos(self.qrels, Ids(self.run.qids), self.run.documents_of, self.where)

    def restricted(self, labels: BoolArray, rows: BoolArray | None = None) -> Evidence:
        """Return the evidence of some documents alone; the ranks they had are kept.

        `labels` says which rows of the qrels stay, `rows` which sorted rows of the run; None: all.
        """
        part = copy(self)
        part.qrels, part.cache, part._warns = self.qrels.kept(labels), {}, False
        part.__dict__.pop("pairs", None)
        ranked = self.rankings
        if rows is not None:
            ranking = ranked.ranking[rows]
            ranked = replace(
                ranked,
                order=ranked.order[rows],
                doc=ranked.doc[rows],
                query=ranked.query[rows],
                ranking=ranking,
                position=ranked.position[rows],
                ranking_start=np.searchsorted(ranking, np.arange(ranked.n_rankings + 1)),
            )
        part.__dict__["rankings"] = ranked  # in place of what cached_property would compute
        return part

    @cached_property
    def pairs(self) -> Pairs:
        """All (query, document) pairs that are labeled or retrieved."""
        pairs = Pairs(self)
        if self._warns and (pairs.of_row >= len(self.qrels.query)).any():  # some are not judged
            self.warn_of_other_docnos()
        return pairs

    def by_query(
        self, cutoff: int | None
    ) -> Iterator[tuple[int, pd.DataFrame, pd.DataFrame | None]]:
        """Yield the index, the labels and the rankings of each query; None: no rankings.

        Ranks from the cutoff on are left out, within each sample.
        """
        ranked = self.rankings
        frame = self.frame.iloc[ranked.order].copy()
        frame[SAMPLE] = ranked.ranking_sample[ranked.ranking]
        frame[RANK] = ranked.position
        for name, ids in ((QID, ranked.qids[ranked.query]), (DOCNO, ranked.docnos[ranked.doc])):
            if isinstance(frame[name].dtype, pd.CategoricalDtype):  # not what authors expect
                frame[name] = ids
        keep = np.ones(len(frame), bool) if cutoff is None else ranked.position < cutoff
        query = self.query_of_run[ranked.query][keep]
        frame = frame[keep].reset_index(drop=True)
        order, start = rows_by_code(query, len(self.qids))
        for index in range(len(self.qids)):
            rows = order[start[index] : start[index + 1]]
            run = frame.iloc[rows] if len(rows) else None
            yield index, self.qrels.frame.iloc[self.qrels.rows_of(index)], run


class Pairs:
    """The distinct (query, document) pairs of labels and run; labels come first.

    Attributes:
        query: query index of each pair; shape (n_pairs,).
        doc: index into `docnos` of each pair; shape (n_pairs,).
        label: label of each pair, NaN for an unjudged one; shape (n_pairs,).
        of_row: pair index of each sorted row of the run; shape (n_rows,).
    """

    def __init__(self, evidence: Evidence) -> None:
        qrels, rankings = evidence.qrels, evidence.rankings
        n_labeled, known = qrels.documents.size, np.array(rankings.place)
        run_query = evidence.query_of_run[rankings.query]
        of_row = qrels.place(run_query, known[rankings.doc])
        other = np.flatnonzero(known < 0)  # documents without any label
        known[other] = n_labeled + np.arange(len(other))
        fresh = of_row < 0
        width = n_labeled + len(other)
        codes, distinct = pd.factorize((run_query * width + known[rankings.doc])[fresh])
        of_row[fresh] = len(qrels.query) + codes
        self.query: IntArray = np.concatenate([qrels.query, distinct // max(1, width)])
        self.doc: IntArray = np.concatenate([qrels.doc, distinct % max(1, width)])
        self.label: FloatArray = np.concatenate([qrels.labels, np.full(len(distinct), np.nan)])
        self.of_row: IntArray = of_row
        self._documents = qrels.documents, rankings.documents, other

    def __len__(self) -> int:
        return len(self.query)

    @cached_property
    def docnos(self) -> ObjectArray:
        """The documents that are labeled or retrieved."""
        labeled, retrieved, other = self._documents
        return np.concatenate([labeled.text, retrieved.text[other]])
