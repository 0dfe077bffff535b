"""LaMP as ir_datasets datasets, from the official addresses or from a local folder."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain, groupby
from os import PathLike
from pathlib import Path
from typing import Any

import ir_datasets
import pandas as pd
from ir_datasets.formats import BaseScoredDocs, GenericScoredDoc, TrecQrel
from ir_datasets.indices import Docstore

from fairtk.datasets.fetching import Table, fetch
from fairtk.datasets.lamp.files import OutputsFile, QuestionsFile, find
from fairtk.datasets.lamp.records import (
    DOC_TYPES,
    TASKS,
    LampQuery,
    LampQuestion,
    check_task,
    to_entry,
)
from fairtk.datasets.registration import (
    DocsIter,
    Documentation,
    FileDocs,
    FileQrels,
    FileQueries,
    ReadOnce,
    named,
)
from fairtk.errors import DownloadError, FormatError, InputError, NotFoundError, listed
from fairtk.frames import DOCNO, LABEL, QID, require
from fairtk.frames.schema import INTEGER
from fairtk.io.atomic import atomic_text
from fairtk.io.rows import read_table
from fairtk.io.tables import write_table


class LampDocs(FileDocs):
    """All profile entries of all queries, in file order."""

    def __init__(self, file: QuestionsFile) -> None:
        super().__init__(file.path, "lamp", DOC_TYPES[file.task])
        self._file = file

    def docs_iter(self) -> DocsIter:
        """Return an iterator over the documents that can be sliced."""
        return iter(self.docs_store())

    def docs_count(self) -> int:
        """Return the number of documents."""
        return self._file.docs_count()

    def docs_store(self, field: str = "doc_id", options: Any = None) -> LampDocstore:
        """Return the documents by id; ``options`` is accepted for ir_datasets' sake."""
        return LampDocstore(self._file, field)


class LampDocstore(Docstore):  # type: ignore[misc]
    """The documents by docno, read from the file's place for their query."""

    def __init__(self, file: QuestionsFile, field: str = "doc_id") -> None:
        super().__init__(DOC_TYPES[file.task], field)
        self._file = file

    def get_many_iter(self, doc_ids: Iterable[str]) -> Iterator[Any]:
        """Yield the documents that exist, query by query."""
        asked = set(doc_ids)
        questions = self._file.questions()
        qids = dict.fromkeys(docno.partition("/")[0] for docno in doc_ids)
        profiles = self._file.profiles(qid for qid in qids if qid in questions)
        return chain.from_iterable([d for d in docs if d.doc_id in asked] for docs in profiles)

    def count(self) -> int:
        """Return the number of documents."""
        return self._file.docs_count()

    def __iter__(self) -> DocsIter:
        return DocsIter(self._file.numbered_docs, self._file.docs_count)


class LampQueries(FileQueries):
    """The questions, with gold answers where there are outputs."""

    def __init__(self, file: QuestionsFile, outputs: OutputsFile | None) -> None:
        super().__init__(file.path, "lamp", LampQuestion if outputs is None else LampQuery)
        self._file = file
        self._outputs = outputs

    def queries_iter(self) -> Iterator[LampQuery | LampQuestion]:
        """Yield the queries in file order."""
        questions = self._file.questions()
        if self._outputs is None:
            for q in questions.values():
                yield LampQuestion(q.qid, q.query, q.question)
            return
        golds = self._outputs.for_questions(questions)
        for q in questions.values():
            yield LampQuery(q.qid, q.query, q.question, golds[q.qid])

    def queries_count(self) -> int:
        """Return the number of queries."""
        return len(self._file.questions())


class LampScoredDocs(BaseScoredDocs):  # type: ignore[misc]
    """Each query's own profile as its candidates, all with score 0."""

    def __init__(self, file: QuestionsFile) -> None:
        self._file = file

    def scoreddocs_iter(self) -> Iterator[GenericScoredDoc]:
        """Yield the candidates, query by query, in file order."""
        questions = self._file.questions().items()
        return chain.from_iterable(
            [GenericScoredDoc(qid, docno, 0.0) for docno in question.docnos]
            for qid, question in questions
        )

    def scoreddocs_count(self) -> int:
        """Return the number of candidates of all queries."""
        return self._file.docs_count()

    def scoreddocs_path(self) -> str:
        """Return the path of the questions file."""
        return str(self._file.path())


