"""Lists of TREC Fair Ranking 2022, the runs of its participants."""

from __future__ import annotations

from os import PathLike

import pandas as pd

from fairtk import io


def read_run(path: str | PathLike[str]) -> pd.DataFrame:
    """Read a list of the track, with or without a header.

    Args:
        path: ``id page_id`` (Task 1) or ``id seq_no page_id`` (Task 2), separated by tabs or
            spaces, in the order of the ranking; plain or gzipped.

    Returns:
        The run; see ``format="trec-fair"`` of `fairtk.io.read_run`.

    Raises:
        FormatError: a line is invalid, or a page occurs twice in a ranking; names the line.
    """
    return io.read_run(path, format="trec-fair")
