"""Groups and official targets of the articles, for 2022 and 2021, and ideal runs.

The collection of 2021 is in ir_datasets (``trec-fair/2021/train`` and ``trec-fair/2021/eval``), but
without its second attribute, gender. The rules for 2021 follow the track's code
(fair-trec/trec2021-fair-public): an article of two continents counts fully for both; an article
without continents is left out; a topic's target is the mean of its relevant articles' shares and
the world's population.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import reduce
from operator import mul
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fairtk import checks
from fairtk.datasets.trec_fair.dataset import (
    Files,
    FolderFiles,
    Part,
    files_of,
    from_folder,
    is_folder,
)
from fairtk.datasets.trec_fair.metadata import (
    DIMENSIONS,
    NONE,
    Column,
    Dimension,
    Pages,
    backgrounds,
    dimension,
    load_pages,
)
from fairtk.datasets.trec_fair.topics import qrels_of
from fairtk.errors import FormatError, InputError, ParameterError, warn
from fairtk.exposure import TREC
from fairtk.frames import DOCNO, GROUP, QID, RANK, SCORE, IntArray, ObjectArray, Qrels
from fairtk.frames.ids import as_strings
from fairtk.groups import Groups, Target, background
from fairtk.groups.divergences import js_parts
from fairtk.groups.groups import rows_of
from fairtk.groups.levels import OFFICIAL_TARGETS, LevelSpace
from fairtk.io import resolve_dataset
from fairtk.io.qrels import dataset_qrels
from fairtk.wording import format_list


def dimensions(source: Any = None) -> tuple[str, ...]:
    """Return the names of the official fairness dimensions, in the track's order.

    Args:
        source: see `groups`; returns the dimensions in its metadata. `None` for all eight.
    """
    if source is None:
        return tuple(DIMENSIONS)
    pages = load_pages(_metadata(files_of(source, "dimensions"), None), DIMENSIONS)
    return tuple(name for name in DIMENSIONS if name in pages.columns)


def levels(name: str) -> tuple[str, ...]:
    """Return the official levels of a dimension; the unknown level, if any, is first.

    Raises:
        NotFoundError: the dimension is unknown.
    """
    return dimension(name).levels


def groups(source: Any, *names: str, assessed: bool | None = None) -> Groups:
    """Return the groups of all articles, by the rules of the track's evaluation.

    The first call reads the metadata (237 MB) and caches them as Parquet. Levels are the official
    ones, even without articles, then other levels of the metadata. In ``alpha``, ``age``, ``pop``
    and ``langs``, an article without a value has no row.

    Args:
        source: a dataset id (``"trec-fair/2022/eval"``), a dataset, a folder with the metadata, or
            the metadata file.
        names: one dimension, or several to cross in this order; all eight by default.
        assessed: whether to use the file with assessed quality; `None` for the existing file.

    Raises:
        NotFoundError: a dimension is unknown.
        FormatError: the metadata are missing or invalid, or have no such dimension.
    """
    chosen = _chosen(names)
    path = _metadata(files_of(source, "groups"), assessed)
    pages = load_pages(path, chosen)
    documents = pd.Index(pages.ids)
    dimension_groups = []
    for name in chosen:
        if name not in pages.columns:
            raise FormatError(
                f"the metadata do not contain {name!r} (no record has the key "
                f"{DIMENSIONS[name].key!r})",
                path,
            )
        column = pages.columns.pop(name)  # so that its memory is freed below
        dimension_groups.append(_groups_of(column, DIMENSIONS[name], documents))
        del column
    return reduce(mul, dimension_groups)


def targets(
    source: Any,
    *names: str,
    task: int | None = None,
    split: str | None = None,
    assessed: bool | None = None,
) -> Target:
    """Return the track's official target distributions for the topics of a dataset.

    In Task 1, this is the mean of the groups of the relevant articles; in Task 2, the mean weighted
    by the work needed (`fairtk.Target.from_work_needed`). For ``sub-geo``, ``src-geo`` and
    ``gender``, the known part is averaged with the track's background (`fairtk.groups.background`).

    Args:
        source: a dataset id, a dataset, or a folder with topics and metadata.
        names: one dimension, or several for the joint target; all eight by default.
        task: 1 (coordinators; one ranking per topic, measured by nDCG x AWRF) or 2 (editors; many
            rankings per topic, measured by EE-L). Required, because the targets differ.
        split: the topics of a folder: ``"train"`` (the default) or ``"eval"``.
        assessed: see `groups`.

    Raises:
        ParameterError: the task is missing or unknown, or `split` is given for a dataset.
        NotFoundError: a dimension is unknown.
        FormatError: see `groups`.
    """
    if task is None or isinstance(task, bool) or task not in OFFICIAL_TARGETS.values():
        problem = "is required" if task is None else f"must be 1 or 2, got {task!r}"
        raise ParameterError(
            f"targets: task {problem}; write task=1 (coordinators, measured by nDCG_AWRF) or "
            "task=2 (editors, measured by EE_L)"
        )
    labels, files = qrels(source, split, "targets")
    attributes = groups(source, *names, assessed=assessed)
    return official_target(labels, attributes, _metadata(files, assessed), task)


def official_target(
    labels: pd.DataFrame | Qrels, attributes: Groups, metadata: Path, task: int
) -> Target:
    """Return the official target of a task.

    Args:
        labels: the relevant articles of each topic.
        attributes: the groups of the articles, from the metadata.
        metadata: the metadata file, which has the work needed (Task 2).
        task: 1 or 2.
    """
    labeled = labels if isinstance(labels, Qrels) else Qrels(labels, "targets")
    shares: Any = backgrounds(attributes.space.names)
    if not attributes.space.crossed:
        shares = shares.get(attributes.name)
    if task == 1:
        target = Target.from_qrels(labeled, attributes, background=shares or None)
    else:
        pages = load_pages(metadata, ())
        work = _work(pages, pd.Index(pages.ids), labeled.docnos)
        target = Target.from_work_needed(labeled, attributes, work, background=shares or None)
    name = next(name for name, number in OFFICIAL_TARGETS.items() if number == task)
    return replace(target, name=name)


def work_needed(
    source: Any, docnos: Iterable[str] | None = None, *, assessed: bool | None = None
) -> pd.Series:
    """Return the quality class of articles (Stub, Start, C, B, GA, FA: most work needed first).

    Args:
        source: see `groups`.
        docnos: the articles; `None` for all.
        assessed: see `groups`.

    Returns:
        The classes by docno; articles without a class are left out.
    """
    pages = load_pages(_metadata(files_of(source, "work_needed"), assessed), ())
    documents = pd.Index(pages.ids)
    return _work(
        pages,
        documents,
        as_strings(documents) if docnos is None else checks.listed("docnos", docnos),
    )


def _work(pages: Pages, documents: pd.Index, docnos: Any) -> pd.Series:
    names = np.array(list(docnos), dtype=object)
    row = rows_of(documents, names)
    code = np.where(row >= 0, pages.work[row] if len(pages.work) else NONE, NONE)
    has_class = code != NONE
    classes = np.array(pages.work_levels, dtype=object)[code[has_class]]
    index = pd.Index(names[has_class], dtype="str", name=DOCNO)
    return pd.Series(classes, index=index, dtype="str", name="work")


def _chosen(names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if not isinstance(name, str):
            raise ParameterError(f"the name of a dimension must be a string, got {name!r}")
        dimension(name)
        if names.count(name) > 1:
            raise ParameterError(f"the dimension {name!r} cannot be crossed with itself")
    return names or tuple(DIMENSIONS)


def _metadata(files: Files, assessed: bool | None) -> Any:
    part: Part = "assessed" if assessed else "metadata"
    if (
        assessed is None
        and isinstance(files, FolderFiles)
        and not files.has("metadata")
        and files.has("assessed")
    ):
        part = "assessed"
    return files.path(part)


def _groups_of(column: Column, of: Dimension, documents: pd.Index) -> Groups:
    additional = column.levels[len(of.levels) :]
    if additional and not of.open:
        warn(
            f"the metadata have unofficial levels of {of.name!r}: {format_list(additional)}; they "
            "are additional groups",
            stacklevel=3,
        )
    from scipy import sparse

    size = np.diff(column.start)
    members, start = documents, column.start
    if not size.all():  # a page without a value has no row
        members = documents[size > 0]
        size = size[size > 0]
        start = np.concatenate([start[:1], np.cumsum(size, dtype=start.dtype)])
    weight = np.ones(len(column.level)) if column.weight is None else column.weight
    if of.normalized and len(size):
        weight = weight / np.repeat(np.add.reduceat(weight, start[:-1]), size)
    shape = (len(members), len(column.levels))
    matrix = sparse.csr_array((weight, column.level, start), shape=shape)
    space = LevelSpace((of.name,), (column.levels,), (of.unknown,))
    return Groups(space, (members,), (matrix,))


def qrels(source: Any, split: str | None, where: str) -> tuple[pd.DataFrame, Files]:
    """Return the relevant articles of a dataset's topics, and its files."""
    files = files_of(source, where)
    if is_folder(source):
        dataset = from_folder(source, split or "train")
    elif split is not None:
        raise ParameterError(f"{where}: split is only valid for folders, got a dataset")
    else:
        dataset = resolve_dataset(source, where)
    if hasattr(dataset, "fair_ranking_topics"):
        return qrels_of(dataset.fair_ranking_topics().topics()), files
    if not dataset.has_qrels():
        raise InputError(f"{where}: {source!r} has no topics: use a dataset with topics")
    return dataset_qrels(dataset), files


