"""EE-D, EE-R and EE-L: what they declare, and how they are asked for their values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from fairtk.errors import ParameterError, warn
from fairtk.exposure.bounds import Bounded
from fairtk.frames.arrays import FloatArray, IntArray
from fairtk.measures.base import FairMeasure
from fairtk.measures.ee.form import Form, Found
from fairtk.measures.ee.paper import PaperForm
from fairtk.measures.ee.published import ExpevalForm, ExpevalGroupsForm, FairRAGForm
from fairtk.measures.ee.task2 import Task2Form
from fairtk.measures.evidence import Evidence
from fairtk.measures.params import BROWSING, CUTOFF, GROUPS, TARGET, Param

FORMS: dict[tuple[str, bool], type[Form]] = {
    ("paper", False): PaperForm,
    ("fair-rag", False): FairRAGForm,
    ("expeval", False): ExpevalForm,
    ("paper", True): Task2Form,
    ("fair-rag", True): Task2Form,  # which refuses the variant
    ("expeval", True): ExpevalGroupsForm,
}
"""The form of each variant, without and with groups."""

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

NO_WORST = "the run lacks it, and without a cutoff no value is the worst"


class ExpectedExposure(FairMeasure):
    """Base of the expected exposure measures; `form` has the definition."""

    CITATION: ClassVar[str] = "diaz2020evaluating kim2024fairrag"
    SUPPORTED_PARAMS: ClassVar[dict[str, Param]] = PARAMETERS
    PART: ClassVar[str]  # the field of ExposureValues

    takes_exposure = True

    form: Form

    def special_defaults(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return, with groups, the defaults of TREC Fair Ranking 2022's Task 2."""
        if "groups" in given and given.get("variant", "paper") == "paper":
            return {"browsing": "TREC", "normalize": False}
        return {}

    def check_params(self) -> None:
        """Make the form; raise if it does not have the other parameters."""
        if "groups" not in self.params:
            for name in ("target", "useful_only"):
                if name in self.params:
                    raise ParameterError(f"{self.NAME}: {name} goes with groups=... only")
        self.form = FORMS[self.settings["variant"], "groups" in self.params](self)
        self.normalize: bool = self.settings["normalize"]
        # the three share what they compute
        self._shared = ("exposure", tuple({**self.params, "normalize": None}.items()))

    def _found(self, evidence: Evidence) -> Found:
        found: Found | None = evidence.cache.get(self._shared)
        if found is None:
            found = self.form.find(evidence)
            if self.params.get("estimator") == "unbiased":
                found = self.form.without_sampling(evidence, found)
            evidence.cache[self._shared] = found
        return found

    def scales(self, evidence: Evidence) -> FloatArray:
        """Return what raw values are multiplied by in each query; NaN where that is undefined."""
        if not self.normalize:
            return np.ones(len(evidence.qids))
        return np.where(evidence.present, 1.0 / self.widths(evidence), 0.0)

    def widths(self, evidence: Evidence) -> FloatArray:
        """Return how far apart the bounds of raw values are; NaN where that is undefined."""
        part: Bounded = getattr(self._found(evidence).values, self.PART)
        return np.where(part.equal_bounds, np.nan, part.upper - part.lower)

    def score_all(self, evidence: Evidence) -> FloatArray:
        """Return the value of each query; see the class for what is undefined."""
        if self.form.lacking:
            raise ParameterError(self.form.lacking)
        found = self._found(evidence)
        n_decides = found.disparity_has_n or self.PART != "disparity"
        if found.n is not None and n_decides and "sizes compared" not in evidence.cache:
            evidence.cache["sizes compared"] = True
            self._compare_sizes(evidence, found.n)
        part: Bounded = getattr(found.values, self.PART)
        present, whole = evidence.present, self.PART == "disparity"
        reasons = []
        if not whole and found.untargeted is not None:
            reasons.append(("there is no target", found.untargeted))
        if not whole or self.form.disparity_needs_useful:
            reasons.append(("no useful document in the labels", found.useless))
        reasons.extend(found.undefined)
        if self.normalize:
            result = np.where(present, part.normalized(), part.worst_normalized)
            reasons.extend(found.unbounded)
            reasons.append((part.why, present & np.isnan(result)))
        else:
            result = np.where(present, part.value, part.worst)
            reasons.append((NO_WORST, ~present & np.isnan(part.worst)))
        told = np.zeros(len(result), dtype=bool)
        for reason, mask in reasons:
            if mask.any():
                self.warn_undefined(evidence.qids[mask & ~told], len(result), reason)
                told |= mask
        return np.where(told, np.nan, result)

    def _compare_sizes(self, evidence: Evidence, n: IntArray) -> None:
        """Warn if another system was measured on the same labels with other n, in the same call.

        That is right for re-rankings of the same candidates, and misleading otherwise. One call is
        one evaluator, or one ``pt.Experiment``, which makes an evaluator for each system after it
        has asked the measures for their inputs: from then on the measures themselves remember.
        Queries that a run lacks do not count.
        """
        seen = evidence.qrels.cache.setdefault("n", {}) if self.sizes is None else self.sizes
        key = evidence.qrels.fingerprint
        now = np.where(evidence.present, n, -1)
        before = seen.get(key, now)
        seen[key] = now
        differs = np.flatnonzero((before >= 0) & (now >= 0) & (before != now))
        if len(differs):
            at = differs[0]
            warn(
                f"{self!r}: systems differ in the number n of judged or retrieved documents for "
                f"{len(differs)} queries (qid {evidence.qids[at]!r}: {before[at]} and {now[at]}), "
                "so their targets differ too; give n='judged', a number, or the name of a column "
                "of the qrels"
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

    NAME = "EE_D"
    PRETTY_NAME: ClassVar[str] = "Expected exposure disparity"
    BETTER: ClassVar[str] = "lower"
    MISSING: ClassVar[float] = 1.0
    PART: ClassVar[str] = "disparity"


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

    NAME = "EE_R"
    PRETTY_NAME: ClassVar[str] = "Expected exposure relevance"
    BETTER: ClassVar[str] = "higher"
    MISSING: ClassVar[float] = 0.0
    PART: ClassVar[str] = "relevance"
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

    NAME = "EE_L"
    PRETTY_NAME: ClassVar[str] = "Expected exposure loss"
    BETTER: ClassVar[str] = "lower"
    MISSING: ClassVar[float] = 1.0
    PART: ClassVar[str] = "loss"


EE_D, EE_R, EE_L = (
    ExpectedExposureDisparity(),
    ExpectedExposureRelevance(),
    ExpectedExposureLoss(),
)