LABELS = {
    1: "the generator's answer is better with this document than without any",
    0: "the generator's answer is not better with this document than without any",
}
"""What the labels mean."""


class LampQrels(FileQrels):
    """Published utility labels of the profile entries, read on first use.

    `N_relevance_mapping.tsv` has the columns ``qid``, ``pid`` and ``relevance_label``; ids are
    strings (with leading zeros), and profile ids stand without their query, so that the docno is
    made here. Kim & Diaz 2024 (Towards Fair RAG), appendix B.
    """

    def __init__(self, path: Callable[[], Path], questions: QuestionsFile) -> None:
        super().__init__(path, LABELS)
        self._questions = questions
        self._labels = ReadOnce(path, self._read)

    def qrels_iter(self) -> Iterator[TrecQrel]:
        """Yield the labels in file order; one of a document that the questions lack is an error."""
        return iter(self._labels())

    def qrels_count(self) -> int:
        """Return the number of labels."""
        return len(self._labels())

    def _read(self, path: Path) -> list[TrecQrel]:
        rows = read_table(path)
        rows.require([QID, DOCNO, LABEL], "a relevance mapping")
        rows.as_ids(QID, DOCNO)
        rows.as_numbers(LABEL, rule=INTEGER)
        rows.unique([QID, DOCNO], "a profile entry is labeled twice")
        qids, pids = rows.frame[QID].tolist(), rows.frame[DOCNO].tolist()
        docnos = [f"{qid}/{pid}" for qid, pid in zip(qids, pids, strict=True)]
        questions = self._questions.questions()
        candidates = {docno for question in questions.values() for docno in question.docnos}
        foreign = [row for row, docno in enumerate(docnos) if docno not in candidates]
        if foreign:
            row = foreign[0]
            rows.fail(
                row,
                f"qid {qids[row]!r}, docno {docnos[row]!r} is labeled, and not among the questions "
                f"in {self._questions.path()} ({len(foreign)} such labels): the two files are of "
                "different splits or tasks",
            )
        labels = rows.frame[LABEL].tolist()
        return [TrecQrel(*row, "0") for row in zip(qids, docnos, labels, strict=True)]


SPLITS = ("dev", "train")
"""The splits with gold outputs."""

GENERATORS = ("flan-t5-small", "flan-t5-base", "flan-t5-xxl")
"""The generators whose utility labels *Towards Fair RAG* published."""

_ID = re.compile(rf"lamp/(time/)?([1-7])/(dev|train)|lamp/([1-7])/dev/({'|'.join(GENERATORS)})")


def ids() -> list[str]:
    """Return the ids of all datasets.

    ``lamp/4/dev`` is the split by users, ``lamp/time/4/dev`` the split by time, and
    ``lamp/4/dev/flan-t5-small`` the queries with utility labels for that generator.
    """
    parts = itertools.product(("", "time/"), TASKS, SPLITS)
    return [f"lamp/{by}{task}/{split}" for by, task, split in parts] + [
        f"lamp/{task}/dev/{model}" for task, model in itertools.product(TASKS, GENERATORS)
    ]


