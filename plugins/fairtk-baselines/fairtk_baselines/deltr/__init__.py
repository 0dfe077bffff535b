"""DELTR: linear learning to rank whose loss has a term for the exposure of protected groups."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from types import MappingProxyType
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
import pyterrier as pt

from fairtk import checks
from fairtk.errors import InputError, ParameterError
from fairtk.frames import GROUP, QID, RANK, SCORE, FloatArray, Run
from fairtk.groups import Groups
from fairtk.transformers import FairTransformer
from fairtk_baselines.deltr.model import ALL_BUT_MOST, LinearModel, protected_setting, read, write
from fairtk_baselines.deltr.training import (
    NAME,
    REQUIRED_COLUMNS,
    Lists,
    LossSides,
    TrainingSet,
    exposure_scale,
    learn,
)
from fairtk_baselines.levels import checked_groups
from fairtk_baselines.vectors import feature_matrix, strictly_falling

__all__ = ["DELTR"]

PUBLISHED: Mapping[str, Any] = MappingProxyType(
    {
        "unknown": "unprotected",
        "normalize_by": "all",
        "average": "documents",
        "standardize": "global",
        "l2": 0.0,
        "optimizer": "gd",
        "gradient": "published",
        "learning_rate": 0.001,
        "max_iterations": 3000,
        "init_range": 0.01,
    }
)
"""The settings of the authors' code (fairsearch-deltr 1.0.2), for ``DELTR(..., **PUBLISHED)``.

