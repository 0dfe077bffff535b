"""Registries of the objects of plugins, and parsing of strings such as ``"RBP(p=0.8)"``.

`fairtk.plugins` fills the registries; importing a module never does. A measure holds its groups and
its target as objects and prints their names. The parser finds an object by a registered name, by a
name that a measure printed, or by a path.
"""

from __future__ import annotations

import ast
import inspect
import pkgutil
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from weakref import WeakValueDictionary

from fairtk import checks
from fairtk.errors import (
    DuplicateError,
    InputError,
    NotFoundError,
    ParameterError,
    PluginError,
)
from fairtk.wording import did_you_mean, short

if TYPE_CHECKING:
    from fairtk.exposure import BrowsingModel
    from fairtk.groups import Divergence, Groups, Target

T = TypeVar("T")
Grid = Mapping[str, Sequence[Any]]


def load_target(target: str) -> Any:
    """Import ``"package.module:attribute"`` and return the attribute."""
    return pkgutil.resolve_name(target)


@dataclass(frozen=True)
class Spec:
    """The description of an object that is imported on first use.

    Attributes:
        name: the registered name.
        target: ``"package.module:attribute"``.
        summary: one line for lists.
        citation: keys of the plugin's ``references.bib``, separated by spaces.
    """

    name: str
    target: str
    summary: str
    citation: str | None = field(default=None, kw_only=True)

    def load(self, target: str = "") -> Any:
        """Import the target, or another one of the spec, and return it.

        Raises:
            PluginError: its module or its attribute does not exist.
        """
        target = target or self.target
        try:
            return load_target(target)
        except (ImportError, AttributeError) as error:
            module = target.partition(":")[0]
            is_import = isinstance(error, ImportError)
            if is_import and not f"{module}.".startswith(f"{error.name}."):
                raise  # what the module imports is missing, e.g. the package of an extra
            raise PluginError(
                f"{_label(self)}: {target!r} is not found ({error}); correct the target of the "
                f"{type(self).__name__}, 'module:attribute'"
            ) from error


@dataclass(frozen=True)
class UtilitySpec(Spec):
    """A string utility, its direction, and the extra of fairtk that it requires, if any."""

    higher_is_better: bool = True
    extra: str | None = None


@dataclass(frozen=True)
class PromptSpec(Spec):
    """A prompt builder for ``FlanT5(prompt=...)``."""


SERVER = ("base_url", "api_key_env")
"""Settings of models on servers."""


@dataclass(frozen=True)
class ChatModelSpec(Spec):
    """A kind of `fairtk.llm.ChatModel`, written ``KIND:MODEL``.

    The target is called with keyword arguments: its first parameter is the model (a name or a
    folder; required if it has no default), the others are its settings. It returns a model, or any
    other argument of `fairtk.llm.as_chat_model`.

    Attributes:
        example: an example of a model.
        uses: ``"answers"`` to any prompt, ``"refinement"`` of queries.
        server: whether a server answers, so that answers cost money.
        stage: a transformer of (model, prompt, cutoff, settings) to use instead of `Generator`.
        exact: settings for tasks in which small differences between answers count, e.g. labels.
    """

    extra: str | None = None
    example: str = "NAME"
    uses: tuple[str, ...] = ("answers", "refinement")
    server: bool = False
    stage: str | None = None
    exact: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def has_setting(self, name: str) -> bool:
        """Return whether the models have a setting; only servers have those of `SERVER`."""
        parameters = inspect.signature(self.load()).parameters
        takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
        return (name in parameters or takes_any) and (self.server or name not in SERVER)


@dataclass(frozen=True)
class TransformerSpec(Spec):
    """A PyTerrier transformer, with its input frames (``"R|S|Q"``) and its output (``"S"``)."""

    inputs: str
    outputs: str
    extra: str | None = None


@dataclass(frozen=True)
class DatasetSpec(Spec):
    """A data set: its ir_datasets id, and a function that returns it for the id."""

    warning: str | None = None


@dataclass(frozen=True)
class StudySystemSpec(Spec):
    """A system of ``fairtk qr``, made from a `Setting`.

    Attributes:
        trained: whether it has ``fit(topics, qrels)``.
        grid: the default values of each tuned option; or several such grids.
    """

    trained: bool = False
    grid: Grid | Sequence[Grid] = field(default=(), hash=False)


@dataclass(frozen=True)
class StudySpec(Spec):
    """A study: its command, and a class whose ``read(path)`` reads its TOML file.

    ``read`` must raise a `FormatError` for the file of another study, because `fairtk prompts`
    tries each study to find the command of a file.
    """


@dataclass(frozen=True)
class Registration(Generic[T]):
    """A registered value with its name, its plugin, and the plugin's name and version."""

    name: str
    value: T
    plugin: object
    owner: str


