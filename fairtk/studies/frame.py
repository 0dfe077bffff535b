"""What studies share: configurations, names of files, warnings, and what is done."""

from __future__ import annotations

import json
import math
import tomllib
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import pydantic
import typing_extensions
from pydantic import Field

from fairtk.errors import DataWarning, FairtkWarning, FormatError, InputError, suggestion
from fairtk.frames import digest
from fairtk.io import atomic_text

Kinds = Mapping[str, Any]
"""By key of a configuration what its value must be: one of the kinds below, or keys of a table."""


def _relative(place: str, info: pydantic.ValidationInfo) -> str:
    folder: Any = info.context
    return str(folder / Path(place).expanduser())


TEXT = Annotated[str, Field(description="a text")]
PLACE = Annotated[str, pydantic.AfterValidator(_relative), Field(description="a text")]
"""A file or folder; relative to the folder of the configuration."""
FLAG = Annotated[bool, Field(description="true or false")]
COUNT = Annotated[int, Field(ge=0, description="an integer, 0 or above")]
AMOUNT = Annotated[float, Field(ge=0, lt=math.inf, description="a number, 0 or above")]
NAMES = Annotated[list[str], Field(description="a list of names")]
NUMBERS = Annotated[list[int], Field(description="a list of numbers")]
TABLE = Annotated[dict[str, Any], Field(description="a table: [{key}]")]
SEVERAL = Annotated[
    dict[str, Any] | list[dict[str, Any]],
    Field(description="a table: [{key}], or several: [[{key}]]"),
]
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
ENGINE: Kinds = {"executor": TEXT, **dict.fromkeys(("workers", "threads", "batch_size"), COUNT)}
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
    adapter = pydantic.TypeAdapter[dict[str, Any]](_typed("Configuration", kinds))
    try:
        return adapter.validate_python(values, context=path.parent)
    except pydantic.ValidationError as error:
        raise FormatError(_said(error, kinds), path) from None


def _typed(name: str, kinds: Kinds) -> Any:
    fields = {k: _typed(k, v) if isinstance(v, dict) else v for k, v in kinds.items()}
    make: Any = typing_extensions.TypedDict
    made = make(name, fields, total=False)
    made.__pydantic_config__ = pydantic.ConfigDict(extra="forbid", strict=True)
    return made


def _said(error: pydantic.ValidationError, kinds: Kinds) -> str:
    """Return the first of some errors in one line, those of keys before those of values."""
    first = min(error.errors(), key=lambda one: one["type"] != "extra_forbidden")
    key, *inside = map(str, first["loc"])
    where = ""
    if inside and isinstance(kinds.get(key), dict):
        kinds, where = kinds[key], f" in [{key}]"
        key, *inside = inside
    if first["type"] == "extra_forbidden":
        return f"unknown key {key!r}{where}{suggestion(key, kinds)}"
    kind = kinds[key]
    if kind is TABLES and inside:
        return f"settings of {inside[0]!r} must be a table: [{key}.{inside[0]}]"
    if isinstance(kind, dict):
        return f"{key!r} must be a table: [{key}]"
    words = kind.__metadata__[-1].description.format(key=key)
    return f"{key!r} must be {words}; found {first['input']!r}"


def kind_of_source(source: str) -> str:
    """Return what a command was given: ``"folder"``, ``"file"`` or ``"dataset"`` (an id)."""
    path = Path(source).expanduser()
    if path.is_dir() or path.suffix == ".zip":
        return "folder"
    if path.is_file():
        return "file"
    if path.suffix == ".toml" or source.startswith((".", "/", "~")):
        raise InputError(f"there is no file or folder {source!r}")
    return "dataset"


def with_nothing(server: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings of a server's model with None where a configuration says it in words."""
    return {key: None if value == _NOTHING.get(key) else value for key, value in server.items()}


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
    with atomic_text(path) as stream:
        stream.write(text)


def write_json(path: Path, value: Any) -> None:
    """Write a value as JSON, in one step; see `plain`."""
    write_text(path, json.dumps(plain(value), indent=2, sort_keys=True) + "\n")


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
def hearing() -> Iterator[list[str]]:
    """Give a list that has, after the block, what fairtk warned of in it; each text once.

    The warnings themselves are given when the block ends.
    """
    said: list[str] = []
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        yield said
    once = {(warning.category, str(warning.message)): warning for warning in reversed(heard)}
    for (category, text), warning in reversed(once.items()):
        if issubclass(category, FairtkWarning):
            said.append(text)
        warnings.warn_explicit(warning.message, category, warning.filename, warning.lineno)
