"""The plugin, which registers the studies of TOML files, and measures of published code."""

from __future__ import annotations

from fairtk import FairMeasure, hookimpl
from fairtk.plugins import StudySpec


@hookimpl
def fairtk_measures() -> list[FairMeasure]:
    """Return the measures of published code."""
    from fairtk_papers import published_code as code

    return [
        *(code.EE_D_expeval, code.EE_R_expeval, code.EE_L_expeval),
        *(code.GroupEE_D_expeval, code.GroupEE_R_expeval, code.GroupEE_L_expeval),
        *(code.EE_D_fair_rag, code.EE_R_fair_rag, code.EE_L_fair_rag),
    ]


@hookimpl
def fairtk_studies() -> list[StudySpec]:
    """Return the studies, named like their commands."""
    return [
        StudySpec(
            "rag",
            "fairtk_papers.fair_rag:RagConfiguration",
            "how fair rankings change generated answers",
            citation="kim2024fairrag",
        ),
        StudySpec(
            "qr",
            "fairtk_papers.fair_qr:QrConfiguration",
            "FAIR-QR against its baselines",
            citation="chen2025fairqr",
        ),
    ]
