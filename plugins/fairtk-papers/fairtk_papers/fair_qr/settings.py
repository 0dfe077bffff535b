"""The data, targets, settings and configuration of the FAIR-QR study."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import pandas as pd
from pydantic import AfterValidator, Field, ValidationInfo

from fairtk import checks
from fairtk.errors import DataWarning, InputError, NotFoundError, ParameterError
from fairtk.frames import DOCNO, LABEL, QID, QUERY, TEXT, digest, require_columns, require_topics
from fairtk.groups import Groups, Target
from fairtk.transformers import FairTransformer
from fairtk.wording import format_list
from fairtk_papers.studies import (
    COUNT,
    GRIDS,
    NAMES,
    PATH,
    POSITIVE,
    SEVERAL,
    STRING,
    TABLE,
    TABLES,
    Configuration,
    Kinds,
    RunRetriever,
    Settings,
    resolve_path,
)

UNIFORM, UNIFORM_WITH_UNKNOWN = "uniform", "uniform+unknown"
RELEVANCE, WITH_POPULATION = "relevance", "relevance+population"
TARGETS = (RELEVANCE, WITH_POPULATION, UNIFORM, UNIFORM_WITH_UNKNOWN)
"""The targets with a name; other strings are paths."""
SHARES, GIVEN = "shares", "given"


def further_targets(
    targets: Mapping[str, Any] | None,
    attributes: Mapping[str, tuple[Groups, Target]],
    names: Mapping[str, str],
    qrels: pd.DataFrame,
) -> dict[str, tuple[str, Groups, Target]]:
    """Return the attributes with further targets.

    Args:
        targets: one target or a list of targets by attribute; see `study_target`.
        attributes: groups and the default target, by name.
        names: the name of the default target, by attribute.
        qrels: the labels.

    Returns:
        A dict from names such as ``"gender (uniform)"`` to the name of the target, the groups and
        the target. The default target is omitted.

    Raises:
        NotFoundError: an attribute is unknown.
        ParameterError: an attribute has duplicate targets, or no background population.
        InputError: a target is invalid, or has groups that no document has.
    """
    further = {}
    for attribute, attribute_targets in (targets or {}).items():
        if attribute not in attributes:
            raise NotFoundError("[targets] attribute", attribute, attributes)
        groups = attributes[attribute][0]
        is_list = isinstance(attribute_targets, list | tuple)
        previous: set[str] = set()
        for target in attribute_targets if is_list else [attribute_targets]:
            name = target_name(target)
            if name in previous or (name in TARGETS and target != name):
                raise ParameterError(
                    f"[targets]: duplicate target {name!r} of {attribute!r}; rename the file, or "
                    "remove one"
                )
            previous.add(name)
            if name == names[attribute]:
                continue
            goal = study_target(target, groups, attribute, qrels)
            further[f"{attribute} ({name})"] = (name, groups, goal)
    return further


def target_name(target: Any) -> str:
    """Return the name of a target: one of `TARGETS`, ``"shares"``, or the stem of its file."""
    if isinstance(target, Target):
        return GIVEN
    if isinstance(target, Mapping):
        return SHARES
    text = str(target)
    if text in TARGETS:
        return text
    path = Path(text)
    return path.with_suffix("").stem if path.suffix == ".gz" else path.stem


def study_target(target: Any, groups: Groups, name: str, qrels: pd.DataFrame) -> Target:
    """Return the target of an attribute.

    Args:
        target: ``"relevance"`` (per topic, the groups' shares of the relevant documents),
            ``"uniform"`` (equal shares of the known levels), ``"uniform+unknown"`` (of all levels),
            shares by level (for crossed attributes by attribute, as if independent), a file for
            `fairtk.Target.read`, or a `fairtk.Target`.
        groups: the groups.
        name: the attribute, for messages.
        qrels: the labels.

    Raises:
        ParameterError: the target is ``"relevance+population"``, but the attribute has no
            background population.
        InputError: the target is invalid, or has groups that no document has.
    """
    is_text = isinstance(target, str | PathLike)
    if is_text and target == WITH_POPULATION:  # the default of attributes with a background
        raise ParameterError(
            f"[targets]: {WITH_POPULATION!r} is not supported for {name!r} without a background "
            f"population; use {RELEVANCE!r}, {UNIFORM!r}, shares by group, or a file"
        )
    if isinstance(target, Mapping):
        try:
            return Target.population(target, groups)
        except InputError as error:
            raise InputError(f"the target of {name!r}: {error}") from error
    is_known = is_text and (target in TARGETS or Path(target).exists())
    if not (is_known or isinstance(target, Target)):
        is_shown = is_text or pd.api.types.is_scalar(target)  # a frame can be large
        raise InputError(
            f"the target of {name!r} must be one of {format_list(TARGETS)}, shares by group, or an "
            f"existing file, got {repr(target) if is_shown else type(target).__name__}"
        )
    return Target.of(target, groups, qrels).for_groups(groups)


class Texts(FairTransformer):
    """R -> R: add ``text``, which is the ``default_text()`` of ir_datasets and has the title.

    Args:
        dataset: an ``ir_datasets.Dataset`` with documents.
    """

    identity_name = "fairtk.Texts"
    output_version = 1
    SETTINGS: ClassVar[tuple[str, ...]] = ("dataset_id",)

    def __init__(self, dataset: Any) -> None:
        super().__init__()
        self.dataset = dataset

    @property
    def dataset_id(self) -> str:
        """The id of the dataset."""
        return str(self.dataset.dataset_id())

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Return the input with the column ``text``.

        Raises:
            ColumnError: the column ``docno`` is missing.
            InputError: a document is not in the dataset.
        """
        self.check_inputs(inp, [DOCNO])
        docnos = inp[DOCNO].astype(str)
        distinct = list(dict.fromkeys(docnos))
        store = self.dataset.docs_store() if distinct else None
        documents = store.get_many(distinct) if store is not None else {}
        missing = [docno for docno in distinct if docno not in documents]
        if missing:
            raise InputError(
                f"Texts: unknown docno {missing[0]!r} ({len(missing)} in all); docnos must be in "
                f"{self.dataset_id}"
            )
        texts = {docno: document.default_text() for docno, document in documents.items()}
        return inp.assign(**{TEXT: docnos.map(texts).astype(object)})


_BACKGROUNDS = frozenset({"gender", "sub-geo", "src-geo"})
"""The track's dimensions with a background population."""
GEOGRAPHY = {"geography": "sub-geo"}
"""The track's names of attributes of the paper, where they differ."""


@dataclass(frozen=True)
class QrData:
    """The data of a study.

    Attributes:
        topics: ``qid``, ``query``.
        qrels: ``qid``, ``docno``, ``label``.
        attributes: groups and target by name.
        documents: returns an iterator over all documents: mappings with ``docno`` and ``text``.
        texts: R -> R: adds ``text``.
        collection: a digest or another identifier of the collection.
        name: the name of the data in tables.
        targets: the name of each attribute's target in tables; the default is ``"given"``.
        unjudged: the topics without a relevant document, which are excluded.
        beyond: the topics after the limit, which are excluded.
    """

    topics: pd.DataFrame
    qrels: pd.DataFrame
    attributes: Mapping[str, tuple[Groups, Target]]
    documents: Callable[[], Iterator[Mapping[str, str]]]
    texts: Any
    collection: str
    name: str = "collection"
    targets: Mapping[str, str] = field(default_factory=dict)
    unjudged: tuple[str, ...] = ()
    beyond: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check the frames, and exclude topics without a relevant document."""
        require_columns(self.topics, [QID, QUERY], "the study's topics")
        require_columns(self.qrels, [QID, DOCNO, LABEL], "the study's qrels")
        topics = self.topics.assign(**{QID: self.topics[QID].astype(str)})
        require_topics(topics, "FAIR-QR's study")
        qrels = self.qrels.assign(**{QID: self.qrels[QID].astype(str)})
        judged = set(qrels.loc[qrels[LABEL] > 0, QID])
        unjudged = [qid for qid in topics[QID] if qid not in judged]
        if len(unjudged) == len(topics):
            raise InputError(
                f"the study's qrels have no relevant document for any of the {len(topics)} topics; "
                "check that topics and qrels use the same qids"
            )
        if unjudged:
            warnings.warn(
                f"{len(unjudged)} of {len(topics)} topics ({format_list(unjudged)}) have no "
                "relevant document and are excluded",
                DataWarning,
                stacklevel=3,
            )
        judged_topics = topics[~topics[QID].isin(unjudged)].reset_index(drop=True)
        object.__setattr__(self, "topics", judged_topics)
        object.__setattr__(self, "unjudged", (*self.unjudged, *unjudged))
        object.__setattr__(
            self, "qrels", qrels[qrels[QID].isin(judged_topics[QID])].reset_index(drop=True)
        )
        if not self.attributes:
            raise InputError("the study requires at least one attribute")
        for name, (groups, _) in self.attributes.items():
            if not len(groups):
                raise InputError(
                    f"the study's attribute {name!r} must have at least one document with a group"
                )

    def target_label(self, attribute: str) -> str:
        """Return the name of an attribute's target."""
        return self.targets.get(attribute, GIVEN)

    @property
    def target_text(self) -> str:
        """The targets as a sentence, for captions."""
        names = {attribute: self.target_label(attribute) for attribute in self.attributes}
        if len(set(names.values())) == 1:
            return f"Target: {next(iter(names.values()))}."
        return f"Targets: {'; '.join(f'{a}: {name}' for a, name in names.items())}."

    def check_run(self, run: RunRetriever) -> None:
        """Raise an `InputError` if a run has topics or documents that are not in the data."""
        others = [*self.unjudged, *self.beyond]
        known = {*self.topics[QID], *others}
        run.refuse_unknown("topic", [qid for qid in run.run[QID].unique() if qid not in known])
        try:
            self.texts.transform(run.run[[DOCNO]])
        except InputError as error:
            raise InputError(f"{run.path}: {error}") from None
        run.check_topics(self.topics[QID], others)  # may warn

    @cached_property
    def key(self) -> dict[str, str]:
        """Digests of topics, qrels and collection."""
        return {  # independent of the order of rows
            "topics": digest(self.topics.sort_values(QID)),
            "qrels": digest(self.qrels.sort_values([QID, DOCNO], kind="stable")),
            "collection": self.collection,
        }


def from_trec_fair(
    source: Any,
    attributes: Sequence[str] | None = None,
    split: str = "train",
    query: str = "query",
    keywords: str | PathLike[str] | None = None,
    target: Mapping[str, Any] | None = None,
    limit: int | None = None,
) -> QrData:
    """Return the data of TREC Fair Ranking 2022 or 2021.

    The default target of a dimension with a background population (gender and regions) is that of
    the track's Task 1, ``"relevance+population"``: the groups' shares of the relevant articles,
    whose known part is averaged with the population's shares. Without a background the default is
    that of the paper, ``"relevance"``: the shares of the relevant articles alone. Both depend on
    relevance judgments.

    Args:
        source: a folder with the files of 2022, or a dataset id
            (``"trec-fair/2022/train/keywords"``, ``"trec-fair/2021/eval"``).
        attributes: dimensions of the track, or several crossed with ``*``. ``geography`` is the
            track's ``sub-geo``. The default is gender and geography, for 2021 only geography.
        split: the topics of a folder: ``"train"`` or ``"eval"``.
        query: the field of the topics to use as query: ``query`` (keywords), ``title`` or
            ``title_keywords``.
        keywords: a file with keywords, for topics without keywords.
        target: further targets by attribute, one or a list: ``"relevance"``, ``"uniform"``,
            ``"uniform+unknown"``, shares by group, a file, or a `fairtk.Target`. Each adds an
            attribute to the study, such as ``"gender (relevance)"``, ``"gender (uniform)"``,
            ``"gender (shares)"`` or ``"gender (FILE STEM)"``.
        limit: maximum number of topics, from the start of the file; `None` for all.

    Raises:
        NotFoundError: a dimension, split or field is unknown.
        FormatError: a file is missing or malformed.
    """
    from fairtk.datasets import trec_fair
    from fairtk.io import dataset_qrels, resolve_dataset

    if attributes is not None:
        given, attributes = attributes, list(attributes)
        if isinstance(given, str) or not all(isinstance(name, str) for name in attributes):
            raise ParameterError(
                f"attributes must be a list of names, e.g. ['gender'], got {given!r}"
            )
    if limit is not None:
        checks.integer("limit", limit, "from_trec_fair")
    dataset, folder_name = source, ""
    if isinstance(source, str | PathLike) and Path(source).expanduser().is_dir():
        dataset = trec_fair.from_folder(source, split, keywords=keywords)
        folder_name = f"{Path(source).expanduser().resolve().name} ({split} topics)"
    dataset = resolve_dataset(dataset, "from_trec_fair")
    if not dataset.has_qrels():
        raise InputError(f"from_trec_fair: {source} has no qrels; use a dataset with topics")
    qrels = dataset_qrels(dataset)
    is_2021 = trec_fair.is_2021(dataset)
    read = _read_2021 if is_2021 else _read_2022
    topics, goals, names, collection = read(dataset, attributes, query)
    for attribute, (name, groups, goal) in further_targets(target, goals, names, qrels).items():
        goals[attribute], names[attribute] = (groups, goal), name
    return QrData(
        pd.DataFrame(topics[:limit], columns=[QID, QUERY]),
        qrels.drop_duplicates([QID, DOCNO], ignore_index=True) if is_2021 else qrels,
        goals,
        lambda: ({DOCNO: d.doc_id, TEXT: d.default_text()} for d in dataset.docs_iter()),
        Texts(dataset),
        digest(collection),
        folder_name or dataset.dataset_id(),
        names,
        beyond=() if limit is None else tuple(qid for qid, _ in topics[limit:]),
    )


Parts = tuple[list[Any], dict[str, tuple[Groups, Target]], dict[str, str], Any]
"""Topics; groups and target by attribute; names of the targets; identity of the collection."""


def _read_2022(dataset: Any, attributes: Sequence[str] | None, query: str) -> Parts:
    from fairtk.datasets import trec_fair

    fields = [field for field in dataset.queries_cls()._fields if field in _QUERY_FIELDS]
    if query not in fields:
        raise NotFoundError("topic field", query, fields)
    topics = [(q.query_id, getattr(q, query)) for q in dataset.queries_iter()]
    goals, names = {}, {}
    for name in attributes if attributes is not None else ("gender", "geography"):
        dimensions = [GEOGRAPHY.get(part.strip(), part.strip()) for part in name.split("*")]
        groups = trec_fair.groups(dataset, *dimensions)
        goals[name] = groups, trec_fair.targets(dataset, *dimensions, task=1)
        names[name] = RELEVANCE if _BACKGROUNDS.isdisjoint(dimensions) else WITH_POPULATION
    corpus = dataset.fair_ranking_files().path("corpus")
    state = corpus.stat()
    # name, size and time identify it; a digest of 7.7 GB would take minutes
    return topics, goals, names, [corpus.name, state.st_size, state.st_mtime_ns]


def _read_2021(dataset: Any, attributes: Sequence[str] | None, query: str) -> Parts:
    from fairtk.datasets import trec_fair

    for name in attributes or ():
        if name != "geography":
            raise NotFoundError("TREC Fair Ranking 2021 dimension", name, ["geography"])
    if query not in _QUERY_FIELDS:
        raise NotFoundError("topic field", query, _QUERY_FIELDS)
    topics = []
    for topic in dataset.queries_iter():
        words = " ".join(topic.keywords)
        texts = (words, topic.text, f"{topic.text} {words}")
        topics.append((topic.query_id, dict(zip(_QUERY_FIELDS, texts, strict=True))[query]))
    goals = {"geography": (trec_fair.geography_2021(dataset), trec_fair.targets_2021(dataset))}
    return topics, goals, {"geography": WITH_POPULATION}, ["trec-fair/2021"]


_QUERY_FIELDS = ("query", "title", "title_keywords")


@dataclass(frozen=True)
class Setting:
    """The inputs of a system of the study, for one attribute of the documents.

    Attributes:
        attribute: the attribute, e.g. ``"gender"``.
        groups: the groups of the documents.
        target: the target exposure of the groups for each topic. It can depend on relevance
            judgments; then a system that reads it at retrieval time is an oracle.
        retriever: Q -> R: BM25, with many more documents than `candidates`, without texts.
        texts: R -> R: adds the column ``text``.
        documents: returns an iterator over all documents: mappings with ``docno`` and ``text``.
        collection: a digest of the collection, for names of derived files.
        cutoff: the number of ranks to measure.
        candidates: the number of documents to rerank.
        seed: the seed of all random choices.
        folder: a folder for files that later runs can reuse, such as an index.
        options: the settings of the system in the study's configuration.
        is_check: whether the system is only built to check its options, and never used. The
            documents are then toys, and models need not be loaded.
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
    is_check: bool = False


BM25_SETTINGS = ("num_results", "k1", "b", "threads")
"""The settings of BM25, which FAIR-QR can tune, too."""
VARIED = (
    *("max_iterations", "depth", "k", "pool", "threshold", "temperature", "choose", "divergence"),
    *("smoothing", "prompt", "unlabeled", "split"),
)


def check_bm25(options: Mapping[str, Any], owner: str = "[bm25]") -> None:
    """Raise a `NotFoundError` if BM25 does not have a setting."""
    for name in options:
        if name not in BM25_SETTINGS:
            raise NotFoundError(f"setting of {owner}:", name, BM25_SETTINGS)


Folds = Annotated[int, Field(ge=2, description="an integer of at least 2")]
Refining = Annotated[
    Mapping[str, Any],
    AfterValidator(lambda table: {key.replace("-", "_"): value for key, value in table.items()}),
    Field(description="a table: [{key}]"),
]


@dataclass(frozen=True)
class QrSettings(Settings):
    """The settings of a study.

    Attributes:
        systems: the names of the systems; empty for all.
        cutoff: the number of ranks to measure, 20 in the paper.
        candidates: the number of BM25's documents to rerank.
        folds: the number of folds of the topics, for training and tuning.
        seed: the seed of folds and training.
        ndcg: the discount: ``"TREC"`` for 1 / log2(max(rank, 2)), as in the track, or
            ``"trec_eval"`` for 1 / log2(rank + 1). The paper does not say which.
        correction: of p-values for the number of systems: ``"holm"``, ``"bonferroni"``,
            ``"fdr_bh"`` (Benjamini-Hochberg) or ``"none"``.
        bm25: settings of `fairtk.transformers.CollectionBM25`.
        fair_qr: settings of `fairtk.FairQR`, for all systems that refine queries. Re-ranking by
            exposure reads ``k`` and ``pool`` from `options`.
        variations: lists of values for settings of FAIR-QR, which is run with one of them changed
            at a time.
        options: settings of the other systems, by name.
        tuning: grids of settings by system, one or a list. Each fold is ranked with the settings
            that have the best product on the other folds (`fairtk.cross_fit`). `None` for the
            default grids of all systems, empty for no tuning.
    """

    systems: NAMES = ()
    cutoff: POSITIVE = 20
    candidates: POSITIVE = 100
    folds: Folds = 4
    seed: COUNT = 42
    ndcg: Literal["TREC", "trec_eval"] = "TREC"
    correction: Literal["holm", "bonferroni", "fdr_bh", "none"] = "holm"
    bm25: TABLE = field(default_factory=dict)
    fair_qr: Refining = field(default_factory=dict)
    variations: TABLE = field(
        default_factory=lambda: {
            "max_iterations": (1, 3, 5, 10),
            "depth": (10, 20, 50),
            "k": (20, 50, 100),
            "pool": ("last", "refined", "union"),
            "threshold": (0.02, 0.05, 0.1, 0.2),
            "choose": ("difference", "ratio"),
        }
    )
    options: TABLES = field(default_factory=dict)
    tuning: GRIDS | None = None

    def __post_init__(self) -> None:
        """Check the values that do not depend on the data."""
        super().__post_init__()
        if self.candidates < self.cutoff:
            raise ParameterError(
                f"the study: candidates must be at least the cutoff, {self.cutoff}, "
                f"got {self.candidates}"
            )
        check_bm25(self.bm25)
        for name, values in self.variations.items():
            if name not in VARIED:
                raise NotFoundError("variation", name, VARIED)
            if isinstance(values, str) or not isinstance(values, Sequence):
                raise ParameterError(
                    f"the study: variations of {name} must be a list, got {values!r}"
                )


def _targets(table: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
    """Resolve the files of targets against the folder of the configuration."""

    def resolved(target: Any) -> Any:
        if isinstance(target, list):
            return [resolved(item) for item in target]
        is_path = isinstance(target, str) and target not in TARGETS
        return resolve_path(target, info) if is_path else target

    return {name: resolved(target) for name, target in table.items()}


@dataclass(frozen=True)
class QrConfiguration(Configuration):
    """The configuration of the FAIR-QR study.

    `data` has ``folder`` or ``dataset``, ``split``, ``attributes``, ``query``, ``keywords``,
    ``limit`` and ``targets`` (further targets by attribute). A model is a table with ``backend``
    and settings, a retriever a table with ``kind`` or ``run`` and settings. Several models or
    retrievers require unique names: ``name``, by default the model or the kind.
    """

    settings: QrSettings = field(default_factory=QrSettings)
    output: str = "fair-qr-study"

    DATA: ClassVar[Kinds] = {
        "folder": PATH,
        "dataset": STRING,
        "split": STRING,
        "attributes": NAMES,
        "query": STRING,
        "keywords": PATH,
        "limit": COUNT,
        "targets": Annotated[
            dict[str, Any], AfterValidator(_targets), Field(description="a table: [{key}]")
        ],
    }
    SETTINGS: ClassVar[Kinds] = {
        name.replace("fair_qr", "fair-qr"): kind for name, kind in QrSettings.kinds().items()
    }
    FIELDS: ClassVar[Mapping[str, tuple[str, Any]]] = {
        "llm": ("models", SEVERAL),
        "retriever": ("retrievers", SEVERAL),
    }
