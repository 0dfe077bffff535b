"""LaMP as ir_datasets datasets, from the official URLs or a local folder."""

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
    make_dataset,
)
from fairtk.errors import DownloadError, FormatError, InputError, NotFoundError
from fairtk.frames import DOCNO, LABEL, QID, require_columns
from fairtk.frames.schema import INTEGER
from fairtk.io.atomic import atomic_text
from fairtk.io.rows import read_table
from fairtk.io.tables import write_table
from fairtk.wording import format_list


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
        """Return the store of the documents; ``options`` is ignored."""
        return LampDocstore(self._file, field)


class LampDocstore(Docstore):  # type: ignore[misc]
    """The documents by docno, read from their query's byte range in the file."""

    def __init__(self, file: QuestionsFile, field: str = "doc_id") -> None:
        super().__init__(DOC_TYPES[file.task], field)
        self._file = file

    def get_many_iter(self, doc_ids: Iterable[str]) -> Iterator[Any]:
        """Yield the existing documents, query by query."""
        id_set = dict.fromkeys(doc_ids)  # in order
        questions = self._file.questions()
        qids = dict.fromkeys(docno.partition("/")[0] for docno in id_set)
        profiles = self._file.profiles(qid for qid in qids if qid in questions)
        return chain.from_iterable([d for d in docs if d.doc_id in id_set] for docs in profiles)

    def count(self) -> int:
        """Return the number of documents."""
        return self._file.docs_count()

    def __iter__(self) -> DocsIter:
        return DocsIter(self._file.numbered_docs, self._file.docs_count)


class LampQueries(FileQueries):
    """The queries, with gold answers if there are outputs."""

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
    """The profile entries of each query as candidates, all with score 0."""

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
"""The meanings of the labels."""


class LampQrels(FileQrels):
    """Published utility labels of the profile entries (Kim and Diaz, Towards Fair RAG, App. B).

    ``{task}_relevance_mapping.tsv`` has the columns ``qid``, ``pid`` and ``relevance_label``; the
    docno is ``qid/pid``.
    """

    def __init__(self, path: Callable[[], Path], questions: QuestionsFile) -> None:
        super().__init__(path, LABELS)
        self._questions = questions
        self._labels = ReadOnce(path, self._read)

    def qrels_iter(self) -> Iterator[TrecQrel]:
        """Yield the labels in file order; raise a `FormatError` for an unknown document."""
        return iter(self._labels())

    def qrels_count(self) -> int:
        """Return the number of labels."""
        return len(self._labels())

    def _read(self, path: Path) -> list[TrecQrel]:
        rows = read_table(path)
        rows.require([QID, DOCNO, LABEL], "a relevance mapping")
        rows.as_ids(QID, DOCNO)
        rows.as_numbers(LABEL, rule=INTEGER)
        rows.unique([QID, DOCNO], "duplicate label")
        qids, pids = rows.frame[QID].tolist(), rows.frame[DOCNO].tolist()
        docnos = [f"{qid}/{pid}" for qid, pid in zip(qids, pids, strict=True)]
        questions = self._questions.questions()
        candidates = {docno for question in questions.values() for docno in question.docnos}
        unknown = [row for row, docno in enumerate(docnos) if docno not in candidates]
        if unknown:
            row = unknown[0]
            rows.fail(
                row,
                f"the labeled qid {qids[row]!r}, docno {docnos[row]!r} is missing from the "
                f"questions in {self._questions.path()} ({len(unknown)} such labels): the files "
                "are of different splits or tasks",
            )
        labels = rows.frame[LABEL].tolist()
        return [TrecQrel(*row, "0") for row in zip(qids, docnos, labels, strict=True)]


SPLITS = ("dev", "train")
"""The splits with gold outputs."""

GENERATORS = ("flan-t5-small", "flan-t5-base", "flan-t5-xxl")
"""The generators with utility labels published by *Towards Fair RAG*."""

_ID = re.compile(rf"lamp/(time/)?([1-7])/(dev|train)|lamp/([1-7])/dev/({'|'.join(GENERATORS)})")


