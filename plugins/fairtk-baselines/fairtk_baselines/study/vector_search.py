"""The system ``vector-search`` of the study: nearest vectors over the whole collection."""

from __future__ import annotations

from typing import Any

from fairtk.studies.fair_qr.setting import Setting
from fairtk_baselines import encoders
from fairtk_baselines.study.options import check_names
from fairtk_baselines.vector_search import VectorSearch

_OPTIONS = ("encoder", "search", "dimensions")


def build(setting: Setting) -> VectorSearch:
    """Return vector search over the setting's documents.

    Options: ``encoder`` (default ``"lsa"``; see `encoders.get`), ``dimensions`` of ``"lsa"``, and
    ``search`` (default ``"numpy"``; see `VectorSearch`). Vectors are kept in the setting's folder.

    Args:
        setting: what the study measures; groups and target are not looked at.

    Raises:
        ParameterError: an option is unknown or out of its range.
    """
    options = check_names(setting.options, _OPTIONS, "vector-search")
    return VectorSearch(
        encoder_of(setting, options, "lsa"),
        setting.documents,
        setting.folder / "vectors",
        num_results=max(setting.candidates, setting.cutoff),
        search=options.get("search", "numpy"),
        collection=setting.collection,
        seed=setting.seed,
    )


def encoder_of(setting: Setting, options: dict[str, Any], default: str) -> Any:
    """Return the bi-encoder that the options ``encoder`` and ``dimensions`` ask for.

    Args:
        setting: an LSA encoder is fitted on its documents and kept in its folder.
        options: the system's options.
        default: the encoder where the options name none.

    Raises:
        ParameterError: ``dimensions`` is out of range, or given for another encoder.
    """
    name = options.get("encoder", default)
    size = {"dimensions": options["dimensions"]} if "dimensions" in options else {}
    return encoders.get(
        name,
        setting.documents,
        setting.folder / "vectors" / f"lsa-{size.get('dimensions', 'default')}",
        setting.seed,
        collection=setting.collection,
        **size,
    )
