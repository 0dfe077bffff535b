"""Content identity: what a stage is, so that its results can be found again and never mistaken.

An identity is a description in JSON values: the class by its `identity_name`, the distribution that
made it with its version, and every setting; frames, groups and files stand in it as digests of
their content. Equal identities mean equal results. A `repr` is never an identity: many leave
settings out, others hold an address. What has no identity is refused, with the remedy
`fairtk.identified`.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import importlib.metadata
import platform
import sys
import types
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyterrier as pt

from fairtk.errors import IdentityError
from fairtk.experiment.adapters import NoIdentityError, adapter_of, version
from fairtk.files.fingerprints import file_digest
from fairtk.frames import digest, identity_name

Description = dict[str, Any]
"""JSON values; the keys are ``class``, ``made by`` and the names of settings."""


class Identified(pt.Transformer):  # type: ignore[misc]
    """A transformer whose identity is what its user says it is; made by `identified`."""

    def __init__(self, transformer: pt.Transformer, name: str) -> None:
        self.transformer = transformer
        self.name = name

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Return what the transformer makes of the frame."""
        return self.transformer.transform(inp)

    @property
    def missing(self) -> Any:
        """What the transformer says of queries without a result, if it says so."""
        return getattr(self.transformer, "missing", None)

    def subtransformers(self) -> dict[str, Any]:
        """Return the transformer, for PyTerrier's schematics."""
        return {"transformer": self.transformer}

    def __repr__(self) -> str:
        return f"identified({self.transformer!r}, {self.name!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Identified) and self.name == other.name

    def __hash__(self) -> int:
        return hash((Identified, self.name))


def identified(transformer: pt.Transformer, name: str) -> Identified:
    """Give a transformer an identity, so that an experiment can keep its results.

    For functions (`pt.apply`) and transformers that fairtk cannot look into. The name must change
    whenever the results would: write a version into it, e.g. ``"my reranker, v2"``.

    Raises:
        IdentityError: the name is empty, or there is no transformer.
    """
    if not isinstance(transformer, pt.Transformer):
        raise IdentityError(
            f"identified takes a PyTerrier transformer; found a {type(transformer).__name__}"
        )
    if not isinstance(name, str) or not name.strip():
        raise IdentityError(
            f"identified needs a name that says what the transformer is, e.g. 'my reranker, v2'; "
            f"found {name!r}"
        )
    return Identified(transformer, name)


def describe_stage(stage: Any) -> Description:
    """Return the identity of a stage; an `IdentityError` if it, or one of its settings, has
    none.
    """
    try:
        description: Description = describe(stage, type(stage).__name__)
    except NoIdentityError as error:
        raise IdentityError(
            f"the stage {type(stage).__name__} has no content identity: {error}. Its results "
            "could not be told from another's, so they cannot be kept: wrap it, "
            "fairtk.identified(transformer, 'what it is, v1'), or run without save_dir"
        ) from None
    return description


def key_of(description: Any) -> str:
    """Return the digest of an identity."""
    return digest(description, 16)


def describe(value: Any, where: str) -> Any:
    """Return a value as JSON values that stand for its content.

    `where` is its place, e.g. ``"FairSampler.alpha"``, for messages.
    """
    if value is None or isinstance(value, str | bool | int | float):
        return float(value) if isinstance(value, np.floating) else value
    if isinstance(value, np.generic):
        return describe(value.item(), where)
    if isinstance(value, bytes):
        return f"bytes #{digest(value, 16)}"
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, pd.DataFrame | pd.Series | pd.Index | np.ndarray):
        return f"{type(value).__name__} {value.shape} #{_array_digest(value, where)}"
    if isinstance(value, Mapping):
        return {str(k): describe(value[k], f"{where}[{k!r}]") for k in sorted(value, key=str)}
    if isinstance(value, list | tuple):
        return [describe(item, f"{where}[{i}]") for i, item in enumerate(value)]
    if isinstance(value, set | frozenset):
        return sorted((describe(item, where) for item in value), key=str)
    if isinstance(value, enum.Enum):
        return {"class": identity_name(type(value)), "value": value.name}
    if isinstance(value, Identified):
        return {"identified": value.name}
    if isinstance(value, types.FunctionType):
        return _described_function(value, where)
    return _described_object(value, where)


