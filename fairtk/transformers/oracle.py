"""OracleSampler: rankings of a policy that knows which documents are useful."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import pandas as pd

from fairtk.frames.arrays import FloatArray, IntArray
from fairtk.frames.qrels import Qrels
from fairtk.frames.rankings import Rankings, order_by
from fairtk.plackett_luce import SURE
from fairtk.transformers.sampled import Sampler


class OracleSampler(Sampler):
    """Ranks useful documents first, each block uniformly shuffled: R -> S.

    The optimal policy of expected exposure (*Towards Fair RAG*, section 3.3; Diaz et al. 2020):
    grades in descending order, and within a grade every order equally likely. A document without a
    label, or with a label of at most 0, is not useful. Scores of the run are not looked at.

    Random numbers come from (seed, qid) alone, as in `FairSampler`, and ``n_samples`` and
    ``cutoff`` only truncate.

    Input: ``qid``, ``docno``, ``score`` and any other columns; one ranking per query. Output: the
    same columns and ``rank`` and ``sample``; ``score`` becomes n, n - 1, ... by rank, for a query
    with n documents.

    Args:
        qrels: labels: ``qid``, ``docno``, ``label`` (utility or relevance; larger is better).
            Other columns are ignored, also for equality of two samplers.
        n_samples: rankings per query, >= 1.
        cutoff: documents per ranking, >= 1; None for all.
        seed: the seed, any integer.

    Raises:
        ParameterError: a setting is out of its range.
        InputError: the qrels lack a column, repeat a (qid, docno) or have a label that is not a
            finite number; in `transform`, the run is broken.
    """

    SETTINGS = ("qrels", "n_samples", "cutoff", "seed")

    def __init__(
        self,
        qrels: pd.DataFrame,
        n_samples: int = 100,
        cutoff: int | None = None,
        seed: int = 42,
    ) -> None:
        super().__init__(n_samples, cutoff, seed)
        # in one form: equal labels, equal samplers
        self.qrels = Qrels(qrels, type(self).__name__).plain()

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Return `n_samples` rankings per query of the run."""
        run = self.plain_run(inp)
        within, gaps = useful_first(run, self._labels)
        return self.drawn(inp, run, run.order[within], gaps)

    @cached_property
    def _labels(self) -> Qrels:
        return Qrels(self.qrels, type(self).__name__)


def useful_first(run: Rankings, labels: Qrels) -> tuple[IntArray, FloatArray]:
    """Return the sorted rows of a run, useful ones first, and the gaps between their grades.

    Returns:
        Sorted rows by query, grade and docno, and `SURE` where a grade ends within a query, 0
        elsewhere; see `fairtk.plackett_luce.score_gaps`.
    """
    grade = np.maximum(np.nan_to_num(labels.labels_of(run)), 0.0)
    within = order_by((-grade, run.query), lambda rows: (run.doc[rows], run.docnos), False)
    gaps = np.zeros(len(grade))
    gaps[1:] = np.where(grade[within][1:] < grade[within][:-1], SURE, 0.0)
    gaps[run.ranking_start[:-1]] = 0.0
    return within, gaps