_MOST_LEVELS = 1 << 12


def oracle_run(
    source: Any,
    cutoff: int = 500,
    groups: Groups | None = None,
    target: Target | None = None,
    split: str | None = None,
) -> pd.DataFrame:
    """Return a run with only relevant articles, whose nDCG is 1.

    Articles are in the order of the topics file. With groups and a target, each rank has the
    article that brings the groups' exposure closest to the target (greedy, by Jensen-Shannon
    divergence with the track's discount), so AWRF is near its maximum.

    Args:
        source: a dataset id, a dataset, or a folder with topics.
        cutoff: the maximum number of ranks per topic.
        groups: the groups of the articles, with at most 4096 levels; requires `target`.
        target: the target of exposure; requires `groups`.
        split: see `fairtk.datasets.trec_fair.targets`.

    Returns:
        A frame R with ``qid``, ``docno``, ``score`` (-rank) and ``rank``.

    Raises:
        ParameterError: the cutoff is below 1, groups or target is missing, or there are too many
            levels.
    """
    checks.integer("cutoff", cutoff, "oracle_run")
    if (groups is None) != (target is None):
        raise ParameterError("oracle_run: groups and target require each other; give both or none")
    if groups is not None and len(groups.levels) > _MOST_LEVELS:
        raise ParameterError(
            f"oracle_run: expected at most {_MOST_LEVELS} levels, got {len(groups.levels)} in "
            f"{groups.name!r}"
        )
    labels, _ = qrels(source, split, "oracle_run")
    parts = []
    for qid, part in labels.groupby(QID, sort=False):
        docnos = part[DOCNO].to_numpy(dtype=object)
        if groups is not None and target is not None:
            docnos = docnos[_order(docnos, groups, target, str(qid), cutoff)]
        docnos = docnos[:cutoff]
        rank = np.arange(len(docnos))
        parts.append(
            pd.DataFrame({QID: qid, DOCNO: docnos, SCORE: -rank.astype(float), RANK: rank})
        )
    if not parts:
        return pd.DataFrame({QID: [], DOCNO: [], SCORE: [], RANK: []})
    run = pd.concat(parts, ignore_index=True)
    return run.astype({QID: "str", DOCNO: "str"})


