"""Measures of credit: AE-D, AE-R and AE-L, those of EE on expected credit; credit against
exposure; citations of useful documents.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pandas as pd

from fairtk.errors import DataWarning, ParameterError, warn
from fairtk.exposure import Bounded, BrowsingModel, ExposureValues, RankWeights, make_grades, total
from fairtk.frames import (
    CREDIT,
    DOCNO,
    GROUP,
    LABEL,
    QID,
    RANK,
    SCORE,
    BoolArray,
    Credit,
    ExpectedCredit,
    FloatArray,
    IntArray,
    Qrels,
    Run,
)
from fairtk.groups import UNKNOWN, attention_matrix, group_exposure
from fairtk.measures.base import FairMeasure, Judged
from fairtk.measures.ee import PARAMETERS
from fairtk.measures.params import BROWSING, GROUPS, Param, count

SHARE = Param(
    bool, default=True, desc="divide the credit of each ranking by its sum; False: as it is"
)
NEGATIVE = Param(
    str,
    default="zero",
    choices=("zero", "refuse"),
    desc="what becomes of credit below 0: counted as 0, or an error",
)


def expected_credit(
    judged: Judged, where: str, share: bool = True, negative: str = "zero"
) -> tuple[Judged, BoolArray]:
    """Return the expected credit in the place of a run, and the queries whose credit is undefined.

    The scores of that run are the expected credit. Warns once of what was cut or left out.
    """
    expected, undefined = _shares(judged, where, share, negative)
    key = ("credit of documents", share, negative)
    if key not in judged.cache:
        run = judged.run
        documents = {QID: run.qids[expected.query], DOCNO: run.docnos[expected.doc]}
        frame = pd.DataFrame({**documents, SCORE: expected.credit})
        judged.cache[key] = Judged(judged.qrels, Run(frame, run.where), judged.where)
    return judged.cache[key], undefined


def _shares(
    judged: Judged, where: str, share: bool, negative: str
) -> tuple[ExpectedCredit, BoolArray]:
    """Return the expected credit of the run's documents, and the queries where it is undefined."""
    key = ("credit", share, negative)
    if key not in judged.cache:
        credit = Credit(judged.run)
        expected = credit.expected(share, negative)
        warn_of_credit(credit, expected, where)
        undefined = np.zeros(len(judged.qids), dtype=bool)
        undefined[judged.query_of_run[expected.undefined]] = True
        judged.cache[key] = expected, undefined
    means: tuple[ExpectedCredit, BoolArray] = judged.cache[key]
    return means


def warn_of_credit(credit: Credit, expected: ExpectedCredit, where: str) -> None:
    """Warn of values below 0 that count as 0, and of rankings that are left out."""
    if expected.n_negative:
        warn(
            f"{where}: {expected.n_negative} of {len(credit.credit)} values of credit are below 0 "
            "and count as 0; negative='refuse' makes them an error",
            DataWarning,
        )
    if expected.n_undefined:
        warn(
            f"{where}: the credit of {expected.n_undefined} of {len(credit.ranking_query)} "
            "rankings is undefined (NaN, or a sum of 0); means are over the other rankings of "
            "their queries",
            DataWarning,
        )


