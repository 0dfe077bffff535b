"""Frames X: exact exposure, and the browsing model and cutoff that it holds for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

import pandas as pd

from fairtk.errors import ColumnError, InputError
from fairtk.exposure.browsing import BrowsingModel
from fairtk.frames.columns import ALPHA, BROWSING, CUTOFF, EXPOSURE, RANK, SAMPLE, SCORE


@dataclass(frozen=True)
class ExactExposure:
    """What a frame X says of its exposure."""

    run: pd.DataFrame  # the frame with its exposure as scores, and without ranks
    browsing: str  # the string form of the browsing model
    cutoff: int | None  # the cutoff; None: all ranks

    def __str__(self) -> str:
        return f"browsing={self.browsing!r} and cutoff={self.cutoff}"

    @classmethod
    def of(cls, run: pd.DataFrame, where: str) -> ExactExposure:
        """Return what a frame X, which has the column ``exposure``, says of it, checked."""
        if BROWSING not in run.columns or CUTOFF not in run.columns:
            raise ColumnError(
                f"{where} has the column {EXPOSURE!r}, as exact exposure has, but not both of "
                f"{BROWSING!r} and {CUTOFF!r}, which say what it holds for: keep all three, or "
                f"rename {EXPOSURE!r} if it means something else"
            )
        if SAMPLE in run.columns:
            raise InputError(
                f"{where}: the columns {EXPOSURE!r} and {SAMPLE!r} exclude each other: exact "
                "exposure has no samples; drop one of them"
            )
        for name in (BROWSING, CUTOFF, ALPHA):
            if name in run.columns and run[name].nunique(dropna=False) > 1:
                found = run[name].unique().tolist()
                raise InputError(
                    f"{where}: the exposure of one system has several values of {name!r} "
                    f"({found}); measure them one by one, e.g. those of run.groupby({name!r})"
                )
        column = pd.to_numeric(run[EXPOSURE], errors="coerce")
        if (column < 0).any():
            raise InputError(f"{where}: exposure must be at least 0; found {column.min()}")
        cutoff: Any = run[CUTOFF].iloc[0] if len(run) else None
        return cls(
            run.drop(columns=RANK, errors="ignore").assign(**{SCORE: run[EXPOSURE]}),
            str(run[BROWSING].iloc[0]) if len(run) else "",
            None if pd.isna(cutoff) else int(cutoff),
        )

    def check(self, where: str, model: BrowsingModel, cutoff: int | None) -> None:
        """Raise an `InputError` unless the exposure holds for what a measure is made with."""
        if model.stop > 0:
            raise InputError(
                f"{where}: under browsing={str(model)!r} exposure depends on which documents are "
                f"useful, so no exact exposure (column {EXPOSURE!r}) holds for it; measure "
                "sampled rankings instead (FairSampler)"
            )
        if len(self.run) and (str(model), cutoff) != (self.browsing, self.cutoff):
            raise InputError(
                f"{where} needs exposure with browsing={str(model)!r} and cutoff={cutoff}, but "
                f"that of the run (its column {EXPOSURE!r}) was made with {self}; make it anew, "
                f"e.g. PlackettLuceExposure(browsing={str(model)!r}, cutoff={cutoff}), or change "
                "the measure"
            )

    def refuse(self, measure: Any) -> NoReturn:
        """Raise an `InputError`: the measure needs rankings."""
        raise InputError(
            f"{measure} reads rankings, but the run is exact exposure (it has the column "
            f"{EXPOSURE!r}, made with {self}), which has none: measure sampled rankings instead "
            "(FairSampler), or EE_D, EE_R, EE_L, AWRF, or E(nDCG@k) of exposure with "
            "browsing='DCG' and cutoff=k"
        )
