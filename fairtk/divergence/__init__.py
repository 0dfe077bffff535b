"""Distributions as sparse rows, and how far apart two of them are."""

from __future__ import annotations

from fairtk.divergence.measures import (
    Distributions,
    SparseRows,
    jensen_shannon,
    jensen_shannon_terms,
    kullback_leibler,
    log_of,
    spread,
)

__all__ = [
    "Distributions",
    "SparseRows",
    "jensen_shannon",
    "jensen_shannon_terms",
    "kullback_leibler",
    "log_of",
    "spread",
]
