"""What EE-D, EE-R and EE-L share: parameters, one computation for all three, undefined queries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from fairtk.errors import InputError, ParameterError
from fairtk.exposure.bounds import (
    Bounds,
    ExposureValues,
    expeval_values,
    fair_rag_values,
    values_and_bounds,
)
from fairtk.exposure.browsing import GERR, RBP
from fairtk.exposure.expected import attention, expected_exposure, make_levels
from fairtk.frames.arrays import BoolArray, FloatArray, IntArray
from fairtk.frames.columns import DOCNO, LABEL, QID, SCORE
from fairtk.measures import collection_size
from fairtk.measures.base import FairMeasure
from fairtk.measures.evidence import Evidence
from fairtk.measures.group_form import check_group_params, group_values, needs_target
from fairtk.measures.group_params import GROUPS, TARGET
from fairtk.measures.params import BROWSING, CUTOFF, Param

NORMALIZE = Param(bool, default=True, desc="min-max normalize by the bounds")
BOUNDS = Param(
    str,
    default="paper",
    choices=("paper", "exact"),
    desc="paper: the floor of EE-D and EE-R is 0; exact: what a policy over n documents can reach",
)
VARIANT = Param(
    str,
    default="paper",
    choices=("paper", "fair-rag", "expeval"),
    desc="the paper's definition, or that of one of the two published codes",
)
N_DOCUMENTS = Param(
    (str, int),
    default="judged+retrieved",
    desc="the number n of documents: judged+retrieved, judged, a number, or a column of the qrels",
    check=lambda n: "must be at least 1" if isinstance(n, int) and n < 1 else "",
)
COMPLETE = Param(bool, default=False, desc="expeval: the labels cover all documents")
GRADED = Param(bool, default=True, desc="False: every label that is useful counts alike")
USEFUL_ONLY = Param(
    bool,
    default=True,
    desc="groups: count the exposure of useful documents alone (TREC 2022), or of all (TREC 2021)",
)
REL = Param((int, float), desc="smallest label of a useful document (default: any above 0)")


class ExposureMeasure(FairMeasure):
    """Base of the expected exposure measures."""

    CITATION: ClassVar[str] = "diaz2020evaluating"
    RUN_COLUMNS: ClassVar[tuple[str, ...]] = (QID, DOCNO, SCORE)
    QREL_COLUMNS: ClassVar[tuple[str, ...]] = (QID, DOCNO, LABEL)
    SUPPORTED_PARAMS: ClassVar[dict[str, Param]] = {
        "cutoff": CUTOFF,
        "browsing": BROWSING,
        "normalize": NORMALIZE,
        "bounds": BOUNDS,
        "variant": VARIANT,
        "n": N_DOCUMENTS,
        "complete": COMPLETE,
        "graded": GRADED,
        "rel": REL,
        "groups": GROUPS,
        "target": TARGET,
        "useful_only": USEFUL_ONLY,
    }
    PART: ClassVar[str]  # the field of ExposureValues
    NEEDS_USEFUL: ClassVar[bool] = True

    def default_of(self, name: str, given: Mapping[str, Any]) -> Any:
        """Return a parameter's default; with groups, those of TREC Fair Ranking 2022's Task 2."""
        if "groups" in given and given.get("variant", "paper") == "paper":
            if name == "browsing":
                return "TREC"
            if name == "normalize":
                return False
        return super().default_of(name, given)

    def check_params(self) -> None:
        """Raise if the variant does not have the other parameters."""
        variant = self["variant"]
        check_group_params(self)
        if "complete" in self.params and variant != "expeval":
            raise ParameterError(f"{self.NAME}: complete goes with variant='expeval' only")
        if self["rel"] is not None and self["rel"] <= 0:
            raise ParameterError(f"{self.NAME}: rel must be above 0; found {self['rel']!r}")
        if variant == "paper":
            return
        model = self["browsing"]
        if self["bounds"] != "paper":
            raise ParameterError(f"{self.NAME}: bounds='exact' goes with variant='paper' only")
        if variant == "fair-rag" and type(model).__name__ != "MU":
            raise ParameterError(f"{self.NAME}: variant='fair-rag' goes with browsing='MU' only")
        if variant == "expeval" and not (isinstance(model, RBP | GERR) and model.p < 1):
            raise ParameterError(
                f"{self.NAME}: variant='expeval' goes with browsing='RBP(p=...)' or "
                f"'GERR(p=..., u=...)' with p below 1; found {model!r}"
            )
        if variant == "expeval" and self["cutoff"] is not None:
            raise ParameterError(f"{self.NAME}: variant='expeval' has no cutoff; drop @k")

    def score_all(self, evidence: Evidence) -> FloatArray:
        """Return the value of each query; see the class for what is undefined."""
        needs_target(self)  # here: EE_D, which has a value without one, may have filled the cache
        key = ("exposure", *(self.params.get(p) for p in self.SUPPORTED_PARAMS if p != "normalize"))
        if key not in evidence.cache:
            evidence.cache[key] = self._compute(evidence)
        values, useful = evidence.cache[key]
        self._compare_sizes(evidence)
        return self._pick(values, useful, evidence)

    def _compare_sizes(self, evidence: Evidence) -> None:
        """Warn if another system was measured with other n, where n decides about the value."""
        own = self["variant"] == "paper" and self["groups"] is None
        if not own or self["n"] != "judged+retrieved" or "sizes compared" in evidence.cache:
            return
        n = np.bincount(evidence.pairs.query, minlength=len(evidence.qids))
        # with the paper's bounds EE-D knows n only where the cutoff exceeds it
        known = self.PART != "disparity" or self["bounds"] == "exact" or self["cutoff"] is None
        if known or (n < self["cutoff"]).any():
            evidence.cache["sizes compared"] = True
            collection_size.remember(self, evidence, n)

    def _pick(self, values: ExposureValues, useful: IntArray, evidence: Evidence) -> FloatArray:
        result: FloatArray = getattr(values, self.PART)
        untargeted = np.isnan(result) & needs_target(self)
        bounds: Bounds = getattr(values, f"{self.PART}_bounds")
        total = len(result)
        worst = bounds.lower if self.BETTER == "higher" else bounds.upper
        if self["normalize"]:
            result = bounds.normalize(result)
            worst = np.full(total, 0.0 if self.BETTER == "higher" else 1.0)
            result = self._fill_degenerate(result, values, useful, evidence)
        result = np.where(evidence.present, result, worst)
        result = np.where(untargeted, np.nan, result)
        self.warn_undefined(evidence.qids[untargeted], total, "there is no target")
        if self.NEEDS_USEFUL or (self["groups"] is not None and self["useful_only"]):
            empty = self._without_useful(useful)
            result = np.where(empty, np.nan, result)
            self.warn_undefined(evidence.qids[empty], total, "no useful document in the labels")
        return result

    def _without_useful(self, useful: IntArray) -> BoolArray:
        every_grade_has_a_target = self["variant"] == "expeval" and self["complete"]
        return np.zeros(len(useful), dtype=bool) if every_grade_has_a_target else useful == 0

    def _fill_degenerate(
        self, result: FloatArray, values: ExposureValues, useful: IntArray, evidence: Evidence
    ) -> FloatArray:
        flat = np.isnan(result) & evidence.present
        if self.NEEDS_USEFUL:
            flat &= ~self._without_useful(useful)
        default = values.degenerate[("disparity", "relevance", "loss").index(self.PART)]
        if np.isnan(default):
            self.warn_undefined(
                evidence.qids[flat], len(result), "its two bounds are equal, or one is not known"
            )
        return np.where(flat, default, result)

    def _compute(self, evidence: Evidence) -> tuple[ExposureValues, IntArray]:
        model, cutoff, variant = self["browsing"], self["cutoff"], self["variant"]
        if model.needs_cutoff and cutoff is None:
            raise ParameterError(
                f"{self!r}: browsing={str(model)!r} needs a cutoff, the number of documents that "
                f"the user reads: write {self!r}@5"
            )
        ranked, pairs = evidence.rankings, evidence.pairs
        grade = self._grades(pairs.label)
        useful_pair = grade > 0
        weight = attention(
            model,
            cutoff,
            ranked.position,
            ranked.ranking,
            ranked.ranking_start,
            useful_pair[pairs.of_row],
        )
        n_queries = len(evidence.qids)
        exposure = expected_exposure(
            weight, pairs.of_row, len(pairs), ranked.n_samples[ranked.query]
        )
        useful = np.bincount(pairs.query[useful_pair], minlength=n_queries)
        if self["groups"] is not None:
            return group_values(self, evidence, exposure, grade), useful
        if variant == "paper":
            n = self._n_documents(evidence, useful)
            values = values_and_bounds(
                exposure,
                pairs.query,
                make_levels(pairs.query, np.nan_to_num(grade), n_queries, n),
                model,
                cutoff,
                exact=self["bounds"] == "exact",
            )
        elif variant == "fair-rag":
            judged = np.bincount(pairs.query[~np.isnan(grade)], minlength=n_queries)
            levels = make_levels(pairs.query, np.where(useful_pair, 1.0, np.nan), n_queries)
            values = fair_rag_values(exposure, pairs.query, levels, cutoff, judged)
        else:
            known = grade if self["complete"] else np.where(useful_pair, grade, np.nan)
            values = expeval_values(
                exposure,
                pairs.query,
                make_levels(pairs.query, known, n_queries),
                model,
                complete=self["complete"],
            )
        return values, useful

    def _grades(self, label: FloatArray) -> FloatArray:
        rel = self["rel"]
        grade = label if rel is None else np.where(label >= rel, label, np.minimum(label, 0.0))
        return grade if self["graded"] else np.where(grade > 0, 1.0, np.minimum(grade, 0.0))

    def _n_documents(self, evidence: Evidence, useful: IntArray) -> IntArray:
        wanted: Any = self["n"]
        pairs = evidence.pairs
        n_queries = len(evidence.qids)
        known = np.bincount(pairs.query, minlength=n_queries)
        if wanted == "judged+retrieved":
            return known
        if wanted == "judged":
            return np.bincount(pairs.query[~np.isnan(pairs.label)], minlength=n_queries)
        n = (
            np.full(n_queries, wanted, dtype=np.int64)
            if isinstance(wanted, int)
            else collection_size.from_column(self, evidence, wanted)
        )
        short = n < known
        if short.any():
            at = int(np.flatnonzero(short)[0])
            raise InputError(
                f"{self!r}: n is {n[at]} for qid {evidence.qids[at]!r}, but {known[at]} of its "
                f"documents are judged or retrieved, {useful[at]} of them useful; "
                "n is the number of all documents of a query"
            )
        return n
