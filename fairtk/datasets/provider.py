"""Gold answers of datasets, and the PyTerrier provider ``pt.get_dataset("fair:lamp/4/dev")``.

PyTerrier finds the provider by an entry point, so fairtk need not be imported.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyterrier as pt
from pyterrier.datasets._irds import IRDSDataset

from fairtk.errors import ColumnError, InputError, NotFoundError
from fairtk.frames import GOLD_ANSWER, LABEL, QID, require_columns
from fairtk.frames.accepted import as_frame, frame_of
from fairtk.frames.schema import encode_ids
from fairtk.io import resolve_dataset
from fairtk.plugins import registry
from fairtk.wording import format_list, missing_columns


def get_answers(dataset: Any) -> pd.DataFrame:
    """Return a dataset's gold answers.

    Args:
        dataset: an id (``"lamp/4/dev"``), an ``ir_datasets.Dataset`` or a PyTerrier dataset.

    Returns:
        ``qid`` and ``gold_answer``, one row per query.

    Raises:
        NotFoundError: the id is unknown.
        InputError: the dataset's queries have no gold answers.
    """
    source = resolve_dataset(dataset, "get_answers")
    fields = source.queries_cls()._fields if source.has_queries() else ()
    if GOLD_ANSWER not in fields:
        raise InputError(
            f"get_answers: the queries of {dataset!r} must have the field {GOLD_ANSWER!r}, got "
            f"{list(fields)}"
        )
    rows = [(q.query_id, q.gold_answer) for q in source.queries_iter()]
    return pd.DataFrame(rows, columns=[QID, GOLD_ANSWER])


def get_topics(dataset: Any) -> pd.DataFrame:
    """Return a dataset's queries as topics, without gold answers.

    Args:
        dataset: an id (``"lamp/4/dev"``), an ``ir_datasets.Dataset`` or a PyTerrier dataset.

    Returns:
        ``qid`` and the other fields of the queries, for LaMP ``query`` and ``question``.

    Raises:
        NotFoundError: the id is unknown.
        InputError: the dataset has no queries.
    """
    source = resolve_dataset(dataset, "get_topics")
    if not source.has_queries():
        raise InputError(f"get_topics: {dataset!r} has no queries")
    fields = [f for f in source.queries_cls()._fields if f not in ("query_id", GOLD_ANSWER)]
    rows = [(q.query_id, *(getattr(q, f) for f in fields)) for q in source.queries_iter()]
    return pd.DataFrame(rows, columns=[QID, *fields])


def join_answers(qrels: pd.DataFrame, answers: pd.DataFrame) -> pd.DataFrame:
    """Return the qrels with the gold answer of each row's query in ``gold_answer``.

    Args:
        qrels: the labels, with ``qid``; not changed.
        answers: ``qid`` and ``gold_answer`` (a string or a list of strings); not changed. Answers
            of other queries are ignored. A query with several answers gets a list of them, of which
            the best match counts.

    Raises:
        ColumnError: a column is missing.
        InputError: an id is invalid, a query of the qrels has no gold answer, a gold answer is not
            text, or the qrels already have gold answers.
    """
    qrels = as_frame(qrels, LABEL, "join_answers: qrels")
    require_columns(qrels, [QID], "join_answers (qrels)")
    if GOLD_ANSWER in qrels.columns:
        raise InputError(
            f"join_answers: duplicate column {GOLD_ANSWER!r}: the qrels have it already; drop it"
        )
    code, qids = encode_ids(qrels[QID], QID, "join_answers (qrels)")
    golds = gold_of_queries(qids.tolist(), answers)
    return qrels.assign(**{GOLD_ANSWER: golds.array.take(code)})


def gold_of_queries(qids: Sequence[str], answers: pd.DataFrame) -> pd.Series:
    """Return the gold answer of each query, of which it may have several; see `join_answers`."""
    answers = frame_of(answers)
    require_columns(answers, [QID], "join_answers (answers)")
    if GOLD_ANSWER not in answers.columns:  # `require_columns` would advise to call `join_answers`
        expected = format_list([QID, GOLD_ANSWER])
        raise ColumnError(
            f"join_answers (answers): {missing_columns([GOLD_ANSWER], expected, answers.columns)}"
        )
    golds: dict[str, list[str]] = {}
    code, ids = encode_ids(answers[QID], QID, "join_answers (answers)")
    for qid, gold in zip(ids[code].tolist(), answers[GOLD_ANSWER].tolist(), strict=True):
        golds.setdefault(qid, []).extend(_strings(gold, qid))
    missing = [qid for qid in qids if qid not in golds]
    if missing:
        raise InputError(
            f"missing gold answers for {len(missing)} queries of the qrels "
            f"({format_list(missing)}); add them, or drop these queries from the qrels"
        )
    return pd.Series([_one(golds[qid]) for qid in qids], dtype=object)


def _strings(gold: Any, qid: Any) -> list[str]:
    gold = gold.tolist() if isinstance(gold, np.ndarray) else gold  # a list in Parquet
    values = [gold] if isinstance(gold, str) else gold
    if not isinstance(values, list | tuple) or not all(isinstance(v, str) for v in values):
        raise InputError(
            f"the gold answer of qid {qid!r} must be a string or a list of strings, got {gold!r}"
        )
    if not values:
        raise InputError(f"the list of gold answers of qid {qid!r} must not be empty")
    return list(values)


def _one(values: list[str]) -> str | list[str]:
    distinct = list(dict.fromkeys(values))
    return distinct[0] if len(distinct) == 1 else distinct


class FairDataset(IRDSDataset):  # type: ignore[misc]
    """A PyTerrier dataset with all methods of ``irds:`` datasets, and gold answers.

    Args:
        dataset: a dataset id, or an ``ir_datasets.Dataset``, e.g. of `lamp.from_folder`.
    """

    identity_name = "fairtk.FairDataset"
    output_version = 1

    def __init__(self, dataset: Any) -> None:
        source = resolve_dataset(dataset, "FairDataset")
        self._irds_id = source.dataset_id() if hasattr(source, "dataset_id") else repr(source)
        self._irds_ref = source

    def get_topics(self, variant: str | None = None) -> pd.DataFrame:
        """Return the queries: ``qid``, ``query``, ``question``.

        Args:
            variant: a field of the queries to return as ``query``; `None` for all fields.
        """
        if variant is not None:
            return super().get_topics(variant)
        return get_topics(self.irds_ref())

    def get_answers(self) -> pd.DataFrame:
        """Return the gold answers: ``qid``, ``gold_answer``."""
        return get_answers(self.irds_ref())

    def __repr__(self) -> str:
        return f"FairDataset({self._irds_id!r})"


class FairDatasetProvider(pt.datasets.DatasetProvider):  # type: ignore[misc]
    """PyTerrier's provider of the datasets of fairtk and its plugins."""

    def get_dataset(self, name: str) -> FairDataset:
        """Return a dataset; raise a `KeyError` for an unknown name, as PyTerrier expects."""
        try:
            registry.datasets.get(name)
        except NotFoundError as error:
            raise KeyError(str(error)) from error
        return FairDataset(name)

    def list_dataset_names(self) -> Iterable[str]:
        """Return the ids."""
        return registry.datasets.names()
