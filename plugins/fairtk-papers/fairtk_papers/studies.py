"""Code that both studies share: configurations, plans, files, tables and warnings."""

from __future__ import annotations

import json
import math
import tomllib
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from os import PathLike
from pathlib import Path
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    Self,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)
from urllib.parse import quote

import numpy as np
import pandas as pd
import pydantic
import pydantic_core
import typing_extensions
from pydantic import Field

from fairtk import Remark
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
    FormatError,
    InputError,
    NotFoundError,
    ParameterError,
)
from fairtk.frames import DOCNO, QID, RANK, SAMPLE, SCORE, FloatArray, digest
from fairtk.io import atomic_write, read_run, resolve_dataset
from fairtk.transformers import FairTransformer
from fairtk.wording import did_you_mean, format_list

T = TypeVar("T")
Kinds = Mapping[str, Any]
"""The type of each key of a configuration: one of the types below, or a dict for a table."""


def resolve_path(path: str, info: pydantic.ValidationInfo) -> str:
    """Resolve a path in a configuration against the folder of its file."""
    folder: Any = info.context
    return str(folder / Path(path).expanduser())


def _list_tables(tables: Any, info: pydantic.ValidationInfo) -> list[dict[str, Any]]:
    return [
        {**table, "run": resolve_path(str(table["run"]), info)} if "run" in table else table
        for table in (tables if isinstance(tables, list) else [tables])
    ]


STRING = Annotated[str, Field(description="a string")]
PATH = Annotated[str, pydantic.AfterValidator(resolve_path), Field(description="a string")]
"""A file or folder; relative paths start at the folder of the configuration."""
FLAG = Annotated[bool, Field(description="true or false")]
COUNT = Annotated[int, Field(ge=0, description="an integer of at least 0")]
POSITIVE = Annotated[int, Field(ge=1, description="an integer of at least 1")]
AMOUNT = Annotated[float, Field(ge=0, lt=math.inf, description="a number of at least 0")]
NAMES = Annotated[tuple[str, ...], Field(strict=False, description="a list of names")]
NUMBERS = Annotated[tuple[int, ...], Field(strict=False, description="a list of numbers")]
TABLE = Annotated[Mapping[str, Any], Field(description="a table: [{key}]")]
SEVERAL = Annotated[
    dict[str, Any] | list[dict[str, Any]],
    pydantic.AfterValidator(_list_tables),
    Field(description="a table: [{key}], or several: [[{key}]]"),
]
"""One table or several, read as a list; the key ``run`` of a table is a path."""
TABLES = Annotated[Mapping[str, Mapping[str, Any]], Field(description="a table: [{key}]")]
"""A table whose values are tables."""
GRIDS = Annotated[
    Mapping[str, Mapping[str, Any] | Sequence[Mapping[str, Any]]],
    Field(description="a table: [{key}]"),
]
"""A table whose values are tables or lists of tables."""
PRICES = Annotated[
    PATH | dict[str, Annotated[list[float], Field(min_length=2, max_length=2)]],
    Field(description="a file, or a table with lines like model = [2.5, 10.0]"),
]
LEDGER: Kinds = {
    "path": PATH,
    "offline": FLAG,
    "max_calls": COUNT,
    "max_cost": AMOUNT,
    "max_tokens": COUNT,
    "prices": PRICES,
    "retry_unusable": FLAG,
    "retry_failed": FLAG,
}
ENGINE: Kinds = {
    "executor": Literal["serial", "processes", "dask"],
    "scheduler": STRING,
    **dict.fromkeys(("workers", "threads", "batch_size"), POSITIVE),
}
"""Arguments of `fairtk.Experiment`."""

_NONE_VALUES = {
    **dict.fromkeys(("api_key_env", "reasoning_effort"), ""),
    **dict.fromkeys(("temperature", "seed", "max_tokens", "max_completion_tokens"), "none"),
    "extra_body": "none",
}
"""The value of each server setting that stands for `None`, because TOML has no null."""


def read_config(path: Path, kinds: Kinds) -> dict[str, Any]:
    """Read a TOML file and check its keys and types.

    Args:
        path: the file.
        kinds: the allowed keys and the type of each.

    Raises:
        FormatError: the file cannot be read, a key is unknown, or a value has the wrong type.
    """
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FormatError(f"cannot read the file ({error.strerror})", path) from None
    # bad UTF-8, bad TOML, an integer of thousands of digits, or a row of brackets
    except (ValueError, RecursionError) as error:
        raise FormatError(f"invalid TOML ({error})", path) from None
    try:
        return _validate(values, kinds, context=path.parent)
    except pydantic.ValidationError as error:
        raise FormatError(_first_error(error, kinds), path) from None


