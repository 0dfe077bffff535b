"""VectorSearch: retrieval of the documents with the nearest vectors.

pyterrier_dr's retrievers return candidates, which are then ordered exactly.
"""

from __future__ import annotations

import copy
import shutil
import tempfile
import warnings
import weakref
from collections.abc import Mapping
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pandas as pd
from pyterrier_dr import BiEncoder, FlexIndex

from fairtk import checks
from fairtk.errors import DataWarning, FormatError, ParameterError
from fairtk.frames import (
    DOCNO,
    QID,
    QUERY,
    RANK,
    SCORE,
    FloatArray,
    IntArray,
    digest,
    require_topics,
)
from fairtk.measures import RemarkKind
from fairtk.transformers import FairTransformer, remark
from fairtk.wording import format_list
from fairtk_baselines import encoders, vector_index
from fairtk_baselines.vector_index import Collection, Documents, Record
from fairtk_baselines.vectors import strictly_falling

SEARCHES = ("numpy", "torch", "faiss", "faiss-hnsw")
_EXACT = SEARCHES[:3]
_NO_VECTOR = "fairtk-baselines:no vector"
_MARGIN = 16  # additional documents, to break ties at the last rank


def check_search(name: str, where: str) -> str:
    """Return the name of a search method, or raise an error if it is unknown or not installed."""
    if (
        checks.choice("search", name, SEARCHES, where).startswith("faiss")
        and find_spec("faiss") is None
    ):
        raise ParameterError(
            f"{where}: search={name!r} requires the package faiss, which is not installed: pip "
            "install faiss-cpu, or use search='numpy' or 'torch'"
        )
    return name


def nearest_documents(
    index: FlexIndex, record: Record, queries: npt.NDArray[np.float32], wanted: int, search: str
) -> list[tuple[list[str], FloatArray]]:
    """Return docnos and similarities of the documents nearest to each query vector, which is not 0.

    pyterrier_dr finds candidates in single precision. Their dot products are then computed one by
    one in double precision, so that they do not depend on other queries or on the order of the
    index. Ties are broken by docno, descending. If a tie may extend beyond the candidates, more
    candidates are retrieved.
    """
    results: list[tuple[list[str], FloatArray]] = [([], np.zeros(0))] * len(queries)
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
                results[query] = (index.docnos()[nearby[:wanted]].tolist(), exact[:wanted])
            else:
                open_ends.append(query)
        todo = np.array(open_ends, dtype=np.int64)
        depth *= 4
    return results


def _settled(
    similarity: FloatArray,
    exact: FloatArray,
    query: npt.NDArray[np.float32],
    record: Record,
    wanted: int,
) -> bool:
    """Return whether no document outside the candidates can be in the result."""
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
        # torch warns because pyterrier_dr creates a tensor from a read-only file
        warnings.filterwarnings("ignore", "The given buffer is not writable", UserWarning)
        result = _retriever(index, depth, search)(frame)
    row = result["qid"].astype(np.int64).to_numpy()
    documents = result["docid"].to_numpy(dtype=np.int64)
    score = result["score"].to_numpy(dtype=np.float64)
    ends = np.searchsorted(row, np.arange(len(queries) + 1))  # rows are in the queries' order
    return [(documents[a:b], score[a:b]) for a, b in zip(ends[:-1], ends[1:], strict=True)]


def _retriever(index: FlexIndex, depth: int, search: str) -> Any:
    if search == "faiss":
        retriever = index.faiss_flat_retriever()
        retriever.num_results = depth  # the method has no argument for it
        return retriever
    ways = {"torch": index.torch_retriever, "faiss-hnsw": index.faiss_hnsw_retriever}
    return ways.get(search, index.np_retriever)(num_results=depth)


