"""What tuning tries of each system by default."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fairtk.errors import NotFoundError
from fairtk.experiment.tuner import combinations
from fairtk.plugins import registry

_SEARCH = {"k1": (2.0,), "b": (0.4, 0.2, 0.75)}
"""BM25's, tried inside FAIR-QR, too: else its own tuning would be held against it."""
_THRESHOLDS = (0.02, 0.05, 0.1, 0.2, 0.4)
GRIDS: Mapping[str, Any] = {
    "bm25": {"k1": (0.9, 0.6, 1.2, 2.0), "b": (0.4, 0.2, 0.75)},
    "fair-qr": (
        {
            "threshold": _THRESHOLDS,
            "choose": ("difference", "ratio"),
            "divergence": ("kl", "js"),
            "k": (20, 50),
        },
        {"threshold": _THRESHOLDS, "pool": ("refined",), "k": (20, 50)},
        {"threshold": _THRESHOLDS, "depth": (10, 50)},
        {"threshold": _THRESHOLDS, **_SEARCH},
    ),
    "fair-qr + exposure re-ranking": (
        {
            "weight": (1.0, 0.3, 0.5, 0.7, 1.5, 2.0),
            "k": (200, 100, 500),
            "max_iterations": (5, 0),
        },
        {"weight": (1.0, 0.5, 2.0), "max_iterations": (5, 0), **_SEARCH},
    ),
}
"""Of this room's systems: name to grids, the first values first where several are best."""


def tried_settings(
    given: Mapping[str, Any] | None, known: Sequence[str]
) -> dict[str, tuple[Mapping[str, Any], ...]]:
    """Return the settings that tuning tries, by system.

    Args:
        given: name to grids; None: the defaults of all systems that have some.
        known: the systems there are.

    Raises:
        NotFoundError: there is no such system.
        ParameterError: a grid is empty, or values are not a list.
    """
    if given is None:
        plugins = {e.name: e.value.grid for e in registry.study_systems.entries()}
        given = {n: g for n, g in {**plugins, **GRIDS}.items() if g and n in known}
    for name in given:
        if name not in known:
            raise NotFoundError("system to tune", name, known)
    return {n: tuple(combinations(g, f"tuning of {n!r}")) for n, g in given.items()}
