"""The systems of a study: its cells, what tuning tries of each, models and retrievers.

The first model and the first retriever are the study's own: all systems are built on them. Every
other retriever stands in the tables by itself, and FAIR-QR with every other pair, under names such
as ``fair-qr [gpt-4o]`` and ``fair-qr [vector, gpt-4o]``.
"""

from __future__ import annotations

import inspect
import itertools
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from fairtk.errors import (
    MissingPluginError,
    NotFoundError,
    ParameterError,
)
from fairtk.experiment.tuning import combinations
from fairtk.frames import QID, QUERY, digest
from fairtk.frames.texts import words
from fairtk.llm import Chat, ChatModel, Completion, build_chat_model, parse_model
from fairtk.llm.models import kind_of_model, takes_temperature
from fairtk.plugins import registry
from fairtk.transformers import CollectionBM25, FairQR
from fairtk.transformers.candidates import index_tokens
from fairtk_papers.fair_qr.settings import (
    OF_BM25,
    QrConfiguration,
    QrData,
    QrSettings,
    Setting,
    check_bm25,
)
from fairtk_papers.studies import GivenRun, file_name, with_nothing

_SEARCH = {"k1": (2.0,), "b": (0.4, 0.2, 0.75)}
"""BM25's, tried inside FAIR-QR, too: else its own tuning would be held against it."""
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
        {"threshold": _THRESHOLDS, **_SEARCH},
    ),
    "fair-qr + exposure re-ranking": (
        {
            "weight": (1.0, 0.3, 0.5, 0.7, 1.5, 2.0),
            "k": (200, 100, 500),
            "max_iterations": (5, 0),
        },
        {"weight": (1.0, 0.5, 2.0), "max_iterations": (5, 0), **_SEARCH},
    ),
}
"""Of this room's systems: name to grids, the first values first where several are best."""


def tried_settings(
    grids: Mapping[str, Any] | None, names: Sequence[str]
) -> dict[str, tuple[Mapping[str, Any], ...]]:
    """Return the settings that tuning tries, by system.

    Args:
        grids: by name; None: the defaults of all systems that have some.
        names: the systems there are.

    Raises:
        NotFoundError: there is no such system.
        InputError: the system is in a distribution that is not installed.
        ParameterError: a grid is empty, or values are not a list.
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
"""The placebo: words by chance in place of the model's."""
REFINING = (FAIR_QR, NOT_RERANKED, BY_EXPOSURE, RANDOM)
OWN = (BM25, *REFINING)
TUNED = " (tuned)"

