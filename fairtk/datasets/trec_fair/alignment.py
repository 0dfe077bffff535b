"""Groups and official targets of the articles."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import mul
from typing import Any

import numpy as np
import pandas as pd

from fairtk.datasets.trec_fair.dataset import files_of, from_folder, is_folder
from fairtk.datasets.trec_fair.files import Files, FolderFiles, Part
from fairtk.datasets.trec_fair.metadata import Pages, load_pages
from fairtk.datasets.trec_fair.official import DIMENSIONS, Dimension, backgrounds, dimension
from fairtk.datasets.trec_fair.page_columns import NONE, Column
from fairtk.errors import FormatError, InputError, ParameterError, listed, warn
from fairtk.frames.columns import DOCNO
from fairtk.groups import Groups, Target
from fairtk.groups.attribute import Attribute
from fairtk.groups.documents import Documents
from fairtk.io.dataset_ids import labels_of, resolve_dataset
from fairtk.io.trec_fair_topics import qrels_of


def dimensions(source: Any = None) -> tuple[str, ...]:
    """Return the names of the official dimensions, in the track's order.

    Args:
        source: as in `groups`: only the dimensions that its metadata carry; None: all eight.
    """
    if source is None:
        return tuple(DIMENSIONS)
    pages = load_pages(_metadata(files_of(source, "dimensions"), None), DIMENSIONS)
    return tuple(name for name in DIMENSIONS if name in pages.columns)


def levels(name: str) -> tuple[str, ...]:
    """Return the official levels of a dimension, the unknown one first where there is one.

    Raises:
        NotFoundError: there is no such dimension.
    """
    return dimension(name).levels


def groups(source: Any, *names: str, assessed: bool | None = None) -> Groups:
    """Return the groups of all articles, as the track's evaluation makes them from the metadata.

    The first call reads the metadata (237 MB) and keeps what it found as Parquet next to them (or
    in the data folder of ir_datasets, where their folder cannot be written). Levels are the
    official ones, also where no article has them, and further ones behind them where the metadata
    have such. A page without a value has no row in ``alpha``, ``age``, ``pop`` and ``langs``.

    Args:
        source: a dataset id (``"trec-fair/2022/eval"``), a dataset, or a folder with the metadata.
        names: one dimension, or several that are crossed in this order; none: all eight.
        assessed: whether to use the file with assessed quality; None: the one that is there.

    Raises:
        NotFoundError: there is no such dimension.
        FormatError: the metadata are not there, do not carry a dimension, or are malformed.
    """
    wanted = _wanted(names)
    path = _metadata(files_of(source, "groups"), assessed)
    pages = load_pages(path, wanted)
    documents, _ = Documents.ordered(pages.ids)
    made = []
    for name in wanted:
        if name not in pages.columns:
            raise FormatError(
                f"the metadata do not carry {name!r} (no record has the key "
                f"{DIMENSIONS[name].key!r})",
                path,
            )
        column = pages.columns.pop(name)  # memory goes from the one form into the other
        made.append(Groups([_attribute(column, DIMENSIONS[name], documents)]))
        del column
    return reduce(mul, made)


def targets(
    source: Any,
    *names: str,
    task: int = 1,
    split: str | None = None,
    assessed: bool | None = None,
) -> Target:
    """Return the track's official target distributions for the topics of a data set.

    Task 1: the mean of the groups of the relevant articles; Task 2: the same weighted by the
    exposure they should get by the work they need (`fairtk.Target.from_work_needed`). Where the
    track has a background (world population for regions and sources, .495, .495, .01 for gender),
    the known part is averaged with it.

    Args:
        source: a dataset id, a dataset, or a folder with topics and metadata.
        names: one dimension, or several for the joint target; none: all eight.
        task: 1 (coordinators) or 2 (editors).
        split: the topics of a folder: ``"train"`` (the default) or ``"eval"``.
        assessed: as in `groups`.

    Raises:
        ParameterError: there is no such task, or `split` is given with a dataset.
        NotFoundError, FormatError: as for `groups`.
    """
    if task not in (1, 2):
        raise ParameterError(f"task must be 1 or 2; found {task!r}")
    labels, files = qrels(source, split, "targets")
    attributes = groups(source, *names, assessed=assessed)
    shares: Any = backgrounds(attributes.space.names)
    if len(attributes.factors) == 1:
        shares = shares.get(attributes.name)
    if task == 1:
        return Target.from_qrels(labels, attributes, background=shares or None)
    pages = load_pages(_metadata(files, assessed), ())
    work = _work(pages, Documents.ordered(pages.ids)[0], labels[DOCNO].unique())
    return Target.from_work_needed(labels, attributes, work, background=shares or None)


def work_needed(
    source: Any, docnos: Iterable[str] | None = None, *, assessed: bool | None = None
) -> pd.Series:
    """Return the quality class of articles (Stub, Start, C, B, GA, FA: most work needed first).

    Args:
        source: as in `groups`.
        docnos: the articles; None: all.
        assessed: as in `groups`.

    Returns:
        The classes, indexed by docno; articles without one are left out.
    """
    pages = load_pages(_metadata(files_of(source, "work_needed"), assessed), ())
    documents, _ = Documents.ordered(pages.ids)
    return _work(pages, documents, documents.docnos if docnos is None else list(docnos))


def _work(pages: Pages, documents: Documents, docnos: Any) -> pd.Series:
    names = np.array(list(docnos), dtype=object)
    place = documents.rows(names)
    code = np.where(place >= 0, pages.work[place] if len(pages.work) else NONE, NONE)
    has = code != NONE
    classes = np.array(pages.work_levels, dtype=object)[code[has]]
    index = pd.Index(names[has], dtype="str", name=DOCNO)
    return pd.Series(classes, index=index, dtype="str", name="work")


def _wanted(names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if not isinstance(name, str):
            raise ParameterError(f"a dimension is named by a string; found {name!r}")
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


def _attribute(column: Column, of: Dimension, documents: Documents) -> Attribute:
    further = column.levels[len(of.levels) :]
    if further and not of.open:
        warn(
            f"the metadata have levels of {of.name!r} that are not official: {listed(further)}; "
            "they are further groups",
            stacklevel=3,
        )
    size = np.diff(column.start)
    kept, start = documents, column.start
    if not size.all():  # a page without a value has no row
        kept = Documents(documents.values[size > 0])
        size = size[size > 0]
        start = np.concatenate([start[:1], np.cumsum(size, dtype=start.dtype)])
    weight = column.weight
    if of.normalized and len(size) and (weight is not None or int(size.max()) > 1):
        weight = np.ones(len(column.level)) if weight is None else weight
        weight = weight / np.repeat(np.add.reduceat(weight, start[:-1]), size)
    if weight is not None and bool((weight == 1).all()):
        weight = None
    return Attribute(
        of.name, column.levels, of.unknown, kept, start, column.level, weight, of.normalized
    )


def qrels(source: Any, split: str | None, where: str) -> tuple[pd.DataFrame, Files]:
    """Return the relevant articles of a data set's topics, and where its files are."""
    files = files_of(source, where)
    if is_folder(source):
        dataset = from_folder(source, split or "train")
    elif split is not None:
        raise ParameterError(f"{where}: split is for folders; a data set has its own topics")
    else:
        dataset = resolve_dataset(source, where)
    if hasattr(dataset, "fair_ranking_topics"):
        return qrels_of(dataset.fair_ranking_topics().topics()), files
    if not dataset.has_qrels():
        raise InputError(f"{where}: {source!r} has no topics; use a data set that has")
    return labels_of(dataset), files
