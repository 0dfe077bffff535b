"""Classic measures of group fairness in rankings, for fairtk.

Installing the distribution is all that is needed: the measures are then in ``fairtk measures``, in
strings, and in `ir_measures`.
"""

from __future__ import annotations

from fairtk import FairMeasure, hookimpl
from fairtk_classic.abr import ABR
from fairtk_classic.arp import ARP
from fairtk_classic.erbe import ERBE
from fairtk_classic.erbp import ERBP
from fairtk_classic.erbr import ERBR
from fairtk_classic.exp import EXP
from fairtk_classic.expru import EXPRU
from fairtk_classic.expu import EXPU
from fairtk_classic.fair_prefix import FAIR_prefix
from fairtk_classic.gfr import GFR
from fairtk_classic.iaa import IAA
from fairtk_classic.log_dp import logDP
from fairtk_classic.log_eur import logEUR
from fairtk_classic.log_rur import logRUR
from fairtk_classic.max_skew import MAX_SKEW as MaxSkew
from fairtk_classic.min_skew import MIN_SKEW as MinSkew
from fairtk_classic.ndkl import NDKL
from fairtk_classic.rkl import rKL
from fairtk_classic.rnd import rND
from fairtk_classic.rrd import rRD
from fairtk_classic.skew import SKEW as Skew

__all__ = [
    "ABR",
    "ARP",
    "ERBE",
    "ERBP",
    "ERBR",
    "EXP",
    "EXPRU",
    "EXPU",
    "FAIR_prefix",
    "GFR",
    "IAA",
    "MaxSkew",
    "MinSkew",
    "NDKL",
    "Skew",
    "logDP",
    "logEUR",
    "logRUR",
    "rKL",
    "rND",
    "rRD",
]


@hookimpl
def fairtk_measures() -> list[FairMeasure]:
    """Return the measures of this plugin."""
    return [globals()[name] for name in __all__]
