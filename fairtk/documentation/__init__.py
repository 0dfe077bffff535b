"""Where things are explained, and what to cite for them."""

from __future__ import annotations

from fairtk.documentation.addresses import SITE, SOURCE, help_address
from fairtk.documentation.references import bibliography, citation_keys, cite, cite_results

__all__ = [
    "SITE",
    "SOURCE",
    "bibliography",
    "citation_keys",
    "cite",
    "cite_results",
    "help_address",
]
