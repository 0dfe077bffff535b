"""Puts a dataset together, from the official addresses or from a local folder."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

import ir_datasets

from fairtk.datasets.fetching import Table
from fairtk.datasets.parts import Documentation, named
from fairtk.datasets.trec_fair.files import OFFICIAL, Files, FolderFiles, OfficialFiles, Part
from fairtk.datasets.trec_fair.handlers import (
    TopicsFile,
    TrecFairDocs,
    TrecFairQrels,
    TrecFairQueries,
)
from fairtk.errors import FormatError, InputError, NotFoundError
from fairtk.io.dataset_ids import resolve_dataset

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
