"""EE_D, EE_R and EE_L: disparity, relevance and loss of expected exposure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from fairtk import checks
from fairtk.errors import ParameterError
from fairtk.exposure import MU, RBP, expected_exposure
from fairtk.exposure.expected import (
    DEEPEST,
    Bounded,
    RankWeights,
    make_grades,
    sampling_excess,
)
from fairtk.frames import BoolArray, FloatArray, IntArray, Qrels
from fairtk.groups.distances import SparseRows, attention_matrix, group_exposure
from fairtk.measures.base import FairMeasure
from fairtk.measures.ee_variants import (
    N_OF_RUN,
    VARIANTS,
    VariantValues,
    counts,
    n_documents,
    refuse_one_sample,
)
from fairtk.measures.labeled_run import LabeledRun
from fairtk.measures.params import BROWSING, CUTOFF, GROUPS, TARGET, Param, count
from fairtk.measures.scores import Scores

PARAMETERS: dict[str, Param] = {
    "cutoff": CUTOFF,
    "browsing": BROWSING,
    "normalize": Param(bool, default=True, desc="min-max normalize by the bounds"),
    "bounds": Param(
        str,
        default="paper",
        choices=("paper", "exact"),
        desc="paper: EE-D and EE-R start at 0; exact: the bounds that a policy over n documents "
        "can reach",
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
        desc="plain: from the mean exposure over the samples; unbiased: without the excess from "
        "sampling, (1 - EE_D) / N in expectation",
    ),
    "n": Param(
        (str, int),
        default=N_OF_RUN,
        desc="the number n of documents: judged+retrieved, judged, a number, or a column of the "
        "qrels",
        check=count,
    ),
    "complete": Param(bool, default=False, desc="expeval: the labels cover all documents"),
    "graded": Param(bool, default=True, desc="False: all useful labels count equally"),
    "rel": Param(
        (int, float),
        default=None,
        desc="smallest label of a useful document (default: any above 0)",
        check=checks.positive,
    ),
    "groups": GROUPS,
    "target": TARGET,  # without a share for the unknown level, unknown documents are left out
    "useful_only": Param(
        bool,
        default=True,
        desc="groups: count only the exposure of useful documents (TREC 2022), or of all "
        "(TREC 2021)",
    ),
}

NO_WORST = "missing from the run, without a worst value (no cutoff)"


class ExpectedExposure(FairMeasure):
    """Base of the expected exposure measures, which `ee_variants` defines."""

    CITATION = "diaz2020evaluating kim2024fairrag"
    BOUNDS = (0.0, 1.0)
    SUPPORTED_PARAMS: ClassVar[dict[str, Param]] = PARAMETERS
    GROUPS_ARE_OPTIONAL = True
    PART: ClassVar[str]  # the field of ExposureValues
    supports_exact_exposure = True
    is_by_query = True
    depends_on_length = True

    def special_defaults(self, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the defaults of TREC Fair Ranking 2022, Task 2, if groups are given."""
        if "groups" in params and params.get("variant", "paper") == "paper":
            return {"browsing": "TREC", "normalize": False}
        return {}

    def check_params(self) -> None:
        """Raise a `ParameterError` for an invalid combination of parameters."""
        given, variant, model = self.params, self["variant"], self["browsing"]
        has_groups, paper, expeval = "groups" in given, variant == "paper", variant == "expeval"
        refusals = [
            ("target" in given and not has_groups, "target requires groups=..."),
            ("useful_only" in given and not has_groups, "useful_only requires groups=..."),
            ("complete" in given and not expeval, "complete is only valid with variant='expeval'"),
            ("bounds" in given and not paper, "bounds='exact' is only valid with variant='paper'"),
            ("estimator" in given and not paper, "estimator='unbiased' requires variant='paper'"),
            (
                expeval and not (isinstance(model, RBP) and model.p < 1),
                "variant='expeval' requires browsing='RBP(p=...)' or 'GERR(p=..., u=...)' with p "
                f"below 1, got {model!r}",
            ),
            (
                expeval and self["cutoff"] is not None,
                "variant='expeval' has no cutoff; drop @k",
            ),
            (
                expeval and "target" in given,
                "variant='expeval' computes its own target of groups; drop target",
            ),
            (
                variant == "fair-rag" and not has_groups and not isinstance(model, MU),
                "variant='fair-rag' requires browsing='MU'",
            ),
            (
                has_groups and not expeval and (not paper or "bounds" in given or "n" in given),
                "groups require variant='paper' (TREC's form) or 'expeval', and are not supported "
                "with bounds or n",
            ),
            (
                has_groups and not expeval and self["normalize"],
                "normalize=True is not defined for groups: the official score is not normalized",
            ),
        ]
        for is_refused, message in refusals:
            if is_refused:
                raise ParameterError(f"{self.NAME}: {message}")
        _ = self.target  # raises unless it fits the groups

    @property
    def target(self) -> Any:
        """The target over the levels of the groups; `None` without a target."""
        return None if self["target"] is None else self["target"].for_groups(self["groups"])

    @property
    def reason_for_labels(self) -> str:
        """The reason why it requires relevance labels; the paper's EE-D does not."""
        of_useful = "groups" in self.params and self["useful_only"]
        paper = self.PART == "disparity" and self["variant"] == "paper"
        if not paper or of_useful or self["browsing"].stop > 0:
            return super().reason_for_labels
        n = self["n"]
        return f"n={n!r} reads them" if isinstance(n, str) and n != N_OF_RUN else ""

    def ranks(self, deepest: int) -> RankWeights:
        """Return the attention on the first ranks, up to the cutoff or, if `None`, `deepest`."""
        cutoff = self["cutoff"]
        is_few = cutoff is not None and cutoff <= DEEPEST
        return RankWeights.of(self["browsing"], cutoff, cutoff if is_few else deepest)

    def grades(self, label: FloatArray) -> FloatArray:
        """Return the grade of each label: above 0 if useful, NaN if not judged."""
        rel = self["rel"]
        grade = label if rel is None else np.where(label >= rel, label, np.minimum(label, 0.0))
        return grade if self["graded"] else np.where(grade > 0, 1.0, np.minimum(grade, 0.0))

    def attention(self, judged: LabeledRun) -> FloatArray:
        """Return the attention on each sorted row of the run; shape (n_rows,)."""
        useful = self.grades(judged.pair_label) > 0
        return judged.attention(self.text, self["browsing"], self["cutoff"], useful)

    def exposure(self, judged: LabeledRun) -> FloatArray:
        """Return the expected exposure of each pair; shape (n_pairs,)."""
        samples = judged.run.n_samples[judged.run.query]
        return expected_exposure(
            self.attention(judged), judged.pair_of_row, judged.n_pairs, samples
        )

    def exposure_by_ranking(self, judged: LabeledRun) -> SparseRows:
        """Return the exposure in each ranking; shape (n_rankings, n_pairs or n_groups)."""
        ranked = judged.run
        shape = (ranked.n_rankings, judged.n_pairs)
        weight = self.attention(judged)
        rows = SparseRows(attention_matrix(ranked.ranking, judged.pair_of_row, weight, shape))
        if "groups" not in self.params or self["variant"] != "paper":
            return rows
        if self["useful_only"]:
            rows = rows.weighted(rows.weight * (self.grades(judged.pair_label) > 0)[rows.level])
        memberships = self["groups"].memberships(judged.docnos, "drop")
        exposure = group_exposure(rows.matrix, memberships.take(judged.pair_doc))
        target = self.target
        if target is None:
            return exposure
        qids = judged.qids[judged.ranking_query]
        return target.drop_unknown(exposure, qids)  # type: ignore[no-any-return]

    def targets(self, judged: LabeledRun) -> FloatArray:
        """Return the target exposure of each pair; shape (n_pairs,)."""
        if "groups" in self.params or self["variant"] != "paper":
            raise ParameterError(
                f"{self.text}: targets of documents are only available with variant='paper'"
            )
        n = n_documents(self, judged)
        grade = np.nan_to_num(self.grades(judged.pair_label))
        grades = make_grades(judged.pair_query, grade, len(judged.qids), n)
        target = self.ranks(int(n.max(initial=0))).target(grades)
        return np.append(target, 0.0)[grades.of_pair]

    def _by_variant(self, judged: LabeledRun) -> VariantValues:
        """Return the variant's values of all queries, computed once for the three measures."""
        params = tuple((name, self.params[name]) for name in self.params if name != "normalize")
        objects = tuple(self.objects().items())
        return judged.derived(_variant_values, _Settings(params, objects, self))

    def excess(self, judged: LabeledRun, plain: VariantValues) -> FloatArray:
        """Return the excess of EE-D and EE-L from sampling; 0 for one ranking; (n_queries,)."""
        square = self.exposure_by_ranking(judged).square()
        return sampling_excess(plain.values.disparity.value, square, judged.ranking_query)

    def scales(self, judged: LabeledRun) -> FloatArray:
        """Return the factor that normalizes raw values; NaN if undefined, 0 for missing queries."""
        if not self["normalize"]:
            return np.ones(len(judged.qids))
        return np.where(judged.present, 1.0 / self.widths(judged), 0.0)

    @property
    def has_sampling_bias(self) -> bool:
        """Whether the plain estimate of sampled rankings is biased: not EE_R, which is a mean."""
        return "estimator" in self.SUPPORTED_PARAMS and self["estimator"] == "plain"

    def sampling_bias(self, judged: LabeledRun) -> FloatArray:
        """Return the bias of the plain estimates of EE_D and EE_L of sampled rankings.

        Returns:
            Shape (n_queries,); NaN for one sample, 0 for a query missing from the run.
        """
        n = np.bincount(judged.ranking_query, minlength=len(judged.qids))
        bias = self.excess(judged, self._by_variant(judged)) * self.scales(judged)
        return np.where(n == 1, np.nan, np.where(n == 0, 0.0, bias))

    def widths(self, judged: LabeledRun) -> FloatArray:
        """Return upper minus lower bound of raw values; NaN if they are equal."""
        part: Bounded = getattr(self._by_variant(judged).values, self.PART)
        return np.where(part.equal_bounds, np.nan, part.upper - part.lower)

    def score_all(self, judged: LabeledRun) -> Scores:
        """Return the value of each query."""
        if self["browsing"].needs_cutoff and self["cutoff"] is None:
            raise ParameterError(
                f"{self.text}: a cutoff is required for browsing={str(self['browsing'])!r}, the "
                f"number of documents that the user reads; write {self.text}@5"
            )
        is_disparity = self.PART == "disparity"
        by_target = "groups" in self.params and self["variant"] == "paper" and not is_disparity
        if by_target and self["target"] is None:
            raise ParameterError(
                f"{self.NAME} requires a target for groups; write {self.NAME}(groups=..., "
                "target=...), e.g. with Target.from_qrels(qrels, groups)"
            )
        variant = self._by_variant(judged)
        part: Bounded = getattr(variant.values, self.PART)
        reasons = [*([] if is_disparity else variant.without_target), *variant.undefined]
        if self["normalize"]:
            result = np.where(judged.present, part.normalized(), part.worst_normalized)
            reasons += [*variant.unbounded, (part.why, judged.present & np.isnan(result))]
        else:
            result = np.where(judged.present, part.value, part.worst)
            reasons.append((NO_WORST, ~judged.present & np.isnan(part.worst)))
        return Scores.of(result, reasons)

    def reads_size(self, qrels: Qrels, n: IntArray) -> BoolArray:
        """Return whether each query's value depends on the number n of its documents.

        If useful documents fill the ranks, other documents have no target, so n does not matter.
        Exact bounds and those of a cascade depend on n in any case. With the paper's bounds, EE-D
        only depends on n if the cutoff exceeds it.
        """
        cutoff, exact = self["cutoff"], self["bounds"] == "exact"
        if self["variant"] != "paper" or "groups" in self.params or self["n"] != N_OF_RUN:
            return np.zeros(len(n), dtype=bool)
        if self.PART == "disparity" and not exact and cutoff is not None:
            return np.asarray(n < cutoff)
        if exact or cutoff is None or self["browsing"].stop > 0:
            return np.ones(len(n), dtype=bool)
        useful = self.grades(qrels.labels) > 0
        return np.asarray(counts(qrels.query, useful, len(n)) < cutoff)


