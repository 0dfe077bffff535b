"""DELTR as a PyTerrier transformer."""

from __future__ import annotations

from os import PathLike
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
import pyterrier as pt

from fairtk.errors import InputError, ParameterError
from fairtk.groups import Groups
from fairtk.transformers.settings import whole
from fairtk_baselines.deltr import files
from fairtk_baselines.deltr.division import ALL_BUT_MOST, protected_setting
from fairtk_baselines.deltr.model import LinearModel
from fairtk_baselines.deltr.reranking import NEEDED, UNFITTED, LinearRanker
from fairtk_baselines.deltr.settings import chosen, number
from fairtk_baselines.deltr.training import NAME, TrainingSet, learn


class DELTR(LinearRanker, pt.Estimator):  # type: ignore[misc]
    """Linear learning to rank with a term for the exposure of protected groups: R -> R.

    Zehlike and Castillo, *Reducing Disparate Exposure in Ranking: A Learning To Rank Approach* (WWW
    2020). The score of a document is a weighted sum of its features. The weights minimize, over the
    training queries, ListNet's loss plus ``gamma`` times a penalty:

        -sum_i P_label(i) ln P_score(i) / ln(n)  +  gamma * max(0, E_rest - E_protected)^2

    where P are top-one probabilities (softmax over the query's documents; Eqs. 2 and 7), and the
    exposure E of a group is the mean of P_score over its documents times the attention of the first
    place, 1 / ln 2 (Eqs. 4 to 6; numbers as the authors' code cites them). Only a disadvantage of
    the protected groups is penalized. ``gamma=0`` is plain ListNet, over the features and, unless
    ``protected_as_feature=False``, the group. Fit it with topics that it is not tested on:

        pipeline = bm25 >> Features() >> DELTR(groups, gamma=1.0)
        pipeline.fit(train_topics, qrels)
        pipeline(test_topics)

    **What it does not do.** It weighs equal mean exposure of two sides against the labels of the
    training queries, and the exposure it sees is that of first places under a softmax; it knows no
    target distribution, and nothing is promised for a single ranking or for other queries. With
    ``protected_as_feature`` (the paper's setting) a document's group itself moves its score, for
    better or worse: where ``gamma=0`` a group that was labeled relevant less often is scored down,
    and whether group membership may be used at all is a question to settle before.

    **gamma and the length of rankings.** Mean top-one probabilities are around 1 / n, so that the
    penalty falls with n squared while ListNet's loss stays around 1: among 100 documents
    ``gamma=1`` hardly does anything, and a gamma of thousands is needed. ``exposure="relative"``
    measures exposure in multiples of a uniform ranking's instead (n in place of 1 / ln 2), which
    gives ``gamma`` the same meaning for every n; the default is the paper's.

    **More than two groups.** The paper has one protected group. Here ``protected`` is a level, a
    list of levels, or a rule applied to the rankings that are trained on: ``"all-but-most"``, all
    known levels but the one that has most attention in them, in total (1 / ln(1 + rank), the
    paper's), or ``"least-exposed"``, the level that has least of those that occur.
    ``groups_apart="pooled"`` makes them one group; ``"each"`` sums the penalty over protected
    levels, each against the rest, and gives each a feature. Memberships in part are weights of
    the means; a document in several levels of a side counts once there. Documents without a known
    level (``unknown``) are on neither side. A query without documents of one side has no such
    penalty (NaN in the published code).

    **Training.** Labels come from the qrels, 0 where there is none, and may be graded. Queries
    without relevant documents among those retrieved are left out with a warning. The score of
    the input run is not used, unless it is a feature. Training looks at no global random state; the
    same rows in any order give the same weights. Validation topics are not needed and not looked
    at. The penalty is not convex, so that with ``gamma`` above 0 the minimum may be a local one.

    **Departures.** ``**fairtk_baselines.deltr.PUBLISHED`` gives the settings of the authors' code
    (fairsearch-deltr 1.0.2), which differs from the paper and from the defaults here: it divides
    the loss by the logarithm of the number of *all* documents, not the query's; counts a query once
    per document; does not apply its ``l2`` to the weights; standardizes by one mean and
    deviation of the whole table; and follows a direction that is not the gradient of the
    exposure term (see `Problem.value_and_published_step`). Not reproduced: its NaN where a query
    lacks a group, and its unseeded start.

    Input: ``qid``, ``docno``, ``score``, ``features`` (one vector per row) and any other columns;
    one ranking per query. Output: the same columns, rows sorted by query and rank;
    ``score`` falls with every ``rank``: documents with equal scores stay in the input's order, and
    the lower ones' scores are the next smaller numbers.

    Args:
        groups: the groups of the documents; needed for training, and at inference if
            ``protected_as_feature``.
        protected: a level, a list of levels, ``"all-but-most"`` or ``"least-exposed"``. A level
            of such a name goes before the rule.
        gamma: factor of the penalty, >= 0; the authors' code recommends about 1, but see above.
        groups_apart: ``"pooled"`` or ``"each"``; see above.
        protected_as_feature: whether belonging to the protected side (from 0 to 1, never
            standardized) is a feature, the last. Then inference needs the groups too. Documents on
            neither side have the mean of the training documents there: with 0 they would be scored
            like the unprotected, and fall whenever the protected are made to rise.
        exposure: ``"top-one"`` (the paper's) or ``"relative"``; see above.
        unknown: documents without a known level are on ``"neither"`` side or ``"unprotected"``.
        labels: the wanted top-one probabilities are the ``"softmax"`` of the labels (ListNet, the
            paper) or the ``"share"`` of a label in their sum, labels below 0 as 0: with long
            lists and binary labels a softmax asks for nearly uniform scores.
        normalize_by: the loss is divided by the logarithm of the number of documents of the
            ``"query"``, or of ``"all"`` queries. The paper does not say which.
        average: ``"queries"``: the mean over queries; ``"documents"``: their sum, each query
            counted once per document.
        standardize: ``"feature"``: each feature to mean 0 and variance 1 over the training rows;
            ``"global"``: one mean and deviation for the whole table; ``"none"``.
        l2: factor of the squared norm of all weights, >= 0; 0 lets weights grow without bound where
            training labels can be separated.
        optimizer: ``"lbfgs"``: L-BFGS until the gradient vanishes, and BFGS where that gets stuck
            (a large gamma), with a warning if it does not; ``"gd"``: gradient descent with a fixed
            number of steps.
        gradient: ``"exact"``, or ``"published"`` for the direction that the authors' code takes;
            the latter for ``"gd"`` and ``"top-one"`` only.
        learning_rate: of ``"gd"``, > 0.
        max_iterations: steps of ``"gd"``; at most as many of ``"lbfgs"``, with a warning.
        init_range: weights start uniformly between 0 and this, >= 0.
        seed: of the start.

    Attributes:
        model: what fitting found, a `LinearModel`; None before. Two DELTR are equal only if
            their models are.

    Raises:
        ParameterError: a setting is out of its range, or `protected` fits not the groups.
    """

    SETTINGS: ClassVar[tuple[str, ...]] = (
        "groups",
        "protected",
        "gamma",
        "groups_apart",
        "protected_as_feature",
        "exposure",
        "unknown",
        "labels",
        "normalize_by",
        "average",
        "standardize",
        "l2",
        "optimizer",
        "gradient",
        "learning_rate",
        "max_iterations",
        "init_range",
        "seed",
        "model",
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
        if not isinstance(groups, Groups):
            raise ParameterError(
                f"{NAME}: groups must be fairtk.Groups (Groups.from_frame, Groups.read); "
                f"found {type(groups).__name__}"
            )
        if not isinstance(protected_as_feature, bool | np.bool_):
            raise ParameterError(
                f"{NAME}: protected_as_feature must be True or False; "
                f"found {protected_as_feature!r}"
            )
        self.groups = groups
        self.protected = protected_setting(protected, groups, NAME)
        self.gamma = number("gamma", gamma, NAME)
        self.groups_apart = chosen("groups_apart", groups_apart, NAME)
        self.protected_as_feature = bool(protected_as_feature)
        self.exposure = chosen("exposure", exposure, NAME)
        self.unknown = chosen("unknown", unknown, NAME)
        self.labels = chosen("labels", labels, NAME)
        self.normalize_by = chosen("normalize_by", normalize_by, NAME)
        self.average = chosen("average", average, NAME)
        self.standardize = chosen("standardize", standardize, NAME)
        self.l2 = number("l2", l2, NAME)
        self.optimizer = chosen("optimizer", optimizer, NAME)
        self.gradient = chosen("gradient", gradient, NAME)
        self.learning_rate = number("learning_rate", learning_rate, NAME, above=True)
        self.max_iterations = whole("max_iterations", max_iterations, NAME)
        self.init_range = number("init_range", init_range, NAME)
        self.seed = whole("seed", seed, NAME, least=0)
        self.model: LinearModel | None = None
        if self.gradient == "published" and (self.optimizer, self.exposure) != ("gd", "top-one"):
            raise ParameterError(
                f"{NAME}: gradient='published' is a direction of optimizer='gd' for "
                f"exposure='top-one'; found {self.optimizer!r} and {self.exposure!r}"
            )

    def fit(
        self,
        topics_or_res_tr: pd.DataFrame,
        qrels_tr: pd.DataFrame,
        topics_or_res_va: pd.DataFrame | None = None,
        qrels_va: pd.DataFrame | None = None,
    ) -> Self:
        """Learn the weights; an earlier model is replaced.

        Args:
            topics_or_res_tr: a run with ``features``.
            qrels_tr: ``qid``, ``docno``, ``label``.
            topics_or_res_va: not looked at.
            qrels_va: not looked at.

        Returns:
            This transformer.

        Raises:
            ColumnError: a column is missing.
            InputError: there is nothing to learn from, features or labels are broken, the groups
                do not fit the documents, or gradient descent diverges.
        """
        self.check_inputs(topics_or_res_tr, NEEDED)
        self.refuse_samples(topics_or_res_tr)
        data = TrainingSet.of(topics_or_res_tr, qrels_tr)
        self.model = learn(data, self.groups, self.settings())
        return self

    def save(self, folder: str | PathLike[str]) -> None:
        """Write settings, groups and model to a folder, which is made if needed.

        A folder with an earlier model gets the new one in one step. Saved are the groups of *all*
        documents, so that `load` needs nothing else.

        Raises:
            InputError: `fit` was not called.
            FormatError: the path is a file, or a folder with other contents.
        """
        if self.model is None:
            raise InputError(UNFITTED)
        files.write(folder, self.settings(), self.model)

    @classmethod
    def load(cls, folder: str | PathLike[str], groups: Groups | None = None) -> Self:
        """Return the transformer that `save` wrote, equal to it.

        Args:
            folder: the folder.
            groups: groups to use in place of the saved ones, e.g. of other documents; they must
                have the levels that the model tells apart.

        Raises:
            FormatError: there is no such model, or it is damaged or of another version.
            ParameterError: the groups lack a level.
        """
        settings, model = files.read(folder, groups)
        result = cls(**settings)
        result.model = model
        return result
