"""The system ``deltr`` of the study: the retriever's candidates, ranked by DELTR."""

from __future__ import annotations

import inspect
from typing import Any

from fairtk.frames.columns import TEXT
from fairtk.studies.fair_qr.setting import Setting
from fairtk_baselines.deltr import DELTR
from fairtk_baselines.features import Features
from fairtk_baselines.study.options import check_names
from fairtk_baselines.study.vector_search import encoder_of
from fairtk_baselines.vectors import FEATURES
from fairtk_baselines.without_columns import WithoutColumns

_ENCODER = ("encoder", "dimensions")
_LEARNER = tuple(n for n in inspect.signature(DELTR).parameters if n not in ("groups", "seed"))


def build(setting: Setting) -> Any:
    """Return the retriever's candidates, ranked by `DELTR` over `Features`; to be fitted.

    Options: all settings of `DELTR` but its groups and seed, which are the setting's; and
    ``encoder``, with ``dimensions`` of ``"lsa"``, for a dense feature (none by default). One
    default differs from the class's: ``exposure="relative"``, since over a hundred candidates the
    paper's exposures are so small that ``gamma=1`` changes next to nothing.

    DELTR aims at equal mean exposure of two sides, not at the setting's target, which it
    never sees: where the target is far from equal, more of the one can be less of the other.

    Args:
        setting: what the study measures; the target is not looked at.

    Returns:
        A pipeline Q -> R with ``fit(topics, qrels)``.

    Raises:
        ParameterError: an option is unknown or out of its range.
    """
    options = check_names(setting.options, (*_LEARNER, *_ENCODER), "deltr")
    dense = "encoder" in options or "dimensions" in options
    features = Features(encoder_of(setting, options, "lsa") if dense else None)
    learner = {name: value for name, value in options.items() if name not in _ENCODER}
    rerank = DELTR(setting.groups, **{"exposure": "relative", **learner}, seed=setting.seed)
    candidates = setting.retriever % max(setting.candidates, setting.cutoff)
    # what comes after DELTR in a pipeline is not fitted, and does no harm while it is
    return candidates >> setting.texts >> features >> rerank >> WithoutColumns(TEXT, FEATURES)
