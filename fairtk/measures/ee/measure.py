"""What EE-D, EE-R and EE-L declare alike, and how they are asked for their values."""

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
