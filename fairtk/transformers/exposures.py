"""Transformers R -> X: the exact exposure of documents under a policy, without sampling."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np
import pandas as pd

from fairtk import checks
from fairtk.errors import ParameterError
from fairtk.exposure import BrowsingModel, expected_attention, score_gaps
from fairtk.exposure.expected import RankWeights
from fairtk.frames import EXPOSURE, RANK, SCORE, FloatArray, Qrels, Run
from fairtk.frames.columns import ALPHA, BROWSING, CUTOFF, as_numbers
from fairtk.plugins import as_position_model
from fairtk.transformers.base import FairTransformer
from fairtk.transformers.samplers import useful_first
from fairtk.wording import short

# ranks are ignored if the sum of their weights is below this value
_TAIL = 1e-14


def exposure_settings(
    where: str, cutoff: int | None, browsing: str | BrowsingModel
) -> tuple[BrowsingModel, int | None]:
    """Return the browsing model and the cutoff of a frame X, after checks.

    Raises:
        ParameterError: a setting is invalid, or the model requires a cutoff.
    """
    cutoff, model = checks.cutoff(cutoff, where), as_position_model(browsing, where)
    if model.needs_cutoff and cutoff is None:
        raise ParameterError(
            f"{where}: a cutoff is required for browsing={str(model)!r}, the number of documents "
            f"that the user reads; write {where}(cutoff=5, ...)"
        )
    return model, cutoff


class ExposureTransformer(FairTransformer):
    """Base class of transformers R -> X that compute the exact exposure of a policy.

    Output: the columns of the input and ``exposure``, ``browsing`` and ``cutoff``; one row per
    query and document, even if its exposure is 0. ``score`` becomes the exposure and ``rank`` its
    order, so that PyTerrier accepts the frame; measures of ranks refuse it. Cascade models (GERR)
    are not supported, because their attention depends on the labels.
    """

    def __init__(self, cutoff: int | None = 5, browsing: str | BrowsingModel = "MU") -> None:
        self.browsing, self.cutoff = exposure_settings(type(self).__name__, cutoff, browsing)

    def weights(self, run: Run) -> FloatArray:
        """Return the attention of the ranks that get attention; shape (n_ranks,), not empty."""
        longest = int(np.diff(run.ranking_start).max(initial=1))
        weight = RankWeights.of(self.browsing, self.cutoff, longest).weight
        below = np.cumsum(weight[::-1])[::-1]
        return weight[: max(1, int((below > _TAIL).sum()))]

    def make_frame(
        self, inp: pd.DataFrame, run: Run, exposure: FloatArray, alphas: Sequence[float] = ()
    ) -> pd.DataFrame:
        """Return the frame X, sorted by query, alpha and exposure.

        `exposure` has one value per sorted row of the run and alpha; shape (n_alphas * n_rows,).
        """
        times = max(1, len(alphas))
        alpha = np.repeat(np.arange(times), len(run.order))
        row = np.tile(np.arange(len(run.order)), times)
        order = np.lexsort((-exposure, alpha, run.ranking[row]))
        row, alpha = row[order], alpha[order]
        result = inp.take(run.order[row]).reset_index(drop=True)
        result[SCORE] = exposure[order]
        position = np.arange(len(row)) - run.ranking_start[run.ranking[row]] * times
        result[RANK] = position - alpha * np.diff(run.ranking_start)[run.ranking[row]]
        if alphas:
            result[ALPHA] = np.array(alphas)[alpha]
        result[EXPOSURE] = exposure[order]
        result[BROWSING] = str(self.browsing)
        result[CUTOFF] = pd.array([self.cutoff] * len(row), dtype="Int64")
        return result


class PlackettLuceExposure(ExposureTransformer):
    """R -> X: the exact expected exposure of each document under `FairSampler`'s policy.

    Numerical integration (`fairtk.exposure.exact`; absolute error below 1e-10) replaces sampling,
    so measures of the output have no sampling noise and no bias. EE_D, EE_R, EE_L, AWRF and
    E(nDCG@k) support it, with the same browsing model and cutoff. With 1,000 candidates, a cutoff
    of 5 takes milliseconds per query, and all ranks take seconds.

    Args:
        alpha: exponent on the scaled scores, >= 0, as in `FairSampler`. For a list, the output has
            one frame X per alpha, with the column ``alpha``; measures accept one alpha at a time.
        cutoff: ranks that are read, >= 1; `None` for all (not with MU).
        browsing: the browsing model: MU, RBP(p=0.8), DCG, TREC; not GERR.

    Raises:
        ParameterError: a setting is out of its range.
        InputError: in `transform`, see `FairSampler`.
    """

    identity_name = "fairtk.PlackettLuceExposure"
    output_version = 1
    is_cheap = True
    SETTINGS = ("alpha", "cutoff", "browsing")

    def __init__(
        self,
        alpha: float | Sequence[float] = 1,
        cutoff: int | None = 5,
        browsing: str | BrowsingModel = "MU",
    ) -> None:
        super().__init__(cutoff, browsing)
        name = type(self).__name__
        self.alpha: float | list[float]
        if isinstance(alpha, Iterable) and not isinstance(alpha, str):
            alpha = list(alpha)
            self.alpha = [checks.exponent(one, name) for one in alpha]
            if len(set(self.alpha)) < max(1, len(self.alpha)):
                raise ParameterError(f"{name}: alpha must be distinct numbers, got {short(alpha)}")
        else:
            self.alpha = checks.exponent(alpha, name)

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Return the exact exposure of each document of the run."""
        run = self.plain_run(inp)
        score = as_numbers(inp[SCORE])[run.order]
        alphas = self.alpha if isinstance(self.alpha, list) else [self.alpha]
        if any(alphas):
            self.remark_on_candidates(run)
        gaps = [score_gaps(score, run.ranking_start, alpha) for alpha in alphas]
        starts = [run.ranking_start[:-1] + i * len(score) for i in range(len(alphas))]
        start = np.concatenate([*starts, [len(alphas) * len(score)]])
        exposure = expected_attention(np.concatenate(gaps), start, self.weights(run))
        return self.make_frame(inp, run, exposure, alphas if isinstance(self.alpha, list) else ())