@dataclass(frozen=True)
class _Settings:
    """The settings that EE_D, EE_R and EE_L share, and one of the measures that have them."""

    params: tuple[tuple[str, Any], ...]
    objects: tuple[tuple[str, Any], ...]
    measure: ExpectedExposure = field(compare=False)


def _variant_values(judged: LabeledRun, settings: _Settings) -> VariantValues:
    measure = settings.measure
    values = VARIANTS[measure["variant"], "groups" in measure.params](measure, judged)
    if "estimator" in measure.params and judged.run.sampled:
        refuse_one_sample(measure.text, judged.qids, judged.ranking_query)
        values = replace(values, values=values.values.less(measure.excess(judged, values)))
    return values


class ExpectedExposureDisparity(ExpectedExposure):
    """How unevenly a ranking policy spreads exposure over documents.

    EE-D is the squared norm of expected exposure (Diaz et al. 2020; Kim and Diaz, Towards Fair RAG,
    Eqs. 3 and 5), divided by that of a deterministic ranking, the largest value (Appendix C).
    Values are in [0, 1] when normalized; lower is more even. EE-D does not tell whether the exposed
    documents are useful (see `EE_R`), or whether groups are treated equally (see `AWRF`).

    ``bounds="paper"`` has the lower bound 0, which no policy reaches: a uniform one has k / n.
    ``bounds="exact"`` has (sum of weights)^2 / n; a query is then undefined (NaN) if every ranking
    shows all documents equally, or if a ranking has fewer than min(k, n) documents. Under a cascade
    (`GERR`), the largest value is that with the useful documents last. A query missing from the run
    gets the largest value, 1 when normalized.

    N samples overestimate EE-D by (1 - EE-D) / N in expectation. ``estimator="unbiased"`` subtracts
    this; its values may be outside [0, 1], and N = 1 is an error. A run without ``sample`` is a
    deterministic policy.

    With ``groups=...``, EE-D is the squared norm of the groups' exposure (see `EE_L`). With
    ``variant="expeval"`` and `GERR`, values may be outside [0, 1], because that code's bounds do
    not hold for every cascade.
    """

    identity_name = "fairtk.EE_D"
    output_version = 2
    NAME = "EE_D"
    PRETTY_NAME = "Expected exposure disparity"
    BETTER = "lower"
    ABOUT = "how unevenly exposure is spread over the documents of a query, useful or not"
    CAVEAT = "it does not show which documents deserve exposure"
    MISSING = 1.0
    PART = "disparity"


