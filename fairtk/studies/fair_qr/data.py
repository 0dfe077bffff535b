"""The texts of a data set's documents, added to rankings."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd

from fairtk.errors import (
    DataWarning,
    DuplicateError,
    InputError,
    NotFoundError,
    ParameterError,
    listed,
)
from fairtk.frames import DOCNO, LABEL, QID, QUERY, TEXT, digest, require
from fairtk.groups import Groups, Target
from fairtk.io import labels_of
from fairtk.studies.fair_qr.settings import fixed_targets
from fairtk.transformers import FairTransformer


class Texts(FairTransformer):
    """R -> R with ``text``: what ir_datasets takes for a document's whole text, title included.

    Args:
        dataset: an ``ir_datasets.Dataset`` with documents.

    Raises:
        InputError: later, on use: a document is not in the data set.
    """

    SETTINGS: ClassVar[tuple[str, ...]] = ("dataset_id",)

    def __init__(self, dataset: Any) -> None:
        super().__init__()
        self.dataset_id = str(dataset.dataset_id())
        self._dataset = dataset

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Return the input with the column ``text``.

        Raises:
            ColumnError: the column ``docno`` is missing.
        """
        self.check_inputs(inp, [DOCNO])
        docnos = inp[DOCNO].astype(str)
        distinct = list(dict.fromkeys(docnos))
        store = self._dataset.docs_store() if distinct else None
        found = store.get_many(distinct) if store is not None else {}
        lost = [docno for docno in distinct if docno not in found]
        if lost:
            raise InputError(
                f"Texts: {len(lost)} documents are not in {self.dataset_id}: {listed(lost)}"
            )
        texts = {docno: document.default_text() for docno, document in found.items()}
        return inp.assign(**{TEXT: docnos.map(texts).astype(object)})


GEOGRAPHY = {"geography": "sub-geo"}
"""Names of attributes in the paper that the track writes otherwise."""


@dataclass(frozen=True)
class StudyData:
    """What a study is about.

    Attributes:
        topics: ``qid``, ``query``.
        qrels: ``qid``, ``docno``, ``label``.
        attributes: name to groups and target.
        documents: gives all documents: mappings with ``docno`` and ``text``.
        texts: R -> R: adds ``text``.
        collection: a digest of the collection, or of what names it.
        name: what tables call the data.
    """

    topics: pd.DataFrame
    qrels: pd.DataFrame
    attributes: Mapping[str, tuple[Groups, Target]]
    documents: Callable[[], Iterator[Mapping[str, str]]]
    texts: Any
    collection: str
    name: str = "collection"

    def __post_init__(self) -> None:
        """Check the frames; leave out topics that nothing can be said about."""
        require(self.topics, [QID, QUERY], "the study's topics")
        require(self.qrels, [QID, DOCNO, LABEL], "the study's qrels")
        topics = self.topics.assign(**{QID: self.topics[QID].astype(str)})
        twice = topics[QID][topics[QID].duplicated()]
        if len(twice):
            raise DuplicateError(f"the study's topics have the qids {listed(twice)} twice")
        qrels = self.qrels.assign(**{QID: self.qrels[QID].astype(str)})
        judged = set(qrels.loc[qrels[LABEL] > 0, QID])
        bare = [qid for qid in topics[QID] if qid not in judged]
        if len(bare) == len(topics):
            raise InputError(
                f"the study's qrels have no relevant document for any of the {len(topics)} topics; "
                "check that topics and qrels use the same qids"
            )
        if bare:
            warnings.warn(
                f"{len(bare)} of {len(topics)} topics have no relevant document and are left out: "
                f"{listed(bare)}",
                DataWarning,
                stacklevel=3,
            )
        kept = topics[~topics[QID].isin(bare)].reset_index(drop=True)
        object.__setattr__(self, "topics", kept)
        object.__setattr__(self, "qrels", qrels[qrels[QID].isin(kept[QID])].reset_index(drop=True))
        if not self.attributes:
            raise InputError("the study needs at least one attribute of the documents")
        for name, (groups, _) in self.attributes.items():
            if not len(groups):
                raise InputError(f"the study's attribute {name!r} has no document with a label")

    @cached_property
    def key(self) -> dict[str, str]:
        """Digests of topics and judgments, and what names the collection."""
        return {  # whatever the order of topics and judgments
            "topics": digest(self.topics.sort_values(QID)),
            "qrels": digest(self.qrels.sort_values([QID, DOCNO], kind="stable")),
            "collection": self.collection,
        }

    def first(self, count: int) -> StudyData:
        """Return the study of the first topics alone."""
        topics = self.topics.head(count)
        return StudyData(
            topics,
            self.qrels[self.qrels[QID].isin(topics[QID])],
            self.attributes,
            self.documents,
            self.texts,
            self.collection,
            self.name,
        )