def build(dataset_id: str, sources: Table | None = None) -> Any:
    """Return the dataset of an id; nothing is read or downloaded before it is used.

    Files that lie already in the data folder of ir_datasets (``~/.ir_datasets`` or
    ``$IR_DATASETS_HOME``), as ``lamp/4/dev/dev_questions.json`` and ``dev_outputs.json``, are
    used as they are. The archives with utility labels have no address that a program may use: put
    the files of ``lamp/4/dev/flan-t5-small`` into the folder of that name, or those of all tasks
    into the folder ``lamp/flan-t5-small``.

    Args:
        dataset_id: one of `ids`.
        sources: the table of addresses (default: the package's); the form of
            ``fairtk/datasets/downloads.json``.

    Returns:
        An ``ir_datasets.Dataset`` with docs, queries and scoreddocs.

    Raises:
        NotFoundError: no such id.
        DownloadError: later, on use: a file cannot be had.
    """
    matched = _ID.fullmatch(dataset_id)
    if matched is None:
        raise NotFoundError("LaMP dataset", dataset_id, ids())
    if matched[4]:
        return _labeled(dataset_id, int(matched[4]), matched[5])
    task, split = int(matched[2]), matched[3]
    return _assemble(
        dataset_id,
        QuestionsFile(partial(fetch, dataset_id, f"{split}_questions.json", sources), task),
        OutputsFile(partial(fetch, dataset_id, f"{split}_outputs.json", sources), task),
    )


def from_folder(
    path: str | PathLike[str],
    task: int = 4,
    split: str = "dev",
    *,
    golds: bool = True,
    use_date: bool = False,
) -> Any:
    """Return the dataset in a local folder with LaMP's official files.

    Args:
        path: a folder with ``{split}_questions.json`` and ``{split}_outputs.json``, in
            it or in its subfolder ``{split}``; or one with the utility labels of *Towards Fair
            RAG*: ``{task}_user_{split}_inputs.json``, ``..._outputs.json`` and
            ``{task}_relevance_mapping.tsv``, which become qrels with docno ``qid/pid``.
        task: 1 to 7.
        split: in the files' names: ``"dev"``, ``"train"``, ``"test"``.
        golds: whether there are gold outputs. Without them (LaMP's test split) the queries have no
            ``gold_answer``, rather than an empty one that would be scored.
        use_date: whether the retrieval text of a document ends in ``" date: "`` and its date.

    Returns:
        An ``ir_datasets.Dataset`` with docs, queries, scoreddocs and, with labels, qrels; files
        are read on first use. Its ``dataset_id()`` is ``lamp/<task>/<split>:<path>``.

    Raises:
        NotFoundError: no such task.
        FormatError: a file is missing; later, on use: one is malformed (names file and entry).
    """
    task = check_task(task)
    folder = Path(path).expanduser().resolve()
    dated = " with dates" if use_date else ""
    places = find(folder, task, split, golds)
    outputs = None
    if places.outputs is not None:
        outputs = OutputsFile(partial(Path, places.outputs), task)
    questions = QuestionsFile(partial(Path, places.questions), task, use_date)
    labels = None if places.labels is None else partial(Path, places.labels)
    return _assemble(f"lamp/{task}/{split}:{folder}{dated}", questions, outputs, labels)


def _labeled(dataset_id: str, task: int, model: str) -> Any:
    """Return the dataset with the utility labels for a generator, from the data folder."""

    def place(what: str) -> Path:
        home = Path(ir_datasets.util.home_path())
        own, shared = home / dataset_id, home / "lamp" / model
        folder = own if own.exists() else shared
        if not folder.exists():
            raise DownloadError(
                f"{dataset_id} is not in {home}: unpack the archive of {model} from the folder "
                f"data/ of https://github.com/kimdanny/Fair-RAG to {shared}, or load it from "
                f"elsewhere with fairtk.datasets.lamp.from_folder(path, task={task})"
            )
        file: Path | None = getattr(find(folder, task, "dev", golds=True), what)
        if file is None:
            raise FormatError(f"expected {task}_relevance_mapping.tsv, the labels", folder)
        return file

    return _assemble(
        dataset_id,
        QuestionsFile(partial(place, "questions"), task),
        OutputsFile(partial(place, "outputs"), task),
        partial(place, "labels"),
    )


def _assemble(
    dataset_id: str,
    questions: QuestionsFile,
    outputs: OutputsFile | None,
    labels: Callable[[], Path] | None = None,
) -> Any:
    by = "time" if dataset_id.startswith("lamp/time/") else "user"
    entries = [("tasks", str(questions.task)), ("separation", by), ("all",)]
    entries += [] if labels is None else [("labeled",)]
    return named(
        dataset_id,
        LampDocs(questions),
        LampQueries(questions, outputs),
        LampScoredDocs(questions),
        *([] if labels is None else [LampQrels(labels, questions)]),
        Documentation("fairtk.datasets.lamp", *entries),
    )


