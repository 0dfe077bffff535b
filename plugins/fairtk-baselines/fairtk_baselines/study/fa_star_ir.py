"""The system ``fa*ir`` of the study: the retriever's candidates, in FA*IR's order."""

from __future__ import annotations

import inspect
from typing import Any

from fairtk.studies.fair_qr.setting import Setting
from fairtk_baselines.fa_star_ir import FAStarIR
from fairtk_baselines.study.options import check_names

_OPTIONS = tuple(n for n in inspect.signature(FAStarIR).parameters if n not in ("groups", "seed"))


def build(setting: Setting) -> Any:
    """Return the retriever's candidates, reranked by `FAStarIR`.

    Options: all settings of `FAStarIR` but its groups and seed, which are the setting's. Defaults
    that differ from the class's:

    * ``p``: each topic's shares in the setting's target. That comes from relevance judgments, so
      FA*IR is given the oracle that FAIR-QR is given, and no other.
    * ``cutoff``: the cutoff that is measured.
    * ``test="multinomial"``: the measure looks at every level, and so does this test; the binomial
      one sees only whether a document is of the most exposed level. Where a topic's target has one
      protected level the two are the same. With a number as ``p`` the default is ``"binomial"``.

    Args:
        setting: what the study measures.

    Raises:
        ParameterError: an option is unknown or out of its range.
    """
    options = dict(check_names(setting.options, _OPTIONS, "fa*ir"))
    share = options.setdefault("p", setting.target)
    one_number = isinstance(share, int | float)
    options.setdefault("test", "binomial" if one_number else "multinomial")
    options.setdefault("cutoff", setting.cutoff)
    rerank = FAStarIR(setting.groups, **options, seed=setting.seed)
    return setting.retriever % max(setting.candidates, setting.cutoff) >> rerank
