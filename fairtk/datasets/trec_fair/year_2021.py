"""TREC Fair Ranking 2021, Task 1: the continents of its articles, and the track's targets.

ir_datasets has the collection (``trec-fair/2021/train`` and ``trec-fair/2021/eval``). What is said
here follows the track's code (fair-trec/trec2021-fair-public): an article of two continents counts
fully for both; one without any belongs to no group and is left out; a topic's target is the mean of
its relevant articles' shares and the world's population. The second attribute of the evaluation,
gender, was published apart from the files that ir_datasets has.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pandas as pd

from fairtk.errors import FormatError, InputError
from fairtk.frames.columns import DOCNO, GROUP, QID
from fairtk.groups import Groups, Target, background
from fairtk.io.dataset_ids import labels_of, resolve_dataset

PREFIX = "trec-fair/2021"
WORLD = "trec-2021-world-population"


def geography_2021(source: Any) -> Groups:
    """Return the continents of the articles of 2021.

    Args:
        source: a dataset id (``"trec-fair/2021/eval"``) or dataset.

    Raises:
        InputError: it is another data set, or has a continent that the track does not.
    """
    rows: list[tuple[str, str]] = []
    seen: set[str] = set()
    for docno, places in _places(_of_2021(source, "geography_2021")):
        if docno not in seen:  # the first record of an article counts
            seen.add(docno)
            rows += [(docno, place) for place in dict.fromkeys(places)]
    frame = pd.DataFrame(rows, columns=[DOCNO, GROUP])
    levels = list(background(WORLD).index)
    return Groups.from_frame(frame, "geography", unknown=None, levels=levels, normalize=False)


def targets_2021(source: Any) -> Target:
    """Return the official target of each topic of 2021, Task 1, by geography.

    Args:
        source: as in `geography_2021`; with topics.

    Raises:
        InputError: it is another data set, or has no topics.
    """
    dataset = _of_2021(source, "targets_2021")
    if not dataset.has_qrels():
        raise InputError(f"targets_2021: {source!r} has no topics; use {PREFIX}/train or /eval")
    # the track drops equal pairs, which a few topics have
    qrels = labels_of(dataset).drop_duplicates([QID, DOCNO])
    return Target.from_qrels(qrels, geography_2021(dataset), background=background(WORLD))


def is_2021(dataset: Any) -> bool:
    """Return whether an ir_datasets data set is one of 2021."""
    return str(dataset.dataset_id()).startswith(PREFIX)


def _of_2021(source: Any, where: str) -> Any:
    dataset = resolve_dataset(source, where)
    if not is_2021(dataset):
        raise InputError(f"{where} needs {PREFIX}/train or {PREFIX}/eval; found {source!r}")
    return dataset


def _places(dataset: Any) -> Iterator[tuple[str, list[str]]]:
    """Yield articles and their continents, from the metadata alone.

    ir_datasets' documents would do, but they take hours, and articles without metadata have there
    those of the article before.
    """
    metadata = getattr(dataset.docs_handler(), "_mlc", None)
    if metadata is None:
        raise InputError(
            "this version of ir_datasets keeps the metadata of TREC Fair Ranking 2021 elsewhere: "
            "install ir_datasets 0.5"
        )
    with metadata.stream() as stream:
        for number, line in enumerate(stream, 1):
            try:
                record = json.loads(line)
                yield str(record["page_id"]), list(record["geographic_locations"] or ())
            except (ValueError, KeyError, TypeError) as error:
                raise FormatError(
                    f"expected an article with 'page_id' and 'geographic_locations' ({error!r})",
                    str(metadata.path()),
                    number,
                ) from None
