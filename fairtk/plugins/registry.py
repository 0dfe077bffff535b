"""The names of what plugins give, filled by `fairtk.plugins` alone, never by importing a module."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, cast

from fairtk.errors import BrokenPluginError, NotFoundError, PluginError
from fairtk.starting.printing import load_target

T = TypeVar("T")


@dataclass(frozen=True)
class Spec:
    """Something that is imported on first use, from ``"package.module:attribute"``."""

    name: str
    target: str
    summary: str


@dataclass(frozen=True)
class UtilitySpec(Spec):
    """A string utility, its direction, and the extra of fairtk that it needs, if any."""

    higher_is_better: bool = True
    extra: str | None = None


@dataclass(frozen=True)
class PromptSpec(Spec):
    """A prompt builder for ``FlanT5(prompt=...)``."""


@dataclass(frozen=True)
class TransformerSpec(Spec):
    """A PyTerrier transformer: its class, the frames it takes (``"R|S|Q"``) and gives (``"S"``).

    `citation`: keys of the plugin's ``references.bib``, separated by spaces.
    """

    inputs: str
    outputs: str
    extra: str | None = None
    citation: str | None = None


@dataclass(frozen=True)
class DatasetSpec(Spec):
    """A data set: its ir_datasets id, a function of the id that returns it, a key of the .bib."""

    citation: str | None = None
    warning: str | None = None


@dataclass(frozen=True)
class StudySystemSpec(Spec):
    """A system of ``fairtk qr``, made of a `Setting`; `trained`: it has ``fit(topics, qrels)``.

    Attributes:
        grid: values of its options, by name, that tuning tries by default, or several such; empty:
            it is not tuned.
    """

    trained: bool = False
    citation: str | None = None
    grid: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]] = field(
        default=(), hash=False
    )


@dataclass(frozen=True)
class Registration(Generic[T]):
    """One registered value, the plugin that gave it, and its name and version."""

    name: str
    value: T
    plugin: object
    owner: str


class Registry(Generic[T]):
    """All values of one kind, by name; `listener` hears of each, and of None when it is gone."""

    def __init__(self, kind: str, base: type | str = object, classes: bool = False) -> None:
        self.kind, self.base, self.classes = kind, base, classes
        self.before_use: Callable[[], None] = lambda: None
        self.listener: Callable[[str, Any], None] = lambda name, value: None
        self._entries: dict[str, Registration[T]] = {}

    def tell(self, listener: Callable[[str, Any], None]) -> None:
        """Let `listener` hear of what there is, and of what comes."""
        self.listener = listener
        for entry in self._entries.values():
            listener(entry.name, entry.value)

    def add(self, value: T, plugin: object) -> None:
        """Register a value; a name that another plugin has is a `PluginError` naming both."""
        name = self._name(value)
        taken = self._entries.setdefault(name, Registration(name, value, plugin, str(plugin)))
        if taken.plugin is not plugin:
            raise PluginError(
                f"the {self.kind} {name!r} is given by two plugins, {taken.owner} and {plugin}: "
                "rename one, uninstall its plugin, or leave it out of FAIRTK_PLUGINS"
            )
        if taken.value is not value:
            raise BrokenPluginError(f"it gives the {self.kind} {name!r} twice")
        self.listener(name, value)

    def discard(self, plugin: object) -> None:
        """Forget what a plugin gave."""
        for name in self.given_by(plugin):
            del self._entries[name]
            self.listener(name, None)

    def get(self, name: str) -> T:
        """Return the value; an unknown name is a `NotFoundError` with the nearest one."""
        if name not in self:
            raise NotFoundError(self.kind, name, self._entries)
        return self._entries[name].value

    def load(self, name: str) -> Any:
        """Return what the spec registered under the name points to (its imported target)."""
        return load_target(self.get(name).target)  # type: ignore[attr-defined]

    def names(self) -> list[str]:
        """Return the registered names, sorted."""
        return [entry.name for entry in self.entries()]

    def entries(self) -> list[Registration[T]]:
        """Return all entries with their owners, sorted by name."""
        self.before_use()
        return [self._entries[name] for name in sorted(self._entries)]

    def __contains__(self, name: object) -> bool:
        self.before_use()
        return name in self._entries

    def given_by(self, plugin: object) -> list[str]:
        """Return the names that a plugin gave, in its order; loads nothing."""
        return [entry.name for entry in self._entries.values() if entry.plugin is plugin]

    def _name(self, value: Any) -> str:
        """Return the name of a value, which must be what the registry is for."""
        if isinstance(self.base, str):
            self.base = cast(type, load_target(self.base))
        of_kind = issubclass if self.classes else isinstance
        if isinstance(value, type) != self.classes or not of_kind(value, self.base):
            wanted = f"a subclass of {self.base.__name__}" if self.classes else "an instance"
            wanted += "" if self.classes or self.base is object else f" of {self.base.__name__}"
            raise BrokenPluginError(f"each {self.kind} must be {wanted}; found {value!r}")
        name = getattr(value, "NAME", "")
        name = name or getattr(value, "__name__" if self.classes else "name", "")
        if not isinstance(name, str) or not name:
            raise BrokenPluginError(f"the {self.kind} {value!r} has no name")
        return name


measures: Registry[Any] = Registry("measure")
utilities: Registry[UtilitySpec] = Registry("utility", UtilitySpec)
browsing_models: Registry[Any] = Registry(
    "browsing model", "fairtk.exposure.browsing:BrowsingModel", classes=True
)
divergences: Registry[Any] = Registry("divergence", "fairtk.divergence:Divergence", classes=True)
transformers: Registry[TransformerSpec] = Registry("transformer", TransformerSpec)
datasets: Registry[DatasetSpec] = Registry("dataset", DatasetSpec)
prompts: Registry[PromptSpec] = Registry("prompt", PromptSpec)
study_systems: Registry[StudySystemSpec] = Registry("system of the study", StudySystemSpec)
