"""The definitions of expected exposure: one class for each form of EE-D, EE-R and EE-L.

Those of expeval (Diaz et al. 2020), by documents and by groups, of Towards Fair RAG, and of TREC
Fair Ranking 2022's Task 2.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from fairtk.errors import ColumnError, InputError, ParameterError, listed
from fairtk.exposure import MU, RBP, BrowsingModel, expected_exposure
from fairtk.exposure.expected import (
    DEEPEST,
    Bounded,
    ExposureValues,
    RankWeights,
    expeval_values,
    fair_rag_values,
    make_grades,
    sampling_excess,
    values_and_bounds,
)
from fairtk.frames import QID, BoolArray, FloatArray, IntArray
from fairtk.groups.distances import (
    SparseRows,
    attention_matrix,
    expeval_group_values,
    expeval_target,
    group_exposure,
    loss_parts,
)
from fairtk.measures.base import FairMeasure
from fairtk.measures.labeled_run import LabeledRun

Reasons = tuple[tuple[str, BoolArray], ...]
"""Why queries have no value, each with the queries, of shape (n_queries,)."""


@dataclass(frozen=True)
class FormValues:
    """What a form makes of all queries; arrays have shape (n_queries,)."""

    values: ExposureValues  # EE-D, EE-R and EE-L
    useless: BoolArray  # queries that have no value because nothing is useful
    untargeted: BoolArray | None = None  # queries without EE-R and EE-L for lack of a target
    undefined: Reasons = ()  # why queries have no value at all, each with the queries
    unbounded: Reasons = ()  # why queries have no normalized value
    n: IntArray | None = None  # documents judged or retrieved, if values depend on them
    disparity_has_n: bool = False  # whether EE-D depends on them, too


class Form:
    """One definition of the three measures, with its settings; a subclass defines `find`.

    `lacking` says what is missing without which nothing is measured; empty: nothing.
    """

    disparity_needs_useful = False
    """Whether EE-D, too, has no value where nothing is useful."""

    def __init__(self, measure: FairMeasure) -> None:
        self.name = measure.NAME
        self.where = measure.text
        self.model: BrowsingModel = measure["browsing"]
        self.cutoff: int | None = measure["cutoff"]
        self.graded: bool = measure["graded"]
        self.rel: float | None = measure["rel"]
        few = self.cutoff is not None and self.cutoff <= DEEPEST
        self._ranks = RankWeights.of(self.model, self.cutoff, self.cutoff or 0) if few else None
        self.lacking = ""
        if self.model.needs_cutoff and self.cutoff is None:
            self.lacking = (
                f"{self.where}: browsing={str(self.model)!r} needs a cutoff, the number of "
                f"documents that the user reads: write {self.where}@5"
            )

    def find(self, judged: LabeledRun) -> FormValues:
        """Return the values of all queries."""
        raise NotImplementedError

    def shown(self, judged: LabeledRun) -> SparseRows:
        """Return the attention that each ranking gives: a row per ranking, a column per pair."""
        ranked = judged.run
        useful = (self.grades(judged.pair_label) > 0)[judged.pair_of_row]
        deepest = int(ranked.position.max(initial=-1)) + 1
        weight = self.ranks(deepest).attention(ranked, useful)
        shape = (ranked.n_rankings, judged.n_pairs)
        return SparseRows(attention_matrix(ranked.ranking, judged.pair_of_row, weight, shape))

    def targets(self, judged: LabeledRun) -> FloatArray:
        """Return the target exposure of each pair; shape (n_pairs,)."""
        raise ParameterError(f"{self.where}: no target by document; use variant='paper'")

    def ranks(self, deepest: int) -> RankWeights:
        """Return the attention of the first ranks, of `deepest` at most without a cutoff."""
        return self._ranks or RankWeights.of(self.model, self.cutoff, deepest)

    def grades(self, label: FloatArray) -> FloatArray:
        """Return the grade of each label: above 0 is useful, NaN is not judged."""
        rel = self.rel
        grade = label if rel is None else np.where(label >= rel, label, np.minimum(label, 0.0))
        return grade if self.graded else np.where(grade > 0, 1.0, np.minimum(grade, 0.0))

    def of_pairs(self, judged: LabeledRun) -> tuple[FloatArray, BoolArray, FloatArray, IntArray]:
        """Return of each pair the grade, whether it is useful, and the expected exposure.

        Shape (n_pairs,); then the number of useful documents of each query, shape (n_queries,).
        """
        ranked = judged.run
        grade = self.grades(judged.pair_label)
        useful = grade > 0
        n_useful = counts(judged.pair_query, useful, len(judged.qids))
        if judged.exact is not None:
            weight = judged.exposure_of_rows(self.where, self.model, self.cutoff)
        else:
            deepest = int(ranked.position.max(initial=-1)) + 1
            weight = self.ranks(deepest).attention(ranked, useful[judged.pair_of_row])
        samples = ranked.n_samples[ranked.query]
        exposure = expected_exposure(weight, judged.pair_of_row, len(useful), samples)
        return grade, useful, exposure, n_useful

    def without_sampling(self, judged: LabeledRun, plain: FormValues) -> FormValues:
        """Return values whose EE-D and EE-L are right in expectation for any number of samples.

        The mean exposure of N rankings has the squared norm ((N - 1) D + W) / N in expectation,
        with D that of the policy and W the mean squared norm of its rankings: one number for all
        rankings under models that look at ranks alone, the mean over the samples under a cascade. A
        query whose run has no samples is left as it is: its ranking is the policy.
        """
        ranked = judged.run
        if not ranked.sampled:
            return plain
        refuse_one_sample(self.where, judged.qids, judged.ranking_query)
        return replace(plain, values=plain.values.less(self.excess(judged, plain)))

    def excess(self, judged: LabeledRun, plain: FormValues) -> FloatArray:
        """Return what sampling adds to EE-D and EE-L; 0 for one ranking; shape (n_queries,)."""
        square = self.shown(judged).square()
        return sampling_excess(plain.values.disparity.value, square, judged.ranking_query)


def refuse_one_sample(where: str, qids: Any, ranking_query: IntArray) -> None:
    """Raise an `InputError` if a query of sampled rankings has a single one."""
    alone = np.flatnonzero(np.bincount(ranking_query, minlength=len(qids)) == 1)
    if len(alone):
        raise InputError(
            f"{where}: qid {str(qids[alone[0]])!r} has one sample ({len(alone)} such queries), and "
            "the unbiased estimate needs two; draw more, drop the column 'sample' of a ranking "
            "that is always the same, or use estimator='plain'"
        )


def counts(index: IntArray, mask: Any, n_queries: int) -> IntArray:
    """Return how many items of each query a mask holds."""
    return np.bincount(index[mask], minlength=n_queries)


class PaperForm(Form):
    """Towards Fair RAG, Eqs. 3 to 6 and Appendix C; Diaz et al. 2020."""

    def __init__(self, measure: FairMeasure) -> None:
        super().__init__(measure)
        self.exact = measure["bounds"] == "exact"
        self.n: str | int = measure["n"]

    def find(self, judged: LabeledRun) -> FormValues:
        """Return the values of all queries."""
        n, is_open = self.n_documents(judged), self.n == "judged+retrieved"
        n_queries = len(judged.qids)
        ranks = self.ranks(int(n.max(initial=0)))
        grade, useful, exposure, n_useful = self.of_pairs(judged)
        values = values_and_bounds(
            exposure,
            judged.pair_query,
            make_grades(judged.pair_query, np.nan_to_num(grade), n_queries, n),
            ranks,
            self.cutoff,
            exact=self.exact,
            closed=not is_open,
        )
        undefined: Reasons = ()
        if self.n == "judged":
            # documents without a label stand for labeled ones that are not useful, if there are any
            read = counts(judged.pair_query, (exposure > 0) & ~useful, n_queries)
            reason = "its rankings have more documents that are not useful than n='judged' counts"
            undefined = ((reason, read > n - n_useful),)
        # useful documents that fill what is read leave nothing of the target to others, whatever
        # their number; exact bounds and those of a cascade count all
        every = self.exact or self.cutoff is None or self.model.stop > 0
        decides = every | (n_useful < (self.cutoff or 0))
        return FormValues(
            values,
            useless=n_useful == 0,
            undefined=undefined,
            unbounded=self._short(judged, n) if self.exact else (),
            n=np.where(decides, n, -1) if is_open else None,
            # with the paper's bounds EE-D knows n only where the cutoff exceeds it
            disparity_has_n=self.exact or self.cutoff is None or bool((n < self.cutoff).any()),
        )

    def targets(self, judged: LabeledRun) -> FloatArray:
        """Return the target exposure of each pair; shape (n_pairs,)."""
        n = self.n_documents(judged)
        grade = np.nan_to_num(self.grades(judged.pair_label))
        grades = make_grades(judged.pair_query, grade, len(judged.qids), n)
        target = self.ranks(int(n.max(initial=0))).target(grades)
        return np.append(target, 0.0)[grades.of_pair]

    def n_documents(self, judged: LabeledRun) -> IntArray:
        """Return the number n of documents of each query; shape (n_queries,)."""
        rule: Any = self.n
        n_queries = len(judged.qids)
        pairs = np.bincount(judged.pair_query, minlength=n_queries)
        if rule == "judged+retrieved":
            return pairs
        if rule == "judged":
            return counts(judged.pair_query, ~np.isnan(judged.pair_label), n_queries)
        n = (
            np.full(n_queries, rule, dtype=np.int64)
            if isinstance(rule, int)
            else self._n_of_column(judged, rule)
        )
        short = n < pairs
        if short.any():
            at = int(np.flatnonzero(short)[0])
            useful = counts(judged.pair_query, self.grades(judged.pair_label) > 0, n_queries)
            raise InputError(
                f"{self.where}: n is {n[at]} for qid {judged.qids[at]!r}, but {pairs[at]} of its "
                f"documents are judged or retrieved, {useful[at]} of them useful; "
                "n is the number of all documents of a query"
            )
        return n

    def _n_of_column(self, judged: LabeledRun, column: str) -> IntArray:
        frame = judged.qrels.frame
        if column not in frame.columns:
            raise ColumnError(
                f"{self.where}: n must be 'judged+retrieved', 'judged', a number or a column of "
                f"the qrels; there is no column {column!r} among {list(frame.columns)}"
            )
        values = frame[column].to_numpy(dtype=np.float64, na_value=np.nan)
        query = judged.qrels.query
        n = np.full(len(judged.qids), np.nan)
        n[query] = values
        wrong = ~(n[query] == values) | (values != np.floor(values))
        if wrong.any():
            bad = listed(dict.fromkeys(str(q) for q in frame[QID].to_numpy()[wrong]))
            raise InputError(
                f"{self.where}: column {column!r} of the qrels must hold one whole number per "
                f"query; it does not for qid {bad}"
            )
        return n.astype(np.int64)

    def _short(self, judged: LabeledRun, n: IntArray) -> Reasons:
        """Return where rankings are shorter than those that the exact bounds are made for."""
        ranked = judged.run
        query = judged.ranking_query
        depth = n if self.cutoff is None else np.minimum(n, self.cutoff)
        short = np.diff(ranked.ranking_start) < depth[query]
        full = "n" if self.cutoff is None else f"min({self.cutoff}, n)"
        reason = f"a ranking has fewer than {full} documents, so that the exact bounds, "
        return ((f"{reason}those of full rankings, do not hold", counts(query, short, len(n)) > 0),)


class ExpevalForm(Form):
    """``variant="expeval"``, by documents."""

    model: RBP

    def __init__(self, measure: FairMeasure) -> None:
        super().__init__(measure)
        if not (isinstance(self.model, RBP) and self.model.p < 1):
            raise ParameterError(
                f"{self.name}: variant='expeval' needs browsing='RBP(p=...)' or "
                f"'GERR(p=..., u=...)' with p below 1; found {self.model!r}"
            )
        if self.cutoff is not None:
            raise ParameterError(f"{self.name}: variant='expeval' has no cutoff; drop @k")
        self.complete: bool = measure["complete"]

    def find(self, judged: LabeledRun) -> FormValues:
        """Return the values of all queries."""
        n_queries = len(judged.qids)
        grade, useful, exposure, n_useful = self.of_pairs(judged)
        labeled_grade = grade if self.complete else np.where(useful, grade, np.nan)
        query = judged.pair_query
        grades = make_grades(query, labeled_grade, n_queries)
        values = expeval_values(exposure, query, grades, self.model, complete=self.complete)
        # with complete labels every grade has a target
        return FormValues(values, (n_useful == 0) & (not self.complete))


class ExpevalGroupsForm(ExpevalForm):
    """``variant="expeval"`` with groups: exposure and target of their documents, summed."""

    def __init__(self, measure: FairMeasure) -> None:
        super().__init__(measure)
        if "target" in measure.params:
            raise ParameterError(
                f"{self.name}: variant='expeval' makes its own target of groups; drop target"
            )
        self.groups = measure["groups"]
        self.disparity_needs_useful = bool(measure["useful_only"])

    def find(self, judged: LabeledRun) -> FormValues:
        """Return the values of all queries."""
        n_queries = len(judged.qids)
        grade, useful, exposure, n_useful = self.of_pairs(judged)
        counted = np.flatnonzero(~np.isnan(grade) if self.complete else useful)
        grades = make_grades(judged.pair_query[counted], grade[counted], n_queries)
        target = expeval_target(grades, self.model)[grades.of_pair]
        memberships = self.groups.memberships(judged.docnos, "drop")
        memberships = memberships.weighted(np.ones(len(memberships.weight)))
        ones = judged.summed(memberships, np.ones(len(counted)), counted)
        values = expeval_group_values(
            judged.summed(memberships, exposure[counted], counted),
            judged.summed(memberships, target, counted),
            n_useful,
            counts(judged.pair_query, counted, n_queries),
            np.bincount(ones.row, minlength=n_queries),
            self.model,
        )
        return FormValues(values, (n_useful == 0) & (not self.complete))


class FairRAGForm(Form):
    """``variant="fair-rag"``: useful documents alone have a target."""

    def __init__(self, measure: FairMeasure) -> None:
        super().__init__(measure)
        if not isinstance(self.model, MU):
            raise ParameterError(f"{self.name}: variant='fair-rag' needs browsing='MU'")

    def find(self, judged: LabeledRun) -> FormValues:
        """Return the values of all queries."""
        n_queries = len(judged.qids)
        grade, useful, exposure, n_useful = self.of_pairs(judged)
        values = fair_rag_values(
            exposure,
            judged.pair_query,
            make_grades(judged.pair_query, np.where(useful, 1.0, np.nan), n_queries),
            int(self.cutoff or 0),
            counts(judged.pair_query, ~np.isnan(grade), n_queries),
        )
        return FormValues(values, n_useful == 0)


class Task2Form(Form):
    """Exposure of groups against a target distribution times the attention of the ranks.

    One departure: with ``useful_only=False`` the track's code counts nothing where no useful
    document is retrieved, which makes EE-D 0, its best; here documents count as always.
    """

    RANKS: ClassVar[int] = 20
    """Ranks whose attention scales the target without a cutoff: TREC's Task 2 asked for 20."""

    def __init__(self, measure: FairMeasure) -> None:
        super().__init__(measure)
        if measure["variant"] != "paper" or measure["bounds"] != "paper" or "n" in measure.params:
            raise ParameterError(
                f"{self.name}: groups need variant='paper' (TREC's form) or 'expeval', and "
                "have neither bounds nor n"
            )
        if measure["normalize"]:
            raise ParameterError(
                f"{self.name}: normalize=True is not defined for groups: the official score is "
                "not normalized"
            )
        self.groups, self.target = measure["groups"], measure["target"]
        if self.target is not None:
            self.target = self.target.for_groups(self.groups)
        self.useful_only: bool = measure["useful_only"]
        self.disparity_needs_useful = self.useful_only
        if self.target is None and measure.PART != "disparity":
            self.lacking = (
                f"{self.name} with groups needs a target: {self.name}(groups=..., target=...), "
                "e.g. Target.from_work_needed(...) or Target.from_qrels(qrels, groups)"
            )

    @property
    def scale(self) -> float:
        """The attention of the ranks, which the target is a distribution of."""
        ranks = np.arange(self.cutoff or self.RANKS, dtype=np.int64)
        return float(self.model.weights(ranks).sum())

    def shown(self, judged: LabeledRun) -> SparseRows:
        """Return the exposure that each ranking gives: a row per ranking, a column per group."""
        rows = super().shown(judged)
        counted = self.grades(judged.pair_label) > 0
        weight = rows.weight * counted[rows.level] if self.useful_only else rows.weight
        memberships = self.groups.memberships(judged.docnos, "drop")
        return group_exposure(rows.weighted(weight).matrix, memberships.take(judged.pair_doc))

    def find(self, judged: LabeledRun) -> FormValues:
        """Return the values of all queries."""
        n_queries = len(judged.qids)
        _, useful, exposure, n_useful = self.of_pairs(judged)
        exposure = exposure * useful if self.useful_only else exposure
        memberships = self.groups.memberships(judged.docnos, "drop")
        system = judged.summed(memberships, exposure, np.arange(judged.n_pairs))
        target: Any = system.take(np.full(n_queries, -1))
        if self.target is not None:
            target = self.target.for_qids(judged.qids)
        disparity, relevance, loss = loss_parts(system, target, self.scale)
        untargeted = target.total() == 0
        square = self.scale**2 * target.square()
        highest = self._highest(n_useful, memberships)
        zero = np.zeros(n_queries)
        values = ExposureValues(
            Bounded(disparity, zero, highest, highest, 1.0),
            Bounded(relevance, zero, highest, zero, 0.0),
            Bounded(loss, zero, highest + square, highest + square, 1.0),
        )
        return FormValues(values, n_useful == 0, untargeted)

    def _highest(self, n_useful: Any, memberships: SparseRows) -> FloatArray:
        """Return what no disparity is above; NaN where it has no end; shape (n_queries,).

        That is all attention on documents of one group, or of as many as a document may have at
        once: the norm of a sum is at most the sum of the norms.
        """
        depth = np.full(len(n_useful), self.cutoff or self.RANKS)
        if self.cutoff is None:
            if not self.useful_only:
                return np.full(len(n_useful), np.nan)
            depth = np.maximum(depth, n_useful)
        weight = self.model.weights(np.arange(int(depth.max(initial=0)), dtype=np.int64))
        attention = np.concatenate([[0.0], np.cumsum(weight)])[depth]
        return np.asarray(attention**2 * memberships.square().max(initial=1.0))


FORMS: dict[tuple[str, bool], type[Form]] = {
    ("paper", False): PaperForm,
    ("fair-rag", False): FairRAGForm,
    ("expeval", False): ExpevalForm,
    ("paper", True): Task2Form,
    ("fair-rag", True): Task2Form,  # which refuses the variant
    ("expeval", True): ExpevalGroupsForm,
}
"""The form of each variant, without and with groups."""
