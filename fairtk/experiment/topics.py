"""The topics of an experiment, by query and in batches that never change; those of datasets."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from fairtk.datasets.answers import get_answers, get_topics, join_answers
from fairtk.datasets.lamp import license_of
from fairtk.errors import DuplicateError, InputError
from fairtk.experiment.packing import Table, pack
from fairtk.frames import as_strings, digest
from fairtk.frames.columns import DOCNO, GOLD_ANSWER, QID, require
from fairtk.io.dataset_ids import labels_of, resolve_dataset

BATCH = 64
"""Queries of a batch where the user says nothing: large enough for arrays, small enough to lose."""


class Topics:
    """What the pipelines start from: topics (Q), or candidates (R) of each query.

    Texts must be told apart where results are `durable`, kept beyond this run.

    Raises:
        InputError: a qid is missing, or there are no topics.
        DuplicateError: a qid occurs twice among topics without documents.
    """

    def __init__(self, frame: pd.DataFrame, durable: bool) -> None:
        require(frame, [QID], "Experiment (topics)")
        if frame.empty:
            raise InputError("Experiment: the topics have no rows, so there is nothing to do")
        if frame[QID].isna().any():
            raise InputError("Experiment: a qid of the topics is missing (NaN)")
        if DOCNO not in frame.columns and frame[QID].duplicated().any():
            twice = frame[QID][frame[QID].duplicated()].iloc[0]
            raise DuplicateError(f"Experiment: qid {str(twice)!r} occurs twice in the topics")
        named = frame.assign(**{QID: as_strings(frame[QID])})
        code, qids = pd.factorize(named[QID])
        self.frame = named.iloc[np.argsort(code, kind="stable")].reset_index(drop=True)
        self.qids: list[str] = qids.tolist()
        self.durable = durable

    @cached_property
    def digests(self) -> dict[str, str]:
        """The digest of each query's rows, by qid; empty where nothing is kept."""
        if not self.durable:
            return dict.fromkeys(self.qids, "")
        columns = sorted(str(c) for c in self.frame.columns)
        rows: dict[str, list[Any]] = {qid: [columns] for qid in self.qids}
        values = [self.frame[column].tolist() for column in columns]
        for qid, *row in zip(self.frame[QID].tolist(), *values, strict=True):
            rows[qid].append(row)
        return {qid: digest(content, 16) for qid, content in rows.items()}

    def batches(self, size: int) -> list[list[str]]:
        """Return the queries in batches of a size: the same whatever is done already."""
        return [self.qids[start : start + size] for start in range(0, len(self.qids), size)]

    def table(self, qids: Sequence[str], durable: bool = False) -> Table:
        """Return the rows of some queries; ``durable``: such as may stand in a file."""
        rows = self.frame
        if len(qids) < len(self.qids):
            rows = rows[rows[QID].isin(qids)].reset_index(drop=True)
        return pack(rows, "topics", durable)


def from_dataset(
    dataset: Any, topics: pd.DataFrame | None, qrels: pd.DataFrame | None
) -> tuple[pd.DataFrame, pd.DataFrame | None]:
    """Return topics and labels, those of the dataset where none are given.

    Labels get the gold answers where the dataset has them. It is an id, an ``ir_datasets.Dataset``
    or a PyTerrier dataset made of one.
    """
    source = resolve_dataset(dataset, "Experiment")
    if topics is None:
        topics = _plain_query(get_topics(source))
    if qrels is None and source.has("qrels"):
        qrels = labels_of(source)
        if GOLD_ANSWER in source.queries_cls()._fields:
            qrels = join_answers(qrels, get_answers(source))
    return topics, qrels


def about_dataset(dataset: Any) -> dict[str, str]:
    """Return the id of a dataset, and the license of its data where it is known."""
    source = resolve_dataset(dataset, "Experiment")
    said = license_of(source)
    name = str(source.dataset_id()).partition(":")[0]  # without the path of a folder
    return {"dataset": name, **({"license": said} if said else {})}


def _plain_query(topics: pd.DataFrame) -> pd.DataFrame:
    """Return topics with the column ``query``, which ir_datasets often calls ``text``."""
    if "query" in topics.columns:
        return topics
    for name in ("text", "title"):
        if name in topics.columns:
            return topics.rename(columns={name: "query"})
    raise InputError(
        f"Experiment: the dataset's queries have no field 'query', 'text' or 'title' (found "
        f"{list(topics.columns)}); give topics"
    )