class OracleExposure(ExposureTransformer):
    """R -> X: the exact exposure under `OracleSampler`'s policy, the target of EE_R.

    Each document gets the mean attention of the ranks of its grade. A query without a useful
    document in the ranking gets the uniform policy, with a warning if no document there has a
    label.

    Args:
        qrels: labels: ``qid``, ``docno``, ``label``.
        cutoff: ranks that are read, >= 1; `None` for all (not with MU).
        browsing: the browsing model: MU, RBP(p=0.8), DCG, TREC; not GERR.

    Raises:
        ParameterError: a setting is out of its range.
        InputError: the qrels are invalid; in `transform`, the run is.
    """

    identity_name = "fairtk.OracleExposure"
    output_version = 1
    is_cheap = True
    SETTINGS = ("qrels", "cutoff", "browsing")

    def __init__(
        self,
        qrels: pd.DataFrame,
        cutoff: int | None = 5,
        browsing: str | BrowsingModel = "MU",
    ) -> None:
        super().__init__(cutoff, browsing)
        self.qrels = Qrels(qrels, type(self).__name__).plain()

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Return the exact exposure of each document of the run."""
        run = self.plain_run(inp)
        within, gaps = useful_first(run, self._labels, type(self).__name__, stacklevel=5)
        exposure = np.empty(len(within))
        exposure[within] = expected_attention(gaps, run.ranking_start, self.weights(run))
        return self.make_frame(inp, run, exposure)

    @cached_property
    def _labels(self) -> Qrels:
        return Qrels(self.qrels, type(self).__name__)


class DeterministicExposure(ExposureTransformer):
    """R -> X: the exposure of a deterministic ranking.

    Each document gets the attention of its rank. It is the limit of `PlackettLuceExposure` for
    large alpha, except for tied scores, which that policy shuffles.

    Args:
        cutoff: ranks that are read, >= 1; `None` for all (not with MU).
        browsing: the browsing model: MU, RBP(p=0.8), DCG, TREC; not GERR.

    Raises:
        ParameterError: a setting is out of its range.
        InputError: in `transform`, the run is invalid.
    """

    identity_name = "fairtk.DeterministicExposure"
    output_version = 1
    is_cheap = True
    SETTINGS = ("cutoff", "browsing")

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Return the exposure of each document of the run."""
        run = self.plain_run(inp)
        weight = np.append(self.weights(run), 0.0)
        return self.make_frame(inp, run, weight[np.minimum(run.position, len(weight) - 1)])
