"""What studies share: configurations, plans, folders and tables, names of files, warnings."""

from __future__ import annotations

import json
import math
import tomllib
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self, TypeVar
from urllib.parse import quote

import pandas as pd
import pydantic
import typing_extensions
from pydantic import Field

from fairtk.display import (
    PALETTE,
    Table,
    csv_text,
    format_rows,
    latex_text,
    markdown_text,
    write_figure,
)
from fairtk.errors import (
    DataWarning,
    FairtkWarning,
    FormatError,
    InputError,
    NotFoundError,
    ParameterError,
    did_you_mean,
    format_list,
)
from fairtk.frames import DOCNO, LABEL, QID, RANK, SAMPLE, SCORE, digest
from fairtk.io import atomic_write, read_run, resolve_dataset
from fairtk.transformers import FairTransformer

T = TypeVar("T")
Kinds = Mapping[str, Any]
"""By key of a configuration what its value must be: one of the kinds below, or keys of a table."""


def relative(place: str, info: pydantic.ValidationInfo) -> str:
    """Return a path that a configuration names, from the folder of its file."""
    folder: Any = info.context
    return str(folder / Path(place).expanduser())


def _several(tables: Any, info: pydantic.ValidationInfo) -> list[dict[str, Any]]:
    return [
        {**table, "run": relative(str(table["run"]), info)} if "run" in table else table
        for table in (tables if isinstance(tables, list) else [tables])
    ]


STRING = Annotated[str, Field(description="a text")]
PLACE = Annotated[str, pydantic.AfterValidator(relative), Field(description="a text")]
"""A file or folder; relative to the folder of the configuration."""
FLAG = Annotated[bool, Field(description="true or false")]
COUNT = Annotated[int, Field(ge=0, description="an integer, 0 or above")]
AMOUNT = Annotated[float, Field(ge=0, lt=math.inf, description="a number, 0 or above")]
NAMES = Annotated[list[str], pydantic.AfterValidator(tuple), Field(description="a list of names")]
NUMBERS = Annotated[
    list[int], pydantic.AfterValidator(tuple), Field(description="a list of numbers")
]
TABLE = Annotated[dict[str, Any], Field(description="a table: [{key}]")]
SEVERAL = Annotated[
    dict[str, Any] | list[dict[str, Any]],
    pydantic.AfterValidator(_several),
    Field(description="a table: [{key}], or several: [[{key}]]"),
]
"""Of which a list is made, also of a single one; the file ``run`` of a table is as `PLACE`."""
TABLES = Annotated[
    dict[str, dict[str, Any] | list[dict[str, Any]]], Field(description="a table: [{key}]")
]
"""A table of tables, each of which may stand several times."""
PRICES = Annotated[
    PLACE | dict[str, Annotated[list[float], Field(min_length=2, max_length=2)]],
    Field(description="a file, or a table with lines like model = [2.5, 10.0]"),
]
LEDGER: Kinds = {
    "path": PLACE,
    "offline": FLAG,
    "max_calls": COUNT,
    "max_cost": AMOUNT,
    "prices": PRICES,
    "retry_unusable": FLAG,
}
ENGINE: Kinds = {
    **dict.fromkeys(("executor", "scheduler"), STRING),
    **dict.fromkeys(("workers", "threads", "batch_size"), COUNT),
}
"""Arguments of `fairtk.Experiment`, which checks their ranges."""

_NOTHING = {
    **dict.fromkeys(("api_key_env", "reasoning_effort"), ""),
    **dict.fromkeys(("temperature", "seed", "max_tokens", "max_completion_tokens"), "none"),
    "extra_body": "none",
}
"""How a configuration says None of a server's settings: TOML has no null."""


def read_config(path: Path, kinds: Kinds) -> dict[str, Any]:
    """Return what a TOML file says.

    Args:
        path: the file.
        kinds: of the values by key; other keys are refused.

    Raises:
        FormatError: the file cannot be read, a key is unknown (the message has the nearest one),
            or a value is of the wrong kind.
    """
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FormatError(f"the configuration cannot be read ({error.strerror})", path) from None
    except RecursionError:
        raise FormatError("tables and lists of the configuration nest too deep", path) from None
    except ValueError as error:  # of text, of TOML, or of an integer of thousands of digits
        raise FormatError(f"the configuration is not TOML ({error})", path) from None
    if _nests_too_deep(values):
        raise FormatError("tables and lists of the configuration nest too deep", path)
    adapter = pydantic.TypeAdapter[dict[str, Any]](_typed("Keys", kinds))
    try:
        return adapter.validate_python(values, context=path.parent)
    except pydantic.ValidationError as error:
        raise FormatError(_first_of(error, kinds), path) from None


