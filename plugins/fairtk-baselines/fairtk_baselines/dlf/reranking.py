"""How the scores of two trained models become a ranking."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Self

import numpy as np
import pandas as pd

from fairtk.errors import InputError, ParameterError
from fairtk.frames.columns import DOCNO, QID, RANK, SCORE
from fairtk.transformers.base import FairTransformer
from fairtk_baselines.dlf.blending import NORMALIZATIONS, fused, normalized, ranked
from fairtk_baselines.dlf.models import Models
from fairtk_baselines.dlf.pairs import NEEDED, pairs_of
from fairtk_baselines.dlf.recipe import choice, number

RELEVANCE = "dlf_relevance"
FAIRNESS = "dlf_fairness"


class BlendedRanker(FairTransformer):
    """What `DLF` does with its models once they are trained."""

    _models: Models | None = None

    def _set_ranking(
        self, weight: float, fuse_bm25: float, normalize: str, components: bool, drop: Sequence[str]
    ) -> None:
        self.weight = number("weight", weight, 0.0, 1.0)
        self.fuse_bm25 = number("fuse_bm25", fuse_bm25, 0.0, 1.0)
        self.normalize = choice("normalize", normalize, NORMALIZATIONS)
        self.components = bool(components)
        self.drop = (drop,) if isinstance(drop, str) else tuple(str(name) for name in drop)
        kept = [c for c in (QID, DOCNO, SCORE, RANK) if c in self.drop]
        if kept:
            raise ParameterError(f"DLF: drop must not name {kept[0]!r}: a ranking needs it")

    @property
    def fitted(self) -> str | None:
        """A digest of the trained weights; None before training."""
        return None if self._models is None else self._models.key

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Return the documents of each query in the order of the blended scores.

        Raises:
            ColumnError: a column is missing.
            InputError: it was not trained; a vector is missing or of another length than in
                training; the run is broken.
        """
        self.check_inputs(inp, NEEDED)
        self.refuse_samples(inp)
        kept = [c for c in inp.columns if c not in self.drop]
        new = [RELEVANCE, FAIRNESS] if self.components else []
        if inp.empty:
            out = inp[kept].copy()
            out[RANK] = np.zeros(0, dtype=np.int64)
            return out.assign(**{name: np.zeros(0) for name in new})
        if self._models is None:
            raise InputError(
                "DLF is not trained; call fit(rankings, qrels) on it or on the pipeline that it "
                "ends, or DLF.load(folder)"
            )
        pairs = pairs_of(inp, "DLF", self._models.dimension)
        start = pairs.rankings.ranking_start
        found, fairness = self._models.scores(pairs)
        relevance = fused(found, pairs.score, self.fuse_bm25, start, self.normalize)
        fairness = normalized(fairness, start, self.normalize)
        order, rank, score = ranked((1 - self.weight) * relevance + self.weight * fairness, start)
        out = inp.iloc[pairs.rankings.order[order]][kept].reset_index(drop=True)
        out[SCORE] = score
        out[RANK] = rank
        if self.components:
            out[RELEVANCE], out[FAIRNESS] = relevance[order], fairness[order]
        return out

    def at_weight(self, weight: float, fuse_bm25: float | None = None) -> Self:
        """Return one with the same trained models and another blend; nothing is trained again.

        Args:
            weight: share of the fairness model.
            fuse_bm25: share of the input's score in relevance; None: as it is.
        """
        other = copy.copy(self)
        fuse = self.fuse_bm25 if fuse_bm25 is None else fuse_bm25
        other._set_ranking(weight, fuse, self.normalize, self.components, self.drop)
        return other

    def relevance_model(self) -> Self:
        """Return one that ranks by the relevance model alone: no fairness, no input score."""
        return self.at_weight(0.0, 0.0)
