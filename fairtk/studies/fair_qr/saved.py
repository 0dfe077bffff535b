"""What a study keeps: each query's result in a file of its own, whole or not there at all."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pandas as pd

from fairtk.errors import FormatError
from fairtk.frames.columns import DOCNO, QID, RANK, SCORE
from fairtk.io import atomic_write

RUN = [QID, DOCNO, SCORE, RANK]
_COUNTS = ("retrieved", "prompt_tokens", "completion_tokens", "seconds")
_SIZE = 180  # longer file names are refused by some file systems


class SavedCell:
    """The results of one cell, query by query.

    A query's ranking is a Parquet file that appears in one step; its being there says that the
    query is done. Traces are written before rankings.

    Args:
        folder: of the cell; made when something is saved.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._read: dict[tuple[str, tuple[str, ...]], pd.DataFrame] = {}

    def done(self, qids: Iterable[str]) -> list[str]:
        """Return the qids whose results are there."""
        return [qid for qid in qids if self._path("rankings", qid).exists()]

    def save(self, qid: str, ranking: pd.DataFrame, trace: pd.DataFrame | None = None) -> None:
        """Keep one query's result.

        Args:
            qid: the query.
            ranking: its rows (R); none if nothing was retrieved.
            trace: its rows of the trace, if the system refines.
        """
        self._read.clear()
        if trace is not None:
            self.save_trace(qid, trace)
        _write(ranking[RUN].astype({QID: str, DOCNO: str}), self._path("rankings", qid))

    def save_trace(self, qid: str, trace: pd.DataFrame) -> None:
        """Keep a query's trace; that of a query without a result says why there is none."""
        self._read.clear()
        # counts are integers only where no other query of the same call lacks one
        counts = [name for name in _COUNTS if name in trace.columns]
        numbers = trace[counts].apply(pd.to_numeric).astype(np.float64)
        _write(trace.assign(**dict(numbers.items())), self._path("traces", qid))

    def rankings(self, qids: Iterable[str]) -> pd.DataFrame:
        """Return the rankings of the queries that are done, in the order of the qids."""
        return self._whole("rankings", qids, RUN)

    def traces(self, qids: Iterable[str]) -> pd.DataFrame:
        """Return the traces that are there, in the order of the qids."""
        return self._whole("traces", qids, [QID])

    def note(self, name: str, value: Any) -> None:
        """Keep something about the cell as JSON."""
        write_json(self.folder / f"{name}.json", value)

    def noted(self, name: str, default: Any) -> Any:
        """Return what was kept under a name."""
        path = self.folder / f"{name}.json"
        if not path.exists():
            return default
        try:
            return json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise FormatError(f"not JSON ({error}); remove the file to go on", path) from None

    def _whole(self, kind: str, qids: Iterable[str], columns: list[str]) -> pd.DataFrame:
        """Return what is kept of some queries; files that were read once are not read again."""
        asked = (kind, tuple(qids))
        if asked not in self._read:
            paths = [self._path(kind, qid) for qid in asked[1]]
            found = [_read(path) for path in paths if path.exists()]
            parts = [part for part in found if len(part)]
            whole = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=columns)
            self._read[asked] = whole
        return self._read[asked].copy()

    def _path(self, kind: str, qid: str) -> Path:
        return self.folder / kind / f"{file_name(qid)}.parquet"


def file_name(text: str) -> str:
    """Return a name for a file that differs for different texts, whatever is in them."""
    from fairtk.frames.content import digest

    safe = quote(text, safe=" ").replace(".", "%2E")
    if not safe or len(safe) > _SIZE or safe != safe.lower():
        # some file systems do not tell upper from lower case; "=" comes from nowhere else
        return f"{safe[:_SIZE]}={digest(text)}"
    return safe


def write_json(path: Path, value: Any) -> None:
    """Write a value as JSON, in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as part:
        part.write_text(json.dumps(value, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def write_frames(folder: Path, frames: Mapping[str, pd.DataFrame]) -> None:
    """Write frames as Parquet files, each in one step."""
    for name, frame in frames.items():
        _write(frame, folder / f"{name}.parquet")


def _write(frame: pd.DataFrame, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as part:
        frame.to_parquet(part, index=False)


def _read(path: Path) -> pd.DataFrame:
    try:
        return pd.read_parquet(path)
    except Exception as error:
        raise FormatError(
            f"not a Parquet file of this study ({type(error).__name__}); remove it to go on", path
        ) from None