_DEEPEST = 50


def _nests_too_deep(values: dict[str, Any]) -> bool:
    """Return whether tables and lists nest deeper than what is done with settings allows."""
    level: list[Any] = [values]
    for _ in range(_DEEPEST):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
    return bool(level)


def _typed(name: str, kinds: Kinds) -> Any:
    fields = {k: _typed(k, v) if isinstance(v, dict) else v for k, v in kinds.items()}
    make: Any = typing_extensions.TypedDict
    table = make(name, fields, total=False)
    table.__pydantic_config__ = pydantic.ConfigDict(extra="forbid", strict=True)
    return table


def _first_of(error: pydantic.ValidationError, kinds: Kinds) -> str:
    """Return the first of some errors in one line, those of keys before those of values."""
    first = min(error.errors(), key=lambda one: one["type"] != "extra_forbidden")
    key, *inside = map(str, first["loc"])
    where = ""
    if inside and isinstance(kinds.get(key), dict):
        kinds, where = kinds[key], f" in [{key}]"
        key, *inside = inside
    if first["type"] == "extra_forbidden":
        return f"unknown key {key!r}{where}{did_you_mean(key, kinds)}"
    kind = kinds[key]
    if kind is TABLES and inside:
        return f"settings of {inside[0]!r} must be a table: [{key}.{inside[0]}]"
    if isinstance(kind, dict):
        return f"{key!r} must be a table: [{key}]"
    words = kind.__metadata__[-1].description.format(key=key)
    return f"{key!r} must be {words}; found {first['input']!r}"


@dataclass(frozen=True)
class Configuration:
    """What a study is made of, as a TOML file, a folder or an id says it, and options change it.

    Each study's own kind says which keys there are.

    Attributes:
        data: ``folder`` or what has ids of data sets, and which part of the data.
        settings: how the study is done.
        output: where results go.
        models: of each language model what its study makes it of: ``KIND:MODEL``, or a table.
        retrievers: likewise of each retriever.
        options: settings of models and retrievers that are called by a text, by this text.
        ledger: of a server's answers: arguments of `fairtk.llm.Ledger`.
        engine: arguments of `fairtk.Experiment`: ``executor``, ``workers``, ``scheduler``,
            ``threads``, ``batch_size``.
        source: the file that says so; errors name it.
    """

    data: Mapping[str, Any]
    settings: Any = None
    output: str = ""
    models: Sequence[Any] = ()
    retrievers: Sequence[Any] = ()
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    ledger: Mapping[str, Any] = field(default_factory=dict)
    engine: Mapping[str, Any] = field(default_factory=dict)
    source: Path | None = None

    DATA: ClassVar[Kinds]
    """The keys that say which data: ``folder``, the one with ids, and which part of them."""
    EITHER: ClassVar[str]
    """The first two of these, one of which a file must have, in words."""
    SETTINGS: ClassVar[Kinds]
    """Those of `settings`, with the settings' names but for hyphens."""
    FIELDS: ClassVar[Mapping[str, tuple[str, Any]]]
    """The other keys but ``output``, ``ledger`` and ``engine``: attribute and kind of each."""

    @classmethod
    def of(cls, source: str) -> Self:
        """Return the configuration that a source is, or that a folder or an id stands for.

        Raises:
            InputError: there is no such file or folder.
            FormatError: see `read`.
        """
        path = Path(source).expanduser()
        if path.is_dir():
            return cls({"folder": str(path)})
        if path.is_file():
            return cls.read(path)
        if path.suffix == ".toml" or source.startswith((".", "/", "~")):
            raise InputError(f"there is no file or folder {source!r}")
        if "/" not in source:  # ids of data sets have one, but for those of others' plugins
            try:
                resolve_dataset(source, "a study")
            except NotFoundError:
                raise InputError(
                    f"there is no file or folder {source!r}, and no dataset has this id"
                ) from None
        _, ids, *_ = cls.DATA
        return cls({ids: source if cls.DATA[ids] is STRING else (source,)})

    @classmethod
    def read(cls, path: str | PathLike[str]) -> Self:
        """Read a configuration: TOML, with the keys that the study's command names in its help.

        Relative paths in it are relative to the file.

        Raises:
            FormatError: the file cannot be read, a key is unknown, or a value is of the wrong kind.
        """
        place = Path(path)
        of_all = {"output": PLACE, "ledger": LEDGER, "engine": ENGINE}
        own = {key: kind for key, (_, kind) in cls.FIELDS.items()}
        table = read_config(place, {**cls.DATA, **cls.SETTINGS, **own, **of_all})
        folder, ids, *_ = cls.DATA
        if (folder in table) == (ids in table):
            raise FormatError(f"give either {cls.EITHER}", place)
        data = {key: table.pop(key) for key in cls.DATA if key in table}
        chosen = {k.replace("-", "_"): table.pop(k) for k in cls.SETTINGS if k in table}
        try:
            rest = {cls.FIELDS[k][0] if k in cls.FIELDS else k: v for k, v in table.items()}
            return cls(data, source=place, **rest).changed(chosen)
        except (ParameterError, NotFoundError) as error:
            raise FormatError(str(error), place) from None

    def changed(self, settings: Mapping[str, Any], **more: Any) -> Self:
        """Return the configuration with what is neither None nor empty in place of what it has.

        Args:
            settings: of the study; of these None alone says that one stays as it is.
            **more: other attributes; of `data` the keys that change.
        """
        chosen = {key: value for key, value in settings.items() if value is not None}
        rest = {key: value for key, value in more.items() if value not in (None, (), "")}
        if "data" in rest:
            rest["data"] = {**self.data, **{k: v for k, v in rest["data"].items() if v}}
        return replace(self, settings=replace(self.settings, **chosen), **rest)