class ExpectedExposureRelevance(ExpectedExposure):
    """How much of the exposure goes where an ideal policy would put it.

    EE-R is the inner product of expected and target exposure (Diaz et al. 2020; Kim and Diaz,
    Towards Fair RAG, Eqs. 3 and 6), divided by the ideal policy's value (Appendix C). Values are in
    [0, 1] when normalized; higher is better. EE-R measures quality, not fairness: a deterministic
    ranking with the useful documents on top has the same value as an even policy over them.

    With ``bounds="exact"``, the lower bound is the value of the worst order, which is above 0 if
    useful documents cannot all be left out; a query is then undefined (NaN) if a ranking has fewer
    than min(k, n) documents. Under a cascade (`GERR`), values are divided by the largest value of
    any order, which may exceed the ideal policy's. A query without a useful document is undefined;
    one missing from the run gets 0. Samples estimate EE-R without bias.

    With ``groups=...``, EE-R is the inner product of the groups' exposure and the target (see
    `EE_L`).
    """

    identity_name = "fairtk.EE_R"
    output_version = 1
    NAME = "EE_R"
    PRETTY_NAME = "Expected exposure relevance"
    BETTER = "higher"
    ABOUT = "how much of the exposure goes to useful documents"
    CAVEAT = "it does not show whether equally useful documents get equal exposure"
    MISSING = 0.0
    PART = "relevance"
    SUPPORTED_PARAMS: ClassVar[dict[str, Param]] = {
        name: param for name, param in PARAMETERS.items() if name != "estimator"
    }


