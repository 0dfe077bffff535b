"""FairSampler: rankings drawn from a Plackett-Luce policy over the scores of a run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from fairtk.errors import NotFoundError, ParameterError
from fairtk.frames.columns import QID, SCORE
from fairtk.frames.rankings import order_by
from fairtk.plackett_luce import METHODS, score_gaps
from fairtk.transformers.calibrated import Calibration
from fairtk.transformers.sampled import Sampler
from fairtk.transformers.settings import exponent


class FairSampler(Sampler):
    """Draws rankings from a Plackett-Luce policy: R -> S (*Towards Fair RAG*, Eqs. 1 and 2).

    The scores of each query are min-max scaled to [1, 2], raised to ``alpha``, and used as
    log-weights: a document is drawn next with probability proportional to exp(scaled ** alpha)
    among those not drawn yet. That is all it does: exposure is spread by chance and score, and no
    group of documents is looked after.

    * ``alpha`` is an exponent, the opposite of a temperature: 0 is uniform, larger is closer to the
      deterministic ranking. It is exact at every size: two tied documents share each other's
      places evenly, however far they are behind the first.
    * All scores equal is uniform; fewer documents than ``cutoff`` gives all of them.
    * The random numbers of a query come from (seed, qid) alone, and its documents are taken in the
      order of score and docno. The rankings are therefore the same whatever the batch, the order
      of rows, the ranks given to ties, or the other queries.
    * ``n_samples`` and ``cutoff`` only truncate: the first 10 of 100 samples are the samples of
      ``n_samples=10``, and a ranking at ``cutoff=5`` is the top of the one without cutoff.
    * ``method="stratified"`` spreads the random numbers of a query evenly over its samples
      (scrambled Sobol points). Each ranking by itself has the same law, so expectations stay, and
      means over the samples vary less (EE-D most). The samples are no longer independent: their
      standard errors are mostly too large, and ``EE_D(estimator="unbiased")`` takes away more than
      sampling added.
    * ``target_disparity`` or ``max_relevance_loss`` state what is wanted in place of alpha, and the
      alpha of each query is found from exact values (`calibrated`). What cannot be reached is
      warned of and the nearest taken; no policy is below a disparity of k / n at cutoff k. Then
      the cutoff does more than truncate: alpha depends on it.

    Input: ``qid``, ``docno``, ``score`` and any other columns; one ranking per query. Output: the
    same columns and ``rank`` and ``sample``; one row per query, sample and rank, in that order.
    ``score`` becomes n, n - 1, ... by rank, for a query with n documents.

    Args:
        alpha: exponent on the scaled scores, >= 0; 1 unless a wish below takes its place.
        n_samples: rankings per query, >= 1; 1 is the setting for serving users.
        cutoff: documents per ranking, >= 1; None for all.
        seed: the seed, any integer.
        method: ``"independent"`` or ``"stratified"``.
        target_disparity: the wanted EE_D@cutoff (normalized, MU, the paper's bounds), in (0, 1].
        max_relevance_loss: what share of the run's own nDCG@cutoff may be lost in expectation, in
            [0, 1); 0.05 is 5 %. The most even policy that keeps the rest is drawn from.
        relevance: goes with it: labels (``qid``, ``docno``, ``label``), or ``"scores"``, which
            trusts the scores of the run, scaled to [0, 1] in each query.

    Raises:
        ParameterError: a setting is out of its range, or settings exclude each other.
        NotFoundError: there is no such method.
        InputError: in `transform`, for a missing column, a run that is sampled already, a NaN or
            infinite score, a duplicate document, or ranks that contradict the scores.
    """

    SETTINGS = (
        *("alpha", "n_samples", "cutoff", "seed", "method"),
        *("target_disparity", "max_relevance_loss", "relevance"),
    )

    def __init__(
        self,
        alpha: float | None = None,
        n_samples: int = 100,
        cutoff: int | None = None,
        seed: int = 42,
        method: str = "independent",
        target_disparity: float | None = None,
        max_relevance_loss: float | None = None,
        relevance: pd.DataFrame | str | None = None,
    ) -> None:
        super().__init__(n_samples, cutoff, seed)
        if method not in METHODS:
            raise NotFoundError("method of FairSampler", method, METHODS)
        self.method = method
        name = type(self).__name__
        wishes = {
            "alpha": alpha,
            "target_disparity": target_disparity,
            "max_relevance_loss": max_relevance_loss,
        }
        given = [wish for wish, value in wishes.items() if value is not None]
        if len(given) > 1:
            raise ParameterError(
                f"{name}: {' and '.join(given)} exclude each other, as each says how even the "
                "policy is; give one"
            )
        self.alpha: Any = None  # a number unless there is a calibration
        self.target_disparity = self.max_relevance_loss = self.relevance = None
        self._calibration: Calibration | None = None
        if given in ([], ["alpha"]) and relevance is None:
            self.alpha = exponent(1 if alpha is None else alpha, name)
        else:
            found = Calibration(name, self.cutoff, target_disparity, max_relevance_loss, relevance)
            self._calibration = found
            self.target_disparity = found.target_disparity
            self.max_relevance_loss, self.relevance = found.max_relevance_loss, found.relevance

    def settings(self) -> dict[str, Any]:
        """Return the settings, without those that are not used: results kept before stay."""
        found = super().settings()
        if self.method == "independent":
            del found["method"]
        always = ("n_samples", "cutoff", "seed")
        return {name: value for name, value in found.items() if value is not None or name in always}

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Return `n_samples` rankings per query of the run."""
        run = self.plain_run(inp)
        score = inp[SCORE].to_numpy(dtype=np.float64)[run.order]
        order = order_by((-score, run.ranking), lambda rows: (run.doc[rows], run.docnos), False)
        wanted = self._calibration
        alpha = self.alpha if wanted is None else wanted.find(run, score).alpha
        gaps = score_gaps(score, run.ranking_start, alpha)
        return self.drawn(inp, run, run.order[order], gaps)

    def calibrated(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Return the alpha of each query of a run, and what it reaches, without drawing.

        Returns:
            ``qid``, ``alpha``, ``value`` (exact EE_D, or the share of the run's nDCG that is kept),
            ``wanted`` and ``reached``; of a sampler with a fixed alpha ``qid`` and ``alpha`` alone.
        """
        run = self.plain_run(inp)
        result = pd.DataFrame({QID: run.qids[run.ranking_query]})
        if self._calibration is None:
            return result.assign(alpha=self.alpha)
        score = inp[SCORE].to_numpy(dtype=np.float64)[run.order]
        return result.assign(**vars(self._calibration.find(run, score)))