def _described_object(value: Any, where: str) -> Any:
    cls = type(value)
    adapter = adapter_of(value)
    if adapter is None and not isinstance(value, type) and dataclasses.is_dataclass(value):
        adapter = _fields
    if adapter is None:
        raise NoIdentityError(f"{where} is a {identity_name(cls)}, which fairtk cannot look into")
    found = {n: describe(v, f"{where}.{n}") for n, v in adapter(value).items()}
    return {"class": identity_name(cls), "made by": made_by(cls, where), **found}


def _described_function(function: types.FunctionType, where: str) -> Description:
    """Return the identity of a function of an installed package; others are refused."""
    owners = _owners(function.__module__.partition(".")[0])
    if not owners or "<" in function.__qualname__:
        raise NoIdentityError(f"{where} is the function {function.__qualname__}")
    return {"function": identity_name(function), "made by": _versions(owners)}


def _versions(owners: Iterable[str]) -> str:
    return ", ".join(f"{o} {version(o)}" for o in sorted(set(owners)))


def _fields(value: Any) -> dict[str, Any]:
    return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}


def _array_digest(value: Any, where: str) -> str:
    columns = [value[c] for c in value] if isinstance(value, pd.DataFrame) else [value]
    items = [i for c in columns if c.dtype == object for i in np.asarray(c).ravel().tolist()]
    for item in items:
        if not (item is None or isinstance(item, str | bytes | bool | int | float)):
            describe(item, where)  # refuses what would be told apart by its repr alone
    return digest(value, 16)


def made_by(cls: type, where: str) -> str:
    """Return the distribution that a class comes from with its version, or its file's digest.

    A class of a notebook or script is refused: its text may change.
    """
    module = cls.__module__
    top = module.partition(".")[0]
    if top == "fairtk":
        from fairtk import __version__

        return f"fairtk {__version__}"
    owners = _owners(top)
    if owners:
        return _versions(owners)
    if top in sys.stdlib_module_names and top != "__main__":
        return f"python {sys.version_info.major}.{sys.version_info.minor}"
    file = getattr(sys.modules.get(module), "__file__", None)
    if module == "__main__" or file is None:
        raise NoIdentityError(
            f"{where} is of the class {cls.__qualname__}, which is defined in a script or notebook"
        )
    return f"{module} #{file_digest(Path(file))}"


@functools.cache
def _owners(package: str) -> list[str]:
    """Return the distributions that a package comes from: packages_distributions, but for one."""
    found = set()  # an editable install from the current folder is found twice
    for distribution in importlib.metadata.distributions():
        names = (distribution.read_text("top_level.txt") or "").split()
        files = "" if names else "\n" + (distribution.read_text("RECORD") or "")
        if package in names or f"\n{package}/" in files or f"\n{package}.py," in files:
            found.add(distribution.metadata["Name"])
    return sorted(found)


def differences(before: Any, now: Any, where: str = "") -> Iterator[str]:
    """Yield where two identities differ, in words: ``"FairSampler.alpha: 1, now 2"``."""
    if isinstance(before, dict) and isinstance(now, dict):
        name = str(now.get("class", "")).rpartition(".")[2] or where
        if before.get("class") != now.get("class"):
            old = str(before.get("class", before.get("identified"))).rpartition(".")[2]
            yield f"{where or 'stage'}: {old}, now {name or now.get('identified')}"
            return
        for key in dict.fromkeys([*before, *now]):
            place = f"{name}.{key}" if name else key
            yield from differences(before.get(key), now.get(key), place)
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for number, (old, new) in enumerate(zip(before, now, strict=True)):
            yield from differences(old, new, f"{where}[{number}]" if where else "")
    elif before != now or type(before) is not type(now):
        yield f"{where or 'stages'}: {_short(before)}, now {_short(now)}"


def _short(value: Any) -> str:
    if isinstance(value, dict):
        return str(value.get("class", value.get("identified", "..."))).rpartition(".")[2]
    if isinstance(value, list):
        return " >> ".join(_short(item) for item in value)
    return repr(value)


_PACKAGES = (
    *("fairtk", "pyterrier", "ir_measures", "ir_datasets", "numpy", "pandas", "scipy", "pyarrow"),
    *("pytrec-eval-terrier", "cwl-eval", "pyterrier-pisa", "pyterrier-rag"),
    *("torch", "transformers", "tokenizers", "distributed"),
)


def environment() -> dict[str, Any]:
    """Return versions and the kind of machine, as JSON values; nothing that names a user."""
    from fairtk import __version__

    versions = {}
    for name in _PACKAGES:
        try:
            versions[name] = version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "fairtk": __version__,
        "python": sys.version.split()[0],
        "platform": f"{platform.system()} {platform.machine()}",
        "packages": versions,
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
    }