_WORD = r"[^\W\d][\w-]*"


class Registry(Generic[T]):
    """All values of one kind, by name.

    `names` is the pattern of names; the default fits names that are not read in strings.
    `listener` is called with each name and value, and with `None` when the value is removed.
    """

    def __init__(
        self,
        kind: str,
        base: type | str = object,
        classes: bool = False,
        names: str = r"[^\s()=,'\"]+",
    ) -> None:
        self.kind, self.base, self.classes, self.pattern = kind, base, classes, names
        self.before_use: Callable[[], None] = lambda: None
        self.listener: Callable[[str, Any], None] = lambda name, value: None
        self._entries: dict[str, Registration[T]] = {}

    def set_listener(self, listener: Callable[[str, Any], None]) -> None:
        """Call `listener` for all values, now and when they are registered."""
        self.listener = listener
        for entry in self._entries.values():
            listener(entry.name, entry.value)

    @property
    def base_class(self) -> type:
        """The class of the values, or their base class; imported on first use."""
        base: type = load_target(self.base) if isinstance(self.base, str) else self.base
        return base

    def add(self, value: T, plugin: object) -> str:
        """Register a value and return its name; a name of another plugin is a `PluginError`."""
        kind = value if self.classes else type(value)
        if not (isinstance(kind, type) and issubclass(kind, self.base_class)):
            rule = "a subclass" if self.classes else "an instance"
            raise PluginError(
                f"a {self.kind} must be {rule} of {self.base_class.__name__}, got {value!r}"
            )
        own = "__name__" if self.classes else "name"
        name = getattr(value, "NAME", "") or getattr(value, own, "")
        if not isinstance(name, str) or not name:
            raise PluginError(f"the {self.kind} {value!r} must have a name")
        if not re.fullmatch(self.pattern, name):
            raise PluginError(
                f"the name {name!r} of a {self.kind} cannot be written in strings; use letters, "
                "digits, - and _"
            )
        if isinstance(value, Spec):
            self._check_target(name, value.target)
            self._check_target(name, getattr(value, "stage", None) or value.target)
        taken = self._entries.setdefault(name, Registration(name, value, plugin, str(plugin)))
        if taken.plugin is not plugin:
            raise PluginError(
                f"duplicate {self.kind} {name!r} of two plugins, {taken.owner} and {plugin}; "
                "rename one"
            )
        if taken.value is not value:
            raise PluginError(f"duplicate {self.kind} {name!r}")
        self.listener(name, value)
        return name

    def _check_target(self, name: str, target: Any) -> None:
        if not re.fullmatch(r"[\w.]+:[\w.]+", str(target)):
            raise PluginError(
                f"the target of the {self.kind} {name!r} must be 'module:attribute', got {target!r}"
            )

    def discard(self, plugin: object) -> None:
        """Remove the values of a plugin."""
        for name in [n for n, entry in self._entries.items() if entry.plugin is plugin]:
            del self._entries[name]
            self.listener(name, None)

    def get(self, name: str) -> T:
        """Return the value; an unknown name is a `NotFoundError`."""
        if name not in self:
            raise NotFoundError(self.kind, name, self._entries)
        return self._entries[name].value

    def load(self, name: str) -> Any:
        """Return the imported target of the spec with this name."""
        return self.get(name).load()  # type: ignore[attr-defined]

    def names(self) -> list[str]:
        """Return the registered names, sorted."""
        return [entry.name for entry in self.entries()]

    def entries(self) -> list[Registration[T]]:
        """Return all entries, sorted by name."""
        self.before_use()
        return [self._entries[name] for name in sorted(self._entries)]

    def owner(self, name: str) -> str:
        """Return the plugin of a name, with its version; ``""`` if it is not registered so far."""
        return self._entries[name].owner if name in self._entries else ""

    def __contains__(self, name: object) -> bool:
        self.before_use()
        return isinstance(name, str) and name in self._entries


measures: Registry[Any] = Registry("measure", "fairtk.measures:FairMeasure")
utilities: Registry[UtilitySpec] = Registry("utility", UtilitySpec, names=_WORD)
browsing_models: Registry[Any] = Registry(
    "browsing model", "fairtk.exposure.browsing:BrowsingModel", classes=True, names=_WORD
)
divergences: Registry[Any] = Registry(
    "divergence", "fairtk.groups:Divergence", classes=True, names=_WORD
)
transformers: Registry[TransformerSpec] = Registry("transformer", TransformerSpec)
datasets: Registry[DatasetSpec] = Registry("dataset", DatasetSpec)
prompts: Registry[PromptSpec] = Registry("prompt", PromptSpec)
chat_models = Registry[ChatModelSpec]("model", ChatModelSpec, names=r"[^\s:()=,'\"]+")
study_systems: Registry[StudySystemSpec] = Registry("system of the study", StudySystemSpec)
studies: Registry[StudySpec] = Registry("study", StudySpec)

