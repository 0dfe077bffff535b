"""The plugin, which registers the studies of TOML files."""

from __future__ import annotations

from fairtk import hookimpl
from fairtk.plugins import StudySpec


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
