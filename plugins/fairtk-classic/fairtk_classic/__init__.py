"""Classic measures of group fairness in rankings, for fairtk.

After installation, the measures are available in ``fairtk measures``, as strings, and in
`ir_measures`.
"""

from __future__ import annotations

from fairtk import FairMeasure, hookimpl
from fairtk_classic.arp import ARP
from fairtk_classic.exposures import ABR, ERBE, ERBP, ERBR, EXP, EXPRU, EXPU
from fairtk_classic.gfr import GFR
from fairtk_classic.iaa import IAA
from fairtk_classic.log_ratios import logDP, logEUR, logRUR
from fairtk_classic.peer import PEER
from fairtk_classic.prefixes import FAIR_prefix, rKL, rND, rRD
from fairtk_classic.targets import MAX_SKEW as MaxSkew
from fairtk_classic.targets import MIN_SKEW as MinSkew
from fairtk_classic.targets import NDKL
from fairtk_classic.targets import SKEW as Skew

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
    "PEER",
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
    return [globals()[name] for name in __all__ if name != "ABR"]  # ABR is EXP with settings
