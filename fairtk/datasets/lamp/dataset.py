"""Puts a LaMP dataset together, from the official addresses or from a local folder."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import ir_datasets

from fairtk.datasets.fetching import Table, fetch
from fairtk.datasets.lamp.handlers import LampDocs, LampQrels, LampQueries, LampScoredDocs
from fairtk.datasets.lamp.outputs import OutputsFile
from fairtk.datasets.lamp.places import find
from fairtk.datasets.lamp.questions import QuestionsFile
from fairtk.datasets.lamp.reading import OnBad
from fairtk.datasets.lamp.records import TASKS, check_task
from fairtk.datasets.parts import Documentation, named
from fairtk.errors import DownloadError, FormatError, NotFoundError

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
    the files of ``lamp/4/dev/flan-t5-small`` into the folder of that name, or the archive of all
    tasks into ``lamp/`` as ``flan-t5-small.zip`` or as the folder ``flan-t5-small``.

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
    on_bad: OnBad = "error",
) -> Any:
    """Return the dataset in a local folder, or zip archive, with LaMP's official files.

    Args:
        path: a folder or archive with ``{split}_questions.json`` and ``{split}_outputs.json``, in
            it or in its subfolder ``{split}``; or one with the utility labels of *Towards Fair
            RAG*: ``{task}_user_{split}_inputs.json``, ``..._outputs.json`` and
            ``{task}_relevance_mapping.tsv``, which become qrels with docno ``qid/pid``.
        task: 1 to 7.
        split: in the files' names: ``"dev"``, ``"train"``, ``"test"``.
        golds: whether there are gold outputs. Without them (LaMP's test split) the queries have no
            ``gold_answer``, rather than an empty one that would be scored.
        use_date: whether the retrieval text of a document ends in ``" date: "`` and its date.
        on_bad: ``"skip"`` leaves out malformed entries, counted and named in a warning.

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
        outputs = OutputsFile(partial(Path, places.outputs), task, on_bad)
    questions = QuestionsFile(partial(Path, places.questions), task, use_date, on_bad, outputs)
    labels = None if places.labels is None else partial(Path, places.labels)
    return _assemble(f"lamp/{task}/{split}:{folder}{dated}", questions, outputs, labels)


def _labeled(dataset_id: str, task: int, model: str) -> Any:
    """Return the dataset with the utility labels for a generator, from the data folder."""

    def place(what: str) -> Path:
        home = Path(ir_datasets.util.home_path())
        own, shared = home / dataset_id, home / "lamp" / model
        there = [p for p in (own, shared, shared.with_suffix(".zip")) if p.exists()]
        if not there:
            raise DownloadError(
                f"{dataset_id} is not in {home}: take the archive of {model} from the folder data/ "
                f"of https://github.com/kimdanny/Fair-RAG and put it there as {shared}.zip (or "
                f"unpacked as {shared}), or load it from elsewhere with "
                f"fairtk.datasets.lamp.from_folder(path, task={task})"
            )
        found: Path | None = getattr(find(there[0], task, "dev", golds=True), what)
        if found is None:
            raise FormatError(f"expected {task}_relevance_mapping.tsv, the labels", there[0])
        return found

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
