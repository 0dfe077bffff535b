"""What a system of a study makes of topics."""

from __future__ import annotations

from typing import Any

import pandas as pd

from fairtk.fair_qr.transformer import FairQR
from fairtk.studies.kept import Ranked

_COUNTS = ["retrieved", "prompt_tokens", "completion_tokens", "seconds"]


def ranked(system: Any, topics: pd.DataFrame) -> Ranked:
    """Return what a system makes of topics, with a trace and what is missing if it refines."""
    if not isinstance(system, FairQR):
        return Ranked(system.transform(topics))
    found = system.refine(topics)
    # counts are integers only where no other query of the same call lacks one
    numbers = found.trace[_COUNTS].apply(pd.to_numeric).astype(float)
    trace = found.trace.assign(**dict(numbers.items()))
    return Ranked(found.run, trace, found.missing, found.waited)