def from_trec_fair(
    source: Any,
    attributes: Sequence[str] | None = None,
    split: str = "train",
    query: str = "query",
    keywords: str | PathLike[str] | None = None,
    targets: Mapping[str, Any] | None = None,
) -> StudyData:
    """Return the data of TREC Fair Ranking 2022, of a folder with files of that form, or of 2021.

    The targets are the track's: the groups' shares of the relevant articles, averaged with a
    background for gender and regions. They come from judgments; `targets` adds fixed ones.

    Args:
        source: a folder, or a dataset id (``"trec-fair/2022/train/keywords"``,
            ``"trec-fair/2021/eval"``).
        attributes: dimensions of the track, crossed ones joined by ``*``; ``geography`` is its
            ``sub-geo``. None: gender and geography; of 2021 geography, which alone is there.
        split: the topics of a folder: ``"train"`` or ``"eval"``.
        query: the field of the topics to retrieve with: ``query`` (keywords), ``title`` or
            ``title_keywords``.
        keywords: a file of topics that has the keywords of topics without them.
        targets: fixed targets that no judgment is read for, by attribute; see `fixed_target`. The
            attribute stands in the study once more, as ``"gender (fixed target)"``.

    Raises:
        NotFoundError: there is no such dimension, split or field.
        FormatError: a file is missing or malformed.
    """
    from fairtk.datasets import trec_fair
    from fairtk.io import resolve_dataset

    if attributes is not None and (
        isinstance(attributes, str) or not all(isinstance(name, str) for name in attributes)
    ):
        raise ParameterError(
            f"attributes must be a list of names, e.g. ['gender']; found {attributes!r}"
        )
    dataset, shown = source, ""
    if isinstance(source, str | PathLike) and Path(source).expanduser().is_dir():
        dataset = trec_fair.from_folder(source, split, keywords=keywords)
        shown = f"{Path(source).expanduser().resolve().name} ({split} topics)"
    dataset = resolve_dataset(dataset, "from_trec_fair")
    if trec_fair.is_2021(dataset):
        return _of_2021(dataset, attributes, query, targets)
    fields = [field for field in dataset.queries_cls()._fields if field in _QUERY_FIELDS]
    if query not in fields:
        raise NotFoundError("field of the topics", query, fields)
    topics = pd.DataFrame(
        [(q.query_id, getattr(q, query)) for q in dataset.queries_iter()], columns=[QID, QUERY]
    )
    qrels = labels_of(dataset)
    made = {}
    for name in attributes if attributes is not None else ("gender", "geography"):
        dimensions = [GEOGRAPHY.get(part.strip(), part.strip()) for part in name.split("*")]
        made[name] = (
            trec_fair.groups(dataset, *dimensions),
            trec_fair.targets(dataset, *dimensions),
        )
    corpus = dataset.fair_ranking_files().path("corpus")
    state = corpus.stat()
    return StudyData(
        topics,
        qrels,
        made | fixed_targets(targets, made),
        lambda: ({DOCNO: d.doc_id, TEXT: d.default_text()} for d in dataset.docs_iter()),
        Texts(dataset),
        # a digest of 7.7 GB takes minutes: name, size and time tell files apart, too
        digest([corpus.name, state.st_size, state.st_mtime_ns]),
        shown or dataset.dataset_id(),
    )


def _of_2021(
    dataset: Any, attributes: Sequence[str] | None, query: str, targets: Mapping[str, Any] | None
) -> StudyData:
    """Return the data of TREC Fair Ranking 2021."""
    from fairtk.datasets import trec_fair

    for name in attributes or ():
        if name != "geography":
            raise NotFoundError("dimension of TREC Fair Ranking 2021", name, ["geography"])
    if query not in _QUERY_FIELDS:
        raise NotFoundError("field of the topics", query, _QUERY_FIELDS)
    topics = []
    for topic in dataset.queries_iter():
        words = " ".join(topic.keywords)
        texts = (words, topic.text, f"{topic.text} {words}")
        topics.append((topic.query_id, dict(zip(_QUERY_FIELDS, texts, strict=True))[query]))
    qrels = labels_of(dataset)
    made = {"geography": (trec_fair.geography_2021(dataset), trec_fair.targets_2021(dataset))}
    return StudyData(
        pd.DataFrame(topics, columns=[QID, QUERY]),
        qrels.drop_duplicates([QID, DOCNO], ignore_index=True),
        made | fixed_targets(targets, made),
        lambda: ({DOCNO: d.doc_id, TEXT: d.default_text()} for d in dataset.docs_iter()),
        Texts(dataset),
        digest(["trec-fair/2021"]),
        dataset.dataset_id(),
    )


_QUERY_FIELDS = ("query", "title", "title_keywords")


@dataclass(frozen=True)
class Setting:
    """What a system of the study is built from, for one attribute of the documents.

    Attributes:
        attribute: the attribute, e.g. ``"gender"``.
        groups: the groups of the documents.
        target: the exposure that the groups should have, for every topic. It comes from relevance
            judgments: a system that reads it at retrieval time uses an oracle.
        retriever: Q -> R: BM25, much deeper than `candidates`; no texts.
        texts: R -> R: adds the column ``text``.
        documents: gives all documents of the collection: mappings with ``docno`` and ``text``.
        collection: a digest of the collection, for files that are made from it.
        cutoff: the ranks that are measured.
        candidates: how many of the retriever's documents a reranker reorders.
        seed: of everything random.
        folder: where a system may keep files for later runs, such as an index.
        options: the settings of the system, as the study's configuration gives them.
    """

    attribute: str
    groups: Groups
    target: Target
    retriever: Any
    texts: Any
    documents: Callable[[], Iterator[Mapping[str, str]]]
    collection: str
    cutoff: int
    candidates: int
    seed: int
    folder: Path
    options: Mapping[str, Any] = field(default_factory=dict)