_LICENSE = "CC BY-NC-SA 4.0 (LaMP)"
_LICENSES = {
    6: f"{_LICENSE}; Avocado Research Email Collection (LDC2015T03), which needs a license of the "
    "LDC"
}


def task_of(dataset: Any) -> int:
    """Return the number of the LaMP task that a dataset's documents are of.

    Args:
        dataset: an ``ir_datasets.Dataset``.

    Raises:
        InputError: it is not of LaMP.
    """
    cls = dataset.docs_cls() if dataset.has_docs() else None
    tasks = [task for task, documents in DOC_TYPES.items() if documents is cls]
    if not tasks:
        raise InputError(
            "expected a LaMP dataset (lamp/4/dev, or fairtk.datasets.lamp.from_folder(...)); the "
            f"documents found are {getattr(cls, '__name__', 'none')}"
        )
    return tasks[0]


def license_of(dataset: Any) -> str | None:
    """Return under which license a dataset's data stand; None: it is not of LaMP.

    A folder may hold other data in LaMP's form, which is said.

    Args:
        dataset: an ``ir_datasets.Dataset``.
    """
    try:
        license = _LICENSES.get(task_of(dataset), _LICENSE)
    except InputError:
        return None
    return f"{license}, if these are LaMP's own files" if ":" in dataset.dataset_id() else license


def write_folder(
    dataset: Any, qrels: pd.DataFrame, folder: str | PathLike[str], split: str = "dev"
) -> Path:
    """Write the labeled queries of a dataset as a test collection.

    The files are ``{task}_user_{split}_inputs.json``, ``..._outputs.json`` and
    ``{task}_relevance_mapping.tsv``, the form of the published labels;
    ``fairtk.datasets.lamp.from_folder(folder, task)`` reads them as a dataset with docs, queries,
    qrels and scoreddocs.

    Args:
        dataset: an ``ir_datasets.Dataset`` of LaMP, with gold answers and without dates in texts.
        qrels: ``qid``, ``docno`` (``qid/pid``), ``label``; queries without labels are left out.
        folder: where to; made if it is not there.
        split: in the names of the files.

    Returns:
        The folder.

    Raises:
        InputError: the dataset is not of LaMP, or lacks a labeled query.
    """
    require(qrels, [QID, DOCNO, LABEL], "lamp.write_folder (qrels)")
    task = task_of(dataset)
    qids = dict.fromkeys(qrels[QID])
    queries = {q.query_id: q for q in dataset.queries_iter() if q.query_id in qids}
    lacking = [qid for qid in qids if qid not in queries]
    if lacking:
        raise InputError(
            f"lamp.write_folder: {len(lacking)} labeled queries are not in the dataset "
            f"({listed(lacking)})"
        )
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    stem = f"{task}_user_{split}"
    with atomic_text(place / f"{stem}_inputs.json") as stream:
        written = 0
        for qid, docs in groupby(dataset.docs_iter(), lambda doc: doc.doc_id.partition("/")[0]):
            if qid not in queries:
                continue
            entry = {
                "id": qid,
                "input": queries[qid].question,
                "profile": [to_entry(task, doc) for doc in docs],
            }
            stream.write(("[\n" if not written else ",\n") + json.dumps(entry, ensure_ascii=False))
            written += 1
        stream.write("\n]\n" if written else "[]\n")
    with atomic_text(place / f"{stem}_outputs.json") as stream:
        golds = [{"id": q.query_id, "output": q.gold_answer} for q in queries.values()]
        json.dump({"task": f"LaMP_{task}", "golds": golds}, stream, ensure_ascii=False)
    mapping = pd.DataFrame(
        {
            QID: qrels[QID].to_numpy(),
            "pid": [docno.partition("/")[2] for docno in qrels[DOCNO]],
            "relevance_label": qrels[LABEL].to_numpy(),
        }
    )
    write_table(mapping, place / f"{task}_relevance_mapping.tsv")
    return place
