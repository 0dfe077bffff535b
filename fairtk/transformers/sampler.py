"""FairSampler: rankings drawn from a Plackett-Luce policy over the scores of a run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from fairtk.errors import NotFoundError
from fairtk.frames.columns import SCORE
from fairtk.frames.rankings import order_by
from fairtk.plackett_luce import METHODS, score_gaps
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

    Input: ``qid``, ``docno``, ``score`` and any other columns; one ranking per query. Output: the
    same columns and ``rank`` and ``sample``; one row per query, sample and rank, in that order.
    ``score`` becomes n, n - 1, ... by rank, for a query with n documents.

    Args:
        alpha: exponent on the scaled scores, >= 0.
        n_samples: rankings per query, >= 1; 1 is the setting for serving users.
        cutoff: documents per ranking, >= 1; None for all.
        seed: the seed, any integer.
        method: ``"independent"`` or ``"stratified"``.

    Raises:
        ParameterError: a setting is out of its range.
        NotFoundError: there is no such method.
        InputError: in `transform`, for a missing column, a run that is sampled already, a NaN or
            infinite score, a duplicate document, or ranks that contradict the scores.
    """

    SETTINGS = ("alpha", "n_samples", "cutoff", "seed", "method")

    def __init__(
        self,
        alpha: float = 1,
        n_samples: int = 100,
        cutoff: int | None = None,
        seed: int = 42,
        method: str = "independent",
    ) -> None:
        super().__init__(n_samples, cutoff, seed)
        if method not in METHODS:
            raise NotFoundError("method of FairSampler", method, METHODS)
        self.method = method
        self.alpha = exponent(alpha, type(self).__name__)

    def settings(self) -> dict[str, Any]:
        """Return the settings; the method if it is not the usual one: results kept before stay."""
        found = super().settings()
        if self.method == "independent":
            del found["method"]
        return found

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Return `n_samples` rankings per query of the run."""
        run = self.plain_run(inp)
        score = inp[SCORE].to_numpy(dtype=np.float64)[run.order]
        order = order_by((-score, run.ranking), lambda rows: (run.doc[rows], run.docnos), False)
        gaps = score_gaps(score, run.ranking_start, self.alpha)
        return self.drawn(inp, run, run.order[order], gaps)
