"""EpsilonGreedy: swap documents with random ones below."""

from __future__ import annotations

import numpy as np
import pandas as pd

from fairtk import checks
from fairtk.exposure import Stream
from fairtk.frames import DOCNO, QID, RANK, SCORE, BoolArray, IntArray, Run
from fairtk.transformers import FairTransformer


class EpsilonGreedy(FairTransformer):
    """R -> R: epsilon-greedy, which swaps documents at random (Feng and Shah, AAAI 2022).

    From the first rank to the last but one, with probability epsilon the document is swapped with
    one of those below, each with equal probability. Groups and scores are not used. The random
    numbers of a query depend only on (seed, qid). Output: the input's documents and columns,
    ``rank``, and ``score`` 0, -1, -2, ...; one ranking per query.

    Args:
        epsilon: the probability of a swap at each rank, 0 to 1.
        seed: the seed.

    Raises:
        InputError: a setting is out of range; in `transform`, a column is missing, the run is
            sampled, or rankings are invalid.
    """

    identity_name = "fairtk_baselines.EpsilonGreedy"
    output_version = 1
    SETTINGS = ("epsilon", "seed")

    def __init__(self, epsilon: float = 0.1, seed: int = 42) -> None:
        super().__init__()
        self.epsilon = checks.share("epsilon", epsilon, "EpsilonGreedy")
        self.seed = checks.integer("seed", seed, "EpsilonGreedy", least=0)

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Rerank the run (R: ``qid``, ``docno``, ``score``)."""
        self.check_inputs(inp, [QID, DOCNO, SCORE])
        self.refuse_samples(inp)
        run, stream = Run(inp, "EpsilonGreedy"), Stream(self.seed)
        start = run.ranking_start
        order = np.empty(len(run.doc), dtype=np.int64)
        qids = run.qids[run.ranking_query]
        for first, last, qid in zip(start[:-1], start[1:], qids, strict=True):
            stream.open(f"EpsilonGreedy|{qid}")
            uniform = stream.rows(0, int(last - first), 2)
            swaps = uniform[:, 0] < self.epsilon
            below = np.arange(last - first - 1, -1, -1)
            partner = np.arange(1, last - first + 1) + (uniform[:, 1] * below).astype(np.int64)
            order[first:last] = first + swapped(swaps, partner)
        out = inp.take(run.order[order]).reset_index(drop=True)
        out[SCORE] = 0.0 - run.position  # not -0.0
        out[RANK] = run.position
        return out


def swapped(swaps: BoolArray, partner: IntArray) -> IntArray:
    """Return the order of documents after swaps, as indices.

    Args:
        swaps: whether there is a swap at each rank; the last one is ignored; shape (n,).
        partner: the rank of the other document of each swap; shape (n,).
    """
    order = np.arange(len(swaps))
    for rank in np.flatnonzero(swaps[:-1]):
        other = partner[rank]
        order[rank], order[other] = order[other], order[rank]
    return order
