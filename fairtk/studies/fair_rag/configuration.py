"""What is run, as a TOML file or the command line says it."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from os import PathLike
from pathlib import Path
from typing import Any

from fairtk.errors import FormatError, InputError, NotFoundError, ParameterError, suggestion
from fairtk.studies.fair_rag.settings import RagSettings
from fairtk.studies.fair_rag.specs import make_generator, make_retriever
from fairtk.studies.fair_rag.study import RagStudy
from fairtk.studies.fair_rag.tasks import LampTask, read_tasks

OUTPUT = "fair-rag-study"
_NAMES = {"bm25": "BM25", "contriever": "Contriever", "splade": "SPLADE"}
_ENGINE = ("executor", "workers", "threads", "batch_size")
_SETTINGS = tuple(f.name for f in fields(RagSettings))


@dataclass(frozen=True)
class Configuration:
    """What a study is made of.

    Attributes:
        folder: with LaMP's files; None: `datasets` say where the data are.
        datasets: ids, e.g. ``lamp/4/dev``.
        tasks: numbers of the tasks in `folder`.
        split: in the names of the folder's files.
        retrievers: as `make_retriever` takes them.
        generators: as `make_generator` takes them.
        settings: how the study is done.
        options: settings of retrievers and generators, by what they are called above.
        engine: ``executor``, ``workers``, ``threads``, ``batch_size``.
        output: where results go.
    """

    folder: str | None = None
    datasets: tuple[str, ...] = ()
    tasks: tuple[int, ...] = ()
    split: str = "dev"
    retrievers: tuple[str, ...] = ("bm25",)
    generators: tuple[str, ...] = ("t5:google/flan-t5-small",)
    settings: RagSettings = field(default_factory=RagSettings)
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    engine: Mapping[str, Any] = field(default_factory=dict)
    output: str = OUTPUT

    def study(self) -> RagStudy:
        """Return the study.

        Raises:
            ParameterError: a setting is out of its range, or something is given twice.
            NotFoundError: there is no such dataset, retriever, generator, or option's owner.
        """
        for owner in self.options:
            if owner not in (*self.retrievers, *self.generators):
                known = [*self.retrievers, *self.generators]
                raise NotFoundError("retriever or generator with [options]", owner, known)
        return RagStudy(
            self._tasks(),
            _made("retriever", self.retrievers, make_retriever, self.options),
            _made("generator", self.generators, make_generator, self.options),
            self.output,
            self.settings,
            **self.engine,
        )

    def _tasks(self) -> list[LampTask]:
        found = [task for name in self.datasets for task in read_tasks(name)]
        if self.folder is not None:
            found += read_tasks(self.folder, self.tasks, self.split)
        elif self.tasks:
            raise InputError("tasks are chosen for a folder; the ids of datasets name theirs")
        return found

    def changed(self, settings: Mapping[str, Any], **given: Any) -> Configuration:
        """Return the configuration with what is not None in place of what it has.

        Args:
            settings: of `RagSettings`.
            **given: other fields.
        """
        chosen = {key: value for key, value in settings.items() if value is not None}
        there = {key: value for key, value in given.items() if value not in (None, ())}
        return replace(self, settings=replace(self.settings, **chosen), **there)


def _made(
    what: str,
    names: Sequence[str],
    make: Callable[..., Any],
    options: Mapping[str, Mapping[str, Any]],
) -> dict[str, Any]:
    """Return what is made of each name, by a short name for tables."""
    twice = [name for name in names if list(names).count(name) > 1]
    if twice:
        raise ParameterError(f"the study: the {what} {twice[0]!r} is given twice")
    short = [_short(name) for name in names]
    shown = [s if short.count(s) == 1 else name for s, name in zip(short, names, strict=True)]
    found = {}
    for name, label in zip(names, shown, strict=True):
        try:
            found[label] = make(name, **options.get(name, {}))
        except TypeError as error:
            raise ParameterError(f"settings of the {what} {name!r}: {error}") from None
    return found


def _short(name: str) -> str:
    kind, _, model = name.partition(":")
    if kind in _NAMES:
        return _NAMES[kind] if not model else f"{_NAMES[kind]} {Path(model).name}"
    return Path(model).name or name


def of_source(source: str) -> Configuration:
    """Return the configuration that a source is, or that a folder or an id stands for.

    Raises:
        InputError: there is no such file or folder.
    """
    path = Path(source).expanduser()
    if path.is_dir() or path.suffix == ".zip":
        return Configuration(folder=str(path))
    if path.is_file():
        return read_configuration(path)
    if path.suffix == ".toml" or source.startswith((".", "/", "~")):
        raise InputError(f"there is no file or folder {source!r}")
    return Configuration(datasets=(source,))


def read_configuration(path: str | PathLike[str]) -> Configuration:
    """Read a configuration: TOML, with the keys that ``fairtk rag --help`` names.

    Relative paths in it are relative to the file.

    Raises:
        FormatError: the file cannot be read, a key is unknown, or a value is of the wrong kind.
    """
    place = Path(path)
    try:
        found = tomllib.loads(place.read_text(encoding="utf-8"))
    except OSError as error:
        raise FormatError(f"the configuration cannot be read ({error.strerror})", place) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FormatError(f"the configuration is not TOML ({error})", place) from None
    plain = [f.name for f in fields(Configuration) if f.name != "settings"]
    for key in found:
        if key not in (*plain, *_SETTINGS):
            raise FormatError(f"unknown key {key!r}{suggestion(key, (*plain, *_SETTINGS))}", place)
    for key in ("options", "engine"):
        table = found.get(key, {})
        if (
            not isinstance(table, dict)
            or key == "options"
            and not all(isinstance(value, dict) for value in table.values())
        ):
            raise FormatError(f"{key!r} must be a table: [{key}]", place)
    for key in found.get("engine", {}):
        if key not in _ENGINE:
            raise FormatError(f"unknown key {key!r} in [engine]{suggestion(key, _ENGINE)}", place)
    lists = {"datasets": str, "tasks": int, "retrievers": str, "generators": str}
    for key, kind in lists.items():
        value = found.get(key, [])
        if not isinstance(value, list) or not all(type(item) is kind for item in value):
            wanted = "names" if kind is str else "numbers"
            raise FormatError(f"{key!r} must be a list of {wanted}; found {value!r}", place)
    for key in ("folder", "output", "split"):
        if not isinstance(found.get(key, ""), str):
            raise FormatError(f"{key!r} must be a text; found {found[key]!r}", place)
    if ("folder" in found) == ("datasets" in found):
        raise FormatError("give either 'folder' (and 'tasks') or 'datasets'", place)
    for key in ("folder", "output"):
        if key in found:
            found[key] = str(place.parent / Path(found[key]).expanduser())
    given: dict[str, Any] = {
        key: tuple(v) if key in lists else v for key, v in found.items() if key in plain
    }
    try:
        settings = RagSettings(**{key: found[key] for key in _SETTINGS if key in found})
    except ParameterError as error:
        raise FormatError(str(error), place) from None
    return Configuration(settings=settings, **given)