_CHOSEN_FROM = 200
"""Documents of each list that a re-ranking by exposure chooses from, by default."""
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
        system: the system's name.
        variation: the setting of FAIR-QR that is varied; empty in the main comparison.
        value: the value of that setting.
        options: the settings of the system.
        refines: whether the system is FAIR-QR.
        grid: settings of which the best are chosen; empty: those of `options` are used.
    """

    attribute: str
    system: str
    variation: str = ""
    value: Any = None
    options: Mapping[str, Any] = field(default_factory=dict)
    refines: bool = False
    grid: tuple[Mapping[str, Any], ...] = ()

    @property
    def base(self) -> str:
        """The name of the system, tuned or not."""
        return self.system.removesuffix(TUNED) if self.grid else self.system

    @property
    def kind(self) -> str:
        """The name of the system, whatever model and retriever it is built on."""
        return self.base.partition(" [")[0]

    def at(self, settings: Mapping[str, Any]) -> Cell:
        """Return the cell of the system with some settings, which is not tuned."""
        options = {**self.options, **settings}
        return replace(self, system=self.base, options=options, grid=())

    @property
    def label(self) -> str:
        """What the cell is called: ``"fair-qr, depth=10"``."""
        return f"{self.system}, {self.variation}={self.value}" if self.variation else self.system

    @property
    def names(self) -> dict[str, str]:
        """What frames call the cell: ``attribute``, ``system``, ``variation``, ``setting``."""
        return {
            "attribute": self.attribute,
            "system": self.system,
            "variation": self.variation,
            "setting": "" if self.value is None else str(self.value),
        }


def systems(settings: QrSettings) -> tuple[str, ...]:
    """Return the systems of the main comparison, BM25 first, in the paper's order.

    Raises:
        NotFoundError: there is no such system.
        InputError: the system is in a distribution that is not installed.
        ParameterError: settings of BM25 or FAIR-QR are among those of the other systems.
    """
    names = _known()
    for name in (*settings.systems, *settings.options):
        _require("system", name, names)
    for name in settings.options:
        if name in OWN and name != BY_EXPOSURE:
            table = "bm25" if name == BM25 else "fair-qr"
            raise ParameterError(f"settings of {name!r} belong into [{table}], not into [options]")
    chosen = set(settings.systems or names) | {BM25}
    return tuple(name for name in names if name in chosen)


def _known() -> list[str]:
    of_plugins = registry.study_systems.names()
    names = [BM25, *(n for n in _PAPER if n in of_plugins)]
    names += [n for n in of_plugins if n not in names]
    return [*names, *REFINING]


def _require(kind: str, name: str, names: Sequence[str]) -> None:
    if name in names:
        return
    if name in _PAPER:
        raise MissingPluginError(f"the {kind} {name!r}", "fairtk-baselines")
    raise NotFoundError(kind, name, names)


def all_cells(
    settings: QrSettings, attributes: Mapping[str, Any], own_bm25: bool = True
) -> Iterator[Cell]:
    """Yield the cells: those without a language model first, so that nothing waits for one.

    What asks a model most, tuning of what refines, comes last: a budget may end before.

    Args:
        settings: how the study is done.
        attributes: by name.
        own_bm25: whether the retriever is the study's own, whose settings can be tuned.
    """
    names = systems(settings)
    tried = {n: g for n, g in tried_settings(settings.tuning, _known()).items() if n in names}
    if not own_bm25:
        for name in tried.keys() & OWN:
            tried[name] = tuple(one for one in tried[name] if not one.keys() & {*OF_BM25})
        tried = {name: grid for name, grid in tried.items() if grid}
    plain = [n for n in names if n not in REFINING]
    refining = {n: _refining(settings, n, tried.get(n, ())) for n in names if n in REFINING}
    for attribute in attributes:
        for name in plain:
            cell = Cell(attribute, name, options=settings.options.get(name, {}))
            yield cell
            if name in tried:
                yield replace(cell, system=name + TUNED, grid=tried[name])
    for attribute in attributes:
        for name, options in refining.items():
            yield Cell(attribute, name, options=options, refines=True)
    for attribute in attributes:
        for name, values in settings.variations.items() if FAIR_QR in names else ():
            for value in {repr(value): value for value in values}.values():
                options = {**refining[FAIR_QR], name: value}
                yield Cell(attribute, FAIR_QR, name, value, options, True)
    for attribute in attributes:
        for name, options in refining.items():
            if name in tried:
                yield Cell(attribute, name + TUNED, "", None, options, True, tried[name])


def _refining(
    settings: QrSettings, name: str, tried: Sequence[Mapping[str, Any]] = ()
) -> dict[str, Any]:
    own = settings.options.get(name, {})
    asked = {option for one in tried for option in one}.difference(OF_BM25)
    for option in (*settings.fair_qr, *own, *asked):
        if option not in _FAIR_QR:
            raise NotFoundError("setting of FairQR", option, _FAIR_QR)
    # Defaults are spelt out, so that a setting that is varied to its default is no cell of its
    # own. k stays when depth is varied: what is returned is not what is measured on the way.
    # The default of retries is left out, so that earlier results are found.
    defaults = {option: value for option, value in _FAIR_QR.items() if option != "retries"}
    base = {option: value for option, value in defaults.items() if value is not None}
    base |= {"depth": settings.cutoff, **settings.fair_qr}
    if name == BY_EXPOSURE:  # k and pool are other things there: what it chooses from
        deep = {"k": max(_CHOSEN_FROM, settings.cutoff), "pool": "union"}
        return {**base, **deep, **own, "rerank": "exposure"}
    base = {"k": settings.cutoff, "pool": "last", **base}
    return {**base, "rerank": False} if name == NOT_RERANKED else base


READ = 20_000
"""Documents that are read for words."""
_FEW, _MANY = 0.01, 0.1  # shares of the documents that a word of middle frequency is in
_USUAL = 3  # words, where the model was not asked


class RandomTerms(ChatModel):
    """Adds words by chance in place of a model: what of a gain is there without any sense.

    Args:
        vocabulary: the words.
        counts: how many words each step adds, by original query; 3 in later steps, or without.
        seed: with the query, of the draws.
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
        """Return digests of words and counts, and the seed."""
        return {**self._digests, "seed": self.seed}

    @cached_property
    def _digests(self) -> dict[str, str]:
        return {"words": digest(self.vocabulary), "counts": digest(self.counts)}

    def __repr__(self) -> str:
        return f"RandomTerms({len(self.vocabulary)} words #{self._digests['words'][:8]})"

    def outcomes(self, chats: Iterable[Chat]) -> Iterator[tuple[int, Completion]]:
        """Yield the keywords of each chat with words by chance, as a JSON list."""
        for place, chat in enumerate(chats):
            query = str(chat.facts["query"])
            keywords = words(str(chat.facts["keywords"]))
            present = {word.lower() for word in keywords}
            before = len(present) - len({word.lower() for word in words(query)})
            own = [max(1, count) for count in self.counts.get(query, ())]
            step = int(np.searchsorted(np.cumsum(own), before, side="right"))
            count = own[step] if step < len(own) else _USUAL
            random = np.random.default_rng(int(digest([self.seed, query, before]), 16))
            left = [word for word in self.vocabulary if word not in present]
            added = random.choice(left, min(count, len(left)), replace=False).tolist()
            yield place, Completion(json.dumps([*keywords, *added]), 0, 0, 0.0)


