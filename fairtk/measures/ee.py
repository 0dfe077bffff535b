"""EE_D, EE_R and EE_L: disparity, relevance and loss of expected exposure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from fairtk import checks
from fairtk.errors import ParameterError, warn
from fairtk.exposure.expected import Bounded
from fairtk.frames import FloatArray, IntArray
from fairtk.measures.base import FairMeasure
from fairtk.measures.ee_forms import FORMS, Form, FormValues
from fairtk.measures.labeled_run import LabeledRun
from fairtk.measures.params import BROWSING, CUTOFF, GROUPS, TARGET, Param, count

RESTRICTED = {"complete": "expeval", "bounds": "paper", "estimator": "paper"}
"""The one variant that has a parameter."""

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
        check=count,
    ),
    "complete": Param(bool, default=False, desc="expeval: the labels cover all documents"),
    "graded": Param(bool, default=True, desc="False: every label that is useful counts alike"),
    "rel": Param(
        (int, float),
        desc="smallest label of a useful document (default: any above 0)",
        check=checks.positive,
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

NO_WORST = "the run lacks it, and without a cutoff no value is the worst"


class ExpectedExposure(FairMeasure):
    """Base of the expected exposure measures; `form` has the definition."""

    CITATION = "diaz2020evaluating kim2024fairrag"
    BOUNDS = (0.0, 1.0)
    SUPPORTED_PARAMS: ClassVar[dict[str, Param]] = PARAMETERS
    GROUPS_ARE_OPTIONAL = True
    PART: ClassVar[str]  # the field of ExposureValues
    takes_exposure = True
    is_by_query = True
    depends_on_length = True
    form: Form

    def special_defaults(self, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return, with groups, the defaults of TREC Fair Ranking 2022's Task 2."""
        if "groups" in params and params.get("variant", "paper") == "paper":
            return {"browsing": "TREC", "normalize": False}
        return {}

    def check_params(self) -> None:
        """Make the form; raise if it does not have the other parameters."""
        if "groups" not in self.params:
            for name in ("target", "useful_only"):
                if name in self.params:
                    raise ParameterError(f"{self.NAME}: {name} needs groups=...")
        for name, variant in RESTRICTED.items():
            if name in self.params and self["variant"] != variant:
                value = "" if name == "complete" else f"={self[name]!r}"
                raise ParameterError(f"{self.NAME}: {name}{value} needs variant={variant!r}")
        self.form = FORMS[self["variant"], "groups" in self.params](self)
        self.normalize: bool = self["normalize"]
        # the three share what they compute
        self._shared = ("exposure", tuple({**self.params, "normalize": None}.items()))

    @property
    def labels_for(self) -> str:
        """What it needs relevance labels for: the paper's EE-D counts all documents alike."""
        of_useful = "groups" in self.params and self["useful_only"]
        paper = self.PART == "disparity" and self["variant"] == "paper"
        if not paper or of_useful or self.form.model.stop > 0:
            return super().labels_for
        n = self["n"]
        return f"n={n!r} reads them" if isinstance(n, str) and n != "judged+retrieved" else ""

    def _of_form(self, judged: LabeledRun) -> FormValues:
        if self._shared not in judged.cache:
            values = self.form.find(judged)
            if self.params.get("estimator") == "unbiased":
                values = self.form.without_sampling(judged, values)
            judged.cache[self._shared] = values
        return judged.cache[self._shared]  # type: ignore[no-any-return]

    def scales(self, judged: LabeledRun) -> FloatArray:
        """Return what raw values are multiplied by in each query; NaN where that is undefined."""
        if not self.normalize:
            return np.ones(len(judged.qids))
        return np.where(judged.present, 1.0 / self.widths(judged), 0.0)

    def sampling_bias(self, judged: LabeledRun) -> FloatArray:
        """Return the plain estimate minus the unbiased one, of EE_D and EE_L of sampled rankings.

        Returns:
            shape (n_queries,); NaN for one sample, 0 for a query that the run does not have.
        """
        values = self._of_form(judged)
        n = np.bincount(judged.ranking_query, minlength=len(judged.qids))
        bias = self.form.excess(judged, values) * self.scales(judged)
        return np.where(n == 1, np.nan, np.where(n == 0, 0.0, bias))

    def widths(self, judged: LabeledRun) -> FloatArray:
        """Return how far apart the bounds of raw values are; NaN where that is undefined."""
        part: Bounded = getattr(self._of_form(judged).values, self.PART)
        return np.where(part.equal_bounds, np.nan, part.upper - part.lower)

    def score_all(self, judged: LabeledRun) -> FloatArray:
        """Return the value of each query; see the class for what is undefined."""
        if self.form.lacking:
            raise ParameterError(self.form.lacking)
        whole_values = self._of_form(judged)
        part: Bounded = getattr(whole_values.values, self.PART)
        present, whole = judged.present, self.PART == "disparity"
        n_decides = whole_values.disparity_has_n or not whole
        if whole_values.n is not None and n_decides and "sizes compared" not in judged.cache:
            judged.cache["sizes compared"] = True
            self._compare_sizes(judged, whole_values.n)
        reasons = []
        if not whole and whole_values.untargeted is not None:
            reasons.append(("there is no target", whole_values.untargeted))
        if not whole or self.form.disparity_needs_useful:
            reasons.append(("no useful document in the labels", whole_values.useless))
        reasons.extend(whole_values.undefined)
        if self.normalize:
            result = np.where(present, part.normalized(), part.worst_normalized)
            reasons.extend(whole_values.unbounded)
            reasons.append((part.why, present & np.isnan(result)))
        else:
            result = np.where(present, part.value, part.worst)
            reasons.append((NO_WORST, ~present & np.isnan(part.worst)))
        return self.without_undefined(judged, result, reasons)

    def _compare_sizes(self, judged: LabeledRun, n: IntArray) -> None:
        """Warn if another system was measured on the same labels with other n, in the same call.

        That is right for re-rankings of the same candidates, and misleading otherwise. One call is
        one evaluator, or one ``pt.Experiment``. Queries that a run lacks do not count.
        """
        systems, key = judged.qrels.cache.setdefault("systems", {}), tuple(judged.qids)
        now = np.where(judged.present, n, -1)
        before = systems.get(key, now)
        systems[key] = now
        differs = np.flatnonzero((before >= 0) & (now >= 0) & (before != now))
        if len(differs):
            at = differs[0]
            warn(
                f"{self!r}: systems differ in the number n of judged or retrieved documents for "
                f"{len(differs)} queries (qid {judged.qids[at]!r}: {before[at]} and {now[at]}), "
                "so their targets differ too; give all one n, the number of documents that could "
                "be retrieved (n=1000, or the name of a column of the qrels), or n='judged'"
            )


