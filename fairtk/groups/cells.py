"""Cells of groups: several groups in a cell, cells of unknown groups, and remarks on labels."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from fairtk import checks
from fairtk.errors import ParameterError
from fairtk.frames import IntArray
from fairtk.frames.schema import Refuse, RowProblem, short_repr
from fairtk.groups.rows import expand_runs
from fairtk.remarks import SEVERAL_GROUPS, SIMILAR_GROUPS, UNKNOWN_SPELLINGS, Remark
from fairtk.wording import format_list, short

SPELLINGS = frozenset({"", "<na>", "n/a", "nan", "none", "null", "unknown"})
"""Common spellings of an unknown group, in lower case."""

_SEPARATORS = ";|,/&+:\t\n"
_QUOTED = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_UNUSUAL_SPACE = re.compile(r"\s\s|[^\S \n]")
_QUOTED_LIST = re.compile(rf"[\[({{]\s*(?:{_QUOTED})(?:\s*,?\s*(?:{_QUOTED}))*\s*,?\s*[\])}}]")


def check_separator(separator: Any, where: str) -> str | None:
    """Return the separator of groups in a cell; `None` if each text is one group."""
    if separator is None or (isinstance(separator, str) and separator):
        return separator
    raise ParameterError(f"{where}: separator must be a text such as '|', got {short(separator)}")


def check_unknown_values(values: Any, where: str) -> frozenset[str] | None:
    """Return the spellings of an unknown group as `plain_spelling`; `None` if not decided."""
    if values is None:
        return None
    listed = checks.listed("unknown_values", values, where)
    wrong = [value for value in listed if not isinstance(value, str)]
    if wrong:
        raise ParameterError(f"{where}: unknown_values must be strings, got {wrong[0]!r}")
    return frozenset(map(plain_spelling, listed))


def plain_spelling(text: str) -> str:
    """Return a text in lower case, without white space around it and with single spaces."""
    return " ".join(text.split()).casefold()


def _plain_spellings(labels: list[str]) -> list[str]:
    """Return `plain_spelling` of each label, at once if none has unusual white space."""
    text = "\n" + "\n".join(labels) + "\n"
    if text.count("\n") != len(labels) + 1 or _UNUSUAL_SPACE.search(text):
        return [*map(plain_spelling, labels)]
    return text[1:-1].casefold().split("\n")


def rows_of_cells(
    column: pd.Series, separator: str | None, unknown: Collection[str], refuse: Refuse
) -> tuple[IntArray, pd.Series] | None:
    """Return the groups in the cells of a column, with their rows.

    Args:
        column: the groups of each row: a text, or several groups in a list, a tuple, a set or an
            array. A missing value, an empty list and a text without a part are an unknown group.
        separator: splits cells of text; `None` for texts of one group each.
        unknown: the spellings of an unknown group.
        refuse: refuses rows.

    Returns:
        The row of each group, and the groups, `None` if unknown. A group counts once in a cell.
        `None` if each cell is its group.
    """
    has_lists = not _is_plain(column)
    if not (has_lists or separator or unknown):
        return None
    values: Any = column
    if has_lists:
        values = np.fromiter(map(_hashable, column), dtype=object, count=len(column))
        wrong = np.flatnonzero([cell is _NO_GROUP for cell in values])
        if len(wrong):
            cell = short_repr(column.iloc[int(wrong[0])])
            message = f"group must be a string or a list of strings, got {cell}"
            remedy = "for weights, write one row per document and group"
            refuse(RowProblem(wrong, message, remedy=remedy))
    codes, cells = pd.factorize(values)
    parts = [parts_of(cell, separator, unknown) for cell in cells]
    parts.append([None])  # of missing cells, whose code is -1
    size = np.array([len(groups) for groups in parts], dtype=np.int64)
    row, entry = expand_runs((np.cumsum(size) - size)[codes], size[codes])
    names = np.array([name for groups in parts for name in groups], dtype=object)
    return row, pd.Series(names[entry], dtype=object)


def _is_plain(column: pd.Series) -> bool:
    """Return whether no cell of a column can have several groups."""
    dtype = column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return _is_plain(pd.Series(dtype.categories))
    if isinstance(dtype, pd.ArrowDtype):
        return not pa.types.is_nested(dtype.pyarrow_dtype)
    if not pd.api.types.is_object_dtype(dtype):
        return True
    if pd.api.types.infer_dtype(column, skipna=True) == "string":
        return True
    return not any(map(pd.api.types.is_list_like, column))


_NO_GROUP = object()


def _hashable(cell: Any) -> Any:
    """Return a cell with several groups as a tuple; `_NO_GROUP` if an item is no group."""
    if not pd.api.types.is_list_like(cell):
        return cell
    if isinstance(cell, Mapping):
        return _NO_GROUP
    items = sorted(cell, key=str) if isinstance(cell, set | frozenset) else list(cell)
    if any(pd.api.types.is_list_like(item) for item in items):
        return _NO_GROUP
    return tuple(None if pd.isna(item) else str(item) for item in items)


def parts_of(cell: Any, separator: str | None, unknown: Collection[str]) -> list[str | None]:
    """Return the groups in a text or a tuple of groups, each once; `None` is the unknown group."""
    parts: Sequence[str | None] = cell if isinstance(cell, tuple) else [str(cell)]
    if separator and not isinstance(cell, tuple):
        text = str(cell)
        listed = list_in_text(text)
        texts = text.split(separator) if listed is None else listed
        parts = [part for part in map(str.strip, texts) if part]
    known = [None if part is None or plain_spelling(part) in unknown else part for part in parts]
    return [*dict.fromkeys(known)] or [None]


def list_in_text(text: str) -> list[str] | None:
    """Return the strings in the text of a list, as Python, NumPy, JSON and DuckDB write it."""
    text = text.strip()
    if not text.startswith(("[", "(", "{")):
        return None
    if _QUOTED_LIST.fullmatch(text):
        return [str(ast.literal_eval(item)) for item in re.findall(_QUOTED, text)]
    inner = text[1:-1]
    if text == "[]" or (text[0] == "[" and text[-1] == "]" and "," in inner and "[" not in inner):
        return [part.strip() for part in inner.split(",") if part.strip()]
    return None


def remarks_on_labels(labels: Iterable[str], name: str, decided: bool) -> Iterator[Remark]:
    """Yield remarks on labels that may not be one group each.

    Args:
        labels: the labels of known groups.
        name: the attribute.
        decided: whether `unknown_values` says which labels mean an unknown group.
    """
    labels = list(labels)
    plain = _plain_spellings(labels)
    count = Counter(plain)
    if not decided and not SPELLINGS.isdisjoint(count):
        spelled = [label for label, text in zip(labels, plain, strict=True) if text in SPELLINGS]
        yield _remark(UNKNOWN_SPELLINGS, name, spelled)
    if len(count) < len(labels):
        several = {
            text for text, n in count.items() if n > 1 and (decided or text not in SPELLINGS)
        }
        similar = [label for label, text in zip(labels, plain, strict=True) if text in several]
        if similar:
            yield _remark(SIMILAR_GROUPS, name, similar)
    listed = [label for label in labels if list_in_text(label) is not None]
    if listed:
        yield _remark(SEVERAL_GROUPS, name, listed, ",")
    together = "".join(labels)
    for separator in filter(together.__contains__, _SEPARATORS):
        joined = [
            label
            for label in labels
            if separator in label
            and len(parts := [*filter(None, map(plain_spelling, label.split(separator)))]) > 1
            and all(part in count for part in parts)
        ]
        if joined:
            yield _remark(SEVERAL_GROUPS, name, joined, separator)


def _remark(kind: str, name: str, labels: list[str], separator: str = "") -> Remark:
    detail = f"{format_list(labels)} of {name!r}"
    detail += f" with separator={separator!r}" if separator else ""
    return Remark(kind, "", "", len(labels), 0, (), detail=detail)