class ExpectedExposureLoss(ExpectedExposure):
    """How far the exposure of documents is from their target exposure.

    EE-L is the squared distance of expected and target exposure (Diaz et al. 2020; Kim and Diaz,
    Towards Fair RAG, Eq. 3): EE_D - 2 EE_R + squared norm of the target, all unnormalized. Lower is
    better; only the ideal policy reaches 0. Values are in [0, 1] when normalized. The papers do not
    normalize EE-L; ``normalize=True`` divides it by the sum of the upper bounds of EE_D and EE_R,
    as the code of Towards Fair RAG does. ``bounds="exact"`` divides it by the loss of the worst
    order (under `GERR`, by an upper bound of it); a query is then undefined (NaN) if a ranking has
    fewer than min(k, n) documents. A query without a useful document is undefined; one missing from
    the run gets the upper bound. ``estimator="unbiased"`` subtracts the excess of EE_D from
    sampling.

    ``EE_L(groups=..., target=...)@20`` is the score of TREC Fair Ranking 2022, Task 2. The exposure
    of groups, from useful documents only, is compared with the target distribution times the
    attention on the first 20 ranks, whatever the length of the rankings. It uses the discount
    `TREC` and is not normalized. ``variant="expeval"`` has that code's group form and target.
    """

    identity_name = "fairtk.EE_L"
    output_version = 2
    NAME = "EE_L"
    PRETTY_NAME = "Expected exposure loss"
    BETTER = "lower"
    ABOUT = "how far exposure is from equal exposure for equally useful documents"
    CAVEAT = "it does not show which documents get too little"
    MISSING = 1.0
    PART = "loss"


EE_D, EE_R, EE_L = ExpectedExposureDisparity(), ExpectedExposureRelevance(), ExpectedExposureLoss()