def middle_words(documents: Iterable[Mapping[str, str]], retriever: Any) -> list[str]:
    """Return words that are neither rare nor frequent in the first documents, sorted.

    In 1 to 10 % of these (where that is no word, in two at least), of three letters or more, and
    none that the retriever drops.
    """
    counts: Counter[str] = Counter()
    number = 0
    for document in itertools.islice(documents, READ):
        number += 1
        counts.update({word for word in words(document["text"].lower()) if len(word) > 2})
    tokens = index_tokens(retriever)
    good = [w for w in counts if w.isalpha() and (tokens is None or tokens(w))]
    middle = [w for w in good if max(2.0, _FEW * number) <= counts[w] <= _MANY * number]
    return sorted(middle or [w for w in good if counts[w] > 1] or good)


def random_terms(
    data: QrData, retriever: Any, traces: Mapping[Cell, pd.DataFrame], cell: Cell, seed: int
) -> RandomTerms:
    """Return what adds as many words as the model added in FAIR-QR's own loop.

    Args:
        data: the study's.
        retriever: the study's.
        traces: what FAIR-QR did, by cell.
        cell: the placebo's cell.
        seed: of the draws.
    """
    texts = dict(zip(data.topics[QID], data.topics[QUERY], strict=True))
    counts: dict[str, list[int]] = {}
    for own, trace in traces.items():
        if own.system == FAIR_QR and own.attribute == cell.attribute and not own.variation:
            for row in trace[trace["iteration"] > 0].itertuples() if len(trace) else ():
                counts.setdefault(texts[row.qid], []).append(len(row.added.split()))
    return RandomTerms(middle_words(data.documents(), retriever), counts, seed)


KINDS = ("bm25", "vector")
_DEEP = 1000
"""Documents of a query that a retriever gives, unless it is told another number."""


@dataclass(frozen=True)
class Pair:
    """A model and a retriever, at least one of which is not the study's own.

    Attributes:
        model: the model's name; empty: the study's own.
        retriever: the retriever's name; empty: the study's own.
    """

    model: str
    retriever: str

    def renamed(self, cell: Cell) -> Cell | None:
        """Return a cell as the study's tables call it; None: the study has it anyway."""
        if cell.system == BM25:  # which no model changes
            return None if self.model else replace(cell, system=self.retriever)
        return replace(cell, system=f"{cell.system} [{self.shown}]")

    @property
    def shown(self) -> str:
        """What stands in brackets behind a system."""
        return ", ".join(filter(None, (self.retriever, self.model)))


def pairs(models: Sequence[str], retrievers: Mapping[str, Any]) -> Iterator[Pair]:
    """Yield all pairs but that of the first ones; a run is paired with the first model alone."""
    for place, (retriever, own) in enumerate(retrievers.items()):
        for number, model in enumerate(models):
            if (place or number) and not (number and isinstance(own, GivenRun)):
                yield Pair(model if number else "", retriever if place else "")


FIXED = "the rankings of a run are fixed, so no refined query can be retrieved with it"


def refuse_runs(settings: QrSettings, runs: Iterable[str]) -> None:
    """Raise a `ParameterError` if a system or tuning of the settings is to be built on a run."""
    for system in (*settings.systems, *settings.options, *(settings.tuning or ())):
        for run in runs:
            if system == run or system.endswith(f"[{run}]"):
                raise ParameterError(
                    f"{system!r}: {FIXED}: no FAIR-QR system or tuning is built on it; {run!r} is "
                    "compared as it is, without being named among the systems"
                )