class VectorSearch(FairTransformer):
    """Q -> R: retrieval of the nearest documents of a collection, with any bi-encoder.

    Input: ``qid`` and ``query``, one row per query. Output: the topics' columns and ``docno``,
    ``score``, ``rank``, in the topics' order. A query without words or with a zero vector gets no
    documents, with a `DataWarning`.

    Args:
        encoder: ``"lsa"``, which is fitted on the documents and stored in the folder; or a folder
            or hub name of a sentence-transformers model, or a bi-encoder; see `encoders.get`.
        documents: mappings with ``docno`` and ``text``, or a function that returns them. With a
            function, memory does not grow with the texts. `None` to open the index in `folder`.
        folder: the folder of the index; created if absent. `None` for a temporary folder.
        num_results: the maximum number of documents per query.
        search: ``"numpy"`` (exact, from disk), ``"torch"`` (exact, in memory or on the GPU),
            ``"faiss"`` (exact) or ``"faiss-hnsw"`` (approximate); these need the package faiss.
        collection: the identity of the documents, such as a digest or an id with version; the index
            is rebuilt if it changes. `None` to compute a digest of the documents.
        seed: the seed of ``"lsa"``.
        verbose: whether to show progress on a terminal.

    Raises:
        InputError: a setting is invalid; on use, documents or topics are invalid.
        ModelError: the encoder cannot be loaded.
    """

    identity_name = "fairtk_baselines.VectorSearch"
    output_version = 1
    REMARKS: ClassVar[dict[str, RemarkKind]] = {
        _NO_VECTOR: RemarkKind(
            DataWarning, "{stage}: {queries} have no vector and get no documents"
        ),
    }
    SETTINGS = ("encoder", "collection", "num_results", "seed")
    LOADED: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "encoder": ("encoder",),
        "collection": ("collection", "documents", "folder"),
        "_place": ("folder",),
        "_opened": ("encoder", "documents", "folder", "collection", "seed"),
    }

    def __init__(
        self,
        encoder: str | PathLike[str] | BiEncoder = "lsa",
        documents: Documents | None = None,
        folder: str | PathLike[str] | None = None,
        num_results: int = 100,
        *,
        search: str = "numpy",
        collection: str | None = None,
        seed: int = 42,
        verbose: bool = True,
    ) -> None:
        super().__init__()
        self.encoder = encoder if encoder == "lsa" else encoders.get(encoder)
        self.num_results = checks.integer("num_results", num_results, "VectorSearch")
        # not self.search, which is PyTerrier's method for one query
        self._way = check_search(search, "VectorSearch")
        self.seed = checks.integer("seed", seed, "VectorSearch", least=0)
        self.verbose = verbose
        self._place = _Place(folder)
        if documents is None:
            self._source = None
            self.collection = collection or _only_collection(self._place.path)
        else:
            self._source = Collection(documents, "VectorSearch", collection)
            self.collection = self._source.name
        self._opened: tuple[BiEncoder, FlexIndex, vector_index.Record] | None = None

    def settings(self) -> dict[str, Any]:
        """Return the settings by name, with the encoder's identity."""
        identity = encoders.identity(self.encoder)
        return {**super().settings(), "encoder": identity, "search": self._way}

    def fuse_rank_cutoff(self, k: int) -> VectorSearch | None:
        """Return the search for `k` documents, for PyTerrier's ``search % k``."""
        if k >= self.num_results:
            return None
        fused = copy.copy(self)
        fused.num_results = k
        return fused

    def __deepcopy__(self, memo: dict[int, Any]) -> VectorSearch:
        return copy.copy(self)  # encoder, documents and index are only read

    def index(self) -> FlexIndex:
        """Return the index, building it if absent; ``.vec_loader()`` adds ``doc_vec``."""
        return self._open()[1]

    def prepare(self) -> None:
        """Open the index, and build it if absent, before the first search."""
        self._open()

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Return the documents nearest to each query of the topics (Q)."""
        self.check_inputs(inp, [QID, QUERY])
        topics = inp.drop(columns=[c for c in (DOCNO, SCORE, RANK) if c in inp.columns])
        results = self._search(require_topics(topics, "VectorSearch")) if len(topics) else []
        count = np.array([len(docnos) for docnos, _ in results], dtype=np.int64)
        row = np.repeat(np.arange(len(results)), count)
        out = topics.iloc[row].reset_index(drop=True)
        out[DOCNO] = pd.Series([d for docnos, _ in results for d in docnos], dtype=object)
        score = np.concatenate([np.zeros(0), *(scores for _, scores in results)])
        out[SCORE] = strictly_falling(score, row)
        out[RANK] = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
        return out

    def _search(self, queries: list[tuple[str, str]]) -> list[tuple[list[str], Any]]:
        encoder, index, record = self._open()
        texts = list(dict.fromkeys(text for _, text in queries if text.strip()))
        vectors = vector_index.encode(encoder, texts) if texts else np.zeros((0, 1), np.float32)
        has_vector = np.flatnonzero(vectors.any(axis=1))
        nearby = nearest_documents(index, record, vectors[has_vector], self.num_results, self._way)
        by_text = {texts[i]: result for i, result in zip(has_vector.tolist(), nearby, strict=True)}
        qids = [qid for qid, _ in queries]
        has_none = [text not in by_text for _, text in queries]
        remark(_NO_VECTOR, "VectorSearch", has_none, qids, stacklevel=5)
        return [by_text.get(text, ([], np.zeros(0))) for _, text in queries]

    def _open(self) -> tuple[BiEncoder, FlexIndex, vector_index.Record]:
        if self._opened is None:
            encoder = self._encoder()
            name = str(encoders.identity(encoder))
            index = vector_index.find(self._place.path, name, self.collection)
            if index is None:
                if self._source is None:
                    raise self._no_index(name)
                index = vector_index.build(
                    self._place.path, encoder, name, self._source, self.verbose
                )
            self._opened = (encoder, *index)
        return self._opened

    def _no_index(self, encoder: str) -> ParameterError:
        return ParameterError(
            f"VectorSearch: {self._place.path}: missing index of {self.collection!r} by {encoder}; "
            "documents are required to build it"
        )

    def _encoder(self) -> BiEncoder:
        if isinstance(self.encoder, BiEncoder):
            return self.encoder
        source = None if self._source is None else self._source.mappings
        folder = self._place.path / f"lsa-{digest([self.collection, self.seed])}"
        if source is None and not folder.is_dir():
            raise self._no_index(f"'lsa' with seed {self.seed}")
        return encoders.get(
            self.encoder, source, folder, seed=self.seed, collection=self.collection
        )


class _Place:
    """A folder; a temporary folder is deleted with the last object that uses it."""

    def __init__(self, folder: str | PathLike[str] | None) -> None:
        if folder is None:
            self.path = Path(tempfile.mkdtemp(prefix="fairtk-vectors-"))
            weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)
        else:
            self.path = Path(folder)
            if self.path.exists() and not self.path.is_dir():
                raise FormatError("expected a folder for a vector index, got a file", self.path)


def _only_collection(folder: Path) -> str:
    collections = vector_index.collections(folder) if folder.is_dir() else []
    if len(collections) == 1:
        return collections[0]
    problem = f"several: {format_list(collections)}; set collection=" if collections else "none"
    raise ParameterError(
        "VectorSearch: documents (mappings with 'docno' and 'text', or a function that returns "
        f"them) are required, or a folder with one index; got {problem} in {folder}"
    )
