"""TREC Fair Ranking 2022 from the official addresses or a local folder: its files, its corpus as
JSON lines and a store by page id.

The corpus is one stream of 20 GB unpacked, so that single articles cannot be read from it. The
store is an SQLite file with each article packed by itself, made on first use.
"""

# No `from __future__ import annotations` here: PyTerrier's text_loader loads the fields whose
# annotation is the class `str` itself, not a string that names it.

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

from fairtk.datasets.fetching import CACHE_HOME, Table, cache_place, can_be_written, fetch
from fairtk.datasets.registration import (
    DocsIter,
    Documentation,
    FileDocs,
    FileQrels,
    FileQueries,
    ReadOnce,
    named,
)
from fairtk.datasets.trec_fair.topics import Topic, read_keywords, read_topics
from fairtk.errors import FormatError, InputError, NotFoundError, listed, warn
from fairtk.io import atomic_write, resolve_dataset
from fairtk.io.lines import JSON_ENTRY, decoded, objects_of, opened, parse_json, source

Part = Literal["corpus", "metadata", "assessed", "train", "eval"]

OFFICIAL = "trec-fair/2022"
"""The subfolder of ir_datasets' data folder, shared with ir_datasets' own trec-fair/2022."""

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
"""What each file has in it."""


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
    """A topic, in three forms to retrieve with: `query`, `title` and `title_keywords`.

    Attributes:
        query_id: the topic's number.
        query: the keywords, joined by spaces; the title where the topic has no keywords.
        title: the name of the WikiProject.
        title_keywords: both, joined by spaces.
        keywords: the keywords one by one; empty where the file has none.
    """

    query_id: str
    query: str
    title: str
    title_keywords: str
    keywords: tuple[str, ...]

    def default_text(self) -> str:
        """Return the text to retrieve with: the keywords."""
        return self.query


class FolderFiles:
    """Files in a local folder, packed or not."""

    count_hint: int | None = None
    """The number of documents, where it is known without reading them."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder).expanduser().resolve()
        if not self.folder.is_dir():
            raise FormatError("there is no such folder", self.folder)

    def has(self, part: Part) -> bool:
        """Return whether the folder has a file."""
        return self._find(part) is not None

    def path(self, part: Part) -> Path:
        """Return the path of a file; a missing one is a `FormatError` that says what is there."""
        file = self._find(part)
        if file is None:
            there = sorted(p.name for p in self.folder.iterdir() if not p.name.startswith("."))[:8]
            raise FormatError(
                f"expected {NAMES[part]} ({HOLDS[part]}) in the folder; found {there}", self.folder
            )
        return file

    def _find(self, part: Part) -> Path | None:
        plain = NAMES[part].removesuffix(".gz")
        for name in dict.fromkeys((NAMES[part], plain, f"{plain}.gz")):
            if (self.folder / name).is_file():
                return self.folder / name
        return None


class OfficialFiles:
    """Files in ir_datasets' data folder, downloaded when they are not there."""

    count_hint: int | None = 6_475_537

    def __init__(self, sources: Table | None = None) -> None:
        self._sources = sources

    def path(self, part: Part) -> Path:
        """Return the path of a file; a `DownloadError` where it cannot be had."""
        loader = "fairtk.datasets.trec_fair.from_folder"
        return fetch(OFFICIAL, NAMES[part], self._sources, check_lines, loader)


Files = FolderFiles | OfficialFiles


def check_lines(path: Path) -> None:
    """Raise `FormatError` unless the file is JSON lines; a gzipped one is read to its end."""
    with opened(path, JSON_ENTRY) as lines:
        first = lines.readline()
        if not first:
            raise FormatError("it is empty")
        try:
            record = parse_json(decoded(first, path, 1), path, 1)
        except FormatError as error:
            raise FormatError(f"not (gzipped) JSON lines: {error.reason}") from None
        if not isinstance(record, dict):
            raise FormatError("its first line is no JSON object")
        for _ in lines:  # to the end, where gzip has a checksum
            pass