def side_settings(settings: QrSettings, retriever: Any) -> QrSettings:
    """Return the settings of a study with another pair: BM25's place and FAIR-QR, once each.

    With a run, its place alone.
    """
    if isinstance(retriever, GivenRun):
        return replace(settings, systems=(BM25,), options={}, variations={}, tuning={})
    names = [n for n in systems(settings) if n == BM25 or n in REFINING]
    own = {name: options for name, options in settings.options.items() if name in REFINING}
    return replace(settings, systems=tuple(names), options=own, variations={}, tuning={})


def named(things: Any, word: str) -> dict[str, Any]:
    """Return models or retrievers by name; a single one has no name of its own."""
    if not isinstance(things, Mapping):
        return {"": things}
    if not things:
        raise ParameterError(f"the study needs at least one {word}")
    return dict(things)


def names_of(tables: Sequence[Mapping[str, Any]], word: str, default: str) -> list[str]:
    """Return the name of each table of a configuration: ``name``, or what it is.

    Args:
        tables: the tables.
        word: what they are, for messages.
        default: the key whose value names a table without ``name``; of a path its last part.

    Raises:
        ParameterError: a name is no text, or two are alike.
    """
    keys = ("name", default, "backend", "run")
    names = [next((table[key] for key in keys if key in table), "") for table in tables]
    names = [Path(name).name if isinstance(name, str) else name for name in names]
    for name in names:
        if not isinstance(name, str) or not name.strip() or set(name) & set("[],"):
            raise ParameterError(
                f"[[{word}]]: name must be a text without brackets and commas; found {name!r}"
            )
        if names.count(name) > 1:
            raise ParameterError(
                f"{names.count(name)} of [[{word}]] are called {name!r}: give each a name of its "
                "own (name = '...')"
            )
    return names


def make_retriever(
    name: str, table: Mapping[str, Any], data: QrData, folder: Path, settings: QrSettings
) -> Any:
    """Return the retriever of a ``[[retriever]]`` table.

    Args:
        name: its name.
        table: ``kind``: ``"bm25"`` (PISA) or ``"vector"`` (vector search over the collection, of
            the plugin fairtk-baselines), and its settings; or ``run``: a file.
        data: what the study is about.
        folder: the study's.
        settings: the study's.

    Raises:
        NotFoundError: there is no such kind or setting.
        ParameterError: a setting is out of its range.
        FormatError, InputError: see `fairtk_papers.studies.GivenRun`.
    """
    if "run" in table:
        for other in table.keys() - {"name", "run"}:
            raise NotFoundError("setting of a [[retriever]] with a run", other, ["name", "run"])
        return GivenRun(table["run"])
    options = _options(table)
    kind = str(table.get("kind", "bm25"))
    if kind == "bm25":
        check_bm25(options, f"the retriever {name!r}")
        return make_bm25(data, folder, {**settings.bm25, **options})
    if kind != "vector":
        raise NotFoundError("kind of [[retriever]]", kind, KINDS)
    if "vector-search" not in registry.study_systems.names():
        raise MissingPluginError("the retriever of kind 'vector'", "fairtk-baselines")
    settings = replace(settings, candidates=int(options.pop("num_results", _DEEP)))
    first = next(iter(data.attributes))  # which it does not read
    return make_system("vector-search", data, folder, settings, first, options)


def _options(table: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in table.items() if key not in ("name", "kind")}


def make_bm25(data: QrData, folder: Path, options: Mapping[str, Any]) -> CollectionBM25:
    """Return BM25 over the collection; its index is kept in the study's folder."""
    check_bm25(options)
    return CollectionBM25(folder / f"index-{data.collection}", data.documents, **options)


def make_system(
    name: str,
    data: QrData,
    folder: Path,
    settings: QrSettings,
    attribute: str,
    options: Mapping[str, Any],
    retriever: Any = None,
) -> Any:
    """Return a system that a plugin gives, for one attribute; a trained one is not fitted yet."""
    groups, target = data.attributes[attribute]
    setting = Setting(
        attribute=attribute,
        groups=groups,
        target=target,
        retriever=retriever,
        texts=data.texts,
        documents=data.documents,
        collection=data.collection,
        cutoff=settings.cutoff,
        candidates=settings.candidates,
        seed=settings.seed,
        folder=folder / "systems" / file_name(name),
        options=options,
    )
    return registry.study_systems.load(name)(setting)


