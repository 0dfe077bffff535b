"""Distributions as sparse rows, and how far apart two of them are."""

from __future__ import annotations

from fairtk.divergence.base import Divergence, log_of
from fairtk.divergence.jensen_shannon import JensenShannon, js_divergence, js_terms
from fairtk.divergence.kullback_leibler import (
    KullbackLeibler,
    ReverseKullbackLeibler,
    kl_divergence,
)
from fairtk.divergence.rows import Distributions, SparseRows, spread

__all__ = [
    "Distributions",
    "Divergence",
    "JensenShannon",
    "KullbackLeibler",
    "ReverseKullbackLeibler",
    "SparseRows",
    "js_divergence",
    "js_terms",
    "kl_divergence",
    "log_of",
    "spread",
]
