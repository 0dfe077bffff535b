"""TREC Fair Ranking 2022 from the official URLs or a local folder: files, corpus and article store.

The corpus is a gzipped stream of 20 GB. For access to single articles, an SQLite file with each
article compressed is built on first use.
"""

# No `from __future__ import annotations`: PyTerrier's text_loader loads the fields whose annotation
# is the class `str`, not the string "str".

import json
import os
import sqlite3
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any, Literal, NamedTuple

import ir_datasets
from ir_datasets.formats import TrecQrel
from ir_datasets.indices import Docstore

from fairtk.datasets.fetching import CACHE_HOME, Table, cache_path, fetch, is_writable
from fairtk.datasets.registration import (
    DocsIter,
    Documentation,
    FileDocs,
    FileQrels,
    FileQueries,
    ReadOnce,
    make_dataset,
)
from fairtk.datasets.trec_fair.topics import Topic, read_keywords, read_topics
from fairtk.errors import FormatError, InputError, NotFoundError, warn
from fairtk.io import atomic_write, resolve_dataset
from fairtk.io.lines import JSON_ENTRY, decode_line, objects_of, open_bytes, parse_json, source
from fairtk.wording import format_list

Part = Literal["corpus", "metadata", "assessed", "train", "eval"]

OFFICIAL = "trec-fair/2022"
"""The subfolder of ir_datasets' data folder, shared with ir_datasets' own dataset."""

NAMES: dict[Part, str] = {
    "corpus": "trec_corpus_20220301_plain.json.gz",
    "metadata": "trec_2022_articles_discrete.json.gz",
    "assessed": "trec_2022_articles_discrete_assessed.json.gz",
    "train": "train_topics_meta.jsonl",
    "eval": "trec_2022_eval_reldocs.jsonl.gz",
}
"""The official name of each file."""

HOLDS: dict[Part, str] = {
    "corpus": "the articles' texts",
    "metadata": "the articles' groups and quality",
    "assessed": "the articles' groups and assessed quality",
    "train": "the training topics with keywords and relevant pages",
    "eval": "the evaluation topics with relevant pages",
}
"""The content of each file."""


class TrecFairDoc(NamedTuple):
    """A Wikipedia article of the plain-text corpus; `doc_id` is its page id."""

    doc_id: str
    title: str
    text: str
    url: str

    def default_text(self) -> str:
        """Return the text to retrieve on: title and text."""
        return f"{self.title} {self.text}"


class TrecFairQuery(NamedTuple):
    """A topic with three queries for retrieval: `query`, `title` and `title_keywords`.

    Attributes:
        query_id: the topic's number.
        query: the keywords, joined by spaces; the title if the topic has no keywords.
        title: the name of the WikiProject.
        title_keywords: both, joined by spaces.
        keywords: the keywords; empty if the file has none.
    """

    query_id: str
    query: str
    title: str
    title_keywords: str
    keywords: tuple[str, ...]

    def default_text(self) -> str:
        """Return the query."""
        return self.query


class FolderFiles:
    """Files in a local folder, gzipped or not."""

    count_hint: int | None = None
    """The number of documents; `None` if unknown."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder).expanduser().resolve()
        if not self.folder.is_dir():
            raise FormatError("no such folder", self.folder)

    def has(self, part: Part) -> bool:
        """Return whether the folder has a file."""
        return self._find(part) is not None

    def path(self, part: Part) -> Path:
        """Return the path of a file; raise a `FormatError` if it is missing."""
        file = self._find(part)
        if file is None:
            names = sorted(p.name for p in self.folder.iterdir() if not p.name.startswith("."))[:8]
            raise FormatError(
                f"missing {NAMES[part]} ({HOLDS[part]}); the folder has "
                f"{format_list(names, 8) or 'no files'}",
                self.folder,
            )
        return file

    def _find(self, part: Part) -> Path | None:
        plain = NAMES[part].removesuffix(".gz")
        for name in dict.fromkeys((NAMES[part], plain, f"{plain}.gz")):
            if (self.folder / name).is_file():
                return self.folder / name
        return None


class MetadataFile:
    """A metadata file, without the other files."""

    count_hint: int | None = None

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path).expanduser().resolve()

    def path(self, part: Part) -> Path:
        """Return the path of the file; raise a `FormatError` for other files."""
        if part not in ("metadata", "assessed"):
            raise FormatError(
                f"expected a folder that also has {NAMES[part]} ({HOLDS[part]}), got a file",
                self._path,
            )
        return self._path


class OfficialFiles:
    """Files in ir_datasets' data folder, downloaded if absent."""

    count_hint: int | None = 6_475_537

    def __init__(self, sources: Table | None = None) -> None:
        self._sources = sources

    def path(self, part: Part) -> Path:
        """Return the path of a file; raise a `DownloadError` if it cannot be downloaded."""
        loader = "fairtk.datasets.trec_fair.from_folder"
        return fetch(OFFICIAL, NAMES[part], self._sources, check_lines, loader)


