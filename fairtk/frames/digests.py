"""Content digests: objects with equal content have the same short string.

They decide whether settings such as qrels or groups are equal, and are part of cache keys.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from types import FunctionType
from typing import Any

import numpy as np
import pandas as pd

_WIDEST = {"i": "<i8", "u": "<u8", "f": "<f8", "c": "<c16"}


class EqualByContent:
    """Base of objects that are equal if their class and digest are; subclasses define `digest`."""

    def digest(self) -> str:
        """Return the digest of the content."""
        raise NotImplementedError(f"{type(self).__name__} must define digest")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.digest() == other.digest()

    def __hash__(self) -> int:
        return hash(self.digest())


def identity_name(kind: type | FunctionType) -> str:
    """Return the name of a class or function in identities and digests.

    A class that declares `identity_name` can move or be renamed; an inherited one does not count.
    The default is module and name.
    """
    declared = vars(kind).get("identity_name")
    if isinstance(declared, str):
        return declared
    return f"{kind.__module__}.{kind.__qualname__}"


def digest(value: Any, size: int = 8) -> str:
    """Return the hex digest of a value's content.

    Args:
        value: a frame (columns, values and row order count, the index does not), series, array,
            mapping, set, sequence, string, number, `None`, or an object with a ``digest`` method;
            any other object counts by its `repr`.
        size: the length in bytes; two hex digits each.
    """
    state = hashlib.blake2b(digest_size=size)
    _feed(state, value)
    return state.hexdigest()


def digests(shared: Sequence[Any], rests: Sequence[Sequence[Any]], size: int = 8) -> list[str]:
    """Return the `digest` of ``[*shared, *rest]`` for each rest; `shared` is hashed once."""
    starts: dict[int, hashlib.blake2b] = {}  # by length, which is hashed first
    hex_digests = []
    for rest in rests:
        if len(rest) not in starts:
            start = starts[len(rest)] = hashlib.blake2b(digest_size=size)
            start.update(f"list{len(shared) + len(rest)}".encode())
            for value in shared:
                _feed(start, value)
        state = starts[len(rest)].copy()
        for value in rest:
            _feed(state, value)
        hex_digests.append(state.hexdigest())
    return hex_digests


def _feed(state: hashlib.blake2b, value: Any) -> None:
    # A tag and a size come first, so that ["ab"] and ["a", "b"] differ.
    if isinstance(value, (str, bytes)):
        # an unpaired surrogate is valid content
        raw = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
        state.update(f"{type(value).__name__}{len(raw)}:".encode() + raw)
    elif isinstance(value, pd.DataFrame):
        state.update(f"frame{value.shape}".encode())
        for column in value.columns:
            _feed(state, str(column))
            _feed(state, value[column])
    elif isinstance(value, (pd.Series, pd.Index)):
        _feed(state, value.to_numpy(dtype=object, na_value=None))
    elif isinstance(value, np.ndarray):
        state.update(f"array{value.shape}".encode())
        if value.dtype == object:
            items = value.ravel().tolist()
            kinds = set(map(type, items))
            if kinds == {str}:  # faster: all values at once
                sizes = np.fromiter(map(len, items), np.int64, len(items))
                state.update(b"texts" + sizes.tobytes())
                state.update("".join(items).encode("utf-8", "surrogatepass"))
            elif kinds == {float}:
                numbers = np.array(items)
                numbers[np.isnan(numbers)] = np.nan  # NaN has several bit patterns
                _feed(state, numbers)
            elif kinds == {int} and -(2**63) <= min(items) <= max(items) < 2**63:
                _feed(state, np.array(items, np.int64))
            else:
                for item in items:
                    _feed(state, item)
        else:
            # the memory layout must not matter
            wide = value.astype(_WIDEST.get(value.dtype.kind, value.dtype), order="C", copy=False)
            state.update(str(wide.dtype).encode() + wide.tobytes())
    elif isinstance(value, Mapping):
        state.update(f"map{len(value)}".encode())
        for key in sorted(value, key=str):
            _feed(state, key)
            _feed(state, value[key])
    elif isinstance(value, (set, frozenset)):
        state.update(f"set{len(value)}".encode())
        for item in sorted(digest(item) for item in value):
            _feed(state, item)
    elif isinstance(value, (list, tuple)):
        state.update(f"list{len(value)}".encode())
        for item in value:
            _feed(state, item)
    elif hasattr(value, "digest") and callable(value.digest):
        _feed(state, f"{type(value).__qualname__}#{value.digest()}")
    else:
        _feed(state, f"{type(value).__name__}:{value!r}")