def stamp(source: Path) -> str:
    """Return size and time of change of a file: what a file made from it belongs to."""
    state = source.stat()
    return f"{state.st_size}-{state.st_mtime_ns}"


_KEYS = ("id", "title", "plain", "url")
_VERSION = "1"
_AT_ONCE = 500  # SQLite allows 999 values in a query


def articles(path: Path) -> Iterator[TrecFairDoc]:
    """Yield the articles of a corpus in its order.

    Of a repeated id the first counts; a `DataWarning` at the end says how many others there are.
    """
    seen, repeated, place = _Seen(), 0, ""
    with source(path) as file:
        for number, record in objects_of(file):
            article = _article(record, path, number)
            if seen.add(article.doc_id):
                yield article
            else:
                repeated += 1
                place = place or f"line {number}: page {article.doc_id}"
    if repeated:
        warn(f"{path}: {repeated} articles have the id of one before them, which counts ({place})")


def _article(record: dict[str, Any], path: Path, number: int) -> TrecFairDoc:
    try:
        page, title, plain, url = (record[key] for key in _KEYS)
    except KeyError as error:
        raise FormatError(
            f"an article needs the keys {list(_KEYS)}; {error.args[0]!r} is missing, found "
            f"{sorted(record)[:8]}",
            path,
            number,
        ) from None
    if isinstance(page, bool) or not isinstance(page, int | str) or page == "":
        raise FormatError(f"'id' must be a page id; found {page!r}", path, number)
    for key, value in zip(_KEYS[1:], (title, plain, url), strict=True):
        if not isinstance(value, str):
            raise FormatError(f"{key!r} of page {page} must be a string", path, number)
    return TrecFairDoc(str(page), title, plain, url)


class _Seen:
    """The ids so far: one bit per page number, which go up to 70 million."""

    def __init__(self) -> None:
        self._bits = bytearray()
        self._others: set[str] = set()

    def add(self, name: str) -> bool:
        """Return whether an id is new."""
        if len(name) > 9 or not (name.isascii() and name.isdecimal()) or name[0] == "0":
            new = name not in self._others
            self._others.add(name)
            return new
        place, bit = divmod(int(name), 8)
        if place >= len(self._bits):
            self._bits.extend(bytes(max(place + 1, 2 * len(self._bits)) - len(self._bits)))
        if self._bits[place] >> bit & 1:
            return False
        self._bits[place] |= 1 << bit
        return True


class ArticleStore(Docstore):  # type: ignore[misc]
    """The articles by page id; the corpus is asked for when it is first needed."""

    def __init__(self, path: Callable[[], Path], field: str = "doc_id") -> None:
        if field != "doc_id":
            raise InputError(f"articles are looked up by doc_id only; found {field!r}")
        super().__init__(TrecFairDoc, field)
        self._corpus = path

    def get_many_iter(self, doc_ids: Iterable[str]) -> Iterator[TrecFairDoc]:
        """Yield the articles that exist, each once, in any order."""
        names = iter(dict.fromkeys(doc_ids))
        store = self.build()
        with closing(_connect(store)) as database:
            while some := list(islice(names, _AT_ONCE)):
                marks = ",".join("?" * len(some))
                query = f"SELECT id, body FROM articles WHERE id IN ({marks})"
                for page, body in database.execute(query, some):
                    yield TrecFairDoc(page, *json.loads(zlib.decompress(body)))

    def count(self) -> int:
        """Return the number of articles."""
        with closing(_connect(self.build())) as database:
            return int(database.execute("SELECT count(*) FROM articles").fetchone()[0])

    def built(self) -> Path | None:
        """Return the path of the store, if it is there and belongs to the corpus."""
        corpus = self._corpus()
        marks = {("corpus", stamp(corpus)), ("version", _VERSION)}
        place = cache_place(corpus, ".sqlite")
        if not place.is_file():
            return None
        with closing(_connect(place)) as database:
            about = set(database.execute("SELECT key, value FROM about"))
        return place if marks <= about else None

    def build(self) -> Path:
        """Return the path of the store, which is made unless it is there."""
        store = self.built()
        if store is not None:
            return store
        corpus = self._corpus()
        target = cache_place(corpus, ".sqlite")
        if not can_be_written(target):
            raise InputError(
                f"{corpus}: looking up articles needs a store, and {target.parent} cannot be "
                f"written; set {CACHE_HOME} to a folder that can"
            )
        mark = stamp(corpus)
        with atomic_write(target) as temporary, closing(sqlite3.connect(temporary)) as database:
            _fill(database, articles(corpus), mark)
        return target

    def __iter__(self) -> Iterator[TrecFairDoc]:
        return articles(self._corpus())