class ExpectedExposureDisparity(ExpectedExposure):
    """How unevenly a ranking policy spreads exposure over documents.

    The squared norm of expected exposure (Diaz et al. 2020; Kim and Diaz, Towards Fair RAG,
    Eqs. 3 and 5), normalized by its largest value, that of one fixed ranking (Appendix C). In
    [0, 1] when normalized; lower is more even. It does not say whether the documents that get the
    exposure are useful (that is EE_R), nor whether groups of documents are treated alike.

    With ``bounds="paper"`` the floor is taken as 0, but no policy reaches it: a uniform one has
    k / n. ``bounds="exact"`` uses (sum of weights)^2 / n; undefined (NaN) where every ranking
    shows all documents alike, and where a ranking has fewer than min(k, n) documents. Under a
    cascade (GERR) the largest value is that with the useful documents last. A query that the run
    lacks gets 1 (the largest value).

    Estimated from N samples, EE-D is too large by (1 - EE-D) / N in expectation.
    ``estimator="unbiased"`` takes that away, and may leave [0, 1] by what is chance; N = 1 is an
    error. A run without samples is a policy of its own: one ranking, always.

    With ``groups=...`` it is the squared norm of the groups' exposure (see `EE_L`). With
    ``variant="expeval"`` and a cascade (GERR) that can leave [0, 1], because that code's bounds are
    those of documents.
    """

    identity_name = "fairtk.EE_D"
    output_version = 1
    NAME = "EE_D"
    PRETTY_NAME = "Expected exposure disparity"
    BETTER = "lower"
    MISSING = 1.0
    PART = "disparity"


class ExpectedExposureRelevance(ExpectedExposure):
    """How much of the exposure goes where an ideal policy would put it.

    The inner product of expected exposure and target exposure (Diaz et al. 2020; Kim and Diaz,
    Towards Fair RAG, Eqs. 3 and 6), normalized by the ideal policy's value (Appendix C). In
    [0, 1] when normalized; higher is better. It is a measure of quality, not of fairness: one
    fixed ranking with useful documents on top has the same value as an even policy over them.

    With ``bounds="exact"`` the floor is the value of the worst fixed order, above 0 when useful
    documents cannot all be left out; undefined (NaN) where a ranking has fewer than min(k, n)
    documents. Under a cascade (GERR) other orders can have more than the ideal one, so there it is
    normalized by the largest value of any order. A query without a useful document is undefined;
    one that the run lacks gets 0. Samples estimate it without bias.

    With ``groups=...`` it is the inner product of the groups' exposure and the target (see `EE_L`).
    """

    identity_name = "fairtk.EE_R"
    output_version = 1
    NAME = "EE_R"
    PRETTY_NAME = "Expected exposure relevance"
    BETTER = "higher"
    MISSING = 0.0
    PART = "relevance"
    SUPPORTED_PARAMS: ClassVar[dict[str, Param]] = {
        name: param for name, param in PARAMETERS.items() if name != "estimator"
    }


class ExpectedExposureLoss(ExpectedExposure):
    """How far the exposure that documents get is from the exposure they should get.

    The squared distance of expected and target exposure (Diaz et al. 2020; Kim and Diaz, Towards
    Fair RAG, Eq. 3): EE_D - 2 EE_R + squared norm of the target, all unnormalized. Lower is
    better; 0 is reached by the ideal policy alone. The papers give no normalizer for it; here,
    with ``normalize=True``, it is divided by the sum of the upper bounds of EE_D and EE_R (as the
    code published with Fair RAG does), with ``bounds="exact"`` by the loss of the worst fixed
    order (NaN where a ranking has fewer than min(k, n) documents; under GERR a bound that cannot
    always be reached). A query without a useful document is undefined (NaN); one that the run
    lacks gets the upper bound. ``estimator="unbiased"`` takes away what sampling adds to EE_D.

    ``EE_L(groups=..., target=...)@20`` is the group form of TREC Fair Ranking 2022, Task 2: the
    exposure of groups, from useful documents alone, against the target distribution times the
    attention of the first 20 ranks (of ``@k``), whatever the length of the rankings; discount
    `TREC`, not normalized. ``variant="expeval"`` has the group form of that code, with its own
    target.
    """

    identity_name = "fairtk.EE_L"
    output_version = 1
    NAME = "EE_L"
    PRETTY_NAME = "Expected exposure loss"
    BETTER = "lower"
    MISSING = 1.0
    PART = "loss"


EE_D, EE_R, EE_L = ExpectedExposureDisparity(), ExpectedExposureRelevance(), ExpectedExposureLoss()
