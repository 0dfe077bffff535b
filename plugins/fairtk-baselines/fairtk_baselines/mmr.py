"""MMR: maximal marginal relevance."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from fairtk import checks
from fairtk.frames import (
    DOCNO,
    QID,
    RANK,
    SCORE,
    TEXT,
    FloatArray,
    IntArray,
    Run,
    require_texts,
)
from fairtk.transformers import FairTransformer
from fairtk_baselines.vectors import DOC_VEC, min_max, stacked, unit_rows, weigh

_NORMALIZE = ("min-max", "none")
_VECTORS = ("auto", DOC_VEC, TEXT)
_SAME = 1e-12  # closer values are ties: products of equal vectors differ by rounding


class MMR(FairTransformer):
    r"""R -> R: maximal marginal relevance (Carbonell and Goldstein, 1998).

    The next document is, among the remaining ones,

    .. math:: \arg\max_d \; \lambda \, rel(d) - (1 - \lambda) \max_{s \in S} sim(d, s)

    where S are the documents chosen so far; the first one is the most relevant. Ties go to the
    document that is ranked higher in the input. Similarity is the cosine of the vectors in
    ``doc_vec``, or of the TF-IDF vectors of ``text`` (`fairtk_baselines.vectors.weigh`); it may be
    negative. Input: ``qid``, ``docno``, ``score``, and ``doc_vec`` or ``text``. Output: the same
    columns and ``rank``, by query and rank; ``score`` becomes 0, -1, -2, ...

    Args:
        lambda_: weight of relevance against novelty, 0 to 1.
        normalize: ``"min-max"`` to scale scores to [0, 1] within each query; ``"none"`` for scores
            that are cosines.
        vectors: ``"doc_vec"``, ``"text"``, or ``"auto"`` for ``doc_vec`` if the frame has it.
        cutoff: the number of ranks that MMR fills; the other documents keep their order below.
            `None` for all.

    Raises:
        InputError: a setting is out of its range; in `transform`, a column is missing, the run is
            sampled or invalid, a text is not a string, or vectors differ in length.
    """

    identity_name = "fairtk_baselines.MMR"
    output_version = 1
    SETTINGS = ("lambda_", "normalize", "vectors", "cutoff")

    def __init__(
        self,
        lambda_: float = 0.5,
        normalize: str = "min-max",
        vectors: str = "auto",
        cutoff: int | None = None,
    ) -> None:
        super().__init__()
        self.lambda_ = checks.share("lambda_", lambda_, "MMR")
        self.normalize = checks.choice("normalize", normalize, _NORMALIZE, "MMR")
        self.vectors = checks.choice("vectors", vectors, _VECTORS, "MMR")
        self.cutoff = checks.cutoff(cutoff, "MMR")

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Return the run (R with ``doc_vec`` or ``text``) in the order of marginal relevance."""
        columns = _VECTORS[1:] if self.vectors == "auto" else (self.vectors,)
        used = columns[self.check_inputs(inp, *([QID, DOCNO, SCORE, c] for c in columns))]
        self.refuse_samples(inp)
        run = Run(inp, "MMR")
        rows = inp.iloc[run.order].reset_index(drop=True)
        start = run.ranking_start
        relevance = rows[SCORE].to_numpy(dtype=np.float64)
        if self.normalize == "min-max":
            relevance = min_max(relevance, start, when_equal=1.0)
        vectors = _vectors(rows, run, used)
        order = np.arange(len(rows))
        for first, last in zip(start[:-1].tolist(), start[1:].tolist(), strict=True):
            own = vectors[first:last]
            alike = own @ own.T
            alike = alike.toarray() if used == TEXT else alike
            within = marginal_order(relevance[first:last], alike, self.lambda_, self.cutoff)
            order[first:last] = first + within
        out = rows.iloc[order].reset_index(drop=True)
        out[SCORE] = 0.0 - run.position  # not -0.0
        out[RANK] = run.position
        return out


def marginal_order(
    relevance: FloatArray, similarity: FloatArray, lambda_: float, cutoff: int | None = None
) -> IntArray:
    """Return the order of one query's documents, as indices into `relevance`, best first.

    Args:
        relevance: relevance of each document, best first; shape (n,).
        similarity: similarity of each pair of documents; shape (n, n).
        lambda_: see `MMR`.
        cutoff: see `MMR`.
    """
    number = len(relevance)
    if lambda_ == 1:
        return np.arange(number)
    left = np.ones(number, dtype=bool)
    chosen: list[int] = []
    relevance_part = lambda_ * relevance
    nearest = np.full(number, -np.inf)
    value = relevance_part
    for _ in range(min(number, cutoff or number)):
        open_values = np.where(left, value, -np.inf)
        best = int(np.argmax(open_values >= open_values.max() - _SAME))
        chosen.append(best)
        left[best] = False
        nearest = np.maximum(nearest, similarity[best])
        value = relevance_part - (1 - lambda_) * nearest
    return np.append(np.array(chosen, dtype=np.int64), np.flatnonzero(left))


def _vectors(rows: pd.DataFrame, run: Run, used: str) -> Any:
    if used == TEXT:
        return weigh(require_texts(rows, "MMR"), run.query, [""] * len(run.qids)).documents
    return unit_rows(stacked(rows[DOC_VEC].to_numpy(dtype=object), run, DOC_VEC, "MMR"))
