"""The system ``dlf`` of the study: the retriever's candidates, ranked by DLF."""

from __future__ import annotations

import inspect
from typing import Any

from fairtk.frames.columns import TEXT
from fairtk.studies.fair_qr.setting import Setting
from fairtk_baselines.dlf import DLF
from fairtk_baselines.study.options import check_names
from fairtk_baselines.study.vector_search import encoder_of
from fairtk_baselines.vectors import DOC_VEC, QUERY_VEC

_ENCODER = ("encoder", "dimensions")
_SETTINGS = ("groups", "target", "seed", "drop")
_LEARNER = tuple(n for n in inspect.signature(DLF).parameters if n not in _SETTINGS)


def build(setting: Setting) -> Any:
    """Return the retriever's candidates, ranked by `DLF`; to be fitted.

    Options: the settings of `DLF` but groups, target and seed, which are the setting's; and
    ``encoder`` (default ``"lsa"``; see `encoders.get`), with ``dimensions`` of ``"lsa"``. The
    ``cutoff`` is the one that is measured unless it is given. The target, which comes from
    relevance judgments, is read for training topics only: unlike FAIR-QR and FA*IR as the study
    sets them up, DLF has no oracle at retrieval time.

    Args:
        setting: what the study measures.

    Returns:
        A pipeline Q -> R with ``fit(topics, qrels)``.

    Raises:
        ParameterError: an option is unknown or out of its range.
    """
    options = check_names(setting.options, (*_LEARNER, *_ENCODER), "dlf")
    learner = {name: value for name, value in options.items() if name not in _ENCODER}
    rerank = DLF(
        setting.groups,
        setting.target,
        **{"cutoff": setting.cutoff, **learner},
        seed=setting.seed,
        drop=(TEXT, QUERY_VEC, DOC_VEC),
    )
    encoder = encoder_of(setting, options, "lsa")
    candidates = setting.retriever % max(setting.candidates, setting.cutoff) >> setting.texts
    return candidates >> encoder.query_encoder() >> encoder.doc_encoder() >> rerank