class AttributedExposure(FairMeasure):
    """Base of the measures of attributed exposure: EE's, of credit in the place of exposure."""

    CITATION: ClassVar[str] = "diaz2020evaluating kim2024fairrag"
    RUN_COLUMNS: ClassVar[tuple[str, ...]] = (QID, DOCNO, CREDIT)
    QREL_COLUMNS: ClassVar[tuple[str, ...]] = (QID, DOCNO, LABEL)
    SUPPORTED_PARAMS: ClassVar[dict[str, Param]] = {
        "cutoff": Param(
            int, desc="ranks of the target; all credit counts, at any rank", check=count
        ),
        **{name: PARAMETERS[name] for name in ("browsing", "normalize", "bounds", "graded", "rel")},
        "share": SHARE,
        "negative": NEGATIVE,
    }
    PART: ClassVar[str]  # the field of ExposureValues

    def check_params(self) -> None:
        """Raise if the parameters do not go together."""
        if not self.settings["share"] and self.params.get("normalize", True):
            raise ParameterError(
                f"{self.NAME}: share=False has no bounds to normalize by; add normalize=False"
            )
        model: BrowsingModel = self.settings["browsing"]
        if model.stop > 0:
            raise ParameterError(
                f"{self.NAME}: browsing={str(model)!r} stops at useful documents, so that the "
                "target depends on the ranking; use MU, RBP, DCG or TREC"
            )
        if model.needs_cutoff and self.settings.get("cutoff") is None and self.PART != "disparity":
            self.lacking = (
                f"{self.NAME}: browsing={str(model)!r} needs a cutoff, the number of documents "
                f"that the reader reads: write {self.NAME}@5"
            )
        else:
            self.lacking = ""

    def score_all(self, judged: Judged) -> FloatArray:
        """Return the value of each query; see the class for what is undefined."""
        if self.lacking:
            raise ParameterError(self.lacking)
        share, negative = self.settings["share"], self.settings["negative"]
        present = judged.present
        expected, undefined = _shares(judged, repr(self), share, negative)
        useless = np.zeros(len(present), dtype=bool)
        if self.PART == "disparity" and self.settings["bounds"] == "paper":  # needs no label
            query, square = judged.query_of_run[expected.query], expected.credit**2
            part = self._disparity(total(query, square, len(present)), np.zeros(len(present)))
        else:
            key = ("attributed", *(str(self.params.get(name)) for name in self.SUPPORTED_PARAMS))
            if key not in judged.cache:
                means, _ = expected_credit(judged, repr(self), share, negative)
                judged.cache[key] = self._values(means)
            values, useless = judged.cache[key]
            part = getattr(values, self.PART)
        reasons = [("no ranking of it has defined credit", undefined)]
        if self.PART != "disparity":
            reasons.append(("no useful document in the labels", useless))
        if self.settings["normalize"]:
            result = np.where(present, part.normalized(), part.worst_normalized)
            reasons.append((part.why, present & np.isnan(result)))
        else:
            result = np.where(present, part.value, part.worst)
            no_worst = "the run lacks it, and with share=False no value is the worst"
            reasons.append((no_worst, ~present & np.isnan(part.worst)))
        told = np.zeros(len(result), dtype=bool)
        for reason, mask in reasons:
            if mask.any():
                self.warn_undefined(judged.qids[mask & ~told], len(result), reason)
                told |= mask
        return np.where(told, np.nan, result)

    def _disparity(self, value: FloatArray, lowest: FloatArray) -> Bounded:
        one = np.ones(len(value))
        return Bounded(value, lowest, one, one if self.settings["share"] else one * np.nan, 1.0)

    def _values(self, judged: Judged) -> tuple[ExposureValues, BoolArray]:
        """Return the values of all queries, and where nothing is useful."""
        n_queries, query = len(judged.qids), judged.pair_query
        label = np.nan_to_num(judged.pair_label)
        useful = label >= self.settings["rel"] if self.settings["rel"] else label > 0
        grade = np.where(useful, label if self.settings["graded"] else 1.0, 0.0)
        n = np.bincount(query, minlength=n_queries)
        cutoff = self.settings.get("cutoff")
        deepest = int(n.max(initial=0))
        grades = make_grades(query, grade, n_queries, n)
        if self.lacking or (cutoff is None and self.settings["browsing"].needs_cutoff):
            target = np.zeros(len(query))  # AE_D alone, which needs none
        else:
            ranks = RankWeights.of(self.settings["browsing"], cutoff, deepest)
            target = np.append(ranks.target(grades), 0.0)[grades.of_pair]
            target = target / total(query, target, n_queries)[query]
        credit = np.zeros(judged.n_pairs)
        credit[judged.pair_of_row] = judged.run.scores[judged.run.order]
        disparity = total(query, credit**2, n_queries)
        relevance = total(query, credit * target, n_queries)
        square = total(query, target**2, n_queries)
        zero, one = np.zeros(n_queries), np.ones(n_queries)
        lowest, least = zero, zero
        most = np.zeros(n_queries)
        np.maximum.at(most, query, target)
        if self.settings["bounds"] == "exact":
            lowest = 1.0 / np.maximum(n, 1)
            least = np.full(n_queries, np.inf)
            np.minimum.at(least, query, target)
        worst = one if self.settings["share"] else np.full(n_queries, np.nan)
        loss = disparity - 2 * relevance + square
        farthest = one - 2 * least + square
        values = ExposureValues(
            self._disparity(disparity, lowest),
            Bounded(relevance, least, most, zero, 0.0),
            Bounded(loss, zero, farthest, worst * farthest, 1.0),
        )
        return values, grades.n_useful == 0


