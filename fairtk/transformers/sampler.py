"""FairSampler: rankings drawn from a Plackett-Luce policy over the scores of a run."""

from __future__ import annotations

import numpy as np
import pandas as pd

from fairtk.frames.arrays import FloatArray, IntArray
from fairtk.frames.columns import DOCNO, QID, SCORE
from fairtk.frames.rankings import Rankings, encode_run
from fairtk.plackett_luce import draw_rankings, score_gaps
from fairtk.transformers.base import FairTransformer
from fairtk.transformers.sampled import refuse_sampled, sampled_frame
from fairtk.transformers.settings import depth, exponent, whole


class FairSampler(FairTransformer):
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

    Input: ``qid``, ``docno``, ``score`` and any other columns; one ranking per query. Output: the
    same columns and ``rank`` and ``sample``; one row per query, sample and rank, in that order.
    ``score`` becomes n, n - 1, ... by rank, for a query with n documents.

    Args:
        alpha: exponent on the scaled scores, >= 0.
        n_samples: rankings per query, >= 1; 1 is the setting for serving users.
        cutoff: documents per ranking, >= 1; None for all.
        seed: the seed, any integer.

    Raises:
        ParameterError: a setting is out of its range.
        InputError: in `transform`, for a missing column, a run that is sampled already, a NaN or
            infinite score, a duplicate document, or ranks that contradict the scores.
    """

    SETTINGS = ("alpha", "n_samples", "cutoff", "seed")

    def __init__(
        self,
        alpha: float = 1,
        n_samples: int = 100,
        cutoff: int | None = None,
        seed: int = 42,
    ) -> None:
        name = type(self).__name__
        self.alpha = exponent(alpha, name)
        self.n_samples = whole("n_samples", n_samples, name)
        self.cutoff = depth(cutoff, name)
        self.seed = whole("seed", seed, name, least=None)

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Return `n_samples` rankings per query of the run."""
        self.check_inputs(inp, [QID, DOCNO, SCORE])
        refuse_sampled(inp, type(self).__name__)
        run = encode_run(inp, type(self).__name__)
        score = inp[SCORE].to_numpy(dtype=np.float64)[run.order]
        order = run.order[_ties_by_docno(run, score)]
        draws = draw_rankings(
            score_gaps(score, run.ranking_start, self.alpha),
            run.ranking_start,
            run.qids[run.ranking_query].tolist(),
            self.n_samples,
            self.cutoff,
            self.seed,
        )
        return sampled_frame(inp, run, order, draws)


def _ties_by_docno(run: Rankings, score: FloatArray) -> IntArray | slice:
    """Return the order of sorted rows in which equal scores of a query stand by docno."""
    tied = (run.ranking[1:] == run.ranking[:-1]) & (score[1:] == score[:-1])
    if not tied.any():
        return slice(None)
    rows = np.flatnonzero(np.append(tied, False) | np.append(False, tied))
    opens = np.append(True, ~tied)  # a group of equal scores of one query starts here
    group = np.cumsum(opens)[rows]
    used, code = np.unique(run.doc[rows], return_inverse=True)
    by_name = np.empty(len(used), dtype=np.int64)
    by_name[np.argsort(run.docnos[used].astype(str), kind="stable")] = np.arange(len(used))
    order = np.arange(len(score))
    order[rows] = rows[np.lexsort((by_name[code], group))]
    return order
