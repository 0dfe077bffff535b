"""What is run, as a TOML file or the command line says it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

from fairtk.errors import FormatError, InputError, NotFoundError, ParameterError
from fairtk.llm import Ledger
from fairtk.studies.config import (
    NAMES,
    NUMBERS,
    TEXT,
    beside,
    check_keys,
    check_kinds,
    kind_of_source,
    read_config,
)
from fairtk.studies.fair_rag.settings import RagSettings
from fairtk.studies.fair_rag.specs import SERVER, make_generator, make_retriever
from fairtk.studies.fair_rag.study import RagStudy
from fairtk.studies.fair_rag.tasks import LampTask, read_tasks

OUTPUT = "fair-rag-study"
_NAMES = {"bm25": "BM25", "contriever": "Contriever", "splade": "SPLADE"}
_ENGINE = ("executor", "workers", "threads", "batch_size")
_LEDGER = ("path", "offline", "max_calls", "max_cost", "prices", "retry_unusable")
_KINDS = {
    **dict.fromkeys(("datasets", "retrievers", "generators"), NAMES),
    **dict.fromkeys(("folder", "output", "split"), TEXT),
    "tasks": NUMBERS,
}
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
        ledger: of a server's answers: arguments of `fairtk.llm.Ledger`.
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
    ledger: Mapping[str, Any] = field(default_factory=dict)
    output: str = OUTPUT

    def study(self, ledger: Ledger | None = None) -> RagStudy:
        """Return the study.

        Args:
            ledger: of a server's answers; None: the study's store, without a budget.

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
            _made(
                "generator", self.generators, partial(make_generator, ledger=ledger), self.options
            ),
            self.output,
            self.settings,
            **self.engine,
        )

    def at(self, **server: Any) -> Configuration:
        """Return the configuration with a server's settings for its generators; None: as before.

        Raises:
            InputError: a setting is given, and no generator is a server's.
        """
        given = {key: value for key, value in server.items() if value is not None}
        if not given:
            return self
        served = self.need_server(given)
        return replace(
            self,
            options={**self.options, **{n: {**self.options.get(n, {}), **given} for n in served}},
        )

    def need_server(self, given: Mapping[str, Any]) -> list[str]:
        """Return the generators that a server answers for.

        Raises:
            InputError: there are none, and settings for them were given.
        """
        served = [name for name in self.generators if name.startswith(SERVER)]
        if given and not served:
            raise InputError(
                f"{', '.join(given)}: for generators that a server answers for, openai:MODEL; "
                f"found {', '.join(self.generators)}"
            )
        return served

    def _tasks(self) -> list[LampTask]:
        if self.folder is None and self.tasks:
            raise InputError(
                f"{', '.join(self.datasets)}: tasks are chosen for a folder, and there is none of "
                "that name; the ids of datasets name their task, e.g. lamp/4/dev"
            )
        found = [task for name in self.datasets for task in read_tasks(name)]
        if self.folder is not None:
            found += read_tasks(self.folder, self.tasks, self.split)
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
        return _NAMES[kind]  # as the paper calls it, so that its numbers are found
    return Path(model).name or name


def of_source(source: str) -> Configuration:
    """Return the configuration that a source is, or that a folder or an id stands for.

    Raises:
        InputError: there is no such file or folder.
    """
    kind = kind_of_source(source)
    path = Path(source).expanduser()
    if kind == "file":
        return read_configuration(path)
    return (
        Configuration(folder=str(path)) if kind == "folder" else Configuration(datasets=(source,))
    )


def read_configuration(path: str | PathLike[str]) -> Configuration:
    """Read a configuration: TOML, with the keys that ``fairtk rag --help`` names.

    Relative paths in it are relative to the file.

    Raises:
        FormatError: the file cannot be read, a key is unknown, or a value is of the wrong kind.
    """
    place = Path(path)
    plain = [f.name for f in fields(Configuration) if f.name != "settings"]
    found = read_config(place, (*plain, *_SETTINGS), ("options", "engine", "ledger"))
    if not all(isinstance(value, dict) for value in found.get("options", {}).values()):
        raise FormatError("'options' must be a table: [options]", place)
    check_keys(found.get("engine", {}), _ENGINE, place, "engine")
    check_keys(found.get("ledger", {}), _LEDGER, place, "ledger")
    check_kinds(found, _KINDS, place)
    if ("folder" in found) == ("datasets" in found):
        raise FormatError("give either 'folder' (and 'tasks') or 'datasets'", place)
    own = found.get("ledger", {})
    beside(place, (found, "folder"), (found, "output"), (own, "path"), (own, "prices"))
    given: dict[str, Any] = {
        key: tuple(v) if isinstance(v, list) else v for key, v in found.items() if key in plain
    }
    try:
        settings = RagSettings(**{key: found[key] for key in _SETTINGS if key in found})
    except ParameterError as error:
        raise FormatError(str(error), place) from None
    return Configuration(settings=settings, **given)
