"""The plugin with the measures and transformers of credit, loaded through an entry point."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fairtk.plugins import TransformerSpec, hookimpl


@hookimpl
def fairtk_measures() -> Iterable[Any]:
    """Return the measures of credit and citations."""
    from fairtk.credit import (
        AE_D,
        AE_L,
        AE_R,
        CitationPrecision,
        CitationRecall,
        CreditAWRF,
        CreditGap,
    )

    return [AE_D, AE_L, AE_R, CitationPrecision, CitationRecall, CreditAWRF, CreditGap]


@hookimpl
def fairtk_transformers() -> Iterable[TransformerSpec]:
    """Return the transformers for credit."""
    return [
        TransformerSpec(
            "Subsets",
            "fairtk.credit.subsets:Subsets",
            "each ranking without some of its documents",
            inputs="S",
            outputs="S",
            citation="cohenwang2024contextcite",
        ),
        TransformerSpec(
            "Citations",
            "fairtk.credit.citations:Citations",
            "the credit of documents from citations in answers",
            inputs="A",
            outputs="C",
            citation="aggarwal2024geo",
        ),
    ]
