"""BM25 over a whole collection, by PISA, and what a retriever looks up of a query."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import secrets
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, TextIO

import numpy as np
import pandas as pd
import pyterrier as pt

from fairtk import checks
from fairtk.errors import FairtkError, InputError
from fairtk.frames import DOCNO, QID, QUERY, RANK, SCORE, BoolArray, IntArray, order_by, words
from fairtk.io import locked
from fairtk.transformers.base import FairTransformer

Tokens = Callable[[str], list[str]]
_WORD = re.compile(r"\w+")


def index_tokens(retriever: Any) -> Tokens | None:
    """Return what gives the tokens that a retriever looks up of a text; None: it is not known.

    Known are PISA's and Terrier's (its stop words; words are not stemmed here), alone or first in a
    pipeline, and those of a retriever with a method ``tokens(text)``, as
    `fairtk.transformers.CollectionBM25` has.
    """
    if isinstance(retriever, pt.Compose):
        retriever = next(iter(retriever), None)
    own = getattr(retriever, "tokens", None)
    if callable(own):
        tokens: Tokens = own
        return tokens
    if type(retriever).__module__.partition(".")[0] == "pyterrier_pisa":
        return _pisa(retriever)
    properties = getattr(retriever, "properties", None)
    if isinstance(properties, Mapping) and "termpipelines" in properties:
        return _terrier(str(properties["termpipelines"]))
    return None


def _pisa(retriever: Any) -> Tokens | None:
    from pyterrier_pisa import PisaStopwords, tokenize

    index = getattr(retriever, "index", None)
    stemmer, stops = getattr(index, "stemmer", None), getattr(retriever, "stops", None)
    if stemmer is None:
        return None
    lists = {PisaStopwords.none: (), PisaStopwords.terrier: _stops("terrier")}
    words = lists.get(stops, _stops("lucene")) if isinstance(stops, PisaStopwords) else stops or ()
    # PISA drops what has the stem of a stop word: "hers" and "going", too
    dropped = frozenset(token for word in words for token in tokenize(word, stemmer))
    return lambda text: [t for t in tokenize(text.lower(), stemmer) if t not in dropped]


def _terrier(pipeline: str) -> Tokens | None:
    try:
        dropped = frozenset(_stops("terrier") if "Stopwords" in pipeline else ())
    except ImportError:  # the list is in pyterrier-pisa
        return None
    return lambda text: [t for t in _WORD.findall(text.lower()) if t not in dropped]


@lru_cache(maxsize=2)
def _stops(name: str) -> tuple[str, ...]:
    from pyterrier_pisa.stopwords import _STOPWORDS

    return tuple(_STOPWORDS[name])


def dropped_words(text: str, tokens: Tokens) -> list[str]:
    """Return the words of a text of which a retriever looks up nothing, in order, each once."""
    parts = [part for word in words(text.lower()) for part in word.split("-")]
    return [part for part in dict.fromkeys(parts) if part and not tokens(part)]


_BATCH = 10_000  # documents
_LINE = 100_000  # documents between two lines of progress where there is no terminal
_NOT_WORDS = re.compile(r"[^\w\s]+")
_PLACE = "place of the query"


class CollectionBM25(FairTransformer):
    """Q -> R: BM25 over all documents, by PISA.

    Equal scores are ordered by docno, descending, as trec_eval orders them: which of the documents
    with equal scores PISA keeps and shows first depends on the depth. The query is a bag of words:
    punctuation is no operator.

    Args:
        folder: where the index is, or will be; a complete one is used as it is.
        documents: gives all documents (mappings with ``docno`` and ``text``) for the first use.
        num_results: documents per query.
        k1: saturation of term frequencies, 0 or above.
        b: how much long documents are held back, 0 to 1.
        threads: of indexing and search; they change no result.

    Raises:
        ParameterError: a setting is out of its range.
        FairtkError: later, on use: pyterrier-pisa is not installed.
    """

    SETTINGS: ClassVar[tuple[str, ...]] = ("folder", "num_results", "k1", "b")

    def __init__(
        self,
        folder: str | os.PathLike[str],
        documents: Callable[[], Iterable[Mapping[str, str]]],
        num_results: int = 1000,
        k1: float = 0.9,
        b: float = 0.4,
        threads: int = 1,
    ) -> None:
        super().__init__()
        self.folder = str(folder)
        self.documents = documents
        self.num_results = checks.whole("num_results", num_results, "CollectionBM25")
        self.threads = checks.whole("threads", threads, "CollectionBM25")
        self.k1 = checks.number("k1", k1, "CollectionBM25")
        self.b = checks.share("b", b, "CollectionBM25")
        self._search: Any = None
        self._tokens: Tokens | None = None

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Return one ranking per query.

        Args:
            inp: queries (Q).

        Raises:
            ColumnError: a column is missing.
        """
        self.check_inputs(inp, [QID, QUERY])
        topics = inp.drop(columns=[c for c in (DOCNO, SCORE, RANK) if c in inp.columns])
        topics = topics.assign(**{QID: inp[QID].astype(str)})
        words = [_bag(str(text)) for text in inp[QUERY]]
        asked = pd.DataFrame({QID: topics[QID], QUERY: words, _PLACE: range(len(inp))})
        asked = asked[asked[QUERY] != ""]  # which would find nothing
        if asked.empty:
            results = pd.DataFrame({_PLACE: [], DOCNO: [], SCORE: []}).astype({_PLACE: int})
        else:
            results = self._opened().transform(asked)
        place = results[_PLACE].to_numpy()
        score, docno = (
            results[SCORE].to_numpy(dtype=np.float64),
            results[DOCNO].to_numpy(dtype=object),
        )
        order = order_by((-score, place), lambda rows: (rows, docno))
        place = place[order]
        out = topics.iloc[place].reset_index(drop=True)
        out[DOCNO] = docno[order]
        out[SCORE] = score[order]
        out[RANK] = np.arange(len(place)) - np.searchsorted(place, place)
        return out

    def tokens(self, text: str) -> list[str]:
        """Return what is looked up of a text: stems, without stop words."""
        if self._tokens is None:
            self._tokens = index_tokens(self._opened()) or str.split
        return self._tokens(_bag(text))

    def prepare(self) -> None:
        """Open the index, and build it before if it is not there; else the first search does.

        Raises:
            FairtkError: pyterrier-pisa is not installed.
            InputError: there are no documents.
        """
        self._opened()

    def _opened(self) -> Any:
        if self._search is None:
            try:
                from pyterrier_pisa import PisaIndex
            except ImportError:
                raise FairtkError(
                    "BM25 over a collection needs the package 'pyterrier-pisa', which is not "
                    "installed: pip install pyterrier-pisa (Linux on x86-64); elsewhere use any "
                    "other PyTerrier retriever: fairtk.studies.fair_qr.Study(..., retriever=...)"
                ) from None
            # weights for each k1 and b, which PISA would add to one folder in place
            folder = Path(self.folder) / f"k1-{self.k1}-b-{self.b}"
            if not folder.exists():
                folder.parent.mkdir(parents=True, exist_ok=True)
                with locked(folder.parent):  # another process may be building it
                    if not folder.exists():
                        self._build(PisaIndex, folder)
            self._search = self._opened_in(PisaIndex, folder)
        return self._search

    def _opened_in(self, kind: Any, folder: Path) -> Any:
        index = kind(str(folder), text_field="text", threads=self.threads)
        return index.bm25(k1=self.k1, b=self.b, num_results=self.num_results)

    def _build(self, kind: Any, folder: Path) -> None:
        """Make the index beside the folder, which gets its name when it is complete.

        Of one for another k1 and b, all but the weights is shared: no document is read again.
        """
        for left in folder.parent.glob(f".*.part.{folder.name}"):  # of a process that was killed
            shutil.rmtree(left, ignore_errors=True)
        part = folder.with_name(f".{secrets.token_hex(6)}.part.{folder.name}")
        try:
            with _silence() as terminal:
                if there := next(folder.parent.glob("k1-*-b-*"), None):
                    weights = shutil.ignore_patterns("bm25.*")
                    shutil.copytree(there, part, copy_function=_linked, ignore=weights)
                else:
                    self._index(kind, part, terminal)
                # the first search computes the weights
                self._opened_in(kind, part).transform(
                    pd.DataFrame([["1", "a"]], columns=[QID, QUERY])
                )
            part.rename(folder)
        finally:
            shutil.rmtree(part, ignore_errors=True)

    def _index(self, kind: Any, part: Path, terminal: TextIO) -> None:
        failed: list[Exception] = []
        # small batches: documents that wait for PISA's threads are held in memory
        index = kind(str(part), text_field="text", threads=self.threads, batch_size=_BATCH)
        rows = self._rows(terminal, failed)
        first = next(rows, None)
        if first is not None:
            index.index(itertools.chain([first], rows))
        if failed:
            raise failed[0]
        if first is None:
            raise InputError("the collection has no documents to index")

    def _rows(self, terminal: TextIO, failed: list[Exception]) -> Iterator[dict[str, str]]:
        """Yield the documents.

        PISA reads them in a thread of its own, where an exception would end the index early, as if
        it were complete: it is put into `failed` instead.
        """
        from tqdm import tqdm

        seen = SeenNames()
        bar: Any = {"desc": "indexing", "unit": " docs", "file": terminal}
        bar["disable"] = not terminal.isatty()
        read = 0
        try:
            documents = iter(tqdm(self.documents(), **bar))
            while batch := list(itertools.islice(documents, _BATCH)):
                docnos = [str(document[DOCNO]) for document in batch]
                # an id can occur more than once: the first record counts
                new = seen.add(docnos)
                for docno, document, first in zip(docnos, batch, new, strict=True):
                    if first:
                        yield {DOCNO: docno, "text": document["text"]}
                read += len(batch)
                if read % _LINE == 0 and bar["disable"]:
                    terminal.write(f"indexing: {read:,} documents read\n")
            if read >= _LINE:
                terminal.write(f"indexing: {read:,} documents read; the index is written\n")
        except Exception as error:
            failed.append(error)