def _validate(values: Mapping[str, Any], kinds: Kinds, **options: Any) -> dict[str, Any]:
    adapter = pydantic.TypeAdapter[dict[str, Any]](_typed_dict("Keys", kinds))
    return adapter.validate_python(values, **options)


def _typed_dict(name: str, kinds: Kinds) -> Any:
    fields = {k: _typed_dict(k, v) if isinstance(v, dict) else v for k, v in kinds.items()}
    make: Any = typing_extensions.TypedDict
    table = make(name, fields, total=False)
    table.__pydantic_config__ = pydantic.ConfigDict(extra="forbid", strict=True)
    return table


def _first_error(error: pydantic.ValidationError, kinds: Kinds) -> str:
    """Return the message of one error: of an unknown key, else of the first wrong value."""
    first = min(error.errors(), key=lambda details: details["type"] != "extra_forbidden")
    key, *rest = map(str, first["loc"])
    table = ""
    if rest and isinstance(kinds.get(key), dict):
        kinds, table = kinds[key], f" in [{key}]"
        key, *rest = rest
    if first["type"] == "extra_forbidden":
        return f"unknown key {key!r}{table}{did_you_mean(key, kinds)}"
    kind = _without_none(kinds[key])
    if kind in (TABLES, GRIDS) and rest:
        return f"settings of {rest[0]!r} must be a table: [{key}.{rest[0]}]"
    if isinstance(kind, dict):
        return f"{key!r} must be a table: [{key}]"
    return f"{key!r} {_rule(first, kind)}"


def _without_none(kind: Any) -> Any:
    return get_args(kind)[0] if get_origin(kind) is Union else kind


def _rule(error: pydantic_core.ErrorDetails, kind: Any) -> str:
    """Return the rest of the message that starts with the key of a wrong value."""
    if get_origin(kind) is Literal:
        expected = error["ctx"]["expected"]
    else:
        expected = kind.__metadata__[-1].description.format(key=error["loc"][0])
    return f"must be {expected}, got {error['input']!r}"


@dataclass(frozen=True)
class Settings:
    """The settings of a study. Each is checked by its type, as in a configuration."""

    @classmethod
    def kinds(cls) -> Kinds:
        """Return the type of each setting."""
        kinds = get_type_hints(cls, include_extras=True)
        return {setting.name: kinds[setting.name] for setting in fields(cls)}

    def __post_init__(self) -> None:
        """Check the values."""
        kinds = self.kinds()
        values = {k: v.item() if isinstance(v, np.generic) else v for k, v in vars(self).items()}
        try:
            vars(self).update(_validate(values, kinds))
        except pydantic.ValidationError as error:
            first = error.errors()[0]
            name = str(first["loc"][0])
            rule = _rule(first, _without_none(kinds[name]))
            raise ParameterError(f"the study: {name} {rule}") from None