def _order(docnos: ObjectArray, groups: Groups, target: Target, qid: str, cutoff: int) -> IntArray:
    """Return the greedy order of a topic's articles."""
    fitted = target.for_groups(groups)
    aim = fitted.for_qids([qid]).expanded().dense()[0]
    memberships = groups.memberships(docnos)
    member = fitted.drop_unknown(memberships, [qid] * len(docnos)).dense()
    # articles with equal groups are interchangeable, so only distinct ones are compared
    kinds, kind = np.unique(member, axis=0, return_inverse=True)
    waiting = [list(np.flatnonzero(kind == i)[::-1]) for i in range(len(kinds))]
    left = np.array([len(articles) for articles in waiting])
    weights = TREC().weights(np.arange(cutoff))
    exposure = np.zeros(memberships.n_levels)
    order: list[int] = []
    for rank in range(min(cutoff, len(docnos))):
        after = exposure + weights[rank] * kinds
        mass = after.sum(axis=1)
        shares = after / np.where(mass > 0, mass, 1.0)[:, None]
        parts = js_parts(shares, aim).sum(axis=1)
        distance = np.where((left > 0) & (mass > 0), parts, np.inf)
        best = int(np.argmin(distance))
        exposure = after[best]
        left[best] -= 1
        order.append(int(waiting[best].pop()))
    return np.array(order, dtype=np.int64)


