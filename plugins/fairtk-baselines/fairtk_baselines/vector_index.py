"""The documents of a collection, and vector indexes of them in a folder.

An index is built atomically, and identified by encoder and collection.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd
from filelock import FileLock
from pyterrier_dr import BiEncoder, FlexIndex, SimFn

from fairtk.errors import DuplicateError, FormatError, InputError
from fairtk.frames import DOCNO, TEXT, IntArray, digest
from fairtk_baselines.vectors import unit_rows

Documents: TypeAlias = Iterable[Mapping[str, Any]] | Callable[[], Iterable[Mapping[str, Any]]]


class Collection:
    """The documents of a collection, which each iteration reads again.

    Args:
        documents: mappings with ``docno`` and ``text``, a frame with these columns, or a function
            that returns such mappings. Those of a generator are kept in memory.
        where: the caller, for messages.
        name: the identity of the content; `None` for a digest.
    """

    def __init__(self, documents: Documents, where: str, name: str | None = None) -> None:
        if isinstance(documents, pd.DataFrame):
            documents = documents.to_dict(orient="records")
        elif isinstance(documents, Iterator):
            documents = list(documents)
        elif not callable(documents) and not isinstance(documents, Iterable):
            raise InputError(
                f"{where}: documents must be mappings with {DOCNO!r} and {TEXT!r}, or a function "
                f"that gives them, got {type(documents).__name__}"
            )
        self._documents = documents
        self._where = where
        self._name = name

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Yield docno and text of each document, or raise an `InputError`."""
        documents = self._documents() if callable(self._documents) else self._documents
        for number, document in enumerate(documents):
            if not isinstance(document, Mapping) or not isinstance(document.get(DOCNO), str):
                raise InputError(
                    f"{self._where}: every document must be a mapping with a string {DOCNO!r}, "
                    f"got {repr(document)[:80]} at position {number}"
                )
            docno, text = document[DOCNO], document.get(TEXT)
            if not isinstance(text, str):
                raise InputError(
                    f"{self._where}: the {TEXT!r} of docno {docno!r} must be a string, got "
                    f"{text!r}: leave such documents out, or use an empty text"
                )
            yield docno, text

    def mappings(self) -> Iterator[Mapping[str, str]]:
        """Yield the documents as mappings."""
        for docno, text in self:
            yield {DOCNO: docno, TEXT: text}

    @property
    def name(self) -> str:
        """The given name, or a digest of docnos and texts in their order."""
        if self._name is None:
            state = hashlib.blake2b(digest_size=8)
            for docno, text in self:
                for part in (docno.encode(), text.encode("utf-8", "surrogatepass")):
                    state.update(len(part).to_bytes(8, "little") + part)
            self._name = state.hexdigest()
        return self._name


_BYTES = "docnos.utf8"
_ENDS = "docnos.ends.npy"
_RECORD = "fairtk.json"
_VERSION = 1
_PREFIX = "index-"
_PART = ".part-"
_BATCH = 1024  # documents per call of the encoder, which makes its own batches


@dataclass(frozen=True)
class Record:
    """The description of an index."""

    encoder: str
    collection: str
    documents: int  # the number of documents with a vector
    without_vector: int  # the number of documents with a zero vector, which are not in the index
    longest: float  # the length of the longest vector
    version: int = _VERSION  # the version of the folder's format


def collections(folder: Path) -> list[str]:
    """Return the names of the collections with an index in the folder."""
    return sorted({_read(path).collection for path in folder.glob(f"{_PREFIX}*") if path.is_dir()})


def find(folder: Path, encoder: str, collection: str) -> tuple[FlexIndex, Record] | None:
    """Return the index of a collection's vectors by an encoder, `None` if absent."""
    path = _path(folder, encoder, collection)
    if not path.is_dir():
        return None
    record = _read(path)
    index = NamedIndex(str(path), verbose=False)
    try:
        meta = json.loads((path / "pt_meta.json").read_text(encoding="utf-8"))
        numbers = (path / "vecs.f4").stat().st_size / 4
        counts = {meta["doc_count"], numbers / meta["vec_size"], len(index.docnos())}
    except (OSError, ValueError, KeyError, TypeError, ZeroDivisionError):
        counts = set()
    if counts != {record.documents}:
        raise FormatError(
            f"expected a vector index of {record.documents} documents, got a damaged index: remove "
            "the folder to build it again",
            path,
        )
    return index, record


