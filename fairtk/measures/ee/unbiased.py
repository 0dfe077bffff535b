"""What sampling adds to the squared norm of exposure, and EE-D and EE-L without it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fairtk.errors import InputError
from fairtk.exposure.expected import total
from fairtk.measures.ee.form import Form, Found
from fairtk.measures.evidence import Evidence


def without_sampling(form: Form, evidence: Evidence, found: Found) -> Found:
    """Return values whose EE-D and EE-L are right in expectation, whatever the number of samples.

    The mean exposure of N rankings has the squared norm ((N - 1) D + W) / N in expectation, with D
    that of the policy and W the mean squared norm of its rankings: one number for all rankings
    under models that look at ranks alone, the mean over the samples under a cascade. A query whose
    run has no samples is left as it is: its ranking is the policy.
    """
    ranked = evidence.rankings
    if not ranked.sampled:
        return found
    query = evidence.query_of_run[ranked.ranking_query]
    n = np.bincount(query, minlength=len(evidence.qids))
    alone = np.flatnonzero(n == 1)
    if len(alone):
        raise InputError(
            f"{form.where}: qid {str(evidence.qids[alone[0]])!r} has one sample ({len(alone)} such "
            "queries), and the unbiased estimate needs two; draw more, drop the column 'sample' "
            "of a ranking that is always the same, or say estimator='plain'"
        )
    square = total(query, form.shown(evidence).square(), len(n)) / np.maximum(n, 1)
    values = found.values
    added = np.where(n > 0, (square - values.disparity.value) / np.maximum(n - 1, 1), 0.0)
    disparity = replace(values.disparity, value=values.disparity.value - added)
    loss = replace(values.loss, value=values.loss.value - added)
    return replace(found, values=replace(values, disparity=disparity, loss=loss))
