"""The systems of a study: cells, tuning grids, models and retrievers.

All systems use the first model and the first retriever. Each other retriever is one more system.
FAIR-QR is also run with each other pair of model and retriever, under names such as ``fair-qr
[gpt-4o]`` and ``fair-qr [vector, gpt-4o]``.
"""

from __future__ import annotations

import inspect
import itertools
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from fairtk.errors import (
    FairtkError,
    InputError,
    MissingPluginError,
    NotFoundError,
    ParameterError,
)
from fairtk.experiment import combinations
from fairtk.frames import QID, QUERY, digest, words
from fairtk.llm import (
    Chat,
    ChatModel,
    Completion,
    build_model,
    list_model_kinds,
    parse_model,
)
from fairtk.plugins import registry
from fairtk.transformers import CollectionBM25, FairQR
from fairtk_papers.fair_qr.settings import (
    BM25_SETTINGS,
    QrConfiguration,
    QrData,
    QrSettings,
    Setting,
    check_bm25,
)
from fairtk_papers.studies import RunRetriever, file_name, with_none

_BM25_GRID = {"k1": (2.0,), "b": (0.4, 0.2, 0.75)}
"""Settings of BM25 that FAIR-QR tunes, for a fair comparison with tuned BM25."""
_THRESHOLDS = (0.02, 0.05, 0.1, 0.2, 0.4)
GRIDS: Mapping[str, Any] = {
    "bm25": {"k1": (0.9, 0.6, 1.2, 2.0), "b": (0.4, 0.2, 0.75)},
    "fair-qr": (
        {
            "threshold": _THRESHOLDS,
            "choose": ("difference", "ratio"),
            "divergence": ("kl", "js"),
            "k": (20, 50),
        },
        {"threshold": _THRESHOLDS, "pool": ("refined",), "k": (20, 50)},
        {"threshold": _THRESHOLDS, "depth": (10, 50)},
        {"threshold": _THRESHOLDS, **_BM25_GRID},
    ),
    "fair-qr + exposure re-ranking": (
        {
            "weight": (1.0, 0.3, 0.5, 0.7, 1.5, 2.0),
            "k": (200, 100, 500),
            "max_iterations": (5, 0),
        },
        {"weight": (1.0, 0.5, 2.0), "max_iterations": (5, 0), **_BM25_GRID},
    ),
}
"""Default grids by system. Of several best settings, the first are used."""


def tuning_settings(
    grids: Mapping[str, Any] | None, names: Sequence[str]
) -> dict[str, tuple[Mapping[str, Any], ...]]:
    """Return the settings that tuning tries, by system.

    Args:
        grids: grids by system; `None` for the default grids.
        names: all systems.

    Raises:
        NotFoundError: a system is unknown.
        MissingPluginError: the plugin of a system is not installed.
        ParameterError: a grid is empty, or its values are not a list.
    """
    if grids is None:
        plugins = {e.name: e.value.grid for e in registry.study_systems.entries()}
        grids = {n: g for n, g in {**plugins, **GRIDS}.items() if g and n in names}
    for name in grids:
        _require("system to tune", name, names)
    return {n: tuple(combinations(g, f"tuning of {n!r}")) for n, g in grids.items()}


BM25 = "bm25"
FAIR_QR = "fair-qr"
NOT_RERANKED = "fair-qr (no re-ranking)"
BY_EXPOSURE = "fair-qr + exposure re-ranking"
RANDOM = "random-terms"
"""The placebo, which adds random words instead of the model's."""
REFINING = (FAIR_QR, NOT_RERANKED, BY_EXPOSURE, RANDOM)
BUILT_IN = (BM25, *REFINING)
TUNED = " (tuned)"

_EXPOSURE_DEPTH = 200
"""The default number of documents per ranking that re-ranking by exposure selects from."""
_PAPER = ("vector-search", "dlf", "deltr", "fa*ir", "mmr")
_FAIR_QR = {
    name: setting.default
    for name, setting in inspect.signature(FairQR).parameters.items()
    if setting.default is not setting.empty
}


