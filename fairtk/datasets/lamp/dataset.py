"""Puts a LaMP dataset together, from the official addresses or from a local folder."""

from __future__ import annotations

import itertools
import re
from functools import partial
from importlib.resources import files
from os import PathLike
from pathlib import Path
from typing import Any

import ir_datasets
from ir_datasets.util.metadata import MetadataComponent

from fairtk.datasets.download import Table, fetch
from fairtk.datasets.lamp.handlers import LampDocs, LampQueries, LampScoredDocs
from fairtk.datasets.lamp.reading import OutputsFile, QuestionsFile
from fairtk.datasets.lamp.records import TASKS, check_task
from fairtk.errors import FormatError, NotFoundError

SPLITS = ("dev", "train")
"""The splits with gold outputs."""

_ID = re.compile(r"lamp/(time/)?([1-7])/(dev|train)")


def ids() -> list[str]:
    """Return the ids of the datasets with official addresses.

    ``lamp/4/dev`` is the split by users, ``lamp/time/4/dev`` the split by time.
    """
    parts = itertools.product(("", "time/"), TASKS, SPLITS)
    return [f"lamp/{by}{task}/{split}" for by, task, split in parts]


def build(dataset_id: str, sources: Table | None = None) -> Any:
    """Return the dataset of an id; nothing is read or downloaded before it is used.

    Files that lie already in the data folder of ir_datasets (``~/.ir_datasets`` or
    ``$IR_DATASETS_HOME``), as ``lamp/4/dev/dev_questions.json`` and ``dev_outputs.json``, are
    used as they are.

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
        path: a folder with ``{split}_questions.json`` and ``{split}_outputs.json``, in it or in its
            subfolder ``{split}``.
        task: 1 to 7.
        split: the files' prefix: ``"dev"``, ``"train"``, ``"test"``.
        golds: whether there are gold outputs. Without them (LaMP's test split) the queries have no
            ``gold_answer``, rather than an empty one that would be scored.
        use_date: whether the retrieval text of a document ends in ``" date: "`` and its date.

    Returns:
        An ``ir_datasets.Dataset`` with docs, queries and scoreddocs; the files are read on first
        use. Its ``dataset_id()`` is ``lamp/<task>/<split>:<folder>``.

    Raises:
        NotFoundError: no such task.
        FormatError: the folder lacks a file; later, on use: a file is malformed (names the file
            and the entry).
    """
    task = check_task(task)
    folder = Path(path).expanduser().resolve()
    questions = _find(folder, f"{split}_questions.json", split)
    outputs = None
    if golds:
        found = _find(folder, f"{split}_outputs.json", split)
        outputs = OutputsFile(partial(Path, found), task)
    dated = " with dates" if use_date else ""
    return _assemble(
        f"lamp/{task}/{split}:{folder}{dated}",
        QuestionsFile(partial(Path, questions), task, use_date),
        outputs,
    )


class LampDocumentation:
    """What ir_datasets' documentation says of one dataset (from ``documentation.yaml``)."""

    def __init__(self, task: int, dataset_id: str) -> None:
        self._task = task
        self._id = dataset_id

    def documentation(self) -> dict[str, str]:
        """Return name, description, meaning of the labels, and citation."""
        yaml = ir_datasets.lazy_libs.yaml()
        text = (files("fairtk.datasets.lamp") / "documentation.yaml").read_text(encoding="utf-8")
        content = yaml.load(text, Loader=yaml.BaseLoader)
        by = "time" if self._id.startswith("lamp/time/") else "user"
        own = dict(content["tasks"][str(self._task)])
        parts = own["desc"], content["separation"][by], content["all"]["desc"]
        own["desc"] = " ".join(part.strip() for part in parts)
        return {key: value.strip() for key, value in {**content["all"], **own}.items()}


def _assemble(dataset_id: str, questions: QuestionsFile, outputs: OutputsFile | None) -> Any:
    dataset = ir_datasets.Dataset(
        LampDocs(questions),
        LampQueries(questions, outputs),
        LampScoredDocs(questions),
        LampDocumentation(questions.task, dataset_id),
    )
    return ir_datasets.Dataset(MetadataComponent(dataset_id, dataset), dataset)


def _find(folder: Path, name: str, split: str) -> Path:
    for place in (folder / name, folder / split / name):
        if place.is_file():
            return place
    if not folder.is_dir():
        raise FormatError(f"expected a folder with {name}; there is no such folder", folder)
    there = sorted(p.name for p in folder.iterdir())[:8]
    hint = "" if "questions" in name else "; without gold outputs, load it with golds=False"
    raise FormatError(f"expected {name} in the folder; found {there}{hint}", folder)
