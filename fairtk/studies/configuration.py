"""Configurations of studies: TOML files, their keys checked by name and kind."""

from __future__ import annotations

import json
import math
import tomllib
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fairtk.errors import DataWarning, FairtkWarning, FormatError, InputError, suggestion
from fairtk.frames import digest
from fairtk.io import atomic_text

Kind = tuple[str, Callable[[Any], bool]]
"""What a value must be, in words, and how that is seen."""

TEXT: Kind = ("a text", lambda v: isinstance(v, str))
FLAG: Kind = ("true or false", lambda v: isinstance(v, bool))
COUNT: Kind = ("an integer, 0 or above", lambda v: type(v) is int and v >= 0)
AMOUNT: Kind = ("a number, 0 or above", lambda v: number(v) and 0 <= v < math.inf)
NAMES: Kind = ("a list of names", lambda v: _list_of(v, str))
NUMBERS: Kind = ("a list of numbers", lambda v: _list_of(v, int))

_NOTHING = {"api_key_env": "", "temperature": "none", "max_tokens": "none"}
"""How a configuration says None of a server's settings: TOML has no null."""


def number(value: Any) -> bool:
    """Return whether a value is a number; true and false are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _list_of(value: Any, kind: type) -> bool:
    return isinstance(value, list) and all(type(item) is kind for item in value)


def read_config(path: Path, known: Collection[str], tables: Collection[str]) -> dict[str, Any]:
    """Return what a TOML file says; keys must be known, and those of `tables` be tables."""
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FormatError(f"the configuration cannot be read ({error.strerror})", path) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FormatError(f"the configuration is not TOML ({error})", path) from None
    check_keys(found, known, path)
    for key in tables:
        if not isinstance(found.get(key, {}), dict):
            raise FormatError(f"{key!r} must be a table: [{key}]", path)
    return found


def as_tables(found: Mapping[str, Any], key: str, path: Path) -> list[dict[str, Any]]:
    """Return what stands once as ``[key]``, or several times as ``[[key]]``."""
    given = found.get(key, [])
    tables = given if isinstance(given, list) else [given]
    if not all(isinstance(table, dict) for table in tables):
        raise FormatError(f"{key!r} must be a table: [{key}], or several: [[{key}]]", path)
    return tables


def check_keys(
    found: Mapping[str, Any], known: Collection[str], path: Path, table: str = ""
) -> None:
    """Raise a `FormatError` at the first key that is unknown; it suggests the nearest one."""
    for key in found:
        if key not in known:
            where = f" in [{table}]" if table else ""
            raise FormatError(f"unknown key {key!r}{where}{suggestion(key, known)}", path)


def check_kinds(found: Mapping[str, Any], kinds: Mapping[str, Kind], path: Path) -> None:
    """Raise a `FormatError` at the first value that is not what it must be."""
    for key, (words, right) in kinds.items():
        if key in found and not right(found[key]):
            raise FormatError(f"{key!r} must be {words}; found {found[key]!r}", path)


def beside(path: Path, *places: tuple[dict[str, Any], str]) -> None:
    """Make relative paths in a configuration relative to its file; absolute ones stay.

    Takes tables and keys; values that are no texts are left alone.
    """
    for table, key in places:
        if isinstance(table.get(key), str):
            table[key] = str(path.parent / Path(table[key]).expanduser())


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