@dataclass(frozen=True)
class Configuration:
    """The configuration of a study, from a TOML file, a folder or a dataset id.

    Each study has a subclass, which defines the keys.

    Attributes:
        data: a folder or dataset ids, and the part of the data to use.
        settings: the settings of the study.
        output: the folder for the results.
        models: the language models, each as ``KIND:MODEL`` or a table.
        retrievers: the retrievers, each as a string or a table.
        options: settings of models and retrievers that are strings, by that string.
        ledger: arguments of `fairtk.llm.Ledger`, which records the answers of servers.
        engine: arguments of `fairtk.Experiment`: ``executor``, ``workers``, ``scheduler``,
            ``threads``, ``batch_size``.
        source: the TOML file, for error messages; `None` if there is no file.
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
    """The keys that select the data.

    The first is ``folder``, the second has dataset ids. A file must have exactly one of them.
    """
    SETTINGS: ClassVar[Kinds]
    """The keys of `settings`. A hyphen in a key is an underscore in the attribute."""
    FIELDS: ClassVar[Mapping[str, tuple[str, Any]]]
    """The attribute and the type of each other key, except ``output``, ``ledger``, ``engine``."""

    @classmethod
    def from_source(cls, source: str) -> Self:
        """Return the configuration for a TOML file, a folder or a dataset id.

        Raises:
            InputError: the file or folder does not exist.
            FormatError: see `read`.
        """
        path = Path(source).expanduser()
        if path.is_dir():
            return cls({"folder": str(path)})
        if path.is_file():
            return cls.read(path)
        if path.suffix == ".toml" or source.startswith((".", "/", "~")):
            raise InputError(f"{source}: no such file or folder")
        if "/" not in source:  # only ids of plugins can be without a slash
            try:
                resolve_dataset(source, "a study")
            except NotFoundError:
                raise InputError(f"{source}: no such file, folder or dataset") from None
        _, ids, *_ = cls.DATA
        return cls({ids: source if cls.DATA[ids] is STRING else (source,)})

    @classmethod
    def read(cls, path: str | PathLike[str]) -> Self:
        """Read a TOML file with the keys that the help of the study's command lists.

        Relative paths are relative to the file.

        Raises:
            FormatError: the file cannot be read, a key is unknown, or a value has the wrong type.
        """
        file = Path(path)
        shared = {"output": PATH, "ledger": LEDGER, "engine": ENGINE}
        fields = {key: kind for key, (_, kind) in cls.FIELDS.items()}
        table = read_config(file, {**cls.DATA, **cls.SETTINGS, **fields, **shared})
        folder, ids, *_ = cls.DATA
        if (folder in table) == (ids in table):
            raise FormatError(f"exactly one is required: {folder!r} or {ids!r}", file)
        data = {key: table.pop(key) for key in cls.DATA if key in table}
        settings = {k.replace("-", "_"): table.pop(k) for k in cls.SETTINGS if k in table}
        try:
            rest = {cls.FIELDS[k][0] if k in cls.FIELDS else k: v for k, v in table.items()}
            return cls(data, source=file, **rest).with_changes(settings)
        except (ParameterError, NotFoundError) as error:
            raise FormatError(str(error), file) from None

    def with_changes(self, settings: Mapping[str, Any], **more: Any) -> Self:
        """Return a copy with some values replaced.

        Args:
            settings: new settings; a value of `None` keeps the old setting.
            **more: other attributes; an empty value keeps the old one. `data` is merged.
        """
        changes = {key: value for key, value in settings.items() if value is not None}
        rest = {key: value for key, value in more.items() if value not in (None, (), "")}
        if "data" in rest:
            rest["data"] = {**self.data, **{k: v for k, v in rest["data"].items() if v}}
        return replace(self, settings=replace(self.settings, **changes), **rest)


COUNTS = ["calls", "prompt_tokens", "completion_tokens", "price"]
"""Columns of a plan: upper bounds on the calls to servers and their cost."""


@dataclass(frozen=True)
class StudyPlan:
    """The cost of a study, estimated without calls and without writing files.

    Attributes:
        rows: the remaining work: names of the parts and the columns `COUNTS`.
        total: sums of the columns `COUNTS` and further counts; NaN if unknown.
        note: the assumptions behind the numbers, printed below the table.
    """

    rows: pd.DataFrame
    total: Mapping[str, float]
    note: str


def with_none(server: Mapping[str, Any]) -> dict[str, Any]:
    """Return a server's settings with `None` instead of the values that stand for it."""
    return {k: None if value == _NONE_VALUES.get(k) else value for k, value in server.items()}


def duplicates(values: Iterable[T]) -> list[T]:
    """Return the values that occur more than once."""
    return [value for value, count in Counter(values).items() if count > 1]


_LONGEST = 180  # some file systems refuse longer file names


def file_name(text: str) -> str:
    """Return a valid file name for a text; different texts have different names."""
    safe = quote(text, safe=" ").replace(".", "%2E")
    if not safe or len(safe) > _LONGEST or safe != safe.lower():
        # some file systems ignore case; quote() never returns a "="
        return f"{safe[:_LONGEST]}={digest(text)}"
    return safe


def write_text(path: Path, text: str) -> None:
    """Write a text in UTF-8, atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="")


def write_json(path: Path, value: Any) -> None:
    """Write a value as JSON, atomically; see `plain`."""
    write_text(path, json.dumps(plain(value), indent=1, ensure_ascii=False) + "\n")


STORE, FACTS, SETTINGS = "experiment.sqlite", "study.json", "settings"
"""Names in a study's folder: the store, a description of the run, results by settings."""
TIMES = ("model seconds", "own seconds", "training seconds", "seconds")
"""Columns of frames and tables that differ between runs; all others are reproducible."""
FIGURES_FOLDER = "figures"

BLUE, VERMILION, BLACK, *_ = PALETTE
GRAY, INK, LINE = "#595959", "#222222", "#CCCCCC"


