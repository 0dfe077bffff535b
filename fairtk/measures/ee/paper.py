"""The form of the papers: documents, each with a target."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairtk.errors import ColumnError, InputError, listed
from fairtk.exposure.bounds import values_and_bounds
from fairtk.exposure.expected import make_grades
from fairtk.frames.arrays import FloatArray, IntArray
from fairtk.frames.columns import QID
from fairtk.measures.base import FairMeasure
from fairtk.measures.ee.form import Form, Found, Reasons, counts
from fairtk.measures.evidence import Evidence


class PaperForm(Form):
    """Towards Fair RAG, Eqs. 3 to 6 and Appendix C; Diaz et al. 2020."""

    def __init__(self, measure: FairMeasure) -> None:
        super().__init__(measure)
        self.exact = measure.settings["bounds"] == "exact"
        self.n: str | int = measure.settings["n"]

    def find(self, evidence: Evidence) -> Found:
        """Return the values of all queries."""
        n, is_open = self.n_documents(evidence), self.n == "judged+retrieved"
        pairs, n_queries = evidence.pairs, len(evidence.qids)
        ranks = self.ranks(int(n.max(initial=0)))
        grade, useful, exposure, n_useful = self.judged(evidence)
        values = values_and_bounds(
            exposure,
            pairs.query,
            make_grades(pairs.query, np.nan_to_num(grade), n_queries, n),
            ranks,
            self.cutoff,
            exact=self.exact,
            closed=not is_open,
        )
        undefined: Reasons = ()
        if self.n == "judged":
            # documents without a label stand for labeled ones that are not useful, if there are any
            read = counts(pairs.query, (exposure > 0) & ~useful, n_queries)
            reason = "its rankings have more documents that are not useful than n='judged' counts"
            undefined = ((reason, read > n - n_useful),)
        return Found(
            values,
            useless=n_useful == 0,
            undefined=undefined,
            unbounded=self._short(evidence, n) if self.exact else (),
            n=n if is_open else None,
            # with the paper's bounds EE-D knows n only where the cutoff exceeds it
            disparity_has_n=self.exact or self.cutoff is None or bool((n < self.cutoff).any()),
        )

    def targets(self, evidence: Evidence) -> FloatArray:
        """Return the target exposure of each pair; shape (n_pairs,)."""
        n, pairs = self.n_documents(evidence), evidence.pairs
        grade = np.nan_to_num(self.grades(pairs.label))
        grades = make_grades(pairs.query, grade, len(evidence.qids), n)
        target = self.ranks(int(n.max(initial=0))).target(grades)
        return np.append(target, 0.0)[grades.of_pair]

    def n_documents(self, evidence: Evidence) -> IntArray:
        """Return the number n of documents of each query; shape (n_queries,)."""
        wanted: Any = self.n
        pairs, n_queries = evidence.pairs, len(evidence.qids)
        known = np.bincount(pairs.query, minlength=n_queries)
        if wanted == "judged+retrieved":
            return known
        if wanted == "judged":
            return counts(pairs.query, ~np.isnan(pairs.label), n_queries)
        n = (
            np.full(n_queries, wanted, dtype=np.int64)
            if isinstance(wanted, int)
            else self._n_of_column(evidence, wanted)
        )
        short = n < known
        if short.any():
            at = int(np.flatnonzero(short)[0])
            useful = counts(pairs.query, self.grades(pairs.label) > 0, n_queries)
            raise InputError(
                f"{self.where}: n is {n[at]} for qid {evidence.qids[at]!r}, but {known[at]} of its "
                f"documents are judged or retrieved, {useful[at]} of them useful; "
                "n is the number of all documents of a query"
            )
        return n

    def _n_of_column(self, evidence: Evidence, column: str) -> IntArray:
        frame = evidence.qrels.frame
        if column not in frame.columns:
            raise ColumnError(
                f"{self.where}: n must be 'judged+retrieved', 'judged', a number or a column of "
                f"the qrels; there is no column {column!r} among {list(frame.columns)}"
            )
        values = frame[column].to_numpy(dtype=np.float64, na_value=np.nan)
        query = evidence.qrels.query
        n = np.full(len(evidence.qids), np.nan)
        n[query] = values
        wrong = ~(n[query] == values) | (values != np.floor(values))
        if wrong.any():
            bad = listed(dict.fromkeys(str(q) for q in frame[QID].to_numpy()[wrong]))
            raise InputError(
                f"{self.where}: column {column!r} of the qrels must hold one whole number per "
                f"query; it does not for qid {bad}"
            )
        return n.astype(np.int64)

    def _short(self, evidence: Evidence, n: IntArray) -> Reasons:
        """Return where rankings are shorter than those that the exact bounds are made for."""
        ranked = evidence.rankings
        query = evidence.query_of_run[ranked.ranking_query]
        depth = n if self.cutoff is None else np.minimum(n, self.cutoff)
        short = np.diff(ranked.ranking_start) < depth[query]
        wanted = "n" if self.cutoff is None else f"min({self.cutoff}, n)"
        reason = (
            f"a ranking has fewer than {wanted} documents, so that the exact bounds, those of full "
            "rankings, do not hold"
        )
        return ((reason, counts(query, short, len(n)) > 0),)
