"""The form of the papers: documents, each with a target."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fairtk.errors import InputError, ParameterError
from fairtk.exposure.bounds import values_and_bounds
from fairtk.exposure.expected import make_grades
from fairtk.frames.arrays import BoolArray, IntArray
from fairtk.measures import collection_size
from fairtk.measures.ee.form import Form, Found, Reasons, counts
from fairtk.measures.evidence import Evidence

if TYPE_CHECKING:
    from fairtk.measures.base import FairMeasure


class PaperForm(Form):
    """Towards Fair RAG, Eqs. 3 to 6 and Appendix C; Diaz et al. 2020."""

    def __init__(self, measure: FairMeasure) -> None:
        super().__init__(measure)
        if "complete" in measure.params:
            raise ParameterError(f"{self.name}: complete goes with variant='expeval' only")
        self.exact = measure.settings["bounds"] == "exact"
        self.n: str | int = measure.settings["n"]

    def find(self, evidence: Evidence) -> Found:
        """Return the values of all queries."""
        pairs, n_queries = evidence.pairs, len(evidence.qids)
        n = self.n_documents(evidence)
        grade = self.grades(pairs.label)
        useful = grade > 0
        n_useful = counts(pairs.query, useful, n_queries)
        exposure = self.exposure(evidence, useful)
        values = values_and_bounds(
            exposure,
            pairs.query,
            make_grades(pairs.query, np.nan_to_num(grade), n_queries, n),
            self.model,
            self.cutoff,
            exact=self.exact,
            closed=self.n != "judged+retrieved",
        )
        return Found(
            values,
            useless=n_useful == 0,
            undefined=self._too_many(pairs.query, (exposure > 0) & ~useful, n - n_useful),
            unbounded=self._short(evidence, n),
        )

    def depends_on_n(self, n: IntArray, part: str) -> bool:
        """Return whether systems that retrieve other documents have other targets or bounds."""
        if self.n != "judged+retrieved":
            return False
        # with the paper's bounds EE-D knows n only where the cutoff exceeds it
        if part != "disparity" or self.exact or self.cutoff is None:
            return True
        return bool((n < self.cutoff).any())

    def n_documents(self, evidence: Evidence) -> IntArray:
        """Return the number n of documents of each query; shape (n_queries,).

        Raises:
            InputError: a given number is smaller than that of the documents that are known.
        """
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
            else collection_size.from_column(self.where, evidence, wanted)
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

    def _short(self, evidence: Evidence, n: IntArray) -> Reasons:
        """Return where rankings are shorter than those that the exact bounds are made for."""
        if not self.exact:
            return ()
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

    def _too_many(self, query: IntArray, read: BoolArray, rest: IntArray) -> Reasons:
        """Return where more documents are ranked than there are by ``n="judged"``.

        Documents without a label stand for labeled ones that are not useful, as long as there are
        enough of these.

        Args:
            query: query index of each pair; shape (n_pairs,).
            read: which pairs are not useful and get attention; same shape.
            rest: number of documents of each query that are not useful; shape (n_queries,).
        """
        if self.n != "judged":
            return ()
        reason = "its rankings have more documents that are not useful than n='judged' counts"
        return ((reason, counts(query, read, len(rest)) > rest),)