class AttributedExposureDisparity(AttributedExposure):
    """How unevenly answers rest on documents.

    The sum over documents of their squared expected credit: alpha_d is the mean over a query's
    rankings of a_d / sum(a), a_d the document's credit in one answer (frame C: `qid`, `sample`,
    `docno`, `credit`). EE_D with credit in the place of exposure (Diaz et al. 2020; Kim and Diaz,
    Towards Fair RAG, Eq. 5). In [0, 1]; lower is more even; 1: all answers rest on one document,
    always the same. ``bounds="exact"`` takes 1 / n as the floor, n the judged documents and those
    of rankings whose credit is defined. A cutoff cuts no credit: it is that of `AE_R`'s target.

    It says nothing about whether those documents are useful (AE_R), nor about the world: a document
    without credit may have been read. A ranking whose credit is NaN, or sums up to 0, is left out;
    a query without another one is undefined (NaN). A query that the frame lacks gets 1.
    """

    identity_name = "fairtk.AE_D"
    output_version = 1
    NAME = "AE_D"
    PRETTY_NAME: ClassVar[str] = "Attributed exposure disparity"
    BETTER: ClassVar[str] = "lower"
    MISSING: ClassVar[float] = 1.0
    BOUNDS: ClassVar[tuple[float, float]] = (0.0, 1.0)
    PART: ClassVar[str] = "disparity"


class AttributedExposureRelevance(AttributedExposure):
    """How much of the credit goes to useful documents.

    The inner product of expected credit (see `AE_D`) and the target of EE, divided by its sum: EE_R
    with credit in the place of exposure (Diaz et al. 2020; Kim and Diaz, Towards Fair RAG, Eq. 6).
    Normalized by its largest value, all credit on a document of the highest target, it is in
    [0, 1]; higher is better. With labels of one grade that is the share of credit that useful
    documents get. A query without a useful document is undefined; one that the frame lacks gets 0.
    """

    identity_name = "fairtk.AE_R"
    output_version = 1
    NAME = "AE_R"
    PRETTY_NAME: ClassVar[str] = "Attributed exposure relevance"
    BETTER: ClassVar[str] = "higher"
    MISSING: ClassVar[float] = 0.0
    BOUNDS: ClassVar[tuple[float, float]] = (0.0, 1.0)
    PART: ClassVar[str] = "relevance"


class AttributedExposureLoss(AttributedExposure):
    """How far the credit that documents get is from the credit they should get.

    The squared distance of expected credit (see `AE_D`) and the target of EE divided by its sum:
    AE_D - 2 AE_R + squared norm of the target, all unnormalized. Normalized by its largest value
    (``bounds="paper"``: 1 + squared norm of the target; ``"exact"``: that of all credit on a
    document of the lowest target) it is in [0, 1]; lower is better. A query without a useful
    document is undefined; one that the frame lacks gets the upper bound.
    """

    identity_name = "fairtk.AE_L"
    output_version = 1
    NAME = "AE_L"
    PRETTY_NAME: ClassVar[str] = "Attributed exposure loss"
    BETTER: ClassVar[str] = "lower"
    MISSING: ClassVar[float] = 1.0
    BOUNDS: ClassVar[tuple[float, float]] = (0.0, 1.0)
    PART: ClassVar[str] = "loss"


AE_D, AE_R, AE_L = (
    AttributedExposureDisparity(),
    AttributedExposureRelevance(),
    AttributedExposureLoss(),
)