Files = FolderFiles | MetadataFile | OfficialFiles


def check_lines(path: Path) -> None:
    """Raise a `FormatError` unless the file starts with a JSON object and can be decompressed."""
    with open_bytes(path, JSON_ENTRY) as lines:
        first = lines.readline()
        if not first:
            raise FormatError("the file is empty")
        try:
            record = parse_json(decode_line(first, path, 1), path, 1)
        except FormatError as error:
            raise FormatError(f"expected (gzipped) JSON lines ({error.reason})") from None
        if not isinstance(record, dict):
            raise FormatError("the first line must be a JSON object")
        for _ in lines:  # to the end, to verify gzip's checksum
            pass


def stamp(source: Path) -> str:
    """Return size and modification time of a file, to check caches."""
    state = source.stat()
    return f"{state.st_size}-{state.st_mtime_ns}"


_KEYS = ("id", "title", "plain", "url")
_VERSION = "1"
_CHUNK = 500  # SQLite allows 999 values in a query


def articles(path: Path) -> Iterator[TrecFairDoc]:
    """Yield the articles of a corpus in file order.

    The first article of a duplicate id counts; a `DataWarning` at the end reports duplicates.
    """
    ids, n_duplicates, first = _Ids(), 0, ""
    with source(path) as file:
        for number, record in objects_of(file):
            article = _article(record, path, number)
            if ids.add(article.doc_id):
                yield article
            else:
                n_duplicates += 1
                first = first or f"line {number}: page {article.doc_id}"
    if n_duplicates:
        warn(f"{path}: {n_duplicates} articles with duplicate ids ({first}) are ignored")


def _article(record: dict[str, Any], path: Path, number: int) -> TrecFairDoc:
    try:
        page, title, plain, url = (record[key] for key in _KEYS)
    except KeyError as error:
        raise FormatError(
            f"missing key {error.args[0]!r} of an article; expected {format_list(_KEYS)}, got "
            f"{format_list(sorted(record), 8)}",
            path,
            number,
        ) from None
    if isinstance(page, bool) or not isinstance(page, int | str) or page == "":
        raise FormatError(f"'id' must be a page id, got {page!r}", path, number)
    for key, value in zip(_KEYS[1:], (title, plain, url), strict=True):
        if not isinstance(value, str):
            raise FormatError(f"{key!r} of page {page} must be a string", path, number)
    return TrecFairDoc(str(page), title, plain, url)


class _Ids:
    """A set of ids, with one bit per page number."""

    def __init__(self) -> None:
        self._bits = bytearray()
        self._others: set[str] = set()

    def add(self, name: str) -> bool:
        """Add an id, and return whether it is new."""
        if len(name) > 9 or not (name.isascii() and name.isdecimal()) or name[0] == "0":
            new = name not in self._others
            self._others.add(name)
            return new
        index, bit = divmod(int(name), 8)
        if index >= len(self._bits):
            self._bits.extend(bytes(max(index + 1, 2 * len(self._bits)) - len(self._bits)))
        if self._bits[index] >> bit & 1:
            return False
        self._bits[index] |= 1 << bit
        return True


