"""What a system of a study makes of topics."""

from __future__ import annotations

import time
import warnings
from dataclasses import replace
from typing import Any

import pandas as pd

from fairtk.fair_qr.transformer import FairQR
from fairtk.frames.columns import QID, QUERY
from fairtk.studies.kept import Ranked

_ALONE = 3  # topics that are timed one by one
_COUNTS = ["retrieved", "prompt_tokens", "completion_tokens", "seconds"]


class Prepared:
    """Ranks with a system that is not trained; what has ``prepare()``, an index, is made before.

    Args:
        system: Q -> R.
    """

    def __init__(self, system: Any) -> None:
        self.system = system
        self._prepare = getattr(system, "prepare", None)

    def __call__(self, topics: pd.DataFrame) -> Ranked:
        """Return rankings, and the seconds of preparing as those of training."""
        begin = time.perf_counter()
        if self._prepare is not None:
            self._prepare()
            self._prepare = None
        seconds = time.perf_counter() - begin
        return Ranked(self.system.transform(topics), training=seconds)


def ranked(system: Any, topics: pd.DataFrame) -> Ranked:
    """Return what a system makes of topics, with a trace and what is missing if it refines."""
    if not isinstance(system, FairQR):
        return Ranked(system.transform(topics))
    found = system.refine(topics)
    # counts are integers only where no other query of the same call lacks one
    numbers = found.trace[_COUNTS].apply(pd.to_numeric).astype(float)
    trace = found.trace.assign(**dict(numbers.items()))
    return Ranked(found.run, trace, found.missing, found.waited)


def ranked_and_timed(system: FairQR, topics: pd.DataFrame) -> Ranked:
    """Return what FAIR-QR makes of topics, and how long one of them takes by itself.

    Side by side, queries share retrievals. A few that were answered are done again one by one,
    with the recorded answers: what a user who asks one query waits for beside the model.
    """
    found = ranked(system, topics)
    trace = found.trace
    if trace is None:
        return found
    refined = trace[trace["iteration"] > 0]
    answered = set(refined[QID]) - set(refined.loc[refined[QUERY] == "", QID])
    sample = topics[topics[QID].isin(answered)].head(_ALONE)
    begin, own = time.perf_counter(), 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # said before
        for place in range(len(sample)):
            start = time.perf_counter()
            waited = system.refine(sample.iloc[[place]]).waited
            own += time.perf_counter() - start - waited
    measuring = time.perf_counter() - begin
    alone = own / len(sample) if len(sample) else found.alone
    return replace(found, alone=alone, measuring=measuring)
