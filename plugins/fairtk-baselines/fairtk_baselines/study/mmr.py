"""The system ``mmr`` of the study: the retriever's candidates, diversified."""

from __future__ import annotations

from typing import Any

from fairtk.frames.columns import TEXT
from fairtk.studies.fair_qr.setting import Setting
from fairtk_baselines.mmr import MMR
from fairtk_baselines.study.options import check_names
from fairtk_baselines.study.vector_search import encoder_of
from fairtk_baselines.vectors import DOC_VEC
from fairtk_baselines.without_columns import WithoutColumns

_OPTIONS = ("lambda", "normalize", "encoder", "dimensions")


def build(setting: Setting) -> Any:
    """Return the retriever's candidates in the order of maximal marginal relevance.

    Options: ``lambda`` (default 0.5) and ``normalize`` of `MMR`; ``encoder``, and ``dimensions`` of
    ``"lsa"``: with an encoder, similarity is that of its vectors, without one that of TF-IDF.
    MMR chooses the ranks that are measured.

    Args:
        setting: what the study measures; groups and target are not looked at.

    Raises:
        ParameterError: an option is unknown or out of its range.
    """
    options = check_names(setting.options, _OPTIONS, "mmr")
    dense = "encoder" in options or "dimensions" in options
    rerank: Any = MMR(
        options.get("lambda", 0.5),
        normalize=options.get("normalize", "min-max"),
        vectors=DOC_VEC if dense else TEXT,
        cutoff=setting.cutoff,
    )
    if dense:
        rerank = encoder_of(setting, options, "lsa").doc_encoder() >> rerank
    candidates = setting.retriever % max(setting.candidates, setting.cutoff)
    return candidates >> setting.texts >> rerank >> WithoutColumns(TEXT, DOC_VEC)
