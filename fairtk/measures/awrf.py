"""AWRF: attention-weighted rank fairness.

`AttentionWeightedRankFairness.score_all` works on all queries at once, in three steps:

1. the attention on each rank goes to its document, averaged over the samples of a query;
2. each document passes it on to its groups, by their weights (``memberships``);
3. the value is 1 minus the Jensen-Shannon divergence of the groups' shares and the target.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fairtk.errors import ParameterError
from fairtk.exposure import TREC, BrowsingModel
from fairtk.exposure.expected import average
from fairtk.frames import BoolArray, FloatArray, IntArray
from fairtk.groups.bounds import jensen_shannon_bounds
from fairtk.groups.divergences import js_divergence
from fairtk.groups.exposure import document_attention, group_exposure
from fairtk.measures.base import FairMeasure
from fairtk.measures.labeled_run import LabeledRun
from fairtk.measures.params import CUTOFF, GROUPS, TARGET, ObjectParam, Param
from fairtk.measures.parsing import format_measure
from fairtk.measures.scores import Scores
from fairtk.plugins import parse_browsing_model
from fairtk.remarks import FEW_GROUPS, UNREACHABLE, Remark
from fairtk.wording import format_list, short

if TYPE_CHECKING:
    from fairtk.groups import Groups, Target


class AttentionWeightedRankFairness(FairMeasure):
    """How close the groups' shares of attention are to a target distribution.

    AWRF is 1 - JSD(exposure of the groups, target), where each document passes the attention of its
    rank on to its groups (Sapiezynski et al. 2019; TREC Fair Ranking 2022, Task 1). Values are in
    [1 - ln 2, 1] = [0.307, 1], or in [0, 1] with ``base=2``; higher is closer to the target.

    As in the track, documents without a row in the groups are left out, and the others keep their
    ranks; see ``unlabeled`` for other rules. Documents of the unknown level are left out, too, if
    the query's target gives it no share; otherwise it is a group like any other.

    On a sampled run, exposure is averaged over samples before the comparison. With
    ``amortize=False``, each sample is compared and the values are averaged, so samples do not
    compensate for each other.

    A query without a target, or without a labeled document in its rankings (with
    ``amortize=False``: in one of them), is undefined (NaN). A query missing from the run gets 0.
    """

    identity_name = "fairtk.AWRF"
    output_version = 2
    NAME = "AWRF"
    PRETTY_NAME = "Attention-weighted rank fairness"
    CITATION = "sapiezynski2019quantifying ekstrand2022overview"
    BETTER = "higher"
    ABOUT = "how close the exposure of each group of documents is to its target"
    CAVEAT = "it does not show that the target or the group labels are right"
    MISSING = 0.0
    BOUNDS = (0.0, 1.0)
    UNDEFINED = ""  # the reason of the queries without shares
    is_by_query = True
    depends_on_length = True
    SUPPORTED_PARAMS: ClassVar[dict[str, Param]] = {
        "cutoff": CUTOFF,
        "groups": GROUPS,
        "target": TARGET,
        "base": Param(
            (str, int, float), default="e", desc="base of the logarithm: 'e' (TREC) or 2"
        ),
        "browsing": ObjectParam(
            parse_browsing_model,
            BrowsingModel,
            default=TREC(),
            desc="browsing model: attention of each rank",
        ),
        "unlabeled": Param(
            str,
            default="drop",
            choices=("drop", "unknown", "uniform", "best", "worst"),
            desc="documents without a group: drop (TREC), unknown, uniform; best and worst: bounds "
            "over all ways to label them, for the target's shares of the named groups",
        ),
        "amortize": Param(
            bool, default=True, desc="average exposure over samples before the comparison"
        ),
    }

    def check_params(self) -> None:
        """Raise a `ParameterError` for an invalid base or combination of parameters."""
        base = self["base"]
        if base != "e" and (isinstance(base, str) or base <= 1):
            raise ParameterError(
                f"{self.NAME}: base must be 'e' or a number above 1, got {short(base)}"
            )
        if "groups" in self.params and "target" in self.params:
            self.target_for(self.groups)

    @property
    def groups(self) -> Groups:
        """The groups."""
        groups: Groups = self.require_param(
            "groups", "groups: write AWRF(groups=..., target=...)@20"
        )
        return groups

    @property
    def supports_exact_exposure(self) -> bool:
        """Whether it accepts frames X; false with ``amortize=False``."""
        return self.is_amortized

    @property
    def reason_for_labels(self) -> str:
        """The reason why it requires relevance labels: a cascade stops at useful documents."""
        cascade = self["browsing"].stop > 0
        return f"browsing={str(self['browsing'])!r} stops at useful documents" if cascade else ""

    @property
    def is_amortized(self) -> bool:
        """Whether shares are averaged over samples before the comparison."""
        return bool(self["amortize"])

    def target_for(self, groups: Groups) -> Target:
        """Return the target over the levels of the groups."""
        target: Target = self.require_param(
            "target",
            "a target: write AWRF(groups=..., target=...)@20, e.g. with "
            "target=Target.uniform(groups) or Target.from_qrels(qrels, groups)",
        )
        return target.for_groups(groups)

    def score_all(self, judged: LabeledRun) -> Scores:
        """Return the value of each query."""
        groups, target, unlabeled = self.groups, self.target_for(self.groups), self["unlabeled"]
        judged, undefined, counts = self.run_for_shares(judged)
        run, qids = judged.run, judged.qids
        # one row per query, or per ranking with amortize=False
        row_query = judged.query_of_run if self.is_amortized else judged.ranking_query
        documents = document_attention(run, self.attention(judged), amortize=self.is_amortized)
        policy = "bounds" if unlabeled in ("best", "worst") else unlabeled
        memberships = groups.memberships(run.docnos, policy)
        exposure = group_exposure(documents, memberships)
        masses = target.for_qids(qids[row_query])
        if policy == "bounds":
            labeled = target.space.known(np.arange(target.space.size))
            free = documents @ groups.unknown_shares(run.docnos.text)
            lowest, highest = jensen_shannon_bounds(exposure, free, masses, labeled, self["base"])
            fairness = 1.0 - (lowest if unlabeled == "best" else highest)
        else:
            exposure = target.drop_unknown(exposure, qids[row_query])
            fairness = 1.0 - js_divergence(exposure, masses, self["base"])
        value = np.where(judged.present, average(row_query, fairness, len(qids)), self.MISSING)
        no_value = np.isnan(value)
        untargeted = no_value | ~judged.present  # all others have a target
        untargeted[untargeted] = target.for_qids(qids[untargeted]).total() == 0
        reasons = [
            (self.UNDEFINED, undefined),
            ("no target", untargeted),
            ("no document with a group in the ranking", no_value & ~untargeted),
        ]
        labels = memberships if unlabeled == "drop" else None
        return Scores.of(value, reasons, counts | few_known_groups(self, judged, groups, labels))

    def remarks(self) -> list[Remark]:
        """Return the remark that a part of the target is on groups without documents."""
        from fairtk.groups.groups import unreachable  # slow import

        lost, levels = unreachable(self.groups, self.target_for(self.groups).distributions)
        if not levels:
            return []
        detail = (
            f"{lost:.2g} of the target is on groups without documents ({format_list(levels, 3)})"
        )
        return [Remark(UNREACHABLE, format_measure(self), "", len(levels), 0, (), 0, detail)]

    def run_for_shares(
        self, judged: LabeledRun
    ) -> tuple[LabeledRun, BoolArray, dict[str, IntArray]]:
        """Return the run to compare, a mask of the queries without shares, and their counts."""
        return judged, np.zeros(len(judged.qids), dtype=bool), {}

    def attention(self, judged: LabeledRun) -> FloatArray:
        """Return the attention on each sorted row of the run; shape (n_rows,)."""
        model = self["browsing"]
        useful = judged.pair_label > 0 if model.stop > 0 else None
        return judged.attention(self.text, model, self["cutoff"], useful)


def few_known_groups(
    measure: FairMeasure, judged: LabeledRun, groups: Groups, memberships: Any = None
) -> dict[str, IntArray]:
    """Return the counts of a remark on queries with a known group for less than half of the ranks.

    Args:
        measure: the measure, whose cutoff limits the ranks.
        judged: the run.
        groups: the groups.
        memberships: the groups of ``judged.run.docnos`` with ``unlabeled="drop"``, if known.
    """
    from fairtk.groups.groups import coverage_of

    coverage = coverage_of(groups, judged.run, measure.params.get("cutoff"), memberships)
    numbers = np.zeros(len(judged.qids), dtype=np.int64)
    numbers[judged.query_of_run] = coverage["label_share"] < 0.5
    return {FEW_GROUPS: numbers}


AWRF = AttentionWeightedRankFairness()
