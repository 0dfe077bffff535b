"""The form of the code that was published with Towards Fair RAG."""

from __future__ import annotations

import numpy as np

from fairtk.errors import ParameterError
from fairtk.exposure.browsing import MU
from fairtk.exposure.expected import make_grades
from fairtk.exposure.published import fair_rag_values
from fairtk.measures.base import FairMeasure
from fairtk.measures.ee.form import Form, Found, counts
from fairtk.measures.evidence import Evidence


class FairRAGForm(Form):
    """``variant="fair-rag"``: useful documents alone have a target."""

    def __init__(self, measure: FairMeasure) -> None:
        super().__init__(measure)
        if not isinstance(self.model, MU):
            raise ParameterError(f"{self.name}: variant='fair-rag' goes with browsing='MU' only")

    def find(self, evidence: Evidence) -> Found:
        """Return the values of all queries."""
        pairs, n_queries = evidence.pairs, len(evidence.qids)
        grade = self.grades(pairs.label)
        useful = grade > 0
        values = fair_rag_values(
            self.exposure(evidence, useful),
            pairs.query,
            make_grades(pairs.query, np.where(useful, 1.0, np.nan), n_queries),
            int(self.cutoff or 0),
            counts(pairs.query, ~np.isnan(grade), n_queries),
        )
        useless = counts(pairs.query, useful, n_queries) == 0
        return Found(values, useless)
