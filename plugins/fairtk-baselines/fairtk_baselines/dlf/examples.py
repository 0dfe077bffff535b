"""What the models see of a run: pairs with vectors, and batches with labels and targets."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from fairtk.errors import DataWarning, InputError, listed
from fairtk.frames import (
    DOCNO,
    QID,
    SCORE,
    BoolArray,
    FloatArray,
    IntArray,
    ObjectArray,
    Qrels,
    Rankings,
    encode_run,
)
from fairtk_baselines.dlf.recipe import Aim
from fairtk_baselines.vectors import DOC_VEC, QUERY_VEC, stacked, unit_rows

NEEDED = [QID, DOCNO, SCORE, QUERY_VEC, DOC_VEC]


@dataclass(frozen=True)
class DocumentPairs:
    """The rows of a run, sorted by query and rank, with vectors of norm 1, or all 0."""

    rankings: Rankings
    score: FloatArray  # the retriever's, of each row
    query: FloatArray  # shape (n_queries, dimension)
    document: FloatArray  # of each row; shape (n_rows, dimension)

    @property
    def dimension(self) -> int:
        """Length of the vectors."""
        return int(self.document.shape[1])


def pairs_of(frame: pd.DataFrame, where: str, dimension: int | None = None) -> DocumentPairs:
    """Return the pairs of a frame R with ``query_vec`` and ``doc_vec``, at least one row.

    A query's vector is that of its first rank; all must have the `dimension`, or that of the first.
    """
    rankings = encode_run(frame, where)
    documents = frame[DOC_VEC].to_numpy(dtype=object)[rankings.order]
    first = rankings.ranking_start[:-1]
    queries = frame[QUERY_VEC].to_numpy(dtype=object)[rankings.order[first]]
    vectors = stacked(documents, rankings, DOC_VEC, where, dimension)
    size = vectors.shape[1]
    return DocumentPairs(
        rankings,
        frame[SCORE].to_numpy(dtype=np.float64)[rankings.order],
        unit_rows(stacked(queries, rankings, QUERY_VEC, where, size, first)),
        unit_rows(vectors),
    )


@dataclass(frozen=True)
class Batch:
    """Some queries of `Examples`, one per row, padded to the one with most documents.

    `mask` says which cells are documents; shapes (n_rows, width), or (n_rows, width, size).
    """

    query: Tensor
    document: Tensor
    mask: Tensor
    gains: Tensor
    relevance: Tensor
    membership: tuple[Tensor, ...]
    target: tuple[Tensor, ...]
    aimed: tuple[Tensor, ...]


@dataclass(frozen=True)
class Examples:
    """All training (or validation) queries."""

    pairs: DocumentPairs
    gains: FloatArray  # relevance label of each row, at least 0
    relevance: FloatArray  # scaled relevance score of each row, or 0
    membership: tuple[FloatArray, ...]  # for each aim, shape (n_rows, n_groups)
    target: tuple[FloatArray, ...]  # for each aim, shape (n_queries, n_groups)
    aimed: tuple[BoolArray, ...]  # for each aim, the queries with a target and a grouped document

    @property
    def size(self) -> IntArray:
        """Number of documents of each query; shape (n_queries,)."""
        return np.diff(self.pairs.rankings.ranking_start)

    def relevant(self) -> IntArray:
        """Return the queries that have a relevant document in the run, by qid."""
        of_relevant = self.pairs.rankings.query[self.gains > 0]
        return self._by_qid(np.bincount(of_relevant, minlength=len(self.size)) > 0)

    def fair(self) -> IntArray:
        """Return the queries with a target for some aim, by qid."""
        return self._by_qid(np.any(self.aimed, axis=0))

    def _by_qid(self, chosen: BoolArray) -> IntArray:
        # the order of rows in the frame must not decide which queries make a batch
        order = np.argsort(self.pairs.rankings.qids.astype(str), kind="stable")
        return order[chosen[order]].astype(np.int64)

    def batch(self, queries: IntArray) -> Batch:
        """Return some queries as one padded batch."""
        size = self.size[queries]
        width = int(size.max(initial=1))
        mask = np.arange(width) < size[:, None]
        row = self.pairs.rankings.ranking_start[queries][:, None] + np.arange(width)
        row[~mask] = 0

        def padded(values: FloatArray) -> Tensor:
            found = values[row]
            found[~mask] = 0.0
            return torch.from_numpy(found).to(torch.float32)

        def whole(values: FloatArray) -> Tensor:
            return torch.from_numpy(values[queries]).to(torch.float32)

        return Batch(
            whole(self.pairs.query),
            padded(self.pairs.document),
            torch.from_numpy(mask),
            padded(self.gains),
            padded(self.relevance),
            tuple(padded(m) for m in self.membership),
            tuple(whole(t) for t in self.target),
            tuple(torch.from_numpy(a[queries]) for a in self.aimed),
        )


def examples_of(
    run: pd.DataFrame, qrels: pd.DataFrame, aims: Sequence[Aim], where: str, dimension: int | None
) -> Examples:
    """Return the examples that a run makes with labels and targets; vectors have the `dimension`.

    Documents of the run without a label count as not relevant, as do labels of 0 and below;
    labels of documents that the run lacks are not used: there are no vectors for them.
    """
    if not len(run):
        raise InputError(f"{where}: the run has no rows; give the training queries' rankings")
    pairs = pairs_of(run, where, dimension)
    rankings = pairs.rankings
    membership, target, aimed = [], [], []
    for aim in aims:
        try:
            table = aim.memberships(rankings.docnos)[rankings.doc]
        except InputError as error:  # names the setting of `Groups.memberships`
            raise InputError(f"{where}: {error}") from None
        wanted = aim.shares(rankings.qids)
        shown = rankings.query[table.any(axis=1)]
        grouped = np.bincount(shown, minlength=len(rankings.qids)) > 0
        has = (wanted > 0).any(axis=1)
        _warn(rankings.qids[~has], f"{where}: no target over {aim.groups.name!r} for")
        _warn(
            rankings.qids[has & ~grouped],
            f"{where}: no document with a group of {aim.groups.name!r} in the ranking of",
        )
        membership.append(table)
        target.append(wanted)
        aimed.append(has & grouped)
    gains = np.maximum(np.nan_to_num(Qrels(qrels, where).labels_of(rankings)), 0.0)
    none = np.zeros(len(gains))
    return Examples(pairs, gains, none, tuple(membership), tuple(target), tuple(aimed))


def _warn(qids: ObjectArray, what: str) -> None:
    if len(qids):
        warnings.warn(
            f"{what} {len(qids)} queries, which the fairness model does not learn from: "
            f"{listed(qids.tolist())}",
            DataWarning,
            stacklevel=5,
        )
