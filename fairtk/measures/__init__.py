"""Measures: declarations beside the pure arithmetic of `fairtk.exposure` and `fairtk.utilities`."""

from __future__ import annotations

from fairtk.measures.awrf import AWRF, warn_of_thin_labels
from fairtk.measures.base import FairMeasure, drop_undefined
from fairtk.measures.by_group import ByGroup
from fairtk.measures.ee import EE_D, EE_L, EE_R
from fairtk.measures.eu import EU
from fairtk.measures.evidence import Evidence
from fairtk.measures.expectation import E
from fairtk.measures.ndcg_awrf import nDCG_AWRF
from fairtk.measures.ndcg_trec import nDCG_TREC
from fairtk.measures.notation import parse, written
from fairtk.measures.params import BROWSING, CUTOFF, GROUPS, TARGET, ObjectParam, Param
from fairtk.measures.product import Product
from fairtk.string_forms import read_browsing

MEASURES = (AWRF, ByGroup, E, EE_D, EE_L, EE_R, EU, Product, nDCG_AWRF, nDCG_TREC)
"""The built-in measures."""

__all__ = [
    "AWRF",
    "BROWSING",
    "ByGroup",
    "CUTOFF",
    "E",
    "EE_D",
    "EE_L",
    "EE_R",
    "EU",
    "Evidence",
    "FairMeasure",
    "GROUPS",
    "MEASURES",
    "ObjectParam",
    "Param",
    "Product",
    "TARGET",
    "drop_undefined",
    "nDCG_AWRF",
    "nDCG_TREC",
    "parse",
    "read_browsing",
    "warn_of_thin_labels",
    "written",
]
