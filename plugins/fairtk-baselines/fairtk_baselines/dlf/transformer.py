"""`DLF`: the distribution-based learning framework for fair ranking, as a reranker."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any, ClassVar

import pandas as pd
import pyterrier as pt

from fairtk.errors import InputError
from fairtk.exposure.browsing import BrowsingModel
from fairtk.groups import Groups, Target
from fairtk.renamed import refuses_old_words
from fairtk.transformers.base import FairTransformer
from fairtk_baselines.dlf import files
from fairtk_baselines.dlf.aims import UNKNOWN, UNLABELED, Aim, checked_aims
from fairtk_baselines.dlf.fitting import Blend, fitted_models
from fairtk_baselines.dlf.models import Models
from fairtk_baselines.dlf.pairs import NEEDED
from fairtk_baselines.dlf.recipe import Recipe, choice
from fairtk_baselines.dlf.reranking import BlendedRanker


class DLF(BlendedRanker, pt.Estimator):  # type: ignore[misc]
    """R with vectors -> R: a relevance model and a fairness model, trained apart and blended.

    The distribution-based learning framework of Chen and Fang (*Learn to be Fair without Labels*,
    ICTIR 2023, arXiv 2405.17798). What its abstract and published summaries tell, and is done here:
    the fairness model learns from a differentiable Kullback-Leibler divergence between the groups'
    shares e of the system's exposure and a target e* of each query, such as each group's share of
    the query's relevant documents; the relevance model is another one; a weight blends the two;
    both read text by a bi-encoder (Sentence-BERT there), so that **no group of any document is
    needed to rank**; the result may be fused with BM25; several attributes can be learned together
    (here: the sum of their losses). Learning does need them: the groups of the training queries'
    candidates, and targets. The labels that its title does without are fairness scores of single
    documents.

    Not known from these sources, so **ours**: the two networks, the discount and how exposure is
    made differentiable, the direction of the divergence and its smoothing, the loss of the
    relevance model, optimizer and schedule, the scaling before blending, the form of the fusion,
    and all values below. Numbers of this class are not the paper's.

    **Groups.** Any number; a document may belong to several or in part; crossed attributes
    (``a * b``) are groups like others. Documents without a row in the groups get ranks, and by
    default neither add to e nor count in it (`unlabeled`); the unknown level is a group by
    default, as in TREC Fair Ranking 2022 (`unknown`). Groups of the target that no candidate of a
    query belongs to cannot be helped by reranking; they add a constant to the loss.

    **Ranking.** score = (1 - `weight`) relevance + `weight` fairness, each scaled inside the query
    (`normalize`), where relevance is (1 - `fuse_bm25`) of the relevance model's and `fuse_bm25` of
    the input's score, scaled again. The fairness model alone knows nothing of relevance: at
    `weight` 1 documents are ranked by what raises or lowers their groups' exposure, and by nothing
    else. What is learned is how groups' *texts* differ, as far as the vectors show it, on average
    over the training queries: a reranked list comes near its target only as far as that holds for
    the new query, so measure it. By default the fairness model sees no query: it moves groups alike
    for all queries. It says nothing about groups that were not trained for. Training takes time and
    memory with the square of a query's candidates: hundreds are fine, thousands are slow.

    Input of `transform` and `fit`: ``qid``, ``docno``, ``score``, ``query_vec``, ``doc_vec`` (as
    pyterrier_dr's encoders add them); one ranking per query. Vectors are divided by their norm.
    Output: the same columns without `drop`, one row per input row, best first, ``rank`` from 0,
    ``score`` the blend minus 1e-9 times the rank. Equal blends keep the input's order. An empty
    frame passes through before training, too. Two are equal if all settings and trained weights
    are.

    Args:
        groups: the groups of the training documents, or a list of several attributes' groups, at
            most 1,024 each.
        target: for each of `groups`, the exposure that they should have. Read in `fit` only; from
            relevance judgments it is known for training queries alone. Queries without one train
            the relevance model only, with a warning.
        weight: share of the fairness model, 0 to 1. The paper tunes it; a half favors neither.
        fuse_bm25: share of the input's score (BM25, usually) in relevance, 0 to 1. Vectors do not
            know exact terms, so by default both count alike; 0: the relevance model alone.
        hidden: widths of the relevance model's hidden layers. None by default: a linear model, as
            training sets for fair ranking have tens of queries, which larger ones learn by heart.
        fairness_hidden: the same for the fairness model. A target is a few numbers per query.
        inputs: what the relevance model sees: ``"query"``, ``"document"``, and their elementwise
            ``"product"`` (how they match).
        fairness_inputs: what the fairness model sees. By default the document, as groups are
            properties of documents; with the query it can learn targets by heart, one by one.
        cosine: the relevance model's score starts as this times the cosine, and training goes on
            from there, so that few queries cannot make it worse than the encoder by much: at 5,
            0.2 of cosine is a factor e of odds. 0: there is no such term.
        relevance_loss: ``"listwise"``: ListNet's, in the queries that have relevant candidates;
            ``"bce"``: each document by itself, relevant or not.
        exposure: ``"soft-rank"``, see `fairtk_baselines.dlf.exposure`; ``"top-one"``:
            softmax(score / temperature), as in DELTR, without a discount.
        temperature: above 0, in standard deviations of a query's scores. None: 0.1 (among 100
            candidates, a rank in the top 20 is then uncertain by about 2), 1 for ``"top-one"``.
        browsing: attention of each rank: a browsing model without a cascade, or its name. TREC
            Fair Ranking 2022's 1 / log2(max(rank, 2)) by default, as in `fairtk.FairQR`.
        cutoff: ranks that get attention; None: all. 20, as that is what the authors' later
            evaluation cuts at.
        train_on: the ranking whose exposure is e in training: ``"alone"``: by the fairness model
            alone, so that `weight` can be chosen later (`at_weight`); ``"blend"``: by the blend at
            this `weight`, after the relevance model is trained: the fairness model then learns to
            make up for what relevance does to the groups, at this weight only.
        divergence: ``"reverse-kl"``: KL(e* || e), which is large where a group of the target lacks
            exposure; ``"kl"``: KL(e || e*), large where a group outside the target has it;
            ``"js"``: Jensen-Shannon, between the two, and bounded.
        smoothing: share in (0, 1) of a uniform distribution mixed into e and e* before. 0.01 moves
            no share by more than 0.01.
        unlabeled: what becomes of training documents without a row; see
            `fairtk.Groups.memberships`: ``"drop"``, ``"unknown"`` or ``"uniform"``.
        unknown: ``"keep"``, or ``"drop"``: the unknown level counts neither in e nor in e*.
        normalize: scaling before blending: ``"min-max"`` or ``"z-score"``; inside each query.
        epochs: times that training sees each query.
        learning_rate: of AdamW, above 0 and at most 1.
        weight_decay: of AdamW, 0 or above.
        batch_size: queries per step.
        patience: with validation queries, epochs without a lower loss after which training ends.
        seed: of first weights and batches. Equal seeds and data give equal models.
        components: whether the output has ``dlf_relevance`` and ``dlf_fairness``, the two scaled
            scores.
        drop: columns that the output does not have, e.g. ``("query_vec", "doc_vec", "text")``
            where a pipeline ends with this.

    Raises:
        ParameterError: a setting is out of its range.
        InputError: a target does not fit its groups; later: `transform` before `fit`, a vector is
            missing or of another length, or the run is broken.
    """

    SETTINGS: ClassVar[tuple[str, ...]] = (
        *("groups", "target", "weight", "fuse_bm25", "unlabeled", "unknown", "normalize"),
        *("components", "drop"),
    )

    @refuses_old_words
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
        super().__init__()
        self.unlabeled = choice("unlabeled", unlabeled, UNLABELED)
        self.unknown = choice("unknown", unknown, UNKNOWN)
        self.aims: tuple[Aim, ...] = checked_aims(groups, target, unlabeled, unknown)
        self.groups = tuple(aim.groups.key for aim in self.aims)
        self.target = tuple(aim.target.key for aim in self.aims)
        self.recipe = Recipe.checked(
            hidden=hidden,
            fairness_hidden=fairness_hidden,
            inputs=inputs,
            fairness_inputs=fairness_inputs,
            cosine=cosine,
            relevance_loss=relevance_loss,
            exposure=exposure,
            temperature=temperature,
            browsing=browsing,
            cutoff=cutoff,
            train_on=train_on,
            divergence=divergence,
            smoothing=smoothing,
            epochs=epochs,
            learning_rate=learning_rate,
            weight_decay=weight_decay,
            batch_size=batch_size,
            patience=patience,
            seed=seed,
        )
        self._set_ranking(weight, fuse_bm25, normalize, components, drop)
        self._models: Models | None = None
        self._history: pd.DataFrame | None = None

    # Settings ----------------------------------------------------------------------------------

    @property
    def history(self) -> pd.DataFrame:
        """How training went: ``model``, ``epoch``, ``loss``, ``validation_loss``.

        Raises:
            InputError: it was not trained in this process.
        """
        if self._history is None:
            raise InputError("DLF has no training history: it was not trained, or is from a folder")
        return self._history.copy()

    def settings(self) -> dict[str, Any]:
        """Return the settings by name; groups and targets as name and content digest."""
        recipe = {name: getattr(self.recipe, name) for name in Recipe.names()}
        return super().settings() | recipe | {"fitted": self.fitted}

    # Training ----------------------------------------------------------------------------------

    def fit(
        self,
        topics_or_res_tr: pd.DataFrame,
        qrels_tr: pd.DataFrame,
        topics_or_res_va: pd.DataFrame | None = None,
        qrels_va: pd.DataFrame | None = None,
    ) -> DLF:
        """Train both models anew, and return this transformer.

        Training is as deterministic as torch's arithmetic on one machine and number of threads.
        Progress is shown on a terminal, after two seconds.

        Args:
            topics_or_res_tr: the training queries' rankings, with vectors.
            qrels_tr: ``qid``, ``docno``, ``label``; documents without one, or with 0 or below, are
                not relevant.
            topics_or_res_va: other queries' rankings, to stop early by; None: all epochs are done.
            qrels_va: their labels.

        Raises:
            InputError: no query of the run has a target, or none a relevant document; or the input
                is broken.
            ParameterError: the loss is not finite: the learning rate is too high.
        """
        if not self.aims:
            raise InputError(
                "DLF: one that was loaded has no groups and targets to train with; make a new DLF"
            )
        self.check_inputs(topics_or_res_tr, NEEDED)
        self.refuse_samples(topics_or_res_tr)
        validation = None
        if topics_or_res_va is not None and len(topics_or_res_va):
            if qrels_va is None:
                raise InputError("DLF.fit: validation rankings need their labels: give qrels_va")
            self.check_inputs(topics_or_res_va, NEEDED)
            self.refuse_samples(topics_or_res_va)
            validation = (topics_or_res_va, qrels_va)
        blend = Blend(self.weight, self.fuse_bm25, self.normalize)
        self._models, self._history = fitted_models(
            (topics_or_res_tr, qrels_tr), validation, self.aims, self.recipe, blend
        )
        return self

    # Files -------------------------------------------------------------------------------------

    def save(self, folder: str | PathLike[str]) -> None:
        """Write the trained models and all settings, as safetensors and JSON, in one step.

        Groups and targets are not written, only their names and digests.

        Raises:
            InputError: it was not trained.
            FormatError: the folder is a file, or holds something else.
        """
        if self._models is None:
            raise InputError("DLF is not trained, so there is nothing to save; call fit first")
        settings = self.settings()
        del settings["fitted"]
        settings["browsing"] = repr(self.recipe.browsing)
        files.write(folder, settings, self._models.dimension, self._models.to_arrays())

    @classmethod
    def load(cls, folder: str | PathLike[str]) -> DLF:
        """Return what `save` wrote: it ranks as before, and cannot be trained again.

        Raises:
            FormatError: there is no model, or a broken one.
        """
        settings, dimension, arrays = files.read(folder)
        loaded = cls.__new__(cls)
        FairTransformer.__init__(loaded)
        try:
            loaded.aims = ()
            loaded.groups = tuple(str(key) for key in settings["groups"])
            loaded.target = tuple(str(key) for key in settings["target"])
            loaded.unlabeled = choice("unlabeled", settings["unlabeled"], UNLABELED)
            loaded.unknown = choice("unknown", settings["unknown"], UNKNOWN)
            loaded.recipe = Recipe.checked(**{name: settings[name] for name in Recipe.names()})
            names = ("weight", "fuse_bm25", "normalize", "components", "drop")
            loaded._set_ranking(**{name: settings[name] for name in names})
            loaded._models = Models.from_arrays(loaded.recipe, dimension, arrays)
        except (KeyError, TypeError, ValueError) as error:
            raise files.FOLDER.broken(folder, error) from None
        loaded._history = None
        return loaded