@dataclass(frozen=True, eq=False)
class Cell:
    """One system for one attribute.

    Attributes:
        attribute: the attribute.
        kind: the name of the system without its model, retriever and tuning.
        variation: the setting of FAIR-QR that is varied; empty in the main comparison.
        value: the value of that setting.
        options: the settings of the system.
        grid: the settings to tune over; empty for no tuning.
        retriever: the name of the retriever; empty for the first.
        model: the name of the model; empty for the first.
    """

    attribute: str
    kind: str
    variation: str = ""
    value: Any = None
    options: Mapping[str, Any] = field(default_factory=dict)
    grid: tuple[Mapping[str, Any], ...] = ()
    retriever: str = ""
    model: str = ""

    @property
    def system(self) -> str:
        """The name in tables, e.g. ``"fair-qr [vector, gpt-4o]"``; a retriever has its own."""
        if self.kind == BM25 and self.pair:
            return self.pair
        return self.kind + (f" [{self.pair}]" if self.pair else "") + (TUNED if self.grid else "")

    @property
    def pair(self) -> str:
        """The names of retriever and model, empty for the first ones."""
        return ", ".join(filter(None, (self.retriever, self.model)))

    @property
    def refines(self) -> bool:
        """Whether the system refines queries."""
        return self.kind in REFINING

    def at(self, settings: Mapping[str, Any]) -> Cell:
        """Return the untuned cell of the system with some settings replaced."""
        return replace(self, options={**self.options, **settings}, grid=())

    @property
    def grid_cells(self) -> list[Cell]:
        """The cells that tuning tries; without tuning the cell itself."""
        return [self.at(settings) for settings in self.grid] or [self]

    @property
    def key(self) -> str:
        """A digest that is equal for equal systems."""
        return digest([self.attribute, self.system, self.retriever, self.options, self.grid])

    @property
    def label(self) -> str:
        """The label of the cell, e.g. ``"fair-qr, depth=10"``."""
        return f"{self.system}, {self.variation}={self.value}" if self.variation else self.system

    @property
    def full_name(self) -> str:
        """The name in experiments."""
        return f"{self.attribute}: {self.label}"

    @property
    def names(self) -> dict[str, str]:
        """The columns that identify the cell in frames."""
        return {
            "attribute": self.attribute,
            "system": self.system,
            "variation": self.variation,
            "setting": "" if self.value is None else str(self.value),
        }


def systems(settings: QrSettings) -> tuple[str, ...]:
    """Return the systems of the main comparison, BM25 first, in the paper's order.

    Raises:
        NotFoundError: a system is unknown.
        MissingPluginError: the plugin of a system is not installed.
        ParameterError: [options] has settings of BM25 or FAIR-QR.
    """
    names = _known_systems()
    for name in (*settings.systems, *settings.options):
        _require("system", name, names)
    for name in settings.options:
        if name in BUILT_IN and name != BY_EXPOSURE:
            table = "bm25" if name == BM25 else "fair-qr"
            raise ParameterError(f"settings of {name!r} must be in [{table}], not in [options]")
    selected = set(settings.systems or names) | {BM25}
    return tuple(name for name in names if name in selected)


def _known_systems() -> list[str]:
    plugin_systems = registry.study_systems.names()
    names = [BM25, *(n for n in _PAPER if n in plugin_systems)]
    names += [n for n in plugin_systems if n not in names]
    return [*names, *REFINING]


def _require(kind: str, name: str, names: Sequence[str]) -> None:
    if name in names:
        return
    if name in _PAPER:
        raise MissingPluginError(f"the {kind} {name!r}", "fairtk-baselines")
    raise NotFoundError(kind, name, names)