def _fill(database: sqlite3.Connection, docs: Iterator[TrecFairDoc], mark: str) -> None:
    from tqdm import tqdm

    # a crash leaves a file under a temporary name, so nothing needs a journal
    database.execute("PRAGMA journal_mode = OFF")
    database.execute("PRAGMA synchronous = OFF")
    database.execute("CREATE TABLE articles (number INTEGER PRIMARY KEY, id TEXT, body BLOB)")
    database.execute("CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT)")
    progress = tqdm(docs, desc="storing articles", unit=" articles", disable=None)
    rows = ((d.doc_id, _packed(d)) for d in progress)
    database.executemany("INSERT INTO articles (id, body) VALUES (?, ?)", rows)
    # sorting once is much cheaper than keeping an index in order
    database.execute("CREATE UNIQUE INDEX by_id ON articles (id)")
    about = [("corpus", mark), ("version", _VERSION)]
    database.executemany("INSERT INTO about VALUES (?, ?)", about)
    database.commit()


def _packed(doc: TrecFairDoc) -> bytes:
    return zlib.compress(json.dumps(doc[1:], ensure_ascii=False).encode(), 1)


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)


class TopicsFile:
    """A file of topics, read on first use; topics without keywords get those of another file."""

    def __init__(self, files: Files, part: Part, keywords: Path | None = None) -> None:
        self.files = files
        self.part = part
        self._keywords = keywords
        self._topics = ReadOnce(self.path, self._read)
        self._told = False

    def path(self) -> Path:
        """Return the file's path; a download happens here if one is needed."""
        return self.files.path(self.part)

    def topics(self) -> list[Topic]:
        """Return the topics in file order; a malformed file is a `FormatError`."""
        return self._topics()

    def _read(self, path: Path) -> list[Topic]:
        topics = read_topics(path)
        if self._keywords is None:
            return topics
        words = read_keywords(self._keywords)
        return [replace(t, keywords=t.keywords or words.get(t.qid, ())) for t in topics]

    def topics_to_retrieve(self) -> list[Topic]:
        """Return the topics; once, a `DataWarning` says if some have no keywords."""
        topics = self.topics()
        bare = [topic.qid for topic in topics if not topic.keywords]
        if bare and not self._told:
            self._told = True
            warn(
                f"{self.path()}: {len(bare)} of {len(topics)} topics have no keywords, so their "
                f"query is the title ({listed(bare, 3)}); give a file that has keywords with "
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
        """Return the number of articles; a corpus of unknown size is read through once."""
        if self._count is None:
            hint = self._files.count_hint
            self._count = sum(1 for _ in self._read(None)) if hint is None else hint
        return self._count

    def docs_store(self, field: str = "doc_id", options: Any = None) -> ArticleStore:
        """Return the articles by id; ``options`` is accepted for ir_datasets' sake."""
        return ArticleStore(self._path, field)


class TrecFairQueries(FileQueries):
    """The topics; their text is the keywords, or the title where there are none."""

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
        """Return where the files of the data set are."""
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
    """Return the dataset of an id; nothing is read or downloaded before it is used.

    Files that lie already in ``trec-fair/2022`` of the data folder of ir_datasets
    (``~/.ir_datasets`` or ``$IR_DATASETS_HOME``) are used as they are; ir_datasets' own
    ``trec-fair/2022`` puts corpus and metadata there, too.

    Args:
        dataset_id: one of `ids`.
        sources: the table of addresses (default: the package's).

    Returns:
        An ``ir_datasets.Dataset`` with docs, queries and qrels.

    Raises:
        NotFoundError: no such id.
        DownloadError: later, on use: a file cannot be had.
    """
    if dataset_id not in _PARTS:
        raise NotFoundError("dataset of TREC Fair Ranking", dataset_id, _PARTS)
    return _assemble(dataset_id, OfficialFiles(sources), _PARTS[dataset_id])


def from_folder(
    path: str | PathLike[str],
    split: str = "train",
    *,
    keywords: str | PathLike[str] | None = None,
) -> Any:
    """Return a dataset made of the official files in a local folder.

    The files, each gzipped or not: ``train_topics_meta.jsonl`` or
    ``trec_2022_eval_reldocs.jsonl.gz`` (the topics, which must be there), and, needed only when
    they are asked for, ``trec_corpus_20220301_plain.json.gz`` (documents),
    ``trec_2022_articles_discrete.json.gz`` or ``..._discrete_assessed.json.gz`` (`groups`,
    `targets`).

    Args:
        path: the folder.
        split: ``"train"`` (or ``"train/keywords"``) or ``"eval"``.
        keywords: a file of topics in either form (relevant pages are not needed), or the official
            ``eval_topic_keywords.csv`` (id, list), from which topics without keywords get them.
            Topics that have none in either file are retrieved with by their title, which a
            `fairtk.errors.DataWarning` says.

    Returns:
        An ``ir_datasets.Dataset`` with docs, queries and qrels; the files are read on first use.
        Its ``dataset_id()`` is that of the official one, a colon and the folder.

    Raises:
        NotFoundError: no such split.
        FormatError: the folder, or the topics in it, are not there; later, on use: another file is
            missing, or one is malformed (names file and line).
    """
    if split not in _SPLITS:
        raise NotFoundError("split of TREC Fair Ranking 2022", split, _SPLITS)
    part = _SPLITS[split]
    files = FolderFiles(path)
    files.path(part)
    words = None if keywords is None else Path(keywords).expanduser().resolve()
    if words is not None and not words.is_file():
        raise FormatError("there is no such file (of keywords)", words)
    added = "" if words is None else f" with keywords of {words}"
    return _assemble(f"{_IDS[part]}:{files.folder}{added}", files, part, words)


def files_of(source: Any, where: str) -> Files:
    """Return where the files of a data set are.

    It is given by its id, as a dataset of ours (also in PyTerrier's form), or as a folder.
    """
    if is_folder(source):
        if isinstance(source, str) and not Path(source).expanduser().is_dir():
            raise InputError(f"{where}: {source!r} is neither the id of a data set nor a folder")
        return FolderFiles(source)
    dataset = resolve_dataset(source, where)
    if hasattr(dataset, "fair_ranking_files"):
        return dataset.fair_ranking_files()  # type: ignore[no-any-return]
    name = dataset.dataset_id() if hasattr(dataset, "dataset_id") else ""
    if name == OFFICIAL or name.startswith(f"{OFFICIAL}/"):  # ir_datasets' own
        return OfficialFiles()
    raise InputError(
        f"{where} needs a data set of TREC Fair Ranking 2022 or a folder with its files; found "
        f"{source!r}"
    )


def is_folder(source: Any) -> bool:
    """Return whether a source names a folder: it is a path, or a string that is no dataset's id."""
    if isinstance(source, str):
        name = source.removeprefix("irds:").removeprefix("fair:")
        return name not in set(ir_datasets.registry)
    return isinstance(source, PathLike)


def _assemble(dataset_id: str, files: Files, part: Part, keywords: Path | None = None) -> Any:
    topics = TopicsFile(files, part, keywords)
    return named(
        dataset_id,
        TrecFairDocs(files),
        TrecFairQueries(topics),
        TrecFairQrels(topics),
        Documentation("fairtk.datasets.trec_fair", (part,), ("all",)),
    )
