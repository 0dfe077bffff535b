"""The nearest documents of vectors: found by pyterrier_dr's retrievers, ordered exactly."""

from __future__ import annotations

import warnings
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from pyterrier_dr import FlexIndex

from fairtk import checks
from fairtk.errors import ParameterError
from fairtk.frames import FloatArray, IntArray
from fairtk_baselines.vector_index import Record

SEARCHES = ("numpy", "torch", "faiss", "faiss-hnsw")
_EXACT = SEARCHES[:3]
_MARGIN = 16  # documents beyond those wanted, among which ties at the end are decided


def check_search(name: str, where: str) -> str:
    """Return the name of a way to search, if there is one of it, and it is installed."""
    if (
        checks.choice("search", name, SEARCHES, where).startswith("faiss")
        and find_spec("faiss") is None
    ):
        raise ParameterError(
            f"{where}: search={name!r} needs the package faiss, which is not installed: pip "
            "install faiss-cpu, or use search='numpy' or 'torch'"
        )
    return name


def nearest_documents(
    index: FlexIndex, record: Record, queries: npt.NDArray[np.float32], wanted: int, search: str
) -> list[tuple[list[str], FloatArray]]:
    """Return docnos and similarities of the documents that are nearest to each query, not 0 itself.

    pyterrier_dr finds candidates in single precision. Their dot products are then computed again
    in double precision, each by itself, so that neither the other queries nor a document's place in
    the index changes the last bits. Ties are ordered by docno, descending; where one may go on
    beyond the candidates, more are asked for.
    """
    found: list[tuple[list[str], FloatArray]] = [([], np.zeros(0))] * len(queries)
    todo = np.arange(len(queries))
    depth = wanted + _MARGIN
    while len(todo):
        depth = min(depth, record.documents)
        if depth == record.documents:  # (pyterrier_alpha 0.16 breaks results of one document)
            everyone = np.arange(depth)
            rows = [(everyone, np.zeros(0))] * len(todo)
        else:
            rows = _candidates(index, queries[todo], depth, search)
        everything = depth == record.documents or search not in _EXACT
        open_ends = []
        for query, (documents, similarity) in zip(todo.tolist(), rows, strict=True):
            nearby, exact = _in_order(index, documents, queries[query])
            if everything or _settled(similarity, exact, queries[query], record, wanted):
                found[query] = (index.docnos()[nearby[:wanted]].tolist(), exact[:wanted])
            else:
                open_ends.append(query)
        todo = np.array(open_ends, dtype=np.int64)
        depth *= 4
    return found


def _settled(
    similarity: FloatArray,
    exact: FloatArray,
    query: npt.NDArray[np.float32],
    record: Record,
    wanted: int,
) -> bool:
    """Return whether no document outside the candidates can be among the wanted ones."""
    length = float(np.linalg.norm(query.astype(np.float64)))
    # bound of the rounding error of a single-precision dot product
    error = len(query) * float(np.finfo(np.float32).eps) * length * record.longest
    return bool(similarity.min() + 2 * error < exact[wanted - 1])


def _in_order(
    index: FlexIndex, documents: IntArray, query: npt.NDArray[np.float32]
) -> tuple[IntArray, FloatArray]:
    vectors = np.asarray(index.np_vecs()[documents], dtype=np.float64)
    exact = (vectors * query.astype(np.float64)).sum(axis=1)
    order = np.argsort(-exact, kind="stable")
    if (exact[order][1:] == exact[order][:-1]).any():
        docnos = index.docnos()[documents].astype(str)
        by_name = np.argsort(docnos, kind="stable")[::-1]
        order = by_name[np.argsort(-exact[by_name], kind="stable")]
    return documents[order], exact[order]


def _candidates(
    index: FlexIndex, queries: npt.NDArray[np.float32], depth: int, search: str
) -> list[tuple[IntArray, FloatArray]]:
    frame = pd.DataFrame({"qid": [str(i) for i in range(len(queries))], "query_vec": list(queries)})
    with warnings.catch_warnings():
        # pyterrier_dr makes a tensor of a read-only file, which torch warns of
        warnings.filterwarnings("ignore", "The given buffer is not writable", UserWarning)
        found = _retriever(index, depth, search)(frame)
    row = found["qid"].astype(np.int64).to_numpy()
    documents = found["docid"].to_numpy(dtype=np.int64)
    score = found["score"].to_numpy(dtype=np.float64)
    ends = np.searchsorted(row, np.arange(len(queries) + 1))  # rows are in the queries' order
    return [(documents[a:b], score[a:b]) for a, b in zip(ends[:-1], ends[1:], strict=True)]


def _retriever(index: FlexIndex, depth: int, search: str) -> Any:
    if search == "faiss":
        retriever = index.faiss_flat_retriever()
        retriever.num_results = depth  # the method has no argument for it
        return retriever
    ways = {"torch": index.torch_retriever, "faiss-hnsw": index.faiss_hnsw_retriever}
    return ways.get(search, index.np_retriever)(num_results=depth)