def all_cells(
    settings: QrSettings,
    attributes: Mapping[str, Any],
    tune_bm25: bool = True,
    models: Sequence[str] = ("",),
    retrievers: Mapping[str, Any] = MappingProxyType({"": None}),
) -> Iterator[Cell]:
    """Yield the cells, those of other models and retrievers last.

    Args:
        settings: the settings of the study.
        attributes: the attributes by name.
        tune_bm25: whether the retriever is the study's own BM25, whose settings can be tuned.
        models: the names of the models.
        retrievers: the retrievers by name.
    """
    names = systems(settings)
    grids = tuning_settings(settings.tuning, _known_systems())
    if not tune_bm25:
        for name in grids.keys() & BUILT_IN:
            grids[name] = tuple(s for s in grids[name] if not s.keys() & {*BM25_SETTINGS})
    grids = {name: grid for name, grid in grids.items() if grid and name in names}
    plain = [n for n in names if n not in REFINING]
    refining = {n: _refining_options(settings, n, grids.get(n, ())) for n in names if n in REFINING}
    for attribute in attributes:
        for name in plain:
            cell = Cell(attribute, name, options=settings.options.get(name, {}))
            yield cell
            if name in grids:
                yield replace(cell, grid=grids[name])
    for attribute in attributes:
        for name, options in refining.items():
            yield Cell(attribute, name, options=options)
    for attribute in attributes:
        for name, values in settings.variations.items() if FAIR_QR in names else ():
            for value in {repr(value): value for value in values}.values():
                options = {**refining[FAIR_QR], name: value}
                yield Cell(attribute, FAIR_QR, name, value, options)
    for attribute in attributes:
        for name, options in refining.items():
            if name in grids:
                yield Cell(attribute, name, options=options, grid=grids[name])
    for i, (retriever, value) in enumerate(retrievers.items()):
        is_run = isinstance(value, RunRetriever)
        for j, model in enumerate(models):
            if not (i or j) or (j and is_run):  # a run calls no model
                continue
            other = Cell("", BM25, retriever=retriever if i else "", model=model if j else "")
            for attribute in () if j else attributes:
                yield replace(other, attribute=attribute)
            for attribute in () if is_run else attributes:
                for name, options in refining.items():
                    yield replace(other, attribute=attribute, kind=name, options=options)