Its documentation standardizes features, as here; its default does not (``standardize="none"``).
"""


class DELTR(FairTransformer, pt.Estimator):  # type: ignore[misc]
    """R -> R: linear learning to rank with a term for the exposure of protected groups.

    Scores are weighted sums of ``features`` (Zehlike and Castillo, WWW 2020). Weights minimize::

        -sum_i P_label(i) ln P_score(i) / ln(n)  +  gamma * max(0, E_rest - E_protected)^2

    over the training queries, with top-one probabilities P (Eqs. 2 and 7) and mean exposure E (Eqs.
    4 to 6). Input: ``qid``, ``docno``, ``score``, ``features``. Output: the same columns and
    ``rank``, in descending order of ``score``. The README describes all settings and the limits of
    DELTR.

    Args:
        groups: the groups of the documents, for training, and later if `protected_as_feature`.
        protected: a level, several, or a rule: ``"all-but-most"`` or ``"least-exposed"``.
        gamma: factor of the penalty, at least 0; 0 is plain ListNet, 1 is small for 100 documents.
        groups_apart: ``"pooled"`` for one protected side, ``"each"`` for one per protected level.
        protected_as_feature: whether membership in the protected side is the last feature.
        unknown: the side of documents without a known level: ``"neither"`` or ``"unprotected"``.
        exposure, labels, normalize_by, average, standardize, l2: the loss.
        optimizer, gradient, learning_rate, max_iterations, init_range, seed: the optimization.

    Attributes:
        model: the fitted `LinearModel`, `None` before fitting.

    Raises:
        ParameterError: a setting is out of range, or `protected` does not fit the groups.
    """

    identity_name = "fairtk_baselines.DELTR"
    output_version = 1
    SETTINGS: ClassVar[tuple[str, ...]] = (
        *("groups", "protected", "gamma", "groups_apart", "protected_as_feature", "exposure"),
        *("unknown", "labels", "normalize_by", "average", "standardize", "l2", "optimizer"),
        *("gradient", "learning_rate", "max_iterations", "init_range", "seed", "model"),
    )

    def __init__(
        self,
        groups: Groups,
        protected: Any = ALL_BUT_MOST,
        gamma: float = 1.0,
        *,
        groups_apart: str = "pooled",
        protected_as_feature: bool = True,
        exposure: str = "top-one",
        unknown: str = "neither",
        labels: str = "softmax",
        normalize_by: str = "query",
        average: str = "queries",
        standardize: str = "feature",
        l2: float = 0.001,
        optimizer: str = "lbfgs",
        gradient: str = "exact",
        learning_rate: float = 0.001,
        max_iterations: int = 3000,
        init_range: float = 0.01,
        seed: int = 42,
    ) -> None:
        super().__init__()
        if not isinstance(protected_as_feature, bool | np.bool_):
            raise ParameterError(
                f"{NAME}: protected_as_feature must be True or False, got {protected_as_feature!r}"
            )
        self.groups = checked_groups(groups, NAME)
        self.protected = protected_setting(protected, groups, NAME)
        self.gamma = checks.number("gamma", gamma, NAME)
        self.groups_apart = checks.choice("groups_apart", groups_apart, ("pooled", "each"), NAME)
        self.protected_as_feature = bool(protected_as_feature)
        self.exposure = checks.choice("exposure", exposure, ("top-one", "relative"), NAME)
        self.unknown = checks.choice("unknown", unknown, ("neither", "unprotected"), NAME)
        self.labels = checks.choice("labels", labels, ("softmax", "share"), NAME)
        self.normalize_by = checks.choice("normalize_by", normalize_by, ("query", "all"), NAME)
        self.average = checks.choice("average", average, ("queries", "documents"), NAME)
        self.standardize = checks.choice(
            "standardize", standardize, ("feature", "global", "none"), NAME
        )
        self.l2 = checks.number("l2", l2, NAME)
        self.optimizer = checks.choice("optimizer", optimizer, ("lbfgs", "gd"), NAME)
        self.gradient = checks.choice("gradient", gradient, ("exact", "published"), NAME)
        self.learning_rate = checks.number("learning_rate", learning_rate, NAME, ends="(]")
        self.max_iterations = checks.integer("max_iterations", max_iterations, NAME)
        self.init_range = checks.number("init_range", init_range, NAME)
        self.seed = checks.integer("seed", seed, NAME, least=0)
        self.model: LinearModel | None = None
        if self.gradient == "published" and (self.optimizer, self.exposure) != ("gd", "top-one"):
            raise ParameterError(
                f"{NAME}: gradient='published' is only valid with optimizer='gd' and "
                f"exposure='top-one', got {self.optimizer!r} and {self.exposure!r}"
            )

    def fit(
        self,
        topics_or_res_tr: pd.DataFrame,
        qrels_tr: pd.DataFrame,
        topics_or_res_va: pd.DataFrame | None = None,
        qrels_va: pd.DataFrame | None = None,
    ) -> Self:
        """Train the model on a run with ``features`` and qrels; an earlier model is replaced.

        Validation topics are ignored.

        Raises:
            InputError: a column is missing, there are no training queries, features or labels are
                invalid, the groups do not fit the documents, or gradient descent diverges.
        """
        self.check_inputs(topics_or_res_tr, REQUIRED_COLUMNS)
        self.refuse_samples(topics_or_res_tr)
        data = TrainingSet.of(topics_or_res_tr, qrels_tr)
        self.model = learn(data, self.groups, self.settings())
        return self

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Rank the run by the scores of the model.

        Raises:
            InputError: a column is missing, `fit` was not called, or features differ from those in
                `fit`.
        """
        coded, scores = self._scored(inp)
        # rows by query and descending score; equal scores keep their order
        within = np.lexsort((coded.position, -scores, coded.query))
        result = inp.take(coded.order[within]).reset_index(drop=True)
        result[SCORE] = strictly_falling(scores[within], coded.query)
        result[RANK] = coded.position
        return result

    def gaps(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Return the exposure of each side in a run with ``features``, as in the loss.

        Returns:
            ``qid``, ``group``, ``protected`` and ``rest`` (mean exposure of each side, in the unit
            of the setting ``exposure``; NaN without documents), and ``gap`` (rest minus protected,
            above 0 for a disadvantage of the protected group), one row per query and protected
            group, sorted by qid.
        """
        coded, scores = self._scored(inp)
        lists = Lists(coded.ranking_start)
        division = self._fitted().division
        member, rest = division.sides(self.groups, coded.docnos[coded.doc])
        sides = LossSides(member, rest, exposure_scale(lists, self.exposure))
        low, high = sides.means(lists, lists.softmax(scores))
        n, width = low.shape
        gaps = pd.DataFrame({QID: np.repeat(coded.qids, width), GROUP: division.names * n})
        gaps = gaps.assign(protected=low.ravel(), rest=np.repeat(high, width))
        gaps["gap"] = gaps["rest"] - gaps["protected"]
        return gaps.sort_values(QID, kind="stable", ignore_index=True)

    def _scored(self, inp: pd.DataFrame) -> tuple[Run, FloatArray]:
        """Return the run's rows in order, and the model's score of each."""
        self.check_inputs(inp, REQUIRED_COLUMNS)
        self.refuse_samples(inp)
        coded = Run(inp, NAME)
        if not len(inp):  # PyTerrier inspects pipelines with empty frames, also before fitting
            return coded, np.zeros(0)
        model = self._fitted()
        features = feature_matrix(inp, coded, NAME, len(model.weights))
        return coded, model.score(features, self.groups, coded.docnos[coded.doc])

    def _fitted(self) -> LinearModel:
        if self.model is None:
            raise InputError(
                f"{NAME} is not fitted: call fit(run with features, qrels) first, or "
                "(retriever >> features >> DELTR(...)).fit(topics, qrels), or DELTR.load(folder)"
            )
        return self.model

    def save(self, folder: str | PathLike[str]) -> None:
        """Write settings, model and the groups of *all* documents to a folder, atomically.

        An earlier model in the folder is replaced.

        Raises:
            InputError: `fit` was not called.
            FormatError: the path is a file, or a folder with other contents.
        """
        write(folder, self.settings(), self._fitted())

    @classmethod
    def load(cls, folder: str | PathLike[str], groups: Groups | None = None) -> Self:
        """Load a saved transformer.

        Other `groups`, e.g. of other documents, must have the levels of the model.

        Raises:
            FormatError: the model is missing, damaged or of another version.
            ParameterError: a level is missing from the groups.
        """
        settings, model = read(folder, groups)
        result = cls(**settings)
        result.model = model
        return result