_OF_SPECS: tuple[Registry[Any], ...] = (
    *(utilities, transformers, datasets, prompts, chat_models, study_systems, studies),
)


def _label(spec: Spec) -> str:
    """Return the kind and name of a spec, and its plugin if it is registered."""
    filled = next(one for one in _OF_SPECS if isinstance(spec, one.base_class))
    owner = filled.owner(spec.name)
    return f"the {filled.kind} {spec.name!r}" + (f" (plugin {owner})" if owner else "")


Named = TypeVar("Named", "Groups", "Target")


class ObjectsInUse:
    """Weak references to the objects that measures use, by their string form.

    The strings of measures whose groups or target are not registered are read back through them.
    """

    def __init__(self) -> None:
        self._by_text: dict[str, WeakValueDictionary[int, Any]] = {}

    def add(self, text: str, value: Any) -> None:
        """Add an object, even if there is an equal one, which may be deleted earlier."""
        self._by_text.setdefault(text, WeakValueDictionary())[id(value)] = value

    def find_all(self, text: str) -> list[Any]:
        """Return the objects with this string form."""
        return list(self._by_text.get(text, {}).values())


class Directory(Generic[Named]):
    """Named objects, either groups or targets; their class is imported when a file is read."""

    def __init__(self, kind: str, cls: str, remedy: str) -> None:
        self._kind, self._cls, self._remedy = kind, cls, remedy
        self.registered: dict[str, Named] = {}
        self.in_use = ObjectsInUse()

    def register(self, value: Named, name: str) -> str:
        """Register an object under a name; a duplicate name is a `DuplicateError`."""
        if (other := self.registered.setdefault(name, value)) != value:
            raise DuplicateError(
                f"duplicate name {name!r} of {self._kind}, registered for {other!r}; choose "
                "another name"
            )
        return name

    def name(self, value: Named) -> str:
        """Return the name of an object that a measure holds, and remember the object.

        This is its registered name, its own name, or the digest of a target without a name.
        """
        names = (name for name, own in self.registered.items() if own is value)
        text: str = next(names, value.name or value.key)
        self.in_use.add(text, value)
        return text

    def find(self, text: str, space: Any = None) -> Named:
        """Return the object with this name or path: registered, held by a measure, or in a file.

        Args:
            text: the name or path.
            space: the levels of the target, because targets of several attributes may share a name.
        """
        if text in self.registered:
            return self.registered[text]
        held: list[Named] = self.in_use.find_all(text)
        held = [value for value in held if value.space == space] or held
        if held and all(value == held[0] for value in held):
            return held[0]
        if held:
            raise ParameterError(
                f"ambiguous name {text!r} of different {self._kind} in several measures; "
                f"{self._remedy}"
            )
        path = Path(text)
        if path.suffix and path.exists():
            cls: Any = load_target(self._cls)
            read: Named = cls.read(path)
            return read
        if path.suffix and len(path.suffix) < 9 and "#" not in text:
            raise InputError(f"{text}: no such file or name of registered {self._kind}")
        error = NotFoundError(self._kind, text, self.registered)
        error.args = (f"{error}; {self._remedy}",)
        raise error


GROUPS: Directory[Groups] = Directory(
    "groups", "fairtk.groups.groups:Groups", "pass the object, or use fairtk.register_groups"
)
TARGETS: Directory[Target] = Directory(
    "target",
    "fairtk.groups.target:Target",
    "give the object, or fairtk.register_target(object, name)",
)


def register_groups(groups: Groups, name: str | None = None) -> str:
    """Register groups under a name, for measures as strings: ``AWRF(groups='gender', ...)``.

    Returns:
        The name, by default that of the groups.

    Raises:
        DuplicateError: other groups have the name.
    """
    if name is not None:
        checks.text("name", name, "register_groups")
    return GROUPS.register(groups, name or groups.name)


def register_target(target: Target, name: str) -> str:
    """Register a target under a name, for measures as strings, and return the name.

    Raises:
        DuplicateError: another target has the name.
        ParameterError: the name is reserved, such as ``"uniform"``, the target of any groups.
    """
    from fairtk.groups.levels import OFFICIAL_TARGETS, TARGET_WORDS

    checks.text("name", name, "register_target")
    if name in TARGET_WORDS or name in OFFICIAL_TARGETS:
        raise ParameterError(f"the name {name!r} is reserved; choose another name")
    return TARGETS.register(target, name)


_CALL = re.compile(rf"({_WORD})\s*(\(.*\))?", re.DOTALL)