class CreditExposureGap(FairMeasure):
    """How far the credit that documents or groups get is from the exposure that they got.

    The sum over documents, or with ``groups=...`` over groups, of |credit share - exposure share|:
    both are means over a query's rankings, credit of a_d / sum(a) and exposure of the attention of
    a document's rank / the ranking's sum, under `browsing` (`MU`: the first k documents alike).
    In [0, 2]; 0: answers rest on what is shown, in proportion; lower is closer. The exposure that
    it compares with may itself be uneven (EE_D, AWRF), and it does not say which of the two is
    fair. `per_group` gives the signed parts.

    Needs the frame C with ``rank`` or ``score``, and a row for each document that was shown: ranks
    order, and gaps in them do not count. A ranking without defined credit is left out of both
    means; a query without another one, or with `groups` none of whose documents has a group, is
    undefined (NaN); one that the frame lacks gets 2.
    """

    identity_name = "fairtk.CreditGap"
    output_version = 1
    NAME = "CreditGap"
    PRETTY_NAME: ClassVar[str] = "Gap between credit and exposure"
    CITATION: ClassVar[str] = "kim2024fairrag"
    BETTER: ClassVar[str] = "lower"
    MISSING: ClassVar[float] = 2.0
    BOUNDS: ClassVar[tuple[float, float]] = (0.0, 2.0)
    RUN_COLUMNS: ClassVar[tuple[str, ...]] = (QID, DOCNO, CREDIT, RANK)
    QREL_COLUMNS: ClassVar[tuple[str, ...]] = (QID,)
    SUPPORTED_PARAMS: ClassVar[dict[str, Param]] = {
        "groups": GROUPS,
        "cutoff": Param(
            int, desc="ranks with exposure; all credit counts, at any rank", check=count
        ),
        "browsing": BROWSING,
        "negative": NEGATIVE,
    }
    POSITIONAL: ClassVar[tuple[str, ...]] = ("groups",)

    def score_all(self, judged: Judged) -> FloatArray:
        """Return the value of each query."""
        parts, undefined = self._parts(judged)
        n_queries = len(judged.qids)
        gap = (parts["credit"] - parts["exposure"]).abs().to_numpy()
        value = np.bincount(parts["query"], weights=gap, minlength=n_queries)
        result = np.where(judged.present, value, self.MISSING)
        reason = "no ranking of it has defined credit"
        self.warn_undefined(judged.qids[undefined], n_queries, reason)
        if self["groups"] is not None:
            labeled = np.zeros(n_queries, dtype=bool)
            labeled[parts["query"].to_numpy()[(parts[GROUP] != UNKNOWN).to_numpy()]] = True
            without = judged.present & ~undefined & ~labeled
            reason = "none of its documents has a group"
            self.warn_undefined(judged.qids[without], n_queries, reason)
            undefined = undefined | without
        return np.where(undefined, np.nan, result)

    def per_group(self, run: pd.DataFrame) -> pd.DataFrame:
        """Return the signed parts: ``qid``, ``group`` (or ``docno``), both shares, and ``gap``.

        Args:
            run: the frame C with ``rank``.

        Returns:
            A row for each query and group (document) with credit or exposure; ``gap`` is credit
            less exposure, above 0 where more rests on the group than it was shown.
        """
        checked = Run(run, f"{self!r} (run)", either=True)
        qids = pd.DataFrame({QID: checked.qids})
        parts, _ = self._parts(Judged(Qrels(qids, repr(self)), checked, repr(self)))
        parts[QID] = checked.qids[parts.pop("query")]
        name = DOCNO if self["groups"] is None else GROUP
        parts = parts[[QID, name, "credit", "exposure"]]
        return parts.assign(gap=parts["credit"] - parts["exposure"])

    def _parts(self, judged: Judged) -> tuple[pd.DataFrame, BoolArray]:
        """Return credit and exposure of each query's documents or groups, and what is undefined."""
        run, model, cutoff = judged.run, self["browsing"], self["cutoff"]
        if cutoff is None:
            raise ParameterError(
                f"{self.NAME} needs a cutoff, the number of documents that were shown: write "
                f"{self!r}@5"
            )
        if model.stop > 0:
            raise ParameterError(
                f"{self.NAME}: browsing={str(model)!r} depends on which documents are useful; use "
                "MU, RBP, DCG or TREC"
            )
        credit = Credit(run)
        attention = model.weights(np.arange(cutoff, dtype=np.int64))
        position = credit.positions
        attention = np.append(attention, 0.0)[np.minimum(position, len(attention))]
        expected = credit.expected(True, self["negative"], attention)
        warn_of_credit(credit, expected, repr(self))
        undefined = np.zeros(len(judged.qids), dtype=bool)
        undefined[judged.query_of_run[expected.undefined]] = True
        query = judged.query_of_run[expected.query]
        both = {"credit": expected.credit, "exposure": expected.attention}
        if self["groups"] is None:
            return pd.DataFrame(
                {"query": query, DOCNO: run.docnos[expected.doc], **both}
            ), undefined
        groups = self["groups"]
        memberships = groups.memberships(run.docnos, "drop")
        shape = (len(judged.qids), memberships.n_rows)
        frames = []
        for name, share in both.items():
            attention = attention_matrix(query, expected.doc, share, shape)
            system = group_exposure(attention, memberships)
            frames.append(
                pd.DataFrame({"query": system.row, "level": system.level, name: system.weight})
            )
            rest = total(query, share, len(judged.qids)) - system.total()
            some = np.flatnonzero(rest > 1e-12)
            if len(some):
                frames[-1] = pd.concat(
                    [frames[-1], pd.DataFrame({"query": some, "level": -1, name: rest[some]})]
                )
        merged = frames[0].merge(frames[1], on=["query", "level"], how="outer").fillna(0.0)
        levels = merged.pop("level")
        merged[GROUP] = [UNKNOWN if at < 0 else groups.levels[at] for at in levels]
        return merged.groupby(["query", GROUP], as_index=False).sum(), undefined


CreditGap = CreditExposureGap()


