"""Clusters of queries: from a column of the topics, a file, a frame or a dict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import pandas as pd

from fairtk.errors import ColumnError, DataWarning, InputError, NotFoundError, ParameterError, warn
from fairtk.frames import QID, QUERY, require_columns
from fairtk.frames.accepted import frame_of
from fairtk.frames.ids import as_strings
from fairtk.io.lines import STDIN
from fairtk.io.rows import read_table
from fairtk.io.tables import name_and_path
from fairtk.wording import format_list

CLUSTER = "cluster"
"""The column of clusters in a frame or a file with several columns."""


def clusters_of(
    cluster: Any, tables: Iterable[pd.DataFrame], qids: Sequence[str], where: str
) -> pd.Series:
    """Return the cluster of each query, with the qids as index and the column as name.

    Args:
        cluster: a column of a table; a file (also ``"COLUMN=FILE"``) or a frame with ``qid`` and a
            column; or a dict or a series from qid to cluster.
        tables: frames with a qid, in which a column is looked up.
        qids: the queries that are measured.
        where: the caller, for messages.

    Raises:
        NotFoundError: there is no such column or file.
        InputError: a query has no cluster or several, or all queries are in one cluster.
        ParameterError: `cluster` is in another form.
    """
    column = _of_tables(cluster, tables) if isinstance(cluster, str) else None
    labels = _given(cluster, where) if column is None else column
    name = str(labels.name)
    place = f"{where}: cluster {name!r}"
    try:
        pairs = pd.DataFrame({QID: labels.index, CLUSTER: labels.array}).drop_duplicates()
    except TypeError as error:
        raise InputError(f"{place}: clusters must be texts or numbers: {error}") from None
    pairs[QID] = as_strings(pairs[QID])
    is_measured = pairs[QID].isin(set(qids))
    unknown = pairs.loc[~is_measured, QID].unique().tolist()
    pairs = pairs[is_measured]
    if pairs.empty:
        raise InputError(
            f"{place}: no query in common: expected {format_list(qids)}, got {format_list(unknown)}"
        )
    pairs = pairs[~(pairs[CLUSTER].isna() | (pairs[CLUSTER].astype(str).str.strip() == ""))]
    pairs = pairs.assign(**{CLUSTER: as_strings(pairs[CLUSTER])}).drop_duplicates()
    several = pairs.loc[pairs[QID].duplicated(), QID].unique().tolist()
    if several:
        values = pairs.loc[pairs[QID] == several[0], CLUSTER]
        raise InputError(
            f"{place}: {len(several)} of {len(qids)} queries are in several clusters "
            f"({format_list(several)}); qid {several[0]!r} must be in one, got "
            f"{format_list(values)}"
        )
    clusters = pairs.set_index(QID)[CLUSTER].reindex(pd.Index(qids, name=QID)).rename(name)
    missing = clusters.index[clusters.isna()].tolist()
    if missing:
        raise InputError(
            f"{place}: missing for {len(missing)} of {len(qids)} queries ({format_list(missing)}); "
            "give each query a cluster, e.g. its own qid"
        )
    if clusters.nunique() < 2:
        raise InputError(
            f"{place}: expected at least two clusters, got one ({clusters.iloc[0]!r}) for all "
            f"{len(qids)} queries"
        )
    if unknown and column is None:
        warn(
            f"{place}: {len(unknown)} of {len(unknown) + len(qids)} queries are not measured and "
            f"are ignored ({format_list(unknown)})",
            DataWarning,
            stacklevel=4,
        )
    return clusters


def _of_tables(name: str, tables: Iterable[pd.DataFrame]) -> pd.Series | None:
    """Return the values of a column of tables by qid; `None` if `name` is a file."""
    columns: dict[str, None] = {}
    parts: list[pd.DataFrame] = []
    for table in tables:
        columns |= dict.fromkeys(map(str, table.columns))
        if name in table.columns:
            pairs = pd.DataFrame({QID: table[QID].array, CLUSTER: table[name].array})
            parts.append(pairs.dropna() if parts else pairs)
    if parts:
        pairs = pd.concat(parts)
        return pd.Series(pairs[CLUSTER].array, index=pd.Index(pairs[QID].array), name=name)
    path = name_and_path(name)[1]
    if path != STDIN and not Path(path).is_file():
        raise NotFoundError("column or file of clusters", name, columns)
    return None


def _given(cluster: Any, where: str) -> pd.Series:
    """Return the clusters of a file, a frame, a dict or a series by qid."""
    if isinstance(cluster, str | PathLike):
        name, path = name_and_path(cluster)
        rows = read_table(path)
        rows.require([QID, *([] if name is None else [name])], "clusters")
        return _column(rows.frame, name, str(path))
    cluster = frame_of(cluster)
    if isinstance(cluster, pd.DataFrame):
        require_columns(cluster, [QID], f"{where}: cluster")
        return _column(cluster, None, f"{where}: cluster")
    if isinstance(cluster, Mapping):
        return pd.Series(list(cluster.values()), list(cluster), dtype=object, name=CLUSTER)
    if isinstance(cluster, pd.Series):
        return cluster if cluster.name is not None else cluster.rename(CLUSTER)
    raise ParameterError(
        f"{where}: `cluster` must be a column, a file, a frame with qid and cluster, or a dict "
        f"from qid to cluster, got {type(cluster).__name__}"
    )


def _column(frame: pd.DataFrame, name: str | None, where: str) -> pd.Series:
    """Return a column by qid: `name`, or ``cluster``, or the only one besides ``qid``."""
    others = [column for column in frame.columns if column not in (QID, QUERY)]
    name = CLUSTER if name is None and CLUSTER in others else name
    if name is None and len(others) != 1:
        raise ColumnError(
            f"{where}: expected {QID!r} and {CLUSTER!r}, or {QID!r} and one other column, got "
            f"{format_list(frame.columns, 9)}"
        )
    column = others[0] if name is None else name
    return pd.Series(frame[column].array, index=pd.Index(frame[QID].array), name=column)