COUNTS = ["calls", "prompt_tokens", "completion_tokens", "price"]
"""Columns of a plan: what servers are asked, at most."""


@dataclass(frozen=True)
class StudyPlan:
    """What a study takes, without anything being asked, generated or written.

    Attributes:
        rows: what is left to do, part by part: `COUNTS`, and columns of the study.
        total: sums of `COUNTS`, and what else is counted; NaN: unknown.
        note: what the rows leave unsaid, as commands print it.
    """

    rows: pd.DataFrame
    total: Mapping[str, float]
    note: str


def with_nothing(server: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings of a server's model with None where a configuration says it in words."""
    return {key: None if value == _NOTHING.get(key) else value for key, value in server.items()}


def repeated(values: Iterable[T]) -> list[T]:
    """Return the values that occur more than once, each as often as it does."""
    counts = Counter(every := list(values))
    return [value for value in every if counts[value] > 1]


_SIZE = 180  # longer file names are refused by some file systems


def file_name(text: str) -> str:
    """Return a name for a file that differs for different texts, whatever is in them."""
    safe = quote(text, safe=" ").replace(".", "%2E")
    if not safe or len(safe) > _SIZE or safe != safe.lower():
        # some file systems do not tell upper from lower case; "=" comes from nowhere else
        return f"{safe[:_SIZE]}={digest(text)}"
    return safe


def write_text(path: Path, text: str) -> None:
    """Write a text in UTF-8, in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="")


def write_json(path: Path, value: Any) -> None:
    """Write a value as JSON, in one step; see `plain`."""
    write_text(path, json.dumps(plain(value), indent=1, ensure_ascii=False) + "\n")


STORE, FACTS, SETTINGS = "experiment.sqlite", "study.json", "settings"
"""In a study's folder: the store, facts of the run, and a folder for the results of settings."""
TIMES = ("model seconds", "own seconds", "training seconds", "seconds")
"""Columns of the studies' frames and tables that differ from run to run; all others come again."""
TABLES_FOLDER, FIGURES_FOLDER = "tables", "figures"
"""Where in a study's folder, or in that of its settings, tables and figures lie."""


BLUE, VERMILION, BLACK, *_ = PALETTE
GRAY, INK, LINE = "#595959", "#222222", "#CCCCCC"


class GivenRun(FairTransformer):
    """The rankings of a run file as a retriever: Q -> R, or R -> R with the columns of R.

    Args:
        path: as `fairtk.io.read_run` reads it, one ranking per query.
        format: as in `fairtk.io.read_run`.

    Raises:
        FormatError: the file is not a run, or has no scores.
        InputError: the run is sampled.
    """

    identity_name = "fairtk_papers.GivenRun"
    output_version = 1
    SETTINGS: ClassVar[tuple[str, ...]] = ("run",)

    def __init__(self, path: str) -> None:
        super().__init__()
        frame = read_run(path)
        if SAMPLE in frame.columns:
            raise InputError(
                f"{path}: expected a run with one ranking per query; it has samples, and the study "
                "draws its own"
            )
        self.path = path
        self.run = frame[[QID, DOCNO, SCORE, RANK]]

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Return the rankings of the input's queries; of R, those of its documents."""
        rest = inp.drop(columns=[SCORE, RANK], errors="ignore")
        return rest.merge(self.run, on=[QID, DOCNO] if DOCNO in inp.columns else QID)

    def refuse(self, what: str, unknown: Sequence[str]) -> None:
        """Raise an `InputError` if there are topics or documents that a study does not have."""
        if unknown:
            raise InputError(
                f"{self.path}: {what} {unknown[0]!r} is not in the study's data ({len(unknown)} "
                "such)"
            )

    def check_topics(self, measured: Iterable[str], others: Iterable[str]) -> None:
        """Raise an `InputError` if the run has topics that a study does not have, or none of its.

        Args:
            measured: the topics that are measured; those that the run lacks are warned about.
            others: further topics of the data.
        """
        own, topics = dict.fromkeys(self.run[QID]), dict.fromkeys(measured)
        known = {*topics, *others}
        self.refuse("topic", [qid for qid in own if qid not in known])
        missing = [qid for qid in topics if qid not in own]
        if len(missing) == len(topics):
            raise InputError(
                f"{self.path}: the run has none of the {len(topics)} topics that are measured, the "
                f"first of which is {missing[0]!r}"
            )
        if missing:
            warnings.warn(
                f"{self.path}: {len(missing)} of {len(topics)} topics are missing from the run and "
                f"have the worst values: {format_list(missing)}",
                DataWarning,
                stacklevel=2,
            )


def labels_of(dataset: Any) -> pd.DataFrame:
    """Return the labels of an ``ir_datasets.Dataset``: ``qid``, ``docno``, ``label``."""
    rows = [(q.query_id, q.doc_id, q.relevance) for q in dataset.qrels_iter()]
    return pd.DataFrame(rows, columns=[QID, DOCNO, LABEL])


def frame_table(frame: pd.DataFrame) -> Table:
    """Return a frame as a table of texts."""
    return format_rows(list(frame.columns), frame.astype(object).to_numpy().tolist())


def write_tables(
    folder: Path,
    tables: Mapping[str, pd.DataFrame | Table],
    latex: Callable[[Table], str] = latex_text,
) -> None:
    """Write tables into a study's folder: Markdown, LaTeX, and frames as CSV with all digits.

    Args:
        folder: the study's.
        tables: by name.
        latex: what makes LaTeX of a table.
    """
    for name, table in tables.items():
        place = folder / TABLES_FOLDER / name
        if isinstance(table, pd.DataFrame):
            rows = table.astype(object).to_numpy().tolist()
            write_text(place.with_name(f"{name}.csv"), csv_text(list(table.columns), rows))
            table = frame_table(table)
        write_text(place.with_name(f"{name}.md"), markdown_text(table))
        write_text(place.with_name(f"{name}.tex"), latex(table))


def write_pictures(figure: Any, folder: Path, name: str, *kinds: str) -> None:
    """Write a figure into a study's folder, once per kind of file, e.g. ``"svg"``."""
    place = folder / FIGURES_FOLDER
    place.mkdir(parents=True, exist_ok=True)
    for kind in kinds:
        write_figure(figure, place / f"{name}.{kind}")


def plain(value: Any) -> Any:
    """Return a value as JSON values: objects by their printed form."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    return value if isinstance(value, str | int | float | bool | None) else repr(value)


@contextmanager
def names_repeat() -> Iterator[None]:
    """Silence that a system is not what is stored under its name.

    In one folder lie the results of many retrievers, generators and settings, and a system's name
    is only what it is called within one of them.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "system .* is not what is stored", DataWarning)
        yield


@contextmanager
def collect_warnings(*silent: type[Warning]) -> Iterator[list[str]]:
    """Give a list that has, after the block, what fairtk warned of in it; each text once.

    The warnings themselves, but for the silent ones, are given when the block ends.
    """
    texts: list[str] = []
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        yield texts
    once = {(warning.category, str(warning.message)): warning for warning in reversed(heard)}
    for (category, text), warning in reversed(once.items()):
        if issubclass(category, FairtkWarning):
            texts.append(text)
        if not issubclass(category, silent):
            warnings.warn_explicit(warning.message, category, warning.filename, warning.lineno)
