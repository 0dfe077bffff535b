"""Names under which measures, utilities, prompts, browsing models, transformers and data are known.

A registry maps a name to what one plugin gave and remembers which distribution that was. It is
filled by `fairtk.plugins` alone and never by importing a module. What is expensive to import is
given as a spec with a ``target`` (``"package.module:attribute"``), loaded on first use.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from fairtk.errors import NotFoundError, PluginError

T = TypeVar("T")


def load_target(target: str) -> Any:
    """Import ``"package.module:attribute"`` and return the attribute."""
    module, _, attribute = target.partition(":")
    return getattr(importlib.import_module(module), attribute)


@dataclass(frozen=True)
class UtilitySpec:
    """A string utility: how good one answer is, given the gold answers.

    Attributes:
        name: what users write in ``EU(utility=...)``.
        target: ``"package.module:factory"``; the factory takes options, returns the utility.
        summary: one line for ``fairtk measures``.
        higher_is_better: the direction of the value.
        extra: the extra of fairtk that installs what the target imports, if any.
    """

    name: str
    target: str
    summary: str
    higher_is_better: bool = True
    extra: str | None = None


@dataclass(frozen=True)
class PromptSpec:
    """A prompt builder: question and documents in, prompt out.

    Attributes:
        name: what users write in ``FlanT5(prompt=...)``.
        target: ``"package.module:factory"``; the factory takes options, returns the builder.
        summary: one line.
    """

    name: str
    target: str
    summary: str


@dataclass(frozen=True)
class TransformerSpec:
    """A PyTerrier transformer.

    Attributes:
        name: the name of the class.
        target: ``"package.module:Class"``.
        summary: one line.
        inputs: the frame types it takes, e.g. ``"R"`` or ``"R|S|Q"``.
        outputs: the frame type it gives, e.g. ``"S"``.
        extra: the extra that it needs, if any.
    """

    name: str
    target: str
    summary: str
    inputs: str
    outputs: str
    extra: str | None = None


@dataclass(frozen=True)
class DatasetSpec:
    """A data set in ir_datasets' terms.

    Attributes:
        id: the ir_datasets id, a path like ``"lamp/4/dev"``.
        target: ``"package.module:load"``; called with the id, returns an ``ir_datasets.Dataset``.
        summary: one line.
        citation: a key of ``references.bib``.
        warning: a known problem of the data that a user should read, if any.
    """

    id: str
    target: str
    summary: str
    citation: str | None = None
    warning: str | None = None

    @property
    def name(self) -> str:
        """The id: what the data set is registered under."""
        return self.id


@dataclass(frozen=True)
class StudySystemSpec:
    """A retrieval system that ``fairtk qr`` compares FAIR-QR with.

    Attributes:
        name: what users write, and what tables show, e.g. ``"mmr"``.
        target: ``"package.module:build"``; called with a `fairtk.studies.fair_qr.Setting`,
            returns a PyTerrier transformer Q -> R.
        summary: one line.
        trained: whether the transformer has ``fit(topics, qrels)``: it is then trained and applied
            on different topics.
    """

    name: str
    target: str
    summary: str
    trained: bool = False


@dataclass(frozen=True)
class Entry(Generic[T]):
    """One registered value and the plugin that gave it."""

    name: str
    value: T
    owner: str


class Registry(Generic[T]):
    """All values of one kind, by name.

    Args:
        kind: the singular in words, for messages.
        before_use: called before every look-up; loads the plugins when that has not happened yet.
    """

    def __init__(self, kind: str, before_use: Callable[[], None] | None = None) -> None:
        self.kind = kind
        self.before_use = before_use
        self._entries: dict[str, Entry[T]] = {}

    def add(self, name: str, value: T, owner: str) -> None:
        """Register a value; a name that another plugin has is a `PluginError` naming both."""
        taken = self._entries.get(name)
        if taken is not None:
            raise PluginError(
                f"the {self.kind} {name!r} is given by two plugins, {taken.owner} and {owner}: "
                "rename one, uninstall its plugin, or leave it out of FAIRTK_PLUGINS"
            )
        self._entries[name] = Entry(name, value, owner)

    def get(self, name: str) -> T:
        """Return the value; an unknown name is a `NotFoundError` with the nearest one."""
        self._ready()
        if name not in self._entries:
            raise NotFoundError(self.kind, name, self._entries)
        return self._entries[name].value

    def load(self, name: str) -> Any:
        """Return what the spec registered under the name points to (its imported target)."""
        spec: Any = self.get(name)
        return load_target(spec.target)

    def names(self) -> list[str]:
        """Return the registered names, sorted."""
        self._ready()
        return sorted(self._entries)

    def entries(self) -> list[Entry[T]]:
        """Return all entries with their owners, sorted by name."""
        self._ready()
        return [self._entries[name] for name in sorted(self._entries)]

    def __contains__(self, name: object) -> bool:
        self._ready()
        return name in self._entries

    def clear(self) -> None:
        """Forget everything (the plugin manager does this before it loads again)."""
        self._entries.clear()

    def discard(self, names: Iterable[str]) -> None:
        """Forget the given names."""
        for name in names:
            self._entries.pop(name, None)

    def _ready(self) -> None:
        if self.before_use is not None:
            self.before_use()


measures: Registry[Any] = Registry("measure")
utilities: Registry[UtilitySpec] = Registry("utility")
browsing_models: Registry[Any] = Registry("browsing model")
transformers: Registry[TransformerSpec] = Registry("transformer")
datasets: Registry[DatasetSpec] = Registry("dataset")
prompts: Registry[PromptSpec] = Registry("prompt")
study_systems: Registry[StudySystemSpec] = Registry("system of the study")

ALL: dict[str, Registry[Any]] = {
    "fairtk_measures": measures,
    "fairtk_utilities": utilities,
    "fairtk_browsing_models": browsing_models,
    "fairtk_transformers": transformers,
    "fairtk_datasets": datasets,
    "fairtk_prompts": prompts,
    "fairtk_study_systems": study_systems,
}
"""The registry that each value-returning hook fills."""