class ArticleStore(Docstore):  # type: ignore[misc]
    """The articles by page id; the corpus is read on first use."""

    def __init__(self, path: Callable[[], Path], field: str = "doc_id") -> None:
        if field != "doc_id":
            raise InputError(f"field must be 'doc_id', got {field!r}")
        super().__init__(TrecFairDoc, field)
        self._corpus = path

    def get_many_iter(self, doc_ids: Iterable[str]) -> Iterator[TrecFairDoc]:
        """Yield the distinct existing articles, in any order."""
        names = iter(dict.fromkeys(doc_ids))
        store = self.build()
        with closing(_connect(store)) as database:
            while chunk := list(islice(names, _CHUNK)):
                marks = ",".join("?" * len(chunk))
                query = f"SELECT id, body FROM articles WHERE id IN ({marks})"
                for page, body in database.execute(query, chunk):
                    yield TrecFairDoc(page, *json.loads(zlib.decompress(body)))

    def count(self) -> int:
        """Return the number of articles."""
        with closing(_connect(self.build())) as database:
            return int(database.execute("SELECT count(*) FROM articles").fetchone()[0])

    def built(self) -> Path | None:
        """Return the path of the store; `None` if it is absent or of another corpus."""
        corpus = self._corpus()
        marks = {("corpus", stamp(corpus)), ("version", _VERSION)}
        path = cache_path(corpus, ".sqlite")
        if not path.is_file():
            return None
        with closing(_connect(path)) as database:
            about = set(database.execute("SELECT key, value FROM about"))
        return path if marks <= about else None

    def build(self) -> Path:
        """Return the path of the store, after building it if it does not exist."""
        store = self.built()
        if store is not None:
            return store
        corpus = self._corpus()
        target = cache_path(corpus, ".sqlite")
        if not is_writable(target):
            raise InputError(
                f"{corpus}: cannot write the store of articles to {target.parent}; set "
                f"{CACHE_HOME} to a writable folder"
            )
        mark = stamp(corpus)
        with atomic_write(target) as temporary, closing(sqlite3.connect(temporary)) as database:
            _fill(database, articles(corpus), mark)
        return target

    def __iter__(self) -> Iterator[TrecFairDoc]:
        return articles(self._corpus())


def _fill(database: sqlite3.Connection, docs: Iterator[TrecFairDoc], mark: str) -> None:
    from tqdm import tqdm

    # no journal: the file has a temporary name until it is complete
    database.execute("PRAGMA journal_mode = OFF")
    database.execute("PRAGMA synchronous = OFF")
    database.execute("CREATE TABLE articles (number INTEGER PRIMARY KEY, id TEXT, body BLOB)")
    database.execute("CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT)")
    progress = tqdm(docs, desc="storing articles", unit=" articles", disable=None)
    rows = ((d.doc_id, _packed(d)) for d in progress)
    database.executemany("INSERT INTO articles (id, body) VALUES (?, ?)", rows)
    # sorting once is faster than updating an index
    database.execute("CREATE UNIQUE INDEX by_id ON articles (id)")
    about = [("corpus", mark), ("version", _VERSION)]
    database.executemany("INSERT INTO about VALUES (?, ?)", about)
    database.commit()


def _packed(doc: TrecFairDoc) -> bytes:
    return zlib.compress(json.dumps(doc[1:], ensure_ascii=False).encode(), 1)


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)


