"""What can be chosen in DELTR, and the choices of the authors' own code."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from fairtk.errors import ParameterError, suggestion

CHOICES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "groups_apart": ("pooled", "each"),
        "exposure": ("top-one", "relative"),
        "unknown": ("neither", "unprotected"),
        "labels": ("softmax", "share"),
        "normalize_by": ("query", "all"),
        "average": ("queries", "documents"),
        "standardize": ("feature", "global", "none"),
        "optimizer": ("lbfgs", "gd"),
        "gradient": ("exact", "published"),
    }
)
"""The values that each of these settings may have, the default first."""

PUBLISHED: Mapping[str, Any] = MappingProxyType(
    {
        "unknown": "unprotected",
        "normalize_by": "all",
        "average": "documents",
        "standardize": "global",
        "l2": 0.0,
        "optimizer": "gd",
        "gradient": "published",
        "learning_rate": 0.001,
        "max_iterations": 3000,
        "init_range": 0.01,
    }
)
"""What the authors' code (fairsearch-deltr 1.0.2) does, as settings: ``DELTR(..., **PUBLISHED)``.

With ``standardize="none"`` it is that code's default; its documentation standardizes.
"""


def chosen(name: str, value: Any, where: str) -> str:
    """Return a setting that is one of `CHOICES`.

    Raises:
        ParameterError: it is none of them.
    """
    known = CHOICES[name]
    if not isinstance(value, str) or value not in known:
        raise ParameterError(
            f"{where}: {name} must be one of {list(known)}; found {value!r}"
            f"{suggestion(str(value), known) if isinstance(value, str) else ''}"
        )
    return value


def number(name: str, value: Any, where: str, *, above: bool = False) -> float:
    """Return a setting that is a finite number, of at least 0 or above it.

    Raises:
        ParameterError: it is not.
    """
    wanted = "a finite number above 0" if above else "a finite number of at least 0"
    try:
        if isinstance(value, str | bool):
            raise TypeError
        result = float(value)
    except (TypeError, ValueError, OverflowError):
        result = math.nan
    if not math.isfinite(result) or result < 0 or (above and result == 0):
        raise ParameterError(f"{where}: {name} must be {wanted}; found {value!r}")
    return result
