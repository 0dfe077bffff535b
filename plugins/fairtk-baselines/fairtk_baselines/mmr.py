"""MMR: maximal marginal relevance."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from fairtk.errors import ParameterError, suggestion
from fairtk.frames import FloatArray, IntArray
from fairtk.frames.columns import DOCNO, QID, RANK, SCORE, TEXT
from fairtk.frames.rankings import Rankings, encode_run
from fairtk.renamed import refuses_old_words
from fairtk.transformers.base import FairTransformer
from fairtk.transformers.settings import depth as cutoff_setting
from fairtk_baselines import run_text
from fairtk_baselines.candidate_terms import weigh
from fairtk_baselines.scaling import min_max
from fairtk_baselines.vectors import DOC_VEC, stacked, unit_rows

_NORMALIZE = ("min-max", "none")
_VECTORS = ("auto", DOC_VEC, TEXT)
_SAME = 1e-12  # values nearer than this are ties: products of equal vectors differ by rounding


class MMR(FairTransformer):
    r"""R -> R: maximal marginal relevance (Carbonell and Goldstein, 1998).

    The next document is, among those not yet chosen,

    .. math:: \arg\max_d \; \lambda \, rel(d) - (1 - \lambda) \max_{s \in S} sim(d, s)

    where S are the documents chosen so far; the first one is the most relevant. Ties go to the
    document that is ranked higher in the input. With ``lambda_=1`` the output has the order of the
    input, with 0 relevance decides on the first document only.

    **What it is a baseline for.** MMR diversifies *content*: it knows no groups, no target and no
    exposure. It shows how fair a ranking becomes by being less redundant, and nothing else; where
    the texts of a group's documents resemble each other it spreads groups, where they do not it
    does nothing for them. Unknown groups, several groups per document and the like do not
    matter to it.

    Similarity is the cosine, of the column ``doc_vec`` (any bi-encoder's ``doc_encoder()`` adds it)
    or of TF-IDF vectors of ``text`` (`candidate_terms.weigh`: document frequencies are those among
    the query's own candidates). Cosines of dense vectors may be negative, which counts in favor of
    a document, as the formula says. A zero vector has similarity 0 with all.

    What the paper leaves open: `rel` there is a similarity in [0, 1] too. A retriever's scores
    are of any size (BM25: 0 to about 30), so that with them as they are, lambda would mean
    something else for each query. They are min-max scaled over the query's candidates by default;
    the scale, and so the meaning of lambda, then depends on how many candidates there are.

    pyterrier_dr's ``MmrScorer`` gives the same rankings for lambda below 1, similarities of at
    least 0, input rows in the order of scores, unequal scores and no zero vectors. It is not used
    since version 0.8.1 gives NaN or another order outside of that.

    Input columns: ``qid``, ``docno``, ``score``, and ``doc_vec`` or ``text``; all are kept. Output
    rows are ordered by query and rank; ``score`` becomes 0, -1, -2, ... by rank.

    Args:
        lambda_: weight of relevance against novelty, 0 to 1.
        normalize: ``"min-max"`` scales scores to [0, 1] inside each query; ``"none"`` takes them as
            they are (for scores that are cosines).
        vectors: ``"doc_vec"``, ``"text"``, or ``"auto"``: ``doc_vec`` where the frame has it,
            ``text`` otherwise.
        cutoff: how many ranks are chosen by MMR, the others keep their order behind; None for all.

    Raises:
        ParameterError: a setting is out of its range.
        InputError: in `transform`, for a missing column, a run that is sampled, a text that is not
            a string, a vector that is not finite or of another length than the others, a NaN or
            infinite score, a duplicate document, or ranks that contradict the scores.
    """

    SETTINGS = ("lambda_", "normalize", "vectors", "cutoff")

    @refuses_old_words
    def __init__(
        self,
        lambda_: float = 0.5,
        normalize: str = "min-max",
        vectors: str = "auto",
        cutoff: int | None = None,
    ) -> None:
        super().__init__()
        self.lambda_ = _share(lambda_)
        self.normalize = _one_of("normalize", normalize, _NORMALIZE)
        self.vectors = _one_of("vectors", vectors, _VECTORS)
        self.cutoff = cutoff_setting(cutoff, "MMR")

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Return the run in the order of marginal relevance.

        Args:
            inp: a run (R) with ``doc_vec`` or ``text``.
        """
        columns = _VECTORS[1:] if self.vectors == "auto" else (self.vectors,)
        used = columns[self.check_inputs(inp, *([QID, DOCNO, SCORE, c] for c in columns))]
        self.refuse_samples(inp)
        run = encode_run(inp, "MMR")
        rows = inp.iloc[run.order].reset_index(drop=True)
        start = run.ranking_start
        relevance = rows[SCORE].to_numpy(dtype=np.float64)
        if self.normalize == "min-max":
            relevance = min_max(relevance, start, when_equal=1.0)
        vectors = _doc_vecs(rows, run) if used == DOC_VEC else _tfidf(rows, run)
        order = np.arange(len(rows))
        for first, last in zip(start[:-1].tolist(), start[1:].tolist(), strict=True):
            own = vectors[first:last]
            order[first:last] = first + marginal_order(
                relevance[first:last], _dense(own @ own.T), self.lambda_, self.cutoff
            )
        out = rows.iloc[order].reset_index(drop=True)
        out[SCORE] = 0.0 - run.position  # not -0.0
        out[RANK] = run.position
        return out


def marginal_order(
    relevance: FloatArray, similarity: FloatArray, lambda_: float, cutoff: int | None = None
) -> IntArray:
    """Return the documents of one query in the order of maximal marginal relevance.

    Args:
        relevance: relevance of each document, the best first; shape (n,).
        similarity: similarity of each pair; shape (n, n).
        lambda_: weight of relevance, 0 to 1.
        cutoff: how many are chosen; the others follow in their order. None for all.

    Returns:
        Indexes into `relevance`; shape (n,).
    """
    number = len(relevance)
    if lambda_ == 1:
        return np.arange(number)
    left = np.ones(number, dtype=bool)
    chosen: list[int] = []
    wanted = lambda_ * relevance
    nearest = np.full(number, -np.inf)
    value = wanted
    for _ in range(min(number, cutoff or number)):
        open_values = np.where(left, value, -np.inf)
        best = int(np.argmax(open_values >= open_values.max() - _SAME))
        chosen.append(best)
        left[best] = False
        nearest = np.maximum(nearest, similarity[best])
        value = wanted - (1 - lambda_) * nearest
    return np.append(np.array(chosen, dtype=np.int64), np.flatnonzero(left))


def _dense(similarity: Any) -> FloatArray:
    found: FloatArray = similarity.toarray() if hasattr(similarity, "toarray") else similarity
    return found


def _tfidf(rows: pd.DataFrame, run: Rankings) -> Any:
    return weigh(run_text.texts(rows, "MMR"), run.query, [""] * len(run.qids)).documents


def _doc_vecs(rows: pd.DataFrame, run: Rankings) -> FloatArray:
    column = rows[DOC_VEC].to_numpy(dtype=object)
    return unit_rows(stacked(column, run, np.arange(len(column)), DOC_VEC, "MMR"))


def _share(value: Any) -> float:
    try:
        if isinstance(value, str | bool):
            raise TypeError
        number = float(value)
    except (TypeError, ValueError):
        number = -1.0
    if not 0 <= number <= 1:
        raise ParameterError(
            "MMR: lambda_ must be between 0 (novelty alone) and 1 (relevance alone); found "
            f"{value!r}"
        )
    return number


def _one_of(name: str, value: Any, known: tuple[str, ...]) -> str:
    if value not in known:
        raise ParameterError(
            f"MMR: {name} must be one of {', '.join(map(repr, known))}; found {value!r}"
            f"{suggestion(str(value), known)}"
        )
    return str(value)
