"""The forms of expeval, the code that was published with Diaz et al. 2020."""

from __future__ import annotations

import numpy as np

from fairtk.errors import ParameterError
from fairtk.exposure.browsing import RBP
from fairtk.exposure.expected import make_grades
from fairtk.exposure.published import expeval_values
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
        grade = self.grades(pairs.label)
        useful = grade > 0
        exposure = self.exposure(evidence, useful)
        known = grade if self.complete else np.where(useful, grade, np.nan)
        grades = make_grades(pairs.query, known, n_queries)
        values = expeval_values(exposure, pairs.query, grades, self.model, complete=self.complete)
        useless = counts(pairs.query, useful, n_queries) == 0
        if self.complete:
            useless[:] = False  # every grade has a target
        return Found(values, useless)


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
        grade = self.grades(pairs.label)
        useful = grade > 0
        exposure = self.exposure(evidence, useful)
        counted = np.flatnonzero(~np.isnan(grade) if self.complete else useful)
        grades = make_grades(pairs.query[counted], grade[counted], n_queries)
        wanted = expeval_target(grades, self.model)[grades.of_pair]
        memberships = self.groups.memberships(pairs.docnos, "drop").binary()
        ones = summed(evidence, memberships, np.ones(len(counted)), counted)
        values = expeval_group_values(
            summed(evidence, memberships, exposure[counted], counted),
            summed(evidence, memberships, wanted, counted),
            counts(pairs.query, useful, n_queries),
            counts(pairs.query, counted, n_queries),
            np.bincount(ones.row, minlength=n_queries),
            self.model,
        )
        useless = counts(pairs.query, useful, n_queries) == 0
        if self.complete:
            useless[:] = False
        return Found(values, useless)