def ids() -> list[str]:
    """Return the ids of LaMP's datasets.

    ``lamp/4/dev`` is split by users, ``lamp/time/4/dev`` by time; ``lamp/4/dev/flan-t5-small`` has
    utility labels for that generator.
    """
    parts = itertools.product(("", "time/"), TASKS, SPLITS)
    return [f"lamp/{by}{task}/{split}" for by, task, split in parts] + [
        f"lamp/{task}/dev/{model}" for task, model in itertools.product(TASKS, GENERATORS)
    ]


def build(dataset_id: str, sources: Table | None = None) -> Any:
    """Return the dataset of an id; its files are downloaded and read on first use.

    Files are in the data folder of ir_datasets (``~/.ir_datasets`` or ``$IR_DATASETS_HOME``), e.g.
    ``lamp/4/dev/dev_questions.json``. The archives with utility labels must be downloaded manually:
    put the files of ``lamp/4/dev/flan-t5-small`` into the folder of that name, or those of all
    tasks into ``lamp/flan-t5-small``.

    Args:
        dataset_id: one of `ids`.
        sources: a table of URLs; `None` for the packaged one.

    Returns:
        An ``ir_datasets.Dataset`` with docs, queries, scoreddocs and, with labels, qrels. On first
        use, it raises a `DownloadError` if a file cannot be downloaded.

    Raises:
        NotFoundError: the id is unknown.
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
        path: a folder (or one with a subfolder ``{split}``) with ``{split}_questions.json`` and
            ``{split}_outputs.json``; or with the files of *Towards Fair RAG*,
            ``{task}_user_{split}_inputs.json``, ``{task}_user_{split}_outputs.json`` and
            ``{task}_relevance_mapping.tsv``, whose utility labels become qrels.
        task: 1 to 7.
        split: the split in the file names: ``"dev"``, ``"train"``, ``"test"``.
        golds: whether there are gold outputs; without them (LaMP's test split), queries have no
            field ``gold_answer``.
        use_date: whether to append ``" date: "`` and the date to the text of documents.

    Returns:
        An ``ir_datasets.Dataset`` with docs, queries, scoreddocs and, with labels, qrels; docnos
        are ``qid/pid``. Files are read on first use; an invalid file raises a `FormatError` then.
        Its ``dataset_id()`` is ``lamp/<task>/<split>:<path>``.

    Raises:
        NotFoundError: the task is unknown.
        FormatError: a file is missing.
    """
    task = check_task(task)
    folder = Path(path).expanduser().resolve()
    dated = " with dates" if use_date else ""
    files = find(folder, task, split, golds)
    outputs = None
    if files.outputs is not None:
        outputs = OutputsFile(partial(Path, files.outputs), task)
    questions = QuestionsFile(partial(Path, files.questions), task, use_date)
    labels = None if files.labels is None else partial(Path, files.labels)
    return _assemble(f"lamp/{task}/{split}:{folder}{dated}", questions, outputs, labels)


