"""The parts that ir_datasets puts together to a dataset: docs, queries, qrels."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from ir_datasets.formats import BaseDocs, BaseQrels, BaseQueries, TrecQrel

from fairtk.datasets.trec_fair.corpus import ArticleStore, articles
from fairtk.datasets.trec_fair.files import Files, Part
from fairtk.datasets.trec_fair.records import TrecFairDoc, TrecFairQuery
from fairtk.errors import DataWarning, listed
from fairtk.io.trec_fair_topics import Topic, read_keywords, read_topics

NAMESPACE = "trec-fair"


class TopicsFile:
    """A file of topics, read on first use.

    Args:
        files: where it is.
        part: which of the files.
        keywords: a file with keywords, for the keywords of those that have none.
    """

    def __init__(self, files: Files, part: Part, keywords: Path | None = None) -> None:
        self.files = files
        self.part = part
        self._keywords = keywords
        self._topics: list[Topic] | None = None
        self._told = False

    def path(self) -> Path:
        """Return the file's path; a download happens here if one is needed."""
        return self.files.path(self.part)

    def topics(self) -> list[Topic]:
        """Return the topics in file order; a malformed file is a `FormatError`."""
        if self._topics is None:
            topics = read_topics(self.path())
            if self._keywords is not None:
                words = read_keywords(self._keywords)
                topics = [replace(t, keywords=t.keywords or words.get(t.qid, ())) for t in topics]
            self._topics = topics
        return self._topics

    def topics_to_retrieve(self) -> list[Topic]:
        """Return the topics; once, a `DataWarning` says if some have no keywords."""
        topics = self.topics()
        bare = [topic.qid for topic in topics if not topic.keywords]
        if bare and not self._told:
            self._told = True
            warnings.warn(
                f"{self.path()}: {len(bare)} of {len(topics)} topics have no keywords, so their "
                f"query is the title ({listed(bare, 3)}); give a file that has keywords with "
                "fairtk.datasets.trec_fair.from_folder(..., keywords=FILE)",
                DataWarning,
                stacklevel=3,
            )
        return topics


class TrecFairDocs(BaseDocs):  # type: ignore[misc]
    """The articles of the corpus."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._count: int | None = None

    def _path(self) -> Path:
        return self._files.path("corpus")

    def docs_iter(self) -> DocsIter:
        """Return an iterator over the articles that can be sliced."""
        return DocsIter(self._path, self.docs_count)

    def docs_count(self) -> int:
        """Return the number of articles; a corpus of unknown size is read through once."""
        if self._count is None:
            hint = self._files.count_hint()
            self._count = sum(1 for _ in articles(self._path())) if hint is None else hint
        return self._count

    def docs_cls(self) -> type[Any]:
        """Return `TrecFairDoc`."""
        return TrecFairDoc

    def docs_store(self, field: str = "doc_id", options: Any = None) -> ArticleStore:
        """Return the articles by id; ``options`` is accepted for ir_datasets' sake."""
        return ArticleStore(self._path, field)

    def docs_path(self, force: bool = True) -> str:
        """Return the path of the corpus."""
        return str(self._path())

    def docs_namespace(self) -> str:
        """Return the namespace of the document ids."""
        return NAMESPACE

    def docs_lang(self) -> str:
        """Return the articles' language."""
        return "en"


class DocsIter:
    """An iterator over articles; ``it[10:20]`` and ``it[3]`` stop reading at the last one.

    Args:
        path: called for the path of the corpus.
        count: called for the number of articles, when a slice needs it.
        rows: numbers of the articles to yield (default: all).
    """

    def __init__(
        self, path: Callable[[], Path], count: Callable[[], int], rows: range | None = None
    ) -> None:
        self._path = path
        self._count = count
        self._rows = rows
        self._stream: Iterator[TrecFairDoc] | None = None

    def __iter__(self) -> DocsIter:
        return self

    def __next__(self) -> TrecFairDoc:
        if self._stream is None:
            stream = articles(self._path())
            rows = self._rows
            if rows is not None:
                stream = islice(stream, rows.start, max(rows.start, rows.stop), rows.step)
            self._stream = stream
        return next(self._stream)

    def __getitem__(self, key: int | slice) -> Any:
        rows = range(self._count()) if self._rows is None else self._rows
        if isinstance(key, slice):
            return DocsIter(self._path, self._count, rows[_whole(key, len(rows))])
        row = rows[key]
        return next(DocsIter(self._path, self._count, range(row, row + 1)))


class TrecFairQueries(BaseQueries):  # type: ignore[misc]
    """The topics; their text is the keywords, or the title where there are none."""

    def __init__(self, file: TopicsFile) -> None:
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

    def queries_cls(self) -> type[Any]:
        """Return `TrecFairQuery`."""
        return TrecFairQuery

    def queries_path(self) -> str:
        """Return the path of the topics file."""
        return str(self._file.path())

    def queries_namespace(self) -> str:
        """Return the namespace of the query ids."""
        return NAMESPACE

    def queries_lang(self) -> str:
        """Return the topics' language."""
        return "en"


class TrecFairQrels(BaseQrels):  # type: ignore[misc]
    """The relevant pages of each topic, all with label 1."""

    def __init__(self, file: TopicsFile) -> None:
        self._file = file

    def qrels_iter(self) -> Iterator[TrecQrel]:
        """Yield the labels, topic by topic."""
        for topic in self._file.topics():
            for docno in topic.docnos:
                yield TrecQrel(topic.qid, docno, 1, "0")

    def qrels_count(self) -> int:
        """Return the number of labels."""
        return sum(len(topic.pages) for topic in self._file.topics())

    def qrels_cls(self) -> Any:
        """Return ir_datasets' `TrecQrel`."""
        return TrecQrel

    def qrels_defs(self) -> dict[int, str]:
        """Return the meaning of the labels."""
        return {1: "relevant"}

    def qrels_path(self) -> str:
        """Return the path of the topics file."""
        return str(self._file.path())


def _whole(key: slice, count: int) -> slice:
    """Turn ir_datasets' fractional slices (``it[:1/3]``) into whole numbers."""
    start, stop = (int(v * count) if isinstance(v, float) else v for v in (key.start, key.stop))
    if key.step is not None and key.step < 1:
        raise ValueError(f"documents are read forwards: the step must be positive, not {key.step}")
    return slice(start, stop, key.step)