def parse_call(text: str, kind: str) -> tuple[str, dict[str, Any]]:
    """Split ``"Name(a=1, b='x')"`` into the name and its literal keyword arguments."""
    parts = _CALL.fullmatch(checks.text(kind, text).strip())
    # SyntaxError, ValueError: not literals; TypeError: a set of lists; the others: nested too deep
    with suppress(SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        node = ast.parse(f"name{parts.group(2) or '()'}", mode="eval").body if parts else None
        if parts and isinstance(node, ast.Call) and not node.args:
            options = {str(k.arg): ast.literal_eval(k.value) for k in node.keywords}
            if len(options) == len(node.keywords) and "None" not in options:
                return parts.group(1), options
    raise ParameterError(
        f"invalid {kind} {text!r}; write Name or Name(option=value), each option once"
    )


def refuse_unknown_options(
    what: str, factory: Callable[..., Any], options: Mapping[str, Any]
) -> Mapping[str, inspect.Parameter]:
    """Raise for an unknown or positional option of a factory; return its parameters."""
    parameters = inspect.signature(factory).parameters
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    for option in options:
        if option not in parameters and not takes_any:
            tail = did_you_mean(option, parameters)
            raise ParameterError(f"{what}: unknown parameter {option!r}{tail}")
    refuse_other_than_text(what, parameters, options)
    return parameters


def refuse_other_than_text(
    what: str, parameters: Mapping[str, inspect.Parameter], options: Mapping[str, Any]
) -> None:
    """Raise for an option that is declared as text and has another type."""
    for option, value in options.items():
        declared = str(getattr(parameters.get(option), "annotation", ""))
        text = declared in ("str", "str | None", str(str))
        if text and value is not None and not isinstance(value, str):
            raise ParameterError(f"{what}: {option} must be text, got {value!r}")


def refuse_missing_options(
    what: str, parameters: Mapping[str, inspect.Parameter], options: Mapping[str, Any]
) -> None:
    """Raise for None, NaN, infinity or an empty string, if the declaration does not allow it."""
    for option, value in options.items():
        parameter = parameters.get(option)
        if parameter is None:
            continue
        is_text = isinstance(value, str) and isinstance(parameter.default, str)
        if not is_text and not (value is None and "None" in str(parameter.annotation)):
            checks.refuse_missing(option, value, what, parameter.default)


def parse_browsing_model(text: str) -> BrowsingModel:
    """Return the browsing model of a string such as ``"RBP(p=0.8)"``."""
    model: BrowsingModel = _read(text, browsing_models)
    return model


def read_divergence(text: str, **settings: Any) -> Divergence:
    """Return the divergence of a string such as ``"kl(smoothing=0.01)"``.

    `settings` are defaults of options that the string does not set; unknown ones are ignored.
    """
    divergence: Divergence = _read(text, divergences, settings)
    return divergence


def as_position_model(browsing: str | BrowsingModel, where: str) -> BrowsingModel:
    """Return a browsing model without a cascade, whose attention depends on ranks alone."""
    model: BrowsingModel = _as_object(browsing, browsing_models, f"{where}: browsing")
    if model.stop > 0:
        raise ParameterError(
            f"{where}: browsing must be a model without a cascade, e.g. TREC, DCG or RBP(p=0.8), "
            f"got {short(browsing)}"
        )
    return model


def as_divergence(divergence: str | Divergence, where: str, **settings: Any) -> Divergence:
    """Return a divergence, given as an object or a string; settings as in `read_divergence`."""
    value: Divergence = _as_object(divergence, divergences, f"{where}: divergence", settings)
    return value


def _as_object(
    value: Any, registry: Registry[Any], where: str, settings: Mapping[str, Any] | None = None
) -> Any:
    try:
        made = _read(value, registry, settings) if isinstance(value, str) else value
    except NotFoundError as error:
        raise ParameterError(f"{where}: {error}") from None
    if not isinstance(made, registry.base_class):
        raise ParameterError(
            f"{where}: expected a {registry.kind} or its name, e.g. {registry.names()[0]!r}, got "
            f"{short(value)}"
        )
    return made


def _read(text: str, registry: Registry[Any], settings: Mapping[str, Any] | None = None) -> Any:
    name, options = parse_call(text, registry.kind)
    kind = registry.get(name)
    parameters = refuse_unknown_options(name, kind, options)
    refuse_missing_options(name, parameters, options)
    given = {k: v for k, v in (settings or {}).items() if k in parameters} | options
    for parameter in parameters.values():
        is_open = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        if parameter.default is parameter.empty and parameter.name not in given and not is_open:
            raise ParameterError(f"{name}: {parameter.name} is required")
    try:
        return kind(**given)
    except TypeError as error:  # of a plugin's class that does not check its settings
        raise ParameterError(f"{name}: {error}") from None
