"""Groups from the documents of an ir_datasets data set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from fairtk.errors import InputError
from fairtk.frames.columns import DOCNO, GROUP, WEIGHT


def frame_from_docs(
    dataset: Any, field: str, unknown: str | None, recode: Mapping[str, str]
) -> pd.DataFrame:
    """Return ``docno``, ``group`` and ``weight`` from a field; see `fairtk.Groups.from_docs`."""
    if not hasattr(dataset, "docs_iter"):
        raise InputError(
            "from_docs needs an ir_datasets data set with documents; found "
            f"{type(dataset).__name__}"
        )
    docnos: list[str] = []
    groups: list[str | None] = []
    weights: list[float] = []
    seen: set[str] = set()
    for doc in dataset.docs_iter():
        if not hasattr(doc, field):
            fields = getattr(doc, "_fields", ())
            raise InputError(f"the documents have no field {field!r}; they have {list(fields)}")
        if doc.doc_id in seen:
            continue
        seen.add(doc.doc_id)
        counts = _counts(getattr(doc, field), doc.doc_id, field, recode)
        if not counts:
            counts = {unknown: 1.0}
        for group, weight in counts.items():
            docnos.append(doc.doc_id)
            groups.append(group)
            weights.append(weight)
    return pd.DataFrame(
        {
            DOCNO: pd.Series(docnos, dtype="str"),
            GROUP: pd.Series(groups, dtype="str"),
            WEIGHT: pd.Series(weights, dtype="float64"),
        }
    )


def _counts(
    value: Any, docno: str, field: str, recode: Mapping[str, str]
) -> dict[str | None, float]:
    if value is None or value == "":
        return {}
    items: Iterable[tuple[Any, Any]]
    if isinstance(value, Mapping):
        items = value.items()
    elif isinstance(value, list | tuple | set | frozenset):
        # a value that is listed twice is listed, no more
        items = [(v, 1) for v in Counter(v for v in value if v is not None)]
    elif isinstance(value, str | int):
        items = [(value, 1)]
    else:
        raise InputError(
            f"docno {docno!r}: the field {field!r} must be a string, a list of strings or counts "
            f"by string; found {type(value).__name__}"
        )
    result: dict[str | None, float] = {}
    for level, count in items:
        if not isinstance(count, int | float):
            raise InputError(
                f"docno {docno!r}: the field {field!r} must hold counts; found {count!r} for "
                f"{level!r}"
            )
        name = recode.get(str(level), str(level))
        result[name] = result.get(name, 0.0) + count
    return {level: count for level, count in result.items() if count}