class TopicsFile:
    """A file of topics, read on first use; another file may have the keywords."""

    def __init__(self, files: Files, part: Part, keywords: Path | None = None) -> None:
        self.files = files
        self.part = part
        self._keywords = keywords
        self._topics = ReadOnce(self.path, self._read)
        self._has_warned = False

    def path(self) -> Path:
        """Return the path of the file, after downloading it if absent."""
        return self.files.path(self.part)

    def topics(self) -> list[Topic]:
        """Return the topics in file order; raise a `FormatError` for an invalid file."""
        return self._topics()

    def _read(self, path: Path) -> list[Topic]:
        topics = read_topics(path)
        if self._keywords is None:
            return topics
        words = read_keywords(self._keywords)
        return [replace(t, keywords=t.keywords or words.get(t.qid, ())) for t in topics]

    def topics_to_retrieve(self) -> list[Topic]:
        """Return the topics, and warn once if some have no keywords."""
        topics = self.topics()
        qids = [topic.qid for topic in topics if not topic.keywords]
        if qids and not self._has_warned:
            self._has_warned = True
            warn(
                f"{self.path()}: {len(qids)} of {len(topics)} topics ({format_list(qids, 3)}) have "
                "no keywords, so their query is the title; add keywords with "
                "fairtk.datasets.trec_fair.from_folder(..., keywords=FILE)",
                stacklevel=3,
            )
        return topics


class TrecFairDocs(FileDocs):
    """The articles of the corpus."""

    def __init__(self, files: Files) -> None:
        super().__init__(partial(files.path, "corpus"), "trec-fair", TrecFairDoc)
        self._files = files
        self._count: int | None = None

    def docs_iter(self) -> DocsIter:
        """Return an iterator over the articles that can be sliced."""
        return DocsIter(self._read, self.docs_count)

    def _read(self, rows: range | None) -> Iterator[TrecFairDoc]:
        stream = articles(self._path())
        if rows is None:
            return stream
        return islice(stream, rows.start, max(rows.start, rows.stop), rows.step)

    def docs_count(self) -> int:
        """Return the number of articles; a corpus of unknown size is read once."""
        if self._count is None:
            hint = self._files.count_hint
            self._count = sum(1 for _ in self._read(None)) if hint is None else hint
        return self._count

    def docs_store(self, field: str = "doc_id", options: Any = None) -> ArticleStore:
        """Return the store of the articles; ``options`` is ignored."""
        return ArticleStore(self._path, field)


class TrecFairQueries(FileQueries):
    """The topics as queries; see `TrecFairQuery`."""

    def __init__(self, file: TopicsFile) -> None:
        super().__init__(file.path, "trec-fair", TrecFairQuery)
        self._file = file

    def queries_iter(self) -> Iterator[TrecFairQuery]:
        """Yield the topics in file order."""
        for topic in self._file.topics_to_retrieve():
            words = " ".join(topic.keywords)
            yield TrecFairQuery(
                topic.qid,
                words or topic.title,
                topic.title,
                f"{topic.title} {words}".rstrip(),
                topic.keywords,
            )

    def queries_count(self) -> int:
        """Return the number of topics."""
        return len(self._file.topics())

    def fair_ranking_files(self) -> Files:
        """Return the files of the dataset."""
        return self._file.files

    def fair_ranking_topics(self) -> TopicsFile:
        """Return the topics file."""
        return self._file


class TrecFairQrels(FileQrels):
    """The relevant pages of each topic, all with label 1."""

    def __init__(self, file: TopicsFile) -> None:
        super().__init__(file.path, {1: "relevant"})
        self._file = file

    def qrels_iter(self) -> Iterator[TrecQrel]:
        """Yield the labels, topic by topic."""
        for topic in self._file.topics():
            for docno in topic.docnos:
                yield TrecQrel(topic.qid, docno, 1, "0")

    def qrels_count(self) -> int:
        """Return the number of labels."""
        return sum(len(topic.pages) for topic in self._file.topics())


_PARTS: dict[str, Part] = {f"{OFFICIAL}/train/keywords": "train", f"{OFFICIAL}/eval": "eval"}
_IDS: dict[Part, str] = {part: name for name, part in _PARTS.items()}
_SPLITS: dict[str, Part] = {"train": "train", "train/keywords": "train", "eval": "eval"}


def ids() -> list[str]:
    """Return the ids of the datasets: ``trec-fair/2022/train/keywords`` and ``.../eval``."""
    return list(_PARTS)


