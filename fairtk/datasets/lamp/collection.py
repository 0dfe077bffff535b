"""Writes LaMP queries with utility labels, as *Towards Fair RAG* published its own."""

from __future__ import annotations

import json
from itertools import groupby
from os import PathLike
from pathlib import Path
from typing import Any

import pandas as pd

from fairtk.datasets.lamp.records import DOC_TYPES, to_entry
from fairtk.errors import InputError, listed
from fairtk.files import atomic_text, write_table
from fairtk.frames.columns import DOCNO, LABEL, QID, require

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
    tasks = [task for task, known in DOC_TYPES.items() if known is cls]
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
        said = _LICENSES.get(task_of(dataset), _LICENSE)
    except InputError:
        return None
    return f"{said}, if these are LaMP's own files" if ":" in dataset.dataset_id() else said


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
    wanted = dict.fromkeys(qrels[QID])
    queries = {q.query_id: q for q in dataset.queries_iter() if q.query_id in wanted}
    lacking = [qid for qid in wanted if qid not in queries]
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
