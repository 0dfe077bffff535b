"""Groups and targets in files: TSV and CSV (both ``.gz`` too), JSON lines and Parquet."""

from __future__ import annotations

import re
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fairtk.errors import FormatError, InputError, listed
from fairtk.files.content import is_parquet_name
from fairtk.files.rows import Rows, all_numbers
from fairtk.files.tables import write_parquet, write_table
from fairtk.frames.columns import DOCNO, GROUP, WEIGHT
from fairtk.groups.attribute import Attribute
from fairtk.groups.building import attribute_from_frame, level_order
from fairtk.groups.levels import UNKNOWN

_ODD = re.compile(r"^\s|\s$|[\r\n\ufeff]|^$")
_OTHER = (".json", ".jsonl", ".ndjson", ".xlsx", ".feather")


def attribute_of_rows(
    rows: Rows,
    name: str | None = None,
    unknown: str | None = UNKNOWN,
    levels: Sequence[str] | None = None,
    split: str = "count",
    normalize: bool | None = None,
) -> Attribute:
    """Return the attribute that the rows of a file hold; see `fairtk.Groups.read`."""
    check_weights(rows, [DOCNO, GROUP], "a groups file")
    note = rows.note
    if levels is None and "levels" in note:
        levels = note["levels"]
    if unknown == UNKNOWN and "unknown" in note:
        unknown = note["unknown"]
    if normalize is None:
        normalize = bool(note.get("normalize", True))
    return attribute_from_frame(
        rows.frame,
        name or note.get("name") or stem(rows.path),
        unknown=unknown,
        levels=levels,
        split=split,
        normalize=normalize,
        fail=lambda row, message, kind: rows.fail(row, message),
    )


def write_attribute(attribute: Attribute, path: str | PathLike[str]) -> None:
    """Write one attribute; see `fairtk.Groups.write`."""
    used = [attribute.levels[i] for i in np.unique(attribute.level)]
    unknown = attribute.levels[attribute.unknown] if attribute.unknown >= 0 else None
    note: dict[str, Any] = {}
    if attribute.name != stem(path):
        note["name"] = attribute.name
    if level_order(used, UNKNOWN) != attribute.levels:
        note["levels"] = list(attribute.levels)
    if unknown != (UNKNOWN if UNKNOWN in attribute.levels else None):
        note["unknown"] = unknown
    if not attribute.normalized:
        note["normalize"] = False
    write = write_parquet if is_parquet_name(path) else write_weights
    write(attribute.to_frame(), path, note)


def stem(path: str | PathLike[str]) -> str:
    """Return a file's name without its suffixes."""
    return re.sub(r"\.(tsv|csv|txt|jsonl|parquet|pq)$", "", Path(path).name.removesuffix(".gz"))


def check_weights(rows: Rows, columns: list[str], what: str) -> None:
    """Check the rows of a file of groups or of a target, and give its columns their types.

    Weights are numbers if all are; names are strings (or integers, in Parquet), and empty fields
    are missing. Where `columns` are the weights alone, all others have names, too.
    """
    rows.require(columns, what)
    frame = rows.frame
    if WEIGHT in frame.columns and not pd.api.types.is_numeric_dtype(frame[WEIGHT].dtype):
        numbers = all_numbers(frame[WEIGHT])
        if numbers is not None:  # else the caller says which is none, and of what
            frame[WEIGHT] = numbers
    for column in frame.columns if columns == [WEIGHT] else columns:
        values = frame[column]
        if column != WEIGHT and isinstance(values.dtype, pd.StringDtype):
            rows.refuse_odd(column)
            frame[column] = values.mask(values == "")
        elif column != WEIGHT and not _holds_names(values):
            wrong = np.array([not _is_name(value) for value in values], dtype=bool)
            rows.fail_at(wrong, f"{column} must be a string; found {{}}", column)
            rows.refuse_broken(column)


def write_weights(
    frame: pd.DataFrame, path: str | PathLike[str], note: dict[str, Any] | None = None
) -> None:
    """Write groups or a target in one step, in the form that the suffix names."""
    if Path(str(path).removesuffix(".gz")).suffix in _OTHER:
        raise FormatError("groups and targets are written as .tsv, .csv or .parquet", path)
    names = frame.drop(columns=WEIGHT)
    for column in names.columns:
        odd = [name for name in names[column].astype("str").unique() if _ODD.search(str(name))]
        if odd and not is_parquet_name(path):
            raise InputError(
                f"{path}: a {column} cannot be empty, have spaces around it or line breaks; "
                f"found {listed(odd, 3)}: write .parquet instead"
            )
    write_table(frame, path, note)


def _holds_names(values: pd.Series) -> bool:
    if isinstance(values.dtype, pd.CategoricalDtype):
        return isinstance(values.dtype.categories.dtype, pd.StringDtype)
    return bool(pd.api.types.is_integer_dtype(values.dtype))


def _is_name(value: Any) -> bool:
    missing = value is None or value is pd.NA or value != value
    return missing is True or isinstance(value, str | int) and not isinstance(value, bool)