PREFIX = "trec-fair/2021"
WORLD = "trec-2021-world-population"


def geography_2021(source: Any) -> Groups:
    """Return the continents of the articles of 2021.

    Args:
        source: a dataset id (``"trec-fair/2021/eval"``) or dataset.

    Raises:
        InputError: this is another dataset, or a continent is unknown.
    """
    rows: list[tuple[str, str]] = []
    known: set[str] = set()
    for docno, continents in _continents(_of_2021(source, "geography_2021")):
        if docno not in known:  # the first record of an article counts
            known.add(docno)
            rows += [(docno, continent) for continent in dict.fromkeys(continents)]
    frame = pd.DataFrame(rows, columns=[DOCNO, GROUP])
    levels = list(background(WORLD).index)
    return Groups.from_frame(frame, "geography", unknown=None, levels=levels, normalize=False)


def targets_2021(source: Any) -> Target:
    """Return the official target of each topic of 2021, Task 1, by geography.

    Args:
        source: see `geography_2021`; with topics.

    Raises:
        InputError: this is another dataset, or it has no topics.
    """
    dataset = _of_2021(source, "targets_2021")
    if not dataset.has_qrels():
        raise InputError(f"targets_2021: {source!r} has no topics: use {PREFIX}/train or /eval")
    # the track drops duplicate pairs, which a few topics have
    qrels = dataset_qrels(dataset).drop_duplicates([QID, DOCNO])
    target = Target.from_qrels(qrels, geography_2021(dataset), background=background(WORLD))
    return replace(target, name="trec-2021-task-1")


def is_2021(dataset: Any) -> bool:
    """Return whether an ``ir_datasets.Dataset`` is of TREC Fair Ranking 2021."""
    return str(dataset.dataset_id()).startswith(PREFIX)


def _of_2021(source: Any, where: str) -> Any:
    dataset = resolve_dataset(source, where)
    if not is_2021(dataset):
        raise InputError(f"{where} expected {PREFIX}/train or {PREFIX}/eval, got {source!r}")
    return dataset


def _continents(dataset: Any) -> Iterator[tuple[str, list[str]]]:
    """Yield articles and their continents from the metadata.

    Reading the documents of ir_datasets takes hours, and gives articles without metadata those of
    the previous article.
    """
    metadata = getattr(dataset.docs_handler(), "_mlc", None)
    if metadata is None:
        raise InputError(
            "this version of ir_datasets is not supported for TREC Fair Ranking 2021: install "
            "ir_datasets 0.6.3"
        )
    with metadata.stream() as stream:
        for number, line in enumerate(stream, 1):
            try:
                record = json.loads(line)
                yield str(record["page_id"]), list(record["geographic_locations"] or ())
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                raise FormatError(
                    f"expected an article with 'page_id' and 'geographic_locations' ({error!r})",
                    str(metadata.path()),
                    number,
                ) from None
