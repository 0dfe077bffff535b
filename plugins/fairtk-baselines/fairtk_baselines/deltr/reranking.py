"""How a trained linear model ranks, and what exposure its rankings give to each side."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from fairtk.errors import InputError
from fairtk.frames.columns import DOCNO, GROUP, QID, RANK, SCORE
from fairtk.frames.rankings import Rankings, encode_run
from fairtk.groups import Groups
from fairtk.transformers.base import FairTransformer
from fairtk_baselines.deltr.frames import FEATURES, feature_matrix
from fairtk_baselines.deltr.loss import Lists, LossSides
from fairtk_baselines.deltr.model import LinearModel
from fairtk_baselines.deltr.order import falling, ranked
from fairtk_baselines.deltr.training import NAME, exposure_scale

NEEDED = [QID, DOCNO, SCORE, FEATURES]

UNFITTED = (
    f"{NAME} has no model yet: call fit(run with features, qrels) first, or "
    "(retriever >> features >> DELTR(...)).fit(topics, qrels), or DELTR.load(folder)"
)


class LinearRanker(FairTransformer):
    """What `DELTR` does with its model once it is trained."""

    groups: Groups
    exposure: str
    model: LinearModel | None = None

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Return the run, ranked by the model's scores.

        Raises:
            ColumnError: a column is missing.
            InputError: `fit` was not called, or features are broken or of another number than in
                training.
        """
        coded, scores = self._scored(inp)
        within = ranked(coded, scores)
        result = inp.take(coded.order[within]).reset_index(drop=True)
        result[SCORE] = falling(scores[within], coded.query)
        result[RANK] = coded.position
        return result

    def gaps(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Return the exposure of each side in the rankings, as the loss sees it.

        Args:
            inp: a run with ``features``.

        Returns:
            One row per query and protected group, queries by name: ``qid``, ``group``,
            ``protected`` and ``rest`` (mean exposure of each side, in the unit of the setting
            ``exposure``; NaN where the query has no document of it), and ``gap``, rest minus
            protected: 0 is equal exposure, above 0 is to the protected group's disadvantage.

        Raises:
            ColumnError: a column is missing.
            InputError: as in `transform`.
        """
        coded, scores = self._scored(inp)
        if self.model is None:
            raise InputError(UNFITTED)
        lists = Lists(coded.ranking_start)
        division = self.model.division
        member, rest = division.sides(self.groups, coded.docnos[coded.doc])
        sides = LossSides(member, rest, exposure_scale(lists, self.exposure))
        low, high = sides.means(lists, lists.softmax(scores))
        n, width = low.shape
        found = pd.DataFrame(
            {
                QID: np.repeat(coded.qids, width),
                GROUP: np.tile(np.array(division.names, dtype=object), n),
                "protected": low.ravel(),
                "rest": np.repeat(high, width),
            }
        )
        found["gap"] = found["rest"] - found["protected"]
        return found.sort_values(QID, kind="stable", ignore_index=True)

    def _scored(self, inp: pd.DataFrame) -> tuple[Rankings, np.ndarray[Any, Any]]:
        """Return the run's rows in order, and the model's score of each."""
        self.check_inputs(inp, NEEDED)
        self.refuse_samples(inp)
        coded = encode_run(inp, NAME)
        if not len(inp):  # needs no model: PyTerrier looks into pipelines with empty frames
            return coded, np.zeros(0)
        if self.model is None:
            raise InputError(UNFITTED)
        features = feature_matrix(inp, NAME, expected=len(self.model.weights))[coded.order]
        return coded, self.model.score(features, self.groups, coded.docnos[coded.doc])