def _refining_options(
    settings: QrSettings, name: str, grid: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    options = settings.options.get(name, {})
    tuned = {option for values in grid for option in values}.difference(BM25_SETTINGS)
    for option in (*settings.fair_qr, *options, *tuned):
        if option not in _FAIR_QR:
            raise NotFoundError("FairQR setting", option, _FAIR_QR)
    # Defaults are explicit, so that a variation to the default finds the results of the main
    # comparison. Varying depth does not change k. Stored results do not have a default of retries.
    defaults = {option: value for option, value in _FAIR_QR.items() if option != "retries"}
    base = {option: value for option, value in defaults.items() if value is not None}
    base |= {"depth": settings.cutoff, **settings.fair_qr}
    if name == BY_EXPOSURE:  # k and pool determine the documents to select from
        exposure_defaults = {"k": max(_EXPOSURE_DEPTH, settings.cutoff), "pool": "union"}
        return {**base, **exposure_defaults, **options, "rerank": "exposure"}
    base = {"k": settings.cutoff, "pool": "last", **base}
    return {**base, "rerank": False} if name == NOT_RERANKED else base


N_READ = 20_000
"""The number of documents from which the placebo takes its words."""
_LEAST_SHARE, _LARGEST_SHARE = 0.01, 0.1  # of the documents that have a word
_DEFAULT_COUNT = 3  # words per step if the model was not called


class RandomTerms(ChatModel):
    """Add random words to a query, as a placebo for a model.

    Args:
        vocabulary: the words.
        counts: the numbers of words that the steps add, by original query; 3 for further steps.
        seed: the seed, combined with the query.
    """

    identity_name = "fairtk.RandomTerms"
    output_version = 1
    free: ClassVar[bool] = True
    reads_facts: ClassVar[bool] = True

    def __init__(
        self,
        vocabulary: Sequence[str],
        counts: Mapping[str, Sequence[int]] | None = None,
        seed: int = 42,
    ) -> None:
        self.vocabulary = tuple(vocabulary)
        self.counts = dict(counts or {})
        self.seed = seed

    @property
    def name(self) -> str:
        """``"random-terms"``."""
        return "random-terms"

    def parameters(self) -> dict[str, Any]:
        """Return the seed and digests of words and counts."""
        return {**self._digests, "seed": self.seed}

    @cached_property
    def _digests(self) -> dict[str, str]:
        return {"words": digest(self.vocabulary), "counts": digest(self.counts)}

    def __repr__(self) -> str:
        return f"RandomTerms({len(self.vocabulary)} words #{self._digests['words'][:8]})"

    def outcomes(self, chats: Iterable[Chat]) -> Iterator[tuple[int, Completion]]:
        """Yield the keywords of each chat and random words, as a JSON list."""
        for index, chat in enumerate(chats):
            query = str(chat.facts["query"])
            keywords = words(str(chat.facts["keywords"]))
            present = {word.lower() for word in keywords}
            before = len(present) - len({word.lower() for word in words(query)})
            counts = [max(1, count) for count in self.counts.get(query, ())]
            step = int(np.searchsorted(np.cumsum(counts), before, side="right"))
            count = counts[step] if step < len(counts) else _DEFAULT_COUNT
            random = np.random.default_rng(int(digest([self.seed, query, before]), 16))
            unused_words = [word for word in self.vocabulary if word not in present]
            added = random.choice(
                unused_words, min(count, len(unused_words)), replace=False
            ).tolist()
            yield index, Completion(json.dumps([*keywords, *added]), 0, 0, 0.0)


def middle_words(documents: Iterable[Mapping[str, str]], retriever: Any) -> list[str]:
    """Return words of medium frequency in the first documents, sorted.

    The words are in 1 to 10 % of the documents (otherwise in at least two documents), have
    at least three letters, and are not ignored by a retriever with a method ``tokens(text)``.
    """
    counts: Counter[str] = Counter()
    number = 0
    for document in itertools.islice(documents, N_READ):
        number += 1
        counts.update({word for word in words(document["text"].lower()) if len(word) > 2})
    tokens = getattr(retriever, "tokens", None)
    valid = [w for w in counts if w.isalpha() and (tokens is None or tokens(w))]
    middle = [
        w for w in valid if max(2.0, _LEAST_SHARE * number) <= counts[w] <= _LARGEST_SHARE * number
    ]
    return sorted(middle or [w for w in valid if counts[w] > 1] or valid)


def random_terms(
    data: QrData, retriever: Any, traces: Mapping[Cell, pd.DataFrame], cell: Cell, seed: int
) -> RandomTerms:
    """Return the placebo, which adds as many words as the model in FAIR-QR's loop.

    Args:
        data: the data of the study.
        retriever: the retriever of the study.
        traces: the traces of FAIR-QR by cell.
        cell: the cell of the placebo.
        seed: the seed.
    """
    texts = dict(zip(data.topics[QID], data.topics[QUERY], strict=True))
    counts: dict[str, list[int]] = {}
    for other, trace in traces.items():
        if other.kind == FAIR_QR and other.attribute == cell.attribute and not other.variation:
            for row in trace[trace["iteration"] > 0].itertuples() if len(trace) else ():
                counts.setdefault(texts[row.qid], []).append(len(row.added.split()))
    return RandomTerms(middle_words(data.documents(), retriever), counts, seed)


KINDS = ("bm25", "vector")
_DEEP = 1000
"""The default number of documents of vector search."""


FIXED = "the rankings of a run are fixed, so it cannot retrieve with refined queries"


def refuse_runs(settings: QrSettings, runs: Iterable[str]) -> None:
    """Raise a `ParameterError` if the settings name a system that retrieves with a run."""
    for system in (*settings.systems, *settings.options, *(settings.tuning or ())):
        for run in runs:
            if system == run or system.endswith(f"[{run}]"):
                raise ParameterError(
                    f"{system!r} is not supported, because {FIXED}; remove it (the run {run!r} is "
                    "always compared)"
                )


def by_name(values: Any, kind: str) -> dict[str, Any]:
    """Return models or retrievers by name. The name of a single one is empty."""
    if not isinstance(values, Mapping):
        return {"": values}
    if not values:
        raise ParameterError(f"the study requires at least one {kind}")
    return dict(values)


def table_names(tables: Sequence[Mapping[str, Any]], kind: str, default: str) -> list[str]:
    """Return the names of the tables of a configuration.

    Args:
        tables: the tables.
        kind: the key of the tables, for messages.
        default: the key that gives tables without ``name`` their name, e.g. ``"model"``. Only
            the last part of a path counts.

    Raises:
        ParameterError: a name is invalid, or there are duplicate names.
    """
    keys = ("name", default, "backend", "run")
    names = [next((table[key] for key in keys if key in table), "") for table in tables]
    names = [Path(name).name if isinstance(name, str) else name for name in names]
    for name in names:
        if not isinstance(name, str) or not name.strip() or set(name) & set("[],"):
            raise ParameterError(
                f"[[{kind}]]: name must be a string without brackets and commas, got {name!r}"
            )
        if names.count(name) > 1:
            raise ParameterError(
                f"[[{kind}]]: duplicate name {name!r} in {names.count(name)} tables; set another "
                "name = '...'"
            )
    return names


def make_retriever(
    name: str, table: Mapping[str, Any], data: QrData, folder: Path, settings: QrSettings
) -> Any:
    """Return the retriever of a ``[[retriever]]`` table.

    Args:
        name: the name of the retriever.
        table: ``kind``, which is ``"bm25"`` (PISA) or ``"vector"`` (vector search of the plugin
            fairtk-baselines), and settings; or ``run``, a file.
        data: the data of the study.
        folder: the study's folder.
        settings: the settings of the study.

    Raises:
        NotFoundError: the kind or a setting is unknown.
        ParameterError: a setting is out of range.
        FormatError, InputError: see `fairtk_papers.studies.RunRetriever`.
    """
    if "run" in table:
        for other in table.keys() - {"name", "run"}:
            raise NotFoundError("setting of a [[retriever]] with a run", other, ["name", "run"])
        return RunRetriever(table["run"])
    options = _options(table)
    kind = str(table.get("kind", "bm25"))
    if kind == "bm25":
        check_bm25(options, f"the retriever {name!r}")
        return make_bm25(data, folder, {**settings.bm25, **options})
    if kind != "vector":
        raise NotFoundError("[[retriever]] kind", kind, KINDS)
    if "vector-search" not in registry.study_systems.names():
        raise MissingPluginError("the retriever of kind 'vector'", "fairtk-baselines")
    settings = replace(settings, candidates=int(options.pop("num_results", _DEEP)))
    first = next(iter(data.attributes))  # vector search does not depend on it
    return make_system("vector-search", data, folder, settings, first, options)


def _options(table: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in table.items() if key not in ("name", "kind")}


def make_bm25(data: QrData, folder: Path, options: Mapping[str, Any]) -> CollectionBM25:
    """Return BM25 over the collection, with the index in the study's folder."""
    check_bm25(options)
    return CollectionBM25(folder / f"index-{data.collection}", data.documents, **options)


_TOYS = ({"docno": "d1", "text": "one toy"}, {"docno": "d2", "text": "two toys"})


def make_system(
    name: str,
    data: QrData,
    folder: Path,
    settings: QrSettings,
    attribute: str,
    options: Mapping[str, Any],
    retriever: Any = None,
    is_check: bool = False,
) -> Any:
    """Build a plugin's system for one attribute, without fitting it.

    To check options, build it on toy documents.
    """
    groups, target = data.attributes[attribute]
    setting = Setting(
        attribute=attribute,
        groups=groups,
        target=target,
        retriever=retriever,
        texts=data.texts,
        documents=(lambda: iter(_TOYS)) if is_check else data.documents,
        collection="toys" if is_check else data.collection,
        cutoff=settings.cutoff,
        candidates=settings.candidates,
        seed=settings.seed,
        folder=folder / "systems" / file_name(name),
        options=options,
        is_check=is_check,
    )
    return registry.study_systems.load(name)(setting)


DEFAULT_KIND = "keyword"
"""The default kind of model: rules, which cost nothing."""


def model_kind(settings: Mapping[str, Any]) -> Any:
    """Return the kind of model for settings; see `make_model`."""
    backend = settings.get("backend", DEFAULT_KIND)
    if not isinstance(backend, str):
        raise ParameterError(f"backend of [llm] must be a string, got {backend!r:.80}")
    kinds = list_model_kinds("refinement")
    if backend not in kinds:
        raise NotFoundError("backend of [llm]", backend, kinds)
    return kinds[backend]


def make_model(settings: Mapping[str, Any]) -> ChatModel:
    """Build the model.

    Args:
        settings: ``backend``, a kind from `fairtk.llm.list_model_kinds`, by default ``"keyword"``
            (rules, no model), and its settings. API keys are read from the environment, never from
            settings. For servers without keys, temperature or token limit, use ``api_key_env =
            ""``, ``temperature = "none"`` and ``max_tokens = "none"``.

    Raises:
        NotFoundError: the backend or a setting is unknown.
        ParameterError: a setting is missing or out of range.
    """
    options = {name: value for name, value in settings.items() if name != "backend"}
    return build_model(model_kind(settings), with_none(options))


PAPER_TEMPERATURE = 0.3


def with_model(
    configuration: QrConfiguration, text: str | None, server: Mapping[str, Any]
) -> QrConfiguration:
    """Return a configuration with another model and settings of its server.

    Args:
        configuration: the configuration.
        text: the model, ``KIND:MODEL``, e.g. ``openai:gpt-4o``; `None` to keep the model.
        server: settings for the models that have them.

    Raises:
        NotFoundError: the kind of model is unknown.
        ParameterError: the model's name is missing.
    """
    tables = [dict(table) for table in configuration.models] or [{}]
    if text:
        spec, settings = parse_model(text, "refinement", "backend")
        # settings of another backend do not apply
        options = tables[0] if tables[0].get("backend") == spec.name else {}
        tables = [{**options, "backend": spec.name, **settings}]
    for setting, value in server.items():
        having = [table for table in tables if model_kind(table).has_setting(setting)]
        for table in having or tables[:1]:  # which refuses the setting
            table[setting] = value
    return replace(configuration, models=tables)


def configured_models(configuration: QrConfiguration) -> tuple[Any, QrSettings]:
    """Return the model, or models by name, and the settings with the model's temperature."""
    tables, settings = configuration.models or [{}], configuration.settings
    refining = dict(settings.fair_qr)
    temperature = refining.get("temperature", PAPER_TEMPERATURE)
    several = len(tables) > 1
    names = table_names(tables, "llm", "model") if several else [""]
    models = {}
    for name, table in zip(names, tables, strict=True):
        options = {key: value for key, value in table.items() if key != "name"}
        if not several and options.get("temperature", "none") != "none":
            # otherwise FairQR's default would override it
            refining = {"temperature": options["temperature"], **refining}
        models[name] = make_model(options)
        if several and "temperature" not in options and temperature is not None:
            models[name] = models[name].at_temperature(temperature)
    if not several:
        return models[""], replace(settings, fair_qr=refining)
    # each model has its own temperature
    return models, replace(settings, fair_qr={**refining, "temperature": None})


def configured_retrievers(
    configuration: QrConfiguration, data: QrData, settings: QrSettings
) -> tuple[Any, QrSettings]:
    """Return the retrievers by name (`None` for the first) and the settings with those of BM25."""
    if not configuration.retrievers:
        return None, settings
    first, *others = configuration.retrievers
    if first.get("kind", "bm25") != "bm25" or "run" in first:
        reason = f"; {FIXED}" if "run" in first else ""
        raise ParameterError(f"the first [[retriever]] must be kind = 'bm25', the baseline{reason}")
    first_name, *names = table_names(configuration.retrievers, "retriever", "kind")
    folder = Path(configuration.output)
    others = [
        make_retriever(name, table, data, folder, settings)
        for name, table in zip(names, others, strict=True)
    ]
    bm25 = {**settings.bm25, **_options(first)}
    return {first_name: None, **dict(zip(names, others, strict=True))}, replace(settings, bm25=bm25)


@contextmanager
def name_errors(cell: Cell) -> Iterator[None]:
    """Start the messages of a plugin's errors with the name of its system."""
    try:
        yield
    except Exception as error:
        if cell.refines:
            raise
        kind = InputError if isinstance(error, InputError) else FairtkError
        text = str(error) if isinstance(error, FairtkError) else f"{type(error).__name__}: {error}"
        raise kind(f"system {cell.system!r} for {cell.attribute!r}: {text}") from error