class CitationMeasure(FairMeasure):
    """Base of measures of which documents answers cite: those with credit above 0."""

    CITATION: ClassVar[str] = "gao2023alce"
    BETTER: ClassVar[str] = "higher"
    MISSING: ClassVar[float] = 0.0
    RUN_COLUMNS: ClassVar[tuple[str, ...]] = (QID, DOCNO, CREDIT)
    QREL_COLUMNS: ClassVar[tuple[str, ...]] = (QID, DOCNO, LABEL)
    SUPPORTED_PARAMS: ClassVar[dict[str, Param]] = {"rel": PARAMETERS["rel"]}

    def counts(self, judged: Judged) -> tuple[IntArray, FloatArray, FloatArray, FloatArray]:
        """Return, by ranking, its query, cited documents, those that are useful; and useful ones.

        The last is of the labels, by query.
        """
        rel = self.settings["rel"]
        labels = judged.qrels
        useful = labels.labels >= rel if rel else labels.labels > 0
        query = judged.query_of_run
        credit = Credit(judged.run)
        n = len(credit.ranking_query)
        width = max(1, judged.run.documents.size)
        doc = judged.run.documents.find(labels.documents)[labels.doc]
        asked = judged.run.queries.find(labels.queries)[labels.query]
        keys = (asked * width + doc)[useful & (asked >= 0) & (doc >= 0)]
        good = np.isin(judged.run.frame_query * width + judged.run.frame_doc, keys)
        cited = credit.credit > 0
        return (
            query[credit.ranking_query],
            np.bincount(credit.ranking[cited], minlength=n).astype(np.float64),
            np.bincount(credit.ranking[cited & good], minlength=n).astype(np.float64),
            np.bincount(labels.query[useful], minlength=len(judged.qids)).astype(np.float64),
        )


class PrecisionOfCitations(CitationMeasure):
    """Which share of the documents that an answer cites is useful.

    Documents with credit above 0 (a frame C of `fairtk.credit.Citations`) are cited; precision of
    an answer is the share of them with a label of at least `rel`; the mean over a query's answers.
    In [0, 1], higher is better. Useful is what the labels say of the document, not whether it
    supports the sentence that cites it (Gao et al. 2023, "ALCE", ask the latter). An answer that
    cites nothing has no precision: it is left out, and counted by a warning; a query without
    another one is undefined (NaN). A query that the frame lacks gets 0.
    """

    identity_name = "fairtk.CitationPrecision"
    output_version = 1
    NAME = "CitationPrecision"
    PRETTY_NAME: ClassVar[str] = "Precision of citations"

    def score_all(self, judged: Judged) -> FloatArray:
        """Return the value of each query."""
        query, cited, good, _ = self.counts(judged)
        some, n = cited > 0, len(judged.qids)
        count = np.bincount(query[some], minlength=n)
        summed = np.bincount(query[some], weights=good[some] / cited[some], minlength=n)
        result = np.where(judged.present, summed / np.maximum(count, 1), self.MISSING)
        undefined = judged.present & (count == 0)
        left_out = int((~some & (count > 0)[query]).sum())
        if left_out:
            warn(
                f"{self!r}: {left_out} of {len(query)} answers cite nothing, so that they have no "
                "precision; means are over the other answers of their queries",
                DataWarning,
            )
        self.warn_undefined(judged.qids[undefined], n, "no answer cites anything")
        return np.where(undefined, np.nan, result)


class RecallOfCitations(CitationMeasure):
    """Which share of the useful documents an answer cites.

    Documents with credit above 0 (a frame C of `fairtk.credit.Citations`) are cited; recall of an
    answer is how many of them have a label of at least `rel`, by how many documents have, whether
    they were in the prompt or not; the mean over a query's answers. In [0, 1], higher is better. An
    answer that cites nothing has recall 0. A query without a useful document is undefined (NaN);
    one that the frame lacks gets 0.
    """

    identity_name = "fairtk.CitationRecall"
    output_version = 1
    NAME = "CitationRecall"
    PRETTY_NAME: ClassVar[str] = "Recall of citations"

    def score_all(self, judged: Judged) -> FloatArray:
        """Return the value of each query."""
        query, _, good, useful = self.counts(judged)
        n = len(judged.qids)
        count = np.bincount(query, minlength=n)
        mean = np.bincount(query, weights=good, minlength=n) / np.maximum(count, 1)
        result = np.where(judged.present, mean / np.maximum(useful, 1.0), self.MISSING)
        self.warn_undefined(judged.qids[useful == 0], n, "no useful document in the labels")
        return np.where(useful == 0, np.nan, result)


CitationPrecision, CitationRecall = PrecisionOfCitations(), RecallOfCitations()
