"""The levels of groups: of one attribute, or of several crossed attributes.

A level of crossed attributes (``gender`` and ``region``) is a pair, numbered in numpy's C order:
the last attribute varies fastest. There can be millions of levels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, groupby
from typing import Any

import numpy as np
import pandas as pd

from fairtk.errors import InputError, ParameterError
from fairtk.frames import GROUP, BoolArray, FloatArray, IntArray
from fairtk.frames.ids import SURROGATE
from fairtk.wording import format_list, short

UNKNOWN = "@UNKNOWN"
"""The level of documents whose group is not known, as named in TREC Fair Ranking."""

UNIFORM, UNIFORM_WITH_UNKNOWN, POPULATION, RELEVANCE = TARGET_WORDS = (
    "uniform",
    "uniform+unknown",
    "population",
    "relevance",
)
"""Names of targets: equal shares of the named groups, or also of the unknown level; shares of all
documents; shares of relevant documents."""

OFFICIAL_TARGETS = {"trec-2022-task-1": 1, "trec-2022-task-2": 2}
"""The tasks of TREC Fair Ranking 2022 by the name of their official target."""

Level = str | tuple[str, ...]
"""A name, or a tuple with one name per crossed attribute."""


@dataclass(frozen=True)
class LevelSpace(Sequence[Level]):
    """The levels of one attribute, or of crossed attributes; a sequence of levels.

    Levels of crossed attributes are tuples, computed on access.

    Attributes:
        names: the attributes.
        levels: the levels of each attribute.
        unknown: the index of each attribute's unknown level; -1 if there is no such level.
    """

    names: tuple[str, ...]
    levels: tuple[tuple[str, ...], ...]
    unknown: tuple[int, ...]

    def __post_init__(self) -> None:
        for text in chain(self.names, *self.levels):
            if not isinstance(text, str):
                raise ParameterError(
                    f"the name of an attribute or of a level must be a string, got {short(text)}"
                )
            if SURROGATE.search(text):
                raise InputError(
                    f"unpaired surrogate in {text!r}; it was decoded wrongly, read the data again"
                )
        if "" in self.names:
            raise InputError("the name of an attribute must not be empty")
        twice = [n for i, n in enumerate(self.names) if n in self.names[:i]]
        if twice:
            raise InputError(
                f"duplicate attribute {twice[0]!r}; only attributes with different names can be "
                "crossed"
            )
        if self.size >= 1 << 62:
            raise InputError(
                f"crossing {list(self.names)} gives {float(self.size):.1e} groups, which is too "
                "many; cross fewer attributes"
            )

    @property
    def title(self) -> str:
        """The attributes' names, joined with ``*``."""
        return "*".join(self.names)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of levels of each attribute."""
        return tuple(len(levels) for levels in self.levels)

    @property
    def size(self) -> int:
        """Number of levels, or of combinations if attributes are crossed."""
        return math.prod(self.shape)

    @property
    def n_known(self) -> int:
        """Number of levels in which no attribute is unknown."""
        return math.prod(
            n - (unknown >= 0) for n, unknown in zip(self.shape, self.unknown, strict=True)
        )

    @property
    def crossed(self) -> bool:
        """Whether there is more than one attribute."""
        return len(self.names) > 1

    @cached_property
    def strides(self) -> tuple[int, ...]:
        """Difference between the flat numbers of neighboring levels of each attribute."""
        return tuple(math.prod(self.shape[i + 1 :]) for i in range(len(self.shape)))

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, number: Any) -> Any:
        if isinstance(number, slice):
            return [self[i] for i in range(*number.indices(self.size))]
        if not -self.size <= number < self.size:
            raise IndexError(number)
        indices = np.unravel_index(number % self.size, self.shape)
        names = tuple(levels[i] for levels, i in zip(self.levels, indices, strict=True))
        return names if self.crossed else names[0]

    def __contains__(self, level: object) -> bool:
        try:
            self.number(level)  # type: ignore[arg-type]
        except (InputError, TypeError):
            return False
        return True

    def number(self, level: Level) -> int:
        """Return the flat number of a level; raise an `InputError` if it is unknown."""
        parts = (level,) if isinstance(level, str) else tuple(level)
        if len(parts) != len(self.names):
            raise InputError(f"expected a level of {list(self.names)}, got {level!r}")
        result = 0
        for name, levels, part in zip(self.names, self.levels, parts, strict=True):
            if part not in levels:
                raise InputError(
                    f"unknown level {part!r} of {name!r}; known: {format_list(levels, 40)}"
                )
            result = result * len(levels) + levels.index(part)
        return result

    def attribute_index(self, attribute: str) -> int:
        """Return the index of an attribute; raise an `InputError` if it is unknown."""
        if attribute not in self.names:
            raise InputError(f"unknown attribute {attribute!r}; known: {list(self.names)}")
        return self.names.index(attribute)

    def part(self, attributes: Sequence[int]) -> LevelSpace:
        """Return the space of some attributes, given by index."""
        fields = (self.names, self.levels, self.unknown)
        return LevelSpace(*(tuple(own[i] for i in attributes) for own in fields))  # type: ignore[arg-type]

    def codes(self, level: IntArray, attribute: int) -> IntArray:
        """Return the index of each level's part in one attribute; shape of `level`."""
        return (level // self.strides[attribute]) % self.shape[attribute]

    def project(self, level: IntArray, attributes: Sequence[int]) -> IntArray:
        """Return the numbers of levels in the `part` of some attributes; shape of `level`."""
        result = np.zeros(len(level), dtype=np.int64)
        for _, run in groupby(enumerate(attributes), lambda item: item[1] - item[0]):
            indices = [attribute for _, attribute in run]  # one division for neighbors
            size = math.prod(self.shape[index] for index in indices)
            result = result * size + level // self.strides[indices[-1]] % size
        return result

    def extend(self, level: IntArray, attributes: Sequence[int]) -> IntArray:
        """Return the flat numbers of a `part`'s levels, with index 0 in the other attributes."""
        part, result = self.part(attributes), np.zeros(len(level), dtype=np.int64)
        for index, attribute in enumerate(attributes):
            result += part.codes(level, index) * self.strides[attribute]
        return result

    def cases(self, level: IntArray) -> IntArray:
        """Return which attributes of each level are known: bit i for attribute i; (n,)."""
        result = np.zeros(len(level), dtype=np.int64)
        for attribute, unknown in enumerate(self.unknown):
            is_known: Any = 1 if unknown < 0 else self.codes(level, attribute) != unknown
            result |= is_known * np.int64(1 << attribute)
        return result

    def known(self, level: IntArray) -> BoolArray:
        """Return whether all attributes of each level are known; shape of `level`."""
        return np.asarray(self.cases(level) == (1 << len(self.names)) - 1)

    def known_levels(self, attribute: int) -> FloatArray:
        """Return 1 for each known level of an attribute, 0 for the unknown one."""
        known = np.arange(self.shape[attribute]) != self.unknown[attribute]
        return np.asarray(known, dtype=np.float64)

    def columns(self, level: IntArray) -> dict[str, pd.Series]:
        """Return the names of levels in ``group``, or in one column per crossed attribute."""
        columns = {}
        for index, name in enumerate(self.names):
            names = np.array(self.levels[index], dtype=object)[self.codes(level, index)]
            columns[name if self.crossed else GROUP] = pd.Series(names, dtype="str")
        return columns