def build(
    folder: Path, encoder: BiEncoder, name: str, source: Collection, verbose: bool
) -> tuple[FlexIndex, Record]:
    """Return the index of a collection's vectors by an encoder, building it if absent.

    It is built under a temporary name and renamed. A lock makes other processes wait for it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / ".lock"):
        index = find(folder, name, source.name)
        if index is not None:
            return index
        for left in folder.glob(f"{_PART}*"):  # of a killed process, as this one has the lock
            shutil.rmtree(left, ignore_errors=True)
        part = Path(tempfile.mkdtemp(prefix=_PART, dir=folder))
        try:
            record = _write(part / "index", encoder, name, source, verbose)
            path = (part / "index").rename(_path(folder, name, source.name))
        finally:
            shutil.rmtree(part, ignore_errors=True)
        return NamedIndex(str(path), verbose=False), record


def encode(
    encoder: BiEncoder, texts: list[str], docnos: list[str] | None = None
) -> npt.NDArray[np.float32]:
    """Return the vectors of documents or queries, of length 1 for cosine similarity."""
    function: Any = encoder.encode_queries if docnos is None else encoder.encode_docs
    vectors = np.asarray(function(texts), dtype=np.float32)
    if vectors.ndim != 2 or len(vectors) != len(texts):
        raise InputError(
            f"VectorSearch: the encoder must return one vector for each of {len(texts)} texts, got "
            f"an array of shape {vectors.shape}"
        )
    bad = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(bad):
        name, kind = f"the query {texts[bad[0]]!r}", "query"
        if docnos is not None:
            name, kind = f"docno {docnos[bad[0]]!r}", "document"
        raise InputError(
            f"VectorSearch: the vector of {name} must be finite: fix the encoder, or leave the "
            f"{kind} out"
        )
    return unit_rows(vectors).astype(np.float32) if encoder.sim_fn == SimFn.cos else vectors


def _path(folder: Path, encoder: str, collection: str) -> Path:
    return folder / f"{_PREFIX}{digest([_VERSION, encoder, collection])}"


def _read(path: Path) -> Record:
    with contextlib.suppress(OSError, ValueError, TypeError):
        record = Record(**json.loads((path / _RECORD).read_text(encoding="utf-8")))
        if record.version == _VERSION:
            return record
    raise FormatError(
        f"expected a vector index with a readable {_RECORD} of version {_VERSION}: remove the "
        "folder to build it again",
        path,
    )


def _write(path: Path, encoder: BiEncoder, name: str, source: Collection, verbose: bool) -> Record:
    path.mkdir()
    docnos: list[str] = []
    seen: set[str] = set()
    longest, size = 0.0, 0
    with (path / "vecs.f4").open("wb") as stream:
        for batch in _batches(source, verbose):
            names, texts = map(list, zip(*batch, strict=True))
            vectors = encode(encoder, texts, names)
            if size and vectors.shape[1] != size:
                raise InputError(
                    f"VectorSearch: expected vectors of {size} dimensions, got "
                    f"{vectors.shape[1]} for docno {names[0]!r}: fix the encoder"
                )
            size = vectors.shape[1]
            lengths = np.sqrt((vectors.astype(np.float64) ** 2).sum(axis=1))
            nonzero = lengths > 0
            stream.write(np.ascontiguousarray(vectors[nonzero], dtype="<f4").tobytes())
            longest = max(longest, float(lengths.max()))
            for docno, kept in zip(names, nonzero.tolist(), strict=True):
                if docno in seen:
                    raise DuplicateError(
                        f"VectorSearch: duplicate docno {docno!r} in the collection"
                    )
                seen.add(docno)
                if kept:
                    docnos.append(docno)
    if not docnos:
        raise InputError(
            f"VectorSearch: none of the {len(seen)} documents has a vector: check that they have "
            "texts"
        )
    NamedIndex.describe(path, docnos, size)
    record = Record(name, source.name, len(docnos), len(seen) - len(docnos), longest)
    (path / _RECORD).write_text(json.dumps(asdict(record), indent=1), encoding="utf-8")
    return record


def _batches(source: Collection, verbose: bool) -> Iterator[list[tuple[str, str]]]:
    from tqdm import tqdm

    documents = tqdm(
        source,
        desc="VectorSearch: encoding",
        unit=" documents",
        disable=None if verbose else True,  # None: only on a terminal
        delay=2,
        leave=False,
    )
    left = iter(documents)
    while batch := list(itertools.islice(left, _BATCH)):
        yield batch


class Docnos:
    """Docnos by position, with the interface that `pyterrier_dr.FlexIndex` expects.

    Its own package, npids 0.1.3, fails on an index of a single document, and if docnos begin with
    the same part of a UTF-8 character. Here any string is a docno.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ends = np.load(folder / _ENDS, mmap_mode="r", allow_pickle=False)
        raw = np.memmap(folder / _BYTES, dtype=np.uint8, mode="r")
        if len(self._ends) and int(self._ends[-1]) != len(raw):
            raise ValueError(f"{_BYTES} has {len(raw)} bytes, not {int(self._ends[-1])}")
        self._bytes = raw.data

    @staticmethod
    def write(folder: Path, docnos: Iterable[str]) -> None:
        """Write docnos to a folder."""
        ends, end = [], 0
        with (folder / _BYTES).open("wb") as stream:
            for docno in docnos:
                end += stream.write(docno.encode("utf-8", "surrogatepass"))
                ends.append(end)
        np.save(folder / _ENDS, np.array(ends, dtype=np.int64), allow_pickle=False)

    def __reduce__(self) -> tuple[type[Docnos], tuple[Path]]:
        return Docnos, (self._folder,)  # another process opens the files itself

    def __len__(self) -> int:
        return len(self._ends)

    def __bool__(self) -> bool:
        return True  # also without documents

    def __iter__(self) -> Iterator[str]:
        return (self._one(i) for i in range(len(self)))

    def __getitem__(self, positions: Any) -> Any:
        """Return the docno at a position, or an array of docnos for several positions."""
        if np.ndim(positions) == 0:
            return self._one(int(positions))
        places = np.asarray(positions)
        ends = self._ends[places]
        starts = np.where(places > 0, self._ends[places - 1], 0)
        docnos = np.empty(len(places), dtype=object)
        docnos[:] = [self._text(a, b) for a, b in zip(starts.tolist(), ends.tolist(), strict=True)]
        return docnos

    @property
    def fwd(self) -> Docnos:
        """The docnos by position, which is this object."""
        return self

    @cached_property
    def inv(self) -> _Positions:
        """The positions by docno, built in memory on first use."""
        return _Positions({docno: i for i, docno in enumerate(self)})

    def _one(self, position: int) -> str:
        start = int(self._ends[position - 1]) if position else 0
        return self._text(start, int(self._ends[position]))

    def _text(self, start: int, end: int) -> str:
        return str(self._bytes[start:end], "utf-8", "surrogatepass")


class _Positions:
    def __init__(self, position: dict[str, int]) -> None:
        self._position = position

    def __getitem__(self, docnos: Any) -> IntArray:
        return np.array([self._position[d] for d in docnos], dtype=np.int64)


class NamedIndex(FlexIndex):  # type: ignore[misc]
    """A `pyterrier_dr.FlexIndex` with `Docnos`."""

    @classmethod
    def describe(cls, folder: Path, docnos: list[str], size: int) -> None:
        """Write the files other than ``vecs.f4``, for vectors of this size with these docnos."""
        Docnos.write(folder, docnos)
        about = {
            "type": cls.ARTIFACT_TYPE,
            "format": cls.ARTIFACT_FORMAT,
            "vec_size": size,
            "doc_count": len(docnos),
        }
        (folder / "pt_meta.json").write_text(json.dumps(about), encoding="utf-8")

    def payload(self, return_dvecs: bool = True, return_docnos: bool = True) -> list[Any]:
        """Return docnos, vectors and metadata; docnos and vectors are optional."""
        content: list[Any] = super().payload(return_dvecs=return_dvecs, return_docnos=False)
        return [self._named, *content] if return_docnos else content

    @cached_property
    def _named(self) -> Docnos:
        return Docnos(Path(self.index_path))