DEFAULT_KIND = "keyword"
"""The kind of model that a study has if it is told none: it costs nothing."""


def kind_of_settings(settings: Mapping[str, Any]) -> Any:
    """Return the kind of model that settings are for; see `make_model`."""
    backend = settings.get("backend", DEFAULT_KIND)
    if not isinstance(backend, str):
        raise ParameterError(f"backend of [llm] must be a string, got {backend!r:.80}")
    return kind_of_model(backend, "refinement", "backend of [llm]")


def make_model(settings: Mapping[str, Any]) -> ChatModel:
    """Return the model.

    Args:
        settings: ``backend``: one of the kinds that `fairtk.llm.list_model_kinds` lists, by default
            ``"keyword"`` (rules, no model); and its settings (local ones with ``temperature`` and
            ``seed`` of `fairtk.llm.LocalChat`). Keys are never settings: they stay in the
            environment; ``api_key_env = ""`` is for servers without, ``temperature = "none"`` and
            ``max_tokens = "none"`` for those that take none.

    Raises:
        NotFoundError: there is no such backend or setting.
        ParameterError: a setting is missing or out of its range.
    """
    own = {name: value for name, value in settings.items() if name != "backend"}
    return build_chat_model(kind_of_settings(settings), with_nothing(own))


PAPERS_TEMPERATURE = 0.3


def with_model(
    configuration: QrConfiguration, text: str | None, server: Mapping[str, Any]
) -> QrConfiguration:
    """Return a configuration with another model in place of its own, and a server's settings.

    Args:
        configuration: the configuration.
        text: the model as users write it, ``KIND:MODEL``, e.g. ``openai:gpt-4o``; None: its own.
        server: settings for those of its models that a server answers for.

    Raises:
        NotFoundError: there is no such kind of model.
        ParameterError: the model's name is missing.
    """
    tables = [dict(table) for table in configuration.models] or [{}]
    if text:
        spec, settings = parse_model(text, "refinement", "backend")
        # settings of another backend do not fit this one
        own = tables[0] if tables[0].get("backend") == spec.name else {}
        tables = [{**own, "backend": spec.name, **settings}]
    for table in tables if server else ():
        if len(tables) == 1 or kind_of_settings(table).server:
            table |= server
    return replace(configuration, models=tables)


def configured_models(configuration: QrConfiguration) -> tuple[Any, QrSettings]:
    """Return the model, or several by name, and the settings with its temperature."""
    tables, settings = configuration.models or [{}], configuration.settings
    refining = dict(settings.fair_qr)
    warm = refining.get("temperature", PAPERS_TEMPERATURE)
    several = len(tables) > 1
    names = names_of(tables, "llm", "model") if several else [""]
    models = {}
    for name, table in zip(names, tables, strict=True):
        own = {key: value for key, value in table.items() if key != "name"}
        if not several and own.get("temperature", "none") != "none":
            # else FairQR's own default would win
            refining = {"temperature": own["temperature"], **refining}
        if several and takes_temperature(kind_of_settings(own)):
            own.setdefault("temperature", warm)
        models[name] = make_model(own)
    if not several:
        return models[""], replace(settings, fair_qr=refining)
    # each has its own
    return models, replace(settings, fair_qr={**refining, "temperature": None})


def configured_retrievers(
    configuration: QrConfiguration, data: QrData, settings: QrSettings
) -> tuple[Any, QrSettings]:
    """Return the retrievers by name, the study's own BM25 as None, and the settings with its
    own.
    """
    if not configuration.retrievers:
        return None, settings
    first, *others = configuration.retrievers
    if first.get("kind", "bm25") != "bm25" or "run" in first:
        why = f" and built on it; {FIXED}" if "run" in first else ""
        raise ParameterError(
            f"the first [[retriever]] must be kind = 'bm25': systems are compared with it{why}"
        )
    own, *names = names_of(configuration.retrievers, "retriever", "kind")
    folder = Path(configuration.output)
    others = [
        make_retriever(name, table, data, folder, settings)
        for name, table in zip(names, others, strict=True)
    ]
    bm25 = {**settings.bm25, **_options(first)}
    return {own: None, **dict(zip(names, others, strict=True))}, replace(settings, bm25=bm25)
