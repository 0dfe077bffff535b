"""Browsing models: how much attention a user, a person or a language model, pays to each rank.

A model has one weight per rank. In a cascade model (`GERR`), each useful document above reduces it.
Ranks count from 0, as in PyTerrier; papers count from 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from numbers import Real
from typing import Any, ClassVar

import numpy as np

from fairtk import checks
from fairtk.errors import MeasureError, ParameterError
from fairtk.frames import FloatArray, IntArray
from fairtk.statistics.arrays import returned_numbers
from fairtk.wording import short


@dataclass(frozen=True)
class BrowsingModel:
    """Base of all browsing models: frozen dataclasses that define `weights`.

    The string form, such as ``RBP(p=0.8)``, can be read back.

    Attributes:
        needs_cutoff: whether the model requires a cutoff (``@k``).
        typical: the settings for `fairtk.sensitivity`, if not the defaults.
    """

    needs_cutoff: ClassVar[bool] = False
    typical: ClassVar[Mapping[str, Any]] = {}

    @property
    def stop(self) -> float:
        """The probability of leaving after a useful document; 0 unless the model is a cascade."""
        return 0.0

    @property
    def total_square(self) -> float:
        """The sum of squared weights over all ranks; infinity if unbounded or unknown."""
        return math.inf

    def weights(self, ranks: IntArray) -> FloatArray:
        """Return the attention on each 0-based rank, before the cutoff is applied."""
        raise NotImplementedError(f"{type(self).__name__} must define weights(ranks)")

    def checked_weights(self, ranks: IntArray) -> FloatArray:
        """Return the `weights` of ranks, for measures and transformers.

        Raises:
            MeasureError: they are not one finite number of at least 0 per rank; or `stop` or
                `total_square` is out of its range.
        """
        where = f"browsing model {self!r} (module {type(self).__module__})"
        for name, most in (("stop", 1.0), ("total_square", math.inf)):
            value = getattr(self, name)
            if not isinstance(value, Real) or not 0 <= float(value) <= most:
                raise MeasureError(f"{where}: {name} must be in [0, {most:g}], got {short(value)}")
        rule = f"{where}: weights must return one finite number of at least 0 per rank"
        weight = returned_numbers(self.weights(ranks), len(ranks), rule)
        invalid = np.flatnonzero(~((weight >= 0) & (weight < math.inf)))
        if len(invalid):
            first = invalid[0]
            raise MeasureError(f"{rule}, got {weight[first]} for rank {ranks[first]}")
        return weight

    def __repr__(self) -> str:
        settings = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if f.repr)
        return f"{type(self).__name__}({settings})" if settings else type(self).__name__


@dataclass(frozen=True, repr=False)
class MU(BrowsingModel):
    """The machine user, who reads only the first k documents, with equal attention.

    The cutoff k is the measure's ``@k`` (Kim and Diaz, Towards Fair RAG, Eq. 4).
    """

    identity_name = "fairtk.MU"
    output_version = 1
    needs_cutoff: ClassVar[bool] = True

    def weights(self, ranks: IntArray) -> FloatArray:
        """Return 1 for each rank; the measure applies the cutoff."""
        return np.ones(len(ranks))


@dataclass(frozen=True, repr=False)
class RBP(BrowsingModel):
    """The user of rank-biased precision, who continues to the next rank with probability p.

    The weight is p^rank (Moffat and Zobel 2008; Diaz et al. 2020, Section 4.3).

    Attributes:
        p: patience, in [0, 1].
    """

    identity_name = "fairtk.RBP"
    output_version = 1
    typical: ClassVar[Mapping[str, Any]] = {"p": 0.8}
    p: float = 0.5

    def __post_init__(self) -> None:
        for one in fields(self):
            checks.share(one.name, getattr(self, one.name), type(self).__name__)

    @property
    def total_square(self) -> float:
        """The sum of p^(2 rank) over all ranks."""
        return 1.0 / (1.0 - self.p**2) if self.p < 1 else math.inf

    def weights(self, ranks: IntArray) -> FloatArray:
        """Return p to the power of the rank."""
        return np.power(float(self.p), ranks)


@dataclass(frozen=True, repr=False)
class GERR(RBP):
    """The cascade user of generalized expected reciprocal rank, as in Diaz et al. 2020.

    The user continues with probability p, and leaves after a useful document with probability u:
    the weight is p^rank (1 - u)^(number of useful documents above). As in expeval, each grade above
    0 is useful. `weights` assume that no document above is useful.

    Attributes:
        p: patience, in [0, 1].
        u: probability of leaving after a useful document, in [0, 1].
    """

    identity_name = "fairtk.GERR"
    output_version = 1
    u: float = 0.5

    @property
    def stop(self) -> float:
        """The probability u of leaving after a useful document."""
        return float(self.u)


@dataclass(frozen=True, repr=False)
class DCG(BrowsingModel):
    """The logarithmic discount of trec_eval's nDCG: 1 / log2(rank + 2), rank from 0."""

    identity_name = "fairtk.DCG"
    output_version = 1

    def weights(self, ranks: IntArray) -> FloatArray:
        """Return 1 / log2(rank + 2)."""
        return np.asarray(1.0 / np.log2(ranks + 2.0))


@dataclass(frozen=True, repr=False)
class TREC(BrowsingModel):
    """The discount of TREC Fair Ranking 2022: 1 / log2(max(rank + 1, 2)), rank from 0.

    The first two ranks have equal weights, unlike in `DCG` (Jarvelin and Kekalainen 2002, base 2).
    """

    identity_name = "fairtk.TREC"
    output_version = 1

    def weights(self, ranks: IntArray) -> FloatArray:
        """Return 1 / log2(max(rank + 1, 2))."""
        return np.asarray(1.0 / np.log2(np.maximum(ranks + 1.0, 2.0)))


@dataclass(frozen=True, repr=False)
class Fitted(BrowsingModel):
    """Weights of ranks estimated from a reader's behavior; see `fairtk.credit.fit_browsing`.

    They may rise with the rank, if readers skip the middle of a list. An ideal ranking then has the
    best documents at the ranks with most attention.

    Attributes:
        weight: the weights of the first ranks, each at least 0; later ranks have weight 0.
        standard_error: the standard errors of the weights; may be empty, and ignored by ``==``.
    """

    identity_name = "fairtk.Fitted"
    output_version = 1
    weight: tuple[float, ...]
    standard_error: tuple[float, ...] = field(default=(), compare=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.weight, tuple | list) or not self.weight:
            raise ParameterError(
                "Fitted: weight must be a list of weights, as in Fitted(weight=(1.0, 0.8)), got "
                f"{self.weight!r}"
            )
        weight = tuple(float(checks.number("weight", w, "Fitted", 0)) for w in self.weight)
        object.__setattr__(self, "weight", weight)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fitted) and self.weight == other.weight

    def __hash__(self) -> int:
        return hash(self.weight)

    @property
    def total_square(self) -> float:
        """The sum of squared weights."""
        return math.fsum(w * w for w in self.weight)

    def weights(self, ranks: IntArray) -> FloatArray:
        """Return the weight of each rank, 0 after the last."""
        padded = np.array([*self.weight, 0.0])
        return np.asarray(padded[np.minimum(ranks, len(self.weight))])
