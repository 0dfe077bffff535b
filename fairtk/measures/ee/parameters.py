"""The parameters of EE-D, EE-R and EE-L."""

from __future__ import annotations

from fairtk.measures.group_params import GROUPS, TARGET
from fairtk.measures.params import BROWSING, CUTOFF, Param

PARAMETERS: dict[str, Param] = {
    "cutoff": CUTOFF,
    "browsing": BROWSING,
    "normalize": Param(bool, default=True, desc="min-max normalize by the bounds"),
    "bounds": Param(
        str,
        default="paper",
        choices=("paper", "exact"),
        desc="paper: the floor of EE-D and EE-R is 0; exact: what a policy over n documents can "
        "reach",
    ),
    "variant": Param(
        str,
        default="paper",
        choices=("paper", "fair-rag", "expeval"),
        desc="the paper's definition, or that of one of the two published codes",
    ),
    "estimator": Param(
        str,
        default="plain",
        choices=("plain", "unbiased"),
        desc="plain: of the mean exposure over the samples; unbiased: without what sampling adds "
        "to it, (1 - EE_D) / N in expectation",
    ),
    "n": Param(
        (str, int),
        default="judged+retrieved",
        desc="the number n of documents: judged+retrieved, judged, a number, or a column of the "
        "qrels",
        check=lambda n: "must be at least 1" if isinstance(n, int) and n < 1 else "",
    ),
    "complete": Param(bool, default=False, desc="expeval: the labels cover all documents"),
    "graded": Param(bool, default=True, desc="False: every label that is useful counts alike"),
    "rel": Param(
        (int, float),
        desc="smallest label of a useful document (default: any above 0)",
        check=lambda rel: "" if rel > 0 else "must be above 0",
    ),
    "groups": GROUPS,
    "target": TARGET,
    "useful_only": Param(
        bool,
        default=True,
        desc="groups: count the exposure of useful documents alone (TREC 2022), or of all "
        "(TREC 2021)",
    ),
}
