"""A warning where groups are known for few of the documents that a measure looks at."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from fairtk.errors import DataWarning, listed
from fairtk.groups.coverage import coverage_of
from fairtk.measures.base import FairMeasure
from fairtk.measures.evidence import Evidence

if TYPE_CHECKING:
    from fairtk.groups import Groups


def warn_of_thin_labels(
    measure: FairMeasure, evidence: Evidence, groups: Groups, memberships: Any = None
) -> None:
    """Warn, with counts, of queries where under half of the ranks have a known group.

    Args:
        measure: the measure; its cutoff says which ranks are looked at.
        evidence: the run.
        groups: the groups.
        memberships: those of ``evidence.rankings.docnos`` with ``unlabeled="drop"``, if they are at
            hand; they are looked up otherwise.
    """
    known = coverage_of(groups, evidence.rankings, measure["cutoff"], memberships)
    thin = known[known["label_share"] < 0.5]
    if len(thin):
        worst = thin.loc[thin["label_share"].idxmin()]
        warnings.warn(
            f"{measure!r}: groups are known for under half of the documents of {len(thin)} of "
            f"{len(known)} queries ({listed(thin['qid'].tolist(), 3)}; {worst['with_label']} "
            f"of {worst['retrieved']} for qid {worst['qid']!r}); see groups.coverage(run)",
            DataWarning,
            stacklevel=2,
        )