def _linked(source: str, target: str) -> None:
    """Give a file a second name, or copy it where the disk has no such thing."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _bag(text: str) -> str:
    return _NOT_WORDS.sub(" ", text.lower()).strip()


class SeenNames:
    """Names that occurred, in 8 bytes each: 64-bit hashes in sorted arrays that double in size.

    Two of n names are taken for one with a chance of n^2 / 2^65: a millionth for 6.5 million.
    """

    def __init__(self) -> None:
        self._parts: list[IntArray] = []

    def add(self, names: Sequence[str]) -> BoolArray:
        """Return whether each name occurs for the first time; now it has occurred."""
        hashes = np.fromiter(map(hash, names), dtype=np.int64, count=len(names))
        distinct, first = np.unique(hashes, return_index=True)
        fresh = np.ones(len(distinct), dtype=bool)
        for part in self._parts:
            places = np.minimum(np.searchsorted(part, distinct), len(part) - 1)
            fresh &= part[places] != distinct
        new = np.zeros(len(names), dtype=bool)
        new[first[fresh]] = True
        if fresh.any():
            self._parts.append(distinct[fresh])
        while len(self._parts) > 1 and len(self._parts[-2]) <= len(self._parts[-1]):
            last = np.concatenate([self._parts.pop(), self._parts.pop()])
            self._parts.append(np.sort(last))
        return new


@contextlib.contextmanager
def _silence() -> Iterator[TextIO]:
    """Keep PISA's log, which C++ writes to the process's own output, off the screen.

    Yields:
        What stderr was before.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    before = [os.dup(number) for number in (1, 2)]
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        for number in (1, 2):
            os.dup2(nowhere, number)
        with open(before[1], "w", encoding="utf-8", closefd=False) as terminal:
            yield terminal
    finally:
        for number, old in enumerate(before, 1):
            os.dup2(old, number)
            os.close(old)
        os.close(nowhere)
