"""Rankings drawn from a Plackett-Luce policy: pure arithmetic on arrays.

A Plackett-Luce policy draws documents one after another without replacement, each with a
probability proportional to ``exp(log-weight)`` among those that are left (*Towards Fair RAG*,
Eqs. 1 and 2). `scaling` turns retrieval scores into log-weights, `streams` gives every query its
own random numbers, `race` draws the rankings of one query, `stratified` draws them evenly spread,
`batch` those of many. `exact` has what documents can expect of the policy, without drawing,
and `calibration` at which alpha that is what is wanted; `probabilities` says how likely rankings
are.
"""

from fairtk.plackett_luce.batch import METHODS, Draws, draw_rankings
from fairtk.plackett_luce.calibration import find_alphas
from fairtk.plackett_luce.exact import expected_attention
from fairtk.plackett_luce.probabilities import log_step_probabilities
from fairtk.plackett_luce.scaling import SURE, log_weights, score_gaps
from fairtk.plackett_luce.streams import Stream

__all__ = [
    "METHODS",
    "SURE",
    "Draws",
    "Stream",
    "draw_rankings",
    "expected_attention",
    "find_alphas",
    "log_step_probabilities",
    "log_weights",
    "score_gaps",
]
