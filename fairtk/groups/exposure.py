"""The exposure of groups, and its expected-exposure loss.

A document passes the attention of its rank on to its groups. The sum over a ranking is the exposure
of the groups: one row, of a query or a sampled ranking, with a column per level. AWRF and the group
forms of expected exposure compare it with a target.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fairtk.frames import FloatArray, IntArray, Run
from fairtk.groups.rows import Distributions, SparseRows

_FEW_LEVELS = 1 << 12


def attention_matrix(
    row: IntArray, doc: IntArray, weight: FloatArray, shape: tuple[int, int]
) -> Any:
    """Return the attention of documents as a ``scipy.sparse.csr_array``.

    Entries keep their order within a row, so sums over a ranking are rounded from the top.

    Args:
        row: the query or ranking of each entry.
        doc: its document, an index into the rows of memberships.
        weight: its attention.
        shape: the numbers of rows and of documents.
    """
    from scipy import sparse

    if not (row[1:] >= row[:-1]).all():
        order = np.argsort(row, kind="stable")
        row, doc, weight = row[order], doc[order], weight[order]
    start = np.searchsorted(row, np.arange(shape[0] + 1))
    return sparse.csr_array((weight, doc, start), shape=shape)


def document_attention(rankings: Run, weight: FloatArray, *, amortize: bool = True) -> Any:
    """Return the attention of documents, one row per query or per ranking.

    Args:
        rankings: the run.
        weight: the attention on each sorted row of the run; shape (n_rows,).
        amortize: whether to average attention over the samples of a query, with one row per query;
            otherwise there is one row per ranking.

    Returns:
        A ``scipy.sparse.csr_array``; shape (n_queries or n_rankings, n_documents).
    """
    seen = np.flatnonzero(weight)
    doc, weight, n_docs = rankings.doc[seen], weight[seen], len(rankings.docnos)
    if not amortize:
        return attention_matrix(rankings.ranking[seen], doc, weight, (rankings.n_rankings, n_docs))
    query, shape = rankings.query[seen], (len(rankings.qids), n_docs)
    if not rankings.sampled:
        return attention_matrix(query, doc, weight, shape)
    return SparseRows.collect(query, doc, weight / rankings.n_samples[query], *shape).matrix


def group_exposure(attention: Any, memberships: SparseRows) -> SparseRows:
    """Return the exposure of each group in each row: attention @ memberships.

    Args:
        attention: see `document_attention`; shape (n_rows, n_documents).
        memberships: the groups of each document.

    Returns:
        The exposure before normalization (epsilon of TREC Fair Ranking 2022); shape (n_rows,
        n_levels). Documents without groups add nothing.
    """
    from scipy import sparse

    groups = memberships.matrix
    levels = None
    if memberships.n_levels > max(groups.nnz, _FEW_LEVELS):  # a product needs memory per level
        levels, column = np.unique(groups.indices, return_inverse=True)
        shape = (memberships.n_rows, len(levels))
        groups = sparse.csr_array((groups.data, column, groups.indptr), shape=shape)
    product = (attention @ groups).tocsc().tocsr()  # converting twice sorts the levels
    product.eliminate_zeros()
    if levels is not None:
        shape = (product.shape[0], memberships.n_levels)
        entries = (product.data, levels[product.indices], product.indptr)
        product = sparse.csr_array(entries, shape=shape)
    return SparseRows(product)


def loss_parts(
    system: SparseRows, target: Distributions, scale: float = 1.0
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return disparity, relevance and loss of group exposures, each of shape (n_rows,).

    EE-D = |s|^2, EE-R = <s, t>, EE-L = |s - t|^2 = EE-D - 2 EE-R + |t|^2, with t the target times
    `scale` (Diaz et al. 2020; TREC Fair Ranking 2022, Task 2, whose guidelines misprint a square).
    """
    disparity = system.square()
    towards = target.lookup(system.row, system.level)
    relevance = scale * system.per_row(system.weight * towards)
    loss = disparity - 2 * relevance + scale**2 * target.square()
    return disparity, relevance, np.maximum(loss, 0.0)
