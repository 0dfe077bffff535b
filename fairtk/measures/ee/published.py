"""The forms of the codes that were published with the two papers.

Those of expeval (Diaz et al. 2020), by documents and by groups, and that of Towards Fair RAG.
"""

from __future__ import annotations

import numpy as np

from fairtk.errors import ParameterError
from fairtk.exposure.browsing import MU, RBP
from fairtk.exposure.expected import make_grades
from fairtk.exposure.published import expeval_values, fair_rag_values
from fairtk.groups.exposure import expeval_group_values, expeval_target
from fairtk.measures.base import FairMeasure
from fairtk.measures.ee.form import Form, Found, counts, summed
from fairtk.measures.evidence import Evidence


class ExpevalForm(Form):
    """``variant="expeval"``, by documents."""

    model: RBP

    def __init__(self, measure: FairMeasure) -> None:
        super().__init__(measure)
        if not (isinstance(self.model, RBP) and self.model.p < 1):
            raise ParameterError(
                f"{self.name}: variant='expeval' goes with browsing='RBP(p=...)' or "
                f"'GERR(p=..., u=...)' with p below 1; found {self.model!r}"
            )
        if self.cutoff is not None:
            raise ParameterError(f"{self.name}: variant='expeval' has no cutoff; drop @k")
        self.complete: bool = measure.settings["complete"]

    def find(self, evidence: Evidence) -> Found:
        """Return the values of all queries."""
        pairs, n_queries = evidence.pairs, len(evidence.qids)
        grade, useful, exposure, n_useful = self.judged(evidence)
        known = grade if self.complete else np.where(useful, grade, np.nan)
        grades = make_grades(pairs.query, known, n_queries)
        values = expeval_values(exposure, pairs.query, grades, self.model, complete=self.complete)
        # with complete labels every grade has a target
        return Found(values, (n_useful == 0) & (not self.complete))


class ExpevalGroupsForm(ExpevalForm):
    """``variant="expeval"`` with groups: exposure and target of their documents, summed."""

    def __init__(self, measure: FairMeasure) -> None:
        super().__init__(measure)
        if "target" in measure.params:
            raise ParameterError(
                f"{self.name}: variant='expeval' makes its own target of groups; drop target"
            )
        self.groups = measure.settings["groups"]
        self.disparity_needs_useful = bool(measure.settings["useful_only"])

    def find(self, evidence: Evidence) -> Found:
        """Return the values of all queries."""
        pairs, n_queries = evidence.pairs, len(evidence.qids)
        grade, useful, exposure, n_useful = self.judged(evidence)
        counted = np.flatnonzero(~np.isnan(grade) if self.complete else useful)
        grades = make_grades(pairs.query[counted], grade[counted], n_queries)
        wanted = expeval_target(grades, self.model)[grades.of_pair]
        memberships = self.groups.memberships(pairs.docnos, "drop").binary()
        ones = summed(evidence, memberships, np.ones(len(counted)), counted)
        values = expeval_group_values(
            summed(evidence, memberships, exposure[counted], counted),
            summed(evidence, memberships, wanted, counted),
            n_useful,
            counts(pairs.query, counted, n_queries),
            np.bincount(ones.row, minlength=n_queries),
            self.model,
        )
        return Found(values, (n_useful == 0) & (not self.complete))


class FairRAGForm(Form):
    """``variant="fair-rag"``: useful documents alone have a target."""

    def __init__(self, measure: FairMeasure) -> None:
        super().__init__(measure)
        if not isinstance(self.model, MU):
            raise ParameterError(f"{self.name}: variant='fair-rag' goes with browsing='MU' only")

    def find(self, evidence: Evidence) -> Found:
        """Return the values of all queries."""
        pairs, n_queries = evidence.pairs, len(evidence.qids)
        grade, useful, exposure, n_useful = self.judged(evidence)
        values = fair_rag_values(
            exposure,
            pairs.query,
            make_grades(pairs.query, np.where(useful, 1.0, np.nan), n_queries),
            int(self.cutoff or 0),
            counts(pairs.query, ~np.isnan(grade), n_queries),
        )
        return Found(values, n_useful == 0)