def build(dataset_id: str, sources: Table | None = None) -> Any:
    """Return the dataset of an id; its files are downloaded and read on first use.

    Files are in ``trec-fair/2022`` of ir_datasets' data folder (``~/.ir_datasets`` or
    ``$IR_DATASETS_HOME``), shared with ir_datasets' own dataset.

    Args:
        dataset_id: one of `ids`.
        sources: a table of URLs; `None` for the packaged one.

    Returns:
        An ``ir_datasets.Dataset`` with docs, queries and qrels. On first use, it raises a
        `DownloadError` if a file cannot be downloaded.

    Raises:
        NotFoundError: the id is unknown.
    """
    if dataset_id not in _PARTS:
        raise NotFoundError("TREC Fair Ranking dataset", dataset_id, _PARTS)
    return _assemble(dataset_id, OfficialFiles(sources), _PARTS[dataset_id])


def from_folder(
    path: str | PathLike[str],
    split: str = "train",
    *,
    keywords: str | PathLike[str] | None = None,
) -> Any:
    """Return the dataset in a local folder with the official files.

    Args:
        path: the folder, with these files, each gzipped or not: the topics,
            ``train_topics_meta.jsonl`` or ``trec_2022_eval_reldocs.jsonl.gz``; for documents,
            ``trec_corpus_20220301_plain.json.gz``; for `groups` and `targets`,
            ``trec_2022_articles_discrete.json.gz`` or
            ``trec_2022_articles_discrete_assessed.json.gz``.
        split: ``"train"`` (or ``"train/keywords"``) or ``"eval"``.
        keywords: a file with the keywords of topics that have none: a file of topics, or the
            official ``eval_topic_keywords.csv``. The query of a topic without keywords is its
            title, with a `fairtk.errors.DataWarning`.

    Returns:
        An ``ir_datasets.Dataset`` with docs, queries and qrels. Files are read on first use; a
        missing or invalid file raises a `FormatError` then. Its ``dataset_id()`` is that of the
        official dataset, a colon and the folder.

    Raises:
        NotFoundError: the split is unknown.
        FormatError: the folder, the topics or the keywords are missing.
    """
    if split not in _SPLITS:
        raise NotFoundError("TREC Fair Ranking split", split, _SPLITS)
    part = _SPLITS[split]
    files = FolderFiles(path)
    files.path(part)
    words = None if keywords is None else Path(keywords).expanduser().resolve()
    if words is not None and not words.is_file():
        raise FormatError("no such file", words)
    added = "" if words is None else f" with keywords of {words}"
    return _assemble(f"{_IDS[part]}:{files.folder}{added}", files, part, words)


def files_of(source: Any, where: str) -> Files:
    """Return the files of a dataset id, a dataset of fairtk or PyTerrier, or a folder."""
    if is_folder(source):
        if Path(source).expanduser().is_file():
            return MetadataFile(source)
        if isinstance(source, str) and not Path(source).expanduser().is_dir():
            raise InputError(f"{where}: {source}: no such dataset or folder")
        return FolderFiles(source)
    dataset = resolve_dataset(source, where)
    if hasattr(dataset, "fair_ranking_files"):
        return dataset.fair_ranking_files()  # type: ignore[no-any-return]
    name = dataset.dataset_id() if hasattr(dataset, "dataset_id") else ""
    if name == OFFICIAL or name.startswith(f"{OFFICIAL}/"):  # of ir_datasets
        return OfficialFiles()
    raise InputError(
        f"{where}: expected a TREC Fair Ranking 2022 dataset or a folder with its files, got "
        f"{source!r}"
    )


def is_folder(source: Any) -> bool:
    """Return whether a source is a path, or a string other than a dataset id."""
    if isinstance(source, str):
        name = source.removeprefix("irds:").removeprefix("fair:")
        return name not in set(ir_datasets.registry)
    return isinstance(source, PathLike)


def _assemble(dataset_id: str, files: Files, part: Part, keywords: Path | None = None) -> Any:
    topics = TopicsFile(files, part, keywords)
    return make_dataset(
        dataset_id,
        TrecFairDocs(files),
        TrecFairQueries(topics),
        TrecFairQrels(topics),
        Documentation("fairtk.datasets.trec_fair", (part,), ("all",)),
    )
