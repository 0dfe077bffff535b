"""The parts that ir_datasets puts together to a dataset: docs, queries, qrels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from ir_datasets.formats import TrecQrel

from fairtk.datasets.parts import DocsIter, FileDocs, FileQrels, FileQueries, ReadOnce
from fairtk.datasets.trec_fair.corpus import ArticleStore, articles
from fairtk.datasets.trec_fair.files import Files, Part
from fairtk.datasets.trec_fair.records import TrecFairDoc, TrecFairQuery
from fairtk.errors import listed, warn
from fairtk.io.trec_fair_topics import Topic, read_keywords, read_topics


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