def _labeled(dataset_id: str, task: int, model: str) -> Any:
    """Return the dataset with the utility labels for a generator, from the data folder."""

    def path_of(part: str) -> Path:
        home = Path(ir_datasets.util.home_path())
        folder, shared = home / dataset_id, home / "lamp" / model
        folder = folder if folder.exists() else shared
        if not folder.exists():
            raise DownloadError(
                f"{dataset_id} is missing in {home}; unpack the archive of {model} from data/ of "
                f"https://github.com/kimdanny/Fair-RAG to {shared}, or load another folder with "
                f"fairtk.datasets.lamp.from_folder(path, task={task})"
            )
        file: Path | None = getattr(find(folder, task, "dev", golds=True), part)
        if file is None:
            raise FormatError(f"missing labels, {task}_relevance_mapping.tsv", folder)
        return file

    return _assemble(
        dataset_id,
        QuestionsFile(partial(path_of, "questions"), task),
        OutputsFile(partial(path_of, "outputs"), task),
        partial(path_of, "labels"),
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
    return make_dataset(
        dataset_id,
        LampDocs(questions),
        LampQueries(questions, outputs),
        LampScoredDocs(questions),
        *([] if labels is None else [LampQrels(labels, questions)]),
        Documentation("fairtk.datasets.lamp", *entries),
    )


_LICENSE = "CC BY-NC-SA 4.0 (LaMP)"
_LICENSES = {
    6: f"{_LICENSE}; Avocado Research Email Collection (LDC2015T03), which requires a license of "
    "the LDC"
}


def get_task(dataset: Any) -> int:
    """Return the number of a dataset's LaMP task.

    Args:
        dataset: an ``ir_datasets.Dataset``.

    Raises:
        InputError: this is not a LaMP dataset.
    """
    cls = dataset.docs_cls() if dataset.has_docs() else None
    tasks = [task for task, documents in DOC_TYPES.items() if documents is cls]
    if not tasks:
        raise InputError(
            "expected a LaMP dataset (lamp/4/dev, or fairtk.datasets.lamp.from_folder(...)), got "
            f"{getattr(cls, '__name__', 'no documents')}"
        )
    return tasks[0]


def get_license(dataset: Any) -> str | None:
    """Return the license of a LaMP dataset's data; `None` for another dataset.

    For a local folder, the text ends with "if these are LaMP's files".

    Args:
        dataset: an ``ir_datasets.Dataset``.
    """
    try:
        license = _LICENSES.get(get_task(dataset), _LICENSE)
    except InputError:
        return None
    return f"{license}, if these are LaMP's files" if ":" in dataset.dataset_id() else license


def write_folder(
    dataset: Any, qrels: pd.DataFrame, folder: str | PathLike[str], split: str = "dev"
) -> Path:
    """Write the labeled queries of a dataset as a test collection.

    The files are those of *Towards Fair RAG*, with utility labels; see `from_folder`, which reads
    them.

    Args:
        dataset: an ``ir_datasets.Dataset`` of LaMP, with gold answers and ``use_date=False``.
        qrels: ``qid``, ``docno`` (``qid/pid``) and ``label``; queries without labels are left out.
        folder: the folder; created if it does not exist.
        split: the split in the file names.

    Returns:
        The folder.

    Raises:
        ColumnError: a column is missing.
        InputError: this is not a LaMP dataset, or a labeled query is missing from it.
    """
    require_columns(qrels, [QID, DOCNO, LABEL], "lamp.write_folder (qrels)")
    task = get_task(dataset)
    qids = dict.fromkeys(qrels[QID])
    queries = {q.query_id: q for q in dataset.queries_iter() if q.query_id in qids}
    missing = [qid for qid in qids if qid not in queries]
    if missing:
        raise InputError(
            f"lamp.write_folder: {len(missing)} labeled queries ({format_list(missing)}) are "
            "missing from the dataset"
        )
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{task}_user_{split}"
    with atomic_text(folder / f"{stem}_inputs.json") as stream:
        n_written = 0
        for qid, docs in groupby(dataset.docs_iter(), lambda doc: doc.doc_id.partition("/")[0]):
            if qid not in queries:
                continue
            entry = {
                "id": qid,
                "input": queries[qid].question,
                "profile": [to_entry(task, doc) for doc in docs],
            }
            separator = ",\n" if n_written else "[\n"
            stream.write(separator + json.dumps(entry, ensure_ascii=False))
            n_written += 1
        stream.write("\n]\n" if n_written else "[]\n")
    with atomic_text(folder / f"{stem}_outputs.json") as stream:
        golds = [{"id": q.query_id, "output": q.gold_answer} for q in queries.values()]
        json.dump({"task": f"LaMP_{task}", "golds": golds}, stream, ensure_ascii=False)
    mapping = pd.DataFrame(
        {
            QID: qrels[QID].to_numpy(),
            "pid": [docno.partition("/")[2] for docno in qrels[DOCNO]],
            "relevance_label": qrels[LABEL].to_numpy(),
        }
    )
    write_table(mapping, folder / f"{task}_relevance_mapping.tsv")
    return folder
