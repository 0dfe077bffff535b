"""Models and retrievers of a study, one or several: FAIR-QR with each, in the same tables.

The first model and the first retriever are the study's own: all systems are built on them. Every
other retriever stands in the tables by itself, and FAIR-QR with every other pair, under names such
as ``fair-qr [gpt-4o]`` and ``fair-qr [vector, gpt-4o]``.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fairtk.errors import FairtkError, IdentityError, InputError, NotFoundError, ParameterError
from fairtk.experiment import describe_stage
from fairtk.llm import REFINEMENT, ChatModel, build_chat_model, kind_of_model
from fairtk.llm import parse_model as read_model
from fairtk.plugins import ModelSpec, registry
from fairtk.studies.fair_qr.cells import BM25, OF_BM25, REFINING, Cell, systems
from fairtk.studies.fair_qr.data import Setting, StudyData
from fairtk.studies.fair_qr.settings import Settings
from fairtk.studies.frame import file_name, with_nothing
from fairtk.transformers import CollectionBM25

KINDS = ("bm25", "vector")
DEEP = 1000
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
        if cell.system == BM25:
            return replace(cell, system=self.retriever) if self.alone else None
        return replace(cell, system=f"{cell.system} [{self.shown}]")

    @property
    def shown(self) -> str:
        """What stands in brackets behind a system."""
        return ", ".join(filter(None, (self.retriever, self.model)))

    @property
    def alone(self) -> bool:
        """Whether it is another retriever with the study's own model."""
        return not self.model


def pairs(models: Sequence[str], retrievers: Sequence[str]) -> Iterator[Pair]:
    """Yield all pairs but that of the first ones."""
    for place, retriever in enumerate(retrievers):
        for number, model in enumerate(models):
            if place or number:
                yield Pair(model if number else "", retriever if place else "")


def side_settings(settings: Settings) -> Settings:
    """Return the settings of a study with another pair: BM25's place and FAIR-QR, once each."""
    names = [n for n in systems(settings) if n == BM25 or n in REFINING]
    own = {name: options for name, options in settings.options.items() if name in REFINING}
    once: dict[str, Any] = {
        name: {} for name in ("variations", "tuning") if hasattr(settings, name)
    }
    return settings.changed(systems=tuple(names), options=own, **once)


def named(given: Any, word: str) -> dict[str, Any]:
    """Return models or retrievers by name; a single one has no name of its own."""
    if not isinstance(given, Mapping):
        return {"": given}
    if not given:
        raise ParameterError(f"the study needs at least one {word}")
    return dict(given)


def names_of(tables: Sequence[Mapping[str, Any]], word: str, default: str) -> list[str]:
    """Return the name of each table of a configuration: ``name``, or what it is.

    Args:
        tables: the tables.
        word: what they are, for messages.
        default: the key whose value names a table without ``name``; of a path its last part.

    Raises:
        ParameterError: a name is no text, or two are alike.
    """
    names = [table.get("name", table.get(default, table.get("backend", ""))) for table in tables]
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
    name: str, given: Mapping[str, Any], data: StudyData, folder: Path, settings: Settings
) -> Any:
    """Return the retriever of a ``[[retriever]]`` table.

    Args:
        name: its name.
        given: ``kind``: ``"bm25"`` (PISA, with its settings), ``"vector"`` (vector search over the
            collection, of the plugin fairtk-baselines, with its settings) or ``"module:factory"``:
            an importable function that is called with the table's other keys, and with
            ``documents`` (gives all documents) and ``folder`` where it has parameters of these
            names, and returns a transformer Q -> R.
        data: what the study is about.
        folder: the study's.
        settings: the study's.

    Raises:
        NotFoundError: there is no such kind or setting.
        ParameterError: a setting is out of its range, or it is no transformer.
        InputError: the factory failed.
        IdentityError: what it made cannot be told from another.
    """
    options = {key: value for key, value in given.items() if key not in ("name", "kind")}
    kind = str(given.get("kind", "bm25"))
    if kind == "bm25":
        for option in options:
            if option not in OF_BM25:
                raise NotFoundError(f"setting of the retriever {name!r}", option, OF_BM25)
        options = {**settings.bm25, **options}
        return CollectionBM25(folder / f"index-{data.collection}", data.documents, **options)
    if kind == "vector":
        return _vector_search(options, data, folder, settings)
    if ":" not in kind:
        raise NotFoundError("kind of [[retriever]] (another is named module:factory)", kind, KINDS)
    return _from_factory(name, kind, options, data, folder)


def _vector_search(
    options: Mapping[str, Any], data: StudyData, folder: Path, settings: Settings
) -> Any:
    if "vector-search" not in registry.study_systems.names():
        raise InputError(
            "a retriever of kind 'vector' needs the plugin fairtk-baselines: pip install "
            "fairtk-baselines"
        )
    groups, target = next(iter(data.attributes.values()))  # which it does not read
    setting = Setting(
        attribute="",
        groups=groups,
        target=target,
        retriever=None,
        texts=data.texts,
        documents=data.documents,
        collection=data.collection,
        cutoff=settings.cutoff,
        candidates=int(options.get("num_results", DEEP)),
        seed=settings.seed,
        folder=folder / "systems" / file_name("vector-search"),
        options={key: value for key, value in options.items() if key != "num_results"},
    )
    return registry.study_systems.load("vector-search")(setting)


def _from_factory(
    name: str, place: str, options: dict[str, Any], data: StudyData, folder: Path
) -> Any:
    module, _, attribute = place.partition(":")
    try:
        factory = getattr(importlib.import_module(module), attribute)
        wanted = inspect.signature(factory).parameters
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        raise InputError(
            f"the retriever {name!r}: {place!r} cannot be imported ({type(error).__name__}: "
            f"{error}); kind must be module:factory of an installed module"
        ) from error
    there = {"documents": data.documents, "folder": folder / "retrievers" / file_name(name)}
    given = {key: value for key, value in there.items() if key in wanted} | options
    try:
        made = factory(**given)
    except Exception as error:
        what = str(error) if isinstance(error, FairtkError) else f"{type(error).__name__}: {error}"
        raise InputError(f"the retriever {name!r}: {place} failed: {what}") from error
    if not hasattr(made, "transform"):
        raise ParameterError(
            f"the retriever {name!r}: {place} must return a transformer Q -> R; found {made!r:.80}"
        )
    try:
        describe_stage(made)
    except IdentityError as error:
        raise IdentityError(f"the retriever {name!r}: {error}") from error
    return made


DEFAULT_KIND = "keyword"
"""The kind of model that a study has if it is told none: it costs nothing."""


def kind_of_settings(settings: Mapping[str, Any]) -> ModelSpec:
    """Return the kind of model that settings are for; see `make_model`."""
    return kind_of_model(settings.get("backend", DEFAULT_KIND), REFINEMENT, "backend of [llm]")


def make_model(settings: Mapping[str, Any]) -> ChatModel:
    """Return the model.

    Args:
        settings: ``backend``: one of the kinds that `fairtk.llm.kinds_of_models` lists, by default
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


def parse_model(text: str) -> dict[str, Any]:
    """Return the settings for what a user writes, ``KIND:MODEL``, e.g. ``openai:gpt-4o``.

    Raises:
        NotFoundError: there is no such backend.
        ParameterError: the model's name is missing.
    """
    spec, settings = read_model(text, REFINEMENT, "backend")
    return {"backend": spec.name, **settings}
