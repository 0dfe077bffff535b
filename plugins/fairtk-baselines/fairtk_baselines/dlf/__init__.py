"""DLF: a relevance model and a fairness model, trained separately and blended."""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping, Sequence
from os import PathLike
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
import pyterrier as pt

from fairtk import checks
from fairtk.errors import InputError, ParameterError
from fairtk.exposure import BrowsingModel
from fairtk.frames import DOCNO, QID, RANK, SCORE, digest
from fairtk.groups import Groups, Target
from fairtk.transformers import FairTransformer
from fairtk_baselines.dlf.models import (
    FOLDER,
    REQUIRED_COLUMNS,
    UNKNOWN_POLICIES,
    UNLABELED_POLICIES,
    Aim,
    Models,
    Recipe,
    checked_aims,
    pairs_of,
)
from fairtk_baselines.dlf.training import Blend, Lesson, fitted_or_recent
from fairtk_baselines.vectors import NORMALIZATIONS, fused, normalized, ranked

__all__ = ["DLF"]

NAME = "DLF"
RELEVANCE = "dlf_relevance"
FAIRNESS = "dlf_fairness"


class SavedKeys(tuple[str, ...]):
    """The groups or targets of a saved DLF, which knows only their names and digests."""

    __slots__ = ()


class DLF(FairTransformer, pt.Estimator):  # type: ignore[misc]
    """R with vectors -> R: a relevance model and a fairness model, trained separately and blended.

    DLF follows the distribution-based learning framework of Chen and Fang (ICTIR 2023). The
    fairness model minimizes the divergence of the groups' shares of exposure from each query's
    target. Only training requires groups; ranking does not. Input: ``qid``, ``docno``, ``score``,
    ``query_vec``, ``doc_vec``. Output: the same columns without `drop`, ``rank``, and ``score``,
    the blend minus 1e-9 times the rank. The README of fairtk-baselines describes all settings, the
    details that the paper leaves open, and the limits of DLF.

    Args:
        groups, target: the groups of the training documents and their target exposure, for one or
            several attributes. Only `fit` reads targets.
        weight: the share of the fairness model in the blend, 0 to 1.
        fuse_bm25: the share of the input's score in relevance, 0 to 1.
        hidden, fairness_hidden, inputs, fairness_inputs, cosine: the two networks.
        relevance_loss, exposure, temperature, browsing, cutoff, train_on: the losses.
        divergence, smoothing, unlabeled, unknown: the divergence of exposure from its target.
        normalize: scaling per query before blending: ``"min-max"`` or ``"z-score"``.
        epochs, learning_rate, weight_decay, batch_size, patience, seed: training with AdamW.
        components: whether the output has ``dlf_relevance`` and ``dlf_fairness``.
        drop: columns to drop from the output, e.g. ``("query_vec", "doc_vec", "text")``.

    Raises:
        InputError: a setting is out of range, or a target does not fit its groups.
    """

    identity_name = "fairtk_baselines.DLF"
    output_version = 1
    SETTINGS: ClassVar[tuple[str, ...]] = (
        *("groups", "target", "weight", "fuse_bm25", "unlabeled", "unknown", "normalize"),
        *("components", "drop"),
    )
    LOADED: ClassVar[Mapping[str, Collection[str]]] = dict.fromkeys(
        ("_models", "_history"), ("groups", "target", "unlabeled", "unknown", *Recipe.names())
    )

    def __init__(
        self,
        groups: Groups | Sequence[Groups],
        target: Target | Sequence[Target],
        weight: float = 0.5,
        fuse_bm25: float = 0.5,
        *,
        hidden: Sequence[int] = (),
        fairness_hidden: Sequence[int] = (),
        inputs: Sequence[str] = ("query", "document", "product"),
        fairness_inputs: Sequence[str] = ("document",),
        cosine: float = 5.0,
        relevance_loss: str = "listwise",
        exposure: str = "soft-rank",
        temperature: float | None = None,
        browsing: str | BrowsingModel = "TREC",
        cutoff: int | None = 20,
        train_on: str = "alone",
        divergence: str = "reverse-kl",
        smoothing: float = 0.01,
        unlabeled: str = "drop",
        unknown: str = "keep",
        normalize: str = "min-max",
        epochs: int = 100,
        learning_rate: float = 0.001,
        weight_decay: float = 0.01,
        batch_size: int = 16,
        patience: int = 10,
        seed: int = 42,
        components: bool = False,
        drop: Sequence[str] = (),
    ) -> None:
        given = dict(locals())  # the settings of a recipe are arguments with the same names
        super().__init__()
        self.unlabeled = checks.choice("unlabeled", unlabeled, UNLABELED_POLICIES, NAME)
        self.unknown = checks.choice("unknown", unknown, UNKNOWN_POLICIES, NAME)
        self.aims: tuple[Aim, ...] = ()
        if isinstance(groups, SavedKeys) and isinstance(target, SavedKeys):
            keys = [tuple(groups), tuple(target)]
        else:
            self.aims = checked_aims(groups, target, unlabeled, unknown)
            keys = [
                tuple(aim.groups.key for aim in self.aims),
                tuple(aim.target.key for aim in self.aims),
            ]
        self.groups, self.target = keys
        self.recipe = Recipe.checked(given)
        self._models: Models | None = None
        self._history: pd.DataFrame | None = None
        self.weight = checks.share("weight", weight, NAME)
        self.fuse_bm25 = checks.share("fuse_bm25", fuse_bm25, NAME)
        self.normalize = checks.choice("normalize", normalize, NORMALIZATIONS, NAME)
        self.components = bool(components)
        self.drop = (drop,) if isinstance(drop, str) else tuple(str(name) for name in drop)
        required = [c for c in (QID, DOCNO, SCORE, RANK) if c in self.drop]
        if required:
            raise ParameterError(
                f"DLF: drop must not contain {required[0]!r}, which is a required column"
            )

    @property
    def history(self) -> pd.DataFrame:
        """The training history: ``model``, ``epoch``, ``loss``, ``validation_loss`` (or NaN).

        Raises:
            InputError: DLF was not trained in this process.
        """
        if self._history is None:
            raise InputError("missing training history: this DLF was not trained in this process")
        return self._history.copy()

    def settings(self) -> dict[str, Any]:
        """Return the settings by name; groups and targets as name and content digest."""
        recipe = {name: getattr(self.recipe, name) for name in Recipe.names()}
        return super().settings() | recipe | {"fitted": self.fitted}

    def fit(
        self,
        topics_or_res_tr: pd.DataFrame,
        qrels_tr: pd.DataFrame,
        topics_or_res_va: pd.DataFrame | None = None,
        qrels_va: pd.DataFrame | None = None,
    ) -> DLF:
        """Train both models from scratch and return this transformer.

        Training is deterministic on the same machine with the same number of threads. The training
        rankings must have vectors; documents without a positive label are not relevant. With
        validation rankings and labels, training stops early; otherwise it runs all epochs.

        Raises:
            InputError: no query of the run has a target or a relevant document, or the input is
                invalid.
            ParameterError: the loss is not finite: the learning rate is too high.
        """
        if not self.aims:
            raise InputError(
                "DLF: groups and targets are required for training; a loaded model has none, so "
                "create a new DLF"
            )
        training, validation = (topics_or_res_tr, qrels_tr), None
        if topics_or_res_va is not None and len(topics_or_res_va):
            if qrels_va is None:
                raise InputError("DLF.fit: qrels_va are required for validation rankings")
            validation = (topics_or_res_va, qrels_va)
        for run, _ in [training, *([validation] if validation else [])]:
            self.check_inputs(run, REQUIRED_COLUMNS)
            self.refuse_samples(run)
        blend = Blend(self.weight, self.fuse_bm25, self.normalize)
        lesson = Lesson(training, validation, self.aims, self.recipe, blend)
        self._models, self._history = fitted_or_recent(lesson)
        return self

    def save(self, folder: str | PathLike[str]) -> None:
        """Write the models, all settings, and the digests of groups and targets, atomically.

        Raises:
            InputError: DLF was not trained.
            FormatError: the path is a file, or a folder with other contents.
        """
        if self._models is None:
            raise InputError("DLF is not trained: call fit first")
        settings = self.settings()
        del settings["fitted"]
        settings["browsing"] = repr(self.recipe.browsing)
        record = {"settings": settings, "dimension": self._models.dimension}
        FOLDER.write_arrays(folder, record, self._models.to_arrays(), self._models.key)

    @classmethod
    def load(cls, folder: str | PathLike[str]) -> DLF:
        """Return the saved transformer, which cannot be trained again.

        Raises:
            FormatError: the model is missing or damaged.
        """
        record, arrays = FOLDER.read_arrays(folder, digest)
        try:
            names = (*cls.SETTINGS, *Recipe.names())
            settings = {name: record["settings"][name] for name in names}
            keys = {
                name: SavedKeys(str(key) for key in settings[name]) for name in ("groups", "target")
            }
            loaded = cls(**settings | keys)
            loaded._models = Models.from_arrays(loaded.recipe, record["dimension"], arrays)
        except (KeyError, TypeError, ValueError) as error:
            raise FOLDER.broken(folder, error) from None
        return loaded

    @property
    def fitted(self) -> str | None:
        """A digest of the trained weights, `None` before training."""
        return None if self._models is None else self._models.key

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Rank the documents of each query by the blended scores.

        Raises:
            InputError: DLF was not trained, a column or vector is missing, a vector has another
                length than in training, or the run is invalid.
        """
        self.check_inputs(inp, REQUIRED_COLUMNS)
        self.refuse_samples(inp)
        columns = [c for c in inp.columns if c not in self.drop]
        new = [RELEVANCE, FAIRNESS] if self.components else []
        if inp.empty:
            out = inp[columns].copy()
            out[RANK] = np.zeros(0, dtype=np.int64)
            return out.assign(**{name: np.zeros(0) for name in new})
        if self._models is None:
            raise InputError(
                "DLF is not trained; call fit(rankings, qrels) on it or on the pipeline that it "
                "ends, or DLF.load(folder)"
            )
        pairs = pairs_of(inp, "DLF", self._models.dimension)
        start = pairs.rankings.ranking_start
        model_relevance, fairness = self._models.scores(pairs)
        relevance = fused(model_relevance, pairs.score, self.fuse_bm25, start, self.normalize)
        fairness = normalized(fairness, start, self.normalize)
        order, rank, score = ranked((1 - self.weight) * relevance + self.weight * fairness, start)
        out = inp.iloc[pairs.rankings.order[order]][columns].reset_index(drop=True)
        out[SCORE] = score
        out[RANK] = rank
        if self.components:
            out[RELEVANCE], out[FAIRNESS] = relevance[order], fairness[order]
        return out

    def at_weight(self, weight: float, fuse_bm25: float | None = None) -> Self:
        """Return a copy with the same trained models and another weight."""
        other = copy.copy(self)
        other.weight = weight
        if fuse_bm25 is not None:
            other.fuse_bm25 = fuse_bm25
        return other

    def relevance_model(self) -> Self:
        """Return a copy that ranks by the relevance model alone, without the input score."""
        return self.at_weight(0.0, 0.0)