class RunRetriever(FairTransformer):
    """Retrieve the rankings of a run file: Q -> R, or R -> R.

    Args:
        path: a file for `fairtk.io.read_run` with one ranking per query.

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
                f"{path}: expected one ranking per query, got sampled rankings (column "
                f"{SAMPLE!r}); the study samples rankings itself"
            )
        self.path = path
        self.run = frame[[QID, DOCNO, SCORE, RANK]]

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Return the run's rankings of the input's queries; for R, only of its documents."""
        rest = inp.drop(columns=[SCORE, RANK], errors="ignore")
        return rest.merge(self.run, on=[QID, DOCNO] if DOCNO in inp.columns else QID)

    def refuse_unknown(self, kind: str, unknown: Sequence[str]) -> None:
        """Raise an `InputError` if the run has unknown topics or documents."""
        if unknown:
            raise InputError(
                f"{self.path}: unknown {kind} {unknown[0]!r} ({len(unknown)} in all); the {kind}s "
                "of the run must be in the study's data"
            )

    def check_topics(self, study_topics: Iterable[str], other_topics: Iterable[str]) -> None:
        """Raise an `InputError` if the run has unknown topics, or no topic of the study.

        Args:
            study_topics: the topics of the study; warns if some are missing from the run.
            other_topics: further topics in the data.
        """
        qids, topics = dict.fromkeys(self.run[QID]), dict.fromkeys(study_topics)
        known = {*topics, *other_topics}
        self.refuse_unknown("topic", [qid for qid in qids if qid not in known])
        missing = [qid for qid in topics if qid not in qids]
        if len(missing) == len(topics):
            raise InputError(
                f"{self.path}: no query in common with the measured topics (run: "
                f"{format_list(qids, 3)}; topics: {format_list(topics, 3)})"
            )
        if missing:
            warnings.warn(
                f"{self.path}: {len(missing)} of {len(topics)} topics are missing "
                f"({format_list(missing)}); they get the worst value",
                DataWarning,
                stacklevel=2,
            )


def frame_table(frame: pd.DataFrame) -> Table:
    """Return a frame as a table of strings."""
    return format_rows(list(frame.columns), frame.astype(object).to_numpy().tolist())


def write_tables(
    folder: Path,
    tables: Mapping[str, pd.DataFrame | Table],
    latex: Callable[[Table], str] = latex_text,
) -> None:
    """Write tables as Markdown and LaTeX, and data frames also as CSV with all digits.

    Args:
        folder: the study's folder.
        tables: the tables by name.
        latex: the function that converts a table to LaTeX.
    """
    for name, table in tables.items():
        path = folder / "tables" / name
        if isinstance(table, pd.DataFrame):
            rows = table.astype(object).to_numpy().tolist()
            write_text(path.with_name(f"{name}.csv"), csv_text(list(table.columns), rows))
            table = frame_table(table)
        write_text(path.with_name(f"{name}.md"), markdown_text(table))
        write_text(path.with_name(f"{name}.tex"), latex(table))


def reach(mean: Any, low: Any, high: Any) -> FloatArray:
    """Return how far intervals extend below and above means, for error bars; NaN if undefined."""
    return np.maximum([mean - low, high - mean], 0.0)


def add_legend(figure: Any, columns: int) -> None:
    """Add a legend of all panels below a figure."""
    handles = {
        label: handle
        for axes in figure.axes
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend(
        list(handles.values()), list(handles), loc="outside lower center", fontsize=8,
        ncols=min(len(handles), columns), frameon=False, labelcolor=INK,
    )  # fmt: skip


def write_pictures(figure: Any, folder: Path, name: str, *kinds: str) -> None:
    """Write a figure to a study's folder in several formats, e.g. ``"svg"``."""
    figures = folder / FIGURES_FOLDER
    figures.mkdir(parents=True, exist_ok=True)
    for kind in kinds:
        write_figure(figure, figures / f"{name}.{kind}")


def plain(value: Any) -> Any:
    """Convert a value to JSON values; other objects become their `repr`."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    return value if isinstance(value, str | int | float | bool | None) else repr(value)


def study_remark(kind: Literal["study note", "study warning"], text: str) -> Remark:
    """Return a text of a study as a remark of its results.

    Args:
        kind: ``"study note"`` is shown below tables, ``"study warning"`` among the warnings of a
            page.
        text: the text, without a full stop.
    """
    return Remark(kind, "", "", 0, 0, (), 0, text)
